"""ZooKeeper's admin server: its commands over HTTP, `GET /commands/NAME`, each a JSON document.

It only tells, and nobody who asks is authenticated. The package aiohttp speaks HTTP; only this file
needs it, and only where the port is set. Bound: `CONNECTIONS_MAX` connections, and those that come
in the same turn of the loop; a further one is closed.

ZooKeeper: `JettyAdminServer`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from raykeeper.links.retried_port import RetriedPort
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
        self._answer = answer
        self._address = address
        self._wanted = port
        self._loop = asyncio.get_running_loop()
        self._port = RetriedPort("admin", address, port, log)
        self._http: Server | None = None
        self._listening = self._loop.create_task(self._listen())

    @property
    def port(self) -> int:
        """The port that it listens on, 0 while it does not."""
        return self._port.number

    @property
    def problem(self) -> str:
        """Why nothing listens, "" if it does, or has not been tried yet."""
        return self._port.problem

    async def listening(self) -> None:
        """Wait until it listens, or never will."""
        await self._listening

    async def close(self) -> None:
        """End the port and its connections."""
        self._listening.cancel()
        self._port.close()
        if self._http is not None:
            await self._http.shutdown(timeout=CLOSE_S)

    async def _listen(self) -> None:
        try:
            from aiohttp import web
        except ImportError:
            self._port.report(MISSING)
            return
        self._http = web.Server(self._on_request, access_log=None)
        await self._port.open(self._create_server)

    def _create_server(self) -> Awaitable[asyncio.Server]:
        return self._loop.create_server(self._on_connection, self._address, self._wanted)

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


class _Refusal(asyncio.Protocol):
    """The end of a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _number(value: Any) -> float:
    assert isinstance(value, Average), value
    return float(str(value))
