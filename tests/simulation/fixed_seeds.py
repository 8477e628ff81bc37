"""The seeds that the tests run: what a failure says, and that a seed decides everything."""

from collections import Counter

import pytest

from tests.simulation.attempt import attempt
from tests.simulation.draw import draw_plan
from tests.simulation.trace import Recorder
from tests.simulation.world import Report

LIMIT_S = 60.0


def run_seeds(recipe: str, seeds: int) -> Counter[str]:
    """Run the seeds from 1 on, or fail with the command that replays one; return what happened."""
    seen: Counter[str] = Counter()
    for seed in range(1, seeds + 1):
        outcome = attempt(draw_plan(seed, recipe), LIMIT_S)
        if outcome.failure is not None:
            hint = f"python -m tests.simulation --seed {seed} --recipe {recipe}"
            pytest.fail(f"{outcome.failure.detail}\n{hint}", pytrace=False)
        assert outcome.report is not None
        seen.update({**outcome.report.counts, **outcome.report.faults})
    return seen


def assert_seed_decides(recipe: str) -> Report:
    """Run one seed twice; the runs are equal in every line. Returns their report."""
    recorders = [Recorder(), Recorder()]
    reports = [attempt(draw_plan(3, recipe), LIMIT_S, each).report for each in recorders]
    assert reports[0] is not None
    assert reports[0] == reports[1]
    assert recorders[0].digest() == recorders[1].digest()
    return reports[0]
