"""Transactions, access control, quotas, what ends by itself, inquiries, reads without a leader."""

from typing import Any

from msgspec.structs import replace

from raykeeper.server import answers
from raykeeper.server.connection import Denied, PendingSync
from raykeeper.server.leading import Leading
from raykeeper.server.mortals import Mortals
from raykeeper.server.read_only import ReadOnly
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes import operations, pages, reads, transactions
from raykeeper.znodes.acl import OPEN, Permission
from raykeeper.znodes.future import FutureTree
from raykeeper.znodes.operations import Operations
from raykeeper.znodes.preparation import Preparation
from raykeeper.znodes.quotas import FutureQuotas, count
from raykeeper.znodes.replies import Done, PathsRead
from raykeeper.znodes.requests import ReadData, Sync
from raykeeper.znodes.sessions import SessionTable
from raykeeper.znodes.traits import CONTAINER
from raykeeper.znodes.transactions import Transactions
from raykeeper.znodes.txns import OpFailed, OpValue, Several
from tests.simulation.mutations.mutation import Mutation, instead

HOUR_MS = 3_600_000


def _what_was_done_stays(right: Any) -> Any:
    def discard(self: FutureTree) -> None:
        self.settle(ZERO)

    return discard


def _half_of_it(right: Any) -> Any:
    def prepare(self: Transactions, *rest: Any) -> Any:
        change = right(self, *rest)
        if isinstance(change, Several) and len(change.changes) > 1:
            return replace(change, changes=change.changes[:-1])
        return change

    return prepare


def _as_it_was_before(right: Any) -> Any:
    def read(self: Transactions, identities: Any, op: Any) -> Any:
        found = right(self, identities, op)
        znode = self._tree._tree.znodes.get(op.path)
        if isinstance(op, ReadData) and isinstance(found, tuple) and znode is not None:
            assert isinstance(found[1], OpValue)
            return None, OpValue(znode.value, found[1].stat)
        return found

    return read


def _conditions_hold(right: Any) -> Any:
    return lambda self, identities, compare: True


def _without_results(right: Any) -> Any:
    def record(self: SessionTable, session: Any, number: int, acked: int, outcome: Any) -> None:
        right(self, session, number, acked, replace(outcome, results=None))

    return record


def _without(permission: int) -> Any:
    """Nobody needs it."""

    def make(right: Any) -> Any:
        return lambda acls, who, asked: asked == permission or right(acls, who, asked)

    return make


def _hashes_are_shown(right: Any) -> Any:
    return lambda acls, identities: OPEN if acls is None else acls


def _anybody_is_super(right: Any) -> Any:
    def identified(self: Preparation, session: Any, op: Any) -> Any:
        limits, self._limits = self._limits, replace(self._limits, super_identities=_Everybody())
        try:
            return right(self, session, op)
        finally:
            self._limits = limits

    return identified


class _Everybody(tuple[Any, ...]):
    def __contains__(self, _identity: object) -> bool:
        return True


def _at_any_version(right: Any) -> Any:
    def set_acls(self: Operations, zxid: Any, identities: Any, op: Any) -> Any:
        return right(self, zxid, identities, replace(op, version=-1))

    return set_acls


def _refreshed_or_not(right: Any) -> Any:
    def end_znode(self: Preparation, zxid: Any, wall_ms: Any, path: str, mzxid: Any) -> Any:
        record = self._tree.find(path)
        return right(self, zxid, wall_ms, path, mzxid if record is None else record.mzxid)

    return end_znode


def _before_its_first_child(right: Any) -> Any:
    def schedule(self: Mortals, path: str, now: Millis) -> None:
        right(self, path, now)
        znode = self._state.tree.znodes[path]
        is_container = znode.traits is not None and znode.traits.ttl_ms == CONTAINER
        if is_container and not znode.children:
            self._queue(path, now)

    return schedule


def _long_ago(right: Any) -> Any:
    def init(self: Mortals, state: Any, now: Millis) -> None:
        right(self, state, now)
        self._began = (now, Millis(state.time_ms + HOUR_MS))

    return init


class _ByTheWallClock(Mortals):
    def __init__(self, context: Any) -> None:
        super().__init__(context.state, context.now.wall)
        self._context = context

    def changed(self, change: Any, now: Millis) -> None:
        super().changed(change, self._context.now.wall)

    def due(self, now: Millis, most: int) -> Any:
        return super().due(self._context.now.wall, most)

    def is_behind(self, now: Millis) -> bool:
        return super().is_behind(self._context.now.wall)

    def put_back(self, path: str, now: Millis) -> None:
        super().put_back(path, self._context.now.wall)


def _due_by_the_wall_clock(right: Any) -> Any:
    def init(self: Leading, context: Any, *rest: Any) -> None:
        right(self, context, *rest)
        self._mortals = _ByTheWallClock(context)

    return init


def _at_leisure(right: Any) -> Any:
    return lambda self, path, due: right(self, path, Millis(due + 2_000))


def _what_is_applied_counts(right: Any) -> Any:
    def usage_at(self: FutureQuotas, subtree: str) -> Any:
        return count(self._usage_of.__self__._znodes, subtree)  # type: ignore[attr-defined]

    return usage_at


def _the_nearest_one(right: Any) -> Any:
    def above(self: FutureQuotas, path: str) -> Any:
        yield from list(right(self, path))[:1]

    return above


def _without_a_word_of_the_leader(right: Any) -> Any:
    def init(self: PendingSync, request: Any, connection: Any) -> None:
        right(self, request, connection)
        if not isinstance(request, Sync):
            self.point = ZERO

    return init


def _keeps_its_password(right: Any) -> Any:
    def opened(
        self: Preparation, zxid: Any, server: Any, connection: Any, request: Any, host: Any
    ) -> Any:
        return right(self, zxid, server, connection, replace(request, new_password=b""), host)

    return opened


def _synced_with_nobody(right: Any) -> Any:
    def allowed(self: ReadOnly, requests: Any) -> Any:
        zxid = self._context.state.zxid
        return [
            Denied(Done(request.xid, zxid)) if isinstance(request, Sync) else local
            for request, local in zip(requests, right(self, requests), strict=True)
        ]

    return allowed


def _itself_too(right: Any) -> Any:
    return lambda xid, zxid, count, *rest: right(xid, zxid, count + 1, *rest)


def _missing_is_an_error(right: Any) -> Any:
    def result(state: Any, identities: Any, op: Any) -> Any:
        found = right(state, identities, op)
        return OpFailed(-101) if getattr(found, "stat", 0) is None else found

    return result


def _ephemerals_of_all(right: Any) -> Any:
    def inquire(state: Any, session: Any, request: Any, page: int) -> Any:
        item = right(state, session, request, page)
        if not isinstance(item, PathsRead):
            return item
        every = {path for paths in state.tree.ephemerals.values() for path in paths}
        return replace(item, paths=sorted(p for p in every if p.startswith(request.path)))

    return inquire


def _yes(*_asked: Any) -> bool:
    return True


MUTATIONS = [
    Mutation(
        "transactions",
        "an aborted one leaves what came before",
        [(FutureTree, "discard", _what_was_done_stays)],
    ),
    Mutation(
        "transactions", "the last change is left out", [(Transactions, "prepare", _half_of_it)]
    ),
    Mutation(
        "transactions",
        "a read shows what was before the operations",
        [(Transactions, "_read", _as_it_was_before)],
    ),
    Mutation(
        "transactions",
        "all conditions hold",
        [(Transactions, "_holds", _conditions_hold)],
    ),
    Mutation(
        "transactions",
        "the results are not kept with the outcome",
        [(SessionTable, "record", _without_results)],
    ),
    Mutation(
        "access",
        "a znode is written without WRITE",
        [(operations, "allows", _without(Permission.WRITE))],
    ),
    Mutation(
        "access",
        "a child is made without CREATE",
        [(operations, "allows", _without(Permission.CREATE))],
    ),
    Mutation("access", "a znode is read without READ", [(reads, "may", lambda _: _yes)]),
    Mutation(
        "access",
        "a transaction reads without READ",
        [(transactions, "may", lambda _: _yes)],
    ),
    Mutation("access", "hashes are shown to everybody", [(reads, "masked", _hashes_are_shown)]),
    Mutation(
        "access", "any identity is a super user", [(Preparation, "_identified", _anybody_is_super)]
    ),
    Mutation(
        "access",
        "the version of an ACL is ignored",
        [(Operations, "set_acls", _at_any_version)],
    ),
    Mutation(
        "endings",
        "a znode goes that was refreshed in time",
        [(Preparation, "end_znode", _refreshed_or_not)],
        200,
    ),
    Mutation("endings", "they end two seconds late", [(Mortals, "_queue", _at_leisure)]),
    Mutation(
        "endings",
        "they are due by the wall clock",
        [(Leading, "__init__", _due_by_the_wall_clock)],
        200,
    ),
    Mutation(
        "endings",
        "a container goes before it had a child",
        [(Mortals, "_schedule", _before_its_first_child)],
    ),
    Mutation(
        "endings",
        "a new leader takes all for older than they are",
        [(Mortals, "__init__", _long_ago)],
    ),
    Mutation(
        "endings",
        "a new leader does not know of those that are there",
        [(Mortals, "_read", instead(lambda self: None))],
    ),
    Mutation(
        "endings",
        "the end of the last child leaves its container",
        [(Mortals, "_gone", instead(lambda self, path, now: None))],
    ),
    Mutation(
        "quotas",
        "what is under way does not count",
        [(FutureQuotas, "_usage_at", _what_is_applied_counts)],
        200,
    ),
    Mutation("quotas", "only the nearest one counts", [(FutureQuotas, "_above", _the_nearest_one)]),
    Mutation(
        "quotas",
        "an aborted transaction has used them up",
        [(FutureQuotas, "discard", instead(FutureQuotas.settle))],
        200,
    ),
    Mutation(
        "Z4",
        "a linearizable read is answered without the leader",
        [(PendingSync, "__init__", _without_a_word_of_the_leader)],
        200,
    ),
    Mutation(
        "sessions",
        "one that is taken over keeps its password",
        [(Preparation, "_opened", _keeps_its_password)],
    ),
    Mutation(
        "read-only",
        "a sync succeeds without a leader",
        [(ReadOnly, "allowed", _synced_with_nobody)],
        200,
    ),
    Mutation("inquiries", "a count has its root in it", [(pages, "CountRead", _itself_too)]),
    Mutation(
        "inquiries",
        "a missing znode among several is an error",
        [(reads, "_result", _missing_is_an_error)],
    ),
    Mutation(
        "inquiries",
        "the ephemerals of all sessions are told",
        [(answers, "inquire", _ephemerals_of_all)],
    ),
]
