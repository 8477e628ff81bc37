"""Queues: an element that was put first is taken first, by one consumer; with priorities or not.

    queue = client.queue("/queues/jobs", size_max=1_000)
    queue.put(b"job 1")                 # waits while there are 1 000
    job = queue.get(timeout_s=60)       # it is this consumer's alone, and gone

    queue = client.priority_queue("/queues/jobs")
    queue.put(b"when there is time", priority=500)
    queue.put(b"at once", priority=1)
    assert queue.get() == b"at once"

An element is a sequential znode below `PATH/elements`, which no queue deletes, so that the numbers
never begin anew. The name of an element is its place: priority, then number. If somebody deletes
`elements` and it is made again, the same names stand for other elements; so each listing knows the
czxid of its parent, on the condition of which an element is taken. A client that has to
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

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import Event, Flow, MappedRequest, Wait, with_cleanup
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
    is_same,
    pending_watches,
    reread_changed,
    timeout_after,
    transact,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, PortableRecipe, operation
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.paths import join, parent_of
from raykeeper.znodes.replies import GetChildrenReply
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
_NUMBER_DIGITS = len("0000000000")
_DIGITS = len("000-") + _NUMBER_DIGITS

T = TypeVar("T")


class Element(bytes):
    """A value that was taken from a queue: bytes that know their place in it."""

    path: str
    """The path of its znode, which is gone."""
    _parent: Zxid
    """The czxid of the parent in which it was."""

    def __new__(cls, value: bytes, path: str, parent: Zxid = ZERO) -> "Element":
        element = super().__new__(cls, value)
        element.path, element._parent = path, parent
        return element

    @property
    def priority(self) -> int:
        """The priority that it was put with."""
        return int(self.path[-_DIGITS:][:3])

    def _release(self) -> Flow[None]:
        """Put it back in its place, since nobody waits for it any more.

        If the whole queue was deleted meanwhile, its place is another element's now, or will be:
        then it is put at the end.
        """
        parent = parent_of(self.path)
        is_there = is_same(parent, self._parent)
        back = Create(self.path, bytes(self), 0)
        to_end = Create(self.path[:-_NUMBER_DIGITS], bytes(self), CreateMode.SEQUENTIAL)
        while True:
            try:
                yield from transact([back], [is_there], [to_end])
            except NoNodeError:
                yield from ensure_parent(parent, stays=True)
            except NodeExistsError:
                return  # somebody has made it by hand
            else:
                return

    def __repr__(self) -> str:
        return f"Element({bytes(self)!r}, {self.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Element, (bytes(self), self.path, self._parent)


class Listing(Struct, frozen=True):
    """The children of a znode at some moment."""

    names: list[str] = []
    parent: Zxid = ZERO
    """The czxid of the znode; the names mean the same only as long as it is the same."""


class BaseQueue(PortableRecipe[K]):
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
        while names := (yield from self._list(is_newest=True)).names:
            for name in names:
                found = yield from get_or_none(join(self._elements, name))
                if found is not None:
                    return Element(found[0], join(self._elements, name))
        return None

    def _list(self, *, is_newest: bool = False) -> Flow[Listing]:
        """Return the elements, in the order in which they are taken.

        Args:
            is_newest: All elements are among them whose put has returned to anybody. Otherwise the
                last ones may be missing, if this client's server is behind.
        """
        query = Query(GetChildren, self._elements, linearizable=is_newest)
        try:
            listing: Listing = yield MappedRequest(query, listing_of)
        except NoNodeError:
            return Listing()
        return self._available([listing])

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

        def attempt(_: Listing) -> Flow[bool | None]:
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
        self, prefix: str, attempt: Callable[[Listing], Flow[T | None]]
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
        self, attempt: Callable[[Listing], Flow[T | None]], place: Any, events: dict[str, Event]
    ) -> Flow[T]:
        found: dict[str, Listing] = {}
        while True:
            got = yield from attempt((yield from self._watch_elements(events, found)))
            if got is not None:
                return got
            yield Wait((*events.values(), place._changed))
            if place._changed.is_set() and not (yield from place._reread()):
                raise LostError(f"somebody deleted {place.path} while it waited")

    def _available(self, lists: list[Listing]) -> Listing:
        """Return the elements to be had, in order, from the children of each watched path."""
        return Listing(sort_elements(lists[0].names), lists[0].parent)

    def _watch_elements(self, events: dict[str, Event], found: dict[str, Listing]) -> Flow[Listing]:
        while True:
            for path, listing in (yield from reread_changed(events, found, to_result=listing_of)):
                if isinstance(listing, NoNodeError):
                    found.pop(path, None)
                    yield from ensure_parent(path, stays=True)
                elif isinstance(listing, KeeperError):
                    raise listing
                else:
                    found[path] = listing
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
            element = yield from self._take_first_of((yield from self._list(is_newest=True)))
        return element

    def _take_first(self) -> Flow[Element | None]:
        return (yield from self._take_first_of((yield from self._list())))

    def _take_first_of(self, listing: Listing) -> Flow[Element | None]:
        while listing.names:
            element = yield from self._take(listing.names[0], listing.parent)
            if element is not None:
                return element
            listing = yield from self._list()  # the list was old; after a write it is not
        return None

    def _take(self, name: str, parent: Zxid) -> Flow[Element | None]:
        """Take this element; None if it is gone, or the parent is another one."""
        path = join(self._elements, name)
        ops: list[TxnOp] = [ReadData(path), Delete(path, ANY_VERSION)]
        try:
            is_taken, results = yield from transact(ops, [is_same(self._elements, parent)])
        except NoNodeError:
            is_taken = False
        if not is_taken:
            # All listed elements may be long gone: after a timeout it does not try the others.
            yield from checkpoint()
            return None
        return Element(results[0][0], path, parent)


class Queue(QueueConsumer[K]):
    """First in, first out."""

    def __init__(self, client: FlowRunner, path: str, size_max: int | None = None) -> None:
        """Use `Client.queue`."""
        super().__init__(client, path, size_max)
        # Names only grow, so elements that were listed come before those that were put later.
        self._listed = Listing()

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
            if not self._listed.names:
                listing = yield from self._list()
                self._listed = Listing(listing.names[::-1], listing.parent)  # the first is last
            if not self._listed.names:
                return None
            element = yield from self._take(self._listed.names.pop(), self._listed.parent)
            if element is not None:
                return element
            self._listed = Listing()  # others are taking too, or the queue was deleted


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


def listing_of(reply: SuccessReply) -> Listing:
    """Return the children, and which parent they have, from the reply to GetChildren."""
    assert isinstance(reply, GetChildrenReply), reply
    return Listing(reply.children, reply.stat.czxid)


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
