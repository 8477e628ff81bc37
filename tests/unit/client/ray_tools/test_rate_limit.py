"""Bucket: how many pass when, over all clients; what is left by who gives up. And RateLimit."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from raykeeper.client.errors import BadArgumentsError, InvalidValueError, WaitTimeoutError
from raykeeper.client.ray_tools import RateLimit
from raykeeper.client.ray_tools.rate_limit import RELEARN_MS, Bucket
from raykeeper.znodes.requests import Delete, SetData
from tests.harness.recipe_stage import STEP_MS, Member, Outcome, RecipeStage
from tests.recipes.freezing import freeze_at

PATH = "/limits/api"


@pytest.fixture
def stage() -> Iterator[RecipeStage]:
    stage = RecipeStage()
    yield stage
    assert stage.reported == []


def bucket(member: Member, per_second: float = 10, burst: int = 1) -> Bucket[Any]:
    return Bucket(member, PATH, per_second, burst)


def taken(waits: list[Outcome]) -> int:
    return sum(wait.is_done for wait in waits)


@pytest.mark.parametrize("burst", [1, 5])
def test_the_rate_holds_over_all_clients(stage: RecipeStage, burst: int) -> None:
    members = [stage.member() for _ in range(4)]
    buckets = [bucket(member, burst=burst) for member in members]
    waits = [
        member.begin(each.take)
        for _ in range(10)
        for member, each in zip(members, buckets, strict=True)
    ]
    assert taken(waits) == burst
    for tenth in range(1, 20):
        stage.pass_time(100)
        # The clock of the stage moves in steps.
        assert burst + tenth - 1 <= taken(waits) <= burst + tenth
    stage.pass_time(4_000 + STEP_MS)
    assert taken(waits) == 40


def test_a_pause_saves_at_most_a_burst(stage: RecipeStage) -> None:
    member = stage.member()
    limited = bucket(member, burst=3)
    limited.take(3)
    stage.pass_time(60_000)
    waits = [member.begin(limited.take) for _ in range(5)]
    assert taken(waits) == 3


def test_several_tokens_are_taken_together(stage: RecipeStage) -> None:
    member = stage.member()
    limited = bucket(member, burst=5)
    limited.take(4)
    wait = member.begin(limited.take, 5)
    stage.pass_time(350)
    assert not wait.is_done
    stage.pass_time(100)
    assert wait.is_done


def test_an_acquire_beyond_its_timeout_fails_at_once(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bucket(alice, per_second=1).take()
    for timeout_s in (0, 0.9):
        with pytest.raises(WaitTimeoutError, match="no token for 1000 ms"):
            bucket(bob, per_second=1).take(timeout_s=timeout_s)
    in_time = bob.begin(bucket(bob, per_second=1).take, timeout_s=1)
    stage.pass_time(1_000)
    assert in_time.value is None


def test_a_cancelled_acquire_returns_its_tokens_unless_others_queued(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bucket(alice).take()
    wait = alice.begin(bucket(alice).take)
    wait.run.cancel()
    stage.rest()
    second = bob.begin(bucket(bob).take)
    stage.pass_time(100)
    assert second.is_done, "it did not wait for the one who gave up"
    third, fourth = alice.begin(bucket(alice).take), bob.begin(bucket(bob).take)
    third.run.cancel()
    stage.pass_time(100)
    assert not fourth.is_done
    stage.pass_time(100)
    assert fourth.is_done


@pytest.mark.parametrize("timeout_s", [None, 1])
@pytest.mark.parametrize("nth", range(1, 6))
def test_an_acquire_given_up_before_its_answer_takes_nothing(
    stage: RecipeStage, nth: int, timeout_s: float | None
) -> None:
    alice, bob = stage.member(), stage.member()
    freeze_at(alice, nth)  # the last of these takes
    wait = alice.begin(bucket(alice, per_second=0.01).take, timeout_s=timeout_s)
    stage.pass_time(1_000)
    alice._is_frozen = False
    alice.pass_time()
    if timeout_s is None:
        wait.run.cancel()
    alice.thaw()
    assert isinstance(wait.error, WaitTimeoutError) == (timeout_s is not None)
    bucket(bob, per_second=0.01).take(timeout_s=0)


def test_an_acquire_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    mine, other = bucket(alice, 1000, 100), bucket(bob, 1000, 100)
    mine.take()
    other.take()
    alice.asked.clear()
    bob.asked.clear()
    other.take()
    other.take()
    assert dict(bob.asked) == {"Multi": 2}
    mine.take()
    assert dict(alice.asked) == {"Multi": 2}, "one more, as somebody was quicker"
    assert (alice.events, bob.events) == (0, 0)


def test_a_client_that_counted_for_long_asks_for_the_time(stage: RecipeStage) -> None:
    member = stage.member(session_timeout_ms=40_000)
    limited = bucket(member)
    limited.take()
    stage.pass_time(RELEARN_MS)
    member.asked.clear()
    limited.take()
    assert dict(member.asked) == {"Multi": 2}


def test_a_later_time_of_another_client_is_kept(stage: RecipeStage) -> None:
    member = stage.member()
    bucket(member, per_second=1).take()
    # As after a leader whose clock is an hour ahead of this one's: somebody took a share there.
    then_ns = (stage.servers.clock.times().wall + 3_600_000) * 1_000_000
    member.ask(SetData(PATH, b"%d %d" % (then_ns + 1_000_000_000, then_ns), -1))
    other = stage.member()
    wait = other.begin(bucket(other, per_second=1).take, timeout_s=5)
    stage.pass_time(1_050)
    assert wait.is_done and wait.error is None


def test_a_deleted_bucket_is_full(stage: RecipeStage) -> None:
    member = stage.member()
    limited = bucket(member, per_second=1, burst=2)
    limited.take(2)
    member.ask(Delete(PATH, -1))
    limited.take(2)
    assert not member.begin(limited.take).is_done


def test_a_foreign_value_is_an_error(stage: RecipeStage) -> None:
    member = stage.member()
    bucket(member).take()
    member.ask(SetData(PATH, b"soon", -1))
    with pytest.raises(InvalidValueError, match="holds no rate limit"):
        bucket(member).take()


def test_a_limit_goes_on_when_the_znode_holds_a_bucket_again(stage: RecipeStage) -> None:
    member, other = stage.member(), stage.member()
    limited = bucket(member, burst=3)
    limited.take()
    other.ask(SetData(PATH, b"garbage", -1))
    with pytest.raises(InvalidValueError, match="holds no rate limit"):
        limited.take()
    other.ask(SetData(PATH, b"", -1))
    limited.take()


@pytest.mark.parametrize("count", [0, 3, True, "1"])
def test_a_count_is_at_most_the_burst(stage: RecipeStage, count: Any) -> None:
    with pytest.raises(BadArgumentsError, match="from 1 to burst=2"):
        bucket(stage.member(), burst=2).take(count)


@pytest.mark.parametrize("per_second", [3, 7, 30_000, 70_000, 400_000, 700_000])
def test_a_rate_that_divides_no_second_is_kept(stage: RecipeStage, per_second: int) -> None:
    """The time that a burst takes to come back is that of the rate, and never shorter."""
    burst = per_second
    alice, bob = stage.member(), stage.member()
    bucket(alice, per_second, burst).take(burst)
    begun = stage.servers.clock.now
    wait = bob.begin(bucket(bob, per_second, burst).take, burst)
    while not wait.is_done:
        stage.pass_time(1, 1)
    assert 1_000 <= stage.servers.clock.now - begun <= 1_002


def test_the_slowest_rate_with_the_largest_burst_has_a_bucket(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    bucket(alice, 1e-6, 1_000_000).take(1_000_000)
    wait = alice.begin(bucket(alice, 1e-6, 1_000_000).take, 1_000_000)
    assert not wait.is_done
    with pytest.raises(WaitTimeoutError):
        bucket(bob, 1e-6, 1_000_000).take(timeout_s=0)


# The tool; in processes of Ray: tests/ray/test_ray_tools.py.


@pytest.mark.parametrize(
    ("per_second", "burst"),
    [
        *((0, 1), (-1, 1), ("1", 1), (True, 1), (2_000_000, 1), (1e-7, 1), (float("nan"), 1)),
        *((1, 0), (1, 1.5), (1, True)),
    ],
)
def test_bad_settings_are_refused(per_second: Any, burst: Any) -> None:
    with pytest.raises(BadArgumentsError):
        RateLimit("coord", PATH, per_second, burst)


def test_a_limit_pickles_as_its_settings() -> None:
    limit = RateLimit("coord", PATH, 2.5, 7, session_timeout_s=3)
    copy = pickle.loads(pickle.dumps(limit))
    assert (copy.ensemble, copy.path, copy.per_second, copy.burst) == ("coord", PATH, 2.5, 7)
    assert repr(copy) == "RateLimit('coord', '/limits/api')"
    copy.close()  # of which there is nothing


def test_a_limit_may_use_an_open_client(stage: RecipeStage) -> None:
    member = stage.member()
    RateLimit("coord", PATH, 10)._on(member).take()
