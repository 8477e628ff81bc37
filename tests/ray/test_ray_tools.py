"""The tools of client/ray_tools in real actors and tasks, some of which are killed."""

import asyncio
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from raykeeper.client import connect
from raykeeper.client.errors import ClosedError, DeposedError, WrongContextError
from raykeeper.client.identity import identity_of_process
from raykeeper.client.ray_tools import (
    ConcurrencyLimit,
    ElectedActor,
    Gang,
    RateLimit,
    Rendezvous,
    WorkerGroup,
)
from raykeeper.client.ray_tools.worker_group import WorkersChange
from raykeeper.client.recipes.recipe import Awaited
from raykeeper.client.recipes.rendezvous import Generation
from raykeeper.clusters import Ensemble, launch
from tests.ray.conftest import all_serve, eventually, new_name

SESSION_S = 5.0
PATIENT_S = 40.0  # a session timeout that no test waits for


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


@pytest.mark.smoke
@pytest.mark.parametrize("max_restarts", [0, -1])
def test_a_standby_takes_over_from_a_killed_leader(shared: Ensemble, max_restarts: int) -> None:
    service = ElectedActor(
        shared.name,
        f"/services/killed{max_restarts}",
        Ledger,
        title="a ledger",
        candidates=2,
        promise="at_least_once",
        session_timeout_s=PATIENT_S,
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
    assert gap_s < PATIENT_S / 2
    leader = service.leader()
    assert leader is not None and leader.epoch == 2
    service.stop()
    with pytest.raises(ClosedError, match="the elected actor was stopped"):
        service.call("write", "four")
    service.start()
    assert service.call("write", "five")[3] == ["five"]
    service.stop()


def test_a_frozen_and_deposed_leader_serves_no_call(ledger: ElectedActor) -> None:
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


class Keeper:
    """Keeps a value in a znode, in the name of its leadership."""

    def __init__(self, ensemble: str, leadership: Any) -> None:
        self.client = connect(ensemble, session_timeout_s=30)
        self.leadership = leadership

    def put(self, value: bytes, begun: Path, may_go_on: Path) -> tuple[bool, int]:
        begun.touch()
        eventually(may_go_on.exists)
        self.client.ensure_path("/kept")
        with self.client.transaction() as t:
            t.when_held(self.leadership)
            t.set("/kept", value)
        return t.succeeded, os.getpid()


@ray.remote(num_cpus=0)
def put_late(service: ElectedActor, begun: Path, may_go_on: Path) -> None:
    service.call("put", b"of the deposed one", begun, may_go_on)


def test_a_write_of_a_deposed_leader_is_refused(shared: Ensemble, tmp_path: Path) -> None:
    at_once, begun, later = tmp_path / "at once", tmp_path / "begun", tmp_path / "later"
    at_once.touch()
    service = ElectedActor(
        shared.name, "/services/keeper", Keeper, shared.name, session_timeout_s=SESSION_S
    )
    service.start()
    was_put, pid = service.call("put", b"first", tmp_path / "first", at_once)
    assert was_put
    late = put_late.remote(service, begun, later)
    eventually(begun.exists)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(DeposedError):
            ray.get(late)
        was_put, other = service.call("put", b"of the new one", tmp_path / "second", at_once)
        assert was_put and other != pid
        later.touch()
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    with shared.connect() as client:
        assert client.get("/kept")[0] == b"of the new one"
    service.stop()


def test_an_error_of_a_method_is_raised_to_the_caller(ledger: ElectedActor) -> None:
    with pytest.raises(LookupError, match="of the user"):
        ledger.call("fail")
    with pytest.raises(AttributeError):
        ledger.call("nothing")


@ray.remote(num_cpus=0)
def call_in_task(service: ElectedActor, begun: Path) -> Any:
    return service.call("work", begun)


def test_at_most_once_raises_for_a_call_whose_leader_died(shared: Ensemble, tmp_path: Path) -> None:
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
        is_crowded = asyncio.Event()

        @limit
        async def work() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now > 1:
                is_crowded.set()
            await is_crowded.wait()
            await asyncio.sleep(0.02)
            now -= 1

        async with asyncio.timeout(60):
            await asyncio.gather(*(work() for _ in range(count)))
        await limit.aclose()
        return most


def test_an_async_actor_elects_a_class_of_coroutines(shared: Ensemble) -> None:
    service = ElectedActor(shared.name, "/services/echo", Echo)
    service.start()
    caller: Any = AsyncCaller.remote()  # type: ignore[attr-defined]
    words = [f"word {n}" for n in range(20)]
    assert ray.get(caller.echo.remote(service, words)) == words
    service.stop()


def test_a_rate_limit_holds_over_tasks_and_actors(shared: Ensemble) -> None:
    limit = RateLimit(shared.name, "/limits/rate", per_second=20, burst=1)

    @ray.remote(num_cpus=0)
    @limit
    def task(number: int) -> int:
        return number

    caller: Any = AsyncCaller.remote()  # type: ignore[attr-defined]
    limit._get_client()
    begun = time.monotonic()
    limit.take()
    tasks = [task.remote(number) for number in range(6)]
    assert ray.get([*tasks, caller.take.remote(limit, 6)]) == [*range(6), 6]
    limit.take()
    assert time.monotonic() - begun > 12 / 20, "13 were taken after the first one"
    lost = limit._get_client()
    lost.close()
    limit.take()
    assert limit._get_client().session_id != lost.session_id
    limit.close()


def test_a_concurrency_limit_holds_over_tasks_and_actors(shared: Ensemble) -> None:
    limit = ConcurrencyLimit(shared.name, "/limits/permits", permits=2)
    caller: Any = AsyncCaller.remote()  # type: ignore[attr-defined]
    assert ray.get(caller.crowd.remote(limit, 8)) == 2
    with limit as held:
        held.lost.check()
        (holder,) = limit.holders()
        assert holder.name == held.path.rpartition("/")[2]
        assert holder.identifier == identity_of_process()
        assert re.match(rb"driver \S+ \w{8} pid \d+ on \S+/\w{12}$", holder.identifier)
    limit.close()


@ray.remote(num_cpus=0)
class Trainer:
    """An actor with a session, which it opens in its first method."""

    def hold(self, limit: ConcurrencyLimit) -> tuple[bytes, int, str]:
        with limit:
            context = ray.get_runtime_context()
            return limit.holders()[0].identifier, os.getpid(), context.get_actor_id()


@ray.remote(num_cpus=0)
class AsyncTrainer:
    """The same with coroutines."""

    async def hold(self, limit: ConcurrencyLimit) -> bytes:
        async with limit:
            return (await limit.holders_async())[0].identifier


@ray.remote(num_cpus=0)
def train_one(limit: ConcurrencyLimit) -> tuple[bytes, int, str]:
    with limit:
        context = ray.get_runtime_context()
        return limit.holders()[0].identifier, os.getpid(), context.get_task_id()


def test_holders_name_their_actor_or_task(shared: Ensemble) -> None:
    limit = ConcurrencyLimit(shared.name, "/limits/who", permits=1)
    (line, pid, actor), other = (
        ray.get(Trainer.options(name=name).remote().hold.remote(limit)) for name in ("main", None)
    )
    assert line.startswith(b'actor Trainer "main" %s pid %d on ' % (actor[:12].encode(), pid))
    assert other[0].startswith(b"actor Trainer %s pid" % other[2][:12].encode())
    line, pid, task = ray.get(train_one.options(name="train 7").remote(limit))
    assert line.startswith(b"task train 7 %s pid %d on " % (task[:12].encode(), pid))
    assert ray.get(AsyncTrainer.remote().hold.remote(limit)).startswith(b"actor AsyncTrainer ")


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


@ray.remote(num_cpus=0)
class Rank:
    """One of a gang; the first generation works until somebody dies."""

    def train(self, gang: Gang, folder: Path) -> tuple[int, int, int]:
        def work(meeting: Generation[Any]) -> tuple[int, int, int]:
            (folder / f"{meeting.generation}-{os.getpid()}").touch()
            if meeting.generation == 1:
                meeting.wait_broken()
                meeting.broken.check()
            return meeting.generation, meeting.rank, len(meeting.members)

        result = gang.run(work)
        gang.close()
        return result


@ray.remote(num_cpus=0)
class AsyncRank:
    """One whose work is a coroutine."""

    async def train(self, gang: Gang, folder: Path) -> tuple[int, int, int]:
        async def work(meeting: Generation[Awaited]) -> tuple[int, int, int]:
            if meeting.generation == 1:
                await meeting.wait_broken()
                meeting.broken.check()
            return meeting.generation, meeting.rank, len(meeting.members)

        result = await gang.run_async(work)
        await gang.aclose()
        return result


def test_a_gang_starts_again_together_after_one_died(shared: Ensemble, tmp_path: Path) -> None:
    gang = Gang(shared.name, "/gangs/train", size=3)
    ranks: list[Any] = [Rank.remote(), Rank.remote(), AsyncRank.remote()]  # type: ignore[attr-defined]
    trained = [rank.train.remote(gang, tmp_path) for rank in ranks]
    eventually(lambda: len(list(tmp_path.glob("1-*"))) == 2)
    pid = int(next(tmp_path.glob("1-*")).name.partition("-")[2])
    os.kill(pid, signal.SIGKILL)
    replacement: Any = Rank.remote()  # type: ignore[attr-defined]
    trained.append(replacement.train.remote(gang, tmp_path))
    results = []
    for each in trained:
        try:
            results.append(ray.get(each))
        except ray.exceptions.RayActorError:
            continue
    assert sorted(results) == [(2, 0, 3), (2, 1, 3), (2, 2, 3)]


@ray.remote(num_cpus=0)
def meet(rendezvous: Rendezvous) -> tuple[int, list[tuple[str, int]], str]:
    """Connect to the next one, whether it accepts already or not, and say who it is."""
    with rendezvous.meet(timeout_s=30) as met:
        places = [(each.host, each.port) for each in met.addresses]
        with socket.create_connection(places[(met.rank + 1) % len(places)], 10) as calling:
            calling.sendall(str(met.rank).encode())
            called, _ = met.socket.accept()
            with called:
                return met.rank, places, called.recv(10).decode()


def test_a_rendezvous_gives_addresses_that_accept_connections(shared: Ensemble) -> None:
    rendezvous = Rendezvous(shared.name, "/rendezvous", size=3)
    found = sorted(ray.get([meet.remote(rendezvous) for _ in range(3)]))
    assert [(rank, caller) for rank, _, caller in found] == [(0, "2"), (1, "0"), (2, "1")]
    assert len({tuple(places) for _, places, _ in found}) == 1
    assert len(set(found[0][1])) == 3


@ray.remote(num_cpus=0)
class Joined:
    """A worker of a group."""

    def __init__(self, workers: WorkerGroup, name: str) -> None:
        self.membership = workers.join(name, b"data of " + name.encode())

    def leave(self) -> None:
        self.membership.leave()

    def where(self) -> tuple[int, str, str | None]:
        context = ray.get_runtime_context()
        return os.getpid(), context.get_node_id(), context.get_actor_id()


def test_a_worker_group_reports_joins_and_deaths(shared: Ensemble) -> None:
    workers = WorkerGroup(shared.name, "/workers", session_timeout_s=PATIENT_S)
    changes: list[WorkersChange] = []
    watch = workers.watch(changes.append)
    actors: list[Any] = [Joined.remote(workers, name) for name in ("a", "b", "c")]  # type: ignore[attr-defined]
    where = ray.get([actor.where.remote() for actor in actors])
    told = eventually(lambda: changes[-1].workers if len(changes[-1].workers) == 3 else None)
    by_name = sorted(told, key=lambda each: each.name)
    assert [(each.pid, each.node_id, each.actor_id) for each in by_name] == where
    assert [each.data for each in by_name] == [b"data of a", b"data of b", b"data of c"]
    ray.get(actors[0].leave.remote())
    eventually(lambda: [each.name for each in changes[-1].left] == ["a"])
    os.kill(where[1][0], signal.SIGKILL)
    eventually(lambda: [each.name for each in changes[-1].left] == ["b"], patience_s=PATIENT_S / 2)
    assert [each.name for each in workers.members()] == ["c"]
    watch.close()
    workers.close()
