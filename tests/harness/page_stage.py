"""The page of `raykeeper ui` over pure servers, served on this machine's loopback address."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.client import AsyncClient
from raykeeper.clusters.admin import EnsembleAdmin
from raykeeper.clusters.ensemble_status import EnsembleStatus, summarize
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.commands.ui.access import AccessControl
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.web_server import PageServer, served
from raykeeper.zab.ids import ServerId
from tests.harness.admin_servers import AdminServers
from tests.harness.pure_links import PureDialer
from tests.harness.pure_servers import OPTIONS, PureServers

TOKEN = "open-sesame"
NAME = "coord"
T = TypeVar("T")


class PureSource:
    """Three pure servers, of which 3 leads; those in `silent` do not answer."""

    def __init__(self, servers: PureServers | None = None) -> None:
        self.name = NAME
        self.value_bytes_max = 1 << 20
        self.servers = servers or PureServers(3, options=OPTIONS)
        self.asked = AdminServers(self.servers)
        self.dialer = PureDialer(self.servers)
        self.problem: Exception | None = None
        """Raised in place of every answer."""
        self.keeper_status: KeeperStatus | None = None
        self.connect_s = 5.0
        """How long a client waits for a session and for an answer."""

    async def ask(self, question: Callable[[EnsembleAdmin], T]) -> T:
        if self.problem is not None:
            raise self.problem
        self._find_dead()
        return question(EnsembleAdmin(self.asked))

    async def status(self) -> EnsembleStatus:
        if self.problem is not None:
            raise self.problem
        self._find_dead()
        heard: dict[ServerId, ReplicaStatus | str] = {}
        for each in self.asked.ids():
            heard[each] = self.asked.silent.get(each) or self._status_of(each)
        return summarize(self.name, heard)

    async def keeper(self) -> KeeperStatus | None:
        return self.keeper_status

    async def connect(self) -> AsyncClient:
        return await self.dialer.connect(timeout_s=self.connect_s)

    def pass_time(self, ms: int) -> None:
        """Let time pass for the servers."""
        self.servers.pass_time(ms)
        self.dialer.rest()

    def _find_dead(self) -> None:
        self.asked.hosts = dict(self.servers.hosts)
        for server in self.servers.down:
            self.asked.silent[server] = "its actor is dead"

    def _status_of(self, server: ServerId) -> ReplicaStatus:
        stats = self.servers[server].server.stats()
        return ReplicaStatus(
            server_id=server,
            role=stats.role.value,
            pid=1000 + server,
            node_id=f"node{server}",
            is_active=stats.is_active,
            leader=stats.leader,
            epoch=stats.epoch,
            last_zxid=stats.last_zxid,
            votes=stats.has_vote,
            links=dict.fromkeys(stats.linked, "linked"),
            sessions=stats.sessions,
            znodes=stats.znodes,
        )


class Page:
    """A page that is served, and a browser's end of plain HTTP without cookies of its own."""

    def __init__(self, source: PureSource, server: PageServer, port: int) -> None:
        self.source = source
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.http = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def request(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Return status and body of an answer: a document, or text."""
        more.setdefault("allow_redirects", False)
        async with self.http.request(method, f"{self.url}{path}", **more) as response:
            if response.content_type == "application/json" and method != "HEAD":
                return response.status, await response.json()
            return response.status, await response.text()

    async def get(self, where: str, /, **query: str) -> tuple[int, Any]:
        """Ask as a program does, with the token."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return await self.request("GET", where, params=query, headers=headers)

    async def visit(self) -> None:
        """Sign in; the cookie is kept."""
        status, _ = await self.request("GET", f"/?token={TOKEN}")
        assert status == 303


@asynccontextmanager
async def open_page(
    source: PureSource | None = None, port: int = 0, **settings: Any
) -> AsyncIterator[Page]:
    """Serve a page; it looks at the load only when a test says so, but for the first time."""
    source = source or PureSource()
    given = PageSettings(**{"interval_s": 3_600.0, **settings})
    server = PageServer(source, AccessControl(TOKEN, b"key"), given)
    async with served(server, port) as found:
        page = Page(source, server, found)
        try:
            yield page
        finally:
            await page.http.close()
