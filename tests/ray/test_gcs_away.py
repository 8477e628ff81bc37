"""Ray's GCS does not answer for a while, and a server dies meanwhile: no session is lost."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import ray
from ray import cloudpickle

from raykeeper.client import AsyncClient, Client, ClientState, connect, ray_lookups, with_session
from raykeeper.client.errors import ConnectionLossError, RayUnavailableError
from raykeeper.clusters import Ensemble, attach, launch, list_ensembles
from raykeeper.clusters.node_discovery import discover_nodes
from raykeeper.links import server_directory
from raykeeper.zab.ids import ServerId
from tests.ray import programs
from tests.ray.conftest import PATIENCE_S, Launch, Run, all_serve, eventually, new_name, role_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])

AWAY_S = 8.0
"""Longer than the session timeout, and several times longer than any question or dial may take. So
it shows what half a minute shows, which is too long for every run."""
KILL_AFTER_S = 1.0
BACK_S = 2.0
"""How soon every client is served again after its server died."""
TIMEOUT_S = 5.0
"""Of the sessions: a client that finds no server while the GCS is away loses its session."""
REQUEST_S = 15.0
PROCESSES = 3
CLIENTS = 4
SOON_S = 20.0
SERVERS = [ServerId(1), ServerId(2), ServerId(3)]


class Writers:
    """Clients in one process that write all the time, each in a thread of its own."""

    def __init__(self, ensemble: str, name: str) -> None:
        self.longest_s = [0.0] * CLIENTS
        self.problems: list[str] = []
        self._clients = [
            connect(ensemble, session_timeout_s=TIMEOUT_S, timeout_s=REQUEST_S)
            for _ in range(CLIENTS)
        ]
        self._paths = [f"/{name}-{number}" for number in range(CLIENTS)]
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(number,), daemon=True)
            for number in range(CLIENTS)
        ]
        for client, path in zip(self._clients, self._paths, strict=True):
            client.create(path, ephemeral=True)
        for thread in self._threads:
            thread.start()

    def knows_all_servers(self) -> bool:
        """The client looks the others up in the background, which nothing tells from outside."""
        (directories,) = server_directory._shared.values()
        (directory,) = directories.values()
        return all(directory.address(server) for server in SERVERS)

    def finish(self) -> tuple[float, list[str]]:
        """Return the longest time of a write, and what else went wrong."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        for client, path in zip(self._clients, self._paths, strict=True):
            if client.state is not ClientState.CONNECTED or not client.exists(path):
                self.problems.append(f"the session of {path} is lost")
            client.close()
        return max(self.longest_s), self.problems

    def _write(self, number: int) -> None:
        client, path = self._clients[number], self._paths[number]
        while not self._is_over.wait(0.01):
            began = time.monotonic()
            try:
                client.set(path, b"x")
            except Exception as error:
                self.problems.append(repr(error))
                return
            self.longest_s[number] = max(self.longest_s[number], time.monotonic() - began)


@contextmanager
def gcs_away() -> Iterator[None]:
    """Stop the process of Ray's GCS meanwhile."""
    (gcs,) = ray._private.worker._global_node.all_processes["gcs_server"]
    os.kill(gcs.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(gcs.process.pid, signal.SIGCONT)


def test_clients_of_a_dead_leader_are_served_while_the_gcs_is_away(launch_one: Launch) -> None:
    ensemble = launch_one()
    eventually(lambda: all_serve(ensemble))
    process = ray.remote(num_cpus=0, max_concurrency=2)(Writers)
    writers = [process.remote(ensemble.name, f"p{number}") for number in range(PROCESSES)]
    for writer in writers:
        eventually(lambda writer=writer: ray.get(writer.knows_all_servers.remote()))
    victim = role_of(ensemble, leads=True)
    assert victim.sessions > 0
    with gcs_away():
        time.sleep(KILL_AFTER_S)
        os.kill(victim.pid, signal.SIGKILL)
        time.sleep(AWAY_S - KILL_AFTER_S)
        outcomes = ray.get([writer.finish.remote() for writer in writers])
    assert [problems for _, problems in outcomes] == [[]] * PROCESSES
    assert max(longest_s for longest_s, _ in outcomes) < BACK_S
    eventually(lambda: all_serve(ensemble))


@contextmanager
def soon() -> Iterator[None]:
    """Ray itself takes a minute, or for ever, for what takes a second here."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON_S


def test_calls_end_in_time_with_our_errors_while_the_gcs_is_away(
    shared: Ensemble, driver_environment: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, served = shared.name, threading.Event()
    monkeypatch.setenv(ray_lookups.SETTING, "1")
    lost: list[Callable[[], object]] = [
        lambda: connect(name, timeout_s=1),
        lambda: asyncio.run(AsyncClient.connect(name, timeout_s=1)),
        lambda: shared.connect(timeout_s=1),
        with_session(name, timeout_s=1)(lambda client: None),
    ]
    unavailable: list[Callable[[], object]] = [
        lambda: shared.wait_for_leader(0.5),
        lambda: launch(name=name, timeout_s=0.5),
        lambda: launch(name=new_name(), timeout_s=0.5),
        lambda: attach(name),
        list_ensembles,
        shared.status,
        shared.members,
        shared.keeper,
        lambda: discover_nodes("/nowhere", name),
    ]

    @with_session(name, timeout_s=1, restart_on_loss=True)
    def serve(client: Client) -> None:
        served.set()

    server = threading.Thread(target=serve, daemon=True)
    program = f"from raykeeper.client import connect; connect({name!r}, timeout_s=1)"
    with gcs_away():
        for error, calls in ((ConnectionLossError, lost), (RayUnavailableError, unavailable)):
            for call in calls:
                with soon(), pytest.raises(error, match="its GCS is away"):
                    call()
        code, out, err = run("status", name)
        assert (code, out, err.count("\n")) == (1, "", 1) and "GCS is away" in err
        server.start()
        assert not served.is_set()
    assert served.wait(PATIENCE_S), "a loop goes on when the GCS is back"
    server.join()
    with gcs_away():  # and a process that is in no cluster yet
        done = programs.run([sys.executable, "-c", program], driver_environment)
    assert done.returncode == 1 and "ConnectionLossError" in done.stderr, done.stderr
    connect(name).close()
