"""AsyncClient: the operations, the order of callbacks and replies, on virtual time."""

import asyncio
import logging
from typing import Any

import pytest

from raykeeper.client.async_client import AsyncClient
from raykeeper.client.core.public_types import ClientState, EventType, WatchedEvent
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    ClosedError,
    ConnectionLossError,
    NoNodeError,
    NotReadOnlyError,
    OperationTimeoutError,
    SessionExpiredError,
    WrongContextError,
)
from raykeeper.client.session_options import SessionOptions
from tests.harness.event_loops import VirtualLoop
from tests.harness.scripted_ensemble import ScriptedEnsemble


async def opened(
    ensemble: ScriptedEnsemble,
    loop: VirtualLoop,
    timeout_s: float = 1e6,
    *,
    read_only: bool = False,
) -> AsyncClient:
    options = SessionOptions(session_timeout_s=9, timeout_s=timeout_s, read_only=read_only)
    return await AsyncClient.open(ensemble.servers, ensemble, options, clock=loop.time)


async def test_read_only_accepts_a_server_without_a_leader(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    ensemble.leaderless = set(ensemble.servers)
    client = await opened(ensemble, loop, read_only=True)
    assert (client.state, client.session_id) == (ClientState.CONNECTED_READ_ONLY, 0)
    assert (await client.get("/"))[0] == b""
    with pytest.raises(NotReadOnlyError):
        await client.set("/", b"1")
    with pytest.raises(ConnectionLossError):
        await opened(ensemble, loop, timeout_s=60)
    await client.close()


async def test_every_operation_is_served(loop: VirtualLoop) -> None:
    async with await opened(ScriptedEnsemble(), loop) as client:
        assert client.session_id
        assert await client.create("/a", b"1") == "/a"
        assert await client.create("/a/s-", sequence=True) == "/a/s-0000000000"
        value, stat = await client.get("/a")
        assert (value, stat.version) == (b"1", 0)
        assert (await client.set("/a", b"2")).version == 1
        with pytest.raises(BadVersionError):
            await client.set("/a", b"3", version=0)
        assert await client.get_children("/a") == ["s-0000000000"]
        assert await client.exists("/b") is None
        with pytest.raises(NoNodeError):
            await client.delete("/b")
        await client.sync()
        await client.delete("/a", recursive=True)
        assert await client.exists("/a") is None
        assert await client.create("/x/y/z", makepath=True) == "/x/y/z"
    assert client.state is ClientState.LOST
    with pytest.raises(ClosedError, match="the client was closed"):
        await client.get("/x")
    await client.close()


async def test_requests_leave_in_the_order_of_the_calls(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    async with await opened(ensemble, loop) as client:
        values = [str(n).encode() for n in range(100)]
        futures = [client.set("/", value) for value in values]
        assert [stat.version for stat in await asyncio.gather(*futures)] == [*range(1, 101)]
        assert [request.value for request in ensemble.requests[:100]] == values  # type: ignore[union-attr]


async def test_bad_arguments_use_up_nothing(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    async with await opened(ensemble, loop) as client:
        with pytest.raises(BadArgumentsError, match="1048577 bytes, at most 1048576"):
            client.set("/", bytes((1 << 20) + 1))
        assert (await client.set("/", b"")).version == 1


async def test_callbacks_run_before_the_awaiter_of_a_later_reply(loop: VirtualLoop) -> None:
    calls: list[Any] = []

    async def coroutine(event: WatchedEvent) -> None:
        calls.append(("coroutine", event.type))
        await client.sync()
        calls.append("coroutine goes on")

    async with await opened(ScriptedEnsemble(), loop) as client:
        await client.get("/", watch=coroutine)
        await client.exists("/", watch=lambda event: calls.append(("plain", event.type)))
        await client.set("/", b"new")
        calls.append("reply")
        await client.sync()
    changed = EventType.CHANGED
    assert calls == [
        ("plain", changed),
        ("coroutine", changed),
        "reply",
        "coroutine goes on",
    ]


async def test_an_error_of_a_callback_is_logged(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def plain(event: WatchedEvent) -> None:
        raise ValueError("plain")

    async def coroutine(event: WatchedEvent) -> None:
        raise ValueError("coroutine")

    async def cancelled(event: WatchedEvent) -> None:
        raise asyncio.CancelledError

    with caplog.at_level(logging.ERROR, "raykeeper.client"):
        async with await opened(ScriptedEnsemble(), loop) as client:
            for watch in (plain, coroutine, cancelled):
                await client.get("/", watch=watch)
            await client.set("/", b"new")
            await client.sync()
    assert "ValueError: plain" in caplog.text
    assert "ValueError: coroutine" in caplog.text


async def test_listeners_receive_the_states(loop: VirtualLoop) -> None:
    ensemble, states, once = ScriptedEnsemble(), [], []
    client = await opened(ensemble, loop)

    def first_only(state: ClientState) -> bool:
        once.append(state)
        return True

    async def asynchronous(state: ClientState) -> None:
        states.append(f"async {state}")

    client.add_listener(states.append)
    client.add_listener(first_only)
    client.add_listener(asynchronous)
    ensemble.cut()
    await asyncio.sleep(1)
    client.remove_listener(asynchronous)
    client.remove_listener(asynchronous)
    await client.close()
    assert once == ["SUSPENDED"]
    assert states == [
        "SUSPENDED",
        "async SUSPENDED",
        "CONNECTED",
        "async CONNECTED",
        "LOST",
    ]


async def test_a_reply_of_a_cancelled_request_is_dropped(loop: VirtualLoop) -> None:
    async with await opened(ScriptedEnsemble(), loop) as client:
        for path in ("/", "/none"):
            reply = client.get(path)
            reply.cancel()
        await client.sync()
        assert (await client.get("/"))[0] == b""


async def test_requests_time_out(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    client = await opened(ensemble, loop, timeout_s=2)
    ensemble.is_deaf = True
    with pytest.raises(OperationTimeoutError) as caught:
        await client.set("/", b"")
    assert not caught.value.definite
    assert loop.time() == pytest.approx(1002, abs=0.01)
    with pytest.raises(ConnectionLossError):
        ensemble.is_down = True
        await opened(ensemble, loop, timeout_s=2)
    await client.close()


async def test_an_expired_session_fails_its_requests(loop: VirtualLoop) -> None:
    ensemble, events = ScriptedEnsemble(), []
    client = await opened(ensemble, loop)
    await client.exists("/a", watch=events.append)
    ensemble.expire_sessions()
    with pytest.raises(SessionExpiredError) as caught:
        await client.create("/b")
    assert not caught.value.definite
    assert client.state is ClientState.LOST
    (event,) = events
    assert (event.type, event.state, event.path) == (EventType.NONE, "LOST", "/a")


async def test_a_client_is_lost_on_time_though_its_loop_was_blocked(loop: VirtualLoop) -> None:
    client = await opened(ScriptedEnsemble(), loop)
    assert client.state is ClientState.CONNECTED
    loop.seconds += 9
    assert client.state is ClientState.LOST
    await client.close()


async def test_opening_can_be_cancelled(loop: VirtualLoop) -> None:
    ensemble = ScriptedEnsemble()
    ensemble.is_deaf = True
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(opened(ensemble, loop), 0.5)
    assert not ensemble.links


def test_a_client_belongs_to_its_loop(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    client = runner.run(opened(ScriptedEnsemble(), loop))

    async def use() -> None:
        with pytest.raises(WrongContextError, match="another event loop"):
            client.get("/")

    asyncio.run(use())
