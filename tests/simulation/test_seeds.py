"""Whole servers and clients under faults, for a fixed set of seeds."""

import pytest

from tests.simulation.plan import draw_plan
from tests.simulation.world import World


@pytest.mark.parametrize("seed", range(1, 41))
def test_seed(seed: int) -> None:
    World(draw_plan(seed)).run()
