"""Barriers, queues and two-phase commit of both clients: threads, tasks, timeouts, interrupts.

What each of them does is tested in tests/recipes, on a stage without threads.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from raykeeper.client import AsyncClient, Client, Decision
from raykeeper.client.errors import BrokenBarrierError, WaitTimeoutError
from tests.contract.client_handles import (
    Open,
    Room,
    crossed_by_an_interrupt,
    finish,
    open_awaited,
    open_blocking,
)
from tests.contract.test_clients import connect, opener

__all__ = ["connect", "opener"]


def test_a_removed_barrier_ends_the_wait(pool: ThreadPoolExecutor, connect: Open) -> None:
    one, other = connect(), connect()
    assert one.barrier("/barriers/a").create()
    waiting = [pool.submit(other.barrier("/barriers/a").wait) for _ in range(3)]
    with pytest.raises(WaitTimeoutError):
        one.barrier("/barriers/a").wait(timeout_s=0.05)
    assert one.barrier("/barriers/a").remove()
    for each in waiting:
        each.result(10)


@pytest.mark.parametrize("on_crash", ["abort", "continue"])
def test_threads_go_through_rounds_together(
    pool: ThreadPoolExecutor, connect: Open, on_crash: Any
) -> None:
    clients = [connect() for _ in range(2)]
    inside: list[list[int]] = [[] for _ in range(5)]

    def work(number: int) -> list[int]:
        barrier = clients[number % 2].double_barrier("/barriers/x", 6, b"", on_crash)
        rounds = []
        for place in inside:
            rounds.append(barrier.enter(timeout_s=30).round)
            place.append(number)
            barrier.leave(timeout_s=30)
            assert len(place) == 6  # nobody is out before all have been in
        return rounds

    rounds = list(pool.map(work, range(6)))
    assert rounds == [sorted(set(rounds[0]))] * 6
    assert len(rounds[0]) == 5


def test_a_session_that_ends_breaks_a_barrier(pool: ThreadPoolExecutor, connect: Open) -> None:
    one, other = connect(), connect()
    waiting = pool.submit(one.double_barrier("/barriers/x", 3).enter)
    failing = pool.submit(other.double_barrier("/barriers/x", 3).enter)
    while len(one.get_children("/barriers/x/round") if one.exists("/barriers/x/round") else "") < 2:
        pass
    other.close()
    with pytest.raises(BrokenBarrierError):
        waiting.result(10)
    assert failing.exception(10) is not None


def test_each_element_goes_to_one_thread(pool: ThreadPoolExecutor, connect: Open) -> None:
    clients = [connect() for _ in range(3)]
    queues = [client.queue("/queues/x", size_max=5) for client in clients]

    def produce(number: int) -> None:
        for index in range(10):
            queues[number].put(b"%d-%d" % (number, index), timeout_s=30)

    def consume(number: int) -> list[bytes]:
        return [queues[number % 3].get(timeout_s=30) for _ in range(6)]

    with ThreadPoolExecutor(3) as producers:
        putting = [producers.submit(produce, number) for number in range(3)]
        got = [each for taken in pool.map(consume, range(5)) for each in taken]
    for each in putting:
        each.result()
    assert sorted(got) == sorted(b"%d-%d" % (n, i) for n in range(3) for i in range(10))
    assert queues[0].size() == 0


def test_elements_are_worked_on_by_one_thread_at_a_time(
    pool: ThreadPoolExecutor, connect: Open
) -> None:
    clients = [connect() for _ in range(2)]
    clients[0].lock_queue("/queues/x").put_many([b"%d" % n for n in range(12)])
    under_way: set[bytes] = set()

    def work(number: int) -> int:
        queue, done = clients[number % 2].lock_queue("/queues/x"), 0
        while True:
            try:
                job = queue.get(timeout_s=0)
            except WaitTimeoutError:
                return done
            assert job.value not in under_way
            under_way.add(job.value)
            under_way.discard(job.value)
            job.consume()
            done += 1

    assert sum(pool.map(work, range(4))) == 12


def test_a_pipeline_does_each_element_once(pool: ThreadPoolExecutor, connect: Open) -> None:
    clients = [connect() for _ in range(3)]
    clients[0].lock_queue("/jobs").put_many([b"%d" % n for n in range(12)])
    clients[0].ensure_path("/results")

    def work(client: Any) -> None:
        jobs = client.lock_queue("/jobs")
        while jobs.size():
            try:
                job = jobs.get(timeout_s=0.1)
            except WaitTimeoutError:
                continue
            with job, client.transaction() as t:
                t.consume(getattr(job, "_thing", job))
                t.create(f"/results/{job.value.decode()}")

    list(pool.map(work, clients))
    done = clients[0].get_children("/results")
    assert sorted(done, key=int) == [str(n) for n in range(12)]
    assert clients[0].lock_queue("/jobs").held() == 0


def test_an_interrupt_during_a_get_puts_the_element_back(room: Room) -> None:
    client: Client = open_blocking(room)()
    client.queue("/queues/x").put(b"1")
    with crossed_by_an_interrupt(client):
        client.queue("/queues/x").get()
    client.sync()
    assert client.queue("/queues/x").get(timeout_s=0) == b"1"
    client.close()


def test_a_cancelled_task_leaves_nothing_behind(room: Room) -> None:
    client: AsyncClient = open_awaited(room)()._thing

    async def crossed() -> None:
        queue = client.queue("/queues/x")
        waiting = asyncio.ensure_future(queue.get())
        while not await client.exists("/queues/x/line"):
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await queue.put(b"1")
        assert await client.get_children("/queues/x/line") == []
        assert await queue.get(timeout_s=0) == b"1"
        entering = asyncio.ensure_future(client.double_barrier("/barriers/x", 2).enter())
        while not await client.exists("/barriers/x/round"):
            pass
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        while await client.exists("/barriers/x/round"):
            pass  # it is broken by several requests, one after the other
        await client.close()

    finish(crossed())


def test_sites_of_a_two_phase_commit_agree(pool: ThreadPoolExecutor, connect: Open) -> None:
    boss, *clients = [connect() for _ in range(3)]
    trip = boss.two_phase_commit("/transactions/x")
    names = [f"site-{number}" for number in range(6)]
    trip.begin(names)

    def take_part(number: int) -> Decision:
        mine = clients[number % 2].two_phase_commit("/transactions/x")
        mine.join(names[number])
        mine.vote(names[number], commit=True)
        decision: Decision = mine.outcome(timeout_s=30)
        return decision

    taking_part = [pool.submit(take_part, number) for number in range(6)]
    assert trip.decide(timeout_s=30) is Decision.COMMIT
    assert [each.result(30) for each in taking_part] == [Decision.COMMIT] * 6
    trip.finish()
