"""Clients of ZooKeeper's protocol beside native ones, under all faults: a fixed set of seeds."""

from collections import Counter

import pytest

from tests.simulation.attempt import attempt
from tests.simulation.draw import draw_plan
from tests.simulation.jute_clients.plans import JUTE
from tests.simulation.trace import Recorder

SEEDS = 40  # fifteen seconds of one core
LIMIT_S = 60.0


def test_clients_of_zookeeper_pass_their_seeds() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        outcome = attempt(draw_plan(seed, JUTE), LIMIT_S)
        if outcome.failure is not None:
            hint = f"python -m tests.simulation --seed {seed} --recipe {JUTE}"
            pytest.fail(f"{outcome.failure.detail}\n{hint}", pytrace=False)
        assert outcome.report is not None
        seen.update(outcome.report.counts)
    # Not all is quiet.
    for name in (
        *("recipe.pauses", "recipe.wrong_passwords", "recipe.sessions_taken_up"),
        *("recipe.watches_set_again", "state.CONNECTED_READ_ONLY", "event.CHANGED"),
        *("error.CONNECTION_LOSS.indefinite", "answer.MultiReadReply"),
    ):
        assert seen[name] > 2, (name, seen)


def test_a_seed_decides_everything() -> None:
    recorders = [Recorder(), Recorder()]
    reports = [attempt(draw_plan(3, JUTE), LIMIT_S, each).report for each in recorders]
    assert reports[0] is not None
    assert reports[0] == reports[1]
    assert recorders[0].digest() == recorders[1].digest()
