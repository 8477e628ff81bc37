"""Tells Ray the metrics of a server once a second, as plain numbers that were counted before.

Folder and open files are looked at every `FACTS_PERIOD_S` only, in a thread: that lists them.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import psutil

from raykeeper.actors.metric_samples import (
    NOTES,
    SERVER_METRICS,
    ProcessLoad,
    process_samples,
    server_samples,
)
from raykeeper.actors.process_facts import read_process_facts
from raykeeper.actors.step_times import CollectorPauses, StepTimes
from raykeeper.links.ray_metrics import PERIOD_S, RayMetrics, Samples
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.server.server_metrics import ServerMetrics

FACTS_PERIOD_S: Final = 10.0


class MetricsFlusher:
    """The metrics of one server, from its start until `close`."""

    def __init__(
        self,
        ray_metrics: RayMetrics,
        collect: Callable[[], ServerMetrics],
        times: StepTimes,
        folder: Path,
        limits: tuple[int, int],
        notes: Callable[[], Mapping[str, int]],
    ) -> None:
        """Begin to tell Ray.

        Args:
            ray_metrics: Of this process.
            collect: Returns the metrics of the server.
            times: Of its steps.
            folder: Where its data lies.
            limits: Its `sessions_max` and its `connections_max`.
            notes: Returns how often its log has named each event.
        """
        self._ray_metrics = ray_metrics
        self._collect = collect
        self._times = times
        self._folder = folder
        self._sessions_max, self._connections_max = limits
        self._notes = notes
        self._loop = asyncio.get_running_loop()
        self._process = psutil.Process()
        self._collector = CollectorPauses()
        self._collector.attach()
        self._facts: ProcessFacts | None = None
        self._facts_due = self._loop.time()
        self._reading: asyncio.Task[None] | None = None
        self._due = self._loop.time() + PERIOD_S
        self._timer = self._loop.call_at(self._due, self._flush)

    def close(self) -> None:
        """Tell Ray nothing more."""
        self._timer.cancel()
        self._collector.detach()
        if self._reading is not None:
            self._reading.cancel()

    def samples(self) -> Samples:
        """Return the numbers of this moment; ends a second of the longest pauses."""
        with self._process.oneshot():
            cpu, memory = self._process.cpu_times(), self._process.memory_info()
        load = ProcessLoad(
            memory_bytes=memory.rss,
            cpu_s=cpu.user + cpu.system,
            loop_pause_s=self._times.loop_pause.end_second(),
            gc_pause_s=self._collector.longest.end_second(),
            gc_s=self._collector.total_ns / 1e9,
            collections=self._collector.collections,
            sessions_max=self._sessions_max,
            connections_max=self._connections_max,
        )
        notes: Samples = {(NOTES, (name,)): count for name, count in self._notes().items()}
        numbers = server_samples(self._collect(), self._times)
        return numbers | process_samples(load, self._facts) | notes

    def _flush(self) -> None:
        now = self._loop.time()
        # How much later than asked for it is: something has kept the loop from all its work.
        self._times.loop_pause.add(int(max(0.0, now - self._due) * 1e9))
        # First, so that an error is told each second and does not end the metrics.
        self._due = max(self._due + PERIOD_S, now)
        self._timer = self._loop.call_at(self._due, self._flush)
        if now >= self._facts_due and (self._reading is None or self._reading.done()):
            self._facts_due = now + FACTS_PERIOD_S
            self._reading = self._loop.create_task(self._read_facts())
        self._ray_metrics.tell(self.samples())

    async def _read_facts(self) -> None:
        try:
            self._facts = await asyncio.to_thread(read_process_facts, self._folder)
        except OSError:
            self._facts = None  # what is wrong with the disk its own thread finds out


def make_ray_metrics(ensemble: str, server_id: int) -> RayMetrics:
    """Return the metrics of a server in this process's Ray."""
    return RayMetrics(SERVER_METRICS, {"ensemble": ensemble, "server": str(server_id)})
