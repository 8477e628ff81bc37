"""A queue with priorities: the lowest number is taken first, and of the same who was put first.

    queue = client.priority_queue("/queues/jobs")
    queue.put(b"when there is time", priority=500)
    queue.put(b"at once", priority=1)
    assert queue.get() == b"at once"

The invariant of this file: what is taken had the lowest number of all that were there when the
consumer listed them, which is not long ago: the list is read anew for every element.

kazoo: `Queue` with a priority. Curator: `DistributedPriorityQueue`. Elements: base_queue.py.
"""

from collections.abc import Sequence

from raykeeper.client.core.flows import Flow
from raykeeper.client.recipes.base_queue import PRIORITY_DEFAULT, BaseQueue
from raykeeper.client.recipes.queue import QueueConsumer
from raykeeper.client.recipes.recipe import K, operation


class PriorityProducer(BaseQueue[K]):
    """A queue into which elements are put with a priority."""

    @operation
    def put(
        self, value: bytes, priority: int = PRIORITY_DEFAULT, *, timeout_s: float | None = None
    ) -> Flow[None]:
        """Put an element behind all of the same priority.

        Args:
            value: At most `value_bytes_max` of the settings, 1 MiB unless set.
            priority: 0 to 999; the lowest is taken first.
            timeout_s: How long to wait for room, if there is a bound.

        Raises:
            WaitTimeoutError: the queue was full; nothing was put.
            BadArgumentsError: the value is too large, or no bytes, or there is no such priority.
            KeeperError: as for every call.
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
        """Put several elements one behind the other, all or none.

        Args:
            values: At most `transaction_ops_max` of the settings, 1 000 unless set.
            priority: Of all of them, 0 to 999.
            timeout_s: How long to wait for room for all of them, if there is a bound.

        Raises:
            WaitTimeoutError: there was no room for all; nothing was put.
            BadArgumentsError: there are too many, one is too large, or no bytes, or there is no
                such priority.
            KeeperError: as for every call.
        """
        yield from self._append(values, priority, timeout_s)


class PriorityQueue(PriorityProducer[K], QueueConsumer[K]):
    """Lowest priority first, then first in, first out."""
