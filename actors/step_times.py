"""How long the stages of a server's steps take, and the longest pauses of its process.

A pure server has no clock, so its shell measures what happens between the ticks of the server's
milliseconds. A step serves all requests that have arrived, so its time is one for all of them: the
numbers here are of steps and forces, not of single requests.

| stage | what is measured |
|---|---|
| queue | from the arrival of the first event of a step to its begin |
| prepare | a step in which the leader prepared and proposed transactions |
| force | the disk writes and forces what has come meanwhile |
| apply | a step that applied transactions, and made their replies and watch events |
| answer | the frames of a step are handed to the links |

A step that proposes and applies counts as both. The stage `quorum` is `ServerMetrics.commits`.
"""

import gc
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from raykeeper.links.ray_metrics import INF

FIRST_POWER: Final = 6
LAST_POWER: Final = 23
STAGE_BOUNDS: Final = (
    *(f"{(1 << power) / 1e6:.6f}" for power in range(FIRST_POWER, LAST_POWER + 1)),
    INF,
)
"""Upper bounds in seconds: 64 µs, doubled up to 8.4 s."""
PAUSES_KEPT: Final = 15
"""Seconds for which the longest pause is shown: Ray exports every ten."""


class StageTimes:
    """The times of one stage, by powers of two of a microsecond. One thread at a time may add."""

    __slots__ = ("_counts", "_total_us")

    def __init__(self) -> None:
        self._counts = [0] * (LAST_POWER + 2)
        self._total_us = 0

    def add(self, took_ns: int) -> None:
        """Count one."""
        took_us = took_ns // 1000
        self._total_us += took_us
        power = took_us.bit_length()
        self._counts[power if power <= LAST_POWER else LAST_POWER + 1] += 1

    def below(self) -> list[int]:
        """Return how many there were below each of `STAGE_BOUNDS`."""
        below, counted = [], 0
        for power, count in enumerate(self._counts):
            counted += count
            if power >= FIRST_POWER:
                below.append(counted)
        return below

    @property
    def total_s(self) -> float:
        """All of them together."""
        return self._total_us / 1e6


class LongestPause:
    """The longest pause of the last `PAUSES_KEPT` seconds."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._before: deque[int] = deque(maxlen=PAUSES_KEPT - 1)

    def add(self, took_ns: int) -> None:
        """Note a pause."""
        if took_ns > self._now_ns:
            self._now_ns = took_ns

    def end_second(self) -> float:
        """Return the longest pause in seconds; called each second."""
        longest = max(self._now_ns, max(self._before, default=0))
        self._before.append(self._now_ns)
        self._now_ns = 0
        return longest / 1e9


class StepTimes:
    """The times of one server. `force` belongs to the thread of the disk, the rest to the loop."""

    def __init__(self) -> None:
        self.queue = StageTimes()
        self.prepare = StageTimes()
        self.force = StageTimes()
        self.apply = StageTimes()
        self.answer = StageTimes()
        self.loop_pause = LongestPause()
        """How long the event loop could not turn to anything else."""

    @property
    def by_stage(self) -> Mapping[str, StageTimes]:
        """All of them by name."""
        names = ("queue", "prepare", "force", "apply", "answer")
        return {name: getattr(self, name) for name in names}


class CollectorPauses:
    """The pauses of Python's garbage collector in this process."""

    def __init__(self) -> None:
        self.longest = LongestPause()
        self.total_ns = 0
        self.collections = 0
        self._began_ns = 0

    def attach(self) -> None:
        """Begin to count."""
        gc.callbacks.append(self._on_collection)

    def detach(self) -> None:
        """Count no longer."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _info: dict[str, Any]) -> None:
        now = time.perf_counter_ns()
        if phase == "start":
            self._began_ns = now
            return
        took = now - self._began_ns
        self.collections += 1
        self.total_ns += took
        self.longest.add(took)
