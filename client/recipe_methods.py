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
from raykeeper.client.recipes.publication import Published
from raykeeper.client.recipes.queue import PriorityQueue, Queue
from raykeeper.client.recipes.read_write_lock import ReadWriteLock
from raykeeper.client.recipes.recipe import FlowRunner, K
from raykeeper.client.recipes.reentrant_lock import ReentrantLock
from raykeeper.client.recipes.rendezvous import Rendezvous
from raykeeper.client.recipes.semaphore import Semaphore
from raykeeper.client.recipes.services import ServiceDiscovery
from raykeeper.client.recipes.simple_lock import SimpleLock
from raykeeper.client.recipes.tree_cache import ZNODES_MAX, ChildrenCache, OnTreeChange, TreeCache
from raykeeper.client.recipes.two_phase_commit import TwoPhaseCommit
from raykeeper.client.recipes.value_types import Format
from raykeeper.client.unexpected_names import suggest_names


@suggest_names
class RecipeMethods(Generic[K]):
    """The recipes of a client. docs/RECIPES.md says what each one guarantees and costs.

    A method only makes an object, without a request to the ensemble. Every method raises
    BadArgumentsError when an argument is not acceptable.
    """

    def lock(self, path: str, identifier: bytes | None = None) -> Lock[K]:
        """Return a fair lock: at most one holder, first come, first served."""
        return Lock(self._runner(), path, identifier)

    def simple_lock(self, path: str, identifier: bytes | None = None) -> SimpleLock[K]:
        """Return a lock without a queue: the quickest contender gets it after a release."""
        return SimpleLock(self._runner(), path, identifier)

    def reentrant_lock(self, path: str, identifier: bytes | None = None) -> ReentrantLock[K]:
        """Return a fair lock that its holder may acquire again."""
        return ReentrantLock(self._runner(), path, identifier)

    def multi_lock(self, locks: Iterable[Acquirable[K, Any] | str]) -> MultiLock[K]:
        """Return several locks as one: all of them are acquired, or none.

        Args:
            locks: Recipes that can be acquired, of this client, or paths of fair locks.
        """
        return MultiLock(self._runner(), list(locks))

    def read_write_lock(self, path: str, identifier: bytes | None = None) -> ReadWriteLock[K]:
        """Return a fair lock for many readers or one writer."""
        return ReadWriteLock(self._runner(), path, identifier)

    def configuration(
        self, path: str, kind: type[S], default: S | None = None, form: Format = "json"
    ) -> Configuration[K, S]:
        """Return a value of a type, with a version.

        Args:
            kind: The type, such as a dataclass; None must not be a value of it.
            default: What `get` and `update` start from while there is no value.
            form: "json" or "msgpack".
        """
        return Configuration(self._runner(), path, kind, default, form)

    def tree_cache(
        self,
        path: str,
        on_change: OnTreeChange | None = None,
        on_error: OnError | None = None,
        znodes_max: int = ZNODES_MAX,
    ) -> TreeCache[K]:
        """Return a copy of a znode and all its descendants, which is kept current.

        Args:
            on_change: Called with each difference, in order.
            on_error: Called with what `on_change` raises; without it the error is logged.
            znodes_max: With more znodes than these the cache closes.
        """
        return TreeCache(self._runner(), path, on_change, on_error, znodes_max)

    def children_cache(
        self,
        path: str,
        on_change: OnTreeChange | None = None,
        on_error: OnError | None = None,
        znodes_max: int = ZNODES_MAX,
    ) -> ChildrenCache[K]:
        """Return a copy of the children of a znode, which is kept current.

        Args:
            path: Of the parent, which may be missing.
            on_change: Called with each difference, in order.
            on_error: Called with what `on_change` raises; without it the error is logged.
            znodes_max: With more znodes than these, the parent included, the cache closes.
        """
        return ChildrenCache(self._runner(), path, on_change, on_error, znodes_max)

    def configurations(self, kinds: Mapping[str, Any], form: Format = "json") -> Configurations[K]:
        """Return several configurations that are read and changed as one.

        Args:
            kinds: The type of each configuration, by its path.
            form: "json" or "msgpack".
        """
        return Configurations(self._runner(), kinds, form)

    def published(self, path: str) -> Published[K]:
        """Return values by name that are published as a whole."""
        return Published(self._runner(), path)

    def counter(self, path: str, default: int = 0) -> Counter[K]:
        """Return a shared integer.

        Args:
            default: The value while there is none.
        """
        return Counter(self._runner(), path, default)

    def barrier(self, path: str) -> Barrier[K]:
        """Return a barrier that holds all who wait until somebody removes it."""
        return Barrier(self._runner(), path)

    def election(self, path: str, identifier: bytes | None = None) -> Election[K]:
        """Return a leader election, whose epochs grow by one."""
        return Election(self._runner(), path, identifier)

    def leader_latch(
        self,
        path: str,
        identifier: bytes | None = None,
        on_gained: Listener[K] | None = None,
        on_lost: Listener[K] | None = None,
    ) -> LeaderLatch[K]:
        """Return a candidate that stands for election in the background.

        Args:
            identifier: What others see of this candidate.
            on_gained: Called with each leadership that it gains.
            on_lost: Called with each leadership that it loses, in turn with `on_gained`.
        """
        return LeaderLatch(self._runner(), path, identifier, on_gained, on_lost)

    def double_barrier(
        self, path: str, size: int, identifier: bytes | None = None, on_crash: OnCrash = "abort"
    ) -> DoubleBarrier[K]:
        """Return a barrier that `size` participants enter together and leave together.

        Args:
            size: How many participants a round has, 1 to 500.
            identifier: What others see of this participant.
            on_crash: "abort": the death of a participant breaks the round. "continue": another
                one may take its place, and an open round does not wait for it.
        """
        return DoubleBarrier(self._runner(), path, size, identifier, on_crash)

    def two_phase_commit(self, path: str) -> TwoPhaseCommit[K]:
        """Return a transaction of several sites, which all learn one decision."""
        return TwoPhaseCommit(self._runner(), path)

    def queue(self, path: str, size_max: int | None = None) -> Queue[K]:
        """Return a queue: first in, first out.

        Args:
            size_max: How many elements it may hold; None for any number.
        """
        return Queue(self._runner(), path, size_max)

    def lock_queue(self, path: str, size_max: int | None = None) -> LockQueue[K]:
        """Return a queue whose consumer locks an element first, removes it later; see `queue`."""
        return LockQueue(self._runner(), path, size_max)

    def priority_queue(self, path: str, size_max: int | None = None) -> PriorityQueue[K]:
        """Return a queue whose element with the lowest number is taken first; see `queue`."""
        return PriorityQueue(self._runner(), path, size_max)

    def group(self, path: str) -> Group[K]:
        """Return a group, whose members are listed while their sessions live."""
        return Group(self._runner(), path)

    def semaphore(self, path: str, permits: int, identifier: bytes | None = None) -> Semaphore[K]:
        """Return a semaphore: never more holders than permits, first come, first served.

        Args:
            permits: How many may hold it at once, 1 to 1000; all contenders name the same number.
            identifier: What others see of this contender.
        """
        return Semaphore(self._runner(), path, permits, identifier)

    def lease(self, path: str, duration_s: float, identifier: bytes | None = None) -> Lease[K]:
        """Return a lock that ends by itself unless it is renewed.

        Args:
            duration_s: How long it lasts after it was acquired or renewed.
            identifier: What others see of this contender.
        """
        return Lease(self._runner(), path, duration_s, identifier)

    def services(
        self,
        path: str,
        kind: Any = Any,
        on_malformed: Callable[[str, str], object] | None = None,
    ) -> ServiceDiscovery[K]:
        """Return the instances of services, with a cache of them.

        Args:
            path: Under which the services register.
            kind: The type that metadata are validated into, such as a dataclass or a Struct.
            on_malformed: Called with the path of an instance that cannot be read, and the reason.
        """
        return ServiceDiscovery(self._runner(), path, kind, on_malformed)

    def fenced_resource(self, path: str) -> DurableFencedResource[K]:
        """Return a guard that remembers the newest fencing token in a znode."""
        return DurableFencedResource(self._runner(), path)

    def rendezvous(self, path: str, size: int, data: bytes = b"") -> Rendezvous[K]:
        """Return a rendezvous: `size` participants meet, and all get the same list.

        Args:
            size: How many participants a generation has; all name the same number.
            data: What the others get of this participant.
        """
        return Rendezvous(self._runner(), path, size, data)

    def partitioner(
        self,
        path: str,
        partitions: Iterable[str],
        identifier: bytes | None = None,
        on_acquired: PartitionListener[K] | None = None,
        on_released: PartitionListener[K] | None = None,
    ) -> Partitioner[K]:
        """Return a set of partitions that its members divide among themselves.

        Args:
            partitions: The names of all partitions; all members name the same.
            identifier: What others see of this member.
            on_acquired: Called with each partition that this member comes to own.
            on_released: Called with each partition that this member must release. No other member
                gets the partition before the call has returned.
        """
        names = list(partitions)
        return Partitioner(self._runner(), path, names, identifier, on_acquired, on_released)

    def _runner(self) -> FlowRunner:
        return cast(FlowRunner, self)
