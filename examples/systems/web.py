"""A small web server on loopback, and how to ask it: for examples that have to do with the web."""

import threading
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

HOST = "127.0.0.1"
Page = Callable[[str, str], str]
"""The text at a path, for a user agent."""


class _Site(SimpleHTTPRequestHandler):
    def __init__(self, page: Page, *args: Any) -> None:
        self._page = page
        super().__init__(*args)

    def send_head(self) -> BytesIO:
        """Called for each GET."""
        text = self._page(self.path, self.headers["User-Agent"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        return BytesIO(text)

    def log_request(self, code: object = "", size: object = "") -> None:
        """The stories are told elsewhere."""


def serve(page: Page) -> int:
    """Answer with what `page` returns for as long as this process lives; the port."""
    server = ThreadingHTTPServer((HOST, 0), partial(_Site, page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def fetch(port: int, path: str, agent: str) -> str:
    """The text at a path.

    Raises:
        OSError: nobody answers there.
        HTTPException: whoever answered broke off.
    """
    connection = HTTPConnection(HOST, port, timeout=100)
    connection.request("GET", path, headers={"User-Agent": agent})
    return connection.getresponse().read().decode()
