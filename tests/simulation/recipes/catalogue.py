"""The scenarios by the names of their recipes."""

from typing import Final

from tests.simulation.recipes.barrier import BarrierScenario
from tests.simulation.recipes.configuration import ConfigurationScenario
from tests.simulation.recipes.counter import CounterScenario
from tests.simulation.recipes.election import ElectionScenario, LeaderLatchScenario
from tests.simulation.recipes.lock import LockScenario, SimpleLockScenario
from tests.simulation.recipes.partitioner import PartitionerScenario
from tests.simulation.recipes.queue import PriorityQueueScenario, QueueScenario
from tests.simulation.recipes.read_write_lock import ReadWriteLockScenario
from tests.simulation.recipes.scenario import Scenario
from tests.simulation.recipes.services import ServicesScenario
from tests.simulation.recipes.several_locks import MultiLockScenario, ReentrantLockScenario

SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "lock": LockScenario,
    "simple_lock": SimpleLockScenario,
    "read_write_lock": ReadWriteLockScenario,
    "reentrant_lock": ReentrantLockScenario,
    "multi_lock": MultiLockScenario,
    "election": ElectionScenario,
    "leader_latch": LeaderLatchScenario,
    "services": ServicesScenario,
    "partitioner": PartitionerScenario,
    "barrier": BarrierScenario,
    "counter": CounterScenario,
    "configuration": ConfigurationScenario,
    "queue": QueueScenario,
    "priority_queue": PriorityQueueScenario,
}
