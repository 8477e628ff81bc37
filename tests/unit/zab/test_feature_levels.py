"""Feature levels: what a program can read, and what its disk requires."""

import pytest

from raykeeper.zab.feature_levels import FeatureLevel, FeatureLevels, level_problem

ONE, TWO, THREE = map(FeatureLevel, (1, 2, 3))


@pytest.mark.parametrize(
    ("level", "newest", "oldest", "problem"),
    [
        (1, 2, 1, ""),
        (2, 2, 1, ""),
        (3, 2, 1, "feature level 3, and this program knows 1 to 2; use the program of that level"),
        # A program of two versions later: somebody has left one out.
        (1, 3, 2, "feature level 1, and this program knows 2 to 3; use the program of that level"),
        (2, 1, 1, "feature level 2, and this program knows 1 alone; use the program of that level"),
    ],
)
def test_what_a_program_can_read(level: int, newest: int, oldest: int, problem: str) -> None:
    found = level_problem(FeatureLevel(level), FeatureLevel(newest), FeatureLevel(oldest))
    assert found == problem


def test_what_a_disk_requires_only_rises() -> None:
    levels = FeatureLevels(TWO)
    assert (levels.newest, levels.required, levels.raise_to) == (2, 1, 2)
    assert levels.require(TWO) and levels.required == 2
    assert not levels.require(TWO) and not levels.require(ONE)
    assert levels.required == 2
    with pytest.raises(AssertionError):
        levels.require(THREE)
    with pytest.raises(AssertionError):
        FeatureLevels(ONE, TWO)


def test_a_raise_may_be_held_back() -> None:
    assert FeatureLevels(TWO, raise_to=ONE).raise_to == 1
    assert FeatureLevels(TWO, raise_to=THREE).raise_to == 2
    assert FeatureLevels().newest == 1
