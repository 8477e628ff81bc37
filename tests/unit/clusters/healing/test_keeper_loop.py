"""What an elected keeper does, in order: the steps of one leadership."""

from typing import Any

from msgspec.structs import replace

from raykeeper.clusters.healing.healing import QUIET_MS
from raykeeper.clusters.healing.keeper_loop import BUSY_PAUSE_MS, PAUSE_MS, KeeperLoop
from raykeeper.clusters.healing.move_steps import MoveError
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Entry,
    ForgetDrains,
    KeeperStep,
    Kill,
    Log,
    MoveStep,
    Observe,
    Pause,
    ReadClock,
    RemoveStaleFolders,
    SaveLocations,
    SetAside,
    SetFolderAside,
    Start,
    Stop,
    Survey,
    View,
    WriteDecision,
)
from raykeeper.zab.ids import DiskId, Millis
from tests.unit.clusters.healing.test_healing import (
    AFTER,
    BACK,
    FREE,
    LOCATIONS,
    LOST,
    S3,
    SETTINGS,
    WELL,
)


class Shell:
    """Answers the steps of a leadership; an act that is impossible raises."""

    def __init__(self) -> None:
        self.now = Millis(1_000)
        self.view: View = WELL
        self.survey: Survey = FREE
        self.problem = ""
        self.number = 0
        self.loop = KeeperLoop(SETTINGS, [], LOCATIONS, self.now)
        self.steps = self.loop.steps()
        self.step: KeeperStep = next(self.steps)

    def until_rest(self, view: View, after_ms: int) -> list[KeeperStep]:
        """Do the steps of one look, without those that only ask."""
        self.view, self.now = view, Millis(self.now + after_ms)
        done: list[KeeperStep] = []
        while True:
            step = self.step
            if not isinstance(step, Observe | ReadClock | ForgetDrains):
                done.append(step)
            if self.problem and isinstance(step, Start | SetFolderAside):
                self.step = self.steps.throw(MoveError(self.problem))
            else:
                self.step = self.steps.send(self.answer(step))
            if isinstance(step, Pause) and step.ms in (PAUSE_MS, BUSY_PAUSE_MS):
                return done

    def answer(self, step: KeeperStep) -> Any:
        match step:
            case Observe():
                return self.view
            case ReadClock():
                return self.now
            case AskNodes():
                return self.survey
            case WriteDecision():
                self.number += 1
                return Entry(self.number, Millis(0), step.decision)
            case SetFolderAside():
                return "x"
            case RemoveStaleFolders():
                return []
        return None


def written_steps(steps: list[KeeperStep]) -> list[MoveStep]:
    return [step.decision.step for step in steps if isinstance(step, WriteDecision)]


def test_a_move_from_loss_to_vote() -> None:
    shell = Shell()
    assert shell.until_rest(WELL, 0) == [Pause(PAUSE_MS)]
    assert shell.until_rest(LOST, 0) == [Pause(BUSY_PAUSE_MS)]
    begun = shell.until_rest(LOST, AFTER)
    assert isinstance(begun[0], AskNodes) and written_steps(begun) == [MoveStep.BEGUN]
    moved = shell.until_rest(LOST, 0)
    acts = [step for step in moved if isinstance(step, Stop | Kill | Start)]
    assert acts == [Stop(S3, "c1"), Kill(S3, "c1"), Start(S3, ("d",), False, "c")]
    assert written_steps(moved) == [MoveStep.STARTED]
    done = shell.until_rest(BACK, 0)
    assert isinstance(done[0], SaveLocations) and written_steps(done) == [MoveStep.DONE]


def test_a_move_that_fails_is_undone() -> None:
    shell = Shell()
    shell.until_rest(LOST, 0)
    shell.until_rest(LOST, AFTER)
    shell.problem = "no room"
    steps = shell.until_rest(LOST, 0)
    assert written_steps(steps) == [MoveStep.UNDONE]
    assert shell.loop.healing.entries[-1].decision.detail == "no room"


def test_old_folders_are_named_and_a_problem_with_them_too() -> None:
    shell = Shell()
    stale = replace(FREE.nodes[0], disks={S3: DiskId("old")}, incarnations={S3: 1})
    shell.survey = replace(FREE, nodes=(stale,))
    shell.until_rest(WELL, 0)
    line = "server 3 votes elsewhere: its folder on D is now x"
    assert Log(line) in shell.until_rest(WELL, QUIET_MS)
    assert shell.loop.stale_folders == [line]
    shell.problem = "in use"
    shell.until_rest(replace(WELL, nodes={**WELL.nodes, "e": True}), 0)
    steps = shell.until_rest(replace(WELL, nodes={**WELL.nodes, "e": True}), QUIET_MS)
    assert Log("folders out of date were not looked for: in use") in steps
    assert SetAside not in map(type, steps)


def test_a_survey_without_a_leader_is_made_again_soon() -> None:
    shell = Shell()
    stale = replace(FREE.nodes[0], disks={S3: DiskId("old")}, incarnations={S3: 1})
    known = replace(FREE, nodes=(stale,))
    shell.survey = replace(known, voting_disks={}, doubt="no leader answers")
    shell.until_rest(WELL, 0)
    assert SetFolderAside not in map(type, shell.until_rest(WELL, QUIET_MS))
    shell.survey = known
    assert shell.until_rest(WELL, QUIET_MS - 1) == [Pause(PAUSE_MS)]
    assert SetFolderAside in map(type, shell.until_rest(WELL, 1))
    assert shell.until_rest(WELL, QUIET_MS) == [Pause(PAUSE_MS)]
