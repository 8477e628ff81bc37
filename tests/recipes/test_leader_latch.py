"""The latch: it stands for election until it is closed, and knows on time whether it leads."""

import pytest

from raykeeper.client.errors import ClosedError, RecipeError, SessionExpiredError, WaitTimeoutError
from raykeeper.client.recipes.leader_latch import LeaderLatch
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Create, Delete
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.freezing import freeze_at

PATH = "/jobs/leader"


class Told:
    """What the listeners of a latch were told."""

    def __init__(self, member: Member) -> None:
        self.events: list[tuple[str, int]] = []
        self.latch: LeaderLatch[Blocking] = member.leader_latch(
            PATH,
            on_gained=lambda each: self.events.append(("gained", each.epoch)),
            on_lost=lambda each: self.events.append(("lost", each.epoch)),
        )


def places(member: Member) -> list[str]:
    names: list[str] = member.do(get_children(PATH))
    return sorted(names)


def test_one_latch_leads_and_the_next_follows(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    one, other = Told(alice), Told(bob)
    one.latch.start()
    other.latch.start()
    assert (one.latch.has_leadership, other.latch.has_leadership) == (True, False)
    waiting = bob.begin(other.latch.wait)
    with pytest.raises(WaitTimeoutError, match="does not lead"):
        other.latch.wait(timeout_s=0)
    one.latch.close()
    assert not one.latch.has_leadership
    assert waiting.value.epoch == 2
    assert other.latch.leadership is waiting.value
    other.latch.close()
    assert (one.events, other.events) == (
        [("gained", 1), ("lost", 1)],
        [("gained", 2), ("lost", 2)],
    )
    assert places(alice) == []


def test_a_latch_queues_again_when_its_znode_is_deleted(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    one, other = Told(alice), Told(bob)
    one.latch.start()
    other.latch.start()
    carol.ask(Delete(f"{PATH}/{places(carol)[0]}", -1))  # of the leader
    assert one.events == [("gained", 1), ("lost", 1)]
    assert other.events == [("gained", 2)]
    assert len(places(carol)) == 2
    carol.ask(Delete(f"{PATH}/{places(carol)[1]}", -1))  # of one that waits
    assert len(places(carol)) == 2
    other.latch.close()
    assert one.events[2:] == [("gained", 3)]


def test_a_dead_leader_is_succeeded_by_the_next_latch(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    one, other = Told(alice), Told(bob)
    one.latch.start()
    other.latch.start()
    alice.freeze()
    while not other.latch.has_leadership:
        stage.pass_time(50)
        assert not (one.latch.has_leadership and other.latch.has_leadership)
    alice.thaw()
    stage.pass_time(100)
    assert one.events == [("gained", 1), ("lost", 1)]
    with pytest.raises(SessionExpiredError):
        one.latch.wait()
    one.latch.close()


def test_a_lost_connection_loses_nothing(stage: RecipeStage) -> None:
    alice = stage.member()
    one = Told(alice)
    with one.latch:
        alice.cut()
        alice.mend()
        assert one.latch.has_leadership
    assert one.events == [("gained", 1), ("lost", 1)]


@pytest.mark.parametrize("point", range(1, 6))
def test_a_close_at_any_step_leaves_nothing_behind(stage: RecipeStage, point: int) -> None:
    alice, bob = stage.member(), stage.member()
    one = Told(alice)
    freeze_at(alice, point)
    one.latch.start()
    closing = alice.begin(one.latch.close)
    assert not closing.is_done
    alice.thaw()
    assert closing.value is None
    assert places(bob) == []
    assert [what for what, _ in one.events] in ([], ["gained", "lost"])


def test_a_close_during_the_wait_leaves_nothing_behind(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    one, other = Told(alice), Told(bob)
    one.latch.start()
    other.latch.start()
    waiting = bob.begin(other.latch.wait)
    bob.cut()
    with pytest.raises(WaitTimeoutError, match="closed yet"):
        other.latch.close(timeout_s=0)
    bob.mend()
    assert len(places(alice)) == 1
    with pytest.raises(ClosedError, match="was closed"):
        _ = waiting.value
    other.latch.close()
    assert other.events == []


def test_an_error_of_the_candidate_ends_the_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bob.ask(Create("/jobs", b"not mine", 0))
    latch = alice.leader_latch("/jobs")
    latch.start()
    with pytest.raises(RecipeError, match="/jobs"):
        latch.wait()
    assert len(stage.reported) == 1
    stage.reported.clear()
    latch.close()


def test_a_latch_is_started_once(stage: RecipeStage) -> None:
    latch = stage.member().leader_latch(PATH)
    with pytest.raises(RecipeError, match="not started"):
        latch.wait()
    latch.start()
    with pytest.raises(RecipeError, match="before"):
        latch.start()
    latch.close()
    for call in (latch.start, latch.wait):
        with pytest.raises(ClosedError, match="the leader latch /jobs/leader was closed"):
            call()
    stage.member().leader_latch(PATH).close()
    with pytest.raises(BadArgumentsError):
        stage.member().leader_latch("jobs")


def test_a_latch_does_not_lead_while_it_resigns(stage: RecipeStage) -> None:
    alice = stage.member()
    one = Told(alice)
    one.latch.start()
    assert one.latch.has_leadership
    freeze_at(alice, 1)  # its request leaves, and is not answered yet: others may lead by then
    alice.begin(one.latch.close)
    assert not one.latch.has_leadership
    alice.thaw()
