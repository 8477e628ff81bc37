"""The routes of the tables: what the commands print with `--json`, and the stream of looks."""

import json
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from raykeeper import __version__
from raykeeper.client import ClientState
from raykeeper.client.recipes.recipe import Awaited
from raykeeper.clusters.admin import ChildrenTable
from raykeeper.clusters.keeper_journal import Journal
from raykeeper.commands.keeper_reports import events_document, keeper_document
from raykeeper.commands.output import Document, session_field
from raykeeper.commands.reports import status_document
from raykeeper.commands.tables import (
    locks_document,
    servers_document,
    sessions_document,
    tree_document,
    watches_document,
)
from raykeeper.commands.ui.answers import ApiError, answer
from raykeeper.commands.ui.load_feed import LoadFeed
from raykeeper.commands.ui.query import number_in, path_in, session_in
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.source import Source
from raykeeper.commands.ui.viewers import Viewers
from raykeeper.server.admin_queries import ROWS_MAX
from raykeeper.zab.errors import RayKeeperError
from raykeeper.znodes.requests import SessionId

ROWS: Final = 100
"""Rows of a table, unless a request asks for another number."""
LOOKS_MAX: Final = 1 << 53


class TableRoutes:
    """Reads, of which none changes anything."""

    def __init__(
        self,
        source: Source,
        feed: LoadFeed,
        viewers: Viewers,
        viewer_of: Callable[[web.Request], str],
        settings: PageSettings,
    ) -> None:
        """`viewers` read what the keeper wrote; all else is asked of the servers themselves.

        `viewer_of` returns who sent a request.
        """
        self._source = source
        self._feed = feed
        self._viewers = viewers
        self._viewer_of = viewer_of
        self._settings = settings
        self._streams = 0

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, to be added to an application."""
        return [
            web.get("/api/v1/ensemble", self._ensemble),
            web.get("/api/v1/status", self._status),
            web.get("/api/v1/load", self._load),
            web.get("/api/v1/stream", self._stream, allow_head=False),
            web.get("/api/v1/sessions", self._sessions),
            web.get("/api/v1/locks", self._locks),
            web.get("/api/v1/watches", self._watches),
            web.get("/api/v1/sizes", self._sizes),
            web.get("/api/v1/children", self._children),
            web.get("/api/v1/events", self._events),
        ]

    async def _ensemble(self, _request: web.Request) -> web.Response:
        settings = self._settings
        return answer(
            {
                "name": self._source.name,
                "version": __version__,
                "may_edit": settings.may_edit,
                "interval_s": settings.interval_s,
                "looks_kept": settings.looks_kept,
                "shows_backups": bool(settings.backups),
                "value_bytes_max": self._source.value_bytes_max,
            }
        )

    async def _status(self, _request: web.Request) -> web.Response:
        document = status_document(await self._source.status())
        return answer({**document, "keeper": keeper_document(await self._source.keeper())})

    async def _load(self, _request: web.Request) -> web.Response:
        for look in reversed(await self._feed.after(0)):
            return answer(look)
        raise ApiError(503, "the page is being closed")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= self._settings.viewers_max:
            raise ApiError(503, f"{self._streams} pages are open; `--viewers` allows more")
        shown = {"after": request.headers.get("Last-Event-ID", request.query.get("after", "0"))}
        last = number_in(shown, "after", 0, 0, LOOKS_MAX)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            await response.prepare(request)
            while not self._feed.is_over:
                for look in await self._feed.after(last):
                    last = look["number"]
                    await response.write(f"id: {last}\ndata: {json.dumps(look)}\n\n".encode())
        except ConnectionResetError:
            pass  # the page was closed
        finally:
            self._streams -= 1
        return response

    async def _sessions(self, request: web.Request) -> web.Response:
        limit = number_in(request.query, "limit", ROWS, 1, ROWS_MAX)
        after = session_in(request.query, "after") or SessionId(0)
        table = await self._source.ask(lambda admin: admin.sessions(limit, after))
        return answer(sessions_document(self._source.name, table))

    async def _locks(self, request: web.Request) -> web.Response:
        path = path_in(request.query, "/")
        limit = number_in(request.query, "limit", ROWS, 1, ROWS_MAX)
        contenders = number_in(request.query, "contenders", 10, 1, ROWS_MAX)
        table = await self._source.ask(lambda admin: admin.locks(path, limit, contenders))
        return answer(locks_document(self._source.name, table))

    async def _watches(self, request: web.Request) -> web.Response:
        path = path_in(request.query, "")
        session = session_in(request.query, "session")
        limit = number_in(request.query, "limit", ROWS, 1, ROWS_MAX)
        table = await self._source.ask(lambda admin: admin.watches(path, session, limit))
        return answer(watches_document(self._source.name, table))

    async def _sizes(self, request: web.Request) -> web.Response:
        path = path_in(request.query, "/")
        depth = number_in(request.query, "depth", 1, 0, 20)
        largest = number_in(request.query, "largest", 20, 1, ROWS_MAX)
        table = await self._source.ask(lambda admin: admin.tree_sizes(path, depth, largest))
        return answer(tree_document(self._source.name, table))

    async def _children(self, request: web.Request) -> web.Response:
        path = path_in(request.query, "/")
        limit = number_in(request.query, "limit", ROWS, 1, ROWS_MAX)
        after = request.query.get("after", "")
        table = await self._source.ask(lambda admin: admin.children(path, after, limit))
        return answer(children_document(self._source.name, path, table))

    async def _events(self, request: web.Request) -> web.Response:
        entries, problem = [], ""
        known = {"has_keeper": False, "has_leader": False}
        try:
            async with self._viewers.client_of(self._viewer_of(request)) as client:
                journal: Journal[Awaited] = Journal(client)
                entries = await journal.read_entries()
                known["has_leader"] = client.state == ClientState.CONNECTED
            known["has_keeper"] = await self._source.keeper() is not None
        except RayKeeperError as error:
            problem = str(error)  # what the page saw itself is told all the same
        document = events_document(self._source.name, entries, **known)
        return answer({**document, "problem": problem, "changes": list(self._feed.changes)})


def children_document(name: str, path: str, table: ChildrenTable) -> Document:
    """Return the children of a znode; without a server that can tell them, none."""
    page = table.page
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "children": each.children,
            "value_bytes": each.value_bytes,
            "session_id": session_field(each.session_id),
        }
        for each in (page.rows if page is not None else ())
    ]
    return {
        "name": name,
        "servers": servers_document(table.servers),
        "told_by": table.told_by,
        "path": path,
        "children": rows,
        "last": "" if page is None else page.last,
        "total": 0 if page is None else page.total,
        "left_out": 0 if page is None else page.left_out,
    }
