"""Configuration, caches and counters of both clients: threads, tasks, callbacks and blocks.

What each of them does is tested in tests/recipes, on a stage without threads.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from raykeeper.client import AsyncClient, Client
from raykeeper.client.errors import NoNodeError, WrongContextError
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


class Limits(msgspec.Struct):
    """What the tests configure."""

    rate: int = 0


def faster(now: Limits) -> Limits:
    return Limits(now.rate + 1)


def test_threads_and_clients_count_together(pool: ThreadPoolExecutor, connect: Open) -> None:
    counters = [connect().counter("/counters/x") for _ in range(2)]

    def work(number: int) -> list[int]:
        return [counters[number % 2].add(2) for _ in range(5)]

    sums = [each for turn in pool.map(work, range(8)) for each in turn]
    assert sorted(sums) == list(range(2, 82, 2))
    assert counters[0].get() == 80


def test_updates_of_threads_and_clients_all_count(pool: ThreadPoolExecutor, connect: Open) -> None:
    configs = [connect().configuration("/app/limits", Limits, Limits()) for _ in range(2)]

    def work(number: int) -> None:
        for _ in range(5):
            configs[number % 2].update(faster)

    list(pool.map(work, range(8)))
    assert configs[0].get().value == Limits(40)


def test_an_error_of_a_change_is_raised_to_the_caller(connect: Open) -> None:
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
        rates.append((new.rate, old and old.rate))
        if new.rate == 20:
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


def test_a_callback_may_read_and_update(room: Room) -> None:
    client: Client = open_blocking(room)()
    config = client.configuration("/app/limits", Limits, Limits())
    turn = threading.Event()
    values: list[Limits | None] = []

    def told(new: Any, old: Any) -> None:
        if new.rate < 3:
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
            rates.append(new.rate)

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


def test_a_cache_shows_what_its_client_has_written(connect: Open) -> None:
    one, other = connect(), connect()
    one.ensure_path("/app")
    all_told = threading.Event()
    told: list[Any] = []

    def changed(change: Any) -> None:
        told.append((change.kind.value, change.path))
        if change.path == "/app/last":
            all_told.set()

    with one.tree_cache("/app", changed) as cache, one.children_cache("/app") as children:
        for number in range(20):
            path = one.create(f"/app/{number}", b"1")
            assert cache.get(path).value == b"1"
            one.set(path, b"2")
            assert cache.get(path).value == b"2"
            assert children.get(str(number)).value == b"2"
        one.delete("/app/0")
        assert cache.get("/app/0") is None
        other.create("/app/last")
        assert all_told.wait(10)
        assert sorted(cache.children("/app")) == sorted(one.get_children("/app"))
        assert children.names() == cache.children("/app")
    expected = [("added", "/app")]
    for number in range(20):
        expected += [("added", f"/app/{number}"), ("changed", f"/app/{number}")]
    assert told == [*expected, ("removed", "/app/0"), ("added", "/app/last")]


def test_a_cache_is_read_by_many_threads(pool: ThreadPoolExecutor, connect: Open) -> None:
    one, other = connect(), connect()
    one.ensure_path("/app/a")
    stop = threading.Event()

    def read(cache: Any) -> int:
        count = 0
        while not stop.is_set():
            names = {path.rpartition("/")[2] for path in cache.snapshot()}
            assert ("x" in names) is ("y" in names)
            count += 1
        return count

    with one.tree_cache("/app") as cache:
        readers = [pool.submit(read, cache) for _ in range(3)]
        for _ in range(20):
            with other.transaction() as both:
                both.create("/app/x")
                both.create("/app/y")
            with other.transaction() as both:
                both.delete("/app/y")
                both.delete("/app/x")
        stop.set()
        assert all(reader.result(10) for reader in readers)


def test_a_cache_below_a_chroot_knows_its_own_paths(connect: Open) -> None:
    connect().ensure_path("/app/a")
    below = connect(chroot="/app")
    with below.tree_cache("/") as cache:
        below.create("/a/b")
        assert list(cache.snapshot()) == ["/", "/a", "/a/b"]


def test_a_callback_may_use_the_cache_and_the_client(room: Room) -> None:
    client: Client = open_blocking(room)()
    client.create("/app")
    turn = threading.Event()

    def changed(change: Any) -> None:
        if change.path == "/app/a":
            client.create("/app/b")
            assert "/app/b" in cache
            turn.set()

    with client.tree_cache("/app", changed) as cache:
        client.create("/app/a")
        assert turn.wait(10)
    client.close()


def test_readers_of_many_threads_see_whole_versions(
    pool: ThreadPoolExecutor, connect: Open
) -> None:
    ours, theirs = connect().published("/app/routes"), connect().published("/app/routes")
    versions = [{str(name): b"%d" % number for name in range(number)} for number in range(20)]
    ours.publish(versions[0])
    last = threading.Event()

    def told(new: Any, old: Any) -> None:
        assert new.values in versions
        if new.values == versions[-1]:
            last.set()

    def read() -> None:
        while not last.is_set():
            assert theirs.read().values in versions

    live = theirs.follow(told)
    readers = [pool.submit(read) for _ in range(2)]
    for values in versions[1:]:
        ours.publish(values)
    for reader in readers:
        reader.result(10)
    assert live.newest.values == versions[-1]
    live.close()


def test_changes_of_several_configurations_are_seen_together(
    pool: ThreadPoolExecutor, connect: Open
) -> None:
    kinds = {"/app/a": Limits, "/app/b": Limits}
    ours, theirs = connect().configurations(kinds), connect().configurations(kinds)
    ours.set({"/app/a": Limits(100), "/app/b": Limits(0)})
    sums: list[int] = []
    last = threading.Event()

    def told(new: Any, old: Any) -> None:
        sums.append(sum(each.rate for each in new.values()))
        if new["/app/b"].rate == 20:
            last.set()

    def move(now: Any) -> Any:
        return {"/app/a": Limits(now["/app/a"].rate - 1), "/app/b": faster(now["/app/b"])}

    live = theirs.follow(told)
    list(pool.map(lambda _: ours.update(move), range(20)))
    assert last.wait(10)
    assert set(sums) == {100}
    assert [each.value.rate for each in theirs.get().values()] == [80, 20]
    live.close()


def watches(room: Room) -> int:
    """How many watches are set on all servers together."""
    hosts = room._servers.hosts.values()
    return sum(host.server._context.watches.count for host in hosts)


@pytest.mark.parametrize("steps", range(8))
def test_a_cancelled_follow_of_a_task_leaves_no_watch(room: Room, steps: int) -> None:
    client: AsyncClient = open_awaited(room)()._thing

    async def cancel() -> int:
        await client.create("/app")
        config = client.configuration("/app", Limits, Limits())
        for begun in (config.follow(), client.tree_cache("/app").start()):
            task = asyncio.ensure_future(begun)
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).close()  # it was there already
        await client.sync()
        await client.sync()
        left = watches(room)
        await client.close()
        return left

    assert finish(cancel()) == 0


@pytest.mark.parametrize("name", ["follow", "start"])
def test_an_interrupted_follow_leaves_no_watch(room: Room, name: str) -> None:
    client: Client = open_blocking(room)()
    client.create("/app")
    with crossed_by_an_interrupt(client):
        if name == "follow":
            client.configuration("/app", Limits).follow()
        else:
            client.tree_cache("/app").start()
    client.sync()
    assert watches(room) == 0
    client.close()
