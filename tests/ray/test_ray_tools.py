"""The tools of client/ray_tools in real actors and tasks, some of which are killed."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from raykeeper.client.errors import DeposedError, WrongContextError
from raykeeper.client.ray_tools import ConcurrencyLimit, ElectedActor, RateLimit
from raykeeper.clusters import Ensemble, launch
from tests.ray.conftest import all_serve, eventually, new_name

SESSION_S = 2.0


@pytest.fixture(scope="module")
def shared(ray_session: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """An ensemble that allows short sessions."""
    ensemble = launch(
        name=new_name(), data_dir=tmp_path_factory.mktemp("data"), session_timeout_min_s=0.5
    )
    eventually(lambda: all_serve(ensemble))
    yield ensemble
    ensemble.shutdown()


class Ledger:
    """A class of a user: one call after the other, and it knows its epoch."""

    def __init__(self, title: str, leadership: Any) -> None:
        self.title = title
        self.leadership = leadership
        self.lines: list[str] = []

    def write(self, line: str) -> tuple[str, int, int, list[str]]:
        self.leadership.lost.check()
        self.lines.append(line)
        return self.title, self.leadership.epoch, os.getpid(), self.lines

    def pid(self) -> int:
        return os.getpid()

    def work(self, begun: Path) -> None:
        begun.touch()
        threading.Event().wait(60)

    def fail(self) -> None:
        raise LookupError("of the user")


class Echo:
    """A class with coroutines."""

    async def echo(self, word: str) -> str:
        await asyncio.sleep(0)
        return word


@pytest.fixture
def ledger(shared: Ensemble, request: pytest.FixtureRequest) -> Iterator[ElectedActor]:
    service = ElectedActor(
        shared.name,
        f"/services/{request.node.name}",
        Ledger,
        "a ledger",
        candidates=2,
        promise="at_least_once",
        session_timeout_s=SESSION_S,
    )
    service.start()
    yield service
    service.stop()


@pytest.mark.parametrize("max_restarts", [0, -1])
def test_a_standby_takes_over_from_one_that_is_killed(shared: Ensemble, max_restarts: int) -> None:
    service = ElectedActor(
        shared.name,
        f"/services/killed{max_restarts}",
        Ledger,
        title="a ledger",
        candidates=2,
        promise="at_least_once",
        session_timeout_s=8.0,
        actor_options={"max_restarts": max_restarts},
    )
    service.start()
    title, epoch, pid, lines = service.call("write", "one")
    assert (title, epoch, lines) == ("a ledger", 1, ["one"])
    assert service.call("write", "two")[3] == ["one", "two"]
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    _, later_epoch, later_pid, lines = service.call("write", "three")
    gap_s = time.monotonic() - killed
    assert later_pid != pid
    assert (later_epoch, lines) == (2, ["three"])
    assert gap_s < 7
    leader = service.leader()
    assert leader is not None and leader.epoch == 2
    service.stop()


def test_who_was_frozen_and_deposed_serves_nobody(ledger: ElectedActor) -> None:
    _, epoch, pid, _ = ledger.call("write", "one")
    os.kill(pid, signal.SIGSTOP)
    try:
        _, later_epoch, later_pid, lines = ledger.call("write", "two")
        assert later_epoch > epoch and later_pid != pid and lines == ["two"]
    finally:
        os.kill(pid, signal.SIGCONT)
    # It finds out by its own clock, ends, and stands for election again.
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    assert ledger.call("write", "three")[3] == ["two", "three"]


def test_an_error_of_a_method_is_the_callers(ledger: ElectedActor) -> None:
    with pytest.raises(LookupError, match="of the user"):
        ledger.call("fail")
    with pytest.raises(AttributeError):
        ledger.call("nothing")


@ray.remote(num_cpus=0)
def call_in_task(service: ElectedActor, begun: Path) -> Any:
    return service.call("work", begun)


def test_at_most_once_tells_of_a_call_whose_leader_died(shared: Ensemble, tmp_path: Path) -> None:
    service = ElectedActor(
        shared.name, "/services/once", Ledger, "once", session_timeout_s=SESSION_S
    )
    service.start()
    pid = service.call("pid")
    call = call_in_task.remote(service, tmp_path / "begun")
    eventually((tmp_path / "begun").exists)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(DeposedError, match="while it served work"):
        ray.get(call)
    eventually(lambda: service.leader() is not None and service.call("pid") != pid)
    service.stop()


@ray.remote(num_cpus=0)
class AsyncCaller:
    """An async actor that uses tools."""

    async def echo(self, service: ElectedActor, words: list[str]) -> list[str]:
        try:
            service.call("echo", "blocking")
        except WrongContextError:
            answers = await asyncio.gather(*(service.call_async("echo", word) for word in words))
        await service.aclose()
        return list(answers)

    async def take(self, limit: RateLimit, count: int) -> int:
        for _ in range(count):
            async with limit:
                pass
        await limit.aclose()
        return count

    async def crowd(self, limit: ConcurrencyLimit, count: int) -> int:
        now = most = 0

        @limit
        async def work() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.02)
            now -= 1

        await asyncio.gather(*(work() for _ in range(count)))
        await limit.aclose()
        return most


def test_from_an_async_actor_a_class_of_coroutines(shared: Ensemble) -> None:
    service = ElectedActor(shared.name, "/services/echo", Echo)
    service.start()
    caller: Any = AsyncCaller.remote()  # type: ignore[attr-defined]
    words = [f"word {n}" for n in range(20)]
    assert ray.get(caller.echo.remote(service, words)) == words
    service.stop()


def test_a_rate_over_tasks_and_actors(shared: Ensemble) -> None:
    limit = RateLimit(shared.name, "/limits/rate", per_second=20, burst=1)

    @ray.remote(num_cpus=0)
    @limit
    def task(number: int) -> int:
        return number

    caller: Any = AsyncCaller.remote()  # type: ignore[attr-defined]
    limit.take()
    begun = time.monotonic()
    tasks = [task.remote(number) for number in range(6)]
    assert ray.get([*tasks, caller.take.remote(limit, 6)]) == [*range(6), 6]
    limit.take()
    assert time.monotonic() - begun > 12 / 20, "13 were taken after the first one"
    limit.close()


def test_permits_over_tasks_and_actors(shared: Ensemble) -> None:
    limit = ConcurrencyLimit(shared.name, "/limits/permits", permits=2)
    caller: Any = AsyncCaller.remote()  # type: ignore[attr-defined]
    assert ray.get(caller.crowd.remote(limit, 8)) == 2
    with limit as held:
        held.lost.check()
        assert [each.name for each in limit.on(limit.client()).holders()] == [
            held.path.rpartition("/")[2]
        ]
    limit.close()


@ray.remote(num_cpus=0, max_retries=0)
def hold(limit: ConcurrencyLimit) -> None:
    with limit:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_permit_dies_with_its_holder(shared: Ensemble) -> None:
    limit = ConcurrencyLimit(shared.name, "/limits/dying", permits=1, session_timeout_s=SESSION_S)
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(hold.remote(limit))
    limit.acquire(timeout_s=20).release()
    limit.close()
