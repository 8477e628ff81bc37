"""Two-phase commit: either all of several sites commit a transaction, or none of them does.

    trip = client.two_phase_commit("/transactions/trip-42")

    trip.begin(["hotel", "flight"], b"what it is about")    # the coordinator
    decision = trip.decide(timeout_s=30)

    trip.join("hotel")                                      # each site
    trip.vote("hotel", commit=True)     # once it can do it for sure, even after a crash
    if trip.outcome() is Decision.COMMIT: ...

    PATH                    the decision, empty while there is none
    PATH/sites/NAME         the sites that must vote; the value of `sites` is the data for them
    PATH/votes/NAME         their votes
    PATH/present/NAME       sites that have joined and are alive, ephemeral
    PATH/coordinator        alive, ephemeral

The decision is one write to the znode at version 0, so it is made only once. The invariants of this
file: COMMIT is written only under the condition that every site has voted to commit; a vote is
written only while there is no decision, and never changes; a call decides, and waits for, the
transaction that it found first, never one that was begun later at the same path. So any client that
finds the coordinator dead may decide in its place: all see the same decision, whichever client was
quicker.

The community's seed has the table of crashes; kazoo and Curator have no such recipe. Paper: Gray,
"Notes on Data Base Operating Systems"; without a coordination service a coordinator that dies
blocks its sites.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any

from msgspec import Struct

from raykeeper.client.core.flows import Event, Flow, MappedRequest, Now, Wait, with_cleanup
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.results import path_and_stat_of
from raykeeper.client.errors import (
    BadArgumentsError,
    InvalidValueError,
    KeeperError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RecipeError,
)
from raykeeper.client.recipes.primitives import (
    ATTEMPTS_MAX,
    best_effort_cleanup,
    checked_bytes,
    checked_millis,
    checked_root,
    delete_if_same,
    ensure_parent,
    get_all,
    get_or_none,
    is_same,
    pending_watches,
    reread_changed,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.paths import join, parent_of
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    TxnOp,
)
from raykeeper.znodes.stat import Stat

SITES_MAX = 300
"""The bound of sites: one transaction must be able to delete all their znodes."""
_UNDECIDED = 0  # the version


class Decision(Enum):
    """A decision, or a vote."""

    COMMIT = b"commit"
    ABORT = b"abort"


class CommitProgress(Struct, frozen=True):
    """The progress of a two-phase commit."""

    decision: Decision | None
    data: bytes
    votes: dict[str, Decision | None]
    """The vote of every site; None while it has not voted."""
    present: list[str]
    """The sites that have joined and whose sessions are alive."""


class _Joined(bytes):
    """The data that a site gets as it joins; it leaves again if nobody takes them."""

    _leave: Multi

    def __new__(cls, data: bytes, leave: Multi) -> "_Joined":
        joined = super().__new__(cls, data)
        joined._leave = leave
        return joined

    def _release(self) -> Flow[None]:
        yield from best_effort_cleanup([self._leave])

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)


class TwoPhaseCommit(PortableRecipe[K]):
    """One transaction of several sites, as its coordinator, a site or a successor sees it.

    Every operation but `begin` raises NoNodeError if the transaction was not begun, or is finished.
    """

    def __init__(self, client: FlowRunner, path: str) -> None:
        """Use `Client.two_phase_commit`."""
        super().__init__(client)
        self.path = checked_root(path)
        self._sites, self._votes = join(path, "sites"), join(path, "votes")
        self._present, self._coordinator = join(path, "present"), join(path, "coordinator")

    @operation
    def begin(self, sites: Iterable[str], data: bytes = b"") -> Flow[None]:
        """Ask these sites for their votes, as the coordinator.

        Args:
            sites: The names of the sites, 1 to 300.
            data: The data for the sites, which describe the transaction.

        Raises:
            NodeExistsError: the transaction was begun before.
            NoNodeError: others deleted the parent each time meanwhile; nothing was begun.
            BadArgumentsError: there are too many sites, or none, or a name is not acceptable.
        """
        names: list[str] = sorted({self._checked_site(site) for site in sites})
        if not 1 <= len(names) <= SITES_MAX:
            raise BadArgumentsError(self.path, f"1 to {SITES_MAX} sites, not {len(names)}")
        ops: list[TxnOp] = [
            Create(self.path, b"", 0),
            Create(self._sites, checked_bytes("data", data), 0),
            Create(self._votes, b"", 0),
            Create(self._present, b"", 0),
            Create(self._coordinator, b"", CreateMode.EPHEMERAL),
            *[Create(join(self._sites, name), b"", 0) for name in names],
        ]
        for _ in range(ATTEMPTS_MAX):
            try:
                yield from transact(ops)
            except NoNodeError:
                yield from ensure_parent(parent_of(self.path), stays=True)
            else:
                return
        raise NoNodeError(parent_of(self.path), "somebody deletes it again and again")

    @operation
    def join(self, site: str) -> Flow[bytes]:
        """Register as a site, so that the coordinator need not wait for a site that died.

        Returns:
            The data that `begin` gave.

        Raises:
            RecipeError: the transaction has no such site.
        """
        is_site, path = self._site_exists(site), join(self._present, site)
        come: TxnOp = Create(path, b"", CreateMode.EPHEMERAL)
        there, read = Compare(path, CompareField.EXISTS, Relation.EQUAL, 1), ReadData(self._sites)
        own = ReadStat(path)
        # The znode of this site's session from before a crash may still be there for a moment.
        again: list[TxnOp] = [read, Delete(path, ANY_VERSION), come, own]
        while True:
            joined, results = yield from transact(again, [is_site, there], [read])
            if not joined:
                try:
                    joined, results = yield from transact([read, come, own], [is_site], [read])
                except NodeExistsError:
                    continue  # another process of the site has come in between
            if not joined:
                raise self._unknown_site(site)
            return _Joined(results[0][0], delete_if_same(path, results[-1].czxid))

    @operation
    def vote(self, site: str, commit: bool) -> Flow[Decision | None]:
        """Vote as a site. A second call with the same vote does nothing.

        A site that votes to commit must be able to commit, whatever happens to it, until it knows
        the decision.

        Returns:
            The decision, if there is one by now and this call made no vote, because it was late or
            repeated; else None.

        Raises:
            RecipeError: the site has voted otherwise before, or there is no such site.
        """
        vote = Decision.COMMIT if commit else Decision.ABORT
        path = join(self._votes, self._checked_site(site))
        ops: list[TxnOp] = [Create(path, vote.value, 0)]
        otherwise: list[TxnOp] = [ReadData(self.path), ReadStat(join(self._sites, site))]
        try:
            is_counted, results = yield from transact(
                ops, [self._is_undecided(), self._site_exists(site)], otherwise
            )
        except NodeExistsError:
            before = yield from get_or_none(path)
            if before is not None and before[0] != vote.value:
                raise RecipeError(f"{site} has voted otherwise on {self.path}") from None
            return None
        if is_counted:
            return None
        if results[1] is None:
            raise self._unknown_site(site)
        return self._decode_decision(results[0][0])

    @operation
    def decide(self, timeout_s: float | None = None) -> Flow[Decision]:
        """Wait for the votes, as the coordinator or its successor, and decide.

        The decision is COMMIT when all sites have voted to commit. It is ABORT when a site votes to
        abort, or dies without a vote after it joined, or the time has passed. If somebody else was
        quicker, their decision is returned.

        Args:
            timeout_s: How long to wait for votes, None for ever.

        Raises:
            KeeperError: a request failed; there may be a decision.
        """
        timeout_ms = checked_millis("timeout_s", timeout_s)
        until = None if timeout_ms is None else Millis((yield Now()) + timeout_ms)
        own: list[Multi] = []
        creation = Create(self._coordinator, b"", CreateMode.EPHEMERAL)
        try:
            path, stat = yield MappedRequest(creation, path_and_stat_of)
            own = [delete_if_same(path, stat.czxid)]
        except NodeExistsError:
            pass  # we are the coordinator, or it is alive
        events = {self._votes: Event(), self._present: Event(), self.path: Event()}

        def clean_up(has_failed: bool) -> Flow[None]:
            return best_effort_cleanup(own if has_failed else [], pending_watches(events))

        return (yield from with_cleanup(self._watch_votes(events, until), clean_up))

    @operation
    def abort(self) -> Flow[Decision]:
        """Decide to abort unless there is a decision, and return the decision. Any client may."""
        return (yield from self._abort())

    @operation
    def outcome(self, timeout_s: float | None = None) -> Flow[Decision]:
        """Wait for the decision; decide, if the coordinator is dead.

        In that case the decision is COMMIT if all sites have voted to commit, else ABORT.

        Raises:
            WaitTimeoutError: there is no decision, and the coordinator is alive.
        """
        yield timeout_after(timeout_s, f"nothing was decided on {self.path}")
        events = {self.path: Event(), self._coordinator: Event()}
        decision, number = yield from with_cleanup(
            self._watch_coordinator(events),
            lambda _: best_effort_cleanup([], pending_watches(events)),
        )
        return decision or (yield from self._decide_now(number))

    @operation
    def progress(self) -> Flow[CommitProgress]:
        """Return how far the commit has come."""
        data, _ = yield Query(GetData, self._sites, linearizable=True)
        present = yield Query(GetChildren, self._present)
        votes = yield from self._read_votes()
        value, _ = yield Query(GetData, self.path)
        return CommitProgress(self._decode_decision(value), data, votes, sorted(present))

    @operation
    def finish(self) -> Flow[None]:
        """Delete all znodes. A site that does not know the decision yet never learns it.

        Raises:
            RecipeError: there is no decision.
            NotEmptyError: sites come or go each time meanwhile; nothing was deleted.
        """
        places: tuple[str, ...] = (self._sites, self._votes, self._present)
        for _ in range(ATTEMPTS_MAX):
            ops: list[TxnOp] = []
            for place in places:
                names = yield Query(GetChildren, place)
                ops += [Delete(join(place, name), ANY_VERSION) for name in names]
            if (yield Query(Exists, self._coordinator)) is not None:
                ops.append(Delete(self._coordinator, ANY_VERSION))
            ops += [Delete(place, ANY_VERSION) for place in (*places, self.path)]
            is_decided = Compare(self.path, CompareField.VERSION, Relation.GREATER, _UNDECIDED)
            try:
                done, _ = yield from transact(ops, [is_decided], [ReadData(self.path)])
            except (NotEmptyError, NoNodeError):
                continue  # a site came or went in between
            if not done:
                raise RecipeError(f"nothing was decided on {self.path}")
            return
        raise NotEmptyError(self.path, "it changes again and again")

    # Deciding.

    def _watch_coordinator(self, events: dict[str, Event]) -> Flow[tuple[Decision | None, Zxid]]:
        """Wait for the decision; return it, None when there is no coordinator, and the czxid."""
        # A watch that has not fired is still set, and must not be set again (see reread_changed).
        decided, dead = events[self.path], events[self._coordinator]
        found: tuple[bytes, Stat] = yield Query(GetData, self.path, decided)
        decision, number = self._decision_in(found), found[1].czxid
        if decision is not None or (yield from get_or_none(self._coordinator, dead)) is None:
            return decision, number
        while True:
            yield Wait((decided, dead))
            if decided.is_set():
                decision = self._decision_in((yield Query(GetData, self.path)), number)
                if decision is not None:
                    return decision, number
                decided.drain()
                decision = self._decision_in((yield Query(GetData, self.path, decided)), number)
                if decision is not None:
                    return decision, number
            if dead.is_set():
                dead.drain()
                if (yield from get_or_none(self._coordinator, dead)) is None:
                    return None, number

    def _watch_votes(self, events: dict[str, Event], until: Millis | None) -> Flow[Decision]:
        seen: set[str] = set()
        votes = yield from self._read_votes()
        found: dict[str, Any] = {}
        number: Zxid | None = None
        while True:
            for path, answer in (yield from reread_changed(events, found, value_of=self.path)):
                if isinstance(answer, KeeperError):
                    raise answer
                found[path] = answer
            decision = self._decision_in(found[self.path], number)
            number = found[self.path][1].czxid
            present, voted = set(found[self._present]), set(found[self._votes])
            if any(vote is None and site in voted for site, vote in votes.items()):
                votes = yield from self._read_votes(votes)
            is_hopeless = any(
                vote is Decision.ABORT or (vote is None and site in seen - present)
                for site, vote in votes.items()
            )
            seen |= present
            if decision is None and (is_hopeless or None not in votes.values()):
                decision = yield from self._decide_now(number)
            if decision is not None:
                return decision
            if not (yield Wait(tuple(events.values()), until)):
                return (yield from self._decide_now(number))

    def _decide_now(self, number: Zxid) -> Flow[Decision]:
        """Decide COMMIT if all have voted to commit, else ABORT; return the valid decision.

        Args:
            number: The czxid of the transaction.
        """
        votes = yield from self._read_votes(linearizable=True)  # misses no vote
        this_one = is_same(self.path, number)
        said: list[Compare] = [
            Compare(join(self._votes, site), CompareField.VALUE, Relation.EQUAL, _COMMIT)
            for site in votes
        ]
        if all(vote is Decision.COMMIT for vote in votes.values()):
            is_done, _ = yield from transact(
                [SetData(self.path, _COMMIT, ANY_VERSION)], [self._is_undecided(), this_one, *said]
            )
            if is_done:
                return Decision.COMMIT
        return (yield from self._abort(number))

    def _abort(self, number: Zxid | None = None) -> Flow[Decision]:
        ops: list[TxnOp] = [SetData(self.path, Decision.ABORT.value, ANY_VERSION)]
        conditions = [self._is_undecided()]
        if number is not None:
            conditions.append(is_same(self.path, number))
        is_done, results = yield from transact(ops, conditions, [ReadData(self.path)])
        decision = Decision.ABORT if is_done else self._decision_in(results[0], number)
        if decision is None:
            raise InvalidValueError(f"others have written {self.path}: nothing can be decided")
        return decision

    def _read_votes(
        self, known: dict[str, Decision | None] | None = None, *, linearizable: bool = False
    ) -> Flow[dict[str, Decision | None]]:
        """Return the votes of all sites, sorted. A known vote never changes: it is not read."""
        sites: list[str] = sorted((yield Query(GetChildren, self._sites, None, linearizable)))
        votes = dict.fromkeys(sites) | (known or {})
        open_ = [site for site, vote in votes.items() if vote is None]
        found = yield from get_all(join(self._votes, site) for site in open_)
        for site, vote in zip(open_, found, strict=True):
            if vote is not None:
                votes[site] = self._decode_decision(vote[0])
        return votes

    def _decision_in(
        self, found: tuple[bytes, Stat], number: Zxid | None = None
    ) -> Decision | None:
        """Decode the value of the transaction with that czxid; None if it is not decided."""
        if number is not None and found[1].czxid != number:
            raise NoNodeError(self.path, "it was finished, and begun anew for something else")
        return self._decode_decision(found[0])

    def _decode_decision(self, value: bytes) -> Decision | None:
        if not value:
            return None
        try:
            return Decision(value)
        except ValueError:
            raise InvalidValueError(f"{self.path} holds no decision: {value[:40]!r}") from None

    def _is_undecided(self) -> Compare:
        return Compare(self.path, CompareField.VERSION, Relation.EQUAL, _UNDECIDED)

    def _site_exists(self, site: str) -> Compare:
        path = join(self._sites, self._checked_site(site))
        return Compare(path, CompareField.EXISTS, Relation.EQUAL, 1)

    def _unknown_site(self, site: str) -> RecipeError:
        return RecipeError(f"{self.path} has no site {site}")

    def _checked_site(self, site: object) -> str:
        if not isinstance(site, str) or not site or "/" in site:
            raise BadArgumentsError(self.path, f"a site is named like a znode, not {site!r}")
        return checked_root(join(self._sites, site)).rpartition("/")[2]


_COMMIT: Any = Decision.COMMIT.value
