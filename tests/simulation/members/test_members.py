"""Members that change: a fixed set of seeds, and that a seed decides everything."""

from tests.simulation.fixed_seeds import assert_seed_decides, run_seeds
from tests.simulation.members.plans import MEMBERS

SEEDS = 40


def test_members_pass_their_seeds() -> None:
    seen = run_seeds(MEMBERS, SEEDS)
    # Not all is refused.
    for name, least in (("steps", 400), ("lists", 100), ("acked", 400)):
        assert seen[name] > least, (name, seen)


def test_a_seed_decides_everything() -> None:
    assert_seed_decides(MEMBERS)
