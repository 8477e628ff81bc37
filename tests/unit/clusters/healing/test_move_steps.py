"""A move, its undoing and the setting aside of folders: steps out, answers in, as a table."""

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.clusters.healing.move_steps import (
    KeeperSteps,
    MoveError,
    move,
    set_folders_aside,
    undo,
)
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Cause,
    KeeperStep,
    Kill,
    NodeSurvey,
    Observe,
    Pause,
    RemoveStaleFolders,
    ServerLocation,
    SetFolderAside,
    Start,
    Stop,
    Survey,
    View,
)
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Millis, ServerId
from tests.harness.decisions import BEGUN

S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)
OLD, NEW = FOUNDING_DISK, DiskId("new")
LOST = replace(BEGUN, source="c", target="d", actor="c1")
RETURN = replace(LOST, source="c", target="c", actor="")
GONE = View(voters=(S1, S2, S3), nodes={"c": False, "d": True}, linked=(S1, S2), voting=(S1, S2))
PINNED = replace(GONE, actors={S3: "c1"})
SEEN_ELSEWHERE = replace(PINNED, running={S3: ServerLocation("e", "E")})
STARTED = replace(GONE, actors={S3: "d1"})
ON_TARGET = replace(STARTED, running={S3: ServerLocation("d", "D")})
ALL_VOTE = replace(GONE, voting=(S1, S2, S3))
S1_VOTES = replace(GONE, voting=(S1,))
HEARD = replace(GONE, linked=(S1, S2, S3))
NO_LEADER = replace(GONE, doubt="no leader answers")
C = NodeSurvey(node_id="c", name="C", disks={S3: OLD}, incarnations={S3: 4})
D = NodeSurvey(node_id="d", name="D")
D_STALE = replace(D, disks={S1: OLD, S3: NEW}, incarnations={S1: 1, S3: 7})
ONE = Survey(time_ms=Millis(0), nodes=(D,), voting_disks=dict.fromkeys((S1, S2, S3), OLD))
UNKNOWN = replace(ONE, voting_disks={}, doubt="no leader answers")
MOVING = replace(ONE, voting_disks={S1: OLD})
ASIDE = SetFolderAside("d", S3, OLD, 7)
END_OLD, END_NEW = [Stop(S3, "c1"), Kill(S3, "c1")], [Stop(S3, "d1"), Kill(S3, "d1")]


def run(steps: KeeperSteps[Any], answers: list[Any]) -> tuple[list[KeeperStep], Any]:
    """Return the steps that act, and the result or the text of the error.

    A look or a survey without an answer of its own has that of the last one.
    """
    done: list[KeeperStep] = []
    given, last = list(answers), {}
    answer = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            assert given == []
            return done, end.value
        except MoveError as error:
            assert given == []
            return done, str(error)
        answer = None
        if isinstance(step, Observe | AskNodes):
            kind = View if isinstance(step, Observe) else Survey
            if given and isinstance(given[0], kind):
                last[kind] = given.pop(0)
            answer = last[kind]
        elif isinstance(step, SetFolderAside | RemoveStaleFolders):
            answer = given.pop(0)
        if not isinstance(step, Observe | AskNodes | Pause):
            done.append(step)


@pytest.mark.parametrize(
    ("decision", "view", "answers", "done"),
    [
        # Ray has no actor of it any more.
        (LOST, GONE, [GONE, ONE], [Start(S3, ("d",), False, "c")]),
        # A pinned actor waits for its node, and holds the name.
        (LOST, PINNED, [GONE, ONE], [*END_OLD, Start(S3, ("d",), False, "c")]),
        # The server that is ended led: the election is waited for.
        (LOST, PINNED, [NO_LEADER, GONE, UNKNOWN, ONE], [*END_OLD, Start(S3, ("d",), False, "c")]),
        # It was started since; whether it answers or not.
        (LOST, ON_TARGET, [], []),
        (LOST, STARTED, [], []),
        (LOST, SEEN_ELSEWHERE, [], []),
        # A node with the disk that has the vote is there, and it is not the one to be left.
        (
            LOST,
            GONE,
            [GONE, replace(ONE, nodes=(replace(C, node_id="e"), D))],
            [Start(S3, ("e",), True, "c")],
        ),
        (LOST, GONE, [GONE, replace(ONE, nodes=(C, D))], [Start(S3, ("d",), False, "c")]),
        # It was left stopped, and starts where it was.
        (RETURN, GONE, [GONE, replace(ONE, nodes=(C, D))], [Start(S3, ("c",), True)]),
        (RETURN, replace(SEEN_ELSEWHERE, actors={}), [], []),
    ],
)
def test_a_move(decision: Any, view: View, answers: list[Any], done: list[KeeperStep]) -> None:
    assert run(move(decision, view), answers) == (done, None)


@pytest.mark.parametrize(
    ("steps", "answers", "done", "problem"),
    [
        (move(LOST, GONE), [GONE, UNKNOWN], [], "no leader answers"),
        (move(LOST, GONE), [GONE, MOVING], [], "the vote of server 3 is moving"),
        (move(LOST, GONE), [GONE, replace(ONE, nodes=(C,))], [], "the new node is gone"),
        (
            move(LOST, GONE),
            [GONE, replace(ONE, unread={"e": "e: no answer"})],
            [],
            "not all could tell what they have: e: no answer",
        ),
        (move(LOST, GONE), [NO_LEADER] * 150, [], "no leader answers"),
        (
            undo(LOST),
            [ON_TARGET, *[HEARD] * 150],
            END_NEW,
            "the leader still hears server 3",
        ),
    ],
)
def test_what_stands_against_it(
    steps: KeeperSteps[Any], answers: list[Any], done: list[KeeperStep], problem: str
) -> None:
    assert run(steps, answers) == (done, problem)


@pytest.mark.parametrize(
    ("answers", "done"),
    [
        # It runs elsewhere.
        ([SEEN_ELSEWHERE], []),
        # Its folder on the target has no vote, and its old disk is not at hand.
        ([ON_TARGET, HEARD, GONE, replace(ONE, nodes=(D_STALE,)), "stale"], [*END_NEW, ASIDE]),
        # It got the vote at the last moment: it starts there again.
        (
            [STARTED, GONE, replace(ONE, nodes=(D_STALE,), voting_disks={S3: NEW})],
            [*END_NEW, Start(S3, ("d",), True)],
        ),
        # The target is gone, the old node is back.
        ([GONE, GONE, replace(ONE, nodes=(C,))], [Start(S3, ("c",), True)]),
    ],
)
def test_its_undoing(answers: list[Any], done: list[KeeperStep]) -> None:
    assert run(undo(LOST), answers) == (done, None)


def test_folders_of_voters_that_vote_elsewhere_are_set_aside() -> None:
    well = replace(GONE, voting=(S2, S3))
    survey = replace(ONE, nodes=(D_STALE, C))
    aside = partial(set_folders_aside, (S1, S2, S3), 9)
    done, (told, are_all) = run(aside(), [survey, well, "x/3.stale", ["x/old"], []])
    # Server 1 has its vote here; server 3 votes from C.
    assert done == [ASIDE, RemoveStaleFolders("d", 9), RemoveStaleFolders("c", 9)]
    assert told == [
        "server 3 votes elsewhere: its folder on D is now x/3.stale",
        "removed x/old on D",
    ]
    # Server 1 does not vote, so its folder here was not judged.
    assert not are_all
    done, (told, are_all) = run(aside(), [survey, ALL_VOTE, "x/3.stale", [], []])
    assert (len(done), are_all) == (3, True)
    # Something was started from it since.
    done, (told, are_all) = run(aside(), [survey, ALL_VOTE, None, [], []])
    assert (len(done), told, are_all) == (3, [], False)


@pytest.mark.parametrize(
    ("survey", "view", "are_all"),
    [
        # Which disk counts is unknown, or it does not run.
        (replace(UNKNOWN, nodes=(replace(D, disks={S3: NEW}),)), ALL_VOTE, False),
        (replace(ONE, nodes=(replace(D, disks={S3: NEW}),)), S1_VOTES, False),
        # A node did not answer: it may have a folder, too.
        (replace(ONE, unread=("e: no answer",)), ALL_VOTE, False),
        # Of an observer any folder may count.
        (replace(ONE, nodes=(replace(D, disks={ServerId(4): NEW}),)), ALL_VOTE, True),
        (ONE, ALL_VOTE, True),
    ],
)
def test_folders_that_cannot_be_judged_stay(survey: Survey, view: View, are_all: bool) -> None:
    steps = set_folders_aside((S1, S2, S3), 9)
    done, answer = run(steps, [survey, view, []])
    assert (done, answer) == ([RemoveStaleFolders("d", 9)], ([], are_all))


@pytest.mark.parametrize("cause", [Cause.DRAINED, Cause.PREEMPTED])
def test_a_server_leaves_a_node_that_ray_asks_no_more(cause: Cause) -> None:
    leaving = replace(LOST, cause=cause)
    there = replace(PINNED, running={S3: ServerLocation("c", "C")}, linked=(S1, S2, S3))
    silent = replace(ONE, unread={"c": "C: TaskUnschedulableError"})
    done, problem = run(move(leaving, there), [there, silent])
    assert (done, problem) == ([*END_OLD, Start(S3, ("d",), False, "c")], None)
    # Another one that does not answer may have the disk with the vote; so may that of a lost one.
    for decision, unread in ((leaving, "e"), (LOST, "c")):
        silent = replace(ONE, unread={unread: "no answer"})
        done, problem = run(move(decision, GONE), [GONE, silent])
        assert (done, problem) == ([], "not all could tell what they have: no answer")


def test_a_drained_server_leaves_a_live_node() -> None:
    drained = replace(LOST, cause=Cause.DRAINED)
    there = replace(PINNED, running={S3: ServerLocation("c", "C")}, linked=(S1, S2, S3))
    done, _ = run(move(drained, there), [there, replace(ONE, nodes=(C, D))])
    assert done == [*END_OLD, Start(S3, ("d",), False, "c")]
