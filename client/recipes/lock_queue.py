"""A queue whose consumers may die: a consumer locks an element, works on it, and removes it.

    queue = client.lock_queue("/queues/jobs")
    job = queue.get()                   # others do not see it, unless this session ends
    work(job.value, token=job.token)
    job.consume()                       # or job.release(), and another one gets it

    with queue.get() as job, client.transaction() as t:
        t.consume(job)                  # together with what the job has done, or not at all
        t.create("/results/7", work(job.value))

The lock of an element is an ephemeral znode of the same name below `PATH/locks`; the transaction
that creates it also reads the value. The invariant of this file: at most one consumer holds an
element, and only a consumer that still holds it removes it: the removal depends on the czxid of the
consumer's own lock, and on that of the element, since a queue that was made again has others of the
same names. So each element is worked on at least once. Two consumers work on it only if the first
one lost it; its `lost` is set before that, and the second one's token is larger.

The queue does not count how often an element was tried.

kazoo: `LockingQueue`, which holds one element for each queue object. Curator: `DistributedQueue`
with a lock path. Elements and bounds: client/recipes/queue.py.
"""

from typing import Any

from raykeeper.client.core.flows import Event, Flow, Gather, Wait, raise_unexpected
from raykeeper.client.core.outstanding import Query
from raykeeper.client.errors import (
    KeeperError,
    LostError,
    NodeExistsError,
    NoNodeError,
    RecipeError,
)
from raykeeper.client.recipes.acquirable import Held, spawn_guard
from raykeeper.client.recipes.primitives import ensure_parent, is_same, timeout_after, transact
from raykeeper.client.recipes.queue import (
    Element,
    Listing,
    PriorityProducer,
    listing_of,
    sort_elements,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.client.recipes.simple_lock import watch_own_znode
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.paths import join
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Compare,
    Create,
    CreateMode,
    Delete,
    GetChildren,
    ReadData,
    ReadStat,
    TxnOp,
)


class HeldElement(Held[K]):
    """An element that this consumer has locked. `release` lets another consumer have it."""

    def __init__(
        self, client: FlowRunner, path: str, token: Zxid, value: Element, element: Zxid
    ) -> None:
        """Use `LockQueue.get`. `element` is the czxid of the element's znode."""
        super().__init__(client, f"the element {value.path}", path, token)
        self.value = value
        """The value of the element, as bytes."""
        self._element = element
        self._transactions = 0
        """Transactions under way that consume it."""
        self._transaction_over = Event()

    @operation
    def consume(self) -> Flow[None]:
        """Remove the element, after the work is done.

        Raises:
            LostError: the element is not held any more, or somebody removed it; this call removed
                nothing.
            RecipeError: the element was released or consumed before.
            KeeperError: either the element is removed or another consumer gets it.
        """
        conditions, removal = self._consumption()
        self._is_released = True
        try:
            is_removed, stats = yield from transact(removal, conditions, [ReadStat(self.path)])
        except KeeperError:
            self._is_released = False
            raise
        if is_removed:
            return
        if stats[0] is not None and stats[0].czxid == self.token:
            yield from self._remove()  # somebody removed the element, which only its holder may do
            raise LostError(f"somebody deleted {self.value.path}")
        self.lost._set()
        raise LostError(f"{self._what} was lost before it was consumed")

    def _consumption(self) -> tuple[list[Compare], list[Delete]]:
        """Return what removes the element, and while what holds; see `Consumable`."""
        if self.is_released:
            raise RecipeError(f"{self._what} was released or consumed before")
        self.lost.check()
        conditions = [self._still_held_compare(), is_same(self.value.path, self._element)]
        return conditions, [Delete(self.path, ANY_VERSION), Delete(self.value.path, ANY_VERSION)]

    def _transaction_begins(self) -> None:
        """See `Consumable`."""
        self._transactions += 1

    def _transaction_ends(self, *, is_consumed: bool) -> None:
        """See `Consumable`."""
        self._transactions -= 1
        self._is_released = self._is_released or is_consumed
        self._transaction_over.set()

    def _until_removal_is_known(self) -> Flow[None]:
        """See `Held`: the event of the removal comes before the reply to the transaction."""
        while self._transactions and not self._is_released:
            self._transaction_over.drain()
            yield Wait((self._transaction_over,))


class LockQueue(PriorityProducer[K]):
    """A queue whose elements are locked first and removed later."""

    def __init__(self, client: FlowRunner, path: str, size_max: int | None = None) -> None:
        """Use `Client.lock_queue`."""
        super().__init__(client, path, size_max)
        self._locks = join(path, "locks")
        self._watched_paths.append(self._locks)

    @operation
    def get(self, timeout_s: float | None = None) -> Flow[HeldElement[K]]:
        """Lock the first element that nobody holds.

        Raises:
            WaitTimeoutError: there was no element; nothing is locked.
            LostError: somebody deleted the lock, or this consumer's znode in the line of waiters.
        """
        yield timeout_after(timeout_s, f"the queue {self.path} had no free element")
        held = yield from self._lock_first_of((yield from self._list_free()))
        if held is None:
            held = yield from self._attempt_in_turn("get-", self._lock_first_of)
        return held

    @operation
    def held(self) -> Flow[int]:
        """Return how many elements are locked."""
        try:
            names = yield Query(GetChildren, self._locks, linearizable=True)
        except NoNodeError:
            return 0
        return len(names)

    def _available(self, lists: list[Listing]) -> Listing:
        """Return the elements that nobody has locked; all, if only they are listed."""
        elements, *locks = lists
        taken = {name for each in locks for name in each.names}
        names = [name for name in sort_elements(elements.names) if name not in taken]
        return Listing(names, elements.parent)

    def _list_free(self) -> Flow[Listing]:
        asks = [Query(GetChildren, path) for path in self._watched_paths]
        lists = yield Gather(list(asks), listing_of)
        raise_unexpected(lists, NoNodeError)
        return self._available(
            [Listing() if isinstance(each, NoNodeError) else each for each in lists]
        )

    def _lock_first_of(self, listing: Listing) -> Flow[HeldElement[K] | None]:
        while listing.names:
            held: HeldElement[K] | None = yield from self._lock(listing.names[0], listing.parent)
            if held is not None:
                yield from watch_own_znode(held)
                return (yield from spawn_guard(held))
            listing = yield from self._list_free()  # the list was old; after a write it is not
        return None

    def _lock(self, name: str, parent: Zxid) -> Flow[Any]:
        lock, path = join(self._locks, name), join(self._elements, name)
        ops: list[TxnOp] = [
            Create(lock, b"", CreateMode.EPHEMERAL),
            ReadData(path),
            ReadStat(lock),
        ]
        while True:
            try:
                is_locked, results = yield from transact(ops, [is_same(self._elements, parent)])
            except NodeExistsError:
                return None
            except NoNodeError as error:
                if error.failed == 1:
                    return None
                yield from ensure_parent(self._locks, stays=True)
            else:
                if not is_locked:
                    return None
                (value, stat), own = results[1:]
                element = Element(value, path, parent)
                return HeldElement(self._client, lock, own.czxid, element, stat.czxid)
