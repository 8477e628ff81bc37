"""Configuration, caches and counters of both clients: threads, tasks, callbacks and blocks.

What each of them does is tested in tests/recipes, on a stage without threads.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from raykeeper.client import AsyncClient, Client
from raykeeper.client.errors import NoNodeError, WrongContextError
from tests.contract.client_handles import Open, Room, finish, open_awaited, open_blocking
from tests.contract.test_clients import connect, opener

__all__ = ["connect", "opener"]


class Limits(msgspec.Struct):
    """What the tests configure."""

    rate: int = 0


def faster(now: Limits) -> Limits:
    return Limits(now.rate + 1)


@pytest.fixture
def room() -> Room:
    """Servers."""
    return Room()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that have ended after the test."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_threads_and_clients_count_together(connect: Open, pool: ThreadPoolExecutor) -> None:
    counters = [connect().counter("/counters/x") for _ in range(2)]

    def work(number: int) -> list[int]:
        return [counters[number % 2].add(2) for _ in range(5)]

    sums = [each for turn in pool.map(work, range(8)) for each in turn]
    assert sorted(sums) == list(range(2, 82, 2))
    assert counters[0].get() == 80


def test_updates_of_threads_and_clients_all_count(connect: Open, pool: ThreadPoolExecutor) -> None:
    configs = [connect().configuration("/app/limits", Limits, Limits()) for _ in range(2)]

    def work(number: int) -> None:
        for _ in range(5):
            configs[number % 2].update(faster)

    list(pool.map(work, range(8)))
    assert configs[0].get().value == Limits(40)


def test_what_a_change_raises_comes_to_the_caller(connect: Open) -> None:
    config = connect().configuration("/app/limits", Limits)
    with pytest.raises(NoNodeError):
        config.update(faster)
    config.set(Limits(1))
    with pytest.raises(ZeroDivisionError):
        config.update(lambda now: Limits(now.rate // 0))
    assert config.get() == (Limits(1), 0)


def test_callbacks_come_in_order_and_the_value_is_there_at_once(connect: Open) -> None:
    one, other = connect(), connect()
    theirs = other.configuration("/app/limits", Limits)
    theirs.set(Limits(0))
    rates: list[tuple[Any, Any]] = []
    all_told = threading.Event()

    def told(new: Any, old: Any) -> None:
        rates.append((new.value.rate, old and old.value.rate))
        if new.value.rate == 20:
            all_told.set()

    live = one.configuration("/app/limits", Limits).follow(told)
    assert live.value == Limits(0)
    for _ in range(20):
        theirs.update(faster)
    assert all_told.wait(10)
    assert rates == [(0, None), *((rate, rate - 1) for rate in range(1, 21))]
    assert (live.value, live.version) == (Limits(20), 20)
    live.close()
    theirs.update(faster)
    assert live.value == Limits(20)


def test_a_callback_may_ask_and_change(room: Room) -> None:
    client: Client = open_blocking(room)()
    config = client.configuration("/app/limits", Limits, Limits())
    turn = threading.Event()
    values: list[Limits | None] = []

    def told(new: Any, old: Any) -> None:
        if new.value.rate < 3:
            config.update(faster)
            values.append(live.value)  # newer than what this call is about
        else:
            turn.set()

    with config.follow(told) as live:
        config.set(Limits(1))
        assert turn.wait(10)
    assert values == [Limits(2), Limits(3)]
    client.close()


def test_a_task_is_called_back_in_order(room: Room) -> None:
    client: AsyncClient = open_awaited(room)()._thing

    async def follow() -> list[int]:
        config = client.configuration("/app/limits", Limits, Limits())
        rates: list[int] = []

        async def told(new: Any, old: Any) -> None:
            rates.append(new.value.rate)

        async with await config.follow(told) as live:
            for _ in range(5):
                await config.update(faster)
            assert live.value == Limits(5)
        await client.sync()
        await client.close()
        return rates

    assert finish(follow()) == [1, 2, 3, 4, 5]


def test_a_blocking_update_is_refused_in_a_loop(room: Room) -> None:
    client: Client = open_blocking(room)()

    async def wrong() -> None:
        with pytest.raises(WrongContextError, match="update"):
            client.configuration("/app/limits", Limits, Limits()).update(faster)

    finish(wrong())
    client.close()
