"""The rendezvous: one list for all, generations one after the other, whoever leaves or dies."""

from random import Random

import pytest

from raykeeper.client.errors import (
    BrokenBarrierError,
    InvalidValueError,
    LostError,
    RecipeError,
    SessionExpiredError,
    WaitTimeoutError,
)
from raykeeper.client.recipes.primitives import get_children
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.client.recipes.rendezvous import DATA_BYTES_MAX, SIZE_MAX, Generation
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.errors import BadArgumentsError, NoAuthError
from raykeeper.znodes.requests import Create, CreateMode, Delete, SetData
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.freezing import abandoned_at, freeze_at

PATH = "/train"


def come(member: Member, data: bytes = b"", size: int = 3) -> Outcome:
    return member.begin(member.rendezvous(PATH, size, data).join)


def places(member: Member) -> list[str]:
    names: list[str] = member.do(get_children(PATH))
    return sorted(names)


def met(
    stage: RecipeStage, size: int = 3, session_timeout_ms: int = 2_000
) -> tuple[list[Member], list[Generation[Blocking]]]:
    members = [stage.member(session_timeout_ms=session_timeout_ms) for _ in range(size)]
    waits = [come(member, f"m{n}".encode(), size) for n, member in enumerate(members)]
    return members, [wait.value for wait in waits]


def test_all_members_get_the_same_list_and_each_its_rank(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(3)]
    waits = []
    for number, member in enumerate(members):
        assert not any(wait.is_done for wait in waits)
        waits.append(come(member, f"m{number}".encode()))
    meetings = [wait.value for wait in waits]
    assert [each.rank for each in meetings] == [0, 1, 2]
    assert [each.generation for each in meetings] == [1, 1, 1]
    assert [each.data for each in meetings[0].members] == [b"m0", b"m1", b"m2"]
    assert meetings[0].members == meetings[1].members == meetings[2].members
    assert not meetings[0].broken.is_set()
    meetings[0].broken.check()
    with pytest.raises(WaitTimeoutError, match="is not broken"):
        meetings[0].wait_broken(timeout_s=0)


def test_it_sends_the_documented_number_of_requests(stage: RecipeStage) -> None:
    members = [stage.member() for _ in range(100)]
    members[0].begin(members[0].rendezvous(PATH, 1).join)  # the znode is there
    stage.rest()
    members[0].close()
    waits = [come(member, b"", 99) for member in members[1:]]
    assert all(wait.is_done for wait in waits)
    assert sum(each.asked["Multi"] for each in members[1:]) == 1
    middle = members[50]
    assert dict(middle.asked) == {"Create": 1, "GetChildren": 2, "GetData": 5}
    assert middle.events == 1  # not one for each that comes


@pytest.mark.parametrize("how", ["leaves", "dies", "is deleted"])
def test_all_members_learn_that_one_left(stage: RecipeStage, how: str) -> None:
    for gone in range(4):
        members, meetings = met(stage, 4)
        waits = [m.begin(each.wait_broken) for m, each in zip(members, meetings, strict=True)]
        if how == "leaves":
            meetings[gone].leave()
            meetings[gone].leave()
        elif how == "dies":
            members[gone].die()
            stage.pass_time(4_000)
        else:
            members[0].ask(Delete(meetings[gone].path, -1))
        for each in range(4):
            if each != gone:
                assert meetings[each].broken.is_set()
                assert waits[each].value is None
                with pytest.raises(BrokenBarrierError):
                    meetings[each].broken.check()
                meetings[each].leave()
        if how == "is deleted":
            assert meetings[gone].broken.is_set()
            meetings[gone].leave()
        assert places(members[(gone + 1) % 4]) == []
        for member in members:
            if member is not members[gone] or how != "dies":
                member.close()


def test_the_next_generation_begins_when_a_member_leaves(stage: RecipeStage) -> None:
    members, meetings = met(stage)
    spare = [stage.member() for _ in range(2)]
    waits = [come(member, b"spare") for member in spare]
    assert not any(wait.is_done for wait in waits)
    meetings[1].leave()
    assert meetings[0].broken.is_set()
    assert not any(wait.is_done for wait in waits)
    meetings[0].leave()
    again = come(members[0], b"again")
    second = again.value
    assert [each.data for each in second.members] == [b"spare", b"spare", b"again"]
    assert (second.generation, second.rank) == (2, 2)
    assert [wait.value.members for wait in waits] == [second.members] * 2
    meetings[2].leave()  # of the first generation: nobody cares
    assert not second.broken.is_set()


def test_waiting_participants_follow_when_all_members_die_at_once(stage: RecipeStage) -> None:
    members, _ = met(stage)
    spare = [stage.member() for _ in range(7)]
    waits = [come(member) for member in spare]
    for member in members:
        member.die()
    stage.pass_time(4_000)
    assert [wait.is_done for wait in waits] == [True] * 3 + [False] * 4
    for member in spare[:3]:
        member.close()
    assert [wait.is_done for wait in waits] == [True] * 6 + [False]
    assert waits[3].value.generation == 3


def test_a_rendezvous_of_one_never_waits(stage: RecipeStage) -> None:
    alice = stage.member()
    with alice.rendezvous(PATH, 1) as meeting:
        assert (meeting.rank, meeting.generation) == (0, 1)
        alice.ask(Delete(meeting.path, -1))
        assert meeting.broken.is_set()
    with alice.rendezvous(PATH, 1) as meeting:
        assert meeting.generation == 2


@pytest.mark.parametrize("how", ["timeout", "abandon", "cut"])
def test_a_cancelled_wait_leaves_nothing_behind(stage: RecipeStage, how: str) -> None:
    alice, bob = stage.member(), stage.member()
    wait = bob.begin(bob.rendezvous(PATH, 2).join, timeout_s=2)
    if how == "timeout":
        stage.pass_time(2_100)
        with pytest.raises(WaitTimeoutError, match="got no new generation"):
            _ = wait.value
    elif how == "abandon":
        wait.run.cancel()
        stage.rest()
    else:
        bob.cut()
        stage.pass_time(2_100)
        bob.mend()
    assert places(alice) == []
    events = bob.events
    come(alice, b"", 1)
    assert bob.events == events
    with pytest.raises(WaitTimeoutError):
        bob.rendezvous(PATH, 1).join(timeout_s=0)


def test_a_join_cancelled_at_any_step_breaks_its_generation(stage: RecipeStage) -> None:
    alice, bob, carol = (stage.member() for _ in range(3))
    point = 1
    first = come(alice, b"", 2)
    while abandoned_at(bob, point, bob.rendezvous(PATH, 2).join):
        if first.is_done:  # it came so far, and left
            assert first.value.broken.is_set()
            first.value.leave()
            first = come(alice, b"", 2)
        assert len(places(carol)) == 1
        point += 1
    assert point > 5


def test_a_participant_may_die_at_any_step_of_forming_a_generation(stage: RecipeStage) -> None:
    for point in range(1, 7):
        alice, bob, carol, dave = (stage.member(session_timeout_ms=2_000) for _ in range(4))
        waits = [come(alice), come(bob)]
        freeze_at(carol, point)
        come(carol)
        waits.append(come(dave))
        carol.die()
        stage.pass_time(4_000)
        if waits[0].is_done and any(e.data == b"" for e in waits[0].value.members):
            for each in (alice, bob, dave):
                each.close()
            continue
        assert [each.value.rank for each in waits] == [0, 1, 2]
        for each in (alice, bob, dave):
            each.close()


def test_a_participant_whose_znode_is_deleted_gets_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    wait = come(bob)
    own = f"{PATH}/{places(alice)[0]}"
    alice.ask(SetData(own, b"touched", -1))
    assert not wait.is_done
    alice.ask(Delete(own, -1))
    with pytest.raises(LostError, match="somebody deleted"):
        _ = wait.value


def test_a_rendezvous_deleted_during_a_join_is_an_error(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    alice.rendezvous(PATH, 1).join().leave()
    freeze_at(bob, 2)  # it looks whether its znode is there
    wait = come(bob)
    alice.ask(Delete(f"{PATH}/{places(alice)[0]}", -1))
    alice.ask(Delete(PATH, -1))
    bob.thaw()
    with pytest.raises(LostError, match=f"somebody deleted {PATH}"):
        _ = wait.value


def test_a_lost_connection_breaks_nothing(stage: RecipeStage) -> None:
    members, meetings = met(stage, session_timeout_ms=20_000)
    members[0].cut()
    members[1].cut()
    stage.pass_time(500)
    members[0].mend()
    members[1].mend()
    assert not any(each.broken.is_set() for each in meetings)


def test_the_end_of_the_session_breaks_it_on_time(stage: RecipeStage) -> None:
    members, meetings = met(stage)
    members[0].freeze()
    while not meetings[1].broken.is_set():
        stage.pass_time(50)
    assert meetings[0].broken.is_set()
    members[0].thaw()
    with pytest.raises(LostError):
        meetings[0].leave()
    wait = come(members[1])
    members[1].cut()
    stage.pass_time(3_000)
    with pytest.raises(SessionExpiredError):
        _ = wait.value


def test_a_different_size_is_refused(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    wait = come(alice, b"", 3)
    first = come(bob, b"", 2)
    assert len(first.value.members) == 2
    with pytest.raises(RecipeError, match="2, not 3"):
        _ = wait.value
    assert first.value.broken.is_set()


def test_a_foreign_value_is_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    alice.ask(Create(PATH, b"not a rendezvous", 0))
    with pytest.raises(InvalidValueError, match=PATH):
        alice.rendezvous(PATH, 1).join()
    assert places(alice) == []


def test_the_largest_data_fit(stage: RecipeStage) -> None:
    alice, bob = stage.member(), stage.member()
    data = bytes(DATA_BYTES_MAX // 2)
    waits = [come(each, data, 2) for each in (alice, bob)]
    assert [each.data for each in waits[1].value.members] == [data, data]
    assert waits[0].value.rank == 0


def test_bad_arguments_are_refused(stage: RecipeStage) -> None:
    alice = stage.member()
    for size in (0, -1, SIZE_MAX + 1, True, "3"):
        with pytest.raises(BadArgumentsError, match="size"):
            alice.rendezvous(PATH, size)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="data"):
        alice.rendezvous(PATH, 3, "x")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentsError, match="bytes"):
        alice.rendezvous(PATH, 3, bytes(DATA_BYTES_MAX // 3 + 1))
    with pytest.raises(BadArgumentsError):
        alice.rendezvous("/", 3)


@pytest.mark.parametrize("seed", range(12))
def test_generations_stay_whole_and_go_on_under_random_faults(
    stage: RecipeStage, seed: int
) -> None:
    rng = Random(seed)
    waits: list[tuple[Member, Outcome]] = []
    frozen: list[Member] = []
    lists: dict[int, list[str]] = {}

    def note() -> None:
        for _, wait in waits:
            if wait.is_done and wait.error is None:
                names = [each.name for each in wait.value.members]
                assert lists.setdefault(wait.value.generation, names) == names
                assert len(names) == 3

    for _ in range(60):
        what = rng.choice(["come", "come", "come", "leave", "die", "freeze", "thaw", "cut", "time"])
        if what == "come":
            member = stage.member(session_timeout_ms=2_000)
            if rng.random() < 0.3:
                freeze_at(member, rng.randint(1, 8))
                frozen.append(member)
            waits.append((member, come(member)))
        elif what == "time":
            stage.pass_time(500)
        elif what == "thaw" and frozen:
            member = frozen.pop(rng.randrange(len(frozen)))
            if not member._is_dead:
                member.thaw()
        elif waits:
            member, wait = waits[rng.randrange(len(waits))]
            if member._is_dead:
                continue
            if what == "leave":
                member.begin(wait.value.leave) if wait.is_done and not wait.error else (
                    wait.run.cancel()
                )
                stage.rest()
            elif what == "freeze":
                member.freeze()
                frozen.append(member)
            elif what == "die":
                member.die()
            else:
                member.cut()
                member._is_cut = False
        note()
    for member in frozen:
        if not member._is_dead:
            member.thaw()
    for member, _ in waits:
        member.die()
    stage.pass_time(4_000)
    note()
    _, meetings = met(stage)  # it goes on
    assert {each.generation for each in meetings} == {max(lists, default=0) + 1}
    members = [name for names in lists.values() for name in names]
    assert len(set(members)) == len(members)


def test_a_participant_that_missed_its_generation_joins_a_later_one(stage: RecipeStage) -> None:
    alice, bob, carol, dave = (stage.member() for _ in range(4))
    late = come(alice, b"alice", 2)
    alice.freeze()
    with_bob = come(bob, b"bob", 2).value
    with_bob.leave()
    meetings = [come(each, b"x", 2) for each in (carol, dave)]
    assert [meeting.value.generation for meeting in meetings] == [2, 2]
    alice.thaw()
    assert not late.is_done
    meetings[0].value.leave()
    come(bob, b"bob", 2)
    assert (late.value.generation, late.value.rank) == (3, 0)


def test_an_unreadable_participant_is_an_error_and_no_endless_loop(
    stage: RecipeStage,
) -> None:
    one, other = stage.member(), stage.member()
    one.ask(Create(PATH, b"", 0))
    nobody = [Acl(Permission.ALL, "digest", "nobody:hash")]
    flags = CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL
    one.ask(Create(f"{PATH}/participant-", b"", flags, nobody, 0))
    with pytest.raises(NoAuthError):
        _ = come(other, size=2).value
    assert len(places(one)) == 1
