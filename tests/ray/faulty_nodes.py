"""A healthy ensemble on three Ray nodes, and faults of every kind. Run by test_doctor.py.

The nodes are as the doctor wants them: Ray's workers have its own priority, and the GCS keeps its
tables on disk. A healthy ensemble has no finding there, and a sick one those of its faults alone.
"""

import io
import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path

import psutil
import ray

from raykeeper.actors.ray_actors import find_replica
from raykeeper.bench.systems.child import free_ports_in_a_row
from raykeeper.clusters import Ensemble, launch
from raykeeper.clusters.actor_calls import find_replicas, stop_actor
from raykeeper.clusters.doctor import Diagnosis, diagnose
from raykeeper.clusters.node_discovery import RECORD_FILE, prepare_folder
from raykeeper.clusters.node_report import EnsembleRecord
from raykeeper.commands.command_line import main as command_line
from raykeeper.links.ray_names import keeper_name
from raykeeper.zab.ids import ServerId
from tests.harness.tls_files import TlsFolder
from tests.ray import programs
from tests.ray.three_nodes import Nodes, eventually, homes

NAME = "patient"
CLIENTS_MAX = 1_000
FEW_FILES = 1_024
"""An open-file limit that bears fewer clients than that."""
LIMIT_S = 6.0

Found = dict[str, list[str]]


class Ward:
    """The ensemble, and which node and folder each server has."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.nodes = Nodes(home)
        self.nodes.cluster.connect()
        for slot in self.nodes.by_slot:
            folder = home / f"node-{slot}"
            TlsFolder(folder).issue("own", valid_for=timedelta(days=300))
        self.port = free_ports_in_a_row(6)
        self.ensemble = self.launch()
        slots = {node.node_id: slot for slot, node in self.nodes.by_slot.items()}
        self.slot_of = {server: slots[node] for server, node in homes(self.ensemble).items()}

    def launch(self) -> Ensemble:
        return launch(
            name=NAME,
            data_dir="~/data",
            heal_after_s=3_000,
            snapshot_every_txns=100,
            clients_max=CLIENTS_MAX,
            zookeeper_port=self.port,
            zookeeper_tls_port=self.port + 3,
            zookeeper_tls_certificate="~/own.pem",
            zookeeper_tls_key="~/own.key",
        )

    def data(self, server: int) -> Path:
        """The folder of the ensemble on the node of a server."""
        return self.home / f"node-{self.slot_of[server]}" / "data" / NAME

    def pid(self, server: int) -> int:
        return next(s.pid for s in self.ensemble.status().servers if s.server_id == server)

    def raylet(self, server: int) -> psutil.Process:
        node = self.nodes.by_slot[self.slot_of[server]]
        return psutil.Process(node.all_processes["raylet"][0].process.pid)


def found(diagnosis: Diagnosis) -> Found:
    rules: Found = {}
    for each in diagnosis.findings:
        rules.setdefault(each.rule, []).append(f"{each.about}: {each.text}")
    return rules


def wait_until_healthy(ensemble: Ensemble) -> None:
    """The keeper of an ensemble that was just launched may still be connecting.

    And this machine may be short of memory, or busy with its disk, for a moment.
    """
    passing = {"keeper.problem", "link.missing", "memory.short", "disk.slow"}
    deadline = time.monotonic() + 60
    while (diagnosis := diagnose(ensemble)).findings:
        assert time.monotonic() < deadline, found(diagnosis)
        assert found(diagnosis).keys() <= passing, found(diagnosis)
        time.sleep(0.1)
    assert (diagnosis.servers, diagnosis.nodes, diagnosis.unchecked) == (3, 3, []), diagnosis


def plant_in_a_process(ward: Ward, server: int) -> socket.socket:
    """Let a server start again with few open files, while somebody else has its port."""
    ward.raylet(server).rlimit(resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
    # Idle workers were started before.
    for worker in ward.raylet(server).children():
        if worker.name().startswith("ray::IDLE"):
            worker.kill()
    pid = ward.pid(server)
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    os.kill(pid, signal.SIGKILL)

    def bind() -> bool:
        try:
            taken.bind(("127.0.0.1", ward.port + server - 1))
        except OSError:
            return False
        return True

    eventually(bind)
    taken.listen()
    eventually(lambda: ward.pid(server) not in (0, pid))
    homes(ward.ensemble)
    return taken


def plant_on_disks(ward: Ward, server: int, other: int) -> None:
    """Damage what lies on the disk of a server, and leave things of the past on that of another."""
    generation = next((ward.data(server) / str(server)).glob("generation-*"))
    snapshot = min(generation.glob("snapshot.*"))
    content = bytearray(snapshot.read_bytes())
    content[len(content) // 2] ^= 1
    snapshot.write_bytes(content)
    (ward.data(server) / RECORD_FILE).write_text("{")
    (ward.data(server) / "77").symlink_to(ward.home / "unmounted")
    TlsFolder(ward.data(server).parent.parent).issue("own", valid_for=timedelta(days=-2))
    record = EnsembleRecord("of another time", 3)
    prepare_folder(str(ward.data(other).parent), NAME, record, ServerId(server), is_founding=False)
    (ward.data(other) / f"{server}.stale-{int((time.time() - 40 * 86_400) * 1e9)}").mkdir()


def main(home: Path) -> None:
    ward = Ward(home)
    ensemble = ward.ensemble
    with ensemble.connect() as client:
        for number in range(350):  # three snapshots
            client.create(f"/n{number}", bytes(200))
    wait_until_healthy(ensemble)

    leader = ensemble.wait_for_leader()
    broken, dead = (server for server in ward.slot_of if server != leader)
    with plant_in_a_process(ward, broken):
        plant_on_disks(ward, broken, leader)
        stop_actor(keeper_name(NAME))
        ray.kill(find_replica(NAME, ServerId(dead)), no_restart=True)
        eventually(lambda: dead not in find_replicas(NAME))
        diagnosis = eventually(lambda: _if_dead(diagnose(ensemble)))
        told = found(diagnosis)
        assert told.keys() == {
            *("server.down", "quorum.next_loss", "keeper.missing"),
            *("folder.damaged", "folder.unreadable", "folder.stale", "record.damaged"),
            *("files.few", "port.closed", "tls.expired"),
        }, told
        assert told["server.down"] == [f"server {dead}: not started"]
        up = " or ".join(str(each) for each in sorted((leader, broken)))
        assert told["quorum.next_loss"][0].endswith(f"one more loss of server {up} stops writes")
        assert len(told["folder.stale"]) == 2 and "40 days ago" in told["folder.stale"][1]
        assert "snapshot." in told["folder.damaged"][0] and "77 is a link" in str(told)
        assert f"{FEW_FILES} open files" in told["files.few"][0], told["files.few"]
        assert told["tls.expired"][0].endswith(
            "own.pem, for clients of ZooKeeper, expired 2 days ago"
        )
        check_command(told, home)
        check_late(ward, broken)
    ensemble.shutdown()
    ray.shutdown()
    ward.nodes.cluster.shutdown()
    sys.stdout.write("all is well\n")


def _if_dead(diagnosis: Diagnosis) -> Diagnosis | None:
    """The diagnosis, once the others have noticed the end of a server."""
    return None if "link.missing" in found(diagnosis) else diagnosis


def check_command(told: Found, home: Path) -> None:
    """The command says the same, and exits with 2."""
    os.environ["HOME"] = str(home)  # where commands note what they find
    sys.argv = ["raykeeper", "doctor", "--json", NAME]
    with redirect_stdout(io.StringIO()) as printed:
        try:
            command_line()
        except SystemExit as ended:
            assert ended.code == 2, ended.code
    document = json.loads(printed.getvalue())
    assert {each["rule"] for each in document["findings"]} == told.keys(), document
    assert all(each["advice"] and each["meaning"] for each in document["findings"])


def check_late(ward: Ward, server: int) -> None:
    """With a server and a node that stand still there is no leader; the rest is told in time."""
    server_process, raylet = psutil.Process(ward.pid(server)), ward.raylet(server)
    server_process.suspend()
    raylet.suspend()
    try:
        eventually(lambda: ward.ensemble.status().leader is None)
        began = time.monotonic()
        diagnosis = diagnose(ward.ensemble, timeout_s=LIMIT_S)
        took = time.monotonic() - began
    finally:
        raylet.resume()
        server_process.resume()
    told = found(diagnosis)
    assert "quorum.no_leader" in told and "record.damaged" not in told, told
    assert f"server {server}: no answer within 2 s" in told["server.down"], told
    assert len(told["node.silent"]) == 1 and "no answer within " in told["node.silent"][0], told
    # The parts that are bounded each by itself, and a machine that is three times slower.
    assert took < 3 * (LIMIT_S + 6), took


if __name__ == "__main__":
    programs.in_temporary_folder(main)
