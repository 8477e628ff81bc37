"""What the commands for operators tell of real servers and clients."""

import json
import os
import re

import ray

from raykeeper.actors.ray_actors import find_replica
from raykeeper.client import connect
from raykeeper.clusters import Ensemble
from raykeeper.clusters.admin import admin_of
from raykeeper.zab.ids import ServerId
from tests.ray.conftest import Launch, Run, eventually


@ray.remote(num_cpus=0)
class Trainer:
    """An actor with a session of its own."""

    def __init__(self, name: str) -> None:
        self.client = connect(name)

    def pid(self) -> int:
        return os.getpid()


def test_a_session_is_told_with_its_actor(shared: Ensemble, run: Run) -> None:
    trainer = Trainer.remote(shared.name)  # type: ignore[attr-defined]
    pid = ray.get(trainer.pid.remote())
    with shared.connect() as client:
        code, out, _ = run("sessions", shared.name)
        assert (code, out.splitlines()[0].partition(",")[0]) == (0, "2 sessions")
        (row,) = [line for line in out.splitlines() if "actor Trainer" in line]
        assert re.search(rf"^0x\w+ +actor Trainer \w{{12}} pid {pid} on \S+ +[123] ", row)
        code, out, _ = run("sessions", "--json", "--limit", "1", shared.name)
        document = json.loads(out)
        assert (document["total"], document["left_out"]) == (2, 1)
        assert len(document["sessions"]) == 1
        last = f"{client.client_id.session_id:#x}"
        first = document["sessions"][0]["session_id"]
        code, out, _ = run("sessions", "--json", "--after", first, shared.name)
        (mine,) = json.loads(out)["sessions"]
        assert (mine["session_id"], mine["phase"]) == (last, "connected")
        assert f"pid {os.getpid()} on" in mine["identity"]
    assert run("sessions", "--after", "x", shared.name)[0] == 2
    ray.kill(trainer)


def test_sessions_are_told_without_a_leader(launch_one: Launch, run: Run) -> None:
    ensemble = launch_one(servers=2)
    client = ensemble.connect(session_timeout_s=20)
    ray.kill(find_replica(ensemble.name, ServerId(1)), no_restart=True)
    eventually(lambda: ensemble.status().leader is None)
    code, out, _ = run("sessions", ensemble.name)
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "1 session, as server 2 knows them")
    assert lines[-2:] == [
        "server 1 is down: not started",
        "no server has a leader: what is shown may be old",
    ]
    (state, _) = admin_of(ensemble.name).sessions().servers
    assert state.problem == "not started"
    launch_one(ensemble.name, servers=2)
    client.close()
