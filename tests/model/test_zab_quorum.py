"""Quorum against brute force over every set of servers."""

from collections.abc import Iterator
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.zab.ids import ServerId
from raykeeper.zab.quorum import Quorum

IDS = st.integers(1, 9).map(ServerId)
VOTERS = st.sets(IDS, min_size=1, max_size=7)

Healthy = list[ServerId]
Uncertain = list[ServerId]


@given(VOTERS, st.lists(IDS, max_size=12))
def test_is_quorum_is_a_majority(voters: set[ServerId], servers: list[ServerId]) -> None:
    counted = sum(voter in servers for voter in voters)
    assert Quorum(voters).is_quorum(servers) == (2 * counted > len(voters))


@given(VOTERS)
def test_any_two_quorums_intersect(voters: set[ServerId]) -> None:
    quorum = Quorum(voters)
    subsets = [
        set(some) for size in range(len(voters) + 1) for some in combinations(sorted(voters), size)
    ]
    quorums = [some for some in subsets if quorum.is_quorum(some)]
    assert all(one & other for one in quorums for other in quorums)
    assert all(not quorum.is_quorum(voters - one) for one in quorums)


@given(VOTERS, st.lists(IDS, max_size=12))
def test_what_meets_every_majority(voters: set[ServerId], servers: list[ServerId]) -> None:
    quorum = Quorum(voters)
    majorities = [{*some} for some in combinations(sorted(voters), quorum.size)]
    assert quorum.meets_every_majority(servers) == all(some & {*servers} for some in majorities)


@given(VOTERS, st.data())
def test_quorum_value_is_the_highest_that_a_quorum_has(
    voters: set[ServerId], data: st.DataObject
) -> None:
    cursors = data.draw(st.dictionaries(st.sampled_from(sorted(voters)), st.integers(0, 9)))
    quorum = Quorum(voters)
    naive = [
        value
        for value in range(10)
        if quorum.is_quorum([voter for voter, cursor in cursors.items() if cursor >= value])
    ]
    assert quorum.quorum_value(cursors.items()) == max(naive, default=0)


def who_was_heard(count: int) -> Iterator[tuple[Quorum[ServerId], Healthy, Uncertain]]:
    """Every way in which `count` voters can be healthy, uncertain or not heard."""
    quorum = Quorum(ServerId(i) for i in range(1, count + 1))
    for states in product("hu-", repeat=count):
        voters = sorted(quorum.voters)
        by = {s: [v for v, of in zip(voters, states, strict=True) if of == s] for s in "hu"}
        yield quorum, by["h"], by["u"]


def knows_all(quorum: Quorum[ServerId], healthy: Healthy, uncertain: Uncertain) -> bool:
    """Whatever majority acknowledged a write, somebody who was heard still has it.

    And whatever disks are bad: so many of the uncertain ones, at most, that a majority is intact.
    """
    tolerated = len(quorum.voters) - quorum.size
    told = {*healthy, *uncertain}
    if not quorum.is_quorum(told):
        return False
    return all(
        (told & {*acknowledged}) - {*bad}
        for bad in combinations(uncertain, min(tolerated, len(uncertain)))
        for acknowledged in combinations(quorum.voters, quorum.size)
    )


@pytest.mark.parametrize("count", range(1, 8))
def test_covers_all_acked_holds_when_no_acknowledged_write_can_be_missing(count: int) -> None:
    """Smaller sets of bad disks, and larger majorities, leave only more servers that have it."""
    stricter = set()
    for quorum, healthy, uncertain in who_was_heard(count):
        recalls = quorum.covers_all_acked(healthy, uncertain)
        should = knows_all(quorum, healthy, uncertain)
        assert should or not recalls, (healthy, uncertain)
        if recalls != should:
            stricter.add((count, len(healthy), len(uncertain)))
    # Exact, but for one case of even ensembles, which waits for one server more than it must.
    assert stricter == ({(6, 3, 1)} if count == 6 else set())
