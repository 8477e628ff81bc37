"""Every recipe under faults: a fixed set of seeds each, and that a seed decides everything."""

import pytest

from tests.simulation.fixed_seeds import assert_seed_decides, run_seeds
from tests.simulation.recipes.catalogue import SCENARIOS

SEEDS = 3  # seeds of each recipe; together less than a minute of one core


@pytest.mark.parametrize("recipe", SCENARIOS)
def test_a_recipe_passes_its_seed(recipe: str) -> None:
    run_seeds(recipe, SEEDS)


@pytest.mark.parametrize("recipe", SCENARIOS)
def test_a_seed_decides_everything(recipe: str) -> None:
    report = assert_seed_decides(recipe)
    assert any(name.startswith("recipe.") for name in report.counts)
