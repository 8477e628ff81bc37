"""Metrics for Ray's endpoint: what each one is, and how plain numbers become Ray's.

An `inc` of a Ray counter takes 3.4 µs, too long for each request. So requests add to integers, and
once a second `RayMetrics` tells Ray what has changed. Ray's Histogram adds up the middles of its
buckets instead of what was observed, so a histogram is a counter with the label `le` here, and
another one with the sum.

Ray exports `NAME` as `ray_NAME`, and a counter as `ray_NAME_total`.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from msgspec import Struct

INF: Final = "+Inf"
PERIOD_S: Final = 1.0
"""How often the numbers are told to Ray."""


class Kind(Enum):
    """The kinds of metrics; the value is Prometheus's word."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Metric(Struct, frozen=True):
    """One metric, which docs/METRICS.md lists."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    """Beside those that all metrics of the process have."""
    meaning: str

    @property
    def exported(self) -> str:
        """The name under which Prometheus finds it."""
        return f"ray_{self.name}" + ("_total" if self.kind is Kind.COUNTER else "")


Samples = dict[tuple[str, tuple[str, ...]], float]
"""The numbers of a moment by name of the metric and values of its labels. Of a counter it is how
often something has happened in all."""


class _Series(Struct):
    metric: Any
    is_counter: bool
    tags: dict[str, str]
    told: float = 0


class RayMetrics:
    """The metrics of one process in Ray."""

    def __init__(self, metrics: Iterable[Metric], tags: Mapping[str, str]) -> None:
        """`tags` are the labels that all of them have, with their values."""
        self._metrics = {metric.name: metric for metric in metrics}
        self._tags = dict(tags)
        self._made: dict[str, Any] = {}
        self._series: dict[tuple[str, tuple[str, ...]], _Series] = {}

    def tell(self, samples: Mapping[tuple[str, tuple[str, ...]], float]) -> None:
        """Tell Ray the numbers. A gauge that had one before and has none now is 0.

        A counter below its last number has begun anew, and all of it is new.
        """
        for key, value in samples.items():
            series = self._series.get(key) or self._begin(key)
            if not series.is_counter:
                series.metric.set(value, series.tags)
            elif value != series.told:
                added = value - series.told if value > series.told else value
                series.told = value
                if added > 0:
                    series.metric.inc(added, series.tags)
        for key, series in self._series.items():
            if not series.is_counter and key not in samples:
                series.metric.set(0, series.tags)

    def _begin(self, key: tuple[str, tuple[str, ...]]) -> _Series:
        name, values = key
        metric = self._metrics[name]
        tags = self._tags | dict(zip(metric.labels, values, strict=True))
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = _make(metric, (*self._tags, *metric.labels))
        series = self._series[key] = _Series(made, metric.kind is Kind.COUNTER, tags)
        return series


def _make(metric: Metric, labels: tuple[str, ...]) -> Any:
    from ray.util import metrics

    kinds = {Kind.COUNTER: metrics.Counter, Kind.GAUGE: metrics.Gauge}
    return kinds[metric.kind](metric.name, metric.meaning, labels)


def bucket_samples(
    name: str, labels: tuple[str, ...], bounds: Iterable[str], counts: Iterable[int], total_s: float
) -> Samples:
    """Return the samples of a histogram: the counters `name_bucket` and `name_sum`.

    `bounds` are the values of `le`, the last one `INF`; `counts` say how many were below each.
    """
    samples: Samples = {
        (f"{name}_bucket", (*labels, bound)): count
        for bound, count in zip(bounds, counts, strict=True)
    }
    return samples | {(f"{name}_sum", labels): total_s}


def histogram(name: str, labels: tuple[str, ...], meaning: str) -> tuple[Metric, Metric]:
    """Return the two metrics of a histogram of seconds."""
    bucket = f"{meaning} How many took no longer than `le` seconds."
    return (
        Metric(f"{name}_bucket", Kind.COUNTER, (*labels, "le"), bucket),
        Metric(f"{name}_sum", Kind.COUNTER, labels, f"{meaning} All seconds together."),
    )
