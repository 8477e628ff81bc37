"""The admin server: HTTP in, a JSON document out; a port that is taken, a missing package."""

import asyncio
import http.client
import json
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from raykeeper.actors import admin_server
from raykeeper.actors.admin_server import AdminServer
from raykeeper.links import retried_port
from raykeeper.server.admin_commands import COMMANDS, Document
from raykeeper.server.monitoring import Average

HERE = "127.0.0.1"


class Stage:
    """An admin server, and what it logs."""

    def __init__(self, port: int = 0) -> None:
        self.lines: list[str] = []
        self.logged = asyncio.Event()
        self.server = AdminServer(HERE, port, self.answer, self.log)

    async def answer(self, name: str) -> Document:
        return {"average": Average(1, 3), "count": 7, "command": name, "error": None}

    def log(self, name: str, **_fields: Any) -> None:
        self.lines.append(name)
        self.logged.set()

    async def ask(self, method: str, path: str) -> tuple[int, str, str]:
        """Return status, type and text of an answer."""

        def request() -> tuple[int, str, str]:
            connection = http.client.HTTPConnection(HERE, self.server.port, timeout=60)
            try:
                connection.request(method, path)
                answer = connection.getresponse()
                return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
            finally:
                connection.close()

        return await asyncio.to_thread(request)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_a_command_is_answered_with_a_document() -> None:
    async def scenario() -> None:
        stage = Stage()
        await stage.server.listening()
        assert stage.lines == ["admin.listens"] and stage.server.problem == ""
        for path in ("/commands/monitor", "/commands/monitor/", "/commands/monitor?pretty=1"):
            status, kind, text = await stage.ask("GET", path)
            assert (status, kind) == (200, "application/json; charset=utf-8")
            assert json.loads(text) == {
                "average": 0.3333,
                "count": 7,
                "command": "monitor",
                "error": None,
            }
        status, kind, text = await stage.ask("GET", "/commands")
        assert status == 200 and kind.startswith("text/html")
        assert [f">{name}<" in text for name in COMMANDS] == [True] * len(COMMANDS)
        for method, path, expected in (
            *(("GET", "/", 404), ("GET", "/monitor", 404), ("GET", "/commands/a/b", 404)),
            *(("POST", "/commands/monitor", 405), ("HEAD", "/commands/ruok", 200)),
        ):
            assert (await stage.ask(method, path))[0] == expected, (method, path)
        await stage.server.close()
        assert stage.server.port == 0

    run(scenario)


def test_one_connection_too_many_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_server, "CONNECTIONS_MAX", 1)

    async def scenario() -> None:
        stage = Stage()
        await stage.server.listening()
        answered, held = await asyncio.open_connection(HERE, stage.server.port)
        held.write(b"GET /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await answered.readline() == b"HTTP/1.1 200 OK\r\n"
        reader, refused = await asyncio.open_connection(HERE, stage.server.port)
        assert await reader.read() == b""
        for writer in (held, refused):
            writer.close()
        await stage.server.close()

    run(scenario)


def test_a_port_that_is_taken_is_tried_until_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retried_port, "LISTEN_RETRY_S", 0.01)

    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind((HERE, 0))
            taken.listen()
            port = taken.getsockname()[1]
            stage = Stage(port)
            await stage.logged.wait()
            assert stage.server.problem.startswith(f"cannot listen at {HERE}:{port}: ")
        await stage.server.listening()
        assert stage.server.port == port and stage.server.problem == ""
        assert stage.lines == ["admin.off", "admin.listens"], "once, not for each attempt"
        await stage.server.close()

    run(scenario)


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    async def scenario() -> None:
        stage = Stage()
        await stage.server.listening()
        assert stage.lines == ["admin.off"] and stage.server.port == 0
        assert "pip install 'raykeeper[admin]'" in stage.server.problem
        await stage.server.close()

    run(scenario)
