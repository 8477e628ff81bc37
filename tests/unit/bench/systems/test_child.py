"""A server process: killed, started again, stopped; and one that ends by itself."""

import socket
import sys
from pathlib import Path

import psutil
import pytest

from raykeeper.bench.errors import BenchError
from raykeeper.bench.loads.processes import LoadProcesses
from raykeeper.bench.systems.child import (
    ChildProcess,
    ChildServers,
    free_ports,
    free_ports_in_a_row,
    wait_until,
)
from raykeeper.bench.systems.contract import EnsembleShape

WAITS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def test_a_child_is_killed_and_started_again(tmp_path: Path) -> None:
    child = ChildProcess(WAITS, tmp_path / "printed")
    assert child.pid == 0
    child.start()
    first = child.pid
    child.start()
    assert child.pid == first > 0  # it runs already
    child.kill()
    assert child.pid == 0 and not psutil.pid_exists(first)
    child.start()
    assert child.pid not in (0, first)
    child.stop()
    assert not child.is_up()
    child.stop()


def test_ports_in_a_row_are_free_and_none_that_clients_get() -> None:
    first = free_ports_in_a_row(3)
    assert 20_000 <= first < 29_998
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        assert abs(free_ports_in_a_row(3) - first) >= 3


def test_a_child_that_does_not_serve_in_time_is_an_error(tmp_path: Path) -> None:
    child = ChildProcess(WAITS, tmp_path / "printed")
    child.start()
    try:
        with pytest.raises(BenchError, match=r"does not serve after 0\.01 s"):
            wait_until(lambda: False, 0.01, [child])
    finally:
        child.stop()


def test_a_child_that_ends_is_reported_with_its_output(tmp_path: Path) -> None:
    child = ChildProcess(
        [sys.executable, "-c", "import sys; sys.exit('no port')"], tmp_path / "printed"
    )
    child.start()
    with pytest.raises(BenchError, match="a server ended: no port"):
        wait_until(lambda: False, 30.0, [child])


class Sleepers(ChildServers):
    """Servers that serve as long as they live; the last one that lives leads."""

    def load(self, client: str, tasks: object) -> LoadProcesses:
        raise NotImplementedError

    def serves(self, server: int) -> bool:
        return self.pid(server) > 0

    def _leads(self, server: int) -> bool:
        return server == max(i for i in self._ports if self.serves(i))

    def _child(self, server: int) -> ChildProcess:
        return ChildProcess(WAITS, self._folder / f"printed-{server}")


def test_servers_run_together_and_are_killed_one_by_one(tmp_path: Path) -> None:
    with Sleepers(EnsembleShape(3), tmp_path, {1: 10, 2: 20, 3: 30}).running() as servers:
        assert servers.where() == "127.0.0.1:10,127.0.0.1:20,127.0.0.1:30"
        assert servers.where(2) == "127.0.0.1:20"
        pids = [servers.pid(i) for i in (1, 2, 3)]
        assert len({*pids, 0}) == 4
        assert servers.leader() == 3
        servers.kill(3)
        assert (servers.pid(3), servers.leader()) == (0, 2)
        servers.start(3)
        servers.crash(1)
        assert servers.pid(1) not in (0, pids[0])
        assert servers.pid(4) == 0  # an observer of a system that has none
        running = [servers.pid(i) for i in (1, 2, 3)]
    assert not any(psutil.pid_exists(pid) for pid in running)


def test_servers_that_do_not_serve_are_stopped(tmp_path: Path) -> None:
    class Mute(Sleepers):
        def serves(self, server: int) -> bool:
            self._children[server].kill()
            return False

    servers = Mute(EnsembleShape(1), tmp_path, {1: 10})
    with pytest.raises(BenchError, match="a server ended"), servers.running():
        pass
    assert servers.pid(1) == 0


def test_free_ports_are_different() -> None:
    assert len(set(free_ports(9))) == 9
