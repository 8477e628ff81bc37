"""Two keepers under faults of nodes: a fixed set of seeds, and that a seed decides everything."""

from collections import Counter

import pytest

from tests.simulation.attempt import attempt
from tests.simulation.draw import draw_plan
from tests.simulation.keepers.plans import KEEPER
from tests.simulation.trace import Recorder

SEEDS = 40  # half a minute of one core
LIMIT_S = 60.0


def test_keepers_pass_their_seeds() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        outcome = attempt(draw_plan(seed, KEEPER), LIMIT_S)
        if outcome.failure is not None:
            hint = f"python -m tests.simulation --seed {seed} --recipe {KEEPER}"
            pytest.fail(f"{outcome.failure.detail}\n{hint}", pytrace=False)
        assert outcome.report is not None
        seen.update({**outcome.report.counts, **outcome.report.faults})
    # Not all is quiet.
    for name in ("recipe.moved", "recipe.set_aside", "recipe.drained", "node_dies", "node_cut"):
        assert seen[name] > 5, (name, seen)


def test_a_seed_decides_everything() -> None:
    recorders = [Recorder(), Recorder()]
    reports = [attempt(draw_plan(3, KEEPER), LIMIT_S, each).report for each in recorders]
    assert reports[0] is not None
    assert reports[0] == reports[1]
    assert recorders[0].digest() == recorders[1].digest()
