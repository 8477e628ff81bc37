"""ProcessMetrics: the counts of all handles of a process, also of those that have ended."""

import functools
import pickle
import threading
from collections.abc import Callable

import pytest
import ray

from raykeeper.client import AsyncClient
from raykeeper.client import process_metrics as process_metrics_module
from raykeeper.client.core.outstanding import Query
from raykeeper.client.process_metrics import CLIENT_METRICS, SETTING, ProcessMetrics
from raykeeper.client.recipes.wait_times import WaitTimes
from raykeeper.links.ray_metrics import RayMetrics, Samples
from raykeeper.zab.ids import Millis
from raykeeper.znodes.replies import GetDataReply
from raykeeper.znodes.requests import GetData
from tests.unit.client.wire import STAT, Wire, Z


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What a thread was started for; no thread runs."""
    found: list[Callable[[], None]] = []

    class Thread:
        def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
            assert daemon, "it must not keep a process from ending"
            self.target = target

        def start(self) -> None:
            found.append(self.target)

    monkeypatch.setattr(threading, "Thread", Thread)
    return found


def numbers(samples: Samples, ensemble: str = "coord") -> dict[str, float]:
    own = {name: value for (name, labels), value in samples.items() if labels == (ensemble,)}
    return {name.removeprefix("raykeeper_client_"): value for name, value in own.items()}


def serving(metrics: ProcessMetrics, ensemble: str = "coord") -> Wire:
    wire = Wire()
    metrics.add(ensemble, wire.core, lambda: wire.now)
    return wire.serving()


def test_handles_are_counted_together_and_stay_so_after_their_end(
    started: list[Callable[[], None]],
) -> None:
    metrics = ProcessMetrics(WaitTimes())
    one, two, other = serving(metrics), serving(metrics), serving(metrics, "other")
    for wire in (one, two):
        wire.submit(Query(GetData, "/a"))
        wire.items(GetDataReply(1, Z[2], b"", STAT))
    two.at(two.now + 500).failed()
    requests = ("raykeeper_client_requests", ("coord", "get_data", "ok"))
    samples = metrics.samples()
    assert samples[requests] == 2
    assert numbers(samples) == {
        **{"handles": 2, "unconnected_handles": 1, "unconnected_seconds": 0},
        **{"connects": 2, "reconnects": 0, "lost_sessions": 0},
    }
    assert numbers(samples, "other")["handles"] == 1
    two.at(two.now + 2_000).core.abort("it was interrupted")
    one.reconnected()
    for _ in range(2):
        samples = metrics.samples()
        assert samples[requests] == 2
        assert numbers(samples) == {
            **{"handles": 1, "unconnected_handles": 0, "unconnected_seconds": 2},
            **{"connects": 3, "reconnects": 1, "lost_sessions": 1},
        }
    assert len(metrics._handles) == 2
    other.close()


def test_one_thread_runs_while_there_are_handles(
    started: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    metrics = ProcessMetrics(WaitTimes())
    wires = [serving(metrics), serving(metrics)]
    assert len(started) == 1
    assert metrics.tell()
    for wire in wires:
        wire.core.abort("")
    assert not metrics.tell()
    serving(metrics)
    assert len(started) == 2


def test_after_an_error_the_next_handle_begins_anew(
    started: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> bool:
        raise RuntimeError("Ray is shut down")

    monkeypatch.setattr(process_metrics_module, "PERIOD_S", 0.001)
    monkeypatch.setattr(ray, "is_initialized", fail)
    metrics = ProcessMetrics(WaitTimes())
    wires = [serving(metrics)]
    with pytest.raises(RuntimeError, match="shut down"):
        started[0]()
    wires.append(serving(metrics))
    assert len(started) == 2
    for wire in wires:
        wire.core.abort("")


def test_ray_is_told_until_the_last_handle_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Samples] = []
    monkeypatch.setattr(process_metrics_module, "PERIOD_S", 0.001)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(RayMetrics, "tell", lambda _, samples: told.append(dict(samples)))
    metrics = ProcessMetrics(WaitTimes())
    ended = threading.Event()
    run = metrics._run
    monkeypatch.setattr(metrics, "_run", lambda: (run(), ended.set()))
    wire = serving(metrics)
    while not told:
        assert not ended.wait(0.001)
    wire.core.abort("")
    assert ended.wait(10)
    assert numbers(told[0])["handles"] == 1
    assert numbers(told[-1])["handles"] == 0


def test_the_environment_keeps_it_from_being_started(
    started: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "OFF")
    metrics = ProcessMetrics(WaitTimes())
    serving(metrics)
    assert (started, metrics.samples()) == ([], {})


def test_a_process_that_was_forked_off_begins_anew(started: list[Callable[[], None]]) -> None:
    metrics = ProcessMetrics(WaitTimes())
    serving(metrics)
    with metrics._lock:  # as a thread of the parent may have it
        metrics.forget()
        assert metrics.samples() == {}
    serving(metrics)
    assert len(started) == 2


def test_each_number_is_of_a_metric_with_its_labels(started: list[Callable[[], None]]) -> None:
    waits = WaitTimes()
    waits.add("Lock", "acquire", "/locks/a", 30)
    metrics = ProcessMetrics(waits)
    wire = serving(metrics)
    wire.submit(Query(GetData, "/a"))
    wire.items(GetDataReply(1, Z[2], b"", STAT))
    labels = {metric.name: len(metric.labels) for metric in CLIENT_METRICS}
    samples = metrics.samples()
    assert {name: len(values) for name, values in samples} == labels
    key = ("raykeeper_client_wait_seconds_bucket", ("Lock", "acquire", "/locks", "0.064"))
    assert samples[key] == 1
    assert wire.now == Millis(1_000)


def test_an_opening_of_an_async_client_can_be_sent_to_another_process() -> None:
    # Ray pickles the method of a class by value, with all that it names.
    opening = functools.partial(AsyncClient.connect, "coord")
    assert ray.cloudpickle.loads(ray.cloudpickle.dumps(opening)).args == ("coord",)
    sent = pickle.dumps(process_metrics_module.process_metrics)
    assert pickle.loads(sent) is process_metrics_module.process_metrics
