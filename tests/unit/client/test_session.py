"""Session: threads, the order of callbacks and replies, states and time."""

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from raykeeper.client import session as session_module
from raykeeper.client.core.public_types import ClientState, EventType, WatchedEvent
from raykeeper.client.errors import (
    ClosedError,
    ConnectionLossError,
    OperationTimeoutError,
    SessionExpiredError,
)
from raykeeper.znodes.requests import CloseSession
from tests.harness.client_stage import ClientStage, called


def test_many_threads_share_a_handle(stage: ClientStage) -> None:
    client = stage.open()
    threads = [called(lambda: [client.set("/", b"") for _ in range(20)]) for _ in range(8)]
    versions = sorted(stat.version for thread in threads for stat in thread.result(20))
    assert versions == list(range(1, 161))


# The order of callbacks and replies.


def test_a_watch_is_called_before_the_reply_that_shows_its_cause(stage: ClientStage) -> None:
    client = stage.open()
    for _ in range(50):
        calls: list[str] = []
        client.get("/", watch=lambda _, calls=calls: calls.append("event"))
        client.set("/", b"")
        assert calls == ["event"]


def test_a_blocking_reply_waits_for_the_callbacks_before_it(stage: ClientStage) -> None:
    client = stage.open()
    begun, gate = threading.Event(), threading.Event()

    def slow(_: WatchedEvent) -> None:
        begun.set()
        assert gate.wait(5)

    client.get("/", watch=slow)
    setting = called(lambda: client.set("/", b"new"))
    assert begun.wait(5)
    stage.loop.do(lambda: None)
    assert not setting.done()
    gate.set()
    assert setting.result(5).version == 1


def test_a_call_inside_a_callback_overtakes_the_callbacks_queued(stage: ClientStage) -> None:
    client = stage.open()
    order: list[Any] = []
    sent, finished = threading.Event(), threading.Event()

    def outer(_: WatchedEvent) -> None:
        # The callback of the child watch is queued behind this one and cannot run now.
        assert sent.wait(5)
        order.append(client.get("/")[0])
        order.append(client.exists_async("/a").result(5) is not None)
        order.append(client.create("/b/c", makepath=True))

    client.get("/", watch=outer)
    client.get_children("/", watch=lambda _: order.append("queued"))
    first = client.set_async("/", b"new")
    second = client.create_async("/a")
    sent.set()
    second.add_done_callback(lambda _: finished.set())
    assert finished.wait(5)
    assert order == [b"new", True, "/b/c", "queued"]
    assert first.done()


def test_callbacks_of_futures_run_in_the_order_of_the_requests(stage: ClientStage) -> None:
    client = stage.open()
    order: list[Any] = []
    client.get("/", watch=lambda _: order.append("event"))
    futures: list[Future[Any]] = []
    for number in range(20):
        future = client.exists_async("/") if number != 10 else client.set_async("/", b"")
        future.add_done_callback(lambda _, number=number: order.append(number))
        futures.append(future)
    client.sync()
    assert order == [*range(10), "event", *range(10, 20)]


def test_a_callback_that_does_not_return_is_named(
    stage: ClientStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "CORE_TIMEOUT_GRACE_S", 0.0)
    client = stage.open()
    gate = threading.Event()

    def stuck(_: WatchedEvent) -> None:
        gate.wait(5)

    client.get("/", watch=stuck)
    client._open_session()._timeout_s = 0.01
    with pytest.raises(OperationTimeoutError, match="stuck") as caught:
        client.set("/", b"")
    assert not caught.value.definite
    gate.set()


def test_a_slow_operation_is_awaited(stage: ClientStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CORE_TIMEOUT_GRACE_S", 0.0)
    client = stage.open()
    client._open_session()._timeout_s = 0.001
    stage.switch(is_mute=True)
    setting = called(lambda: client.set("/", b""))
    stage.loop.advance(0.1)
    stage.switch(is_mute=False)
    stage.loop.do(stage.ensemble.cut)
    assert setting.result(5).version == 1


# States.


def test_a_lost_link_is_only_a_pause(stage: ClientStage) -> None:
    client = stage.open()
    states: list[str] = []
    changed = threading.Semaphore(0)

    def listener(state: ClientState) -> None:
        states.append(state)
        changed.release()

    client.add_listener(listener)
    stage.switch(is_mute=True)
    setting = client.set_async("/", b"1")
    stage.loop.do(lambda: None)
    stage.switch(is_mute=False)
    stage.loop.do(stage.ensemble.cut)
    assert setting.result(5).version == 1
    for _ in range(2):
        assert changed.acquire(timeout=5)
    assert states == ["SUSPENDED", "CONNECTED"]
    client.remove_listener(listener)
    client.remove_listener(listener)


def test_a_listener_can_remove_itself(stage: ClientStage) -> None:
    client = stage.open()
    states: list[str] = []

    def once(state: ClientState) -> bool:
        states.append(state)
        return True

    client.add_listener(once)
    for _ in range(2):
        stage.loop.do(stage.ensemble.cut)
        stage.loop.advance(0.2)
        client.sync()
    assert states == ["SUSPENDED"]


def test_a_request_without_a_reply_times_out(stage: ClientStage) -> None:
    client = stage.open(timeout_s=2)
    stage.switch(is_deaf=True)
    setting, reading = called(lambda: client.set("/", b"")), client.get_async("/")
    while not stage.loop.do(lambda: client._open_session()._core._outstanding._sent):
        pass
    stage.loop.advance(2.1)
    with pytest.raises(OperationTimeoutError) as caught:
        setting.result(5)
    assert not caught.value.definite
    error = reading.exception(5)
    assert isinstance(error, OperationTimeoutError)
    assert error.definite


def test_a_session_is_lost_on_time(stage: ClientStage) -> None:
    client = stage.open()
    events: list[WatchedEvent] = []
    client.exists("/a", watch=events.append)
    stage.switch(is_deaf=True)
    reading = client.get_async("/")
    while not reading.done():
        stage.loop.advance(1)
    assert isinstance(reading.exception(5), SessionExpiredError)
    assert client.state is ClientState.LOST
    with pytest.raises(SessionExpiredError):
        client.get("/")
    assert [(event.type, event.state) for event in events] == [(EventType.NONE, "LOST")]


def test_a_session_is_lost_before_its_loop_runs(stage: ClientStage) -> None:
    client = stage.open()
    stage.loop.seconds += 8.6
    assert client.state is ClientState.LOST


def test_a_failed_opening_names_the_reason(stage: ClientStage) -> None:
    stage.switch(is_down=True)
    opening = called(lambda: stage.open(timeout_s=3))
    while not opening.done():
        stage.loop.advance(0.5)
    with pytest.raises(ConnectionLossError, match="server 3: nobody answers at 3"):
        opening.result()


def test_close_ends_the_session(stage: ClientStage) -> None:
    with stage.open() as client:
        client.create_async("/a")
    assert isinstance(stage.ensemble.requests[-1], CloseSession)
    assert client.state is ClientState.LOST
    with pytest.raises(ClosedError, match="the client was closed"):
        client.get("/a")
    client.close()


def test_a_callback_may_close_the_client(stage: ClientStage) -> None:
    client = stage.open()
    closed = threading.Event()

    def close(_: WatchedEvent) -> None:
        client.close()
        closed.set()

    client.get("/", watch=close)
    client.set_async("/", b"")
    assert closed.wait(5)
