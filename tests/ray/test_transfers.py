"""The lead moves, servers are drained, restart and change settings, and no client sees an error."""

import threading
from pathlib import Path
from typing import Any

import pytest

from raykeeper.clusters import (
    Ensemble,
    LeadershipTransferError,
    RollingRestartError,
    ServerDrainError,
    SettingsDifferError,
    apply_settings,
    launch,
)
from raykeeper.clusters.rolling_settings import stop_for_good
from raykeeper.clusters.rolling_turn import rolling_turn
from raykeeper.clusters.running_servers import find_running
from raykeeper.zab.ids import ServerId
from tests.ray.conftest import Run, all_serve, eventually


class Writer(threading.Thread):
    """Creates sequential znodes one after the other; remembers the paths and the first error."""

    def __init__(self, ensemble: Ensemble, parent: str) -> None:
        super().__init__()
        self._client = ensemble.connect()
        self._parent = parent
        self._client.create(parent)
        self._ends = threading.Event()
        self.acknowledged: list[str] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._ends.is_set():
                path = self._client.create(f"{self._parent}/n-", b"x", sequence=True)
                self.acknowledged.append(path)
        except Exception as error:  # told by `finish`
            self.error = error

    def finish(self) -> None:
        """End, and check that each write was done once and that the session is the same."""
        self._ends.set()
        self.join()
        assert self.error is None
        names = [path.rpartition("/")[2] for path in self.acknowledged]
        assert sorted(self._client.get_children(self._parent)) == names
        assert [int(name[-10:]) for name in names] == list(range(len(names)))
        self._client.close()


def test_the_lead_moves_while_a_client_writes(shared: Ensemble, run: Run) -> None:
    eventually(lambda: all_serve(shared))
    writer = Writer(shared, "/transfer")
    writer.start()
    before = shared.wait_for_leader()
    others = [server for server in (1, 2, 3) if server != before]
    for server in (others[0], others[1], before):
        assert shared.transfer_leadership(server, timeout_s=30.0) == server
        assert shared.wait_for_leader() == server
        eventually(lambda: all_serve(shared))
    assert shared.transfer_leadership(before) == before
    code, out, _ = run("transfer", shared.name, "--to", str(others[0]), "--timeout-s", "30")
    assert (code, out) == (0, f"server {others[0]} leads, after server {before}\n")
    assert run("transfer", shared.name, "--to", str(others[0]))[1].endswith("leads already\n")
    writer.finish()


@pytest.mark.parametrize(("to", "words"), [(9, "has no server 9; its members are 1, 2, 3")])
def test_a_transfer_that_is_not_possible_says_why(shared: Ensemble, to: Any, words: str) -> None:
    with pytest.raises(LeadershipTransferError, match=words):
        shared.transfer_leadership(to)


def test_a_server_is_drained_while_a_client_writes(shared: Ensemble, run: Run) -> None:
    eventually(lambda: all_serve(shared))
    writer = Writer(shared, "/drain")
    others = [shared.connect() for _ in range(5)]
    sessions = [client.client_id.session_id for client in others]
    writer.start()
    leader = shared.wait_for_leader()
    told: list[str] = []
    for server in (1, 2, 3):
        if server != leader:
            assert shared.drain(server, clients_per_s=50, tell=told.append) >= 0
            assert clients_of(shared, server) == 0
    # All are at the leader by now, which hands over and goes on to follow.
    assert clients_of(shared, leader) == len(others) + 1
    assert all(shared.end_drain(server) for server in (1, 2, 3) if server != leader)
    code, out, _ = run("drain-server", str(leader), shared.name)
    assert (code, out.splitlines()[1:]) == (
        0,
        [f"server {leader} had 6 clients and has none; it takes none until --undo"],
    )
    status = next(each for each in shared.status().servers if each.server_id == leader)
    assert (status.role, status.clients_to_move) == ("follower", 0)
    with pytest.raises(ServerDrainError, match="no other server would take the clients"):
        for server in (1, 2, 3):
            shared.drain(server)
    for server in (1, 2, 3):
        shared.end_drain(server)
    assert run("drain-server", str(leader), shared.name, "--undo")[1].endswith("was not drained\n")
    assert told == []
    assert [client.exists("/drain") is not None for client in others] == [True] * 5
    assert [client.client_id.session_id for client in others] == sessions
    for client in others:
        client.close()
    writer.finish()


def clients_of(ensemble: Ensemble, server: int) -> int:
    """How many clients a server has."""
    found = next(each for each in ensemble.status().servers if each.server_id == server)
    return sum(found.clients.values())


def test_servers_restart_in_turn_while_a_client_writes(shared: Ensemble, run: Run) -> None:
    eventually(lambda: all_serve(shared))
    writer = Writer(shared, "/rolling")
    writer.start()
    before = {each.server_id: each.pid for each in shared.status().servers}
    leader = shared.wait_for_leader()
    told: list[str] = []
    restarted = shared.rolling_restart(wait_s=90.0, tell=told.append)
    assert sorted(restarted) == [1, 2, 3] and restarted[-1] == leader
    eventually(lambda: all_serve(shared))
    after = {each.server_id: each.pid for each in shared.status().servers}
    assert all(before[server] != after[server] for server in before)
    assert [line.partition(" ")[0] for line in told] == ["restarting"] * 2 + [
        "server",
        "restarting",
    ]
    writer.finish()
    assert run("restart", shared.name)[0] == 2  # not without --rolling


class Interrupted(Exception):
    """The operator gives up."""


def test_settings_change_server_by_server_while_a_client_writes(
    shared: Ensemble, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    eventually(lambda: all_serve(shared))
    writer = Writer(shared, "/settings")
    writer.start()
    leader = shared.wait_for_leader()
    file, told = tmp_path / "new.yaml", list[str]()
    file.write_text(f"name: {shared.name}\nlog_format: json\ntick_ms: 600\nheal_after_s: 300\n")
    with pytest.raises(SettingsDifferError):
        launch(file)
    with pytest.raises(SettingsDifferError, match="to change placement"):
        apply_settings(file, placement="spread")
    # A caller that is killed leaves a server stopped, or others with the old settings.
    first = next(server for server in (1, 2, 3) if server != leader)
    others = ", ".join(str(server) for server in (1, 2, 3) if server != first)
    stop_for_good(shared.name, ServerId(first))

    def tell_once(line: str) -> None:
        if line.startswith("restarting"):
            raise Interrupted(line)

    with pytest.raises(Interrupted):
        apply_settings(file, tell=tell_once)
    assert formats_of(shared) == {first: "json"} | {
        server: "text" for server in (1, 2, 3) if server != first
    }
    with rolling_turn(shared, 90.0), pytest.raises(RollingRestartError, match="another process"):
        apply_settings(file, wait_s=0.1)
    caplog.clear()
    code, out, err = run("up", str(file), "--apply", "--wait-s", "90")
    assert code == 0, err
    # Though two servers are placed.
    assert sum("share a node" in message for message in caplog.messages) == 1
    lines = out.splitlines()
    by_value = sorted([(str(first), 600), (others, 500)])
    told_values = " and ".join(f"{value} (server {servers})" for servers, value in by_value)
    assert lines[0] == f"tick_ms: runs with {told_values}, asked for 600"
    assert [line.partition(" ")[0] for line in lines[3:6]] == ["restarting", "server", "restarting"]
    assert formats_of(shared) == dict.fromkeys((1, 2, 3), "json")
    assert shared.keeper() is not None
    assert launch(file) == shared and apply_settings(file) == shared
    # Another number of members comes first; the newcomer has the settings of the others by then.
    apply_settings(file, observers=1, tell=told.append)
    assert formats_of(shared) == dict.fromkeys((1, 2, 3, 4), "json")
    assert told[0] == "observers: runs with 0, asked for 1" and told[-1].startswith("done: ")
    writer.finish()


def formats_of(ensemble: Ensemble) -> dict[int, str]:
    """The log format of each server that describes it."""
    found = find_running(ensemble.name)
    return {server: each.settings["log_format"] for server, each in found.items() if each}
