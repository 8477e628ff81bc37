"""Whole servers and clients under faults: a fixed set of seeds, and every plan that ever failed."""

from functools import partial
from pathlib import Path

import pytest

from tests.simulation.attempt import attempt
from tests.simulation.draw import draw_plan
from tests.simulation.minimize import minimize
from tests.simulation.plan import Plan
from tests.simulation.plan_file import DATA, read_plan, write_plan
from tests.simulation.simulate import FOLDER

SEEDS = 350  # about a minute of processor time
LIMIT_S = 60.0
MINIMIZE_S = 20.0


def run(plan: Plan, name: str) -> None:
    """Run a plan; the message of a failure has the command that replays it, as a smaller plan."""
    failure = attempt(plan, LIMIT_S).failure
    if failure is None:
        return
    hint = ""
    if not failure.is_endless:
        limited = partial(attempt, limit_s=LIMIT_S)
        small = minimize(plan, failure, limited, seconds_max=MINIMIZE_S)
        path = FOLDER / f"{name}.json"
        write_plan(path, small.failure.kind, small.plan)
        hint = f"python -m tests.simulation --plan {path}\n{small.plan}\n"
        failure = small.failure
    pytest.fail(f"{failure.detail}\n{hint}{name}: {failure.message}", pytrace=False)


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_seed_passes(seed: int) -> None:
    run(draw_plan(seed), f"seed-{seed}")


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_a_plan_that_failed_once_passes(path: Path) -> None:
    kept = read_plan(path)
    assert kept.comment
    run(kept.plan, path.stem)
