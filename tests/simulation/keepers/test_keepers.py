"""Two keepers under faults of nodes: a fixed set of seeds, and that a seed decides everything."""

from tests.simulation.fixed_seeds import assert_seed_decides, run_seeds
from tests.simulation.keepers.plans import KEEPER

SEEDS = 40  # half a minute of one core


def test_keepers_pass_their_seeds() -> None:
    seen = run_seeds(KEEPER, SEEDS)
    # Not all is quiet.
    for name in ("recipe.moved", "recipe.set_aside", "recipe.drained", "node_dies", "node_cut"):
        assert seen[name] > 5, (name, seen)


def test_a_seed_decides_everything() -> None:
    assert_seed_decides(KEEPER)
