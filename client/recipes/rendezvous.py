"""A rendezvous: `size` participants meet; each gets the same list of all, and its rank in it.

    with client.rendezvous("/train", size=4, data=b"10.0.0.7:4000") as meeting:
        meeting.rank, [each.data for each in meeting.members]   # the same list for everybody
        meeting.broken.check()              # BrokenBarrierError once somebody has left or died

A participant queues up with an ephemeral sequential child. As soon as there are enough, one of them
writes the first `size` of the queue into the value of the rendezvous as the next generation, in one
transaction, on the condition that each of them is still there. So the invariants of this file: a
generation is one list, the same for all; all its members were there at one moment; a participant is
in one generation only; and a new generation begins only after a member of the last one has left or
died.

A participant too many waits for the next generation. Each member watches the next one in the list.
When that one goes, the watching member writes into the value, which all of them watch, that the
generation is broken.

Without data this is the barrier of a gang: there is no other recipe for that.

Ray users build such a rendezvous from a named actor; torch's `TCPStore` and etcd rendezvous are the
same idea.
Paper: section 2.4, "Rendezvous" and "Double Barriers".
"""

from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.client.core.flows import Cancelled, Flow, Gather, Wait
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
from raykeeper.client.recipes.acquirable import Acquirable, Held, LostEvent, spawn_guard
from raykeeper.client.recipes.lock import sequence_number, sort_queue
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_bytes,
    checked_root,
    create,
    get_all,
    get_or_none,
    is_same,
    is_unchanged,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import ANY_VERSION, GetChildren, GetData, SetData

PREFIX = "participant-"
SIZE_MAX = 500
"""The bound of `size`: each participant is a condition of one transaction; another watches it."""
DATA_BYTES_MAX = 512 * 1024
"""The bound for the data of all participants together: they are one value."""


class Participant(Struct, frozen=True):
    """One participant of a generation."""

    name: str
    """The name of its znode."""
    data: bytes
    token: Zxid


class _GenerationRecord(Struct, frozen=True):
    """The value of a rendezvous, as JSON."""

    number: int
    members: list[Participant]
    is_broken: bool = False


_NO_GENERATION: Final = _GenerationRecord(0, [], True)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_GenerationRecord).decode


class BrokenEvent(LostEvent[K]):
    """An event that is set when a generation is broken; it is used like a `LostEvent`."""

    def check(self) -> None:
        """Check that no participant has left.

        Raises:
            LostError: the session of this participant is over.
            BrokenBarrierError: a participant has left or died.
        """
        if self._client._is_lost():
            raise LostError(f"{self._what} is lost with the session")
        if self.is_set():
            raise BrokenBarrierError(f"{self._what} is broken")


class Generation(Held[K]):
    """A generation, as one of its participants sees it, until it leaves."""

    def __init__(self, client: FlowRunner, root: str, path: str, token: Zxid) -> None:
        """Use `Rendezvous.join`."""
        super().__init__(client, f"the place in the rendezvous {root}", path, token)
        self._root = root
        """The path of the rendezvous."""
        self.generation = 0
        """1, 2, 3, ..."""
        self.rank = 0
        """The place of this participant in the list, from 0."""
        self.members: list[Participant] = []
        """All participants in the order of joining: the same list for everybody."""
        self.broken: BrokenEvent[K] = BrokenEvent(client, f"the meeting in {root}")
        """Set when a participant has left or died, unless this one left before."""

    def _marks(self) -> tuple[str, ...]:
        place = f"rank {self.rank} of {len(self.members)} in generation {self.generation}"
        return place, *super()._marks(), "broken" if self.broken.is_set() else ""

    @operation
    def wait_broken(self, timeout_s: float | None = None) -> Flow[None]:
        """Wait until a participant leaves or dies.

        Raises:
            WaitTimeoutError: all are still there.
        """
        yield timeout_after(timeout_s, f"the meeting in {self._root} is not broken")
        yield from self.broken._wait()

    @operation
    def leave(self) -> Flow[None]:
        """Leave, which breaks the generation. It does nothing a second time, or when it is broken.

        Raises:
            LostError: the session ended before.
            KeeperError: it is unknown whether this participant has left; it leaves with the
                session.
        """
        yield from self._release_or_raise()

    def _remove(self) -> Flow[bool]:
        """Delete the znode, if it is still there; see `Held`."""
        self._changed.set()  # the guard ends
        yield from super()._remove()
        return True

    def _guard(self) -> Flow[None]:
        """Watch the value and the next participant; record that it is gone; see `Held`."""
        following = self.members[(self.rank + 1) % len(self.members)]
        beside = join(self._root, following.name)
        try:
            while not self._is_released:
                self._changed.drain()
                found = yield from _read_generation(self._root, self._changed)
                # Not its number: a rendezvous that was deleted and made again counts from 1.
                if found is None or found[0].members != self.members or found[0].is_broken:
                    break
                there = yield from get_or_none(beside, self._changed)
                if there is None or there[1].czxid != following.token:
                    yield from _write_generation(
                        self._root, replace(found[0], is_broken=True), found[1]
                    )
                elif not self._is_released:
                    yield Wait((self._changed,))
        except (KeeperError, InvalidValueError):
            pass  # the session is over, or somebody else writes here
        if not self._is_released:
            self.broken._set()
        watches = [(path, self._changed) for path in (self._root, beside)]
        yield from best_effort_cleanup([], watches)


class Rendezvous(Acquirable[K, Generation[K]]):
    """A rendezvous of `size` participants, again and again."""

    def __init__(self, client: FlowRunner, path: str, size: int, data: bytes = b"") -> None:
        """Use `Client.rendezvous`. All participants must name the same size."""
        super().__init__(client)
        self.path = checked_root(path)
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= SIZE_MAX:
            raise BadArgumentsError("", f"size must be 1 to {SIZE_MAX}, not {size!r}")
        self.size = size
        self._data = checked_bytes("data", data)
        if len(data) * size > DATA_BYTES_MAX:
            bytes_max = DATA_BYTES_MAX // size
            raise BadArgumentsError("", f"data may be {bytes_max} bytes of each, not {len(data)}")

    def _repr_parts(self) -> tuple[str, ...]:
        return self.path, f"size {self.size}"

    @operation
    def join(self, timeout_s: float | None = None) -> Flow[Generation[K]]:
        """Wait until `size` participants have joined, this one among them.

        A participant too many waits for the next generation, and so does one that joins while the
        last generation is not broken.

        Raises:
            WaitTimeoutError: not enough came, or the last generation went on; nothing is left.
            LostError: somebody deleted the znode of this participant.
            RecipeError: somebody named another size.
            InvalidValueError: the value of the znode is not one of a rendezvous.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"{self.path} got no new generation of {self.size}"

    def _acquire(self) -> Flow[Generation[K]]:
        """See `Acquirable`."""
        while True:
            own, stat = yield from create(
                join(self.path, PREFIX),
                self._data,
                ephemeral=True,
                sequence=True,
                parent_stays=True,
            )
            meeting: Generation[K] = Generation(self._client, self.path, own, stat.czxid)
            watched = {self.path}
            try:
                if (yield from self._wait_for_generation(meeting, watched)):
                    return (yield from spawn_guard(meeting))
            except (Cancelled, RayKeeperError):
                yield from self._withdraw(meeting, watched)
                raise
            # This participant's generation was over before it saw that generation: join anew.
            yield from self._withdraw(meeting, watched)

    def _withdraw(self, meeting: Generation[K], watched: set[str]) -> Flow[None]:
        watches = [(path, meeting._changed) for path in sorted(watched)]
        yield from best_effort_cleanup([meeting._removal()], watches)

    def _wait_for_generation(self, meeting: Generation[K], watched: set[str]) -> Flow[bool]:
        """Wait for this participant's generation; return False if that is over already."""
        own = meeting.path.rpartition("/")[2]
        is_watched = False  # the znode of this one
        while True:
            events = meeting._changed.drain()
            if not is_watched or any(event.path == meeting.path for event in events):
                mine = yield from get_or_none(meeting.path, meeting._changed)
                if mine is None or mine[1].czxid != meeting.token:
                    raise LostError(f"somebody deleted {meeting.path} while it waited")
                is_watched = True
            found, names = yield Gather(
                [Query(GetData, self.path, meeting._changed), Query(GetChildren, self.path)]
            )
            for outcome in (found, names):
                if isinstance(outcome, NoNodeError):
                    raise LostError(f"somebody deleted {self.path}")
                if isinstance(outcome, KeeperError):
                    raise outcome
            generation, mzxid = _decode_generation(self.path, found[0]), found[1].mzxid
            if self._join_generation(generation, meeting):
                return True
            upto = sequence_number(generation.members[-1].name) if generation.members else -1
            waiting = [name for name in sort_queue(names, PREFIX) if sequence_number(name) > upto]
            if own in names and own not in waiting:
                return False
            if own not in waiting:
                raise LostError(f"somebody deleted {meeting.path} while it waited")
            place = waiting.index(own)
            there = set(names)
            is_over = generation.is_broken or any(e.name not in there for e in generation.members)
            if is_over and place < self.size <= len(waiting):
                yield from self._propose_generation(
                    generation.number + 1, waiting[: self.size], mzxid
                )
                continue
            # A participant that may have to act later watches the one that acts until then.
            before = None
            if not is_over:
                before = generation.members[0].name
            elif place >= self.size:
                before = waiting[place - 1]
            if before is not None:
                watched.add(join(self.path, before))
                if (yield from get_or_none(join(self.path, before), meeting._changed)) is None:
                    continue
            yield Wait((meeting._changed,))

    def _join_generation(self, generation: _GenerationRecord, meeting: Generation[K]) -> bool:
        for rank, each in enumerate(generation.members):
            if each.token == meeting.token and meeting.path.endswith("/" + each.name):
                if (size := len(generation.members)) != self.size:
                    raise RecipeError(f"the others in {self.path} named {size}, not {self.size}")
                meeting.rank, meeting.members = rank, generation.members
                meeting.generation = generation.number
                return True
        return False

    def _propose_generation(self, number: int, names: list[str], mzxid: Zxid) -> Flow[None]:
        """Try to write the next generation.

        It is not written if another participant wrote it first, or a member has left.
        """
        found = yield from get_all(join(self.path, name) for name in names)
        pairs = zip(names, found, strict=True)
        members = [Participant(name, each[0], each[1].czxid) for name, each in pairs if each]
        if len(members) == len(names):
            record = _GenerationRecord(number, members)
            yield from _write_generation(self.path, record, mzxid, members)


def _decode_generation(path: str, value: bytes) -> _GenerationRecord:
    if not value:
        return _NO_GENERATION
    try:
        return _decode(value)
    except msgspec.MsgspecError as error:
        raise InvalidValueError(
            f"the value of {path} is not one of a rendezvous: {error}"
        ) from None


def _read_generation(path: str, changed: Any) -> Flow[tuple[_GenerationRecord, Zxid] | None]:
    found = yield from get_or_none(path, changed)
    return None if found is None else (_decode_generation(path, found[0]), found[1].mzxid)


def _write_generation(
    path: str, generation: _GenerationRecord, mzxid: Zxid, there: list[Participant] | None = None
) -> Flow[None]:
    """Write the value, if nobody else has written since, and the participants `there` exist."""
    conditions = [is_unchanged(path, mzxid)]
    conditions += [is_same(join(path, each.name), each.token) for each in there or []]
    yield from transact([SetData(path, _encode(generation), ANY_VERSION)], conditions)
