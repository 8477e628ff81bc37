"""The scenarios by the names of their recipes."""

from typing import Final

from tests.simulation.recipes.lock import LockScenario
from tests.simulation.recipes.scenario import Scenario

SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "lock": LockScenario,
}
