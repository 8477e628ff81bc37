"""Tells Ray what the clients of this process do, once a second, from a thread of its own.

The thread runs while the process has an open handle. RAYKEEPER_METRICS=off in the environment of
the process keeps it from being started.
"""

import os
import threading
from collections.abc import Callable
from typing import Final

from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.public_types import ClientState
from raykeeper.client.recipes.wait_times import BOUNDS_MS, WaitTimes, wait_times
from raykeeper.links.ray_metrics import (
    INF,
    PERIOD_S,
    Kind,
    Metric,
    RayMetrics,
    Samples,
    bucket_samples,
    histogram,
)
from raykeeper.zab.ids import Millis

SETTING: Final = "RAYKEEPER_METRICS"
OFF: Final = "off"
_WAIT: Final = "raykeeper_client_wait_seconds"
_WAIT_BOUNDS: Final = (*(f"{bound / 1000:.3f}" for bound in BOUNDS_MS), INF)


def _metric(kind: Kind, name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"raykeeper_client_{name}", kind, labels, meaning)


CLIENT_LABELS: Final[tuple[str, ...]] = ()
"""Beside Ray's own, which name the worker. Those of a handle have `ensemble`."""
CLIENT_METRICS: Final = (
    _metric(
        Kind.COUNTER,
        "requests",
        "Requests of this process that were answered.",
        "ensemble",
        "kind",
        "outcome",
    ),
    _metric(Kind.GAUGE, "handles", "Open handles.", "ensemble"),
    _metric(
        Kind.GAUGE,
        "unconnected_handles",
        "Handles that look for a server.",
        "ensemble",
    ),
    _metric(Kind.COUNTER, "connects", "How often a server took a session.", "ensemble"),
    _metric(
        Kind.COUNTER,
        "reconnects",
        "How often a handle found a server again after it had lost one.",
        "ensemble",
    ),
    _metric(
        Kind.COUNTER,
        "unconnected_seconds",
        "How long handles had no connection, from their begin on; of all handles together.",
        "ensemble",
    ),
    _metric(
        Kind.COUNTER, "lost_sessions", "Sessions that ended before they were closed.", "ensemble"
    ),
    *histogram(
        _WAIT,
        ("recipe", "operation", "prefix"),
        "How long an operation of a recipe waited for others, at paths below `prefix`.",
    ),
)


class _Totals:
    """The counts of the handles of one ensemble."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str], int] = {}
        self.connects = self.reconnects = self.losses = self.without_ms = 0

    def add(self, core: ClientCore, now: Millis) -> None:
        counts = core.counts
        for outcome, count in counts.by_outcome().items():
            self.requests[outcome] = self.requests.get(outcome, 0) + count
        self.connects += counts.connects
        self.reconnects += max(0, counts.connects - 1)
        self.losses += counts.losses
        self.without_ms += counts.without_connection_ms(now)

    def copy(self) -> "_Totals":
        other = _Totals()
        other.requests = dict(self.requests)
        other.connects, other.reconnects = self.connects, self.reconnects
        other.losses, other.without_ms = self.losses, self.without_ms
        return other


class ProcessMetrics:
    """The handles of one process, and what those that have ended had counted."""

    def __init__(self, waits: WaitTimes = wait_times) -> None:
        self._waits = waits
        self.forget()

    def __reduce__(self) -> str:
        """Be pickled by name, as a function: what names it may be sent to another process."""
        return "process_metrics"

    def forget(self) -> None:
        """Begin anew: a process that was forked off has neither the handles nor the thread."""
        self._lock = threading.Lock()
        self._handles: list[tuple[str, ClientCore, Callable[[], Millis]]] = []
        self._ended: dict[str, _Totals] = {}
        self._has_thread = False
        self._ray_metrics: RayMetrics | None = None

    def add(self, ensemble: str, core: ClientCore, now: Callable[[], Millis]) -> None:
        """Count what this handle of `ensemble` does; `now` tells its time. Begins to tell Ray."""
        if os.environ.get(SETTING, "").lower() == OFF:
            return
        with self._lock:
            self._handles.append((ensemble, core, now))
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._run, name="raykeeper-metrics", daemon=True).start()

    def samples(self) -> Samples:
        """Return the numbers of this moment, and drop the handles that have ended."""
        samples: Samples = {}
        with self._lock:
            open_handles, unconnected = dict.fromkeys(self._ended, 0), dict.fromkeys(self._ended, 0)
            totals = {name: ended.copy() for name, ended in self._ended.items()}
            left = []
            for ensemble, core, now in self._handles:
                has_ended = core.state is ClientState.LOST  # before its counts are read
                totals.setdefault(ensemble, _Totals()).add(core, now())
                open_handles.setdefault(ensemble, 0)
                unconnected.setdefault(ensemble, 0)
                if has_ended:
                    self._ended.setdefault(ensemble, _Totals()).add(core, now())
                    continue
                left.append((ensemble, core, now))
                open_handles[ensemble] += 1
                unconnected[ensemble] += core.counts.is_without_connection()
            self._handles = left
        for ensemble, total in totals.items():
            samples |= _samples_of(ensemble, total)
            samples["raykeeper_client_handles", (ensemble,)] = open_handles[ensemble]
            samples["raykeeper_client_unconnected_handles", (ensemble,)] = unconnected[ensemble]
        for key, (below, total_ms) in self._waits.below().items():
            samples |= bucket_samples(_WAIT, key, _WAIT_BOUNDS, below, total_ms / 1000)
        return samples

    def tell(self) -> bool:
        """Tell Ray the numbers; return whether there are open handles."""
        import ray

        samples = self.samples()
        if ray.is_initialized():
            if self._ray_metrics is None:
                self._ray_metrics = RayMetrics(CLIENT_METRICS, {})
            self._ray_metrics.tell(samples)
        with self._lock:
            self._has_thread = bool(self._handles)
            return self._has_thread

    def _run(self) -> None:
        pause = threading.Event()
        try:
            while True:
                pause.wait(PERIOD_S)
                if not self.tell():
                    return
        except BaseException:  # Python prints it once; the next handle begins anew
            with self._lock:
                self._has_thread = False
            raise


def _samples_of(ensemble: str, totals: _Totals) -> Samples:
    samples: Samples = {
        ("raykeeper_client_requests", (ensemble, *outcome)): count
        for outcome, count in totals.requests.items()
    }
    numbers = {
        "connects": totals.connects,
        "reconnects": totals.reconnects,
        "unconnected_seconds": totals.without_ms / 1000,
        "lost_sessions": totals.losses,
    }
    for name, number in numbers.items():
        samples[f"raykeeper_client_{name}", (ensemble,)] = number
    return samples


process_metrics: Final = ProcessMetrics()
"""Those of this process."""
os.register_at_fork(after_in_child=process_metrics.forget)
