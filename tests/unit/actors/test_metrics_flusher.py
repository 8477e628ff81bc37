"""MetricsFlusher: what it tells Ray and when, with the time of a loop that jumps."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from raykeeper.actors import metrics_flusher
from raykeeper.actors.metric_samples import SERVER_METRICS
from raykeeper.actors.metrics_flusher import FACTS_PERIOD_S, MetricsFlusher, make_ray_metrics
from raykeeper.actors.step_times import StepTimes
from raykeeper.links.ray_metrics import PERIOD_S, RayMetrics, Samples
from raykeeper.server.process_facts import ProcessFacts
from tests.harness.event_loops import VirtualLoop
from tests.harness.pure_servers import PureServer


class Recorder(RayMetrics):
    """Keeps what Ray would be told."""

    def __init__(self) -> None:
        super().__init__(SERVER_METRICS, {})
        self.told: list[Samples] = []

    def tell(self, samples: Samples) -> None:  # type: ignore[override]
        self.told.append(dict(samples))


class Inline(ThreadPoolExecutor):
    """Runs what a thread would, at once: a loop that jumps does not wait for threads."""

    def submit(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


class Flushed:
    """A flusher of a pure server that runs on the loop under way."""

    def __init__(self, folder: Path) -> None:
        self.ray = Recorder()
        self.times = StepTimes()
        self.notes = {"link.up": 2}
        self.flusher = MetricsFlusher(
            self.ray,
            PureServer().server.metrics,
            self.times,
            folder,
            (900, 500),
            lambda: self.notes,
        )

    def last(self, name: str, *labels: str) -> float:
        return self.ray.told[-1][f"raykeeper_{name}", labels]


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    loop.set_default_executor(Inline())
    try:
        loop.run_until_complete(test())
    finally:
        loop.close()


def test_ray_is_told_once_a_second_until_the_end(tmp_path: Path) -> None:
    async def test() -> None:
        flushed = Flushed(tmp_path)
        await asyncio.sleep(5.5 * PERIOD_S)
        assert len(flushed.ray.told) == 5
        assert (flushed.last("notes", "link.up"), flushed.last("sessions_max")) == (2, 900)
        assert flushed.last("role", "leader") == 1
        assert flushed.last("memory_bytes") > 1 << 20
        assert flushed.last("cpu_seconds") > 0
        flushed.flusher.close()
        await asyncio.sleep(5)
        assert len(flushed.ray.told) == 5

    run(test)


def test_the_folder_is_looked_at_now_and_then(tmp_path: Path) -> None:
    async def test() -> None:
        flushed = Flushed(tmp_path)
        await asyncio.sleep(1.5 * PERIOD_S)
        reading = flushed.flusher._reading
        assert reading is not None
        await reading
        (tmp_path / "log.1").write_bytes(bytes(300))
        await asyncio.sleep(PERIOD_S)
        assert (flushed.last("log_bytes"), flushed.last("disk_bytes") > 0) == (0, True)
        await asyncio.sleep(FACTS_PERIOD_S)
        assert flushed.flusher._reading is not reading
        await flushed.flusher._reading
        await asyncio.sleep(PERIOD_S)
        assert flushed.last("log_bytes") == 300
        flushed.flusher.close()

    run(test)


def test_a_folder_that_cannot_be_read_has_no_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> ProcessFacts:
        raise OSError(errno.EIO, "Input/output error")

    async def test() -> None:
        flushed = Flushed(tmp_path)
        await asyncio.sleep(2.5 * PERIOD_S)
        assert flushed.last("disk_bytes") > 0
        monkeypatch.setattr(metrics_flusher, "read_process_facts", fail)
        await asyncio.sleep(FACTS_PERIOD_S + PERIOD_S)
        assert ("raykeeper_disk_bytes", ()) not in flushed.ray.told[-1]
        assert flushed.last("memory_bytes") > 0
        flushed.flusher.close()

    run(test)


def test_an_error_does_not_end_the_metrics(tmp_path: Path) -> None:
    async def test() -> None:
        errors: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        flushed = Flushed(tmp_path)
        notes, flushed.notes = flushed.notes, None  # type: ignore[assignment]
        await asyncio.sleep(2.5 * PERIOD_S)
        assert [type(error) for error in errors] == [AttributeError, AttributeError]
        flushed.notes = notes
        await asyncio.sleep(PERIOD_S)
        assert len(flushed.ray.told) == 1
        flushed.flusher.close()

    run(test)


def test_a_loop_that_stands_still_is_a_pause(tmp_path: Path) -> None:
    async def test() -> None:
        flushed = Flushed(tmp_path)
        await asyncio.sleep(1.5 * PERIOD_S)
        assert flushed.last("loop_pause_seconds") < 0.001
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.seconds += 3
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert flushed.last("loop_pause_seconds") == pytest.approx(2.5)
        flushed.flusher.close()

    run(test)


def test_the_metrics_of_a_server_have_its_name_and_number() -> None:
    assert make_ray_metrics("coord", 2)._tags == {"ensemble": "coord", "server": "2"}
