"""Every recipe under faults: a fixed set of seeds each, and that a seed decides everything."""

import pytest

from tests.simulation.attempt import attempt
from tests.simulation.draw import draw_plan
from tests.simulation.recipes.catalogue import SCENARIOS
from tests.simulation.trace import Recorder

SEEDS = 3  # seeds of each recipe; together less than a minute of one core
LIMIT_S = 60.0


@pytest.mark.parametrize("recipe", SCENARIOS)
def test_a_recipe_passes_its_seed(recipe: str) -> None:
    for seed in range(1, SEEDS + 1):
        failure = attempt(draw_plan(seed, recipe), LIMIT_S).failure
        if failure is not None:
            hint = f"python -m tests.simulation --seed {seed} --recipe {recipe}"
            pytest.fail(f"{failure.detail}\n{hint}", pytrace=False)


@pytest.mark.parametrize("recipe", SCENARIOS)
def test_a_seed_decides_everything(recipe: str) -> None:
    recorders = [Recorder(), Recorder()]
    reports = [attempt(draw_plan(3, recipe), LIMIT_S, each).report for each in recorders]
    assert reports[0] is not None
    assert reports[0] == reports[1]
    assert recorders[0].digest() == recorders[1].digest()
    assert any(name.startswith("recipe.") for name in reports[0].counts)
