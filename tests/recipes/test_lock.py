"""The fair lock: who has it, who is woken, what is left behind."""

import pytest

from raykeeper.client.errors import LostError, RecipeError, SessionExpiredError, WaitTimeoutError
from raykeeper.client.recipes.primitives import get_children
from raykeeper.znodes import reads
from raykeeper.znodes.errors import BadArgumentsError, NoNodeError
from raykeeper.znodes.requests import Create, Delete, SetData
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.freezing import freeze_at
from tests.recipes.giving_up import watches

PATH = "/locks/x"


def places(member: Member) -> int:
    return len(member.do(get_children(PATH)))


def test_the_first_contender_holds_the_lock_and_tokens_grow(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(5)]
    waits = [member.begin(member.lock(PATH).acquire) for member in members]
    tokens = []
    for place, wait in enumerate(waits):
        assert [each.is_done for each in waits] == [True] * (place + 1) + [False] * (4 - place)
        tokens.append(wait.value.token)
        wait.value.release()
    assert tokens == sorted(set(tokens))
    stage.pass_time(1_000)  # the container goes with its last child
    assert members[0].do(get_children("/locks")) == []


def test_a_release_wakes_one_of_a_hundred(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(101)]
    waits = [member.begin(member.lock(PATH).acquire) for member in members]
    before = sum(member.events for member in members[1:])
    waits[0].value.release()
    assert sum(member.events for member in members[1:]) - before == 1
    assert [wait.is_done for wait in waits[1:3]] == [True, False]


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    member = stage.member()
    member.lock(PATH).acquire().release()
    member.asked.clear()
    held = member.lock(PATH).acquire()
    assert dict(member.asked) == {"Create": 1, "MultiRead": 1, "GetData": 2}
    held.release()
    assert member.asked["Multi"] == 1


def test_a_newcomer_to_a_very_long_queue_reads_no_list(
    stage: RecipeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "SHARDED_FROM", 5)
    members = [stage.member() for _ in range(12)]
    waits = [member.begin(member.lock(PATH).acquire) for member in members]
    assert [member.asked["GetChildren"] for member in members[1:]] == [0] * 11
    assert dict(members[-1].asked) == {"Create": 1, "MultiRead": 1, "GetData": 2}
    # One that left the queue leaves a gap, before somebody who waits and before a newcomer.
    for gone in (5, 11):
        waits[gone].run.cancel()
        stage.rest()
    newcomer = stage.member()
    waits.append(newcomer.begin(newcomer.lock(PATH).acquire))
    assert newcomer.asked["GetChildren"] == 1
    in_line = [wait for place, wait in enumerate(waits) if place not in (5, 11)]
    for turn, wait in enumerate(in_line):
        assert [each.is_done for each in in_line] == [True] * (turn + 1) + [False] * (10 - turn)
        wait.value.release()


def test_a_wait_that_times_out_leaves_nothing_behind(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire, timeout_s=2)
    assert places(alice) == 2
    stage.pass_time(1_900)
    assert not wait.is_done
    stage.pass_time(200)
    with pytest.raises(WaitTimeoutError, match="the lock /locks/x"):
        _ = wait.value
    assert places(alice) == 1
    with pytest.raises(TimeoutError):
        bob.lock(PATH).acquire(timeout_s=0)
    assert places(alice) == 1
    held.release()
    bob.lock(PATH).acquire(timeout_s=0).release()


def test_a_cancelled_wait_leaves_nothing_behind(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    wait.run.cancel()
    stage.rest()
    assert places(alice) == 1


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_cancelled_acquire_leaves_no_znode(stage: RecipeStage, is_cut: bool) -> None:
    alice = stage.member()
    if is_cut:  # given up while the first request is under way
        alice.cut()
        wait = alice.begin(alice.lock(PATH).acquire, timeout_s=1)
        stage.pass_time(1_100)
        with pytest.raises(WaitTimeoutError):
            _ = wait.value
        alice.mend()
    else:
        alice.begin(alice.lock(PATH).acquire).run.cancel()
        stage.rest()
    assert places(alice) == 0


def test_a_dead_holder_is_succeeded_when_its_session_ends(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    held = alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    alice.die()
    stage.pass_time(1_000)
    assert not wait.is_done
    stage.pass_time(3_000)
    assert wait.value.token > held.token
    assert held.lost.is_set()  # by its own clock


def test_a_frozen_holder_knows_that_it_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    held = alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    alice.freeze()
    while not wait.is_done:
        stage.pass_time(50)
    assert held.lost.is_set()
    with pytest.raises(LostError):
        held.lost.check()
    alice.thaw()
    with pytest.raises(LostError, match="before it was released"):
        held.release()
    held.release()  # again: nothing


def test_a_holder_whose_znode_is_deleted_is_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lock(PATH).acquire()
    told = alice.begin(held.lost.wait)
    with pytest.raises(WaitTimeoutError):
        held.lost.wait(timeout_s=0)
    bob.ask(SetData(held.path, b"touched", -1))
    assert not held.lost.is_set()
    bob.ask(Delete(held.path, -1))
    assert held.lost.is_set()
    assert told.is_done
    held.lost.wait()
    with pytest.raises(LostError):
        held.release()


@pytest.mark.parametrize("touch_first", [True, False])
def test_a_contender_whose_znode_is_deleted_gets_an_error(
    stage: RecipeStage, touch_first: bool
) -> None:
    alice, bob = stage.member(), stage.member()
    alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    own = alice.lock(PATH).contenders()[1].name
    if touch_first:
        alice.ask(SetData(f"{PATH}/{own}", b"", -1))
        assert not wait.is_done
    alice.ask(Delete(f"{PATH}/{own}", -1))
    with pytest.raises(LostError, match="while it waited"):
        _ = wait.value


def test_a_lost_contender_takes_no_place_of_another(stage: RecipeStage) -> None:
    """The queue begins anew with its container, and so do the names in it."""
    alice, bob, carol = (stage.member() for _ in range(3))
    held = alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    bob.freeze()
    for place in alice.lock(PATH).contenders():
        alice.ask(Delete(f"{PATH}/{place.name}", -1))
    stage.pass_time(2_000)
    assert alice.do(get_children("/locks")) == []
    others = [carol.begin(carol.lock(PATH).acquire) for _ in range(2)]
    bob.thaw()
    with pytest.raises(LostError):
        _ = wait.value
    assert others[0].value.path == held.path
    assert places(carol) == 2


def test_a_contender_whose_value_changes_watches_once(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    own = alice.lock(PATH).contenders()[1].name
    before = watches(bob)
    for _ in range(3):
        alice.ask(SetData(f"{PATH}/{own}", b"", -1))
    assert watches(bob) == before
    wait.run.cancel()
    stage.rest()
    assert watches(bob) == 0


def test_a_foreign_name_in_the_queue_is_ignored(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    for number in ("00000000²²", "", "-000000001", "1"):
        alice.ask(Create(f"{PATH}/lock-{number}", b"", 0, None, 0))
    held.release()
    assert wait.value.token > held.token


def test_a_contender_in_the_middle_may_leave(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    held = alice.lock(PATH).acquire()
    middle = bob.begin(bob.lock(PATH).acquire)
    last = carol.begin(carol.lock(PATH).acquire)
    middle.run.cancel()
    stage.rest()
    assert not last.is_done
    held.release()
    assert last.is_done


def test_contenders_are_listed_in_order(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(3)]
    for number, member in enumerate(members):
        member.begin(member.lock(PATH, f"m{number}".encode()).acquire)
    listed = members[2].lock(PATH).contenders()
    assert [each.identifier for each in listed] == [b"m0", b"m1", b"m2"]
    assert [each.session_id for each in listed] == [m.core.session_id for m in members]
    assert members[0].lock("/nowhere").contenders() == []


def test_a_lost_connection_loses_no_lock(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    alice.cut()
    bob.cut()
    alice.mend()
    assert not held.lost.is_set()
    held.release()
    assert not wait.is_done
    bob.mend()
    assert wait.value.token > held.token


def test_a_release_waits_for_a_connection(stage: RecipeStage) -> None:
    alice = stage.member()
    held = alice.lock(PATH).acquire()
    alice.cut()
    released = alice.begin(held.release)
    assert not released.is_done
    alice.mend()
    assert released.value is None


def test_the_end_of_the_session_ends_every_wait(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    bob.cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value
    with pytest.raises(SessionExpiredError):
        bob.lock(PATH).acquire()


def test_a_holder_whose_session_is_being_closed_has_lost_it(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    held = alice.lock(PATH).acquire()
    wait = bob.begin(bob.lock(PATH).acquire)
    freeze_at(alice, 1)
    alice.begin(alice.lock(PATH).contenders)  # a last request; what comes back is not seen
    alice.core.close(alice.now())
    assert held.lost.is_set()  # the servers may have ended it by now
    alice.thaw()
    assert wait.is_done


def test_a_with_block_releases_what_it_holds(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    lock = alice.lock(PATH)
    with lock as held:
        assert not held.lost.is_set()
        assert places(alice) == 1
    assert places(alice) == 0
    with pytest.raises(ZeroDivisionError), lock:
        _ = 1 / 0
    assert places(alice) == 0
    with pytest.raises(LostError), lock as held:
        bob.ask(Delete(held.path, -1))
    with pytest.raises(ZeroDivisionError), lock as held:
        bob.ask(Delete(held.path, -1))
        _ = 1 / 0
    with pytest.raises(RecipeError, match="in which it began"):
        lock.__exit__(None, None, None)


@pytest.mark.parametrize("path", ["", "x", "/", "/x/", "/a//b", 7])
def test_a_bad_path_is_refused(stage: RecipeStage, path: str) -> None:
    with pytest.raises(BadArgumentsError):
        stage.member().lock(path)


@pytest.mark.parametrize("timeout_s", [-1, "1", float("nan"), True])
def test_a_bad_timeout_is_refused(stage: RecipeStage, timeout_s: float) -> None:
    alice = stage.member()
    with pytest.raises(BadArgumentsError, match="timeout_s"):
        alice.lock(PATH).acquire(timeout_s=timeout_s)
    with pytest.raises(BadArgumentsError, match="identifier"):
        alice.lock(PATH, "me")  # type: ignore[arg-type]
    with pytest.raises(NoNodeError):
        alice.ask(Delete(PATH, -1))


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e308, 10**400])
def test_a_timeout_of_any_length_is_allowed(stage: RecipeStage, timeout_s: float) -> None:
    stage.member().lock(PATH).acquire(timeout_s).release()
