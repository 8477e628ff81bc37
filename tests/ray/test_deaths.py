"""The session of a dead process ends at once, and in doubt it does not: real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import ray
from msgspec import Struct
from ray.exceptions import ActorUnavailableError

from raykeeper.client import Client
from raykeeper.clusters import Ensemble, launch
from tests.ray import holders
from tests.ray.conftest import all_serve, eventually, new_name
from tests.ray.holders import AsyncHolder, AsyncReplica, Replica
from tests.ray.programs import ROOT, run_module

AT_ONCE_S = 0.4
SOON_S = 2.5
PATIENCE_S = 30.0
REFERENCE_S = 5.0
"""The timeout of a session that ends by it: later than any that would end early, though its last
sign of life may be a third of it ago."""
assert REFERENCE_S * 2 / 3 > SOON_S


@pytest.fixture(scope="module")
def over_calls(ray_session: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """An ensemble of one server, which takes links over Ray calls alone."""
    data_dir = tmp_path_factory.mktemp("calls")
    ensemble = launch(name=new_name(), data_dir=data_dir, servers=1, links="ray")
    eventually(lambda: all_serve(ensemble))
    yield ensemble
    ensemble.shutdown()


class Watched:
    """An ephemeral znode, and when it went."""

    def __init__(self, client: Client, path: str) -> None:
        self._gone = threading.Event()
        self._at = 0.0
        eventually(lambda: client.exists(path))
        assert client.exists(path, watch=self._told) is not None

    def _told(self, _event: object) -> None:
        self._at = time.monotonic()
        self._gone.set()

    def after(self, act: Callable[[], object]) -> float:
        """How long after `act` it went."""
        began = time.monotonic()
        act()
        assert self._gone.wait(PATIENCE_S), "it is still there"
        return self._at - began


def kill(pid: int) -> Callable[[], None]:
    return lambda: os.kill(pid, signal.SIGKILL)


def pids(actors: list[Any]) -> list[int]:
    found: list[int] = ray.get([actor.pid.remote() for actor in actors])
    return found


# Dead beyond doubt.


@pytest.mark.smoke
@pytest.mark.parametrize("carrier", ["shared", "over_calls"])
def test_the_session_of_a_dead_actor_ends_at_once(
    request: pytest.FixtureRequest, carrier: str
) -> None:
    """By SIGKILL and by `ray.kill`, with either client."""
    ensemble: Ensemble = request.getfixturevalue(carrier)
    paths = [f"/actor-{i}" for i in range(3)]
    actors = [holders.start(ensemble.name, path) for path in paths]
    other = ray.remote(num_cpus=0)(AsyncHolder).remote()
    with ensemble.connect() as client:
        killed = [
            Watched(client, path).after(kill(pid))
            for path, pid in zip(paths[:2], pids(actors[:2]), strict=True)
        ]
        pid = ray.get(other.hold.remote(ensemble.name, "/async"))
        killed.append(Watched(client, "/async").after(kill(pid)))
        by_ray = Watched(client, paths[2]).after(lambda: ray.kill(actors[2]))
    bound_s = AT_ONCE_S if carrier == "shared" else SOON_S
    assert min(killed) <= bound_s, killed  # the machine may be busy with something else
    assert max(*killed, by_ray) <= SOON_S, (killed, by_ray)


@pytest.mark.parametrize("carrier", ["shared", "over_calls"])
def test_the_session_of_a_restarted_actor_ends_at_once(
    request: pytest.FixtureRequest, carrier: str
) -> None:
    """The process that Ray starts in its place is another one, with a session of its own."""
    ensemble: Ensemble = request.getfixturevalue(carrier)
    path = f"/restarts-{new_name()}"
    actor = holders.start(ensemble.name, path, max_restarts=1, max_task_retries=0)
    with ensemble.connect() as client:
        assert Watched(client, path).after(kill(pids([actor])[0])) <= SOON_S
        stat = eventually(lambda: client.exists(path))
        ray.kill(actor)
        eventually(lambda: client.exists(path) is None)
        assert stat.ephemeral_owner != 0


@pytest.mark.parametrize("carrier", ["shared", "over_calls"])
def test_the_session_of_a_dead_worker_ends_at_once(
    request: pytest.FixtureRequest, carrier: str
) -> None:
    ensemble: Ensemble = request.getfixturevalue(carrier)
    path = "/task"
    task = ray.remote(max_retries=0)(holders.hold_in_a_task).remote(ensemble.name, path)
    with ensemble.connect() as client:
        watched = Watched(client, path)
        assert watched.after(kill(int(client.get(path)[0]))) <= SOON_S
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(task)


@pytest.mark.parametrize("carrier", ["shared", "over_calls"])
def test_the_session_of_a_dead_driver_ends_at_once(
    request: pytest.FixtureRequest, carrier: str, driver_environment: dict[str, str]
) -> None:
    ensemble: Ensemble = request.getfixturevalue(carrier)
    program = [sys.executable, "-m", "tests.ray.holders", ensemble.name, "/driver"]
    driver = subprocess.Popen(program, env=driver_environment, stdin=subprocess.PIPE, cwd=ROOT)
    try:
        with ensemble.connect() as client:
            assert Watched(client, "/driver").after(driver.kill) <= SOON_S
    finally:
        driver.kill()
        driver.communicate()


# Doubt.


class Doubtful(Struct):
    """What became of one process and its session."""

    pid: int
    lives: bool = True
    has_session: bool = True


DOUBTS = (
    *("/frozen", "/link-broken", "/link-broken-and-frozen", "/unavailable", "/out-of-scope"),
    "/frozen-over-calls",
)


@pytest.fixture(scope="module")
def doubtful(shared: Ensemble, over_calls: Ensemble) -> Iterator[dict[str, Doubtful]]:
    """Some that are not dead for sure, after the time in which one that is would be found out."""
    where = {path: over_calls if "calls" in path else shared for path in DOUBTS}
    actors = {path: holders.start(ensemble.name, path) for path, ensemble in where.items()}
    reference = holders.start(shared.name, "/reference", REFERENCE_S)
    found = {path: Doubtful(pids([actor])[0]) for path, actor in actors.items()}
    (reference_pid,) = pids([reference])
    with shared.connect() as client, over_calls.connect() as other:
        watched = Watched(client, "/reference")
        for path in ("/frozen", "/frozen-over-calls"):
            os.kill(found[path].pid, signal.SIGSTOP)
        actors["/link-broken"].cut_link.remote()
        actors["/link-broken-and-frozen"].cut_link_and_freeze.remote()
        with pytest.raises(ActorUnavailableError):
            ray.get(actors["/unavailable"].cut_off.remote(), timeout=PATIENCE_S)
        ray.get(actors["/out-of-scope"].freeze_at_the_end.remote())
        del actors["/out-of-scope"]
        eventually(lambda: psutil.Process(found["/out-of-scope"].pid).status() == "stopped")
        waited_s = watched.after(lambda: os.kill(reference_pid, signal.SIGSTOP))
        assert waited_s > SOON_S, "it stands still, and is not dead"
        for path, each in found.items():
            each.lives = psutil.Process(each.pid).status() != "zombie"
            each.has_session = (other if "calls" in path else client).exists(path) is not None
    yield found
    for pid in [reference_pid, *(each.pid for each in found.values())]:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("path", DOUBTS)
def test_in_doubt_only_the_timeout_ends_a_session(doubtful: dict[str, Doubtful], path: str) -> None:
    assert doubtful[path].lives, "no doubt: it is dead"
    assert doubtful[path].has_session


@pytest.mark.parametrize("kind", [Replica, AsyncReplica])
def test_a_suspended_replica_registers_again(shared: Ensemble, kind: type) -> None:
    name = kind.__name__
    actor = ray.remote(num_cpus=0)(kind).remote()
    pid = ray.get(actor.start.remote(shared.name, name), timeout=PATIENCE_S)
    try:
        with shared.connect() as client, client.services("/replicas") as services:
            first = services.pick(name, timeout_s=PATIENCE_S)
            os.kill(pid, signal.SIGSTOP)
            eventually(lambda: services.instances(name) == [])
            os.kill(pid, signal.SIGCONT)
            second = services.pick(name, timeout_s=PATIENCE_S)
            assert (second.name, second.port) == (first.name, first.port)
            assert second.token > first.token
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.smoke
def test_sessions_on_other_nodes_and_lost_nodes_end_correctly() -> None:
    done = run_module("tests.ray.lost_nodes", {})
    assert done.stdout.endswith("all is well\n")
    # A server that asks Ray does not warn the user's terminal of it.
    assert "blocking ray.get" not in done.stdout + done.stderr
