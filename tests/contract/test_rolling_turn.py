"""The turn to restart servers: one process has it, and it ends with the process."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from raykeeper.clusters.member_journal import LOCK, MemberJournal
from raykeeper.clusters.members_lock import members_lock
from raykeeper.clusters.rolling_restart import RollingRestartError
from raykeeper.clusters.rolling_turn import take_turn
from tests.contract.client_handles import Room, open_blocking


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
