"""What one session may see: for each promise histories that keep it and ones that break it."""

import pytest

from raykeeper.chaos.checks.history import MultiCall, Ok, Read, ReadKind, Refused
from raykeeper.chaos.checks.sessions import (
    answers_in_order,
    events_come_before_state,
    reads_never_go_back,
)
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import Create, SetData
from tests.unit.chaos.story import A, B, Story, X, Y, stat

NO_NODE = Refused(Code.NO_NODE)
EXISTS = Read(X, ReadKind.EXISTS, False, True)


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        # Pipelined, and answered in order.
        (Story().set(A, 1, 4, "v", 5).get(A, 2, 5, "v", 5).set(A, 3, 6, "w", 7), 0),
        # The second request is answered first.
        (Story().set(A, 1, 6, "v", 5).get(A, 2, 5, "v", 5), 1),
        # One without an answer says nothing.
        (Story().set(A, 1, None, "v").set(A, 2, 3, "w", 5), 0),
        # Nor does one that was refused.
        (Story().ask(A, 1, 2, SetData(X, b"v", -1), NO_NODE).set(A, 3, 4, "w", 5), 0),
        # Two sets whose transactions stand in the other order.
        (Story().set(A, 1, 4, "v", 7).set(A, 2, 5, "w", 5), 1),
        (Story().set(A, 1, 4, "v", 7).set(B, 2, 5, "w", 5), 0),
        # Numbers of sequential znodes grow with the requests.
        (Story().append(A, 1, 4, "v", 3).append(A, 2, 5, "w", 4), 0),
        (Story().append(A, 1, 4, "v", 4).append(A, 2, 5, "w", 3), 1),
    ],
)
def test_replies_come_in_order(story: Story, broken: int) -> None:
    assert len(list(answers_in_order(story.history()))) == broken


READS_BEFORE_IT_SETS = MultiCall(
    [Create(Y, b"", 0), Read(X, ReadKind.EXISTS, is_synced=True), SetData(X, b"w", 0)]
)
AT_5_THEN_7 = Ok(
    parts=[Ok(path=Y, stat=stat(7, czxid=7)), Ok(stat=stat(5)), Ok(stat=stat(7, version=1))]
)


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        # Forward, with a standstill.
        (Story().get(A, 1, 2, "v", 5).get(A, 3, 4, "v", 5).get(A, 5, 6, "w", 7), 0),
        # Back on one znode.
        (Story().get(A, 1, 2, "w", 7).get(A, 3, 4, "v", 5), 1),
        # Behind the session's own write.
        (Story().set(A, 1, 2, "w", 7).get(A, 3, 4, "v", 5), 1),
        # Another session may be behind.
        (Story().get(A, 1, 2, "w", 7).get(B, 3, 4, "v", 5), 0),
        # Y as of 9 was seen, so the change of X at 7, which B knows of, must be seen too.
        (Story().get(B, 1, 2, "w", 7).get(A, 3, 4, "y", 9, path=Y).get(A, 5, 6, "v", 5), 1),
        (Story().get(B, 1, 2, "w", 7).get(A, 3, 4, "y", 6, path=Y).get(A, 5, 6, "v", 5), 0),
        # An event tells of 7 before the read is called.
        (Story().fired(A, 1, EventType.CHANGED, 7).get(A, 2, 3, "v", 5), 1),
        # It came while the read was under way.
        (Story().get(A, 1, 3, "v", 5).fired(A, 2, EventType.CHANGED, 7), 0),
        # X was changed at 7, as B was told by an event.
        (
            Story()
            .fired(B, 1, EventType.CHANGED, 7)
            .get(A, 3, 4, "y", 9, path=Y)
            .get(A, 5, 6, "v", 5),
            1,
        ),
        # B was told at 7 that another X was deleted, perhaps long before, and A sees the new one.
        (
            Story()
            .fired(B, 1, EventType.DELETED, 7)
            .get(A, 3, 4, "y", 9, path=Y)
            .get(A, 5, 6, "v", 5),
            0,
        ),
        # A multi at 7 creates Y, reads X as of 5 and sets X.
        (Story().ask(A, 1, 2, READS_BEFORE_IT_SETS, AT_5_THEN_7), 0),
        # The same after the session saw the state of 7.
        (Story().get(A, 1, 2, "w", 7).ask(A, 3, 4, READS_BEFORE_IT_SETS, AT_5_THEN_7), 1),
        # A read after it must show what it set.
        (Story().ask(A, 1, 2, READS_BEFORE_IT_SETS, AT_5_THEN_7).get(A, 3, 4, "v", 5), 1),
    ],
)
def test_reads_never_go_back(story: Story, broken: int) -> None:
    assert len(list(reads_never_go_back(story.history()))) == broken


def watching() -> Story:
    """A has read X as of 5 and watches it."""
    return Story().get(A, 1, 2, "v", 5, watched=True)


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (watching().get(A, 3, 4, "v", 5), 0),
        (watching().fired(A, 3, EventType.CHANGED, 7).get(A, 4, 5, "w", 7), 0),
        # The new state, and no event; or the event after it.
        (watching().get(A, 4, 5, "w", 7), 1),
        (watching().get(A, 4, 5, "w", 7).fired(A, 6, EventType.CHANGED, 7), 1),
        # The end of the znode is a change too.
        (watching().ask(A, 4, 5, Read(X, ReadKind.GET), NO_NODE), 1),
        (
            watching()
            .fired(A, 3, EventType.DELETED, 7)
            .ask(A, 4, 5, Read(X, ReadKind.GET), NO_NODE),
            0,
        ),
        # A request that the client gave up shows nothing.
        (watching().ask(A, 4, 5, Read(X, ReadKind.GET), Refused(Code.OPERATION_TIMEOUT)), 0),
        # It fired once, and nothing was promised for the next change.
        (
            watching().fired(A, 3, EventType.CHANGED, 7).get(A, 4, 5, "w", 7).get(A, 6, 7, "x", 9),
            0,
        ),
        # Set anew, and the second change is not told.
        (
            watching()
            .fired(A, 3, EventType.CHANGED, 7)
            .get(A, 4, 5, "w", 7, watched=True)
            .get(A, 6, 7, "x", 9),
            1,
        ),
        # Set once, called twice.
        (watching().fired(A, 3, EventType.CHANGED, 7).fired(A, 4, EventType.CHANGED, 8), 1),
        # Set twice, both called.
        (
            watching()
            .get(A, 3, 4, "v", 5, watched=True)
            .fired(A, 5, EventType.CHANGED, 7)
            .fired(A, 6, EventType.CHANGED, 7),
            0,
        ),
        # exists waits for the creation; get on a missing znode waits for nothing.
        (Story().ask(A, 1, 2, EXISTS, Ok()).get(A, 3, 4, "v", 5), 1),
        (
            Story()
            .ask(A, 1, 2, EXISTS, Ok())
            .fired(A, 3, EventType.CREATED, 5)
            .get(A, 4, 5, "v", 5),
            0,
        ),
        (
            Story().ask(A, 1, 2, Read(X, ReadKind.GET, False, True), NO_NODE).get(A, 3, 4, "v", 5),
            0,
        ),
        # Children have watches of their own.
        (Story().children(A, 1, 2, "/q", ["a"], True).children(A, 3, 4, "/q", ["a", "b"]), 1),
        (
            Story()
            .children(A, 1, 2, "/q", ["a"], True)
            .fired(A, 3, EventType.CHANGED, 7, "/q")
            .children(A, 4, 5, "/q", ["a", "b"]),
            2,  # told of something else, which was not asked for
        ),
        (
            Story()
            .children(A, 1, 2, "/q", ["a"], True)
            .fired(A, 3, EventType.CHILD, 7, "/q")
            .children(A, 4, 5, "/q", ["a", "b"]),
            0,
        ),
        (Story().children(A, 1, 2, "/q", ["a", "b"], True).children(A, 3, 4, "/q", ["b", "a"]), 0),
    ],
)
def test_events_come_before_state(story: Story, broken: int) -> None:
    assert len(list(events_come_before_state(story.history()))) == broken


def test_a_violation_names_the_request() -> None:
    story = Story().get(A, 1, 2, "w", 7).get(A, 3, 4, "v", 5)
    (text,) = reads_never_go_back(story.history())
    assert "[3, 4] a.1 #2 get /r/x -> ok 'v'" in text
