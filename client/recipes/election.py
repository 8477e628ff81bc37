"""Leader election: one leads, the others watch each the one before; every leadership has a number.

    election = client.election("/jobs/leader", b"worker 1")
    with election as leadership:            # waits until it is our turn
        start_work(leadership.epoch)        # 1, 2, 3, ...: one more than the leader before
        leadership.lost.check()             # LostError once somebody else may lead
    election.leader()                       # who leads now

The queue is that of the lock. The epoch is the value of the election's znode, which stays: whoever
comes to lead raises it by one, in one transaction, on the condition that its own candidate still is
the znode that it created. So the invariants of this file: an epoch is given to one leadership only,
a later leadership has a larger one, and who was deposed can raise it no more.

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
from raykeeper.client.errors import (
    InvalidValueError,
    LostError,
    RayKeeperError,
    RecipeError,
)
from raykeeper.client.recipes.acquirable import Held
from raykeeper.client.recipes.background_recipe import BackgroundRecipe
from raykeeper.client.recipes.lock import Contender, ContenderQueue, list_contenders
from raykeeper.client.recipes.primitives import (
    ATTEMPTS_MAX,
    best_effort_cleanup,
    create,
    get_or_none,
    identifier_of,
    stat_or_none,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    GetData,
    Relation,
    SetData,
    Sync,
    WatchKind,
)

PREFIX = "candidate-"


class Leader(Struct, frozen=True):
    """Who leads."""

    identifier: bytes
    """What it said of itself."""
    epoch: int
    token: Zxid
    """The fencing token of its leadership."""


class Leadership(Held[K]):
    """A leadership of this session, until it resigns or loses it."""

    epoch: int = 0
    """One more than that of the leader before; nobody else ever has the same."""

    @operation
    def resign(self) -> Flow[None]:
        """Give it up, once; again: nothing. The next candidate leads.

        Raises:
            LostError: it was lost before.
            KeeperError: it is not known to be given up; it ends with the session.
        """
        yield from self._release_or_raise()


class _Record(Struct, frozen=True):
    """The value of the election's znode: of the newest leadership."""

    epoch: int
    candidate: str
    token: int


_NO_LEADER: Final = _Record(0, "", 0)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Record).decode


class Election(ContenderQueue[K, Leadership[K]]):
    """An election, for candidates and for those who want to know who leads."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.election`. `identifier` is shown to those who ask for the leader."""
        super().__init__(client, path, identifier, f"the leadership of {path}", (PREFIX,))

    @operation
    def lead(self, timeout_s: float | None = None) -> Flow[Leadership[K]]:
        """Stand for election, behind all that did before, and wait until it is won.

        Args:
            timeout_s: How long to wait; 0 to lead only if nobody does, None for ever.

        Raises:
            WaitTimeoutError: others led all the time; nothing is left behind.
            LostError: somebody deleted the znode of this candidate.
            InvalidValueError: the value of the election's znode is not one of an election.
            KeeperError: as for every call.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"in {self.path} others led"

    def _enqueue(self) -> Flow[Leadership[K]]:
        """See `ContenderQueue`: the znode above has the epoch, so it stays."""
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
        """Return the present leader, None while there is none. The newest state is asked for.

        Raises:
            InvalidValueError: the value of the election's znode is not one of an election.
            KeeperError: as for every call.
        """
        yield Query(Sync, self.path)  # what follows is at least as new
        return (yield from _read_leader(self.path))

    @operation
    def candidates(self) -> Flow[list[Contender]]:
        """List the leader, which is first, and those who stand for election, in order.

        Raises:
            KeeperError: as for every call.
        """
        return (yield from list_contenders(self.path, PREFIX))

    @operation
    def observe(self, callback: Callable[[Leader | None], object]) -> Flow["Observation[K]"]:
        """Have `callback` called with who leads, now and after each change, until it is closed.

        It is called with None while nobody leads. Who led only for a moment may be left out; the
        last call always tells what is. Nothing tells of the end of the session but its own state.

        Raises:
            InvalidValueError: the value of the election's znode is not one of an election.
            KeeperError: as for every call.
        """
        observation: Observation[K] = Observation(self._client, self.path, callback)
        yield from observation._start_until(lambda: observation._has_reported)
        return observation


class Observation(BackgroundRecipe[K]):
    """Tells who leads, until it is closed. Two watches; two reads for each change."""

    def __init__(
        self, client: FlowRunner, path: str, callback: Callable[[Leader | None], object]
    ) -> None:
        """Use `Election.observe`."""
        super().__init__(client, f"the observation of {path}")
        self._has_reported = False
        """For `observe`: whether the callback was told what was."""
        self._path = path
        self._callback = callback

    def _work(self) -> Flow[None]:
        """See `BackgroundRecipe`."""
        bell = Event()
        told: Leader | None = None
        watched = {self._path}
        try:
            while True:
                bell.drain()
                leader = yield from _read_leader(self._path, bell, watched)
                if leader != told or not self._has_reported:
                    told, self._has_reported = leader, True
                    yield from self._call_user(self._callback, leader)
                    self._changed.notify_all()
                yield Wait((bell,))
        except (Cancelled, RayKeeperError):
            yield from best_effort_cleanup(
                [], [(path, WatchKind.DATA, bell) for path in sorted(watched)]
            )
            raise


def _raise_epoch(path: str, place: Held[K]) -> Flow[int]:
    """Give the next epoch to the leadership for which `place` stands."""
    for _ in range(ATTEMPTS_MAX):
        value, stat = yield Query(GetData, path)
        epoch = _parse_record(path, value).epoch + 1
        record = _Record(epoch, place.path.rpartition("/")[2], place.token)
        is_raised, _results = yield from transact(
            [SetData(path, _encode(record), ANY_VERSION)],
            [
                place._still_held_compare(),
                Compare(path, CompareField.MZXID, Relation.EQUAL, stat.mzxid),
            ],
        )
        if is_raised:
            return epoch
        # Our candidate is gone, or the epoch we read was an old one: this server may lag behind.
        mine = yield from get_or_none(place.path)
        if mine is None or mine[1].czxid != place.token:
            raise LostError(f"somebody deleted {place.path} as it came to lead")
    raise RecipeError(f"somebody changes {path} again and again")


def _parse_record(path: str, value: bytes) -> _Record:
    if not value:
        return _NO_LEADER
    try:
        return _decode(value)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(f"the value of {path} is not one of an election: {error}") from None


def _read_leader(
    path: str, bell: Event | None = None, watched: set[str] | None = None
) -> Flow[Leader | None]:
    """Who leads, for all that this server knows; with watches that tell of a change.

    Args:
        path: Of the election.
        bell: Rung by the watches; None for none.
        watched: The paths that are watched are added here.
    """
    found = yield from get_or_none(path, bell)
    if found is None and bell is not None and (yield from stat_or_none(path, bell)) is not None:
        found = yield from get_or_none(path, bell)  # it came in between
    if found is None:
        return None
    record = _parse_record(path, found[0])
    if not record.candidate:
        return None
    candidate = join(path, record.candidate)
    if watched is not None:
        watched.intersection_update({path})
        watched.add(candidate)
    mine = yield from get_or_none(candidate, bell)
    if mine is None or mine[1].czxid != record.token:
        return None
    return Leader(mine[0], record.epoch, Zxid(record.token))
