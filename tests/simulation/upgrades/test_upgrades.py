"""Servers that change their programs: a fixed set of seeds, and that a seed decides everything."""

from tests.simulation.fixed_seeds import assert_seed_decides, run_seeds
from tests.simulation.upgrades.plans import UPGRADE

SEEDS = 60


def test_upgrades_pass_their_seeds() -> None:
    seen = run_seeds(UPGRADE, SEEDS)
    # Not all is quiet.
    for name in ("upgrades", "downgrades", "marked", "refused_programs", "left_behind", "acked"):
        assert seen[name] > 5, (name, seen)


def test_a_seed_decides_everything() -> None:
    assert_seed_decides(UPGRADE)
