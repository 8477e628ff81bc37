"""Servers of a pinned earlier commit and of this checkout in one ensemble, over TCP and on disks.

Each server is a process (version_server.py) that imports the version that PYTHONPATH names. The
pinned commit comes out of the git history; a checkout without it skips these tests.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import IO, Any

import pytest

from raykeeper.clusters.actor_calls import NEWER_METHODS
from tests.pinned_version import ROOT, check_out_pinned

PATIENCE_S = 60.0
IDS = (1, 2, 3)
ROOMS_OF_FORMATS = (
    *("zab.messages", "server.peer_messages", "links.hello", "znodes.txns", "znodes.snapshot"),
    *("znodes.sessions", "znodes.requests", "znodes.replies", "znodes.stat", "znodes.acl"),
)
"""The modules of messages, transactions and snapshots."""
RENAMED = {("Vote", "has_disk_space"): "is_willing"}
"""Names are not written, so they may change."""
LAYOUTS = """
import importlib, json, sys
from msgspec import Struct
found = {}
for name in sys.argv[1:]:
    module = importlib.import_module(f"raykeeper.{name}")
    for each in vars(module).values():
        is_own = getattr(each, "__module__", "") == module.__name__
        if is_own and isinstance(each, type) and issubclass(each, Struct):
            config, fields = each.__struct_config__, each.__struct_fields__
            if config.array_like:
                needed = len(fields) - len(each.__struct_defaults__)
                found[each.__name__] = [config.tag, needed, fields]
print(json.dumps(found))
"""
METHODS = """
import json
from raykeeper.actors.replica import Replica
print(json.dumps([name for name in vars(Replica) if not name.startswith("_")]))
"""


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the pinned commit."""
    return check_out_pinned(tmp_path_factory.mktemp("pinned"))


class Process:
    """A server of one version."""

    def __init__(
        self, version: Path, server_id: int, folder: Path, snapshots: int, is_founding: bool
    ) -> None:
        self.server_id = server_id
        self.log = folder.with_name(f"{folder.name}.log")
        config = {
            "server_id": server_id,
            "voters": IDS,
            "folder": str(folder),
            "snapshot_every_txns": snapshots,
            "is_founding": is_founding,
        }
        program = ROOT / "tests/contract/version_server.py"
        self.errors: IO[bytes] = self.log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(program), json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, "PYTHONPATH": str(version)},
        )
        self.address: list[Any] | None = self._read()

    def ask(self, do: str, **fields: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._read()
        assert isinstance(answer, dict), self.log.read_text()[-3000:]
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                pipe.close()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None


class Mixed:
    """An ensemble whose servers change their versions."""

    def __init__(self, data: Path, *, snapshots: int = 1_000_000) -> None:
        self.data = data
        self.running: dict[int, Process] = {}
        self.written: dict[str, str] = {}
        self._snapshots = snapshots
        self._started: dict[int, None] = {}
        self._sessions = self._reads = 0

    def start(self, server_id: int, version: Path) -> Process:
        """Start a server, or another version of it on its folder."""
        if server_id in self.running:
            self.running.pop(server_id).end()
        folder, is_new = self.data / str(server_id), server_id not in self._started
        self._started[server_id] = None
        process = Process(version, server_id, folder, self._snapshots, is_new)
        if process.address is not None:
            self.running[server_id] = process
            addresses = {each: other.address for each, other in self.running.items()}
            for other in self.running.values():
                other.ask("peers", addresses=addresses)
        return process

    def statuses(self) -> dict[int, dict[str, Any]]:
        return {each: process.ask("status") for each, process in self.running.items()}

    def await_following(self) -> None:
        """Wait until every server that runs leads or follows, at the same zxid."""

        def all_follow() -> bool:
            found = list(self.statuses().values())
            roles = sorted(each["role"] for each in found)
            is_one = len({(each["zxid"], each["digest"]) for each in found}) == 1
            return is_one and roles == ["follower"] * (len(found) - 1) + ["leader"]

        eventually(all_follow)

    def write(self, server_id: int, count: int = 3) -> None:
        """Write through a server, in a session of its own."""
        process = self.running[server_id]
        self._sessions += 1
        if not hasattr(process, "is_connected"):
            assert process.ask("connect", password=f"{self._sessions:016}") == {"code": 0}
            process.is_connected = True  # type: ignore[attr-defined]
        for _ in range(count):
            path, value = f"/n{len(self.written)}", f"of {server_id}"
            assert process.ask("create", path=path, value=value)["code"] == 0
            self.written[path] = value
        self.leave_what_is_told_since(process)

    def leave_what_is_told_since(self, process: Process) -> None:
        """Make the transactions that have fields which the pinned version does not know."""
        refused = process.ask("be_refused", path="/none")
        assert refused == {"codes": [-101, -101]}
        self._sessions += 1
        visited = process.ask("visit", password=f"{self._sessions:016}", path="/visitor")
        assert visited == {"codes": [0, 0, 0]}

    def check(self) -> None:
        """Check that every server has everything that was acknowledged, and the same tree."""
        self.await_following()
        for server_id, process in self.running.items():
            if hasattr(process, "is_connected"):
                for path, value in self.written.items():
                    self._reads += 1
                    answer = process.ask("get", path=path, xid=self._reads)
                    assert answer == {"value": value}, (server_id, path)

    def close(self) -> None:
        for process in self.running.values():
            process.end()


def eventually(is_met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_met():
        assert time.monotonic() < deadline, f"{is_met} is still not met"
        time.sleep(0.05)


@pytest.fixture(params=[1_000_000, 4], ids=["logs", "snapshots"])
def mixed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Mixed]:
    ensemble = Mixed(tmp_path, snapshots=request.param)
    yield ensemble
    ensemble.close()


def layouts(version: Path) -> dict[str, tuple[int | None, int, list[str]]]:
    """The tag, the number of fields without a default, and all fields of what is written."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", LAYOUTS, *ROOMS_OF_FORMATS],
        env={**os.environ, "PYTHONPATH": str(version)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: tuple(layout) for name, layout in json.loads(done.stdout).items()}


def methods(version: Path) -> set[str]:
    """The names by which Ray can call a server."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", METHODS],
        env={**os.environ, "PYTHONPATH": str(version)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def test_what_the_pinned_version_cannot_be_called_is_known(pinned: Path) -> None:
    assert methods(ROOT) - methods(pinned) == NEWER_METHODS


def test_each_format_has_grown_at_its_end_alone(pinned: Path) -> None:
    """So the pinned version reads what this one writes, and passes over what is new."""
    before, now = layouts(pinned), layouts(ROOT)
    assert {"ErrorTxn", "SessionRecord", "FollowerInfo", "Hello", "Vote"} <= before.keys()
    for name, (tag, needed, fields) in before.items():
        known = [RENAMED.get((name, field), field) for field in fields]
        assert now[name][:2] == (tag, needed), name
        assert now[name][2][: len(known)] == known, name


def test_forward_and_back_and_refused_after(pinned: Path, mixed: Mixed) -> None:
    old, new = pinned, ROOT
    for server in IDS:
        mixed.start(server, old)
    mixed.await_following()
    mixed.write(1)
    # Forward, one after the other: both versions lead, follow, and read the other's folders.
    for server in (1, 3):
        mixed.start(server, new)
        mixed.await_following()
        mixed.write(1)
        mixed.write(2)
        mixed.check()
    assert {each["level"] for each in mixed.statuses().values()} == {1}
    # Back, while the level is not raised: on the folders that the newer version has written.
    for server in (3, 1):
        mixed.start(server, old)
        mixed.await_following()
        mixed.write(server)
    mixed.check()
    # All forward: then the leader raises the level.
    for server in IDS:
        mixed.start(server, new)
        mixed.await_following()
        mixed.write(server)
    eventually(lambda: {each["level"] for each in mixed.statuses().values()} == {2})
    mixed.write(2, count=6)
    mixed.check()
    # Refused after, by name and with nothing changed; the others go on.
    identity = mixed.data / "2/identity"
    before = identity.read_bytes()
    refused = mixed.start(2, old)
    assert refused.address is None
    refused.end()
    assert "identity has version 3; this program reads 2" in refused.log.read_text()
    assert identity.read_bytes() == before
    mixed.write(1)
    # On an empty disk it starts, and no leader admits it.
    shutil.rmtree(mixed.data / "2")
    mixed.start(2, old)
    leader = next(each for each, status in mixed.statuses().items() if status["role"] == "leader")
    eventually(lambda: "level.refused" in mixed.running[leader].log.read_text())
    assert mixed.running[2].ask("status")["zxid"] == 0  # it was sent nothing
    mixed.running.pop(2).end()
    shutil.rmtree(mixed.data / "2")
    mixed.start(2, new)
    mixed.check()
    assert {each["level"] for each in mixed.statuses().values()} == {2}


def test_both_versions_under_kills(pinned: Path, tmp_path: Path) -> None:
    """Servers are killed, leaders too, and come back in either version; no write is lost."""
    random, mixed = Random(18), Mixed(tmp_path, snapshots=5)
    try:
        versions = dict.fromkeys(IDS, pinned)
        for server in IDS:
            mixed.start(server, pinned)
        mixed.await_following()
        for _ in range(8):
            victim = random.choice(IDS)
            others = [versions[each] for each in IDS if each != victim]
            # Never all of the new one: the level would be raised.
            is_last = others == [ROOT, ROOT]
            versions[victim] = pinned if is_last else random.choice([pinned, ROOT])
            mixed.running.pop(victim).end()
            mixed.write(random.choice(sorted(mixed.running)))  # by the two that are left
            mixed.start(victim, versions[victim])
            mixed.await_following()
            mixed.write(random.choice(IDS))
        mixed.check()
        assert {each["level"] for each in mixed.statuses().values()} == {1}
        assert len(set(versions.values())) == 2
    finally:
        mixed.close()
