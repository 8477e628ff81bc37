"""The locks where threads, tasks and blocks matter: owners, and blocks to await.

What each recipe does is tested in tests/recipes, on a stage without threads.
"""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from raykeeper.client import AsyncClient, Client
from raykeeper.client.errors import StaleTokenError
from tests.contract.client_handles import Room, finish, open_awaited, open_blocking


def test_threads_share_a_reentrant_lock() -> None:
    client: Client = open_blocking(Room())()
    lock = client.reentrant_lock("/locks/a")
    inside: list[int] = []

    def work() -> None:
        for _ in range(5):
            with lock as outer, lock as inner:
                inside.append(outer.token)
                assert inside == [inner.token]
                inside.pop()

    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(work) for _ in range(8)]:
            each.result(30)
    assert lock.contenders() == []
    client.close()


def test_a_task_owns_what_it_acquires() -> None:
    client: AsyncClient = open_awaited(Room())()._thing

    async def go() -> None:
        lock = client.reentrant_lock("/locks/a")
        async with lock as outer:
            # wait_for may run it in a task of its own; it is asked for by this one.
            inner = await asyncio.wait_for(lock.acquire(), 10)
            assert inner.token == outer.token

            async def other() -> bool:
                try:
                    await lock.acquire(timeout_s=0)
                except TimeoutError:
                    return False
                return True

            assert not await asyncio.create_task(other())
            await inner.release()
            assert not await asyncio.create_task(other())
        assert await lock.contenders() == []
        await client.close()

    finish(go())


def test_tasks_share_every_kind_of_lock() -> None:
    client: AsyncClient = open_awaited(Room())()._thing
    inside: list[int] = []

    async def alone() -> None:
        assert not inside
        inside.append(1)
        await asyncio.sleep(0)
        inside.pop()

    async def writer(turn: int) -> None:
        kinds = [client.lock("/l/a"), client.simple_lock("/l/b"), client.reentrant_lock("/l/c")]
        async with client.multi_lock(kinds) as held:
            await alone()
            assert set(held.tokens) == {"/l/a", "/l/b", "/l/c"}
        async with client.read_write_lock("/l/d").write:
            assert turn < 10

    async def go() -> None:
        await asyncio.gather(*(writer(turn) for turn in range(10)))
        await client.close()

    finish(go())


def test_permits_and_leases_move_from_client_to_client() -> None:
    opened = open_blocking(Room())
    clients: list[Client] = [opened() for _ in range(4)]
    inside: list[int] = []
    most: list[int] = []

    def work(client: Client) -> None:
        for _ in range(5):
            with client.semaphore("/permits", 2) as held:
                inside.append(held.token)
                most.append(len(inside))
                inside.remove(held.token)
            with client.lease("/leases/a", 30) as lease:
                lease.renew()
                assert 29 < lease.left_s() <= 30

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(work, client) for client in clients]:
            each.result(30)
    assert max(most) <= 2
    for client in clients:
        client.close()


def test_a_transaction_is_done_only_while_the_lock_is_held() -> None:
    opened = open_blocking(Room())
    one, other = opened(), opened()
    one.create("/config")
    with one.multi_lock(["/locks/a", "/locks/b"]) as held:
        with one.transaction() as t:
            t.when_held(*held.parts)
            t.set("/config", b"1")
            t.otherwise.get("/config")
        assert t.succeeded
        stale = held.parts[0]
    with other.lock("/locks/a") as newer:
        for holder, is_held in ((stale, False), (newer, True)):
            with other.transaction() as t:
                t.when_held(holder)
                t.set("/config", b"2")
            assert t.succeeded is is_held
    assert one.get("/config")[0] == b"2"
    one.close()
    other.close()


def test_a_durable_guard_serves_threads_and_tasks() -> None:
    opened = open_blocking(Room())
    one = opened()
    guard = one.fenced_resource("/guards/disk")
    written: list[int] = []

    def write(token: int) -> None:
        try:
            with guard.use(token):
                written.append(token)
        except StaleTokenError:
            pass

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(write, token) for token in range(1, 30)]:
            each.result(30)
    assert written == sorted(written)
    assert written[-1] == 29
    one.close()

    client: AsyncClient = open_awaited(Room())()._thing

    async def go() -> None:
        durable = client.fenced_resource("/guards/disk")
        async with durable.use(5):
            assert durable.newest == 5
        with pytest.raises(StaleTokenError):
            async with durable.use(4):
                pass
        await durable.check(5)
        await client.close()

    finish(go())


def test_a_task_that_is_cancelled_at_any_point_leaves_nothing() -> None:
    client: AsyncClient = open_awaited(Room())()._thing

    async def cancelled(acquire: Any, after: int) -> None:
        task = asyncio.ensure_future(acquire())
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).release()  # it was quicker

    async def go() -> None:
        kinds: list[Any] = [
            client.lock("/l/a"),
            client.simple_lock("/l/b"),
            client.reentrant_lock("/l/c"),
            client.read_write_lock("/l/d").read,
            client.read_write_lock("/l/e").write,
            client.semaphore("/l/f", 1),
            client.lease("/l/g", 60),
        ]
        kinds.append(client.multi_lock(list(kinds)))
        for kind in kinds:
            for after in range(30):
                await cancelled(kind.acquire, after)
            await client.sync()
            held = await kind.acquire(timeout_s=10)
            await held.release()
        for kind in kinds[:-1]:
            assert await kind.contenders() == []
        await client.close()

    finish(go())
