"""A plan in a file, with the reason why it is kept: tests/simulation/data, and `--plan`."""

from pathlib import Path

import msgspec
from msgspec import Struct

from tests.simulation.plan import Plan

DATA = Path(__file__).parent / "data"
"""Plans that failed once; each is run by the tests."""


class PlanFile(Struct, frozen=True):
    """The content of the file, as JSON."""

    comment: str
    plan: Plan


def write_plan(path: Path, comment: str, plan: Plan) -> None:
    """Write a plan; overwrites the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.encode(PlanFile(comment, plan))
    path.write_bytes(msgspec.json.format(data, indent=2) + b"\n")


def read_plan(path: Path) -> PlanFile:
    """Read a plan.

    Raises:
        msgspec.ValidationError: the file has no plan, or one of another version of the simulator.
    """
    return msgspec.json.decode(path.read_bytes(), type=PlanFile)


def name_of(seed: int, recipe: str = "") -> str:
    """Return the file name of a minimized plan."""
    return f"seed-{seed}{f'-{recipe}' * bool(recipe)}"
