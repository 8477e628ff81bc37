"""The application of the page, and its port.

Every request passes `_guard`: is it from here, and from somebody who has the token? What is served
without the token has no data: the login page, the style and the scripts.
"""

import asyncio
import contextlib
import logging
import mimetypes
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from raykeeper.commands.ui.access import (
    HEADERS,
    SAFE_METHODS,
    AccessControl,
    foreign_problem,
)
from raykeeper.commands.ui.answers import ApiError, error_answer
from raykeeper.commands.ui.backups import BackupRoutes
from raykeeper.commands.ui.errors import PageError
from raykeeper.commands.ui.load_feed import LoadFeed
from raykeeper.commands.ui.settings import PageSettings
from raykeeper.commands.ui.source import Source
from raykeeper.commands.ui.tables import TableRoutes
from raykeeper.commands.ui.viewers import Viewers
from raykeeper.commands.ui.znodes import ZnodeRoutes
from raykeeper.zab.errors import RayKeeperError

ADDRESS: Final = "127.0.0.1"
PAGE: Final = Path(__file__).parent / "page"
LOGIN_BYTES_MAX: Final = 4_096
HEAD_BYTES: Final = 64 << 10
"""What the body of a change may have besides the value."""
CLOSE_S: Final = 1.0
"""How long an answer that is under way may take when the server stops."""
IDLE_CHECK_S: Final = 10.0
WRONG_TOKEN: Final = "That is not the token. Nothing is shown without it."
NO_TOKEN: Final = "the token is missing or wrong: sign in, or send it as `Authorization: Bearer …`"

_log = logging.getLogger("raykeeper.ui")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer:
    """The routes of one page, and what stands behind them."""

    def __init__(self, source: Source, access: AccessControl, settings: PageSettings) -> None:
        """Use on a running event loop; `app` is the application to serve."""
        self.feed = LoadFeed(source, settings.interval_s, settings.looks_kept)
        self.viewers = Viewers(source, settings.viewers_max, settings.idle_s)
        self._access = access
        self._cookie = f"raykeeper-{secrets.token_hex(4)}"  # two servers on one host share cookies
        self._files = {file.name: file.read_bytes() for file in sorted(PAGE.iterdir())}
        tables = TableRoutes(source, self.feed, self.viewers, self._viewer_of, settings)
        znodes = ZnodeRoutes(self.viewers, self._viewer_of, settings)
        backups = BackupRoutes(source, settings)
        self.app = web.Application(
            middlewares=[self._guard],
            client_max_size=source.value_bytes_max * 4 // 3 + HEAD_BYTES,
        )
        self.app.on_response_prepare.append(_add_headers)
        self.app.cleanup_ctx.append(self._background)
        self.app.on_shutdown.append(self._on_shutdown)
        self.app.add_routes(
            [
                web.get("/", self._index),
                web.post("/login", self._login),
                web.get("/static/{name}", self._static),
                *tables.routes(),
                *znodes.routes(),
                *backups.routes(),
            ]
        )

    async def _background(self, _app: web.Application) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self.feed.run()),
            asyncio.create_task(self._close_idle_viewers()),
        ]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.viewers.close_all()

    async def _on_shutdown(self, _app: web.Application) -> None:
        self.feed.close()  # streams would not end by themselves

    async def _close_idle_viewers(self) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_S)
            await self.viewers.close_idle()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            problem = foreign_problem(request.method, request.headers)
            if problem is not None:
                raise ApiError(403, problem)
            if request.path.startswith("/api/"):
                self._viewer_of(request)  # raises if there is none
            return await handler(request)
        except RayKeeperError as error:
            return error_answer(error)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return error_answer(ApiError(error.status, f"{error.reason}: {request.path}"))
        except ConnectionResetError:
            raise  # the visitor has gone
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return error_answer(ApiError(500, "an error of the page itself; its terminal shows it"))

    def _viewer_of(self, request: web.Request) -> str:
        viewer = self._access.viewer_of(request.cookies.get(self._cookie, ""))
        if viewer is not None:
            return viewer
        if self._access.has_token(request.headers.get("Authorization", "")):
            if request.path == "/api/v1/identities" and request.method not in SAFE_METHODS:
                raise ApiError(403, "an identity belongs to a viewer with a cookie; open / first")
            return ""  # all programs without a cookie are one viewer, without identities
        raise ApiError(401, NO_TOKEN)

    async def _index(self, request: web.Request) -> web.StreamResponse:
        token = request.query.get("token")
        if token is not None:
            return self._admit(token)
        if self._access.viewer_of(request.cookies.get(self._cookie, "")) is None:
            return self._login_page(401, "")
        return web.Response(body=self._files["index.html"], content_type="text/html")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        if (request.content_length or 0) > LOGIN_BYTES_MAX or request.content_length is None:
            raise ApiError(413, f"a login has at most {LOGIN_BYTES_MAX} bytes")
        form = await request.post()
        return self._admit(str(form.get("token", "")).strip())

    def _admit(self, token: str) -> web.StreamResponse:
        if not self._access.is_token(token):
            return self._login_page(403, WRONG_TOKEN)
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            self._cookie, self._access.new_cookie(), path="/", httponly=True, samesite="Strict"
        )
        return response

    def _login_page(self, status: int, problem: str) -> web.Response:
        page = self._files["login.html"].replace(b"<!-- problem -->", problem.encode())
        return web.Response(body=page, content_type="text/html", status=status)

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._files or name.endswith(".html"):
            raise web.HTTPNotFound
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return web.Response(body=self._files[name], content_type=kind, charset="utf-8")


@contextlib.asynccontextmanager
async def served(page: PageServer, port: int) -> AsyncIterator[int]:
    """Serve a page on this machine's loopback address while the block runs; its port.

    Raises:
        PageError: the port is taken, or not allowed.
    """
    runner = web.AppRunner(page.app, access_log=None, shutdown_timeout=CLOSE_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, ADDRESS, port)
        try:
            await site.start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise PageError(
                f"cannot listen at {ADDRESS}:{port}: {reason}; name another port with --port, "
                "0 for any"
            ) from None
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
