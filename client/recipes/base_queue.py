"""The elements of a queue, which all queues share: what is put, in which order, how many at most.

An element is a sequential znode below `PATH/elements`, which stays once it was made, so that the
numbers never begin anew. Its name is its place: priority, then number. Who has to wait, for an
element or for room, stands in a line below `PATH/line` (the queue of a fair lock), and only the
first of the line watches the elements: a put wakes one consumer, who wakes the next one by going.

The invariants of this file: an element is there as soon as the put is acknowledged, once; a queue
with a bound never has more elements than that by puts, however many clients put at once, because
the transaction that puts depends on their number; several elements are put together or not at all.

Paper: none has a queue; the community's seed does, with its limits. kazoo: `BaseQueue`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import (
    BadArgumentsError,
    KeeperError,
    LostError,
    NodeExistsError,
    NoNodeError,
    RayKeeperError,
)
from raykeeper.client.recipes.lock import (
    enqueue,
    predecessor,
    sequence_number,
    wait_for_predecessor,
)
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_bytes,
    checked_root,
    ensure_path,
    get_or_none,
    reread_changed,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, Recipe, operation
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import (
    Compare,
    CompareField,
    Create,
    CreateMode,
    Exists,
    GetChildren,
    ReadStat,
    Relation,
    TxnOp,
    WatchKind,
)
from raykeeper.znodes.stat import Stat

PRIORITY_DEFAULT = 100
"""Of an element for which none was named; kazoo's too."""
PRIORITY_MAX = 999
PREFIX = "e-"
_DIGITS = len("000-0000000000")

T = TypeVar("T")


class Element(bytes):
    """A value that was taken from a queue: bytes, which know where they stood."""

    path: str
    """The znode that it was."""

    def __new__(cls, value: bytes, path: str) -> "Element":
        element = super().__new__(cls, value)
        element.path = path
        return element

    @property
    def priority(self) -> int:
        """What it was put with."""
        return int(self.path[-_DIGITS:][:3])

    def _release(self) -> Flow[None]:
        """Put it back where it stood, for somebody who did not wait for it."""
        back = Create(self.path, bytes(self), 0, None, 0)
        try:
            yield back
        except NoNodeError:  # the whole queue was deleted meanwhile
            yield from ensure_path(self.path.rpartition("/")[0], stays=True)
            yield back
        except NodeExistsError:
            return

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)


class BaseQueue(Recipe[K]):
    """What is in a queue, and who waits for it."""

    def __init__(self, client: FlowRunner, path: str, size_max: int | None = None) -> None:
        """Use the methods of the client. `size_max` must be the same for all who put."""
        super().__init__(client)
        self.path = checked_root(path)
        if size_max is not None and (type(size_max) is not int or size_max < 1):
            raise BadArgumentsError(path, f"size_max must be 1 or more, not {size_max!r}")
        self.size_max = size_max
        self._elements = join(path, "elements")
        """The znode below which they are."""
        self._watched_paths = [self._elements]
        """What whoever waits watches the children of."""
        self._line = join(path, "line")

    @operation
    def size(self) -> Flow[int]:
        """How many elements there are.

        Raises:
            KeeperError: as for every call.
        """
        stat: Stat | None = yield Query(Exists, self._elements, linearizable=True)
        return 0 if stat is None else stat.num_children

    @operation
    def peek(self) -> Flow[bytes | None]:
        """The element that would be taken next, which stays; None if there is none.

        Raises:
            KeeperError: as for every call.
        """
        while names := (yield from self._names(is_newest=True)):
            for name in names:
                found = yield from get_or_none(join(self._elements, name))
                if found is not None:
                    return Element(found[0], join(self._elements, name))
        return None

    def _names(self, *, is_newest: bool = False) -> Flow[list[str]]:
        """The elements, the first to be taken first.

        Args:
            is_newest: Whatever anybody's put has returned for must be among them. Otherwise the
                last ones may be missing, if one's own server is behind.

        Raises:
            KeeperError: what the read failed with.
        """
        try:
            names = yield Query(GetChildren, self._elements, linearizable=is_newest)
        except NoNodeError:
            return []
        return sort_elements(names)

    def _append(
        self, values: Sequence[bytes], priority: int, timeout_s: float | None
    ) -> Flow[None]:
        """Put all of these, one behind the other, or none.

        Raises:
            WaitTimeoutError: there was no room all the time.
            BadArgumentsError: an argument is not acceptable, or there are too many values.
            KeeperError: what the transaction failed with; nothing was put.
        """
        if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
            raise BadArgumentsError("", f"a priority is 0 to {PRIORITY_MAX}, not {priority!r}")
        if self.size_max is not None and len(values) > self.size_max:
            raise BadArgumentsError(self.path, f"{len(values)} never fit into {self.size_max}")
        # What is put may be taken at once, so who is told of a timeout must not have put it.
        yield timeout_after(timeout_s, f"the queue {self.path} was full", only_while_waiting=True)
        place = join(self._elements, f"{PREFIX}{priority:03}-")
        ops: list[TxnOp] = [
            Create(place, checked_bytes("value", value), CreateMode.SEQUENTIAL, None, 0)
            for value in values
        ]

        def attempt(_: list[str]) -> Flow[bool | None]:
            return (yield from self._put(ops)) or None

        if ops and not (yield from self._put(ops)):
            yield from self._attempt_in_turn("put-", attempt)

    def _put(self, ops: list[TxnOp]) -> Flow[bool]:
        compares = []
        if self.size_max is not None:
            free = self.size_max - len(ops) + 1
            compares.append(Compare(self._elements, CompareField.NUM_CHILDREN, Relation.LESS, free))
        while True:
            try:
                is_put, results = yield from transact(ops, compares, [ReadStat(self._elements)])
            except NoNodeError:
                is_put, results = False, [None]
            if is_put or results[0] is not None:
                return is_put
            yield from ensure_path(self._elements, stays=True)

    def _attempt_in_turn(
        self, prefix: str, attempt: Callable[[list[str]], Flow[T | None]]
    ) -> Flow[T]:
        """Wait in the line of all who wait for the same until an attempt succeeds.

        Args:
            prefix: Of the places in that line.
            attempt: Of the first in the line, each time that elements came or went. It is given
                the elements in order, and returns None for a failure.

        Raises:
            LostError: somebody deleted the place in the line.
            KeeperError: what a request failed with.
        """
        what = f"the place in the line of {self.path}"
        place: Any = yield from enqueue(self._client, self._line, prefix, b"", what)
        yield from wait_for_predecessor(place, predecessor)
        bells: dict[str, Event] = {path: Event() for path in self._watched_paths}
        found: dict[str, list[str]] = {}
        try:
            while True:
                got = yield from attempt((yield from self._watch_elements(bells, found)))
                if got is not None:
                    break
                yield Wait((*bells.values(), place._changed))
                if place._changed.is_set() and not (yield from place._reread()):
                    raise LostError(f"somebody deleted {place.path} while it waited")
        except (Cancelled, RayKeeperError):
            yield from best_effort_cleanup([place._removal()], _pending_watches(bells))
            raise
        yield from best_effort_cleanup([place._removal()], _pending_watches(bells))
        return got

    def _available(self, lists: list[list[str]]) -> list[str]:
        """Of the children of each that is watched: the elements to be had, in order."""
        return sort_elements(lists[0])

    def _watch_elements(
        self, bells: dict[str, Event], found: dict[str, list[str]]
    ) -> Flow[list[str]]:
        while True:
            for path, names in (yield from reread_changed(bells, found)):
                if isinstance(names, NoNodeError):
                    found.pop(path, None)
                    yield from ensure_path(path, stays=True)
                elif isinstance(names, KeeperError):
                    raise names
                else:
                    found[path] = names
            if len(found) == len(bells):
                return self._available([found[path] for path in bells])


def _pending_watches(bells: dict[str, Event]) -> list[tuple[str, WatchKind, Event]]:
    return [(path, WatchKind.CHILD, bell) for path, bell in bells.items() if not bell.is_set()]


def sort_elements(names: list[str]) -> list[str]:
    """Those that are elements, the first to be taken first."""
    return sorted(
        filter(_is_element, names), key=lambda name: (_priority(name), sequence_number(name))
    )


def _is_element(name: str) -> bool:
    priority, _, number = name.removeprefix(PREFIX).partition("-")
    return (
        name.startswith(PREFIX) and priority.isdecimal() and len(priority) == 3 and len(number) > 9
    )


def _priority(name: str) -> int:
    return int(name[len(PREFIX) :][:3])
