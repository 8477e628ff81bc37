"""Clients of ZooKeeper's protocol beside native ones, under all faults: a fixed set of seeds."""

from tests.simulation.fixed_seeds import assert_seed_decides, run_seeds
from tests.simulation.jute_clients.plans import JUTE

SEEDS = 40  # fifteen seconds of one core


def test_clients_of_zookeeper_pass_their_seeds() -> None:
    seen = run_seeds(JUTE, SEEDS)
    # Not all is quiet.
    for name in (
        *("recipe.pauses", "recipe.wrong_passwords", "recipe.sessions_taken_up"),
        *("recipe.watches_set_again", "state.CONNECTED_READ_ONLY", "event.CHANGED"),
        *("error.CONNECTION_LOSS.indefinite", "answer.MultiReadReply"),
    ):
        assert seen[name] > 2, (name, seen)


def test_a_seed_decides_everything() -> None:
    assert_seed_decides(JUTE)
