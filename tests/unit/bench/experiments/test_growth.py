"""The crowds keep their size, and the medians of the rounds are told for each of them."""

import pytest

from raykeeper.bench.experiments.growth import summary
from raykeeper.bench.populated_servers import POPULATIONS


@pytest.mark.parametrize("what", POPULATIONS)
def test_a_crowd_is_as_large_after_a_round_as_before(what: str) -> None:
    crowd = POPULATIONS[what](300, 200)
    crowd.fill()
    server = crowd.ensemble.servers[crowd.ensemble.leader]

    def sizes() -> tuple[int, int, int, int]:
        stats = server.stats()
        return stats.znodes, stats.watches, stats.sessions, stats.connections

    before = sizes()
    assert max(before) >= 300
    first, second = crowd.round(), crowd.round()
    assert first.keys() == second.keys()
    assert all(cost > 0 for cost in first.values())
    assert sizes() == before


def test_the_sampled_places_cover_the_crowd() -> None:
    crowd = POPULATIONS["znodes"](1_000, 250)
    rounds = [crowd.places() for _ in range(4)]
    assert sorted(place for places in rounds for place in places) == list(range(1_000))
    assert max(rounds[0]) - min(rounds[0]) > 900


def test_a_round_is_compared_with_the_smallest_size_in_the_same_round() -> None:
    # The machine was half as fast in the second round.
    rounds = [
        [{"get": 1.0}, {"get": 2.0}],
        [{"get": 2.0}, {"get": 4.0}],
        [{"get": 1.0}, {"get": 3.0}],
    ]
    small, large = summary("znodes", [10, 100], rounds)
    assert (small["count"], small["us"], small["of_smallest"]) == (10, 1.0, 1.0)
    assert (large["count"], large["us"], large["of_smallest"]) == (100, 3.0, 2.0)
