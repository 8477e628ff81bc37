"""Who waits for whom, and the circles of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.clusters.wait_graph import find_cycles, waits_of
from raykeeper.server.admin_queries import ContenderRow, LockRow
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.requests import SessionId

MODES = {"w": "write", "r": "read", "p": "permit", "-": ""}


def queue(path: str, text: str) -> LockRow:
    """Contenders such as `1r! 2w`: session 1 holds a read lock, session 2 waits to write."""
    rows = [
        ContenderRow(
            name=f"n{number}",
            holds=word.endswith("!"),
            mode=MODES[word.rstrip("!")[-1]],
            session_id=SessionId(int(word.rstrip("!")[:-1])),
            since_ms=Millis(0),
            token=Zxid(0),
            identifier="",
        )
        for number, word in enumerate(text.split())
    ]
    held = sum(each.holds for each in rows)
    return LockRow(path, "lock", None, held, len(rows) - held, rows)


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("1-!", [[]]),
        ("1-! 2- 3-", [[], ["n0"], ["n1"]]),
        ("1r! 2r! 3w 4r 5r 6w 7w", [[], [], ["n0", "n1"], ["n2"], ["n2"], ["n3", "n4"], ["n5"]]),
        ("1w! 2r 3r", [[], ["n0"], ["n0"]]),
        ("1p! 2p! 3p", [[], [], []]),
        ("1r", [[]]),
    ],
)
def test_a_contender_waits_for_the_nearest_before_it(text: str, waits: list[list[str]]) -> None:
    assert waits_of(queue("/q", text)) == waits


@pytest.mark.parametrize(
    ("queues", "cycles"),
    [
        (["1-! 2-", "2-! 1-"], [[1, 2]]),
        (["1-! 2-", "2-! 3-"], []),
        (["1-! 2-", "2-! 3-", "3-! 1-"], [[1, 2, 3]]),
        (["1-! 9- 2-", "2-! 1-"], [[1, 2, 9]]),
        (["1r! 2r! 3w", "3w! 2r"], [[2, 3]]),
        (["1-! 1-"], []),
        (["0-! 1-", "1-! 0-"], []),
        (["1p! 2p", "2p! 1p"], []),
        (["1-! 2-", "2-! 1-", "5-! 4-", "4-! 5-"], [[1, 2], [4, 5]]),
    ],
)
def test_sessions_that_wait_for_each_other_are_found(
    queues: list[str], cycles: list[list[int]]
) -> None:
    assert find_cycles(queue(f"/{n}", text) for n, text in enumerate(queues)) == cycles


def test_a_long_chain_is_no_recursion() -> None:
    locks = [queue(f"/{n}", f"{n}-! {n + 1}-") for n in range(1, 5_000)]
    assert find_cycles(locks) == []
    assert find_cycles([*locks, queue("/z", "5000-! 1-")]) == [list(range(1, 5_001))]


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=12))
def test_the_groups_are_those_of_plain_reachability(edges: list[tuple[int, int]]) -> None:
    """Each pair is a lock that the first session holds and the second waits for."""
    reach = {(waiter, holder) for holder, waiter in edges if waiter != holder}
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    both = {(a, b) for a, b in reach if (b, a) in reach}
    expected = sorted({tuple(sorted({b for a, b in both if a == each})) for each, _ in both})
    found = find_cycles(queue(f"/{n}", f"{a}-! {b}-") for n, (a, b) in enumerate(edges))
    assert sorted(map(tuple, found)) == expected
