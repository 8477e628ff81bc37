"""A plan on disk, with the reason why it is kept: what `--plan` replays and tests/simulation/data
collects.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from tests.simulation.plan import Plan

DATA = Path(__file__).parent / "data"
"""Plans that failed once; each is run by the tests."""


class PlanFile(Struct, frozen=True):
    """What is in the file, as JSON."""

    comment: str
    plan: Plan


def write_plan(path: Path, comment: str, plan: Plan) -> None:
    """Write a plan; what was there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.encode(PlanFile(comment, plan))
    path.write_bytes(msgspec.json.format(data, indent=2) + b"\n")


def read_plan(path: Path) -> PlanFile:
    """Read a plan.

    Raises:
        msgspec.ValidationError: it is not one, or one of another version of the simulator.
    """
    return msgspec.json.decode(path.read_bytes(), type=PlanFile)


def name_of(seed: int, recipe: str = "") -> str:
    """What a minimized plan is called."""
    return f"seed-{seed}{f'-{recipe}' * bool(recipe)}"
