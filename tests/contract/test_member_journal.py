"""What changes of the members write into the tree: under their lock only, one at a time."""

import pytest
from msgspec.structs import replace

from raykeeper.client.errors import (
    InvalidValueError,
    LostError,
    NodeExistsError,
    NoNodeError,
)
from raykeeper.clusters.member_journal import LOCK, ROOT, MemberJournal
from raykeeper.clusters.member_steps.vocabulary import Members, Plan
from raykeeper.zab.ids import ServerId
from tests.contract.client_handles import Room, open_blocking

S1, S2, S3, S4 = (ServerId(number) for number in range(1, 5))
PLAN = Plan(
    text="put server 4 in the place of server 2",
    begun_by="pid 7 on here",
    before=Members((S1, S2, S3)),
    target=Members((S1, S3, S4)),
    newcomers=(S4,),
    replaced={S4: S2},
    nodes={S4: "1f"},
)


def test_the_next_caller_reads_what_the_last_one_left(room: Room) -> None:
    with open_blocking(room)() as other:
        second = MemberJournal(other)
        assert second.read_plan() is None
        with open_blocking(room)() as one:
            first = MemberJournal(one)
            first.create_paths()
            first.create_paths()
            held = one.lock(LOCK, b"me").acquire()
            first.begin(held, PLAN)
            assert [each.identifier for each in other.lock(LOCK).contenders()] == [b"me"]
        # Its session has ended, and the lock with it.
        held = other.lock(LOCK).acquire()
        assert second.read_plan() == PLAN
        back = replace(PLAN, is_undone=True)
        second.change(held, back)
        assert second.read_plan() == back
        with pytest.raises(NodeExistsError):
            second.begin(held, PLAN)
        second.end(held)
        assert second.read_plan() is None
        with pytest.raises(NoNodeError):
            second.end(held)
        second.begin(held, PLAN)


def test_a_caller_that_lost_the_lock_writes_nothing(room: Room) -> None:
    """It does not know it yet: somebody else has deleted its contender."""
    with open_blocking(room)() as one, open_blocking(room)() as other:
        first, second = MemberJournal(one), MemberJournal(other)
        first.create_paths()
        lost = one.lock(LOCK).acquire()
        other.delete(lost.path)
        held = other.lock(LOCK).acquire()
        with pytest.raises(LostError):
            first.begin(lost, PLAN)
        assert second.read_plan() is None
        second.begin(held, PLAN)
        with pytest.raises(LostError):
            first.change(lost, replace(PLAN, is_undone=True))
        with pytest.raises(LostError):
            first.end(lost)
        assert second.read_plan() == PLAN


def test_values_of_others_are_refused(room: Room) -> None:
    with open_blocking(room)() as client:
        journal = MemberJournal(client)
        journal.create_paths()
        client.create(f"{ROOT}/plan", b"[]")
        with pytest.raises(InvalidValueError, match="/zookeeper/members/plan is no plan"):
            journal.read_plan()
