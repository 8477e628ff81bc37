"""A worker of the demo: a Ray actor with one session.

It joins the group with an ephemeral znode, and the election with a leader latch. It reads its
settings from a watched znode, and works on assignments until it is elected; then it coordinates.
Watches and the latch only put an event into a queue; the thread in `run` handles one at a time.
"""

import os
import queue
import time
from pathlib import Path

from raykeeper.client import Blocking, Client, Leadership, WatchedEvent
from raykeeper.client.errors import NodeExistsError, SessionExpiredError
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.commands.demo import job
from raykeeper.commands.demo.coordinator import Coordinator
from raykeeper.commands.demo.job import Assignment, JobConfig, Result, Task
from raykeeper.commands.demo.words import count_words

_CONFIG, _ELECTED, _ORDER, _FINISHED, _LOST = "config", "elected", "order", "finished", "lost"


class DemoWorker:
    """Call `run` once."""

    def __init__(self, ensemble: Ensemble, name: str, folder: str) -> None:
        self._name = name
        self._folder = Path(folder)
        self._ensemble = ensemble
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._config = JobConfig(pause_ms=0)
        self._epoch = 0
        self._leader_epoch = 0
        self._counted = 0

    def run(self) -> int:
        """Work, and coordinate if elected, until the job is finished; return the counted pieces.

        Raises:
            SessionExpiredError: the session is over, and with it the membership.
        """
        with self._ensemble.connect(session_timeout_s=job.SESSION_TIMEOUT_S) as client:
            self._join(client)
            latch = client.leader_latch(job.ELECTION, self._name.encode(), self._on_elected)
            latch.start()
            reactions = {
                _CONFIG: self._read_config,
                _ELECTED: self._coordinate,
                _ORDER: self._work,
            }
            while (event := self._events.get()) != _FINISHED:
                if event == _LOST:
                    raise SessionExpiredError
                reactions[event](client)
        return self._counted

    def _join(self, client: Client) -> None:
        self._create(client, f"{job.ORDERS}/{self._name}", job.encode(Assignment(0, -1)))
        member = job.encode(job.Worker(os.getpid()))
        client.create(f"{job.WORKERS}/{self._name}", member, ephemeral=True)
        for event in (_CONFIG, _ORDER):
            self._events.put(event)
        if client.exists(job.FINISHED, self._tell(_FINISHED)):
            self._events.put(_FINISHED)

    def _read_config(self, client: Client) -> None:
        value, _ = client.get(job.CONFIG, self._tell(_CONFIG))
        self._config = job.decode(value, type=JobConfig)

    def _on_elected(self, leadership: Leadership[Blocking]) -> None:
        self._leader_epoch = leadership.epoch
        self._events.put(_ELECTED)

    def _coordinate(self, client: Client) -> None:
        Coordinator(client, self._name, self._leader_epoch).run()

    def _work(self, client: Client) -> None:
        """Do the assigned task, unless its epoch is older than that of an earlier assignment."""
        value, _ = client.get(f"{job.ORDERS}/{self._name}", self._tell(_ORDER))
        order = job.decode(value, type=Assignment)
        if order.task < 0 or order.epoch < self._epoch:
            return
        self._epoch = order.epoch
        value, _ = client.get(f"{job.TASKS}/{order.task}")
        piece = job.decode(value, type=Task).piece
        time.sleep(self._config.pause_ms / 1000)
        text = (self._folder / piece.file).read_text(encoding="utf-8", errors="replace")
        words = count_words(text[piece.start : piece.end])
        result = job.encode(Result(self._name, order.epoch, words))
        if self._create(client, f"{job.RESULTS}/{order.task}", result):
            self._counted += 1

    def _create(self, client: Client, path: str, value: bytes) -> bool:
        try:
            client.create(path, value)
        except NodeExistsError:
            return False
        return True

    def _tell(self, what: str) -> "_EventSender":
        return _EventSender(self._events, what)


class _EventSender:
    """A watcher that puts a word into the queue; "lost" when the session is over."""

    def __init__(self, events: "queue.SimpleQueue[str]", what: str) -> None:
        self._events = events
        self._what = what

    def __call__(self, event: WatchedEvent) -> None:
        self._events.put(self._what if event.state == "CONNECTED" else _LOST)
