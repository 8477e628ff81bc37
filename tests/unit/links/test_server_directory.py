"""ServerDirectory: what is asked of whom and when, with Ray's GCS there and away."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.links.server_directory import QuestionPace, ServerDirectory, shared_directory
from raykeeper.links.stream_endpoints import StreamAddress
from raykeeper.zab.ids import ServerId
from tests.contract.link_carriers import Calls

S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)
SERVERS = [S1, S2, S3]
NEVER_MS = 3_600_000


def address(port: int) -> StreamAddress:
    return StreamAddress("127.0.0.1", port, bytes(32))


class Servers:
    """Three actors with their addresses, and a GCS that can be away."""

    def __init__(self) -> None:
        self.there = threading.Event()
        self.there.set()
        self.has_left = False
        self.found: list[ServerId] = []
        self.asked: list[ServerId] = []
        self.answers: dict[ServerId, StreamAddress | Exception] = {}
        self.handles = {server: self.new_handle(server) for server in SERVERS}
        for server in SERVERS:
            self.answers[server] = address(server)

    def new_handle(self, server: ServerId) -> Calls:
        async def answer(method: str) -> StreamAddress:
            assert method == "link_address"
            self.asked.append(server)
            if self.handles[server] is not handle:
                raise RuntimeError("the actor died")
            answer = self.answers[server]
            if isinstance(answer, Exception):
                raise answer
            return answer

        handle = Calls(answer)
        return handle

    def directory(self, **options: Any) -> ServerDirectory:
        return ServerDirectory(self.find, self.check, **{"first_ms": 1, **options})

    def check(self) -> None:
        if self.has_left:
            raise RuntimeError("the process has left its cluster")

    def find(self, server: ServerId) -> Calls:
        self.found.append(server)
        self.there.wait()
        return self.handles[server]

    @staticmethod
    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)


async def known(servers: Servers, **options: Any) -> ServerDirectory:
    """A directory that knows all three servers."""
    directory = servers.directory(**options)
    directory.keep(SERVERS)
    await servers.wait(lambda: all(directory.address(server) for server in SERVERS))
    return directory


async def test_all_servers_that_are_kept_become_known() -> None:
    servers = Servers()
    directory = await known(servers)
    directory.keep(SERVERS)
    assert [directory.address(server) for server in SERVERS] == [address(s) for s in SERVERS]
    assert (sorted(servers.found), sorted(servers.asked)) == (SERVERS, SERVERS)


async def test_what_is_known_needs_neither_the_gcs_nor_a_call() -> None:
    servers = Servers()
    directory = await known(servers)
    servers.there.clear()
    for server in SERVERS:
        assert await directory.handle(server) is servers.handles[server]
        assert await directory.ask_address(server) == address(server)
        assert await directory.ask_address(server, stale=address(9)) == address(server)
    assert (len(servers.found), len(servers.asked)) == (3, 3)
    servers.there.set()


async def test_a_stale_address_is_asked_for_through_the_handle() -> None:
    servers = Servers()
    directory = await known(servers)
    servers.there.clear()
    servers.answers[S2] = address(22)
    assert await directory.ask_address(S2, stale=address(2)) == address(22)
    assert directory.address(S2) == address(22)
    assert (len(servers.found), len(servers.asked)) == (3, 4)
    servers.there.set()


async def test_nobody_is_asked_after_the_process_has_left_the_cluster() -> None:
    servers = Servers()
    directory = await known(servers, retry_ms=0)
    servers.has_left = True
    with pytest.raises(RuntimeError, match="left"):
        await directory.ask_address(S1, stale=address(1))
    directory.ask_again(S2)
    with pytest.raises(RuntimeError, match="left"):
        await directory.ask_address(S2, stale=address(2))
    with pytest.raises(RuntimeError, match="left"):
        await directory.handle(S3)
    assert directory.address(S1) == address(1)
    assert (len(servers.found), len(servers.asked)) == (3, 3)


async def test_dialers_share_one_question() -> None:
    servers = Servers()
    directory = servers.directory()
    answers = await asyncio.gather(*(directory.ask_address(S1) for _ in range(100)))
    assert (set(map(id, answers)), servers.found) == ({id(directory.address(S1))}, [S1])
    assert servers.asked == [S1]


async def test_the_answer_stays_when_the_dialer_is_gone() -> None:
    servers = Servers()
    directory = servers.directory()
    servers.there.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(directory.ask_address(S1), 0.01)
    servers.there.set()
    await servers.wait(lambda: directory.address(S1) == address(1))
    assert servers.found == [S1]


async def test_lookups_that_never_return_take_one_thread_each() -> None:
    servers = Servers()
    directory = servers.directory()
    servers.there.clear()
    for _ in range(3):
        for server in SERVERS:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(directory.handle(server), 0.001)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(directory.ask_address(server), 0.001)
    assert servers.found == SERVERS
    servers.there.set()


async def test_an_actor_of_the_same_name_is_looked_up_when_the_handle_fails() -> None:
    servers = Servers()
    directory = await known(servers)
    servers.handles[S1] = servers.new_handle(S1)
    servers.answers[S1] = address(11)
    assert await directory.ask_address(S1, stale=address(1)) == address(11)
    assert servers.found.count(S1) == 2
    assert await directory.handle(S1) is servers.handles[S1]


async def test_a_failure_changes_nothing_that_is_known() -> None:
    servers = Servers()
    directory = await known(servers)
    servers.answers[S1] = RuntimeError("the server is not running")
    with pytest.raises(RuntimeError, match="not running"):
        await directory.ask_address(S1, stale=address(1))
    assert directory.address(S1) == address(1)
    assert await directory.handle(S1) is servers.handles[S1]


async def test_a_server_that_does_not_answer_is_asked_again_until_it_does() -> None:
    servers = Servers()
    servers.answers[S1] = RuntimeError("the server is not running")
    directory = servers.directory(retry_ms=1, refresh_ms=NEVER_MS)
    directory.keep([S1])
    await servers.wait(lambda: servers.asked.count(S1) >= 3)
    assert directory.address(S1) is None
    servers.answers[S1] = address(1)
    await servers.wait(lambda: directory.address(S1) == address(1))


async def test_a_server_that_answers_is_asked_again_after_a_while() -> None:
    servers = Servers()
    directory = await known(servers, refresh_ms=1)
    servers.answers[S3] = address(33)
    await servers.wait(lambda: directory.address(S3) == address(33))


async def test_doubt_asks_in_the_background_but_not_twice_in_a_row() -> None:
    servers = Servers()
    directory = await known(servers, retry_ms=NEVER_MS)
    directory.ask_again(S1)
    await asyncio.sleep(0)
    assert servers.asked.count(S1) == 1
    directory = await known(servers, retry_ms=0)
    servers.answers[S1] = address(11)
    directory.ask_again(S1)
    await servers.wait(lambda: directory.address(S1) == address(11))


async def test_only_the_members_are_asked_in_the_background() -> None:
    servers = Servers()
    directory = await known(servers, refresh_ms=1)
    directory.keep_only([S2, S3])
    await asyncio.sleep(0)
    before = servers.asked.count(S1)
    await servers.wait(lambda: min(servers.asked.count(S2), servers.asked.count(S3)) > 5)
    assert servers.asked.count(S1) <= before + 1  # the question that was under way
    assert directory.address(S1) == address(1)
    assert await directory.ask_address(S1, stale=address(1)) == address(1)


async def test_the_servers_that_run_are_listed_once_in_a_while() -> None:
    lists: list[list[ServerId]] = [[S1]]
    often = Servers().directory(list_all=lambda: lists[-1], retry_ms=0)
    seldom = Servers().directory(list_all=lambda: lists[-1], retry_ms=NEVER_MS)
    for directory in (often, seldom):
        assert await directory.list_servers() == [S1]
    lists.append([S2])
    assert (await often.list_servers(), await seldom.list_servers()) == ([S2], [S1])


async def test_a_list_that_fails_is_told_and_not_asked_for_at_once() -> None:
    def fail() -> list[ServerId]:
        raise RuntimeError("the GCS is away")

    directory = Servers().directory(list_all=fail, retry_ms=NEVER_MS)
    with pytest.raises(RuntimeError, match="away"):
        await directory.list_servers()
    assert await directory.list_servers() == []


def test_the_pause_between_questions_doubles_until_nobody_wants_to_ask() -> None:
    pace = QuestionPace(1.0, 8.0)
    asked = [now for now in range(100, 140) if pace.may_ask(now)]
    assert asked == [100, 101, 103, 107, 115, 123, 131, 139]
    assert not pace.may_ask(140.0)
    assert [now for now in range(200, 206) if pace.may_ask(now)][:2] == [200, 201]


async def test_nothing_is_asked_for_a_directory_that_is_not_used_any_more() -> None:
    servers = Servers()
    directory = await known(servers, refresh_ms=1)
    freed = asyncio.Event()
    weakref.finalize(directory, freed.set)
    del directory
    gc.collect()
    async with asyncio.timeout(10):
        await freed.wait()
    asked = len(servers.asked)
    await asyncio.sleep(0.01)  # the timers come
    assert len(servers.asked) == asked


async def test_clients_of_one_loop_share_a_directory_as_long_as_they_use_it() -> None:
    servers = Servers()

    async def on_another_loop() -> ServerDirectory:
        return shared_directory("a", servers.find)

    directory = shared_directory("a", servers.find)
    assert shared_directory("a", servers.find) is directory
    assert shared_directory("b", servers.find) is not directory
    assert await asyncio.to_thread(asyncio.run, on_another_loop()) is not directory
    assert await directory.handle(S1) is servers.handles[S1]
    gone = weakref.ref(directory)
    del directory
    gc.collect()
    assert gone() is None
    await shared_directory("a", servers.find).handle(S1)
    assert servers.found == [S1, S1]
