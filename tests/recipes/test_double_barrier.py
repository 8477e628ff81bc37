"""The double barrier: together in, together out, round after round, whoever dies."""

import pytest

from raykeeper.client.errors import (
    BarrierFullError,
    BrokenBarrierError,
    LostError,
    RecipeError,
    SessionExpiredError,
    WaitTimeoutError,
)
from raykeeper.client.recipes.double_barrier import OnCrash
from raykeeper.client.recipes.primitives import ensure_parent, get_children
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Delete, Multi, SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.crew import PATH, Between, Crew

MODES: list[OnCrash] = ["abort", "continue"]
both = pytest.mark.parametrize("mode", MODES)


def done(waits: list[Outcome]) -> list[bool]:
    return [wait.is_done for wait in waits]


def errors(waits: list[Outcome]) -> list[type | None]:
    assert all(wait.is_done for wait in waits)
    return [None if wait.error is None else type(wait.error) for wait in waits]


@both
def test_all_enter_together_and_leave_together(stage: RecipeStage, mode: OnCrash) -> None:
    crew = Crew(stage, 3, mode)
    rounds = []
    for _ in range(3):
        waits = crew.begin(0, 1)
        assert done(waits) == [False, False]
        waits += crew.begin(2)
        assert errors(waits) == [None] * 3
        rounds.append({wait.value.round for wait in waits})
        waits = crew.end(2, 0)
        assert done(waits) == [False, False]
        waits += crew.end(1)
        assert errors(waits) == [None] * 3
    assert [len(each) for each in rounds] == [1, 1, 1]
    assert rounds == sorted(rounds, key=min)
    assert crew.left_behind() == []


@both
def test_a_barrier_for_one_never_waits(stage: RecipeStage, mode: OnCrash) -> None:
    alice = stage.member()
    barrier = alice.double_barrier(PATH, 1, on_crash=mode)
    for _ in range(2):
        barrier.enter()
        barrier.leave(timeout_s=0)
    barrier.cross(timeout_s=0)


def test_cross_enters_and_leaves(stage: RecipeStage) -> None:
    crew = Crew(stage, 2, "abort")
    alice, bob = crew.members
    for _ in range(3):
        first = alice.begin(crew.barriers[0].cross)
        assert not first.is_done
        second = bob.begin(crew.barriers[1].cross)
        assert errors([first, second]) == [None, None]


def test_the_requests_in_mode_continue_are_as_documented(stage: RecipeStage) -> None:
    crew = Crew(stage, 10, "continue")
    crew.begin(*range(10))
    crew.end(*range(10))
    for member in crew.members:
        member.asked.clear()
        member.events = 0
    crew.begin(*range(10))
    first, *others, last = crew.members
    assert dict(first.asked) == {"Multi": 2, "GetData": 2}
    assert [dict(m.asked) for m in others] == [{"Multi": 1, "GetData": 2}] * 8
    assert dict(last.asked) == {"Multi": 1, "GetData": 1}
    assert [member.events for member in crew.members] == [1] * 9 + [0]
    crew.end(*range(10))
    assert [m.asked["Multi"] for m in crew.members] == [3] + [2] * 8 + [3]
    assert sum(m.asked.total() for m in crew.members) == 5 + 8 * 4 + 4
    assert [member.events for member in crew.members] == [2] * 9 + [1]


def test_the_requests_in_mode_abort_are_as_documented(stage: RecipeStage) -> None:
    crew = Crew(stage, 10, "abort")
    crew.begin(*range(10))
    events = [member.events for member in crew.members]
    # The first is told of each who comes; each other one that all have come.
    assert events[0] <= 10 + 1
    assert all(count <= 2 for count in events[1:])
    crew.end(*range(10))
    assert sum(m.events for m in crew.members) <= 4 * 10
    assert sum(m.asked.total() for m in crew.members) <= 11 * 10


@both
def test_a_process_beyond_the_number_is_refused(stage: RecipeStage, mode: OnCrash) -> None:
    crew = Crew(stage, 2, mode, more=1)
    crew.begin(0, 1)
    with pytest.raises(BarrierFullError, match="all 2 have entered /barriers/x"):
        _ = crew.enter(2).value
    crew.end(0)
    with pytest.raises(BarrierFullError):
        _ = crew.enter(2).value
    crew.end(1)
    wait = crew.enter(2)
    assert not wait.is_done
    crew.begin(0)
    assert wait.is_done


def test_only_a_process_outside_enters_and_only_one_inside_leaves(stage: RecipeStage) -> None:
    barrier = stage.member().double_barrier(PATH, 1)
    with pytest.raises(RecipeError, match="has not entered"):
        barrier.leave()
    barrier.enter()
    with pytest.raises(RecipeError, match="has entered"):
        barrier.enter()
    barrier.leave()
    with pytest.raises(RecipeError, match="has not entered"):
        barrier.leave()


@pytest.mark.parametrize("dead", range(3))
def test_a_crash_before_the_round_is_complete_breaks_it_in_mode_abort(
    stage: RecipeStage, dead: int
) -> None:
    crew = Crew(stage, 4, "abort")
    waits = crew.begin(0, 1, 2)
    crew.members[dead].die()
    stage.pass_time(4_000)
    assert errors([w for place, w in enumerate(waits) if place != dead]) == [
        BrokenBarrierError,
        BrokenBarrierError,
    ]
    assert crew.left_behind() == []


@pytest.mark.parametrize("number", range(1, 5))
def test_a_process_that_enters_and_dies_during_another_enter_is_missed(
    stage: RecipeStage, number: int
) -> None:
    crew = Crew(stage, 3, "abort")
    alice, bob = crew.members[:2]
    lists: list[list[str]] = []

    def seen() -> None:
        lists.append(crew.watcher.do(get_children(f"{PATH}/round")))

    def come_and_go() -> None:
        seen()
        crew.enter(1)
        seen()
        bob.close()

    crew.watcher.do(ensure_parent(PATH))
    alice.flows.host = Between(alice, number, come_and_go)
    wait = crew.enter(0)
    before, after = lists
    assert len(after) == len(before) + 1, "bob has come"
    assert wait.is_done == bool(before), "alice was there before him"
    assert not before or errors([wait]) == [BrokenBarrierError]


@pytest.mark.parametrize("dead", range(3))
def test_a_crash_before_the_round_is_complete_frees_a_place_in_mode_continue(
    stage: RecipeStage, dead: int
) -> None:
    crew = Crew(stage, 4, "continue", more=1)
    waits = crew.begin(0, 1, 2)
    crew.members[dead].die()
    stage.pass_time(4_000)
    waits += crew.begin(3)
    alive = [w for place, w in enumerate(waits) if place != dead]
    assert done(alive) == [False] * 3
    alive += crew.begin(4)
    assert errors(alive) == [None] * 4


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_of_the_only_process_leaves_a_clean_round(
    stage: RecipeStage, mode: OnCrash
) -> None:
    crew = Crew(stage, 2, mode, more=1)
    crew.begin(0)
    crew.members[0].die()
    names: list[str] = ["p"]
    while names:
        stage.pass_time(50)
        names = crew.watcher.do(get_children(f"{PATH}/round"))
    waits = crew.begin(1, 2)
    assert errors(waits) == [None, None]


@pytest.mark.parametrize("outside", [0, 1, 2])
@pytest.mark.parametrize("dead", range(3))
def test_a_crash_inside_breaks_the_leave_of_the_others_in_mode_abort(
    stage: RecipeStage, dead: int, outside: int
) -> None:
    """`outside` have left before."""
    crew = Crew(stage, 3, "abort")
    crew.begin(0, 1, 2)
    others = [place for place in range(3) if place != dead]
    waits = crew.end(*others[:outside])
    crew.members[dead].die()
    stage.pass_time(4_000)
    waits += crew.end(*others[outside:])
    stage.pass_time(1_000)
    assert errors(waits) == [BrokenBarrierError] * 2
    assert crew.left_behind() == []


@pytest.mark.parametrize("outside", [0, 1, 2])
@pytest.mark.parametrize("dead", range(3))
def test_a_crash_inside_delays_nobody_in_mode_continue(
    stage: RecipeStage, dead: int, outside: int
) -> None:
    crew = Crew(stage, 3, "continue")
    crew.begin(0, 1, 2)
    others = [place for place in range(3) if place != dead]
    waits = crew.end(*others[:outside])
    crew.members[dead].die()
    assert done(waits) == [False] * outside
    stage.pass_time(4_000)
    waits += crew.end(*others[outside:])
    stage.pass_time(1_000)
    assert errors(waits) == [None] * 2
    assert crew.left_behind() == []


def test_a_crash_after_leaving_breaks_the_leave_of_the_others_in_mode_abort(
    stage: RecipeStage,
) -> None:
    crew = Crew(stage, 3, "abort")
    crew.begin(0, 1, 2)
    crew.end(0)
    crew.members[0].die()
    stage.pass_time(4_000)
    waits = crew.end(1, 2)
    assert errors(waits) == [BrokenBarrierError] * 2
    assert crew.left_behind() == []


def test_a_crash_after_leaving_delays_nobody_in_mode_continue(stage: RecipeStage) -> None:
    crew = Crew(stage, 2, "continue")
    crew.begin(0, 1)
    crew.end(0)
    crew.members[0].die()
    stage.pass_time(4_000)
    assert errors(crew.end(1)) == [None]


@pytest.mark.parametrize("timeout_s", [0, 1])
def test_an_enter_that_times_out_breaks_the_round_in_mode_abort(
    stage: RecipeStage, timeout_s: float
) -> None:
    crew = Crew(stage, 3, "abort")
    waits = crew.begin(0)
    hurried = crew.enter(1, timeout_s=timeout_s)
    stage.pass_time(1_200)
    assert errors([*waits, hurried]) == [BrokenBarrierError, WaitTimeoutError]
    assert crew.left_behind() == []
    assert errors(crew.begin(0, 1, 2)) == [None] * 3


@pytest.mark.parametrize("timeout_s", [0, 1])
def test_an_enter_that_times_out_frees_its_place_in_mode_continue(
    stage: RecipeStage, timeout_s: float
) -> None:
    crew = Crew(stage, 2, "continue")
    hurried = crew.enter(0, timeout_s=timeout_s)
    stage.pass_time(1_200)
    assert errors([hurried]) == [WaitTimeoutError]
    before = crew.members[0].events
    assert crew.left_behind() == []
    wait = crew.enter(1)
    assert not wait.is_done
    assert crew.members[0].events == before
    assert errors([crew.enter(0), wait]) == [None, None]


@both
@pytest.mark.parametrize("timeout_s", [0, 1])
def test_a_leave_that_times_out_has_left(
    stage: RecipeStage, mode: OnCrash, timeout_s: float
) -> None:
    crew = Crew(stage, 2, mode)
    crew.begin(0, 1)
    hurried = crew.leave(0, timeout_s=timeout_s)
    stage.pass_time(1_200)
    with pytest.raises(WaitTimeoutError, match="not all 2 left"):
        _ = hurried.value
    other = crew.leave(1)
    assert errors([other]) == [BrokenBarrierError if mode == "abort" else None]
    assert crew.left_behind() == []
    assert errors(crew.begin(0, 1)) == [None, None]


@both
def test_a_cancelled_enter_counts_as_a_crash(stage: RecipeStage, mode: OnCrash) -> None:
    crew = Crew(stage, 2, mode)
    waits = crew.begin(0)
    crew.enter(1).run.cancel()
    stage.rest()
    left = crew.leave(0)
    assert errors([*waits, left]) == [None, BrokenBarrierError if mode == "abort" else None]
    assert crew.left_behind() == []
    assert errors(crew.begin(0, 1)) == [None, None]


@both
def test_a_cancelled_enter_or_leave_leaves_nothing_behind(
    stage: RecipeStage, mode: OnCrash
) -> None:
    crew = Crew(stage, 2, mode)
    crew.enter(0).run.cancel()
    stage.rest()
    assert crew.left_behind() == []
    crew.begin(0, 1)
    crew.leave(0).run.cancel()
    stage.rest()
    crew.leave(1)
    assert crew.left_behind() == []


@both
def test_a_slow_process_of_a_round_never_counts_in_the_next(
    stage: RecipeStage, mode: OnCrash
) -> None:
    crew = Crew(stage, 2, mode, more=1)
    crew.begin(0, 1)
    crew.members[1].freeze()
    left = crew.leave(0)
    with pytest.raises(BarrierFullError):
        _ = crew.enter(2).value
    stage.pass_time(4_000)  # its session has ended
    assert errors([left]) == [BrokenBarrierError if mode == "abort" else None]
    waits = crew.begin(0)
    assert done(waits) == [False]
    crew.members[1].thaw()
    assert done(waits) == [False]
    with pytest.raises(SessionExpiredError):
        _ = crew.leave(1).value
    assert errors(waits + crew.begin(2)) == [None, None]


def test_a_process_that_resumes_after_its_round_broke_gets_an_error(stage: RecipeStage) -> None:
    crew = Crew(stage, 3, "abort")
    waits = crew.begin(0, 1)
    crew.members[0].freeze()
    waits[1].run.cancel()
    stage.rest()
    fresh = crew.begin(1, 2)
    assert done(fresh) == [False, False]
    crew.members[0].thaw()
    assert errors(waits[:1]) == [BrokenBarrierError]
    assert errors([crew.enter(0), *fresh]) == [None] * 3


@both
@pytest.mark.parametrize("cut", range(3))
def test_a_lost_link_breaks_nothing(stage: RecipeStage, mode: OnCrash, cut: int) -> None:
    crew = Crew(stage, 3, mode)
    waits = crew.begin(0, 1)
    crew.members[cut].cut()
    waits += crew.begin(2)
    stage.pass_time(500)
    crew.members[cut].mend()
    assert errors(waits) == [None] * 3
    crew.members[cut].cut()
    waits = crew.end(0, 1, 2)
    stage.pass_time(500)
    crew.members[cut].mend()
    assert errors(waits) == [None] * 3


def test_processes_at_several_servers_share_a_round() -> None:
    stage = RecipeStage(3)
    members = [stage.member(server=1 + place % 3) for place in range(6)]
    barriers = [member.double_barrier(PATH, 6) for member in members]
    for _ in range(3):
        ins = [m.begin(b.enter) for m, b in zip(members, barriers, strict=True)]
        assert errors(ins) == [None] * 6
        outs = [m.begin(b.leave) for m, b in zip(members, barriers, strict=True)]
        assert errors(outs) == [None] * 6
    assert stage.reported == []


@both
def test_another_number_or_mode_is_refused(stage: RecipeStage, mode: OnCrash) -> None:
    alice, bob = stage.member(), stage.member()
    wait = alice.begin(alice.double_barrier(PATH, 3, on_crash=mode).enter)
    with pytest.raises(BadArgumentsError, match=f"the others named '3 {mode}'"):
        bob.double_barrier(PATH, 2, on_crash=mode).enter()
    assert wait.is_done == (mode == "abort")
    alice.close()


def test_a_process_whose_znode_is_deleted_gets_an_error(stage: RecipeStage) -> None:
    crew = Crew(stage, 2, "continue")
    entered = crew.begin(0, 1)[0].value
    crew.watcher.ask(Delete(entered._member_path, -1))
    with pytest.raises(LostError):
        _ = crew.leave(0).value
    assert errors(crew.end(1)) == [None]


def test_a_deleted_znode_breaks_the_round_in_mode_abort(stage: RecipeStage) -> None:
    crew = Crew(stage, 2, "abort")
    entered = crew.begin(0, 1)[0].value
    crew.watcher.ask(Delete(entered._member_path, -1))
    assert errors(crew.end(0, 1)) == [BrokenBarrierError] * 2
    waits = crew.begin(0)
    (name,) = crew.watcher.do(get_children(f"{PATH}/round"))
    crew.watcher.ask(Delete(f"{PATH}/round/{name}", -1))
    assert errors(waits) == [BrokenBarrierError]


@both
def test_a_change_of_the_rounds_value_ends_no_wait(stage: RecipeStage, mode: OnCrash) -> None:
    crew = Crew(stage, 2, mode)
    crew.begin(0, 1)
    waits = crew.end(0)
    crew.watcher.ask(SetData(f"{PATH}/round", b"touched", -1))
    assert done(waits) == [False]
    assert errors(waits + crew.end(1)) == [None, None]


@both
def test_the_end_of_the_session_ends_every_wait(stage: RecipeStage, mode: OnCrash) -> None:
    crew = Crew(stage, 2, mode)
    wait = crew.enter(0)
    crew.members[0].cut()
    stage.pass_time(3_000)
    assert errors([wait]) == [SessionExpiredError]


@pytest.mark.parametrize("size", [0, -1, 501, True, 1.5, "2"])
def test_bad_arguments_are_refused(stage: RecipeStage, size: int) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError, match="size must be 1 to 500"):
        alice.double_barrier(PATH, size)
    with pytest.raises(BadArgumentsError, match="on_crash"):
        alice.double_barrier(PATH, 1, on_crash="ignore")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="identifier"):
        alice.double_barrier(PATH, 1, "me")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="timeout_s"):
        alice.double_barrier(PATH, 1).enter(timeout_s=-1)


def test_a_barrier_takes_the_documented_number_of_processes(stage: RecipeStage) -> None:
    alice: Member = stage.member()
    waits = [alice.begin(alice.double_barrier(PATH, 500).enter) for _ in range(499)]
    waits[7].run.cancel()
    stage.rest()
    assert errors(waits[:7]) == [BrokenBarrierError] * 7
    assert errors(waits[8:]) == [BrokenBarrierError] * 491


def test_an_enter_cancelled_during_another_enter_leaves_nothing_behind(stage: RecipeStage) -> None:
    crew = Crew(stage, 3, "continue", more=1)
    wait = crew.enter(0)
    alice, bob = crew.members[:2]
    alice.flows.host = Between(alice, 2, lambda: crew.enter(1), Multi)  # it is empty, or not?
    wait.run.cancel()
    stage.rest()
    assert bob.asked["Multi"] == 1
    assert len(crew.watcher.do(get_children(f"{PATH}/round"))) == 1
