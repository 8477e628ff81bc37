"""What the commands for operators tell of real servers and clients."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray
from msgspec.structs import replace

from raykeeper.actors.ray_actors import find_replica
from raykeeper.client import connect
from raykeeper.client.errors import NodeExistsError
from raykeeper.clusters import Ensemble
from raykeeper.clusters.admin import admin_of
from raykeeper.clusters.healing.vocabulary import MoveStep
from raykeeper.clusters.keeper_journal import ELECTION, Journal
from raykeeper.zab.ids import ServerId
from tests.harness.decisions import BEGUN
from tests.ray.conftest import Launch, Run, all_serve, eventually, role_of


@ray.remote(num_cpus=0)
class Trainer:
    """An actor with a session of its own."""

    def __init__(self, name: str) -> None:
        self.client = connect(name)

    def pid(self) -> int:
        return os.getpid()

    def lock(self, path: str) -> int:
        self.held = self.client.lock(path).acquire()
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


def test_a_lock_is_told_with_the_actor_that_holds_it(shared: Ensemble, run: Run) -> None:
    trainer = Trainer.remote(shared.name)  # type: ignore[attr-defined]
    with shared.connect() as client, ThreadPoolExecutor(1) as thread:
        client.create("/locks")
        pid = ray.get(trainer.lock.remote("/locks/x"))
        lock = client.lock("/locks/x", b"me [red]")
        waiting = thread.submit(lock.acquire, 100)
        eventually(lambda: len(lock.contenders()) == 2)
        client.get("/locks", lambda _: None)
        code, out, _ = run("locks", f"{shared.name}/locks")
        (holder,) = [line for line in out.splitlines() if " holds " in line]
        assert code == 0 and holder.startswith("/locks/x  lock  holds ")
        assert re.search(rf" [123] +actor Trainer \w+ pid {pid} on ", holder)
        (told,) = json.loads(run("locks", "--json", "/locks/x")[1])["locks"]
        assert (told["holders"], told["waiting"]) == (1, 1)
        first, second = told["contenders"]
        assert (first["state"], first["identity"]) == ("holds", first["identifier"])
        assert (second["state"], second["identifier"]) == ("waits", "me [red]")
        assert f"pid {os.getpid()} on" in second["identity"]
        (watch,) = json.loads(run("watches", "--json", "/locks")[1])["watches"]
        assert (watch["kind"], watch["session_id"]) == ("data", second["session_id"])
        # Whoever waits watches the place before its own.
        watches = run("watches", "--session", second["session_id"])[1]
        assert f"/locks/x/{first['name']}" in watches
        ray.kill(trainer)
        held = waiting.result()
        (told,) = json.loads(run("locks", "--json", "/locks/x")[1])["locks"]
        assert (told["waiting"], told["contenders"][0]["name"]) == (0, second["name"])
        held.release()
        client.delete("/locks", recursive=True)
    assert run("locks", shared.name)[1].startswith("0 locks, as server ")
    assert run("watches", shared.name)[:2] == (0, NO_WATCH)
    for place, nobody in (
        ("locks", "holds a lock there, or waits for one"),
        ("watches", "watches for it"),
    ):
        error = f"error: /locks: no such znode (nobody {nobody})\n"
        assert run(place, "/locks") == (1, "", error)
    assert run("watches", "--session", "0x63")[0] == 1
    assert run("locks", "no-such-one/x")[0] == 3


NO_WATCH = "0 watches of 0 on the servers that answer\nserver  session  kind  path  client\n"


def test_the_sizes_of_the_tree_are_told(shared: Ensemble, run: Run) -> None:
    with shared.connect() as client:
        for number in range(30):
            client.create(f"/sizes/n{number:02}", bytes(100 - number), makepath=True)
        code, out, _ = run("tree", f"{shared.name}/sizes", "--largest", "2")
        lines = out.splitlines()
        assert (code, lines[2].split()[:2]) == (0, ["/sizes", "31"])
        assert [line.split()[0] for line in lines[3:5]] == ["n00", "n01"]
        assert lines[5].split()[:3] == ["28", "more", "28"]
        document = json.loads(run("tree", "--json", "--depth", "0", shared.name)[1])
        assert document["tree"]["znodes"] == role_of(shared, leads=True).znodes
        client.delete("/sizes", recursive=True)
    assert run("tree", "/sizes") == (1, "", "error: /sizes: no such znode\n")


def test_top_counts_what_the_servers_do(shared: Ensemble, run: Run) -> None:
    with shared.connect() as client:
        client.create("/top")
        code, out, _ = run("top", "--looks", "2", "--interval-s", "0.5", "--json", shared.name)
        first, second = (json.loads(line) for line in out.splitlines())
        assert (code, first["leader"]) == (0, shared.wait_for_leader())
        assert sum(each["stats"]["connections"] for each in second["servers"]) >= 1
        assert all(each["rates"] for each in second["servers"])
        code, out, _ = run("top", "--looks", "1", shared.name)
        assert (code, out.count(" follower "), out.count(" leader ")) == (0, 2, 1)
        client.delete("/top")


def test_events_are_followed(launch_one: Launch, ray_session: str) -> None:
    ensemble = launch_one(servers=1)
    words = ["events", "--follow", "--json", "--address", ray_session, ensemble.name]
    # A process inherits that SIGINT is ignored, as it is in a job in the background of a shell.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from raykeeper.commands.command_line import main; main()"
    )
    with (
        ensemble.connect() as client,
        subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE) as told,
    ):
        try:
            journal = Journal(client)
            journal.create_paths()
            leadership = client.election(ELECTION).lead()
            assert told.stdout is not None
            for step in (MoveStep.BEGUN, MoveStep.DONE):
                entry = journal.write_decision(leadership, replace(BEGUN, step=step))
                document = json.loads(told.stdout.readline())
                assert (document["number"], document["step"]) == (entry.number, step.value)
            told.send_signal(signal.SIGINT)
            assert told.wait(60) == 130
        finally:
            told.kill()


NO_EVENT = """\
no decision of a keeper is known
no keeper runs now: nothing is decided
no server has a leader: what is shown may be old
"""
COMMAND_S = 30.0
"""A late server takes a command 2 s; the rest is for a machine that is busy with other tests."""


def test_a_server_that_is_late_is_named_and_the_others_tell(launch_one: Launch, run: Run) -> None:
    ensemble = launch_one()
    eventually(lambda: all_serve(ensemble))
    frozen = role_of(ensemble, leads=False)
    told, took = {}, {}
    with ensemble.connect():
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            for words in ("sessions", "tree", "status", "top --looks 1"):
                began = time.monotonic()
                told[words] = run(*words.split(), ensemble.name)
                took[words] = time.monotonic() - began
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
    late = f"server {frozen.server_id} is down: no answer within 2 s"
    assert [(code, out.splitlines()[-1]) for code, out, _ in told.values()] == [(0, late)] * 4
    assert told["sessions"][1].startswith("1 session, as server ")
    assert max(took.values()) < COMMAND_S, took


def test_all_is_told_without_a_leader(launch_one: Launch, run: Run) -> None:
    ensemble = launch_one(servers=2)
    client = ensemble.connect(session_timeout_s=60)
    client.create("/kept")
    ray.kill(find_replica(ensemble.name, ServerId(1)), no_restart=True)
    down = "server 1 is down: not started"
    eventually(lambda: ensemble.status().leader is None)
    code, out, _ = eventually(lambda: _if_it_ends(run("sessions", ensemble.name), down))
    assert (code, out.splitlines()[0]) == (0, "1 session, as server 2 knows them")
    first, _ = admin_of(ensemble.name).sessions().servers
    assert first.problem == "not started"
    for words in ("locks", "watches", "tree", "top --looks 1"):
        assert _if_it_ends(run(*words.split(), ensemble.name), down), words
    assert run("status", ensemble.name)[0] == 4
    assert run("events", ensemble.name)[:2] == (0, NO_EVENT)
    code, out, _ = run("doctor", "--json", ensemble.name)
    rules = {each["rule"]: each["text"] for each in json.loads(out)["findings"]}
    assert code == 2 and rules.keys() >= {"quorum.no_leader", "server.down"}
    assert rules["server.down"] == "not started"
    launch_one(ensemble.name, servers=2)
    client.close()


def _if_it_ends(done: tuple[int, str, str], down: str) -> tuple[int, str, str] | None:
    """What a command printed, if Ray does not list the killed server any more."""
    last = [down, "no server has a leader: what is shown may be old"]
    return done if done[1].splitlines()[-2:] == last else None


def test_log_and_inspect_tell_what_was_done_around_kills(shared: Ensemble, run: Run) -> None:
    """Of a client whose process was killed and of a server that was: from any server's folder."""
    trainer = Trainer.remote(shared.name)  # type: ignore[attr-defined]
    ray.get(trainer.lock.remote("/audited/lock"))
    with shared.connect() as client:
        (held,) = client.get_children("/audited/lock")
        client.create("/audited/a", b"1")
        with pytest.raises(NodeExistsError):
            client.create("/audited/a")
        ray.kill(trainer)
        eventually(lambda: client.get_children("/audited/lock") == [])
        killed = role_of(shared, leads=False).pid
        os.kill(killed, signal.SIGKILL)
        client.set("/audited/a", b"2")
        eventually(
            lambda: (
                all(server.pid != killed for server in shared.status().servers)
                and all_serve(shared)
            )
        )
        client.delete("/audited", recursive=True)
        session = f"{client.client_id.session_id:#x}"
    described = shared.describe()
    assert described is not None
    folders = [str(Path(described.folder).parent / str(number)) for number in (1, 2, 3)]

    def logged(folder: str) -> list[dict[str, Any]]:
        code, out, err = run("log", folder, "--path", "/audited", "-r", "--json")
        assert code == 0, err
        # Ray prints what the killed processes have printed last, at any moment.
        *entries, summary = [json.loads(x) for x in out.splitlines() if x.startswith("{")]
        assert (summary["found"], summary["holds_all"]) == (len(entries), True)
        return entries

    def is_complete(folder: str) -> bool:
        """A follower may have the last transactions only in a moment."""
        return logged(folder)[-1]["type"] in ("delete", "multi")

    for folder in folders:
        eventually(partial(is_complete, folder))
        told = logged(folder)
        mine = [each for each in told if each["session"] == session]
        assert [(each["type"], each["error"]) for each in mine[:3]] == [
            ("create", None),
            ("error", "NODE_EXISTS"),
            ("set", None),
        ]
        assert (mine[1]["op"], mine[1]["path"]) == ("create", "/audited/a")
        assert {each["client"]["server_id"] for each in mine[:2]} <= {1, 2, 3}
        (ended,) = [each for each in told if each["type"] == "close_session"]
        assert (ended["reason"], [each["path"] for each in ended["changes"]]) == (
            "process_died",
            [f"/audited/lock/{held}"],
        )
        code, out, err = run("inspect", "verify", folder)
        assert code == 0, out + err
    code, out, err = run("inspect", "diff", *folders[:2])
    assert code == 0, out + err
