"""Gaps in the writes of the load, and those of a span."""

from raykeeper.chaos.checks.history import BEGIN, Called, History, Ok, Returned, SessionBegan
from raykeeper.chaos.checks.write_gaps import gaps_between, longest_gap, write_gaps
from raykeeper.znodes.requests import SessionId, SetData
from tests.unit.chaos.story import A, B, Story


def written(*times: int, client: str = A) -> History:
    """One client whose writes are answered at these times."""
    history = History([SessionBegan(client, 1, 0, SessionId(7))])
    for number, at in enumerate(times, 1):
        history.add(Called(client, 1, number, at - 1, SetData("/x", b"v", -1)))
        history.add(Returned(client, 1, number, at, Ok()))
    return history


def test_gaps_are_between_successful_writes_of_any_client() -> None:
    story = Story().set(A, 1, 2, "u").set(B, 3, 5, "v").get(A, 6, 7, "v", 1).set(A, 8, None, "w")
    assert write_gaps(story.set(A, 9, 11, "x").history()) == [(2, 5), (5, 11)]


def test_the_znodes_made_before_the_load_make_no_gap() -> None:
    assert write_gaps(written(1, 9, client=BEGIN)) == []


def test_the_longest_gap_of_a_span() -> None:
    gaps = write_gaps(written(10, 20, 50, 60, 100))
    assert longest_gap(gaps) == 40
    assert longest_gap(gaps_between(gaps, 0, 1_000)) == 40
    assert longest_gap(gaps_between(gaps, 20, 50)) == 30
    assert longest_gap(gaps_between(gaps, 30, 31)) == 30
    assert longest_gap(gaps_between(gaps, 100, 1_000)) == 0
    assert longest_gap(gaps_between(gaps, 60, 60)) == 0
