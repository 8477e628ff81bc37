"""The processes of one load: start them, let them begin at the same moment, collect the reports.

Every process is a child of this one and is waited for; if one fails, the others are killed.
"""

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psutil

from raykeeper.bench.errors import BenchError
from raykeeper.bench.loads.task import (
    END,
    GO,
    READY,
    LoadReport,
    LoadTask,
    decode_report,
    task_arguments,
)

START_S = 60.0
"""How long the processes of a load may take to connect, ..."""
OPEN_S = 0.02
"""... and longer for each of their sessions."""
ERROR_TAIL_BYTES = 2_000
GENERATE = (sys.executable, "-m", "raykeeper.bench.loads.generate")
_BURN = (sys.executable, "-c", "while True: pass")


class LoadProcesses:
    """A load that is ready to begin. A context manager that ends its processes."""

    def __init__(
        self,
        command: Sequence[str],
        tasks: Sequence[LoadTask],
        *,
        niceness: int = 0,
        environment: dict[str, str] | None = None,
    ) -> None:
        """Start the processes and wait until all are connected.

        Args:
            command: The command of the generator; the arguments of each task are appended.
            tasks: The task of each process.
            niceness: The niceness of the servers' processes; the generators get at least this one,
                because both compete for the same cores.
            environment: Variables to add to those of this process.

        Raises:
            BenchError: a process ended or was not ready in time.
        """
        self._lines: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[str]] = []
        self._stderr_files: list[IO[bytes]] = []
        self._have_reported = False  # of the round that began last
        self._ready = 0  # processes that wait for a round
        try:
            for task in tasks:
                self._start([*command, *task_arguments(task)], niceness, environment or {})
            start_s = START_S + OPEN_S * sum(task.clients for task in tasks)
            self.wait_until_ready(start_s)
        except BaseException:
            self._end()
            raise
        self.began = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._have_reported:
                self._finish()
        finally:
            self._end()

    @property
    def pids(self) -> list[int]:
        """The process ids of the generators."""
        return [process.pid for process in self._processes]

    def begin(self, **changes: float) -> float:
        """Let all processes begin, as soon as all are ready, and return the moment.

        `changes` are fields of their tasks; only for the kinds that are `REPEATED`.

        Raises:
            BenchError: a process ended, or was not ready in time after the round before.
        """
        self.wait_until_ready(START_S)
        self._ready = 0
        line = " ".join(f"{name}={value}" for name, value in changes.items())
        self._have_reported = False
        self.began = time.monotonic()
        self._write_line(line or GO)
        return self.began

    def stop(self) -> None:
        """Tell all processes to stop, if the kind of the load has no end of its own."""
        self._write_line("stop")

    def reports(self, patience_s: float) -> list[LoadReport]:
        """Wait until all processes have reported, and return their reports.

        Raises:
            BenchError: a process ended without a report, or none reported for `patience_s`.
        """
        found = [""] * len(self._processes)
        for _ in found:
            index, line = self._take(lambda line: line.startswith("{"), patience_s)
            found[index] = line
        self._have_reported = True
        return [decode_report(line) for line in found]

    def wait_until_ready(self, patience_s: float) -> None:
        """Wait until all processes are ready, for the first time or after `begin`.

        Raises:
            BenchError: a process ended, or none printed anything for `patience_s`.
        """
        while self._ready < len(self._processes):
            self._take(READY.__eq__, patience_s)

    def _finish(self) -> None:
        """Let the processes close their sessions and end, as far as they do in time."""
        for process in self._processes:
            assert process.stdin is not None
            with suppress(OSError):  # it has ended
                process.stdin.write(END + "\n")
                process.stdin.flush()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(START_S)

    def _write_line(self, line: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _start(self, words: list[str], niceness: int, environment: dict[str, str]) -> None:
        complaint = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the load
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaint,
            text=True,
            env={**os.environ, **environment},
        )
        self._stderr_files.append(complaint)
        self._processes.append(process)
        measured = psutil.Process(process.pid)
        if measured.nice() < niceness:
            measured.nice(niceness)
        reader = threading.Thread(target=self._read, args=[len(self._processes) - 1], daemon=True)
        reader.start()

    def _read(self, index: int) -> None:
        stdout = self._processes[index].stdout
        assert stdout is not None
        for line in stdout:
            if line.endswith("\n"):  # else it ended in the middle of it
                self._lines.put((index, line.rstrip("\n")))
        self._lines.put((index, ""))  # it ended

    def _take(self, is_wanted: Callable[[str], object], patience_s: float) -> tuple[int, str]:
        """Return the next line that `is_wanted` accepts, and skip all others."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                index, line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise BenchError(
                    f"no load generator has printed anything for {patience_s:g} s"
                ) from None
            if line == READY:
                self._ready += 1
            if is_wanted(line):
                return index, line
            if not line and (status := self._processes[index].wait()) != 0:
                self._stderr_files[index].seek(0)
                told = (
                    self._stderr_files[index]
                    .read()[-ERROR_TAIL_BYTES:]
                    .decode(errors="replace")
                    .strip()
                )
                raise BenchError(
                    f"a load generator failed: {told or f'its exit status is {status}'}"
                )

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # it ended before it read what was last written
                        pipe.close()
        for complaint in self._stderr_files:
            complaint.close()


def compile_java(source: Path, classpath: str, folder: Path) -> None:
    """Compile the Java generator into `folder`.

    Raises:
        BenchError: the compiler fails.
    """
    done = subprocess.run(
        ["javac", "-proc:none", "-implicit:none", "-cp", classpath, "-d", folder, source],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(
            f"javac does not compile {source.name}: {done.stderr.strip()[-ERROR_TAIL_BYTES:]}"
        )


@contextmanager
def burning(count: int, niceness: int) -> Iterator[None]:
    """Have `count` processes of this niceness take all the processor time that they get."""
    processes = [subprocess.Popen(_BURN) for _ in range(count)]
    try:
        for process in processes:
            psutil.Process(process.pid).nice(niceness)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
