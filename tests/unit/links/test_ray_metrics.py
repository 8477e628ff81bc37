"""RayMetrics: what Ray is told of plain numbers, with Ray's classes replaced by a recorder."""

from collections.abc import Iterator
from typing import Any

import pytest
from ray.util import metrics

from raykeeper.links.ray_metrics import (
    INF,
    Kind,
    Metric,
    RayMetrics,
    bucket_samples,
    histogram,
)

REQUESTS = Metric("requests", Kind.COUNTER, ("kind",), "Answered requests.")
LAG = Metric("lag", Kind.GAUGE, ("follower",), "How far it is behind.")
TAGS = {"ensemble": "coord", "server": "2"}
Told = list[tuple[str, str, float, dict[str, str]]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """What Ray was told since it was looked at last: act, name, value, tags."""
    found: Told = []

    class Recorded:
        def __init__(self, name: str, _description: str, tag_keys: tuple[str, ...]) -> None:
            self.name, self.tag_keys = name, tag_keys

        def record(self, act: str, value: float, tags: dict[str, str]) -> None:
            assert set(tags) == set(self.tag_keys)
            found.append((act, self.name, value, tags))

    class Counter(Recorded):
        def inc(self, value: float, tags: dict[str, str]) -> None:
            assert value > 0, "Ray raises for it"
            self.record("inc", value, tags)

    class Gauge(Recorded):
        def set(self, value: float, tags: dict[str, str]) -> None:
            self.record("set", value, tags)

    monkeypatch.setattr(metrics, "Counter", Counter)
    monkeypatch.setattr(metrics, "Gauge", Gauge)
    yield found


def taken(told: Told) -> list[tuple[Any, ...]]:
    found = [(act, value, *list(tags.values())[2:]) for act, _, value, tags in told]
    told.clear()
    return found


def test_a_counter_tells_what_was_added_and_nothing_if_nothing_was(told: Told) -> None:
    ray_metrics = RayMetrics([REQUESTS], TAGS)
    ray_metrics.tell({("requests", ("get",)): 5.0, ("requests", ("set",)): 0.0})
    assert told == [("inc", "requests", 5.0, {**TAGS, "kind": "get"})]
    told.clear()
    ray_metrics.tell({("requests", ("get",)): 5.0, ("requests", ("set",)): 2.0})
    assert taken(told) == [("inc", 2.0, "set")]
    ray_metrics.tell({("requests", ("get",)): 9.0})
    assert taken(told) == [("inc", 4.0, "get")]


def test_a_counter_that_begins_anew_tells_all_of_it(told: Told) -> None:
    ray_metrics = RayMetrics([REQUESTS], TAGS)
    for count in (5.0, 3.0, 0.0, 1.0):
        ray_metrics.tell({("requests", ("get",)): count})
    assert [value for _, value, _ in taken(told)] == [5.0, 3.0, 1.0]


def test_a_gauge_is_told_each_time_and_is_zero_when_it_is_gone(told: Told) -> None:
    ray_metrics = RayMetrics([LAG], TAGS)
    ray_metrics.tell({("lag", ("1",)): 7.0, ("lag", ("3",)): 0.0})
    ray_metrics.tell({("lag", ("1",)): 7.0})
    ray_metrics.tell({})
    assert taken(told) == [
        *(("set", 7.0, "1"), ("set", 0.0, "3")),
        *(("set", 7.0, "1"), ("set", 0, "3")),
        *(("set", 0, "1"), ("set", 0, "3")),
    ]


def test_a_number_must_be_of_a_known_metric_with_its_labels(told: Told) -> None:
    ray_metrics = RayMetrics([REQUESTS], TAGS)
    with pytest.raises(KeyError):
        ray_metrics.tell({("unknown", ()): 1.0})
    with pytest.raises(ValueError, match="shorter"):
        ray_metrics.tell({("requests", ()): 1.0})


def test_a_histogram_is_two_counters() -> None:
    bucket, total = histogram("took", ("stage",), "What it took.")
    assert (bucket.exported, bucket.labels) == ("ray_took_bucket_total", ("stage", "le"))
    assert (total.exported, total.labels) == ("ray_took_sum_total", ("stage",))
    assert LAG.exported == "ray_lag"
    samples = bucket_samples("took", ("force",), ("0.1", INF), (2, 3), 1.5)
    assert samples == {
        ("took_bucket", ("force", "0.1")): 2,
        ("took_bucket", ("force", "+Inf")): 3,
        ("took_sum", ("force",)): 1.5,
    }
