"""A port that is tried every second until it opens.

Another process, or the server's own predecessor, may still have it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

LISTEN_RETRY_S: Final = 1.0


class RetriedPort:
    """One port of the running loop."""

    def __init__(self, name: str, address: str, port: int, log: Callable[..., None]) -> None:
        """`name` begins the names of the log lines. A `port` of 0 is one that the system picks."""
        self.problem = ""
        """Why nothing listens, "" if it does, or has not been tried yet."""
        self._name = name
        self._address = address
        self._wanted = port
        self._log = log
        self._server: asyncio.Server | None = None

    @property
    def number(self) -> int:
        """The port that it listens on, 0 while it does not."""
        if self._server is None or not self._server.sockets:
            return 0
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self, create_server: Callable[[], Awaitable[asyncio.Server]]) -> None:
        """Create the server that listens; an OSError is a reason to try again."""
        while True:
            try:
                self._server = await create_server()
            except OSError as error:
                self.report(f"cannot listen at {self._address}:{self._wanted}: {error}")
                await asyncio.sleep(LISTEN_RETRY_S)
            else:
                self.problem = ""
                self._log(f"{self._name}.listens", address=self._address, port=self.number)
                return

    def report(self, problem: str) -> None:
        """Set `problem`; log the first of several, until it listens."""
        if not self.problem:
            self._log(f"{self._name}.off", reason=problem)
        self.problem = problem

    def close(self) -> None:
        """Take no more connections."""
        if self._server is not None:
            self._server.close()
