"""Every mutation, and the seed at which each was found when they were last measured.

The seeds are kept in `found.json`, so that a test need not run all those before: a mutation that
is found by one seed in two hundred would take half a minute.
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
    *("exactly_once", "session_deadlines", "client_departure", "meaning", "contract"),
    *("persistent_watches", "recipes"),
)
FOUND: Final = Path(__file__).with_name("found.json")
LIMIT_S: Final = 12.0
"""Of a core for one run; a mutated core may loop for ever."""


def all_mutations() -> list[Mutation]:
    """Of every module, in the order of the table."""
    return [mutation for name in MODULES for mutation in mutations_of(name)]


def mutations_of(module: str) -> list[Mutation]:
    """Of one module, by its name."""
    found: list[Mutation] = importlib.import_module(
        f"tests.simulation.mutations.{module}"
    ).MUTATIONS
    return found


def seeds_found() -> dict[str, int]:
    """By the names of the mutations, the first seed from 1 on that finds each."""
    found: dict[str, int] = json.loads(FOUND.read_text())
    return found


def failure_at(mutation: Mutation, seed: int) -> Failure | None:
    """How the simulator finds the mutation at a seed, None when it does not."""
    with mutation.applied():
        return attempt(draw_plan(seed, mutation.recipe), LIMIT_S).failure
