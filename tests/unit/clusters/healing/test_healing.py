"""What a keeper decides: each table row is a story of looks and answers, and its last effects.

The file is long because all stories are told with the same few views of one ensemble.
"""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from raykeeper.clusters.healing.healing import (
    ENTRIES_KEPT,
    QUIET_MS,
    SET_ASIDE_EVERY_MS,
    SURVEY_PAUSE_MS,
    Healing,
    duration,
)
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Cause,
    Decision,
    Effect,
    Entry,
    HealSettings,
    Move,
    MoveStep,
    NodeSurvey,
    SaveLocations,
    ServerLocation,
    SetAside,
    Survey,
    Undo,
    View,
    WriteDecision,
)
from raykeeper.zab.ids import FOUNDING_DISK, Millis, ServerId
from tests.harness import decisions

S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)
AFTER, WAIT = 5_000, 60_000
SETTINGS = HealSettings(
    heal_after_ms=Millis(AFTER),
    pause_ms=Millis(0),
    moves_per_hour=2,
    node_age_ms=Millis(0),
    vote_wait_ms=Millis(WAIT),
    stale_after_s=7,
)
LOCATIONS = {
    S1: ServerLocation("a", "A"),
    S2: ServerLocation("b", "B"),
    S3: ServerLocation("c", "C"),
}
ACTORS = {S1: "a1", S2: "b1", S3: "c1"}
WITHOUT_S3 = {S1: "a1", S2: "b1"}
MOVED = {**LOCATIONS, S3: ServerLocation("d", "D")}
WELL = View(
    voters=(S1, S2, S3),
    nodes=dict.fromkeys("abcd", True),
    running=LOCATIONS,
    actors=ACTORS,
    linked=(S1, S2, S3),
    voting=(S1, S2, S3),
)
LOST = View(
    voters=(S1, S2, S3),
    nodes={"a": True, "b": True, "c": False, "d": True},
    running={S1: LOCATIONS[S1], S2: LOCATIONS[S2]},
    actors=ACTORS,
    linked=(S1, S2),
    voting=(S1, S2),
)
STARTED = replace(LOST, running=MOVED, linked=(S1, S2, S3))
BACK = replace(STARTED, voting=(S1, S2, S3))
NO_LEADER = replace(LOST, doubt="no leader answers", linked=(), voting=())
DRAINED = replace(WELL, leaving={"c": Cause.DRAINED})
STOPPED = replace(LOST, nodes=WELL.nodes, leaving={"c": Cause.DRAINED})
STAYS_STOPPED = replace(STOPPED, leaving={})
D_LOST = {**LOST.nodes, "d": False}
FREE = Survey(
    time_ms=Millis(10**6),
    nodes=(NodeSurvey(node_id="d", name="D", fits=(S1, S2, S3), wall_s=1),),
    voting_disks=dict.fromkeys(LOCATIONS, FOUNDING_DISK),
)
BEGUN = replace(
    decisions.BEGUN,
    source="c",
    source_name="C",
    target="d",
    target_name="D",
    reason="its node was lost for 5 s",
    actor="c1",
)
DRAIN = replace(BEGUN, cause=Cause.DRAINED, reason="its node is drained")
TURN = "pid 7 restarts servers, or changes the members"


def step(of: MoveStep, decision: Decision = BEGUN, detail: str = "") -> Decision:
    return replace(decision, step=of, detail=detail)


class Keeper:
    """A leadership, its clock, and the tree in which its decisions stand."""

    def __init__(self, entries: Sequence[Decision] = (), settings: HealSettings = SETTINGS) -> None:
        self.now = Millis(1_000)
        tree = [Entry(i, Millis(i), each) for i, each in enumerate(entries)]
        self.healing = Healing(settings, tree, LOCATIONS, self.now)
        self.number = len(tree)

    def look(self, view: View, after_ms: int = 0) -> list[Effect]:
        self.now = Millis(self.now + after_ms)
        return self.healing.on_view(view, self.now)

    def on_survey(self, survey: Survey = FREE) -> list[Effect]:
        return self.healing.on_survey(survey, self.now)

    def judged(self, *, are_all: bool = True) -> None:
        self.healing.on_folders_judged(are_all, self.now)

    def on_decision_written(self, decision: Decision) -> None:
        self.healing.on_decision_written(Entry(self.number, Millis(0), decision), self.now)
        self.number += 1


def losing(settings: HealSettings = SETTINGS) -> Keeper:
    """A keeper that is about to ask the nodes where the lost server may go."""
    keeper = Keeper(settings=settings)
    keeper.look(WELL)
    keeper.look(LOST)
    return keeper


def test_a_server_whose_node_is_lost_moves() -> None:
    keeper = Keeper()
    assert keeper.look(WELL) == [] and not keeper.healing.has_work
    assert keeper.look(LOST) == [] and keeper.healing.has_work
    assert keeper.look(LOST, AFTER - 1) == []
    assert keeper.look(LOST, 1) == [AskNodes()]
    assert keeper.on_survey() == [WriteDecision(BEGUN)]
    keeper.on_decision_written(BEGUN)
    assert keeper.healing.is_moving
    assert keeper.look(LOST) == [Move(BEGUN, LOST)]
    assert keeper.healing.on_act_done("") == [WriteDecision(step(MoveStep.STARTED))]
    keeper.on_decision_written(step(MoveStep.STARTED))
    assert keeper.look(LOST) == []
    assert keeper.look(STARTED) == [SaveLocations(MOVED)]
    assert keeper.look(BACK) == [WriteDecision(step(MoveStep.DONE))]
    keeper.on_decision_written(step(MoveStep.DONE))
    assert keeper.look(BACK) == [] and not keeper.healing.has_work
    assert [entry.decision.step for entry in keeper.healing.entries] == [
        MoveStep.BEGUN,
        MoveStep.STARTED,
        MoveStep.DONE,
    ]


@pytest.mark.parametrize(
    "view",
    [
        # Its node is alive: Ray starts it again.
        replace(LOST, nodes=WELL.nodes),
        # Ray does not name its node any more.
        replace(LOST, nodes={"a": True, "b": True, "d": True}),
        # It follows, though Ray takes its node for dead; or it answers.
        replace(LOST, linked=(S1, S2, S3)),
        replace(LOST, running=LOCATIONS),
        # No leader with a majority behind it, ever since.
        NO_LEADER,
        replace(WELL, running={}, doubt="no server runs", linked=(), voting=()),
    ],
)
def test_a_server_stays_for_ever_while(view: View) -> None:
    keeper = Keeper()
    keeper.look(WELL)
    for _ in range(5):
        assert keeper.look(view, AFTER) == []


def test_the_time_begins_anew_when_the_server_was_heard() -> None:
    keeper = losing()
    assert keeper.look(replace(LOST, linked=(S1, S2, S3)), AFTER - 1) == []
    assert keeper.look(LOST, 1) == []
    assert keeper.look(LOST, AFTER - 1) == []
    assert keeper.look(LOST, 1) == [AskNodes()]


def test_the_time_goes_on_while_nobody_knows() -> None:
    """A majority that is not seen says nothing; but until it is seen, nothing happens."""
    keeper = losing()
    assert keeper.look(NO_LEADER, AFTER) == []
    assert keeper.healing.waiting == "no leader answers"
    assert keeper.look(LOST) == [AskNodes()]


def test_the_time_begins_when_a_majority_is_seen_first() -> None:
    keeper = Keeper()
    keeper.look(WELL)
    keeper.look(NO_LEADER)
    assert keeper.look(LOST, AFTER) == []
    assert keeper.look(LOST, AFTER) == [AskNodes()]


def test_the_time_begins_anew_when_a_move_was_undone() -> None:
    keeper = losing()
    keeper.look(LOST, AFTER)
    keeper.on_decision_written(BEGUN)
    keeper.on_decision_written(step(MoveStep.UNDONE))
    assert keeper.look(LOST) == []
    assert keeper.look(LOST, AFTER) == [AskNodes()]


@pytest.mark.parametrize("end", [MoveStep.UNDONE, MoveStep.DONE])
def test_a_server_that_was_left_stopped_starts_again(end: MoveStep) -> None:
    """Its node is alive, and Ray has no actor of it.

    Its move was undone, and it could not be started where its vote is; or its pinned actor came
    back with its node, and the keeper before ended it late (the simulator's seed 1654).
    """
    stopped = replace(LOST, nodes=WELL.nodes, actors=WITHOUT_S3)
    keeper = Keeper()
    assert keeper.look(stopped) == [] and keeper.look(stopped, AFTER) == []
    keeper = Keeper([BEGUN, step(end)])
    keeper.look(stopped)
    assert keeper.look(replace(stopped, actors=ACTORS), AFTER) == []
    keeper.look(stopped)
    assert keeper.look(stopped, AFTER) == [AskNodes()]
    at_c = NodeSurvey(node_id="c", name="C", disks={S3: FOUNDING_DISK})
    (effect,) = keeper.on_survey(replace(FREE, nodes=(at_c,)))
    again = replace(BEGUN, target="c", target_name="C", actor="")
    assert effect == WriteDecision(again)
    keeper.on_decision_written(again)
    assert keeper.look(stopped) == [Move(again, stopped)]
    assert keeper.look(replace(WELL, voting=(S1, S2))) == [
        WriteDecision(step(MoveStep.STARTED, again))
    ]
    assert keeper.look(WELL) == [WriteDecision(step(MoveStep.DONE, again))]


def test_old_folders_are_set_aside_when_all_is_well() -> None:
    keeper = Keeper()
    assert keeper.look(WELL) == []
    assert keeper.look(WELL, QUIET_MS - 1) == []
    assert keeper.look(WELL, 1) == [SetAside(7)]
    keeper.judged()
    assert keeper.look(WELL, SET_ASIDE_EVERY_MS - 1) == []
    assert keeper.look(WELL, 1) == [SetAside(7)]
    keeper.judged()
    # A node returns.
    returned = replace(WELL, nodes={**WELL.nodes, "e": True})
    assert keeper.look(returned, QUIET_MS) == []
    assert keeper.look(returned, QUIET_MS) == [SetAside(7)]
    keeper.judged()
    # A server has moved.
    keeper.on_decision_written(step(MoveStep.DONE))
    assert keeper.look(returned, QUIET_MS - 1) == []
    assert keeper.look(returned, 1) == [SetAside(7)]


def test_old_folders_that_nobody_could_judge_are_looked_for_again_and_ever_later() -> None:
    """Seed 1270 of the simulator: one answer was late, and a folder stayed for an hour."""
    keeper = Keeper()
    keeper.look(WELL)
    assert keeper.look(WELL, QUIET_MS) == [SetAside(7)]
    for pause_ms in [min(QUIET_MS * 2**tries, SET_ASIDE_EVERY_MS) for tries in range(12)]:
        keeper.judged(are_all=False)
        assert keeper.look(WELL, pause_ms - 1) == []
        assert keeper.look(WELL, 1) == [SetAside(7)]
    # It begins anew when all could be judged, or when a node returns.
    keeper.judged()
    assert keeper.look(WELL, SET_ASIDE_EVERY_MS) == [SetAside(7)]
    keeper.judged(are_all=False)
    assert keeper.look(WELL, QUIET_MS) == [SetAside(7)]
    keeper.judged(are_all=False)
    assert keeper.look(replace(WELL, nodes={"e": True, **WELL.nodes})) == []
    assert keeper.look(replace(WELL, nodes={"e": True, **WELL.nodes}), QUIET_MS) == [SetAside(7)]


def test_old_folders_do_not_wait_for_a_drained_server_that_has_nowhere_to_go() -> None:
    """Seed 877 of the simulator: a drain that was never ended, and old folders that stayed."""
    keeper = Keeper()
    for after_ms in (0, QUIET_MS):
        assert keeper.look(DRAINED, after_ms) == [AskNodes()]
        assert keeper.on_survey(replace(FREE, nodes=())) == []
    assert keeper.look(DRAINED) == [SetAside(7)]
    assert keeper.healing.waiting == "no node for server 3: there is no other node"


@pytest.mark.parametrize(
    "view",
    [
        LOST,
        NO_LEADER,
        replace(WELL, open_change="server 2 waits for its vote"),
        replace(WELL, voting=(S1, S2)),
        replace(DRAINED, voting=(S1, S3)),
    ],
)
def test_folders_stay_while_not_all_is_well(view: View) -> None:
    keeper = Keeper(settings=replace(SETTINGS, heal_after_ms=Millis(10**9)))
    keeper.look(WELL)
    keeper.look(view, QUIET_MS)
    assert keeper.look(view, QUIET_MS) in ([], [AskNodes()])
    # Then the time begins anew.
    keeper.look(WELL)
    assert keeper.look(WELL, QUIET_MS - 1) == []
    keeper.look(replace(WELL, nodes=view.nodes))
    assert keeper.look(replace(WELL, nodes=view.nodes), QUIET_MS) == [SetAside(7)]


def test_a_server_that_was_never_seen_stays() -> None:
    keeper = Keeper()
    keeper.healing.locations.clear()
    keeper.look(LOST)
    assert keeper.look(LOST, AFTER) == []


def test_a_change_that_is_open_is_waited_for() -> None:
    keeper = losing()
    changing = replace(LOST, open_change="server 2 waits for its vote")
    assert keeper.look(changing, AFTER) == []
    assert keeper.healing.waiting == "server 2 waits for its vote"
    assert keeper.look(LOST) == [AskNodes()]


def test_without_a_node_the_nodes_are_asked_again_later() -> None:
    keeper = losing()
    assert keeper.look(LOST, AFTER) == [AskNodes()]
    assert keeper.on_survey(replace(FREE, nodes=())) == []
    why = "no node for server 3: there is no other node"
    assert keeper.healing.waiting == why
    assert keeper.look(LOST, SURVEY_PAUSE_MS - 1) == [] and keeper.healing.waiting == why
    assert keeper.look(LOST, 1) == [AskNodes()]
    assert keeper.on_survey() != [] and keeper.healing.waiting == ""


def test_a_node_must_be_alive_for_a_while_and_stay() -> None:
    keeper = losing(replace(SETTINGS, node_age_ms=Millis(2 * AFTER)))
    keeper.look(LOST, AFTER)
    assert keeper.on_survey() == []
    # It goes and returns under its old name, as no node of Ray does: its age begins anew.
    keeper.look(replace(LOST, nodes=D_LOST))
    keeper.look(LOST, 2 * AFTER - 1)
    assert keeper.on_survey() == []
    keeper.look(LOST, 2 * AFTER)
    assert keeper.on_survey() == [
        WriteDecision(replace(BEGUN, reason="its node was lost for 25 s"))
    ]
    keeper.look(replace(LOST, leaving={"d": Cause.PREEMPTED}))
    assert keeper.on_survey() == []


def test_a_pause_is_waited_for() -> None:
    keeper = Keeper([BEGUN, step(MoveStep.UNDONE)], replace(SETTINGS, pause_ms=Millis(10**6)))
    keeper.look(WELL)
    keeper.look(LOST)
    keeper.look(LOST, AFTER)
    assert keeper.on_survey(replace(FREE, time_ms=Millis(10**5))) == []
    assert (
        keeper.healing.waiting == "server 3 waits for 15 min: server 3 has moved once within a day"
    )
    assert keeper.on_survey(replace(FREE, time_ms=Millis(10**6))) != []


def test_a_keeper_counts_the_pause_behind_its_own_move_by_its_own_clock() -> None:
    """The ensemble's time jumps ahead with the clock of another leader."""
    keeper = losing(replace(SETTINGS, pause_ms=Millis(10**6)))
    keeper.look(LOST, AFTER)
    keeper.on_survey()
    keeper.on_decision_written(BEGUN)
    keeper.on_decision_written(step(MoveStep.UNDONE))
    keeper.look(LOST)
    assert keeper.look(LOST, AFTER) == [AskNodes()]
    assert keeper.on_survey(replace(FREE, time_ms=Millis(10**9))) == []
    keeper.look(LOST, 10**6)
    assert keeper.on_survey() != []


def test_a_server_that_comes_or_goes_by_a_change_is_left_to_its_operator() -> None:
    changing = replace(LOST, changing=(S3,))
    keeper = losing()
    assert keeper.look(changing, AFTER) == []
    leaving = replace(DRAINED, changing=(S3,))
    assert Keeper().look(leaving) == []
    # The change has ended.
    assert keeper.look(LOST) == [AskNodes()]


def test_a_server_that_is_no_voter_any_more_does_not_move() -> None:
    keeper = losing()
    without = replace(LOST, voters=(S1, S2))
    assert keeper.look(without, AFTER) == []
    assert not keeper.healing.has_work


def test_the_server_that_is_lost_longest_moves_first_if_it_can() -> None:
    five = tuple(ServerId(i) for i in range(1, 6))
    locations = {
        ServerId(i): ServerLocation(node, node.upper()) for i, node in enumerate("abcde", 1)
    }
    others = {i: locations[i] for i in (S1, S2, S3)}
    nodes = dict.fromkeys("abcdef", True)
    well = replace(WELL, voters=five)
    one = replace(well, nodes={**nodes, "e": False}, running=others, linked=(S1, S2, S3))
    two = replace(one, nodes={**nodes, "d": False, "e": False})
    free = NodeSurvey(node_id="f", name="F", fits=(ServerId(4), ServerId(5)), wall_s=1)
    for fits, first in ((free.fits, 5), ((ServerId(4),), 4)):
        keeper = Keeper()
        keeper.healing.locations.update(locations)
        keeper.look(one)
        keeper.look(two, 1)
        assert keeper.look(two, AFTER) == [AskNodes()]
        (effect,) = keeper.on_survey(replace(FREE, nodes=(replace(free, fits=fits),)))
        assert isinstance(effect, WriteDecision) and effect.decision.server == first


@pytest.mark.parametrize(
    ("entries", "views", "effects"),
    [
        # The keeper before has begun it, and perhaps more.
        ([BEGUN], [LOST], [Move(BEGUN, LOST)]),
        ([BEGUN], [NO_LEADER], []),
        ([BEGUN], [STARTED, STARTED], [WriteDecision(step(MoveStep.STARTED))]),
        ([BEGUN], [BACK, BACK], [WriteDecision(step(MoveStep.DONE))]),
        ([BEGUN, step(MoveStep.STARTED)], [BACK, BACK], [WriteDecision(step(MoveStep.DONE))]),
        ([BEGUN, step(MoveStep.STARTED)], [LOST], []),
        ([BEGUN, step(MoveStep.DONE)], [LOST], []),
        ([BEGUN, step(MoveStep.UNDONE)], [LOST], []),
        # It follows again, though Ray takes its node for dead.
        (
            [BEGUN],
            [replace(LOST, linked=(S1, S2, S3))],
            [WriteDecision(step(MoveStep.UNDONE, detail="it is there again"))],
        ),
        # The new node is lost: before the server was started, and after.
        ([BEGUN], [replace(LOST, nodes=D_LOST)], [Undo(BEGUN)]),
        (
            [BEGUN, step(MoveStep.STARTED)],
            [replace(LOST, nodes=D_LOST)],
            [Undo(step(MoveStep.STARTED))],
        ),
        # It came back under its name elsewhere, and has its vote.
        (
            [BEGUN, step(MoveStep.STARTED)],
            [replace(BACK, nodes=D_LOST)] * 2,
            [WriteDecision(step(MoveStep.DONE))],
        ),
        # Ray takes the new node for dead, and the server follows from there.
        ([BEGUN, step(MoveStep.STARTED)], [replace(STARTED, nodes=D_LOST)] * 2, []),
    ],
)
def test_a_move_that_was_left_open_goes_on(
    entries: list[Decision], views: list[View], effects: list[Effect]
) -> None:
    keeper = Keeper(entries)
    found: list[Effect] = []
    for view in views:
        found = keeper.look(view)
    assert found == effects


def test_a_move_without_a_vote_is_undone() -> None:
    keeper = Keeper([BEGUN, started := step(MoveStep.STARTED)])
    keeper.look(STARTED)
    assert keeper.look(STARTED, WAIT - 1) == []
    assert keeper.look(NO_LEADER, 1) == []
    assert keeper.look(STARTED) == [Undo(started)]
    assert keeper.healing.on_act_done("") == [
        WriteDecision(step(MoveStep.UNDONE, detail="it did not get its vote in time"))
    ]
    keeper.on_decision_written(step(MoveStep.UNDONE))
    # The time begins anew.
    lost_again = replace(LOST, nodes=D_LOST)
    assert keeper.look(lost_again, AFTER) == []
    assert keeper.look(lost_again, AFTER - 1) == []


@pytest.mark.parametrize(
    ("undoing", "detail"), [("", "no room"), ("its folder stays", "no room; its folder stays")]
)
def test_a_move_that_fails_is_undone(undoing: str, detail: str) -> None:
    keeper = Keeper([BEGUN])
    assert keeper.look(LOST) == [Move(BEGUN, LOST)]
    assert keeper.healing.on_act_done("no room") == [Undo(BEGUN)]
    assert keeper.healing.on_act_done(undoing) == [
        WriteDecision(step(MoveStep.UNDONE, detail=detail))
    ]


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (Cause.DRAINED, "its node is drained"),
        (Cause.PREEMPTED, "its node is about to be taken away"),
    ],
)
def test_a_server_leaves_a_node_that_will_go_at_once(cause: Cause, reason: str) -> None:
    keeper = Keeper()
    assert keeper.look(replace(WELL, leaving={"c": cause})) == [AskNodes()]
    begun = replace(BEGUN, cause=cause, reason=reason)
    assert keeper.on_survey() == [WriteDecision(begun)]


@pytest.mark.parametrize(
    ("view", "effects"),
    [
        (DRAINED, [Move(DRAIN, DRAINED)]),
        # It was stopped already, by the keeper before; then it goes on, whatever is said now.
        (STOPPED, [Move(DRAIN, STOPPED)]),
        (STAYS_STOPPED, [Move(DRAIN, STAYS_STOPPED)]),
        (WELL, [WriteDecision(step(MoveStep.UNDONE, DRAIN, "its node stays"))]),
        (
            replace(DRAINED, nodes={**WELL.nodes, "d": False}),
            [WriteDecision(step(MoveStep.UNDONE, DRAIN, "D was lost"))],
        ),
        (
            replace(DRAINED, voting=(S1, S3)),
            [
                WriteDecision(
                    step(MoveStep.UNDONE, DRAIN, "without it the other voters are no majority")
                )
            ],
        ),
        (replace(STOPPED, nodes={**WELL.nodes, "d": False}), [Undo(DRAIN)]),
        # A process that began to restart servers counts on this one; once it is stopped it goes on.
        (replace(DRAINED, turn="pid 7"), [WriteDecision(step(MoveStep.UNDONE, DRAIN, TURN))]),
        (replace(STOPPED, turn="pid 7"), [Move(DRAIN, replace(STOPPED, turn="pid 7"))]),
    ],
)
def test_a_server_stays_after_all(view: View, effects: list[Effect]) -> None:
    assert Keeper([DRAIN]).look(view) == effects


def test_while_servers_are_restarted_only_a_lost_one_moves() -> None:
    for cause in (Cause.DRAINED, Cause.PREEMPTED):
        keeper = Keeper()
        assert keeper.look(replace(WELL, leaving={"c": cause}, turn="pid 7")) == []
        assert keeper.healing.waiting == TURN
        assert keeper.look(replace(WELL, leaving={"c": cause})) == [AskNodes()]
    keeper = Keeper()
    busy = replace(LOST, leaving={"b": Cause.DRAINED}, turn="pid 7")
    keeper.look(busy)
    assert keeper.look(busy, AFTER) == [AskNodes()]
    assert keeper.on_survey() == [WriteDecision(BEGUN)]


def test_a_server_that_the_majority_needs_does_not_leave() -> None:
    keeper = Keeper()
    assert keeper.look(replace(DRAINED, voting=(S1, S3))) == []
    assert keeper.healing.waiting == "without it the other voters are no majority"


def test_old_decisions_are_dropped() -> None:
    keeper = Keeper([step(MoveStep.DONE)] * ENTRIES_KEPT)
    keeper.on_decision_written(BEGUN)
    assert len(keeper.healing.entries) == ENTRIES_KEPT
    assert keeper.healing.entries[-1].decision == BEGUN


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1, "1 s"),
        (59_000, "59 s"),
        (60_000, "1 min"),
        (61_000, "61 s"),
        (119_000, "119 s"),
        (300_500, "5 min"),
        (3_600_000, "1 h"),
        (7_199_000, "119 min"),
        (7_200_000, "2 h"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text
