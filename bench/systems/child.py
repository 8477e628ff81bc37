"""Server processes that are children of this one: start, kill, restart, and stop them by pid."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from raykeeper.bench.errors import BenchError

OUTPUT_TAIL_BYTES = 2_000
_STOP_S = 10.0
_POLL_S = 0.02


class ChildProcess:
    """One server process; its output goes to a file."""

    def __init__(
        self, words: Sequence[str], printed: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._words = list(words)
        self._printed = printed
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the pid; 0 when the process is down."""
        return self._process.pid if self._process is not None and self.is_up() else 0

    def is_up(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.is_up():
            return
        with self._printed.open("ab") as printed:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env=self._environment,
            )

    def kill(self) -> float:
        """Send SIGKILL, and return the moment."""
        moment = time.monotonic()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        return moment

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def output_tail(self) -> str:
        """Return the end of its output."""
        return self._printed.read_bytes()[-OUTPUT_TAIL_BYTES:].decode(errors="replace").strip()


def free_ports(count: int) -> list[int]:
    """Return different free ports of the loopback interface."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_until(
    found: Callable[[], bool], patience_s: float, children: Sequence[ChildProcess]
) -> None:
    """Poll until `found` returns True; the systems offer no event to wait for.

    Raises:
        BenchError: it takes too long, or a server ended; contains the output of a server.
    """
    deadline = time.monotonic() + patience_s
    while not found():
        ended = [child for child in children if not child.is_up()]
        if ended or time.monotonic() > deadline:
            what = "ended" if ended else f"does not serve after {patience_s:g} s"
            raise BenchError(f"a server {what}: {(ended or children)[0].output_tail()}")
        time.sleep(_POLL_S)
