"""Shares: even, with as few moves as possible, and stable."""

from random import Random

import pytest

from raykeeper.client.recipes.partitioner import assign_partitions


def owners(text: str) -> dict[str, str]:
    """`a1 b2`: partition a is owned by member 1."""
    return {each[0]: each[1] for each in text.split()}


@pytest.mark.parametrize(
    ("members", "partitions", "before", "after"),
    [
        # Nobody owns anything: in the order of joining.
        ("1", "abc", "", "a1 b1 c1"),
        ("12", "abc", "", "a1 b1 c2"),
        ("123", "ab", "", "a1 b2"),
        # One joins, and gets the last of those who have too much.
        ("12", "abcd", "a1 b1 c1 d1", "a1 b1 c2 d2"),
        ("123", "abcde", "a1 b1 c1 d2 e2", "a1 b1 c3 d2 e2"),
        # One has left: the others share what it had, and keep what they have.
        ("13", "abcdef", "a1 b1 e3 f3", "a1 b1 c1 d3 e3 f3"),
        # One that is no member any more has something still.
        ("12", "abcd", "a9 b9 c1", "c1 d1"),
        ("12", "abcd", "a9 b9 c1 d2", "c1 d2"),
        # What is even stays, whoever has more.
        ("12", "abc", "a2 b2 c1", "a2 b2 c1"),
        ("123", "ab", "a3 b3", "a3 b1"),
    ],
)
def test_partitions_are_assigned_to_members(
    members: str, partitions: str, before: str, after: str
) -> None:
    found = assign_partitions(list(members), list(partitions), owners(before))
    assert found == owners(after)
    if "9" not in before:
        assert assign_partitions(list(members), list(partitions), found) == found


@pytest.mark.parametrize("seed", range(50))
def test_shares_are_even_and_nothing_moves_without_need(seed: int) -> None:
    rng = Random(seed)
    partitions = [f"p{number}" for number in range(rng.randint(1, 40))]
    members = [f"m{number}" for number in range(rng.randint(1, 9))]
    before = {each: rng.choice(members) for each in partitions if rng.random() < 0.8}
    after = assign_partitions(members, partitions, before)
    assert after.keys() == set(partitions)
    sizes = [list(after.values()).count(member) for member in members]
    assert max(sizes) - min(sizes) <= 1
    had = sorted((list(before.values()).count(member) for member in members), reverse=True)
    needed = sum(max(0, n - size) for n, size in zip(had, sorted(sizes, reverse=True), strict=True))
    assert sum(after[each] != before[each] for each in before) == needed
    assert assign_partitions(members, partitions, after) == after
