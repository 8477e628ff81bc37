"""A blocking call over a stream runs in the waiting thread; the loop does everything else."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from raykeeper.client.client import Client
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientId, ClientState
from raykeeper.client.errors import NoNodeError, OperationTimeoutError, SessionExpiredError
from raykeeper.client.loop_thread import shared_loop
from raykeeper.links.stream_link import StreamLink
from raykeeper.znodes.requests import GetData
from tests.contract.client_handles import Open, open_blocking, options_of
from tests.contract.stream_room import StreamRoom
from tests.harness.client_stage import called


@pytest.fixture
def room() -> Iterator[StreamRoom]:
    room = StreamRoom()
    yield room
    room.close()


@pytest.fixture
def connect(room: StreamRoom) -> Iterator[Open]:
    opened: list[Client] = []

    def open_one(**options: Any) -> Client:
        opened.append(open_blocking(room)(**options))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def stuck_loop() -> Iterator[threading.Event]:
    """Block the clients' loop from a call of `stop_loop` until the event is set."""
    release = threading.Event()
    yield release
    release.set()


def stop_loop(release: threading.Event) -> None:
    begun = threading.Event()

    def stick() -> None:
        begun.set()
        release.wait(20)

    shared_loop().call_soon_threadsafe(stick)
    assert begun.wait(5)


def test_calls_need_no_other_thread(connect: Open, stuck_loop: threading.Event) -> None:
    client = connect()
    client.create("/a", b"v")
    stop_loop(stuck_loop)
    for _ in range(20):
        assert client.get("/a")[0] == b"v"
    assert client.create("/b") == "/b"
    assert client.set("/a", b"w").version == 1
    assert sorted(client.get_children("/")) == ["a", "b", "zookeeper"]
    with pytest.raises(NoNodeError):
        client.delete("/c")


def test_earlier_requests_leave_before_a_call(connect: Open, stuck_loop: threading.Event) -> None:
    client = connect()
    stop_loop(stuck_loop)
    first = client.create_async("/a", b"v")
    assert client.get("/a")[0] == b"v"
    assert first.done()


def test_a_watch_fires_without_a_call(connect: Open) -> None:
    client, other = connect(), connect()
    other.create("/a")
    for _ in range(20):
        fired: Future[Any] = Future()
        client.get("/a", watch=fired.set_result)
        other.set("/a", b"")
        assert fired.result(5).path == "/a"


def test_the_loop_listens_at_once_after_a_call_that_sets_a_watch(
    connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect()
    client.create("/a")
    told: list[bool] = []
    give_back = StreamLink.release_io

    def given_back(link: StreamLink, *, at_once: bool) -> None:
        told.append(at_once)
        give_back(link, at_once=at_once)

    monkeypatch.setattr(StreamLink, "release_io", given_back)
    client.get("/a")
    client.get("/a", watch=print)
    client.exists("/b", watch=print)
    client.get_children("/", watch=print)
    client.set("/a", b"")
    assert told == [False, True, True, True, False]


def test_a_watch_is_called_before_the_reply_behind_it(connect: Open) -> None:
    client = connect()
    client.create("/a")
    for _ in range(50):
        calls: list[str] = []
        client.get("/a", watch=lambda _, calls=calls: calls.append("event"))
        client.set("/a", b"")
        assert calls == ["event"]


def test_many_threads_share_a_handle(connect: Open) -> None:
    client = connect()
    client.create("/a")

    def work() -> list[int]:
        return [client.set("/a", b"").version for _ in range(40)]

    threads = [called(work) for _ in range(8)]
    versions = sorted(version for thread in threads for version in thread.result(60))
    assert versions == list(range(1, 321))


def test_threads_mix_calls_and_futures(connect: Open) -> None:
    client = connect()
    client.create("/a")

    def calls() -> int:
        return sum(client.get("/a")[1].version >= 0 for _ in range(200))

    def futures() -> int:
        return sum(client.set_async("/a", b"").result(20).version >= 0 for _ in range(200))

    assert [t.result(60) for t in (called(calls), called(futures), called(calls))] == [200] * 3


def test_a_call_inside_a_callback_is_answered(connect: Open) -> None:
    client = connect()
    client.create("/a", b"v")
    seen: Future[bytes] = Future()
    client.get("/a", watch=lambda _: seen.set_result(client.get("/a")[0]))
    client.set("/a", b"w")
    assert seen.result(5) == b"w"


def test_a_link_that_breaks_during_a_call_loses_no_reply(connect: Open, room: StreamRoom) -> None:
    client = connect()
    client.create("/a")
    for number in range(1, 6):
        room.mute()
        setting = called(lambda: client.set("/a", b""))
        room.cut_while(client.session_id, room.unmute)
        assert setting.result(20).version == number
    assert client.state is ClientState.CONNECTED


def test_a_call_that_is_not_answered_times_out(connect: Open, room: StreamRoom) -> None:
    client = connect(timeout_s=2.0, session_timeout_s=20.0)
    client.create("/a")
    room.mute()
    with pytest.raises(OperationTimeoutError):
        client.get("/a")
    room.unmute()
    assert client.get("/a")[0] == b""


def test_an_interrupt_in_the_middle_of_a_step_ends_the_session(connect: Open) -> None:
    class Interrupted:
        """Raises Ctrl-C while the thread receives its answer."""

        told = 0

        def has_arrived(self) -> bool:
            return False

        def complete(self, answer: Any) -> None:
            self.told += 1
            if self.told == 1:
                raise KeyboardInterrupt

        def fail(self, error: Any) -> None:
            raise AssertionError(error)

    client = connect()
    lost = threading.Event()
    client.add_listener(lambda state: state is ClientState.LOST and lost.set())
    live = client._open_session()
    with pytest.raises(KeyboardInterrupt):
        live._driver.call(Query(GetData, "/"), Interrupted())
    assert lost.wait(5)
    with pytest.raises(SessionExpiredError, match="interrupted in the middle of a step"):
        client.get("/")


def test_a_call_reports_that_its_session_was_taken_over(connect: Open) -> None:
    client = connect()
    assert isinstance(client.client_id, ClientId)
    taker = connect(client_id=client.client_id)
    taker.create("/a")
    with pytest.raises(Exception, match=r"[Ss]ession"):
        client.get("/a")


def test_the_loop_of_a_client_may_end_once_it_is_closed(room: StreamRoom) -> None:
    async def use() -> StreamLink:
        async with await room.open_session(options_of()) as client:
            assert await client.create("/a") == "/a"
            link = client._session._driver._main_link.shareable_stream()
            assert link is not None
        return link

    assert asyncio.run(use())._stream._socket.fileno() == -1
