"""Transactions, access control, quotas, expiring znodes, aux reads, reads without a leader."""

from typing import Any

from msgspec.structs import replace

from raykeeper.server import read_processor
from raykeeper.server.connection import PendingSync, RejectedRequest
from raykeeper.server.container_manager import ContainerManager
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.read_only_mode import ReadOnlyMode
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes import multi_preparer, op_preparer, pages, reads
from raykeeper.znodes.acl import OPEN_ACL, Permission
from raykeeper.znodes.multi_preparer import MultiPreparer
from raykeeper.znodes.op_preparer import OpPreparer
from raykeeper.znodes.outstanding_changes import OutstandingChanges
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.quotas import OutstandingQuotas, count_subtree
from raykeeper.znodes.replies import EmptyReply, GetEphemeralsReply
from raykeeper.znodes.requests import ReadData, Sync
from raykeeper.znodes.sessions import SessionTable
from raykeeper.znodes.txns import MultiTxn, OpFailed, OpValue
from raykeeper.znodes.znode import CONTAINER
from tests.simulation.mutations.mutation import Mutation, instead

HOUR_MS = 3_600_000


def _what_was_done_stays(right: Any) -> Any:
    def discard(self: OutstandingChanges) -> None:
        self.commit(ZERO)

    return discard


def _half_of_it(right: Any) -> Any:
    def prepare(self: MultiPreparer, *rest: Any) -> Any:
        change = right(self, *rest)
        if isinstance(change, MultiTxn) and len(change.changes) > 1:
            return replace(change, changes=change.changes[:-1])
        return change

    return prepare


def _as_it_was_before(right: Any) -> Any:
    def read(self: MultiPreparer, identities: Any, op: Any) -> Any:
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
    """Check no permission of this kind."""

    def make(right: Any) -> Any:
        return lambda acls, who, asked: asked == permission or right(acls, who, asked)

    return make


def _hashes_are_shown(right: Any) -> Any:
    return lambda acls, identities: OPEN_ACL if acls is None else acls


def _anybody_is_super(right: Any) -> Any:
    def identified(self: PrepRequestProcessor, session: Any, op: Any) -> Any:
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
    def set_acls(self: OpPreparer, zxid: Any, identities: Any, op: Any) -> Any:
        return right(self, zxid, identities, replace(op, version=-1))

    return set_acls


def _refreshed_or_not(right: Any) -> Any:
    def end_znode(self: PrepRequestProcessor, zxid: Any, wall_ms: Any, path: str, seen: Any) -> Any:
        record = self._tree.find(path)
        if record is None or record.num_children:
            return None
        return right(self, zxid, wall_ms, path, record)

    return end_znode


def _before_its_first_child(right: Any) -> Any:
    def on_value(self: ContainerManager, path: str, now: Millis) -> None:
        right(self, path, now)
        znode = self._state.tree.znodes[path]
        is_container = znode.attributes is not None and znode.attributes.ttl_ms == CONTAINER
        if is_container and not znode.children:
            self._grace_ends[path] = now
            self._push(path, now)

    return on_value


def _without_a_grace(right: Any) -> Any:
    def init(self: ContainerManager, state: Any, now: Millis, _grace_ms: Millis) -> None:
        right(self, state, now, 0)

    return init


def _long_ago(right: Any) -> Any:
    def init(self: ContainerManager, state: Any, now: Millis, grace_ms: Millis) -> None:
        right(self, state, now, grace_ms)
        self._began = (now, Millis(state.time_ms + HOUR_MS))

    return init


class _ByTheWallClock(ContainerManager):
    def __init__(self, context: Any) -> None:
        super().__init__(context.state, context.now.wall, context.options.container_grace_ms)
        self._context = context

    def on_txn(self, change: Any, now: Millis) -> None:
        super().on_txn(change, self._context.now.wall)

    def pop_due(self, now: Millis, most: int) -> Any:
        return super().pop_due(self._context.now.wall, most)

    def is_behind(self, now: Millis) -> bool:
        return super().is_behind(self._context.now.wall)

    def retry(self, path: str, now: Millis) -> None:
        super().retry(path, self._context.now.wall)


def _due_by_the_wall_clock(right: Any) -> Any:
    def init(self: LeaderRequestProcessor, context: Any, *rest: Any) -> None:
        right(self, context, *rest)
        self._container_manager = _ByTheWallClock(context)

    return init


def _at_leisure(right: Any) -> Any:
    return lambda self, path, due: right(self, path, Millis(due + 2_000))


def _what_is_applied_counts(right: Any) -> Any:
    def usage_at(self: OutstandingQuotas, subtree: str) -> Any:
        return count_subtree(self._usage_of.__self__._znodes, subtree)  # type: ignore[attr-defined]

    return usage_at


def _the_nearest_one(right: Any) -> Any:
    def above(self: OutstandingQuotas, path: str) -> Any:
        yield from list(right(self, path))[:1]

    return above


def _without_a_word_of_the_leader(right: Any) -> Any:
    def init(self: PendingSync, request: Any, connection: Any) -> None:
        right(self, request, connection)
        if not isinstance(request, Sync):
            self.read_index = ZERO

    return init


def _keeps_its_password(right: Any) -> Any:
    def opened(
        self: PrepRequestProcessor, zxid: Any, server: Any, connection: Any, request: Any, host: Any
    ) -> Any:
        return right(self, zxid, server, connection, replace(request, new_password=b""), host)

    return opened


def _synced_with_nobody(right: Any) -> Any:
    def allowed(self: ReadOnlyMode, requests: Any) -> Any:
        zxid = self._context.state.zxid
        return [
            RejectedRequest(EmptyReply(request.xid, zxid)) if isinstance(request, Sync) else local
            for request, local in zip(requests, right(self, requests), strict=True)
        ]

    return allowed


def _itself_too(right: Any) -> Any:
    return lambda xid, zxid, count, *rest: right(xid, zxid, count + 1, *rest)


def _missing_is_an_error(right: Any) -> Any:
    def result(*asked: Any) -> Any:
        found = right(*asked)
        return OpFailed(-101) if getattr(found, "stat", 0) is None else found

    return result


def _ephemerals_of_all(right: Any) -> Any:
    def reply(state: Any, session: Any, request: Any, page: int) -> Any:
        item = right(state, session, request, page)
        if not isinstance(item, GetEphemeralsReply):
            return item
        every = {path for paths in state.tree.ephemerals.values() for path in paths}
        return replace(item, paths=sorted(p for p in every if p.startswith(request.path)))

    return reply


def _of_an_open_znode(right: Any) -> Any:
    def result(op: Any, identities: Any, znode: Any, *how: Any) -> Any:
        return right(op, identities, znode and replace(znode, attributes=None), *how)

    return result


def _yes(*_asked: Any) -> bool:
    return True


MUTATIONS = [
    Mutation(
        "transactions",
        "an aborted transaction leaves its first changes",
        [(OutstandingChanges, "rollback", _what_was_done_stays)],
    ),
    Mutation(
        "transactions", "the last change is left out", [(MultiPreparer, "prepare", _half_of_it)]
    ),
    Mutation(
        "transactions",
        "a read shows the state before the operations",
        [(MultiPreparer, "_read", _as_it_was_before)],
    ),
    Mutation(
        "transactions",
        "all conditions count as true",
        [(MultiPreparer, "_holds", _conditions_hold)],
    ),
    Mutation(
        "transactions",
        "the results are not kept with the outcome",
        [(SessionTable, "record", _without_results)],
    ),
    Mutation(
        "access",
        "a znode is written without WRITE",
        [(op_preparer, "is_allowed", _without(Permission.WRITE))],
    ),
    Mutation(
        "access",
        "a child is created without CREATE",
        [(op_preparer, "is_allowed", _without(Permission.CREATE))],
    ),
    Mutation("access", "a znode is read without READ", [(reads, "is_allowed", lambda _: _yes)]),
    Mutation(
        "access",
        "a transaction reads without READ",
        [(multi_preparer, "result_of_read", _of_an_open_znode)],
    ),
    Mutation(
        "access", "hashes are shown to all clients", [(reads, "mask_hashes", _hashes_are_shown)]
    ),
    Mutation(
        "access",
        "any identity is a super user",
        [(PrepRequestProcessor, "_identified", _anybody_is_super)],
    ),
    Mutation(
        "access",
        "the version of an ACL is ignored",
        [(OpPreparer, "set_acls", _at_any_version)],
    ),
    Mutation(
        "expiring znodes",
        "a znode expires that was refreshed in time",
        [(PrepRequestProcessor, "prepare_delete_expired", _refreshed_or_not)],
        200,
    ),
    Mutation(
        "expiring znodes",
        "znodes expire two seconds late",
        [(ContainerManager, "_push", _at_leisure)],
    ),
    Mutation(
        "expiring znodes",
        "znodes are due by the wall clock",
        [(LeaderRequestProcessor, "__init__", _due_by_the_wall_clock)],
        200,
    ),
    Mutation(
        "expiring znodes",
        "a container expires before its first child",
        [(ContainerManager, "_on_value", _before_its_first_child)],
    ),
    Mutation(
        "expiring znodes",
        "a container has no grace",
        [(ContainerManager, "__init__", _without_a_grace)],
    ),
    Mutation(
        "expiring znodes",
        "a new leader counts znodes as older than they are",
        [(ContainerManager, "__init__", _long_ago)],
    ),
    Mutation(
        "expiring znodes",
        "a new leader ignores existing znodes",
        [(ContainerManager, "_scan_initial", instead(lambda self: None))],
    ),
    Mutation(
        "expiring znodes",
        "a container stays after its last child",
        [(ContainerManager, "_on_deleted", instead(lambda self, path, now: None))],
    ),
    Mutation(
        "quotas",
        "outstanding changes do not count",
        [(OutstandingQuotas, "_usage_at", _what_is_applied_counts)],
        200,
    ),
    Mutation(
        "quotas", "only the nearest quota counts", [(OutstandingQuotas, "_above", _the_nearest_one)]
    ),
    Mutation(
        "quotas",
        "an aborted transaction uses the quota up",
        [(OutstandingQuotas, "rollback", instead(OutstandingQuotas.commit))],
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
        "a session taken over keeps its password",
        [(PrepRequestProcessor, "_opened", _keeps_its_password)],
    ),
    Mutation(
        "read-only",
        "a sync succeeds without a leader",
        [(ReadOnlyMode, "reject_writes", _synced_with_nobody)],
        200,
    ),
    Mutation(
        "aux reads", "a count includes its root", [(pages, "CountDescendantsReply", _itself_too)]
    ),
    Mutation(
        "aux reads",
        "a missing znode among several is an error",
        [(reads, "result_of_read", _missing_is_an_error)],
    ),
    Mutation(
        "aux reads",
        "the ephemerals of all sessions are listed",
        [(read_processor, "reply_to_aux_read", _ephemerals_of_all)],
    ),
]
