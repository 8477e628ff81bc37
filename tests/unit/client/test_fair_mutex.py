"""FairMutex: turns in order, for threads and tasks, and no turn is lost."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from raykeeper.client.errors import WrongContextError
from raykeeper.client.fair_mutex import FairMutex


def test_threads_take_turns() -> None:
    turns, inside = FairMutex(), list[int]()

    def work() -> None:
        for _ in range(100):
            turns.acquire()
            inside.append(1)
            assert len(inside) == 1
            inside.pop()
            turns.release()

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(work) for _ in range(4)]:
            each.result(30)
    assert not turns._is_taken


def test_tasks_take_turns_in_order_without_cancelled_ones() -> None:
    async def go() -> list[int]:
        turns, order = FairMutex(), list[int]()

        async def work(number: int) -> None:
            await turns.acquire_async()
            order.append(number)
            turns.release()

        await turns.acquire_async()
        tasks = [asyncio.create_task(work(number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        turns.release()
        tasks[2].cancel()  # it may already have got its turn
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not turns._is_taken
        return order

    order = asyncio.run(go())
    assert order == [0, 3]


async def test_a_turn_of_a_cancelled_task_ends() -> None:
    turns = FairMutex()
    await turns.acquire_async()
    task = asyncio.create_task(turns.acquire_async())
    await asyncio.sleep(0)
    turns.release()  # the turn passes to the task, which does not know it yet
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not turns._is_taken


def test_threads_and_tasks_take_turns_with_each_other() -> None:
    turns = FairMutex()
    turns.acquire()
    began = threading.Event()

    async def go() -> None:
        began.set()
        await turns.acquire_async()
        turns.release()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asyncio.run, go())
        assert began.wait(10)
        turns.release()
        done.result(10)
    assert not turns._is_taken


async def test_a_loop_is_not_blocked() -> None:
    turns = FairMutex()
    turns.acquire()  # nobody holds it
    with pytest.raises(WrongContextError, match="async with"):
        turns.acquire()
    turns.release()
    assert not turns._is_taken
