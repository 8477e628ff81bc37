"""A client of the load: a Ray actor that opens one session after another.

It is an actor because the users of an ensemble are actors: it starts quickly, joins the cluster by
itself, and ends with its creator. The fault injector kills and freezes its process. The seed
decides the requests, but not the times of the answers, so it repeats a load only roughly.
"""

import os
import threading
from concurrent.futures import Future, wait
from pathlib import Path
from random import Random
from typing import Any

import ray
from msgspec import Struct
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raykeeper.chaos.checks.history import Read, Result
from raykeeper.chaos.history_file import HistoryFile
from raykeeper.chaos.recorded_session import RecordedSession
from raykeeper.chaos.workload import Workload
from raykeeper.client import connect

REQUEST_TIMEOUT_S = 20.0
_REQUESTS = (50, 2_000)
"""How many requests a session makes before a new session replaces it."""
_WINDOWS = (1, 2, 16)
_IDLE_S = (0.0, 0.01)


class LoadSettings(Struct, frozen=True):
    """Settings that all clients of one round share."""

    ensemble: str
    root: str
    """The path above all znodes of the load."""
    records: str
    """The folder of the record files, on a disk that all clients share."""
    seed: int
    session_timeouts_s: tuple[float, ...]
    """Each session draws one. A session with a long timeout stays with a frozen server."""
    writes_wait_for_reads: bool = True
    """A write is sent only after the reads before it are answered. By decision (docs/DECISIONS.md)
    a read that is sent again after a reconnect may see the write after it; the check of the
    session's order would report that as a violation."""


class LoadClient:
    """The actor. Call `start` once, and `stop` to end the load."""

    def __init__(self, settings: LoadSettings, name: str) -> None:
        """`name` belongs to this process alone; a replacement gets another one."""
        self._settings = settings
        self._name = name
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> int:
        """Start the load and return the process id."""
        self._thread.start()
        return os.getpid()

    def stop(self) -> None:
        """End the load and close the session.

        Raises:
            BaseException: a session raised an error that no fault explains.
        """
        self._stopping.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        path = Path(self._settings.records) / f"{self._name}.jsonl"
        life = 0
        try:
            with HistoryFile(path) as file:
                while not self._stopping.is_set():
                    life += 1
                    self._run_session(file, life)
        except BaseException as error:
            self._failure = error

    def _run_session(self, file: HistoryFile, life: int) -> None:
        settings = self._settings
        name = f"{self._name}.{life}"
        random = Random(f"{settings.seed} {name}")
        workload = Workload(settings.root, name, f"{settings.seed} {name} workload")
        timeout_s = random.choice(settings.session_timeouts_s)
        session = RecordedSession(
            file,
            self._name,
            life,
            timeout_s=timeout_s,
            window=random.choice(_WINDOWS),
            learned=workload.done,
        )
        if not session.open(lambda: connect(settings.ensemble, timeout_s, REQUEST_TIMEOUT_S)):
            return
        reads: list[Future[Result]] = []
        for _ in range(random.randint(*_REQUESTS)):
            call = workload.next()
            if settings.writes_wait_for_reads and not isinstance(call, Read):
                wait(reads)
                reads.clear()
            told = None if self._stopping.is_set() else session.submit(call)
            if told is None:
                break
            if isinstance(call, Read):
                reads.append(told)
            self._stopping.wait(random.uniform(*_IDLE_S))
        session.end()


def start_client(settings: LoadSettings, name: str, ray_node: str | None = None) -> Any:
    """Create a client actor, which is not started yet; it ends when its handle is dropped."""
    placed = "DEFAULT" if ray_node is None else NodeAffinitySchedulingStrategy(ray_node, soft=False)
    actor_class: Any = ray.remote(num_cpus=0, max_restarts=0)(LoadClient)
    return actor_class.options(scheduling_strategy=placed).remote(settings, name)
