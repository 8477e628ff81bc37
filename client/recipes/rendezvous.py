"""A rendezvous: so many meet, and each gets the same list of all, with its own place in it.

    with client.rendezvous("/train", size=4, data=b"10.0.0.7:4000") as meeting:
        meeting.rank, [each.data for each in meeting.members]   # the same list for everybody
        meeting.broken.check()              # BrokenBarrierError once somebody has left or died

Who comes queues up by an ephemeral sequential child. As soon as there are enough, one of them
writes the first of the queue into the value of the rendezvous as the next generation, in one
transaction on the condition that each of them is there still. So the invariants of this file: a
generation is one list, the same for all; all of it were there at one moment; a participant is in
one generation only; and there is a new one only after somebody of the last one has left or died.

Whoever is one too many waits for the next generation. That a generation is broken is seen by the
one before in the list, who watches, and written into the value, which all of them watch.

Without data it is the barrier of a gang: there is no other recipe for that.

Ray users build it from a named actor; torch's `TCPStore` and etcd rendezvous are the same idea.
Paper: section 2.4, "Rendezvous" and "Double Barriers".
"""

from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import (
    BadArgumentsError,
    BrokenBarrierError,
    InvalidValueError,
    KeeperError,
    LostError,
    NoNodeError,
    RayKeeperError,
    RecipeError,
)
from raykeeper.client.flows import Abandoned, Flow, Together, Wait
from raykeeper.client.recipes.holding import Held, Holding, Loss, keep
from raykeeper.client.recipes.lock import in_line, number_of
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.client.recipes.steps import (
    checked_bytes,
    checked_root,
    create,
    give_up_after,
    leave,
    look,
    transact,
)
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    GetChildren,
    GetData,
    Relation,
    SetData,
    WatchKind,
)

PREFIX = "participant-"
SIZE_MAX = 500
"""Each is a condition of one transaction, and is watched by one other."""
DATA_BYTES_MAX = 512 * 1024
"""Of all participants together: they are one value."""


class Participant(Struct, frozen=True):
    """One of those who met."""

    name: str
    """Of its znode."""
    data: bytes
    token: Zxid


class _Generation(Struct, frozen=True):
    """The value of a rendezvous, as JSON."""

    number: int
    members: list[Participant]
    is_broken: bool = False


_NONE_YET: Final = _Generation(0, [], True)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Generation).decode


class Break(Loss[K]):
    """Whether a generation is broken: like a `Loss`."""

    def check(self) -> None:
        """Do nothing while nobody has left.

        Raises:
            LostError: the session of this one is over.
            BrokenBarrierError: somebody has left or died.
        """
        if self._client._is_lost():
            raise LostError(f"{self._what} is lost with the session")
        if self.is_set():
            raise BrokenBarrierError(f"{self._what} is broken")


class Meeting(Held[K]):
    """A generation, as one of its participants has it, until it leaves."""

    def __init__(self, client: FlowRunner, root: str, path: str, token: Zxid) -> None:
        """Use `Rendezvous.join`."""
        super().__init__(client, f"the place in the rendezvous {root}", path, token)
        self._root = root
        """The path of the rendezvous."""
        self.generation = 0
        """1, 2, 3, ..."""
        self.rank = 0
        """The place of this one, from 0."""
        self.members: list[Participant] = []
        """All who met, in the order of their coming: the same for everybody."""
        self.broken: Break[K] = Break(client, f"the meeting in {root}")
        """Set when somebody of them has left or died, unless this one left before."""

    @operation
    def wait_broken(self, timeout_s: float | None = None) -> Flow[None]:
        """Wait until somebody leaves or dies.

        Raises:
            WaitTimeoutError: all are there still.
        """
        yield give_up_after(timeout_s, f"the meeting in {self._root} is not broken")
        yield from self.broken._wait()

    @operation
    def leave(self) -> Flow[None]:
        """Leave, once, which breaks the generation; again, or when it is broken: nothing.

        Raises:
            LostError: the session ended before.
            KeeperError: it is not known to have left; it leaves with the session.
        """
        yield from self._release_or_raise()

    def _remove(self) -> Flow[bool]:
        """See `Held`. It does not matter whether somebody has deleted the znode."""
        self._bell.ring()  # the guard ends
        yield from super()._remove()
        return True

    def _guard(self) -> Flow[None]:
        """See `Held`: watch the value and the next in the list; write down that it is gone."""
        following = self.members[(self.rank + 1) % len(self.members)]
        beside = join(self._root, following.name)
        try:
            while not self._is_released:
                self._bell.take()
                found = yield from _read(self._root, self._bell)
                if found is None or found[0].number != self.generation or found[0].is_broken:
                    break
                there = yield from look(beside, self._bell)
                if there is None or there[1].czxid != following.token:
                    yield from _write(self._root, replace(found[0], is_broken=True), found[1])
                elif not self._is_released:
                    yield Wait((self._bell,))
        except (KeeperError, InvalidValueError):
            pass  # the session is over, or somebody else writes here
        if not self._is_released:
            self.broken._set()
        watches = [(path, WatchKind.DATA, self._bell) for path in (self._root, beside)]
        yield from leave([], watches)


class Rendezvous(Holding[K, Meeting[K]]):
    """A rendezvous of `size` participants, again and again."""

    def __init__(self, client: FlowRunner, path: str, size: int, data: bytes = b"") -> None:
        """Use `Client.rendezvous`. All must name the same size."""
        super().__init__(client)
        self.path = checked_root(path)
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= SIZE_MAX:
            raise BadArgumentsError("", f"size must be 1 to {SIZE_MAX}, not {size!r}")
        self.size = size
        self._data = checked_bytes("data", data)
        if len(data) * size > DATA_BYTES_MAX:
            bytes_max = DATA_BYTES_MAX // size
            raise BadArgumentsError("", f"data of {size} may be {bytes_max} bytes, not {len(data)}")

    @operation
    def join(self, timeout_s: float | None = None) -> Flow[Meeting[K]]:
        """Wait until `size` have come, this one among them.

        Who is one too many waits for the next generation. Who comes while the last one is not
        broken waits too.

        Raises:
            WaitTimeoutError: not enough came, or the last generation went on; nothing is left.
            LostError: somebody deleted the znode of this participant.
            RecipeError: somebody named another size.
            InvalidValueError: the value of the znode is not one of a rendezvous.
            KeeperError: as for every call.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Holding`."""
        return f"{self.size} have not met in {self.path}"

    def _acquire(self) -> Flow[Meeting[K]]:
        """See `Holding`."""
        while True:
            own, stat = yield from create(
                join(self.path, PREFIX),
                self._data,
                ephemeral=True,
                sequence=True,
                parent_stays=True,
            )
            meeting: Meeting[K] = Meeting(self._client, self.path, own, stat.czxid)
            watched = {self.path}
            try:
                if (yield from self._meet(meeting, watched)):
                    return (yield from keep(meeting))
            except (Abandoned, RayKeeperError):
                yield from self._go(meeting, watched)
                raise
            # It has met, but the meeting was over before it looked: it comes anew.
            yield from self._go(meeting, watched)

    def _go(self, meeting: Meeting[K], watched: set[str]) -> Flow[None]:
        watches = [(path, WatchKind.DATA, meeting._bell) for path in sorted(watched)]
        yield from leave([meeting._removal()], watches)

    def _meet(self, meeting: Meeting[K], watched: set[str]) -> Flow[bool]:
        """Wait for the generation; False if there is a later one than that of this one already."""
        own = meeting.path.rpartition("/")[2]
        is_watched = False  # the znode of this one
        while True:
            events = meeting._bell.take()
            if not is_watched or any(event.path == meeting.path for event in events):
                mine = yield from look(meeting.path, meeting._bell)
                if mine is None or mine[1].czxid != meeting.token:
                    raise LostError(f"somebody deleted {meeting.path} while it waited")
                is_watched = True
            found, names = yield Together(
                [Query(GetData, self.path, meeting._bell), Query(GetChildren, self.path)]
            )
            for outcome in (found, names):
                if isinstance(outcome, NoNodeError):
                    raise LostError(f"somebody deleted {self.path}")
                if isinstance(outcome, KeeperError):
                    raise outcome
            generation, mzxid = _generation_of(self.path, found[0]), found[1].mzxid
            if self._is_in(generation, meeting):
                return True
            upto = number_of(generation.members[-1].name) if generation.members else -1
            waiting = [name for name in in_line(names, PREFIX) if number_of(name) > upto]
            if own in names and own not in waiting:
                return False
            if own not in waiting:
                raise LostError(f"somebody deleted {meeting.path} while it waited")
            place = waiting.index(own)
            there = set(names)
            is_over = generation.is_broken or any(e.name not in there for e in generation.members)
            if is_over and place < self.size <= len(waiting):
                yield from self._form(generation.number + 1, waiting[: self.size], mzxid)
                continue
            # Who might have to act later watches whoever would have acted until then.
            before = None
            if not is_over:
                before = generation.members[0].name
            elif place >= self.size:
                before = waiting[place - 1]
            if before is not None:
                watched.add(join(self.path, before))
                if (yield from look(join(self.path, before), meeting._bell)) is None:
                    continue
            yield Wait((meeting._bell,))

    def _is_in(self, generation: _Generation, meeting: Meeting[K]) -> bool:
        for rank, each in enumerate(generation.members):
            if each.token == meeting.token and meeting.path.endswith("/" + each.name):
                if len(generation.members) != self.size:
                    raise RecipeError(f"{self.path}: {len(generation.members)}, not {self.size}")
                meeting.rank, meeting.members = rank, generation.members
                meeting.generation = generation.number
                return True
        return False

    def _form(self, number: int, names: list[str], mzxid: Zxid) -> Flow[None]:
        """Try to write the next generation. If it fails somebody else was there, or is gone."""
        found = yield Together([Query(GetData, join(self.path, name)) for name in names])
        members: list[Participant] = []
        for name, each in zip(names, found, strict=True):
            if isinstance(each, NoNodeError):
                return
            if isinstance(each, KeeperError):
                raise each  # it may not be read, and will not be
            members.append(Participant(name, each[0], each[1].czxid))
        yield from _write(self.path, _Generation(number, members), mzxid, members)


def _generation_of(path: str, value: bytes) -> _Generation:
    if not value:
        return _NONE_YET
    try:
        return _decode(value)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(
            f"the value of {path} is not one of a rendezvous: {error}"
        ) from None


def _read(path: str, bell: Any) -> Flow[tuple[_Generation, Zxid] | None]:
    found = yield from look(path, bell)
    return None if found is None else (_generation_of(path, found[0]), found[1].mzxid)


def _write(
    path: str, generation: _Generation, mzxid: Zxid, there: list[Participant] | None = None
) -> Flow[None]:
    """Write it, if nobody else has since, and these are there."""
    conditions = [Compare(path, CompareField.MZXID, Relation.EQUAL, mzxid)]
    for each in there or []:
        name = join(path, each.name)
        conditions.append(Compare(name, CompareField.CZXID, Relation.EQUAL, each.token))
    yield from transact([SetData(path, _encode(generation), ANY_VERSION)], conditions)
