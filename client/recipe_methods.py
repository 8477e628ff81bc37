"""The recipes as methods of both clients: `client.lock(path)`. What each does: docs/RECIPES.md."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, cast

from raykeeper.client.fencing import DurableFencedResource
from raykeeper.client.recipes.acquirable import Acquirable
from raykeeper.client.recipes.barrier import Barrier
from raykeeper.client.recipes.configuration import Configuration, S
from raykeeper.client.recipes.counter import Counter
from raykeeper.client.recipes.double_barrier import DoubleBarrier, OnCrash
from raykeeper.client.recipes.election import Election
from raykeeper.client.recipes.group import Group
from raykeeper.client.recipes.leader_latch import LeaderLatch, Listener
from raykeeper.client.recipes.lease import Lease
from raykeeper.client.recipes.live import OnError
from raykeeper.client.recipes.lock import Lock
from raykeeper.client.recipes.lock_queue import LockQueue
from raykeeper.client.recipes.multi_configuration import Configurations
from raykeeper.client.recipes.multi_lock import MultiLock
from raykeeper.client.recipes.partitioner import Listener as PartitionListener
from raykeeper.client.recipes.partitioner import Partitioner
from raykeeper.client.recipes.priority_queue import PriorityQueue
from raykeeper.client.recipes.publication import Published
from raykeeper.client.recipes.queue import Queue
from raykeeper.client.recipes.read_write_lock import ReadWriteLock
from raykeeper.client.recipes.recipe import FlowRunner, K
from raykeeper.client.recipes.reentrant_lock import ReentrantLock
from raykeeper.client.recipes.rendezvous import Rendezvous
from raykeeper.client.recipes.semaphore import Semaphore
from raykeeper.client.recipes.services import ServiceDiscovery
from raykeeper.client.recipes.simple_lock import SimpleLock
from raykeeper.client.recipes.tree_cache import (
    ZNODES_MAX,
    ChildrenCache,
    OnTreeChange,
    TreeCache,
)
from raykeeper.client.recipes.two_phase_commit import TwoPhaseCommit
from raykeeper.client.recipes.value_types import Format


class RecipeMethods(Generic[K]):
    """Makes recipes of this client. Making one asks nothing of the ensemble.

    Every method raises BadArgumentsError when an argument is not acceptable.
    """

    def lock(self, path: str, identifier: bytes | None = None) -> Lock[K]:
        """A fair lock. See client/recipes/lock.py."""
        return Lock(self._runner(), path, identifier)

    def simple_lock(self, path: str, identifier: bytes | None = None) -> SimpleLock[K]:
        """A lock without a queue. See client/recipes/simple_lock.py."""
        return SimpleLock(self._runner(), path, identifier)

    def reentrant_lock(self, path: str, identifier: bytes | None = None) -> ReentrantLock[K]:
        """A fair lock that its holder may acquire again. See client/recipes/reentrant_lock.py."""
        return ReentrantLock(self._runner(), path, identifier)

    def multi_lock(self, locks: Iterable[Acquirable[K, Any] | str]) -> MultiLock[K]:
        """Several locks, or paths of fair ones, as one. See client/recipes/multi_lock.py."""
        return MultiLock(self._runner(), locks)

    def read_write_lock(self, path: str, identifier: bytes | None = None) -> ReadWriteLock[K]:
        """A fair lock for readers and writers. See client/recipes/read_write_lock.py."""
        return ReadWriteLock(self._runner(), path, identifier)

    def configuration(
        self, path: str, kind: type[S], default: S | None = None, form: Format = "json"
    ) -> Configuration[K, S]:
        """A value of a type, with a version. See client/recipes/configuration.py."""
        return Configuration(self._runner(), path, kind, default, form)

    def tree_cache(
        self,
        path: str,
        on_change: OnTreeChange | None = None,
        on_error: OnError | None = None,
        znodes_max: int = ZNODES_MAX,
    ) -> TreeCache[K]:
        """A copy of a subtree that is always current. See client/recipes/tree_cache.py."""
        return TreeCache(self._runner(), path, on_change, on_error, znodes_max)

    def children_cache(
        self,
        path: str,
        on_change: OnTreeChange | None = None,
        on_error: OnError | None = None,
        znodes_max: int = ZNODES_MAX,
    ) -> ChildrenCache[K]:
        """A copy of the children of a znode. See client/recipes/tree_cache.py."""
        return ChildrenCache(self._runner(), path, on_change, on_error, znodes_max)

    def configurations(self, kinds: Mapping[str, Any], form: Format = "json") -> Configurations[K]:
        """Several of them, changed as one. See client/recipes/multi_configuration.py."""
        return Configurations(self._runner(), kinds, form)

    def published(self, path: str) -> Published[K]:
        """Many values, of which nobody sees a part. See client/recipes/publication.py."""
        return Published(self._runner(), path)

    def counter(self, path: str, default: int = 0) -> Counter[K]:
        """A shared integer. See client/recipes/counter.py."""
        return Counter(self._runner(), path, default)

    def barrier(self, path: str) -> Barrier[K]:
        """A barrier that somebody removes. See client/recipes/barrier.py."""
        return Barrier(self._runner(), path)

    def election(self, path: str, identifier: bytes | None = None) -> Election[K]:
        """A leader election with epochs. See client/recipes/election.py."""
        return Election(self._runner(), path, identifier)

    def leader_latch(
        self,
        path: str,
        identifier: bytes | None = None,
        on_gained: Listener[K] | None = None,
        on_lost: Listener[K] | None = None,
    ) -> LeaderLatch[K]:
        """A candidate in the background. See client/recipes/leader_latch.py.

        `on_gained` and `on_lost` are called, in turn, with each leadership it gets and loses.
        """
        return LeaderLatch(self._runner(), path, identifier, on_gained, on_lost)

    def double_barrier(
        self, path: str, size: int, identifier: bytes | None = None, on_crash: OnCrash = "abort"
    ) -> DoubleBarrier[K]:
        """A barrier that all enter and leave together. See client/recipes/double_barrier.py."""
        return DoubleBarrier(self._runner(), path, size, identifier, on_crash)

    def two_phase_commit(self, path: str) -> TwoPhaseCommit[K]:
        """One transaction of several sites. See client/recipes/two_phase_commit.py."""
        return TwoPhaseCommit(self._runner(), path)

    def queue(self, path: str, size_max: int | None = None) -> Queue[K]:
        """First in, first out. See client/recipes/queue.py."""
        return Queue(self._runner(), path, size_max)

    def lock_queue(self, path: str, size_max: int | None = None) -> LockQueue[K]:
        """A queue whose consumers may die. See client/recipes/lock_queue.py."""
        return LockQueue(self._runner(), path, size_max)

    def priority_queue(self, path: str, size_max: int | None = None) -> PriorityQueue[K]:
        """A queue with priorities. See client/recipes/priority_queue.py."""
        return PriorityQueue(self._runner(), path, size_max)

    def group(self, path: str) -> Group[K]:
        """A group of members. See client/recipes/group.py."""
        return Group(self._runner(), path)

    def semaphore(self, path: str, permits: int, identifier: bytes | None = None) -> Semaphore[K]:
        """So many may hold it at once. See client/recipes/semaphore.py."""
        return Semaphore(self._runner(), path, permits, identifier)

    def lease(self, path: str, duration_s: float, identifier: bytes | None = None) -> Lease[K]:
        """A lock that ends by itself. See client/recipes/lease.py."""
        return Lease(self._runner(), path, duration_s, identifier)

    def services(
        self,
        path: str,
        kind: Any = Any,
        on_malformed: Callable[[str, str], object] | None = None,
    ) -> ServiceDiscovery[K]:
        """Instances of services, with a cache. See client/recipes/services.py.

        `kind` is the type that metadata are made of, such as a dataclass or a Struct.
        `on_malformed` is called with the path of what cannot be read, and why.
        """
        return ServiceDiscovery(self._runner(), path, kind, on_malformed)

    def fenced_resource(self, path: str) -> DurableFencedResource[K]:
        """A guard that remembers the newest token. See client/fencing.py."""
        return DurableFencedResource(self._runner(), path)

    def rendezvous(self, path: str, size: int, data: bytes = b"") -> Rendezvous[K]:
        """A meeting of so many, with what each says. See client/recipes/rendezvous.py."""
        return Rendezvous(self._runner(), path, size, data)

    def partitioner(
        self,
        path: str,
        partitions: Iterable[str],
        identifier: bytes | None = None,
        on_acquired: PartitionListener[K] | None = None,
        on_released: PartitionListener[K] | None = None,
    ) -> Partitioner[K]:
        """A set divided among its members. See client/recipes/partitioner.py.

        `on_acquired` is called with each partition that this member comes to own; `on_released`
        with each that it must let go, which nobody else gets before the call has returned.
        """
        return Partitioner(self._runner(), path, partitions, identifier, on_acquired, on_released)

    def _runner(self) -> FlowRunner:
        return cast(FlowRunner, self)
