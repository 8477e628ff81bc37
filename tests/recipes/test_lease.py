"""The lease: when it ends, who knows first, and what a renewal is worth."""

import pytest

from raykeeper.client.errors import LostError, WaitTimeoutError
from raykeeper.client.recipes.primitives import get_or_none
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import Delete
from tests.harness.recipe_stage import Outcome, RecipeStage
from tests.recipes.crew import Between
from tests.recipes.freezing import freeze_at
from tests.recipes.giving_up import watches

PATH = "/leases/x"


def test_a_lease_ends_by_itself_and_its_holder_knows_first(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lease(PATH, 2).acquire()
    told = alice.begin(held.lost.wait)
    assert held.left_s() == 2.0
    wait = bob.begin(bob.lease(PATH, 2).acquire)
    stage.pass_time(1_950)
    assert not held.lost.is_set()
    stage.pass_time(50)
    assert held.lost.is_set()
    assert told.is_done
    assert held.left_s() == 0.0
    assert not wait.is_done  # the margin
    stage.pass_time(500)
    assert wait.value.token > held.token
    with pytest.raises(LostError):
        held.release()
    assert not wait.value.lost.is_set()


def test_a_holder_that_was_paused_sees_the_end_when_it_looks(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=20_000), stage.member()
    held = alice.lease(PATH, 2).acquire()
    wait = bob.begin(bob.lease(PATH, 2).acquire)
    alice.freeze()
    while not wait.is_done:
        stage.pass_time(10)
    assert held.lost.is_set()
    alice.thaw()
    with pytest.raises(LostError):
        held.renew()


def test_a_renewal_counts_from_its_request(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lease(PATH, 2).acquire()
    wait = bob.begin(bob.lease(PATH, 2).acquire)
    token = held.token
    for _ in range(10):
        stage.pass_time(1_500)
        held.renew()
        assert held.left_s() == 2.0
    assert held.token == token
    assert not wait.is_done
    held.release()
    assert wait.is_done


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.lease(PATH, 2).acquire().release()
    alice.asked.clear()
    held = alice.lease(PATH, 2).acquire()
    assert dict(alice.asked) == {"Create": 1, "GetData": 1}
    wait = bob.begin(bob.lease(PATH, 2).acquire)
    alice.asked.clear()
    bob.asked.clear()
    held.renew()
    assert dict(alice.asked) == {"Multi": 1, "GetData": 1}
    assert dict(bob.asked) == {"GetData": 1}  # who waits looks again
    held.release()
    assert wait.is_done
    assert watches(alice) == 0


def test_a_late_renewal_does_not_renew(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lease(PATH, 2).acquire()
    alice.cut()
    stage.pass_time(1_000)
    renewing = alice.begin(held.renew)
    stage.pass_time(1_000)
    assert held.lost.is_set()
    wait = bob.begin(bob.lease(PATH, 60).acquire)
    alice.mend()
    with pytest.raises(LostError, match="ended before it was renewed"):
        _ = renewing.value
    assert held.lost.is_set()  # once is for ever
    stage.pass_time(4_000)
    assert wait.value.token > held.token


def test_a_renewal_survives_a_lost_connection(stage: RecipeStage) -> None:
    alice = stage.member()
    held = alice.lease(PATH, 4).acquire()
    alice.cut()
    renewing = alice.begin(held.renew)
    alice.mend()
    assert renewing.value is None
    assert held.left_s() == 2.0  # of 4 from when it was asked for, 2 for the link
    assert not held.lost.is_set()


def test_a_lease_outlives_the_session_of_its_holder(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.lease(PATH, 10).acquire()
    wait = bob.begin(bob.lease(PATH, 10).acquire)
    alice.close()
    stage.pass_time(9_000)
    assert not wait.is_done
    stage.pass_time(2_500)
    assert wait.is_done


def test_a_renewal_that_is_done_and_told_too_late_is_a_loss(stage: RecipeStage) -> None:
    alice = stage.member(session_timeout_ms=60_000)
    held = alice.lease(PATH, 2).acquire()
    freeze_at(alice, 1)
    renewing = alice.begin(held.renew)  # it is sent
    stage.pass_time(2_000)
    alice.thaw()
    with pytest.raises(LostError, match="ended before it was renewed"):
        _ = renewing.value
    assert (held.lost.is_set(), held.left_s()) == (True, 0.0)
    alice.asked.clear()
    with pytest.raises(LostError):
        held.renew()  # though the servers have renewed it
    assert not alice.asked


def test_a_renewal_of_what_somebody_else_has_by_now_changes_nothing(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lease(PATH, 60, b"alice").acquire()

    def take() -> None:
        bob.ask(Delete(PATH, -1))
        bob.lease(PATH, 60, b"bob").acquire(timeout_s=0)

    alice.flows.host = Between(alice, 1, take)
    with pytest.raises(LostError, match="ended before it was renewed"):
        held.renew()
    assert (held.lost.is_set(), held.left_s()) == (True, 0.0)
    value, stat = bob.do(get_or_none(PATH))
    assert (value, stat.version) == (b"bob", 0)


def test_a_release_during_a_renewal_is_one(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lease(PATH, 60).acquire()
    releases: list[Outcome] = []
    alice.flows.host = Between(alice, 1, lambda: releases.append(alice.begin(held.release)))
    with pytest.raises(LostError, match="ended before it was renewed"):
        held.renew()
    assert releases[0].error is None
    assert bob.lease(PATH, 60).acquire(timeout_s=0).token > held.token


def test_a_renewal_that_is_told_after_a_release_is_none(stage: RecipeStage) -> None:
    alice = stage.member()
    held = alice.lease(PATH, 60).acquire()
    freeze_at(alice, 1)
    renewing = alice.begin(held.renew)
    releasing = alice.begin(held.release)
    alice.thaw()
    with pytest.raises(LostError, match="ended before it was renewed"):
        _ = renewing.value
    assert (releasing.is_done, releasing.error) == (True, None)


@pytest.mark.parametrize(("duration_ms", "ttl_ms"), [(200, 250), (1_000, 1_050), (10_000, 10_500)])
def test_the_servers_add_a_twentieth_but_50_ms_at_least(
    stage: RecipeStage, duration_ms: int, ttl_ms: int
) -> None:
    alice = stage.member(session_timeout_ms=60_000)
    alice.lease(PATH, duration_ms / 1000).acquire()
    tree = stage.servers.leader.server._context.state.tree
    attributes = tree.znodes[PATH].attributes
    assert attributes is not None and attributes.ttl_ms == ttl_ms


def test_a_lease_that_ends_before_its_grant_arrives_is_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.freeze()
    acquiring = alice.begin(alice.lease(PATH, 1).acquire)
    alice._is_frozen = False
    alice.move()  # it is sent, and the answer is not taken
    alice.freeze()
    stage.servers.run()
    stage.pass_time(1_500)
    alice.thaw()
    with pytest.raises(LostError):
        _ = acquiring.value
    assert bob.lease(PATH, 1).acquire(timeout_s=0).token > 0


def test_the_end_of_a_released_lease_does_not_count_as_lost(stage: RecipeStage) -> None:
    alice = stage.member()
    held = alice.lease(PATH, 2).acquire()
    held.release()
    assert not held.lost.is_set()
    alice.asked.clear()
    with pytest.raises(LostError, match="released before"):
        held.renew()
    assert not alice.asked, "nothing is asked of the ensemble"
    assert alice.do(get_or_none(PATH)) is None


def test_a_deleted_lease_is_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lease(PATH, 60, b"alice").acquire()
    (holder,) = bob.lease(PATH, 60).contenders()
    assert (holder.identifier, holder.session_id) == (b"alice", 0)
    bob.ask(Delete(PATH, -1))
    assert (held.lost.is_set(), held.left_s()) == (True, 0.0)
    other = bob.lease(PATH, 60).acquire()
    with pytest.raises(LostError):
        held.renew()
    with pytest.raises(WaitTimeoutError):
        alice.lease(PATH, 60).acquire(timeout_s=0)
    assert not other.lost.is_set()


@pytest.mark.parametrize("duration_s", [0, -1, "2", 1e9])
def test_a_bad_duration_is_refused(stage: RecipeStage, duration_s: float) -> None:
    with pytest.raises(BadArgumentsError, match="duration_s"):
        stage.member().lease(PATH, duration_s)
