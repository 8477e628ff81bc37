"""A queue: what was put first is taken first, each element by one consumer.

    queue = client.queue("/queues/jobs", size_max=1_000)
    queue.put(b"job 1")                 # waits while there are 1 000
    job = queue.get(timeout_s=60)       # it is this consumer's alone, and gone

Taking is one transaction that reads and deletes the element: of two that try one gets it, and who
got it knows, because a write is done exactly once. The invariant of this file: an element is
returned by at most one `get`, and not before all that were put before it were taken. Who was told
of a timeout did not get it: what crossed the timeout goes back to its place, but others may have
overtaken it by then, and it does not count for the bound.

It is gone once it is taken. If the consumer may die with it, use `client.lock_queue`.

kazoo: `Queue`. Curator: `SimpleDistributedQueue`. Elements and bounds:
client/recipes/base_queue.py.
"""

from collections import deque
from collections.abc import Sequence

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import NoNodeError
from raykeeper.client.recipes.base_queue import PRIORITY_DEFAULT, BaseQueue, Element
from raykeeper.client.recipes.compare_and_set import checkpoint
from raykeeper.client.recipes.primitives import timeout_after, transact
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import ANY_VERSION, Delete, ReadData


class QueueConsumer(BaseQueue[K]):
    """A queue from which elements are taken at once."""

    @operation
    def get(self, timeout_s: float | None = None) -> Flow[Element]:
        """Take the first element: its value, as bytes.

        Args:
            timeout_s: How long to wait for one; 0 for now or not at all, None for ever.

        Raises:
            WaitTimeoutError: there was none; nothing was taken.
            LostError: somebody deleted the place in the line of those who wait.
            KeeperError: as for every call.
        """
        yield timeout_after(timeout_s, f"the queue {self.path} was empty")
        element = yield from self._take_first()
        if element is None:
            element = yield from self._attempt_in_turn("get-", self._take_first_of)
        return element

    @operation
    def get_nowait(self) -> Flow[Element | None]:
        """Take the first element, if there is one.

        Raises:
            KeeperError: as for every call.
        """
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
            names = yield from self._names()  # the list was old; behind a write it is not
        return None

    def _take(self, name: str) -> Flow[Element | None]:
        """Take this one, unless it is gone.

        Raises:
            KeeperError: what the transaction failed with.
        """
        path = join(self._elements, name)
        try:
            _, results = yield from transact([ReadData(path), Delete(path, ANY_VERSION)])
        except NoNodeError:
            # What was listed may be long gone: who has given up does not try all of it.
            yield from checkpoint()
            return None
        return Element(results[0][0], path)


class Queue(QueueConsumer[K]):
    """First in, first out."""

    def __init__(self, client: FlowRunner, path: str, size_max: int | None = None) -> None:
        """Use `Client.queue`."""
        super().__init__(client, path, size_max)
        # Names only grow, so what was listed last time comes before whatever came since.
        self._listed_names: deque[str] = deque()

    @operation
    def put(self, value: bytes, *, timeout_s: float | None = None) -> Flow[None]:
        """Put an element at the end.

        Args:
            value: At most `value_bytes_max` of the settings, 1 MiB unless set.
            timeout_s: How long to wait for room, if there is a bound.

        Raises:
            WaitTimeoutError: the queue was full; nothing was put.
            BadArgumentsError: the value is too large, or no bytes.
            KeeperError: as for every call.
        """
        yield from self._append([value], PRIORITY_DEFAULT, timeout_s)

    @operation
    def put_many(self, values: Sequence[bytes], *, timeout_s: float | None = None) -> Flow[None]:
        """Put several elements one behind the other, all or none.

        Args:
            values: At most `transaction_ops_max` of the settings, 1 000 unless set.
            timeout_s: How long to wait for room for all of them, if there is a bound.

        Raises:
            WaitTimeoutError: there was no room for all; nothing was put.
            BadArgumentsError: there are too many, or one is too large, or no bytes.
            KeeperError: as for every call.
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
