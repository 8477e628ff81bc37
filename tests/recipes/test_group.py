"""The group: who is a member, who is told, what happens to a znode that somebody deletes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.client.core.outstanding import WatchRemoval
from raykeeper.client.errors import LostError, SessionExpiredError, WaitTimeoutError
from raykeeper.client.recipes.group import GroupChange, _SortedMembers
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.tree_mirror import CachedZnode, TreeChange, TreeMirror
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import BadArgumentsError, NoAuthError
from raykeeper.znodes.requests import Create, Delete, SetAcls, SetData, WatchKind
from tests.harness.recipe_stage import Member, RecipeStage
from tests.recipes.freezing import abandoned_at, freeze_at
from tests.recipes.giving_up import watches
from tests.unit.client.wire import STAT

PATH = "/workers"


def names(member: Member) -> list[str]:
    return [each.name for each in member.group(PATH).members()]


def watched(member: Member) -> list[GroupChange]:
    told: list[GroupChange] = []
    member.group(PATH).watch(told.append)
    return told


def test_members_are_listed_in_the_order_of_joining(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    assert names(alice) == []
    alice.group(PATH).join("z", b"1")
    bob.group(PATH).join("a", b"2")
    alice.group(PATH).join(data=b"3")
    assert names(bob) == ["z", "a", "member-0000000002"]
    listed = bob.group(PATH).members()
    assert [each.data for each in listed] == [b"1", b"2", b"3"]
    assert [each.session_id for each in listed] == [
        *(alice.core.session_id, bob.core.session_id, alice.core.session_id)
    ]
    assert [each.token for each in listed] == sorted(each.token for each in listed)


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.group(PATH).join("first")
    told = watched(bob)
    alice.asked.clear()
    bob.asked.clear()
    membership = alice.group(PATH).join("a")
    assert dict(alice.asked) == {"Create": 1, "GetData": 1}
    membership.update(b"x")
    membership.leave()
    assert alice.asked["Multi"] == 2
    assert len(told) == 4
    assert bob.asked.total() == 0  # one lasting watch with values tells it all


def test_a_watch_receives_each_change(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = watched(bob)
    assert told == [GroupChange([], [], [], [])]
    one = alice.group(PATH).join("one", b"1")
    two = bob.group(PATH).join("two", b"2")
    one.update(b"3")
    one.leave()
    two.leave()
    short = [
        tuple(
            [(each.name, each.data) for each in part]
            for part in (t.members, t.joined, t.left, t.updated)
        )
        for t in told[1:]
    ]
    assert short == [
        ([("one", b"1")], [("one", b"1")], [], []),
        ([("one", b"1"), ("two", b"2")], [("two", b"2")], [], []),
        ([("one", b"3"), ("two", b"2")], [], [], [("one", b"3")]),
        ([("two", b"2")], [], [("one", b"3")], []),
        ([], [], [("two", b"2")], []),
    ]


STEP = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 2)), max_size=4)
"""Names that join, or leave (0), or set these data."""


@given(st.lists(STEP, max_size=8), st.integers(1, 3))
def test_members_from_changes_are_those_of_the_mirror(
    steps: list[list[tuple[str, int]]], together: int
) -> None:
    """`together` transactions arrive at a time; the whole lists before and after tell the rest."""
    mirror, members = TreeMirror(), _SortedMembers(PATH)
    before: list[tuple[str, int, bytes]] = []
    changes: list[TreeChange] = []
    for zxid, step in enumerate(steps, start=1):
        written: dict[str, CachedZnode | None] = {PATH: CachedZnode(b"", STAT)}
        for name, data in step:
            path = f"{PATH}/{name}"
            old = mirror.get(path)
            stat = msgspec.structs.replace(
                STAT, czxid=old.stat.czxid if old and data != 2 else Zxid(zxid), mzxid=Zxid(zxid)
            )
            written[path] = CachedZnode(b"%d" % data, stat) if data else None
        changes += mirror.commit(written)
        if zxid % together:
            continue
        joined, left, updated = members.apply(changes)
        changes = []
        now = sorted(
            (
                (name, znode.stat.czxid, znode.value)
                for name, znode in mirror.children_of(PATH).items()
            ),
            key=lambda each: (each[1], each[0]),
        )
        assert [(each.name, each.token, each.data) for each in members.in_order()] == now
        old_keys = {each[:2]: each for each in before}
        new_keys = {each[:2]: each for each in now}
        assert [(m.name, m.token) for m in joined] == [k for k in new_keys if k not in old_keys]
        assert [(m.name, m.token) for m in left] == [k for k in old_keys if k not in new_keys]
        assert [(m.name, m.token, m.data) for m in updated] == [
            each for key, each in new_keys.items() if old_keys.get(key, each) != each
        ]
        before = now


def test_a_watch_begins_with_the_present_members_and_ends_with_close(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.group(PATH).join("one")
    told: list[GroupChange] = []
    watch = bob.group(PATH).watch(told.append)
    assert [each.name for each in told[0].joined] == ["one"]
    bob.ask(WatchRemoval(PATH, WatchKind.RECURSIVE, None))  # it is set again
    alice.group(PATH).join("two")
    assert [each.name for each in told[-1].members] == ["one", "two"]
    watch.close()
    events = bob.events
    alice.group(PATH).join("three")
    assert (len(told), bob.events) == (2, events)


def test_a_watch_misses_nothing_without_a_link(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    one = alice.group(PATH).join("one")
    told = watched(bob)
    bob.cut()
    one.leave()
    alice.group(PATH).join("two").update(b"new")
    bob.mend()
    assert [(each.name, each.data) for each in told[-1].members] == [("two", b"new")]
    assert {each.name for t in told[1:] for each in t.left} == {"one"}


def test_changes_during_the_load_are_not_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    memberships = [alice.group(PATH).join(f"m{n}", b"old") for n in range(3)]
    for point in range(1, 7):
        freeze_at(bob, point)
        told: list[GroupChange] = []
        bob.begin(bob.group(PATH).watch, told.append)
        memberships.pop(0).leave()
        memberships[0].update(f"{point}".encode())
        memberships.append(alice.group(PATH).join(f"n{point}"))
        bob.thaw()
        bob.__dict__.pop("submit", None)
        assert [(e.name, e.data) for e in told[-1].members] == [
            (each.name, each._data) for each in memberships
        ]


def test_long_values_are_read(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    told = watched(bob)
    alice.group(PATH).join("big", bytes(1_000_000)).update(bytes(1_000_001))
    assert len(told[-1].members[0].data) == 1_000_001


def test_a_watch_reports_a_dead_member(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    membership = alice.group(PATH).join("one")
    told = watched(bob)
    alice.die()
    stage.pass_time(4_000)
    assert [each.name for each in told[-1].left] == ["one"]
    assert membership.lost.is_set()
    with pytest.raises(LostError):
        membership.update(b"")


def test_a_deleted_member_joins_again(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    membership = alice.group(PATH).join("one", b"1")
    membership.update(b"2")
    told = watched(bob)
    token = membership.token
    bob.ask(Delete(f"{PATH}/one", -1))
    (found,) = bob.group(PATH).members()
    assert (found.name, found.data) == ("one", b"2")
    assert found.token == membership.token > token
    assert [len(t.members) for t in told] == [1, 0, 1]
    assert not membership.lost.is_set()
    stage.pass_time(100)
    bob.ask(SetData(f"{PATH}/one", b"not mine", -1))
    membership.leave()
    membership.leave()
    assert names(bob) == []
    stage.pass_time(1_000)
    with pytest.raises(LostError, match="left before"):
        membership.update(b"")


def test_the_end_of_a_block_leaves(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    with alice.group(PATH).join("one") as membership:
        assert names(bob) == ["one"]
    assert names(bob) == [] and membership.is_released
    with alice.group(PATH).join("one") as membership:
        membership.leave()
    with pytest.raises(ZeroDivisionError), alice.group(PATH).join("one"):
        raise ZeroDivisionError
    assert names(bob) == []


def test_a_block_that_lost_its_membership_says_so(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    with pytest.raises(LostError), alice.group(PATH).join("one") as membership:
        alice.freeze()
        stage.pass_time(3_000)
        assert names(bob) == []
        alice.thaw()
        membership.lost.wait()
    with pytest.raises(ZeroDivisionError), bob.group(PATH).join("one"):
        bob.close()
        raise ZeroDivisionError  # the error of the body hides the loss


def test_a_leaving_member_is_not_created_again(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    for point in range(1, 4):
        membership = alice.group(PATH).join("one")
        freeze_at(alice, point)
        bob.ask(Delete(f"{PATH}/one", -1))
        stage.pass_time(1_000)  # the container goes too
        leaving = alice.begin(membership.leave)
        alice.thaw()
        alice.__dict__.pop("submit", None)
        assert leaving.value is None
        assert names(bob) == []


def test_new_data_during_a_rejoin_are_kept(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    for point in range(1, 4):
        membership = alice.group(PATH).join("one", b"old")
        freeze_at(alice, point)
        bob.ask(Delete(f"{PATH}/one", -1))
        updating = alice.begin(membership.update, b"new")
        alice.thaw()
        alice.__dict__.pop("submit", None)
        assert updating.value is None
        assert [each.data for each in bob.group(PATH).members()] == [b"new"]
        membership.leave()


def test_a_member_whose_name_is_taken_is_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    membership = alice.group(PATH).join("one", b"mine")
    alice.freeze()
    bob.ask(Delete(f"{PATH}/one", -1))
    bob.ask(Create(f"{PATH}/one", b"yours", 0))
    alice.thaw()
    assert membership.lost.is_set()
    with pytest.raises(LostError):
        membership.leave()
    assert [each.data for each in bob.group(PATH).members()] == [b"yours"]


def test_a_lost_member_does_not_watch_its_successor(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    mine = alice.group(PATH).join("x")
    alice.cut()
    bob.ask(Delete(mine.path, -1))
    bob.group(PATH).join("x")
    alice.mend()
    assert mine.lost.is_set()
    assert watches(alice) == 0


def test_a_member_whose_name_is_taken_during_its_rejoin_is_lost(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    membership = alice.group(PATH).join("one", b"mine")
    freeze_at(alice, 1)  # it looks, and finds nothing
    bob.ask(Delete(f"{PATH}/one", -1))
    bob.group(PATH).join("one", b"yours")
    alice.thaw()
    assert membership.lost.is_set()
    assert [each.data for each in bob.group(PATH).members()] == [b"yours"]


def test_a_join_waits_for_a_taken_name(stage: RecipeStage) -> None:
    alice, bob = stage.member(session_timeout_ms=2_000), stage.member()
    first = alice.group(PATH).join("one")
    with pytest.raises(WaitTimeoutError, match="another member one"):
        bob.group(PATH).join("one", timeout_s=0)
    waiting = bob.begin(bob.group(PATH).join, "one", b"bob")
    first.update(b"still here")
    assert not waiting.is_done
    alice.die()
    stage.pass_time(4_000)
    assert waiting.value.name == "one"
    carol = stage.member()
    again = carol.begin(carol.group(PATH).join, "one")
    again.run.cancel()
    stage.rest()
    events = carol.events
    waiting.value.leave()
    assert carol.events == events  # no watch is left


@pytest.mark.parametrize("name", [None, "one"])
def test_a_cancelled_call_leaves_nothing_at_any_step(stage: RecipeStage, name: str | None) -> None:
    alice, bob = stage.member(), stage.member()
    point = 1
    while abandoned_at(bob, point, bob.group(PATH).join, name):
        assert names(alice) == []
        point += 1
    assert point > 1
    bob.begin(bob.group(PATH).join).run.cancel()
    stage.rest()
    assert alice.do(get_children(PATH)) == []


def test_a_group_watch_cancelled_at_any_step_leaves_no_watch(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.group(PATH).join("one")
    point = 1
    while abandoned_at(bob, point, bob.group(PATH).watch, bob.called.append):
        point += 1
    assert point > 3
    events = bob.events
    alice.group(PATH).join("two")
    assert bob.events == events


def test_the_end_of_the_session_ends_membership_and_watch(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    alice.group(PATH).join("one")
    waiting = bob.begin(bob.group(PATH).join, "one")
    membership = bob.group(PATH).join("two")
    watch = bob.group(PATH).watch(bob.called.append)
    bob.cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = waiting.value
    assert membership.lost.is_set()
    watch.close()
    assert names(alice) == ["one"]


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    group = stage.member().group(PATH)
    for name in ("", "a/b", 7, ".."):
        with pytest.raises(BadArgumentsError):
            group.join(name)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="data"):
        group.join("a", "text")  # type: ignore[arg-type]
    membership = group.join("a")
    with pytest.raises(BadArgumentsError, match="data"):
        membership.update("text")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError):
        stage.member().group("workers")


@pytest.mark.parametrize("point", range(1, 5))
def test_a_session_that_ends_during_the_read_is_not_an_empty_group(
    stage: RecipeStage, point: int
) -> None:
    alice, bob = stage.member(), stage.member(session_timeout_ms=2_000)
    alice.group(PATH).join("one")
    told: list[GroupChange] = []
    freeze_at(bob, point)
    listing = bob.begin(bob.group(PATH).members)
    watching = bob.begin(bob.group(PATH).watch, told.append)
    bob.cut()
    stage.pass_time(5_000)
    bob.thaw()
    bob.mend()
    assert bob._is_lost()
    for outcome in (listing, watching):
        if outcome.error is not None:
            assert isinstance(outcome.error, SessionExpiredError)
    assert listing.error or [each.name for each in listing.value] == ["one"]
    assert all([each.name for each in change.members] == ["one"] for change in told)
    assert watching.error or told


def test_a_group_without_read_permission_is_an_error_and_not_empty(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.group(PATH).join("one")
    alice.ask(SetAcls(PATH, [Acl(Permission.WRITE, "world", "anyone")], -1))
    for operation in (bob.group(PATH).members, lambda: bob.group(PATH).watch(bob.called.append)):
        with pytest.raises(NoAuthError):
            operation()
    assert bob.called == []
