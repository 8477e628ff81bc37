"""What all writes together must keep, with histories that break it."""

import pytest

from raykeeper.chaos.checks.history import Ok, Read, ReadKind, Refused, Unknown
from raykeeper.chaos.checks.writes import (
    creations_are_done_once,
    ephemerals_end_with_their_session,
    lost_writes,
    sequence_numbers_never_repeat,
    synced_reads_are_fresh,
    values_were_written,
    writes_follow_real_time,
)
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Create, CreateMode
from tests.unit.chaos.story import SESSIONS, A, B, Story, X, stat

GONE = Refused(Code.NO_NODE)
LOOK = Read(X, ReadKind.GET, is_synced=True)
END = "end"


@pytest.mark.parametrize(
    ("story", "lost"),
    [
        # It is there; it was overwritten by a later one; it is not there.
        (Story().set(A, 1, 2, "v", 5).get(END, 90, 91, "v", 5, synced=True), 0),
        (Story().set(A, 1, 2, "v", 5).get(END, 90, 91, "w", 7, synced=True), 0),
        (Story().set(A, 1, 2, "v", 5).get(END, 90, 91, "u", 3, synced=True), 1),
        # The answer is not known: it may be there or not.
        (Story().set(A, 1, None, "v").get(END, 90, 91, "u", 3, synced=True), 0),
        # It is gone, by a delete or without one.
        (Story().set(A, 1, 2, "v", 5).delete(B, 3, 4).ask(END, 90, 91, LOOK, GONE), 0),
        (Story().set(A, 1, 2, "v", 5).delete(B, 3, None).ask(END, 90, 91, LOOK, GONE), 0),
        (Story().set(A, 1, 2, "v", 5).ask(END, 90, 91, LOOK, GONE), 1),
        # The only delete was answered before.
        (Story().delete(B, 1, 2).set(A, 3, 4, "v", 5).ask(END, 90, 91, LOOK, GONE), 1),
        # A creation has no zxid, but what is there may have been written before it.
        (Story().create(A, 1, 2, X, "v").get(END, 90, 91, "v", 5, synced=True), 0),
        (
            Story()
            .create(A, 1, 2, X, "v")
            .set(B, 2, 4, "w", 7)
            .get(END, 90, 91, "w", 7, synced=True),
            0,
        ),
        (
            Story()
            .set(B, 1, 2, "w", 3)
            .create(A, 3, 4, X, "v")
            .get(END, 90, 91, "w", 3, synced=True),
            1,
        ),
        # Only the last look counts.
        (
            Story()
            .get(B, 1, 2, "u", 3, synced=True)
            .set(A, 3, 4, "v", 5)
            .get(END, 90, 91, "v", 5, synced=True),
            0,
        ),
        (
            Story()
            .set(A, 3, 4, "v", 5)
            .get(A, 90, 91, "v", 5, synced=True)
            .get(B, 1, 2, "u", 3, synced=True),
            0,
        ),
        # Sequential znodes are judged by the list of children.
        (Story().append(A, 1, 2, "v", 3).children(END, 90, 91, "/q", ["n-0000000003"]), 0),
        (Story().append(A, 1, 2, "v", 3).children(END, 90, 91, "/q", ["n-0000000004"]), 1),
        # The name is there, but it was given to somebody else.
        (
            Story()
            .append(A, 1, 2, "v", 3)
            .children(END, 90, 91, "/q", ["n-0000000003"])
            .get(END, 92, 93, "w", 7, path="/q/n-0000000003", synced=True),
            1,
        ),
        (
            Story()
            .append(A, 1, 2, "v", 3)
            .delete(A, 3, 4, "/q/n-0000000003")
            .children(END, 90, 91, "/q", []),
            0,
        ),
        # An ephemeral is gone in the end because its session is over.
        (
            Story()
            .ask(A, 1, 2, Create(X, b"v", CreateMode.EPHEMERAL))
            .ask(END, 90, 91, LOOK, GONE),
            0,
        ),
    ],
)
def test_lost_writes_are_found(story: Story, lost: int) -> None:
    assert len(list(lost_writes(story.history()))) == lost


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (Story().set(A, 1, 2, "v", 5).set(B, 3, 4, "w", 7), 0),
        (Story().set(A, 1, 2, "v", 7).set(B, 3, 4, "w", 5), 1),
        # They overlap: either order will do, but not the same transaction.
        (Story().set(A, 1, 4, "v", 7).set(B, 3, 5, "w", 5), 0),
        # Of those before, the highest counts, which need not be the last.
        (Story().set(A, 1, 2, "v", 7).set(B, 1, 3, "w", 5).set(A, 4, 5, "x", 9), 0),
        (Story().set(A, 1, 2, "v", 7).set(B, 1, 3, "w", 5).set(A, 4, 5, "x", 6), 1),
        (Story().append(A, 1, 2, "v", 1).append(B, 3, 4, "w", 2), 0),
        (Story().append(A, 1, 2, "v", 2).append(B, 3, 4, "w", 1), 1),
        (Story().append(A, 1, 2, "v", 2).append(B, 3, 4, "w", 2), 1),
    ],
)
def test_writes_follow_real_time(story: Story, broken: int) -> None:
    assert len(list(writes_follow_real_time(story.history()))) == broken


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (Story().append(A, 1, 4, "v", 1).append(B, 2, 3, "w", 2), 0),
        (Story().append(A, 1, 4, "v", 1).append(B, 2, 3, "w", 1), 1),
        # The parent may have been deleted and created again: it counts from 0 then.
        (Story().append(A, 1, 4, "v", 1).delete(B, 5, 6, "/q").append(B, 7, 8, "w", 1), 0),
    ],
)
def test_sequence_numbers_never_repeat(story: Story, broken: int) -> None:
    assert len(list(sequence_numbers_never_repeat(story.history()))) == broken


@pytest.mark.parametrize(("other", "broken"), [(2, 1), (1, 0)])
def test_creations_are_done_once(other: int, broken: int) -> None:
    """Two znodes with the value of one request show that it was done twice."""
    story = (
        Story()
        .append(A, 1, 2, "v", 1)
        .get(END, 90, 91, "v", 5, path="/q/n-0000000001")
        .get(END, 92, 93, "v", 6, path=f"/q/n-000000000{other}")
    )
    assert len(list(creations_are_done_once(story.history()))) == broken


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (Story().set(A, 1, None, "v").get(B, 2, 3, "v", 5), 0),
        (Story().get(B, 2, 3, "v", 5), 1),
        # It was read before it was sent; it was written somewhere else.
        (Story().get(B, 1, 2, "v", 5).set(A, 3, 4, "v", 5), 1),
        (Story().create(A, 1, 2, "/r/y", "v").get(B, 3, 4, "v", 5), 1),
        (Story().append(A, 1, 2, "v", 1).get(B, 3, 4, "v", 5, path="/q/n-0000000001"), 0),
        # An empty value, which parents have, and an answer without a value.
        (Story().get(A, 1, 2, "", 5), 0),
        (Story().ask(A, 1, 2, Read(X, ReadKind.EXISTS), Ok(stat=stat(5))), 0),
        # Two states of one transaction.
        (
            Story().set(A, 1, 2, "v", 5).set(A, 3, None, "w").get(B, 4, 5, "w", 5),
            1,
        ),
    ],
)
def test_values_were_written(story: Story, broken: int) -> None:
    assert len(list(values_were_written(story.history()))) == broken


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (Story().set(A, 1, 2, "v", 5).get(B, 3, 4, "v", 5, synced=True), 0),
        (Story().set(A, 1, 2, "v", 5).get(B, 3, 4, "u", 3, synced=True), 1),
        # Without sync a read may be stale; a set under way need not be seen.
        (Story().set(A, 1, 2, "v", 5).get(B, 3, 4, "u", 3), 0),
        (Story().set(A, 1, 4, "v", 5).get(B, 3, 5, "u", 3, synced=True), 0),
    ],
)
def test_synced_reads_are_fresh(story: Story, broken: int) -> None:
    assert len(list(synced_reads_are_fresh(story.history()))) == broken


MINE = SESSIONS[A]


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (Story().get(B, 1, 2, "v", 5, synced=True, owner=MINE).close(A, 3, 4), 0),
        (Story().close(A, 1, 2).get(B, 3, 4, "v", 5, synced=True, owner=MINE), 1),
        # The close is under way, or unanswered; the read is an ordinary one.
        (Story().close(A, 1, 4).get(B, 3, 5, "v", 5, synced=True, owner=MINE), 0),
        (Story().close(A, 1, 2).get(B, 3, 4, "v", 5, owner=MINE), 0),
        # An end by timeout that is certain.
        (Story().ended(A, 1, 2).get(B, 3, 4, "v", 5, synced=True, owner=MINE), 1),
        (Story().ended(A, 1, 4).get(B, 3, 5, "v", 5, synced=True, owner=MINE), 0),
        # What is over writes nothing any more.
        (Story().ended(A, 1, 2).set(A, 3, 4, "v", 5), 1),
        (Story().ended("nameless", 1, 2).set("nameless", 3, 4, "v", 5), 1),
        (
            Story().ended(A, 1, 2).ask(A, 3, 4, LOOK, Unknown(Code.SESSION_EXPIRED)),
            0,
        ),
    ],
)
def test_ephemerals_end_with_their_session(story: Story, broken: int) -> None:
    assert len(list(ephemerals_end_with_their_session(story.history()))) == broken
