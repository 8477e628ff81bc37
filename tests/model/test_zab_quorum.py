"""Quorum against brute force over every set of servers."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from raykeeper.zab.ids import ServerId
from raykeeper.zab.quorum import Quorum

IDS = st.integers(1, 9).map(ServerId)
VOTERS = st.sets(IDS, min_size=1, max_size=7)


@given(VOTERS, st.lists(IDS, max_size=12))
def test_holds_is_a_majority(voters: set[ServerId], servers: list[ServerId]) -> None:
    counted = sum(voter in servers for voter in voters)
    assert Quorum(voters).holds(servers) == (2 * counted > len(voters))


@given(VOTERS)
def test_any_two_quorums_meet_and_what_is_left_of_one_is_none(voters: set[ServerId]) -> None:
    quorum = Quorum(voters)
    subsets = [
        set(some) for size in range(len(voters) + 1) for some in combinations(sorted(voters), size)
    ]
    quorums = [some for some in subsets if quorum.holds(some)]
    assert all(one & other for one in quorums for other in quorums)
    assert all(not quorum.holds(voters - one) for one in quorums)


@given(VOTERS, st.data())
def test_reached_is_the_highest_that_a_quorum_has(
    voters: set[ServerId], data: st.DataObject
) -> None:
    cursors = data.draw(st.dictionaries(st.sampled_from(sorted(voters)), st.integers(0, 9)))
    quorum = Quorum(voters)
    naive = [
        value
        for value in range(10)
        if quorum.holds([voter for voter, cursor in cursors.items() if cursor >= value])
    ]
    assert quorum.reached(cursors.values()) == max(naive, default=0)
