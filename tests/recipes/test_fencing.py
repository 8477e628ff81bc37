"""The guard that remembers, a holder that stands still, and writes that a lock must cover."""

import pytest

from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import LostError, RecipeError, StaleTokenError
from raykeeper.client.fencing import FencedResource
from raykeeper.client.recipes.acquirable import Held
from raykeeper.client.recipes.primitives import get_or_none, transact
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.requests import (
    Compare,
    CompareField,
    Create,
    Delete,
    Relation,
    SetData,
)
from tests.harness.recipe_stage import Member, RecipeStage

GUARD = "/guards/disk"
LOCK = "/locks/x"


def test_a_paused_holder_is_refused(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    disk: list[str] = []
    guard = FencedResource("the disk")
    held = alice.lock(LOCK).acquire()
    with guard.use(held.token):
        disk.append("alice")
    wait = bob.begin(bob.lock(LOCK).acquire)
    alice.freeze()  # it has looked at held.lost, and is about to write
    while not wait.is_done:
        stage.pass_time(50)
    with guard.use(wait.value.token):
        disk.append("bob")
    with pytest.raises(StaleTokenError), guard.use(held.token):  # it goes on
        disk.append("alice again")
    assert disk == ["alice", "bob"]


def test_a_second_guard_of_the_same_znode_refuses_too(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.fenced_resource(GUARD).check(7)
    assert alice.do(get_or_none(GUARD))[0] == b"7 7"
    guard = bob.fenced_resource(GUARD)
    assert guard.newest == 0
    with pytest.raises(StaleTokenError, match="/guards/disk refuses token 6: it has seen 7"):
        guard.check(6)
    assert guard.newest == 7
    guard.check(7)
    guard.check(9, shared=True)
    assert alice.do(get_or_none(GUARD))[0] == b"9 7"
    with pytest.raises(StaleTokenError):
        alice.fenced_resource(GUARD).check(8)
    alice.fenced_resource(GUARD).check(8, shared=True)


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice = stage.member()
    guard = alice.fenced_resource(GUARD)
    guard.check(1)
    alice.asked.clear()
    guard.check(1)
    with guard.use(1):
        pass
    assert not alice.asked
    guard.check(2)
    assert dict(alice.asked) == {"GetData": 1, "Multi": 1}
    alice.asked.clear()
    with pytest.raises(StaleTokenError):
        guard.check(1)
    assert not alice.asked


def test_two_guards_of_one_znode_agree(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    one, other = alice.fenced_resource(GUARD), bob.fenced_resource(GUARD)
    one.check(1)
    bob.freeze()
    crossing = bob.begin(other.check, 2)
    one.check(3)
    bob.thaw()
    with pytest.raises(StaleTokenError):
        _ = crossing.value
    with pytest.raises(StaleTokenError):
        other.check(2)
    other.check(3)


def test_a_newer_token_stored_first_refuses_the_older(stage: RecipeStage) -> None:
    alice = stage.member()
    guard = alice.fenced_resource(GUARD)
    alice.freeze()
    waits = [alice.begin(guard.check, token) for token in (2, 5, 3)]
    alice.thaw()
    assert [wait.error is None for wait in waits] == [True, True, False]
    assert guard.newest == 5
    assert alice.do(get_or_none(GUARD))[0] == b"5 5"


def test_a_refused_use_blocks_no_later_use(stage: RecipeStage) -> None:
    alice = stage.member()
    guard = alice.fenced_resource(GUARD)
    guard.check(5)
    with pytest.raises(StaleTokenError), guard.use(4):
        pass
    with guard.use(5), pytest.raises(ZeroDivisionError):
        _ = 1 / 0
    with guard.use(6):
        assert guard.newest == 6


def test_a_foreign_znode_is_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    alice.ask(Create("/guards", b"", 0))
    alice.ask(Create(GUARD, b"hello", 0))
    with pytest.raises(RecipeError, match="is not a guard"):
        alice.fenced_resource(GUARD).check(1)
    alice.ask(SetData(GUARD, b"", -1))
    guard = alice.fenced_resource(GUARD)
    guard.check(1)
    alice.ask(Delete(GUARD, -1))
    guard.check(2)  # it comes back, with what this guard has seen
    assert alice.do(get_or_none(GUARD))[0] == b"2 2"
    with pytest.raises(BadArgumentsError):
        guard.check(0)
    with pytest.raises(BadArgumentsError):
        alice.fenced_resource("/")


def written_while_held(member: Member, held: Held[object], value: bytes) -> bool:  # type: ignore[type-var]
    """What `Transaction.when_held` says."""

    def flow() -> Flow[bool]:
        condition = Compare(held.path, CompareField.CZXID, Relation.EQUAL, held.token)
        done, _ = yield from transact([SetData("/data", value, -1)], [condition])
        return done

    done: bool = member.do(flow())
    return done


@pytest.mark.parametrize("kind", ["lock", "simple_lock", "reentrant_lock"])
def test_a_guarded_write_is_done_only_while_the_lock_is_held(stage: RecipeStage, kind: str) -> None:
    alice, bob = stage.member(), stage.member()
    alice.ask(Create("/data", b"", 0))
    held = getattr(alice, kind)(LOCK).acquire()
    assert written_while_held(alice, held, b"1")
    wait = bob.begin(getattr(bob, kind)(LOCK).acquire)
    bob.ask(Delete(held.path, -1))
    # Even before alice is told; and the next holder's znode may stand at the same path.
    assert not written_while_held(alice, held, b"2")
    assert written_while_held(alice, wait.value, b"3")
    assert alice.do(get_or_none("/data"))[0] == b"3"
    with pytest.raises(LostError):
        held.release()
