"""IdleTimer: when it expires, and that a stall of this process does not count as silence."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from raykeeper.links.idle_timer import IdleTimer
from raykeeper.links.shared_ticks import SharedTicks


class HandTurnedLoop:
    """A loop whose timers fire when the test advances it."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.due: Callable[[], None] | None = None

    def time(self) -> float:
        return 0.0

    def call_later(self, delay: float, due: Callable[[], None]) -> Any:
        self.delay, self.due = delay, due
        return self

    def cancel(self) -> None:
        self.due = None

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            due, self.due = self.due, None
            assert due is not None, "no timer is set"
            due()


def watch() -> tuple[HandTurnedLoop, IdleTimer, list[str]]:
    loop, expired = HandTurnedLoop(), list[str]()
    ticks = SharedTicks(cast(asyncio.AbstractEventLoop, loop))
    silence = IdleTimer(ticks, 8.0, lambda: expired.append("expired"))
    return loop, silence, expired


def test_the_timer_expires_on_time_and_at_most_a_quarter_later() -> None:
    loop, silence, expired = watch()
    assert loop.delay == 2.0
    silence.restart()
    loop.turn(4)
    assert not expired
    loop.turn()
    assert expired == ["expired"]
    assert loop.due is None


def test_restart_begins_a_new_count() -> None:
    loop, silence, expired = watch()
    silence.restart()
    loop.turn(4)
    silence.restart()
    loop.turn(4)
    assert not expired


def test_a_stall_counts_as_one_quarter_however_long_it_was() -> None:
    loop, silence, expired = watch()
    silence.restart()
    loop.turn()  # hours late
    silence.restart()  # the signs of life that waited behind the timer
    loop.turn(4)
    assert not expired


def test_the_timer_does_not_expire_before_its_start_or_during_a_pause() -> None:
    loop, silence, expired = watch()
    loop.turn(10)
    silence.restart()
    silence.pause()
    loop.turn(10)
    assert not expired


def test_cancel_releases_the_timer() -> None:
    loop, silence, expired = watch()
    silence.restart()
    silence.cancel()
    assert loop.due is None
    assert not expired
