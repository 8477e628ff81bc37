"""Elections and groups where threads, tasks and callbacks matter, over both clients.

What each recipe does is tested in tests/recipes, on a stage without threads.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from raykeeper.client import AsyncClient, Client
from raykeeper.client.errors import BrokenBarrierError, WaitTimeoutError, WrongContextError
from tests.contract.client_handles import Open, Room, finish, open_awaited, open_blocking
from tests.contract.test_clients import client, connect, opener

__all__ = ["client", "connect", "opener"]


def test_a_leadership_moves_from_client_to_client(pool: ThreadPoolExecutor, connect: Open) -> None:
    one, other = connect(), connect()
    told: SimpleQueue[Any] = SimpleQueue()
    observation = other.election("/jobs").observe(told.put)
    assert told.get(timeout=10) is None
    with one.election("/jobs", b"one") as leadership:
        assert leadership.epoch == 1
        assert told.get(timeout=10).identifier == b"one"
        with pytest.raises(WaitTimeoutError):
            other.election("/jobs").lead(timeout_s=0.05)
        waiting = pool.submit(other.election("/jobs", b"other").lead)
        while len(one.election("/jobs").candidates()) < 2:
            pass
    assert waiting.result(10).epoch == 2
    waiting.result().resign()
    observation.close()
    assert one.election("/jobs").leader() is None


def test_a_latch_leads_in_the_background(pool: ThreadPoolExecutor, connect: Open) -> None:
    one, other = connect(), connect()
    told: SimpleQueue[str] = SimpleQueue()
    with one.leader_latch(
        "/jobs",
        on_gained=lambda held: told.put(f"gained {held.epoch}"),
        on_lost=lambda held: told.put(f"lost {held.epoch}"),
    ) as latch:
        latch.wait(timeout_s=10)
        assert told.get(timeout=10) == "gained 1"
        second = other.leader_latch("/jobs")
        second.start()
        waiting = pool.submit(second.wait)
    assert told.get(timeout=10) == "lost 1"
    assert waiting.result(10).epoch == 2
    second.close()


def next_change(told: "SimpleQueue[Any]") -> list[tuple[str, bytes]]:
    return [(each.name, each.data) for each in told.get(timeout=10).members]


def test_members_join_and_leave(connect: Open) -> None:
    one, other = connect(), connect()
    told: SimpleQueue[Any] = SimpleQueue()
    watch = other.group("/workers").watch(told.put)
    membership = one.group("/workers").join("a", b"1")
    assert next_change(told) == []
    membership.update(b"2")
    # What changes while it is told of a change is told as one.
    while next_change(told) != [("a", b"2")]:
        pass
    other.delete("/workers/a")
    while next_change(told) != [("a", b"2")]:
        pass
    membership.leave()
    while next_change(told):
        pass
    watch.close()


def test_what_is_held_ends_with_a_block(connect: Open) -> None:
    one, other = connect(), connect()
    with (
        one.group("/workers").join("first") as member,
        one.services("/services").register("web", "10.0.0.7", 80) as registration,
        one.lock("/x").acquire(timeout_s=10) as held,
        one.multi_lock(["/y", "/z"]).acquire(timeout_s=10),
    ):
        assert [each.name for each in other.group("/workers").members()] == ["first"]
        assert other.services("/services").instances("web")[0].token == registration.token
        for hold in (member, registration, held):
            hold.lost.check()
    assert other.group("/workers").members() == []
    assert other.get_children("/services/web") == []
    assert other.multi_lock(["/x", "/y", "/z"]).acquire(timeout_s=0).tokens.keys() > {"/x"}
    registration.leave()  # again: nothing


def test_services_are_picked(pool: ThreadPoolExecutor, connect: Open) -> None:
    one, other = connect(), connect()
    seen = other.services("/services")
    waiting = pool.submit(seen.pick, "web", None, 10)
    instance = one.services("/services").register("web", "host", 80, {"a": [1, 2]})
    assert waiting.result(10).metadata == {"a": [1, 2]}
    instance.leave()
    with pytest.raises(WaitTimeoutError):
        while True:
            seen.pick("web", timeout_s=0)
    seen.close()


def test_threads_meet_at_a_rendezvous(pool: ThreadPoolExecutor, connect: Open) -> None:
    handles = [connect() for _ in range(3)]
    joining = [
        pool.submit(each.rendezvous("/train", 3, f"m{n}".encode()).join, 10)
        for n, each in enumerate(handles)
    ]
    meetings = [each.result(10) for each in joining]
    assert sorted(each.rank for each in meetings) == [0, 1, 2]
    assert meetings[0].members == meetings[1].members == meetings[2].members
    waiting = [pool.submit(each.wait_broken) for each in meetings[1:]]
    meetings[0].leave()
    for each in waiting:
        each.result(10)
    with pytest.raises(BrokenBarrierError):
        meetings[1].broken.check()


def test_a_partition_moves_only_after_a_callback_has_returned(room: Room) -> None:
    one: Client = open_blocking(room)()
    other: Client = open_blocking(room)()
    begun, go_on, got = threading.Event(), threading.Event(), threading.Event()

    def released(_: Any) -> None:
        begun.set()
        assert one.get_children("/shards/owners") == ["a", "b"]  # a callback may ask
        go_on.wait(10)

    first = one.partitioner("/shards", "ab", on_released=released)
    second = other.partitioner("/shards", "ab", on_acquired=lambda _: got.set())
    with first:
        while len(first.owned) < 2:
            other.sync()
        with second:
            assert begun.wait(10)
            other.sync()
            assert not got.is_set()
            go_on.set()
            assert got.wait(10)
        assert other.get_children("/shards/members") != []
    assert other.get_children("/shards/owners") == []
    for each in (one, other):
        each.close()


def test_a_partitioner_may_be_closed_by_its_own_callback(
    room: Room, pool: ThreadPoolExecutor
) -> None:
    one = open_blocking(room)()
    released: SimpleQueue[str] = SimpleQueue()
    closed: SimpleQueue[bool] = SimpleQueue()

    def acquired(partition: Any) -> None:
        parts.close()
        closed.put(parts.is_closed)

    parts = one.partitioner("/shards", "ab", b"", acquired, lambda part: released.put(part.name))
    parts.start()
    assert closed.get(timeout=20)
    pool.submit(parts.close).result(20)
    assert {released.get(timeout=20), released.get(timeout=20)} == {"a", "b"}
    assert one.get_children("/shards/owners") == []
    one.close()

    other: AsyncClient = open_awaited(room)()._thing

    async def main() -> None:
        ended = asyncio.Event()

        async def awaited(partition: Any) -> None:
            await parts.close()
            ended.set()

        parts = other.partitioner("/shards", "a", b"", awaited)
        await parts.start()
        await ended.wait()
        await parts.close()
        await other.close()

    finish(main())


def test_a_partition_moves_only_after_a_coroutine_has_ended(room: Room) -> None:
    one: AsyncClient = open_awaited(room)()._thing
    other: AsyncClient = open_awaited(room)()._thing

    async def go() -> None:
        begun, go_on, got = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def released(_: Any) -> None:
            begun.set()
            await go_on.wait()

        async def acquired(_: Any) -> None:
            got.set()

        first = one.partitioner("/shards", "ab", on_released=released)
        await first.start()
        while len(first.owned) < 2:
            await other.sync()
        async with other.partitioner("/shards", "ab", on_acquired=acquired) as second:
            await begun.wait()
            await other.sync()
            assert (second.owned, got.is_set()) == ([], False)
            go_on.set()
            await got.wait()
            assert [each.name for each in second.owned] == ["b"]
            await first.close()
        await one.close()
        await other.close()

    finish(go())


def test_a_closed_client_ends_its_recipes(connect: Open) -> None:
    one = connect()
    told: SimpleQueue[int] = SimpleQueue()
    latch = one.leader_latch("/jobs", on_lost=lambda held: told.put(held.epoch))
    parts = one.partitioner("/shards", "a", on_released=lambda _: told.put(0))
    latch.start()
    parts.start()
    latch.wait(timeout_s=10)
    while not parts.owned:
        one.sync()
    one.close()
    assert sorted([told.get(timeout=10), told.get(timeout=10)]) == [0, 1]
    assert not latch.has_leadership
    assert parts.owned == []


def test_a_blocking_start_is_refused_in_a_loop(room: Room) -> None:
    one: Client = open_blocking(room)()

    async def wrong() -> None:
        with pytest.raises(WrongContextError, match="start"):
            one.leader_latch("/jobs").start()
        with pytest.raises(WrongContextError), one.rendezvous("/train", 1):
            pass

    finish(wrong())
    one.close()
