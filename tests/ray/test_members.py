"""The members of real ensembles change under a writing client, and callers die in between."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from raykeeper.actors.disk.members_file import read_members
from raykeeper.clusters import (
    ConfigError,
    Ensemble,
    MemberChangeError,
    SettingsDifferError,
    launch,
)
from raykeeper.clusters.actor_calls import find_replicas
from raykeeper.zab.ids import ServerId
from tests.ray.conftest import Launch, Run, all_serve, eventually
from tests.ray.programs import RAYKEEPER, ROOT
from tests.ray.test_transfers import Writer

QUICK = {"promotion_wait_ms": 100}
WAIT_S = 90.0


def members_of(ensemble: Ensemble) -> tuple[list[int], list[int]]:
    report = ensemble.members()
    return [*map(int, report.voters)], [*map(int, report.observers)]


def test_an_ensemble_grows_shrinks_and_replaces_its_leader_while_a_client_writes(
    launch_one: Launch, tmp_path: Path
) -> None:
    """1. From one server to three, to five and back to three.
    2. The leader, the only founder, is replaced: it hands over, leaves and ends.
    3. It is stopped and launched: those of the list start, and others are named.
    """
    ensemble = launch_one(servers=1, **QUICK)
    writer = Writer(ensemble, "/members")
    writer.start()
    for voters in (3, 5, 3):
        report = ensemble.change_members(voters=voters, wait_s=WAIT_S)
        assert (report.voters, report.plan) == ([*range(1, voters + 1)], None)
    assert ensemble.wait_for_leader() == 1
    told: list[str] = []
    report = ensemble.replace_server(1, tell=told.append, wait_s=WAIT_S)
    assert (report.voters, report.observers) == ([2, 3, 6], [])
    acts = [line for line in told if not line.startswith("waiting")]
    assert [line.partition(" (")[0] for line in acts[2:]] == [
        "server 6 becomes an observer",
        "server 2 leads, after server 1",
        "server 6 takes the place of server 1",
        "ended server 1",
        "done: voters 2, 3, 6",
    ]
    assert sorted(find_replicas(ensemble.name)) == [2, 3, 6]
    with pytest.raises(MemberChangeError, match="the id 4 is taken"):
        ensemble.add_server(4)
    with pytest.raises(MemberChangeError, match="no live Ray node has an id that begins with 'x'"):
        ensemble.add_server(node="x")
    assert ensemble.members().plan is None
    with pytest.raises(SettingsDifferError, match="servers: runs with 3, asked for 1"):
        launch(name=ensemble.name, servers=1)
    writer.finish()
    assert len(writer.acknowledged) > 100

    home = tmp_path / "data" / ensemble.name
    for gone in (1, 4, 5):
        left = read_members(home / str(gone))
        assert left is not None and "left the ensemble" in left.removed
    ensemble.shutdown()
    with pytest.raises(ConfigError, match="3 voting servers and 0 observers by its member"):
        launch_one(ensemble.name, servers=1)
    launch_one(ensemble.name)
    eventually(lambda: all_serve(ensemble))
    assert members_of(ensemble) == ([2, 3, 6], [])
    assert sorted(find_replicas(ensemble.name)) == [2, 3, 6]
    with ensemble.connect() as client:
        assert len(client.get_children("/members")) == len(writer.acknowledged)


@contextmanager
def caller(environment: dict[str, str], *words: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that changes members, and is killed at the end of the block."""
    process = subprocess.Popen(
        [RAYKEEPER, "members", *words],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def read_until(process: "subprocess.Popen[str]", words: str) -> None:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or words not in lines[-1]:
        line = process.stdout.readline()
        assert line, lines
        lines.append(line)


def test_a_change_whose_caller_is_killed_goes_on_or_back(
    shared: Ensemble, driver_environment: dict[str, str], run: Run
) -> None:
    """1. A caller adds a server and is killed when that one has started; another one resumes.
    2. A caller replaces the leader and is killed when the newcomer is an observer: undone.
    3. Meanwhile nobody else changes anything.
    """
    eventually(lambda: all_serve(shared))
    writer = Writer(shared, "/killed")
    writer.start()
    with caller(driver_environment, "add", shared.name) as process:
        read_until(process, "started server 4")
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(MemberChangeError, match=f"pid {process.pid} on .* is changing"):
            shared.remove_server(1, wait_s=1.0)
    report: Any = eventually(lambda: (found := shared.members()).at_it == "" and found)
    assert report.plan.text == "add server 4"
    with pytest.raises(MemberChangeError, match="another change has not ended: 'add server 4'"):
        shared.remove_server(1)
    assert "a change of the members has not ended: add server 4" in run("status", shared.name)[1]
    code, out, _ = run("members", "resume", shared.name, "--wait-s", str(WAIT_S))
    assert code == 0 and "done: voters 1, 2, 3, 4" in out
    assert json.loads(run("members", shared.name, "--json")[1])["voters"] == [1, 2, 3, 4]

    leader = shared.wait_for_leader()
    with caller(driver_environment, "replace", str(leader), shared.name) as process:
        read_until(process, "server 5 becomes an observer")
    # Right away: the session of the caller that was killed may not have ended yet.
    code, out, _ = run("members", "undo", shared.name, "--wait-s", str(WAIT_S))
    assert code == 0, out
    voters, observers = members_of(shared)
    # The caller may have got further before it was killed.
    assert (len(voters), observers) == (4, [])
    shared.change_members(voters=3, wait_s=WAIT_S)
    assert len(find_replicas(shared.name)) == 3
    assert run("members", "resume", shared.name)[0] == 1
    writer.finish()
    assert ServerId(5) not in shared.members().voters or leader not in shared.members().voters
