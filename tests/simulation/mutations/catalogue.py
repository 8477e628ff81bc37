"""Every mutation, and the seed at which each was found when they were last measured.

`found.json` keeps the seeds, so that a test begins there: a mutation that one seed in two hundred
finds would otherwise take half a minute.
"""

import importlib
import json
from pathlib import Path
from typing import Final

from tests.simulation.attempt import Failure, attempt
from tests.simulation.draw import draw_plan
from tests.simulation.mutations.mutation import Mutation

MODULES: Final = (
    *("elections", "broadcast", "reads", "disks", "snapshots"),
    *("exactly_once", "session_deadlines", "dead_clients", "tree_and_watches", "contract"),
    *("persistent_watches", "recipes", "keepers", "jute_clients", "upgrades", "transfers"),
    "members",
)
FOUND: Final = Path(__file__).with_name("found.json")
LIMIT_S: Final = 12.0
"""CPU time of one run; a mutated core may loop for ever."""


def all_mutations() -> list[Mutation]:
    """Return the mutations of every module, in the order of the table."""
    return [mutation for name in MODULES for mutation in mutations_of(name)]


def mutations_of(module: str) -> list[Mutation]:
    """Return the mutations of one module."""
    found: list[Mutation] = importlib.import_module(
        f"tests.simulation.mutations.{module}"
    ).MUTATIONS
    return found


def seeds_found() -> dict[str, int]:
    """Return the first seed from 1 on that finds each mutation, by its name."""
    found: dict[str, int] = json.loads(FOUND.read_text())
    return found


def failure_at(mutation: Mutation, seed: int) -> Failure | None:
    """Return the failure by which the simulator finds the mutation at a seed, or None."""
    with mutation.applied():
        return attempt(draw_plan(seed, mutation.recipe), LIMIT_S).failure
