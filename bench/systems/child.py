"""A server process that is a child of ours: started, killed, started again, stopped by its pid."""

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
    """One server; it writes what it prints to a file."""

    def __init__(
        self, words: Sequence[str], printed: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._words = list(words)
        self._printed = printed
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """0 when it is down."""
        return self._process.pid if self._process is not None and self.is_up() else 0

    def is_up(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, unless it runs."""
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
        """SIGKILL: the moment."""
        moment = time.monotonic()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        return moment

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not help."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def output_tail(self) -> str:
        """The end of what it printed."""
        return self._printed.read_bytes()[-OUTPUT_TAIL_BYTES:].decode(errors="replace").strip()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface on which nobody listens now, all different."""
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
    """Ask until it is so; a system has no event to wait for.

    Raises:
        BenchError: it takes too long, or a server ended; with what a server printed.
    """
    deadline = time.monotonic() + patience_s
    while not found():
        ended = [child for child in children if not child.is_up()]
        if ended or time.monotonic() > deadline:
            what = "ended" if ended else f"does not serve after {patience_s:g} s"
            raise BenchError(f"a server {what}: {(ended or children)[0].output_tail()}")
        time.sleep(_POLL_S)
