"""Which node a command means."""

import pytest

from raykeeper.clusters.draining import DrainError, choose_node

ALIVE = ["abc123" + "0" * 50, "abd456" + "0" * 50]


@pytest.mark.parametrize(("beginning", "chosen"), [("abc", 0), ("abd4", 1), (ALIVE[0], 0)])
def test_the_beginning_of_an_id_names_a_node(beginning: str, chosen: int) -> None:
    assert choose_node(beginning, ALIVE) == ALIVE[chosen]


@pytest.mark.parametrize(
    ("beginning", "problem"),
    [
        ("ab", "2 live Ray nodes have an id that begins with 'ab'; there are abc12300, abd45600"),
        ("x", "no live Ray node has an id that begins with 'x'"),
        ("", "no live Ray node"),
    ],
)
def test_it_must_be_one_live_node(beginning: str, problem: str) -> None:
    with pytest.raises(DrainError, match=problem):
        choose_node(beginning, ALIVE)
