"""Quorum: majorities of odd and even ensembles."""

import pytest

from raykeeper.zab.ids import ServerId
from raykeeper.zab.quorum import Quorum


def quorum(voters: int) -> Quorum[ServerId]:
    return Quorum(ServerId(i) for i in range(1, voters + 1))


@pytest.mark.parametrize(
    ("voters", "servers", "holds"),
    [
        # More than half, also of an even number.
        (1, [1], True),
        (2, [1], False),
        (2, [1, 2], True),
        (3, [1, 3], True),
        (4, [1, 2], False),
        (4, [1, 2, 3], True),
        (5, [1, 2], False),
        (5, [3, 4, 5], True),
        # A server counts once, and only if it is a voter.
        (3, [1, 1, 1], False),
        (3, [1, 4, 5], False),
        (3, [], False),
    ],
)
def test_holds(voters: int, servers: list[int], holds: bool) -> None:
    assert quorum(voters).is_quorum(map(ServerId, servers)) is holds


@pytest.mark.parametrize(
    ("voters", "healthy", "uncertain", "recalls"),
    [
        # A quorum of healthy voters knows everything, whoever else has told.
        (3, [1, 2], [], True),
        (3, [1, 2], [3], True),
        (5, [1, 3, 5], [], True),
        (4, [1, 2], [], False),
        # Otherwise an odd ensemble needs all: the one that is missing may be the one that knows.
        (3, [1], [2], False),
        (3, [1], [2, 3], True),
        (3, [], [1, 2, 3], True),
        (5, [1, 2], [3, 4], False),
        (5, [], [1, 2, 3, 4, 5], True),
        (7, [1, 2, 3], [4, 5, 6], False),
        (7, [1, 2, 3], [4, 5, 6, 7], True),
        # An even one tolerates no more bad disks than one voter less would, so it needs not all.
        (4, [1], [2], False),
        (4, [], [1, 2, 3], True),
        (6, [1], [2, 3, 4], False),
        (6, [1], [2, 3, 4, 5], True),
        # Who has nobody else to ask counts as it is.
        (1, [], [1], True),
        (1, [], [], False),
        (2, [], [1, 2], True),
        (2, [1], [], False),
        (2, [], [1], False),
        # A server counts once, and only if it is a voter.
        (3, [1, 1, 4], [1, 4, 5], False),
        (3, [1], [1, 2, 2, 9], False),
    ],
)
def test_recalls(voters: int, healthy: list[int], uncertain: list[int], recalls: bool) -> None:
    told = quorum(voters).covers_all_acked(map(ServerId, healthy), map(ServerId, uncertain))
    assert told is recalls


@pytest.mark.parametrize(
    ("voters", "cursors", "reached"),
    [
        # The value that the slowest of the fastest quorum has.
        (1, [7], 7),
        (2, [7, 3], 3),
        (3, [9, 7, 3], 7),
        (3, [3, 9, 7], 7),
        (4, [9, 8, 7, 6], 7),
        (5, [9, 8, 7, 6, 5], 7),
        (5, [9, 8, 7], 7),
        # Fewer than a quorum have reached nothing.
        (3, [9], 0),
        (3, [], 0),
    ],
)
def test_reached(voters: int, cursors: list[int], reached: int) -> None:
    others = [(ServerId(9), 99), (ServerId(10), 99)]  # no voters
    told = [(ServerId(place), cursor) for place, cursor in enumerate(cursors, 1)]
    assert quorum(voters).quorum_value([*others, *told]) == reached


def test_voters_are_distinct_and_at_least_one() -> None:
    assert Quorum([ServerId(3), ServerId(1), ServerId(3)]).voters == {1, 3}
    with pytest.raises(AssertionError, match="at least one"):
        Quorum([])
