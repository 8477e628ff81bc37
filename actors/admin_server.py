"""ZooKeeper's admin server: its commands over HTTP, `GET /commands/NAME`, each a JSON document.

It only tells, and nobody who asks is authenticated. The package aiohttp speaks HTTP; only this file
needs it, and only where the port is set. Bound: `CONNECTIONS_MAX` connections, and those that come
in the same turn of the loop; a further one is closed.

The port is tried again every second until it is free, as that of ZooKeeper's clients.

ZooKeeper: `JettyAdminServer`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from raykeeper.links.jute_listener import LISTEN_RETRY_S
from raykeeper.server.admin_commands import COMMANDS, Document
from raykeeper.server.monitoring import Average

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, Response, Server

CONNECTIONS_MAX: Final = 100
CLOSE_S: Final = 1.0
"""How long an answer that is under way may take when the server stops."""
PREFIX: Final = "/commands"
MISSING: Final = (
    "the package aiohttp is not installed on its node: pip install 'raykeeper[admin]', and launch "
    "the ensemble again"
)


class AdminServer:
    """Answers on one port, on the running loop, from its construction on."""

    def __init__(
        self,
        address: str,
        port: int,
        answer: Callable[[str], Awaitable[Document]],
        log: Callable[..., None],
    ) -> None:
        """`answer` returns the document for the name of a command; `log` takes a name and fields.

        A port of 0 is one that the system picks.
        """
        self.problem = ""
        """Why nothing listens, "" if it does, or has not been tried yet."""
        self.port = 0
        """The port that it listens on, 0 while it does not."""
        self._address = address
        self._wanted = port
        self._answer = answer
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._http: Server | None = None
        self._server: asyncio.Server | None = None
        self._listening = self._loop.create_task(self._listen())

    async def listening(self) -> None:
        """Wait until it listens, or never will."""
        await self._listening

    async def close(self) -> None:
        """End the port and its connections."""
        self._listening.cancel()
        self.port = 0
        if self._server is not None:
            self._server.close()
        if self._http is not None:
            await self._http.shutdown(timeout=CLOSE_S)

    async def _listen(self) -> None:
        try:
            from aiohttp import web
        except ImportError:
            self._note(MISSING)
            return
        self._http = web.Server(self._on_request, access_log=None)
        while True:
            try:
                self._server = await self._loop.create_server(
                    self._on_connection, self._address, self._wanted
                )
            except OSError as error:
                self._note(f"cannot listen at {self._address}:{self._wanted}: {error}")
                await asyncio.sleep(LISTEN_RETRY_S)
            else:
                self.problem = ""
                self.port = int(self._server.sockets[0].getsockname()[1])
                self._log("admin.listens", address=self._address, port=self.port)
                return

    def _on_connection(self) -> asyncio.Protocol:
        assert self._http is not None, "it was made before the port"
        if len(self._http.connections) >= CONNECTIONS_MAX:
            return _Refusal()
        return self._http()

    async def _on_request(self, request: "BaseRequest") -> "Response":
        from aiohttp import web

        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="only GET\n", headers={"Allow": "GET, HEAD"})
        path = request.path.rstrip("/")
        if path == PREFIX:
            links = "".join(f'<a href="{PREFIX}/{name}">{name}</a><br/>\n' for name in COMMANDS)
            return web.Response(text=links, content_type="text/html")
        parent, _, name = path.rpartition("/")
        if parent != PREFIX:
            return web.Response(status=404, text=f"the commands are below {PREFIX}\n")
        document = await self._answer(name)
        return web.json_response(text=json.dumps(document, indent=2, default=_number))

    def _note(self, problem: str) -> None:
        if not self.problem:
            self._log("admin.off", reason=problem)
        self.problem = problem


class _Refusal(asyncio.Protocol):
    """The end of a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _number(value: Any) -> float:
    assert isinstance(value, Average), value
    return float(str(value))
