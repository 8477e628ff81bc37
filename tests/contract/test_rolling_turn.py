"""The turn to restart servers: one process has it, and it ends with the process."""

import os

import pytest

from raykeeper.clusters.member_journal import LOCK
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
