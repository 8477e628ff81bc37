"""Queues: an element that was put first is taken first, by one consumer; with priorities or not.

    queue = client.queue("/queues/jobs", size_max=1_000)
    queue.put(b"job 1")                 # waits while there are 1 000
    job = queue.get(timeout_s=60)       # it is this consumer's alone, and gone

    queue = client.priority_queue("/queues/jobs")
    queue.put(b"when there is time", priority=500)
    queue.put(b"at once", priority=1)
    assert queue.get() == b"at once"

An element is a sequential znode below `PATH/elements`, which is never deleted, so that the numbers
never begin anew. The name of an element is its place: priority, then number. A client that has to
wait, for an element or for room, enqueues below `PATH/line` (the queue of a fair lock). Only the
first in that line watches the elements: a put wakes one consumer, and that one wakes the next when
it leaves the line.

The invariants of all queues, that of locked elements (lock_queue.py) included: an element is there
as soon as its put is acknowledged, once; puts never make a queue with a bound larger than that,
however many clients put at once, because the transaction of a put depends on the number of
elements; several elements are put together or not at all.

Taking is one transaction that reads and deletes the element. Of two clients that try, one gets it,
and knows so, because a write is done exactly once. The invariants of taking: an element is returned
by at most one `get`, and not before all that come before it were taken; with priorities, those that
were there when the consumer listed them, which it does anew for every element. A caller that is
told of a timeout has not got the element: one that was taken at that moment goes back to its place,
but others may have overtaken it by then, and it does not count for the bound.

An element is gone once it is taken. If the consumer may die with it, use `client.lock_queue`.

kazoo: `BaseQueue`, `Queue`, with a priority too. Curator: `SimpleDistributedQueue`,
`DistributedPriorityQueue`. Paper: none has a queue; the community's seed does, with its limits.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from raykeeper.client.core.flows import Event, Flow, Wait, with_cleanup
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import (
    BadArgumentsError,
    KeeperError,
    LostError,
    NodeExistsError,
    NoNodeError,
)
from raykeeper.client.recipes.compare_and_set import checkpoint
from raykeeper.client.recipes.lock import (
    enqueue,
    path_before,
    predecessors,
    sequence_number,
    wait_for_predecessor,
)
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_bytes,
    checked_root,
    ensure_parent,
    get_or_none,
    pending_watches,
    reread_changed,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, Recipe, operation
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetChildren,
    ReadData,
    ReadStat,
    Relation,
    TxnOp,
)
from raykeeper.znodes.stat import Stat

PRIORITY_DEFAULT = 100
"""The priority of an element that was put without one, as in kazoo."""
PRIORITY_MAX = 999
PREFIX = "e-"
_DIGITS = len("000-0000000000")

T = TypeVar("T")


class Element(bytes):
    """A value that was taken from a queue: bytes that know their place in it."""

    path: str
    """The path of its znode, which is gone."""

    def __new__(cls, value: bytes, path: str) -> "Element":
        element = super().__new__(cls, value)
        element.path = path
        return element

    @property
    def priority(self) -> int:
        """The priority that it was put with."""
        return int(self.path[-_DIGITS:][:3])

    def _release(self) -> Flow[None]:
        """Put it back in its place, since nobody waits for it any more."""
        back = Create(self.path, bytes(self), 0)
        try:
            yield back
        except NoNodeError:  # the whole queue was deleted meanwhile
            yield from ensure_parent(self.path.rpartition("/")[0], stays=True)
            yield back
        except NodeExistsError:
            return

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)


class BaseQueue(Recipe[K]):
    """The elements of a queue, and the line of those who wait for them."""

    def __init__(self, client: FlowRunner, path: str, size_max: int | None = None) -> None:
        """Use the methods of the client. All who put must name the same `size_max`."""
        super().__init__(client)
        self.path = checked_root(path)
        if size_max is not None and (type(size_max) is not int or size_max < 1):
            raise BadArgumentsError(path, f"size_max must be 1 or more, not {size_max!r}")
        self.size_max = size_max
        self._elements = join(path, "elements")
        """The parent of the elements."""
        self._watched_paths = [self._elements]
        """The paths of which the first in the line watches the children."""
        self._line = join(path, "line")

    @operation
    def size(self) -> Flow[int]:
        """Return the number of elements."""
        stat: Stat | None = yield Query(Exists, self._elements, linearizable=True)
        return 0 if stat is None else stat.num_children

    @operation
    def peek(self) -> Flow[bytes | None]:
        """Return the element that would be taken next, without taking it; None if there is none."""
        while names := (yield from self._names(is_newest=True)):
            for name in names:
                found = yield from get_or_none(join(self._elements, name))
                if found is not None:
                    return Element(found[0], join(self._elements, name))
        return None

    def _names(self, *, is_newest: bool = False) -> Flow[list[str]]:
        """Return the names of the elements, in the order in which they are taken.

        Args:
            is_newest: All elements are among them whose put has returned to anybody. Otherwise the
                last ones may be missing, if this client's server is behind.
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
            WaitTimeoutError: the queue was full all the time.
            BadArgumentsError: an argument is not acceptable, or there are too many values.
            KeeperError: what the transaction failed with; nothing was put.
        """
        if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
            raise BadArgumentsError("", f"priority must be 0 to {PRIORITY_MAX}, not {priority!r}")
        if self.size_max is not None and len(values) > self.size_max:
            raise BadArgumentsError(
                self.path, f"{len(values)} never fit into a queue of {self.size_max}"
            )
        # An element may be taken at once, so nothing is put for a caller that is told of a timeout.
        yield timeout_after(timeout_s, f"the queue {self.path} was full", only_while_waiting=True)
        place = join(self._elements, f"{PREFIX}{priority:03}-")
        ops: list[TxnOp] = [
            Create(place, checked_bytes("value", value), CreateMode.SEQUENTIAL) for value in values
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
            yield from ensure_parent(self._elements, stays=True)

    def _attempt_in_turn(
        self, prefix: str, attempt: Callable[[list[str]], Flow[T | None]]
    ) -> Flow[T]:
        """Wait in the line until an attempt succeeds; return its result.

        Args:
            prefix: The prefix of the places in the line of those who wait for the same.
            attempt: Called by the first in the line, each time that elements came or went. It gets
                the elements in order, and returns None for a failure.

        Raises:
            LostError: somebody deleted the place in the line.
        """
        what = f"the place in the line of {self.path}"
        place: Any = yield from enqueue(self._client, self._line, prefix, b"", what)
        yield from wait_for_predecessor(place, predecessors, path_before(place.path))
        events: dict[str, Event] = {path: Event() for path in self._watched_paths}
        return (
            yield from with_cleanup(
                self._attempt_on_changes(attempt, place, events),
                lambda _: best_effort_cleanup([place._removal()], pending_watches(events)),
            )
        )

    def _attempt_on_changes(
        self, attempt: Callable[[list[str]], Flow[T | None]], place: Any, events: dict[str, Event]
    ) -> Flow[T]:
        found: dict[str, list[str]] = {}
        while True:
            got = yield from attempt((yield from self._watch_elements(events, found)))
            if got is not None:
                return got
            yield Wait((*events.values(), place._changed))
            if place._changed.is_set() and not (yield from place._reread()):
                raise LostError(f"somebody deleted {place.path} while it waited")

    def _available(self, lists: list[list[str]]) -> list[str]:
        """Return the elements to be had, in order, from the children of each watched path."""
        return sort_elements(lists[0])

    def _watch_elements(
        self, events: dict[str, Event], found: dict[str, list[str]]
    ) -> Flow[list[str]]:
        while True:
            for path, names in (yield from reread_changed(events, found)):
                if isinstance(names, NoNodeError):
                    found.pop(path, None)
                    yield from ensure_parent(path, stays=True)
                elif isinstance(names, KeeperError):
                    raise names
                else:
                    found[path] = names
            if len(found) == len(events):
                return self._available([found[path] for path in events])


class QueueConsumer(BaseQueue[K]):
    """A queue whose elements are gone once they are taken."""

    @operation
    def get(self, timeout_s: float | None = None) -> Flow[Element]:
        """Take the first element; return its value, as bytes.

        Raises:
            WaitTimeoutError: there was no element; nothing was taken.
            LostError: somebody deleted the caller's place in the line.
        """
        yield timeout_after(timeout_s, f"the queue {self.path} was empty")
        element = yield from self._take_first()
        if element is None:
            element = yield from self._attempt_in_turn("get-", self._take_first_of)
        return element

    @operation
    def get_nowait(self) -> Flow[Element | None]:
        """Take the first element, if there is one; else return None."""
        element = yield from self._take_first()
        if element is None:
            element = yield from self._take_first_of((yield from self._names(is_newest=True)))
        return element

    def _take_first(self) -> Flow[Element | None]:
        while names := (yield from self._names()):
            element = yield from self._take_first_of(names)
            if element is not None:
                return element
        return None

    def _take_first_of(self, names: list[str]) -> Flow[Element | None]:
        while names:
            element = yield from self._take(names[0])
            if element is not None:
                return element
            names = yield from self._names()  # the list was old; after a write it is not
        return None

    def _take(self, name: str) -> Flow[Element | None]:
        """Take this element; None if it is gone."""
        path = join(self._elements, name)
        try:
            _, results = yield from transact([ReadData(path), Delete(path, ANY_VERSION)])
        except NoNodeError:
            # All listed elements may be long gone: after a timeout it does not try the others.
            yield from checkpoint()
            return None
        return Element(results[0][0], path)


class Queue(QueueConsumer[K]):
    """First in, first out."""

    def __init__(self, client: FlowRunner, path: str, size_max: int | None = None) -> None:
        """Use `Client.queue`."""
        super().__init__(client, path, size_max)
        # Names only grow, so elements that were listed come before those that were put later.
        self._listed_names: deque[str] = deque()

    @operation
    def put(self, value: bytes, *, timeout_s: float | None = None) -> Flow[None]:
        """Put an element at the end.

        Args:
            value: At most `value_bytes_max` of the settings, 1 MiB unless set.
            timeout_s: How long to wait while the queue is full, if there is a bound.

        Raises:
            WaitTimeoutError: the queue was full; nothing was put.
            BadArgumentsError: the value is too large, or no bytes.
        """
        yield from self._append([value], PRIORITY_DEFAULT, timeout_s)

    @operation
    def put_many(self, values: Sequence[bytes], *, timeout_s: float | None = None) -> Flow[None]:
        """Put several elements one behind the other, all or none.

        Args:
            values: At most as many as a transaction may have: see `transaction_ops_max`.
            timeout_s: How long to wait until all of them fit, if there is a bound.

        Raises:
            WaitTimeoutError: not all fitted in time; nothing was put.
            BadArgumentsError: there are too many, or one is too large, or no bytes.
        """
        yield from self._append(values, PRIORITY_DEFAULT, timeout_s)

    def _take_first(self) -> Flow[Element | None]:
        while True:
            if not self._listed_names:
                self._listed_names.extend((yield from self._names()))
            if not self._listed_names:
                return None
            element = yield from self._take(self._listed_names.popleft())
            if element is not None:
                return element
            self._listed_names.clear()  # others are taking too


class PriorityProducer(BaseQueue[K]):
    """A queue into which elements are put with a priority."""

    @operation
    def put(
        self, value: bytes, priority: int = PRIORITY_DEFAULT, *, timeout_s: float | None = None
    ) -> Flow[None]:
        """Put an element behind all others of the same priority; see `Queue.put`.

        Args:
            value: The value of the element.
            priority: 0 to 999; the lowest is taken first.
            timeout_s: How long to wait while the queue is full, if there is a bound.
        """
        yield from self._append([value], priority, timeout_s)

    @operation
    def put_many(
        self,
        values: Sequence[bytes],
        priority: int = PRIORITY_DEFAULT,
        *,
        timeout_s: float | None = None,
    ) -> Flow[None]:
        """Put several elements of one priority, all or none; see `Queue.put_many`."""
        yield from self._append(values, priority, timeout_s)


class PriorityQueue(PriorityProducer[K], QueueConsumer[K]):
    """Lowest priority first, then first in, first out."""


def sort_elements(names: list[str]) -> list[str]:
    """Return those that are elements, in the order in which they are taken."""
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
