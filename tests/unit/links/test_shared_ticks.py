"""SharedTicks: regular calls, few timers, and calls that are spread over the period."""

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raykeeper.links.shared_ticks import SLOTS, SharedTicks, ticks_of_running_loop
from tests.harness.event_loops import VirtualLoop

PERIOD_S = 3.2


class CountingLoop(VirtualLoop):
    """A loop that counts the timers that fire."""

    fired = 0

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        def fire() -> None:
            self.fired += 1
            callback(*args)

        return super().call_later(delay, fire, context=context)


@contextmanager
def running() -> Iterator[CountingLoop]:
    loop = CountingLoop()
    try:
        yield loop
    finally:
        loop.close()


def wait(loop: CountingLoop, seconds: float) -> None:
    loop.run_until_complete(asyncio.sleep(seconds))
    loop.fired -= 1  # the timer of the sleep


def test_each_callback_is_called_once_a_period_from_few_timers() -> None:
    with running() as loop:
        ticks, called = SharedTicks(loop), Counter[int]()
        for number in range(1_000):
            ticks.add(PERIOD_S, lambda number=number: called.update([number]))  # type: ignore[misc]
            wait(loop, PERIOD_S / 1_000)
        called.clear()
        loop.fired = 0
        wait(loop, 10 * PERIOD_S)
        assert set(called.values()) <= {9, 10, 11} and len(called) == 1_000
        assert loop.fired <= 11 * (SLOTS + 1)


def test_calls_are_spread_as_the_links_began() -> None:
    with running() as loop:
        ticks, called = SharedTicks(loop), Counter[int]()
        for _ in range(1_000):
            ticks.add(PERIOD_S, lambda: called.update([int(loop.time() * 1_000)]))
            wait(loop, PERIOD_S / 1_000)
        wait(loop, PERIOD_S)
        assert max(called.values()) < 100


def test_the_first_call_comes_within_a_period() -> None:
    with running() as loop:
        ticks, called = SharedTicks(loop), list[str]()
        ticks.add(PERIOD_S, lambda: called.append("first"))
        wait(loop, PERIOD_S / SLOTS / 4)
        ticks.add(PERIOD_S, lambda: called.append("second"))
        wait(loop, PERIOD_S)
        assert called[:2] == ["first", "second"]


def test_periods_do_not_mix() -> None:
    with running() as loop:
        ticks, called = SharedTicks(loop), Counter[str]()
        ticks.add(1.0, lambda: called.update(["often"]))
        ticks.add(4.0, lambda: called.update(["rarely"]))
        wait(loop, 8.5)
        assert called == {"often": 8, "rarely": 2}


@pytest.mark.parametrize("is_removed_in_a_call", [True, False])
def test_a_removed_callback_is_not_called(is_removed_in_a_call: bool) -> None:
    with running() as loop:
        ticks, called = SharedTicks(loop), list[str]()

        def second() -> None:
            called.append("second")

        def first() -> None:
            called.append("first")
            if is_removed_in_a_call:
                group.remove(second)

        group = ticks.add(PERIOD_S, first)
        assert ticks.add(PERIOD_S, second) is group
        if not is_removed_in_a_call:
            group.remove(second)
        wait(loop, 1.5 * PERIOD_S)
        assert called == ["first"]


def test_no_timer_is_left_without_callbacks() -> None:
    with running() as loop:
        ticks = SharedTicks(loop)

        def never() -> None:
            raise AssertionError

        group = ticks.add(PERIOD_S, never)
        group.remove(never)
        group.remove(never)
        wait(loop, 3 * PERIOD_S)
        assert loop.fired == 0
        assert ticks.add(PERIOD_S, never) is not group


def test_a_callback_may_remove_itself() -> None:
    with running() as loop:
        ticks, called = SharedTicks(loop), list[int]()

        def once() -> None:
            called.append(1)
            group.remove(once)

        group = ticks.add(PERIOD_S, once)
        wait(loop, 5 * PERIOD_S)
        assert called == [1]
        assert loop.fired == 1


def test_each_loop_has_one_set_of_timers_as_long_as_links_use_it() -> None:
    async def both() -> tuple[SharedTicks, SharedTicks]:
        return ticks_of_running_loop(), ticks_of_running_loop()

    one, same = asyncio.run(both())
    other, _ = asyncio.run(both())
    assert one is same is not other
    gone = weakref.ref(one)
    del one, same
    gc.collect()
    assert gone() is None
