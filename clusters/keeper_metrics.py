"""The metrics of a keeper, which it tells Ray once a second from a thread of its own.

docs/METRICS.md has the same table; a test compares them. What a keeper counts begins anew with its
process; the decisions of all keepers are in the tree (keeper_journal.py).
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import ray

from raykeeper.clusters.healing.vocabulary import Decision, MoveStep
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.links.ray_metrics import PERIOD_S, Kind, Metric, RayMetrics, Samples

KEEPER_LABELS: Final = ("ensemble",)
"""The labels of every metric of a keeper."""
KEEPER_METRICS: Final = (
    Metric("raykeeper_keeper_leads", Kind.GAUGE, (), "1 if the keeper is elected, and acts."),
    Metric(
        "raykeeper_keeper_is_blocked",
        Kind.GAUGE,
        (),
        "1 while the elected keeper does not do what it should: a server does not move, or Ray "
        "does not answer. `raykeeper status` says why.",
    ),
    Metric("raykeeper_keeper_is_moving", Kind.GAUGE, (), "1 while a move is under way."),
    Metric(
        "raykeeper_keeper_moves",
        Kind.COUNTER,
        ("step", "cause"),
        "Steps of moves that the keeper has decided.",
    ),
    Metric("raykeeper_keeper_elections", Kind.COUNTER, (), "How often the keeper was elected."),
    Metric(
        "raykeeper_keeper_uptime_seconds",
        Kind.GAUGE,
        (),
        "Since the start of the keeper's process, which Ray starts again when it dies.",
    ),
)
_OPEN: Final = (MoveStep.BEGUN, MoveStep.STARTED)


class KeeperMetrics:
    """What one keeper has counted."""

    def __init__(self) -> None:
        self._moves: Counter[tuple[str, str]] = Counter()
        self._elections = 0

    def decided(self, decision: Decision) -> None:
        """Count a decision that stands in the tree."""
        self._moves[decision.step.value, decision.cause.value] += 1

    def elected(self) -> None:
        """Count an election."""
        self._elections += 1

    def samples(self, status: KeeperStatus, uptime_s: float) -> Samples:
        """Return the numbers of this moment."""
        newest = status.entries[-1].decision.step if status.entries else None
        samples: Samples = {
            ("raykeeper_keeper_leads", ()): status.leads,
            ("raykeeper_keeper_is_blocked", ()): status.leads and bool(status.problem),
            ("raykeeper_keeper_is_moving", ()): newest in _OPEN,
            ("raykeeper_keeper_elections", ()): self._elections,
            ("raykeeper_keeper_uptime_seconds", ()): uptime_s,
        }
        for key, count in dict(self._moves).items():  # copied: another thread counts
            samples["raykeeper_keeper_moves", key] = count
        return samples

    def tell_ray(self, ensemble: str, status: Callable[[], KeeperStatus]) -> None:
        """Begin to tell Ray, until the process ends."""

        def run() -> None:
            began = time.monotonic()
            ray_metrics = RayMetrics(KEEPER_METRICS, {"ensemble": ensemble})
            pause = threading.Event()
            while ray.is_initialized():
                ray_metrics.tell(self.samples(status(), time.monotonic() - began))
                pause.wait(PERIOD_S)

        threading.Thread(target=run, name="raykeeper-keeper-metrics", daemon=True).start()
