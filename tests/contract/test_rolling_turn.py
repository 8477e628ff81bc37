"""The turn to restart servers: one process has it, and it ends with the process."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from raykeeper.clusters.healing.vocabulary import Cause, MoveStep
from raykeeper.clusters.keeper_journal import ELECTION, Journal
from raykeeper.clusters.member_journal import LOCK, MemberJournal
from raykeeper.clusters.member_steps.vocabulary import Members, Plan
from raykeeper.clusters.members_lock import identify_process, members_lock
from raykeeper.clusters.rolling_restart import RollingRestartError
from raykeeper.clusters.rolling_turn import take_turn
from raykeeper.zab.ids import ServerId
from tests.contract.client_handles import Room, open_blocking
from tests.harness.decisions import BEGUN


def test_one_process_has_the_turn_and_the_next_one_is_told_who(room: Room) -> None:
    with open_blocking(room)() as one, open_blocking(room)() as other:
        with take_turn(one, "coord", 5.0) as check:
            check()
            with pytest.raises(RollingRestartError) as caught, take_turn(other, "coord", 0.1):
                pytest.fail("two have the turn")
            told = str(caught.value)
            assert told.startswith("another process restarts servers of ensemble 'coord' now, or ")
            assert f"changes its members: pid {os.getpid()} on " in told
        with take_turn(other, "coord", 5.0) as check:
            check()


def test_a_change_of_the_members_and_a_restart_keep_each_other_out(room: Room) -> None:
    refused = [RollingRestartError("of the change"), RollingRestartError("nobody")]

    def refusal(holder: str | None) -> RollingRestartError:
        return refused[holder is None]

    with open_blocking(room)() as one, open_blocking(room)() as other:
        with (
            take_turn(one, "coord", 5.0),
            pytest.raises(RollingRestartError, match="of the change"),
            members_lock(other, 0.1, refusal),
        ):
            pytest.fail("two have the lock")
        with (
            members_lock(one, 5.0, refusal),
            pytest.raises(RollingRestartError, match="or changes its members"),
            take_turn(other, "coord", 0.1),
        ):
            pytest.fail("two have the lock")


PLAN = Plan(
    text="add server 4",
    begun_by="pid 1 on host",
    before=Members((ServerId(1),)),
    target=Members((ServerId(1), ServerId(4))),
)


def test_no_turn_while_a_change_of_the_members_is_open(room: Room) -> None:
    """Also if nobody is at it: its newcomer would be stopped, and started by nobody."""
    with open_blocking(room)() as client:
        journal = MemberJournal(client)
        with members_lock(client, 5.0, lambda _: RollingRestartError()) as held:
            journal.begin(held, PLAN)
        with pytest.raises(RollingRestartError) as caught, take_turn(client, "coord", 5.0):
            pytest.fail("the turn was taken")
        assert str(caught.value) == (
            "a change of the members has not ended: 'add server 4', begun by pid 1 on host. Go on "
            "with `raykeeper members resume coord`, or back with `raykeeper members undo coord`"
        )
        with members_lock(client, 5.0, lambda _: RollingRestartError()) as held:
            journal.end(held)
        with take_turn(client, "coord", 5.0) as check:
            check()


def test_a_turn_and_a_move_away_from_a_live_node_do_not_meet(room: Room) -> None:
    """What the keeper reads after its decision, and what the other reads once it has the lock."""
    drain = replace(BEGUN, cause=Cause.DRAINED)
    with open_blocking(room)() as one, open_blocking(room)() as other:
        keeper = Journal(one)
        keeper.create_paths()
        leadership = one.election(ELECTION).lead()
        assert MemberJournal(one).read_holder() == ""
        keeper.write_decision(leadership, drain)
        with pytest.raises(RollingRestartError, match="is moving server 3 to b: wait for it"):
            take_turn(other, "coord", 0.1).__enter__()
        for step in (
            replace(drain, step=MoveStep.DONE),
            BEGUN,
        ):  # a lost server is none to wait for
            keeper.write_decision(leadership, step)
            with take_turn(other, "coord", 5.0):
                assert MemberJournal(one).read_holder() == identify_process()


def test_a_caller_that_waits_gets_the_lock_when_the_other_session_ends(room: Room) -> None:
    """As it does when that process is killed."""
    one = open_blocking(room)()
    MemberJournal(one).create_paths()
    held = one.lock(LOCK).acquire()
    with open_blocking(room)() as other, ThreadPoolExecutor(1) as pool:

        def wait() -> None:
            with take_turn(other, "coord", 30.0) as check:
                check()

        waiting = pool.submit(wait)
        while len(other.get_children(LOCK)) < 2:
            other.sync("/")
        assert not waiting.done() and not held.lost.is_set()
        one.close()
        waiting.result(30)


def test_who_has_lost_the_turn_stops(room: Room) -> None:
    with (
        open_blocking(room)() as one,
        open_blocking(room)() as other,
        pytest.raises(RollingRestartError, match="the session of this one is lost"),
        take_turn(one, "coord", 5.0) as check,
    ):
        (name,) = other.get_children(LOCK)
        other.delete(f"{LOCK}/{name}")
        while True:  # until the watch of the holder has told it
            one.sync("/")
            check()
