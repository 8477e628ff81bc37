"""Leader election: one candidate leads, each other watches the one before; leaderships have epochs.

    election = client.election("/jobs/leader", b"worker 1")
    with election as leadership:            # waits until it is our turn
        start_work(leadership.epoch)        # 1, 2, 3, ...: one more than the leader before
        leadership.lost.check()             # LostError once somebody else may lead
    election.leader()                       # who leads now

The queue is that of the lock. The epoch is the value of the election's znode, which stays. A new
leader raises it by one, in one transaction, on the condition that its own candidate is still the
znode that it created. So the invariants of this file: an epoch belongs to one leadership only, a
later leadership has a larger epoch, and a deposed candidate can no longer raise it.

The epoch counts from 0 again if somebody deletes the election's znode; the token grows even then.

Paper: section 2.4 (locks without a herd). Epochs: ZooKeeper's lecture in MIT's 6.824. kazoo:
`Election`. Curator: `LeaderSelector`.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import InvalidValueError, LostError, RayKeeperError, RecipeError
from raykeeper.client.recipes.acquirable import Held
from raykeeper.client.recipes.background_recipe import Report
from raykeeper.client.recipes.lock import Contender, ContenderQueue, list_contenders
from raykeeper.client.recipes.primitives import (
    ATTEMPTS_MAX,
    best_effort_cleanup,
    create,
    get_or_none,
    identifier_of,
    is_unchanged,
    stat_or_none,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import ANY_VERSION, GetData, SetData, Sync

PREFIX = "candidate-"


class Leader(Struct, frozen=True):
    """The present leader."""

    identifier: bytes
    """The text with which the leader described itself."""
    epoch: int
    token: Zxid
    """The fencing token of its leadership."""


class Leadership(Held[K]):
    """A leadership of this session, until it resigns or loses it."""

    epoch: int = 0
    """One more than that of the leader before; no other leadership ever has the same."""

    def _marks(self) -> tuple[str, ...]:
        return f"epoch {self.epoch}", *super()._marks()

    @operation
    def resign(self) -> Flow[None]:
        """Give up the leadership, so that the next candidate leads. A second call does nothing.

        Raises:
            LostError: the leadership was lost before.
            KeeperError: it is unknown whether it was given up; it ends with the session.
        """
        yield from self._release_or_raise()


class _Record(Struct, frozen=True):
    """The value of the election's znode, which describes the newest leadership."""

    epoch: int
    candidate: str
    token: int


_NO_LEADER: Final = _Record(0, "", 0)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Record).decode


class Election(ContenderQueue[K, Leadership[K]]):
    """An election, for candidates and for clients that want to know the leader."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.election`. `identifier` is shown to those who ask for the leader."""
        super().__init__(client, path, identifier, f"the leadership of {path}", (PREFIX,))

    @operation
    def lead(self, timeout_s: float | None = None) -> Flow[Leadership[K]]:
        """Stand for election, behind all earlier candidates, and wait until it is won.

        Raises:
            WaitTimeoutError: others led all the time; nothing is left behind.
            LostError: somebody deleted the znode of this candidate.
            InvalidValueError: the value of the election's znode is not one of an election.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"others led in {self.path}"

    def _enqueue(self) -> Flow[Leadership[K]]:
        """See `ContenderQueue`: the parent znode keeps the epoch, so it stays."""
        own, stat = yield from create(
            join(self.path, PREFIX),
            identifier_of(self._client, self._identifier),
            ephemeral=True,
            sequence=True,
            parent_stays=True,
        )
        return Leadership(self._client, self._what, own, stat.czxid)

    def _on_turn(self, place: Leadership[K]) -> Flow[None]:
        """See `ContenderQueue`: the leadership gets its epoch."""
        try:
            place.epoch = yield from _raise_epoch(self.path, place)
        except RayKeeperError:
            yield from best_effort_cleanup([place._removal()])
            raise

    @operation
    def leader(self) -> Flow[Leader | None]:
        """Return the present leader, None while there is none. It is as new as the call, or newer.

        Raises:
            InvalidValueError: the value of the election's znode is not one of an election.
        """
        yield Query(Sync, self.path)  # the reads below are at least as new as this call
        return (yield from _read_leader(self.path))

    @operation
    def candidates(self) -> Flow[list[Contender]]:
        """List the leader, which is first, and the other candidates, in order."""
        return (yield from list_contenders(self.path, PREFIX))

    @operation
    def observe(self, callback: Callable[[Leader | None], object]) -> Flow["Observation[K]"]:
        """Call `callback` with the leader, now and after each change, until this is closed.

        It is called with None while nobody leads. A leader that led only for a moment may be left
        out; the last call always has the present state. The end of the session shows only in the
        client's state.

        Raises:
            InvalidValueError: the value of the election's znode is not one of an election.
        """
        observation: Observation[K] = Observation(self._client, self.path, callback)
        yield from observation._open()
        return observation


class Observation(Report[K]):
    """An observation of the leader, until it is closed.

    It keeps two watches, and reads twice for each change.
    """

    def __init__(
        self, client: FlowRunner, path: str, callback: Callable[[Leader | None], object]
    ) -> None:
        """Use `Election.observe`."""
        super().__init__(client, f"the observation of {path}", path, callback)
        self._leader: Leader | None = None
        """The leader that was reported last."""

    def _activity(self) -> str:
        return "nobody leads" if self._leader is None else f"epoch {self._leader.epoch}"

    def _work(self) -> Flow[None]:
        """See `BackgroundRecipe`."""
        changed = Event()
        watched = {self._path}
        try:
            while True:
                changed.drain()
                leader = yield from _read_leader(self._path, changed, watched)
                if leader != self._leader or not self._has_reported:
                    self._leader = leader
                    yield from self._report(leader)
                yield Wait((changed,))
        except (Cancelled, RayKeeperError):
            yield from best_effort_cleanup([], [(path, changed) for path in sorted(watched)])
            raise


def _raise_epoch(path: str, place: Held[K]) -> Flow[int]:
    """Raise the epoch for the candidate `place`, and return it."""
    for _ in range(ATTEMPTS_MAX):
        value, stat = yield Query(GetData, path)
        epoch = _parse_record(path, value).epoch + 1
        record = _Record(epoch, place.path.rpartition("/")[2], place.token)
        is_raised, _results = yield from transact(
            [SetData(path, _encode(record), ANY_VERSION)],
            [place._still_held_compare(), is_unchanged(path, stat.mzxid)],
        )
        if is_raised:
            return epoch
        # Our candidate is gone, or the epoch that we read was old: this server may lag behind.
        mine = yield from get_or_none(place.path)
        if mine is None or mine[1].czxid != place.token:
            raise LostError(f"somebody deleted {place.path} when it came to lead")
    raise RecipeError(f"somebody changes {path} again and again")


def _parse_record(path: str, value: bytes) -> _Record:
    if not value:
        return _NO_LEADER
    try:
        return _decode(value)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"the value of {path} is not one of an election: {error}") from None


def _read_leader(
    path: str, changed: Event | None = None, watched: set[str] | None = None
) -> Flow[Leader | None]:
    """Return the leader, as far as this server knows; optionally watch for a change.

    Args:
        path: The path of the election.
        changed: Set by the watches; None for no watches.
        watched: A set to which the watched paths are added.
    """
    found = yield from get_or_none(path, changed)
    if (
        found is None
        and changed is not None
        and (yield from stat_or_none(path, changed)) is not None
    ):
        found = yield from get_or_none(path, changed)  # it was created in between
    if found is None:
        return None
    record = _parse_record(path, found[0])
    if not record.candidate:
        return None
    candidate = join(path, record.candidate)
    if watched is not None:
        watched.intersection_update({path})
        watched.add(candidate)
    mine = yield from get_or_none(candidate, changed)
    if mine is None or mine[1].czxid != record.token:
        return None
    return Leader(mine[0], record.epoch, Zxid(record.token))
