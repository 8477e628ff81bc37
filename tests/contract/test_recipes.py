"""How both clients run recipes: threads, tasks, timeouts, interrupts, callbacks.

What each recipe does is tested in tests/recipes, on a stage without threads.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from raykeeper.client import CREATOR_ALL_ACL, AsyncClient, Client, ClientState
from raykeeper.client.async_flow_runner import AsyncFlowRunner
from raykeeper.client.errors import LostError, WaitTimeoutError, WrongContextError
from raykeeper.client.loop_thread import shared_loop
from raykeeper.client.recipes.lock import Lock
from tests.contract.client_handles import (
    Open,
    Room,
    crossed_by_an_interrupt,
    finish,
    open_awaited,
    open_blocking,
    options_of,
)
from tests.contract.stream_room import StreamRoom
from tests.contract.test_clients import client, connect, opener

__all__ = ["client", "connect", "opener"]


@pytest.fixture(params=[Room, StreamRoom])
def room(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Servers, over either carrier."""
    room = request.param()
    yield room
    room.close()


def test_a_lock_moves_from_client_to_client(pool: ThreadPoolExecutor, connect: Open) -> None:
    one, other = connect(), connect()
    with one.lock("/locks/a") as held:
        assert held.token > 0
        assert not held.lost.is_set()
        waiting = pool.submit(other.lock("/locks/a").acquire)
        while len(one.lock("/locks/a").contenders()) < 2:
            pass
        assert not waiting.done()
    second = waiting.result(10)
    assert second.token > held.token
    second.release()
    assert other.get_children("/locks/a") == []


def test_nothing_is_left_behind_by_a_timeout(connect: Open) -> None:
    one, other = connect(), connect()
    with one.lock("/locks/a"):
        for timeout_s in (0.05, 0):
            with pytest.raises(WaitTimeoutError):
                other.lock("/locks/a").acquire(timeout_s=timeout_s)
            assert len(other.get_children("/locks/a")) == 1


def test_threads_may_share_a_lock_object(pool: ThreadPoolExecutor, connect: Open) -> None:
    lock = connect().lock("/locks/a")
    inside: list[int] = []
    tokens: list[int] = []

    def work() -> None:
        for _ in range(5):
            with lock as held:
                inside.append(1)
                assert len(inside) == 1
                tokens.append(held.token)
                inside.pop()

    for each in [pool.submit(work) for _ in range(8)]:
        each.result(30)
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 40


def test_the_end_of_the_session_is_a_loss(pool: ThreadPoolExecutor, connect: Open) -> None:
    one = connect()
    held = one.lock("/locks/a").acquire()
    told = pool.submit(held.lost.wait)
    one.close()
    told.result(10)
    assert held.lost.is_set()
    with pytest.raises(LostError):
        held.lost.check()
    with pytest.raises(LostError):
        held.release()


def test_recipes_use_the_default_acl(connect: Open) -> None:
    one = connect()
    one.add_auth("digest", "me:secret")
    own = connect(default_acl=CREATOR_ALL_ACL)
    own.add_auth("digest", "me:secret")
    with own.lock("/guarded/a") as held:
        assert [acl.id for acl in one.get_acls(held.path)[0]] != ["anyone"]


def test_recipes_work_below_a_chroot(connect: Open) -> None:
    connect().ensure_path("/app")
    below = connect(chroot="/app")
    with below.lock("/locks/a") as held:
        assert held.path.startswith("/locks/a/")
        assert connect().exists(f"/app{held.path}") is not None


def test_a_callback_may_use_recipes(room: Any) -> None:
    client: Client = open_blocking(room)()
    done: list[int] = []
    turn = threading.Event()

    def called(_: object) -> None:
        with client.lock("/locks/a") as held:
            done.append(held.token)
        turn.set()

    client.create("/a")
    client.get("/a", watch=called)
    client.set("/a", b"1")
    assert turn.wait(10)
    assert len(done) == 1
    client.close()


def test_an_interrupt_during_an_acquire_releases_it(room: Any) -> None:
    client, other = open_blocking(room)(), open_blocking(room)()
    other.lock("/locks/a").acquire().release()
    for _ in range(10):
        with crossed_by_an_interrupt(client):
            client.lock("/locks/a").acquire()
        assert not client._open_session()._flows.is_cleaning_up
        other.lock("/locks/a").acquire(timeout_s=0).release()  # it is free for all
    client.close()
    other.close()


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_cancelled_task_ends_when_what_it_acquires_is_free(room: Any, is_shared: bool) -> None:
    opened: Any = open_blocking(room)() if is_shared else open_awaited(room)()._thing
    client = AsyncFlowRunner(opened) if is_shared else opened
    other: AsyncClient = open_awaited(room)()._thing

    async def crossed() -> None:
        holder = await other.lock("/locks/a").acquire()
        waiting = asyncio.ensure_future(Lock(client, "/locks/a").acquire())
        while len(await other.lock("/locks/a").contenders()) < 2:
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await other.sync()
        assert len(await other.lock("/locks/a").contenders()) == 1
        await holder.release()
        for steps in range(10):  # whatever has become of it by now
            granted = asyncio.ensure_future(Lock(client, "/locks/a").acquire())
            for _ in range(steps):
                await asyncio.sleep(0)
            granted.cancel()
            with suppress(asyncio.CancelledError):
                await (await granted).release()
            await (await other.lock("/locks/a").acquire(timeout_s=0)).release()
        await other.close()

    finish(crossed())
    opened.close() if is_shared else finish(opened.close())


def test_a_task_that_is_cancelled_twice_ends_at_once(room: Any) -> None:
    client: AsyncClient = open_awaited(room)()._thing

    async def crossed() -> None:
        held = await client.lock("/locks/a").acquire()
        waiting = asyncio.ensure_future(client.lock("/locks/a").acquire())
        await client.sync()
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.sleep(0)
        assert waiting.cancelled()
        await held.release()
        await client.close()

    finish(crossed())


def test_a_blocking_recipe_is_refused_in_a_loop(room: Any) -> None:
    client: Client = open_blocking(room)()

    async def wrong() -> None:
        with pytest.raises(WrongContextError, match="acquire"):
            client.lock("/locks/a").acquire()
        with pytest.raises(WrongContextError, match="Lock"), client.lock("/locks/a"):
            pass

    finish(wrong())
    client.close()


def test_a_lost_session_is_lost_on_time(room: Any) -> None:
    now = [0.0]

    async def go() -> None:
        client = await AsyncClient.open([1, 2, 3], room, options_of(), clock=lambda: now[0])  # type: ignore[list-item]
        held = await client.lock("/locks/a").acquire()
        now[0] += 60.0  # the loop has not run since
        assert held.lost.is_set()
        assert client.state is ClientState.LOST
        await client.close()

    asyncio.run_coroutine_threadsafe(go(), shared_loop()).result(30)
