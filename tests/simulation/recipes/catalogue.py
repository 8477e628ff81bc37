"""The scenarios, by the names of their recipes."""

from typing import Final

from tests.simulation.recipes.barrier import BarrierScenario
from tests.simulation.recipes.configuration import ConfigurationScenario
from tests.simulation.recipes.counter import CounterScenario
from tests.simulation.recipes.double_barrier import DoubleBarrierScenario
from tests.simulation.recipes.election import ElectionScenario, LeaderLatchScenario
from tests.simulation.recipes.fencing import FencingScenario
from tests.simulation.recipes.gang import GangScenario
from tests.simulation.recipes.group import GroupScenario
from tests.simulation.recipes.lease import LeaseScenario
from tests.simulation.recipes.lock import LockScenario, SimpleLockScenario
from tests.simulation.recipes.lock_queue import LockQueueScenario
from tests.simulation.recipes.partitioner import PartitionerScenario
from tests.simulation.recipes.published import PublishedScenario
from tests.simulation.recipes.queue import PriorityQueueScenario, QueueScenario
from tests.simulation.recipes.rate_limit import RateLimitScenario
from tests.simulation.recipes.read_write_lock import ReadWriteLockScenario
from tests.simulation.recipes.rendezvous import RendezvousScenario
from tests.simulation.recipes.scenario import Scenario
from tests.simulation.recipes.semaphore import SemaphoreScenario
from tests.simulation.recipes.services import ServicesScenario
from tests.simulation.recipes.several_locks import MultiLockScenario, ReentrantLockScenario
from tests.simulation.recipes.tree_cache import TreeCacheScenario
from tests.simulation.recipes.two_phase_commit import TwoPhaseCommitScenario

SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "lock": LockScenario,
    "simple_lock": SimpleLockScenario,
    "read_write_lock": ReadWriteLockScenario,
    "reentrant_lock": ReentrantLockScenario,
    "multi_lock": MultiLockScenario,
    "semaphore": SemaphoreScenario,
    "lease": LeaseScenario,
    "fencing": FencingScenario,
    "election": ElectionScenario,
    "leader_latch": LeaderLatchScenario,
    "services": ServicesScenario,
    "partitioner": PartitionerScenario,
    "group": GroupScenario,
    "rendezvous": RendezvousScenario,
    "barrier": BarrierScenario,
    "double_barrier": DoubleBarrierScenario,
    "counter": CounterScenario,
    "configuration": ConfigurationScenario,
    "published": PublishedScenario,
    "tree_cache": TreeCacheScenario,
    "queue": QueueScenario,
    "priority_queue": PriorityQueueScenario,
    "lock_queue": LockQueueScenario,
    "two_phase_commit": TwoPhaseCommitScenario,
    "gang": GangScenario,
    "rate_limit": RateLimitScenario,
}
