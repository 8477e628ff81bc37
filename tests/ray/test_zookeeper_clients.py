"""Clients that others wrote for ZooKeeper, unchanged, against real servers over TCP."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionLoss,
    NewConfigNoQuorumError,
    SessionExpiredError,
)

from raykeeper.actors.disk.members_file import read_members
from raykeeper.actors.replica_status import REMOVED
from raykeeper.bench.systems.child import free_ports_in_a_row
from raykeeper.client import make_digest_acl
from raykeeper.clusters import Ensemble, launch
from tests.clients.programs import PROGRAMS, running
from tests.harness.kazoo_clients import kazoo_clients
from tests.harness.tls_files import TlsFolder
from tests.ray.conftest import PATIENCE_S, all_serve, eventually, new_name, role_of

pytestmark = pytest.mark.ray

Connect = Callable[..., KazooClient]
PORTS_OF_A_KIND = 4
SUPER = "root:of the tests"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def ensemble(ray_session: str, data_dir: Path, files: TlsFolder) -> Iterator[Ensemble]:
    """Three servers, with ports for a fourth one."""
    ports = free_ports_in_a_row(3 * PORTS_OF_A_KIND)
    launched = launch(
        name=new_name(),
        data_dir=data_dir,
        timeout_s=PATIENCE_S,
        super_ids=[f"digest:{make_digest_acl(*SUPER.split(':')).id}"],
        promotion_wait_ms=100,
        zookeeper_port=ports,
        zookeeper_admin_port=ports + PORTS_OF_A_KIND,
        zookeeper_tls_port=ports + 2 * PORTS_OF_A_KIND,
        zookeeper_tls_certificate=files.path("authority", "pem"),
        zookeeper_tls_key=files.path("authority", "key"),
        zookeeper_tls_authority=files.path("authority", "ca"),
    )
    eventually(lambda: all_serve(launched))
    yield launched
    launched.shutdown()


@pytest.fixture
def connect(ensemble: Ensemble) -> Iterator[Connect]:
    """Connect kazoo to all servers, or to some."""
    with kazoo_clients() as open_client:

        def start(*servers: int, **options: object) -> KazooClient:
            hosts = ",".join(
                server.zookeeper
                for server in ensemble.status().servers
                if server.server_id in (servers or (1, 2, 3))
            )
            return open_client(hosts, **options)

        yield start


def test_a_native_client_and_kazoo_see_one_tree(connect: Connect, ensemble: Ensemble) -> None:
    client = connect()
    with ensemble.connect() as native:
        native.create("/both", b"native")
        client.sync("/both")
        seen = threading.Event()
        assert client.get("/both", watch=lambda event: seen.set())[0] == b"native"
        native.set("/both", b"again")
        assert seen.wait(PATIENCE_S)
        client.set("/both", None)
        assert native.get("/both", consistency="linearizable")[0] == b"", "null data"
        client.create("/both/ours", b"", ephemeral=True)
        assert native.get_children("/both", consistency="linearizable") == ["ours"]
        client.stop()
        assert native.get_children("/both", consistency="linearizable") == []


def test_the_configuration_lists_where_clients_find_the_servers(
    connect: Connect, ensemble: Ensemble
) -> None:
    client = connect()

    def lists_all() -> bool:
        *servers, version = client.get("/zookeeper/config")[0].decode().splitlines()
        assert version.startswith("version=")
        found = [line.partition(";")[2] for line in servers]
        return found == [server.zookeeper for server in ensemble.status().servers]

    eventually(lists_all)


def test_words_and_the_admin_server_tell_of_the_process(ensemble: Ensemble) -> None:
    leader = role_of(ensemble, leads=True)
    host, _, port = leader.zookeeper.rpartition(":")

    def monitored() -> dict[str, str]:
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as asking:
            asking.sendall(b"mntr")
            lines = asking.makefile("r").read().splitlines()
        return dict(line.split("\t") for line in lines)

    eventually(lambda: monitored()["zk_synced_followers"] == "2")  # it serves with one
    values = monitored()
    assert (values["zk_server_state"], values["zk_quorum_size"]) == ("leader", "3")
    assert int(values["zk_open_file_descriptor_count"]) > 20
    url = f"http://{host}:{int(port) + PORTS_OF_A_KIND}/commands/"
    with urllib.request.urlopen(f"{url}monitor", timeout=PATIENCE_S) as answer:
        document = json.load(answer)
    assert (document["server_state"], document["error"]) == ("leader", None)
    with urllib.request.urlopen(f"{url}leader", timeout=PATIENCE_S) as answer:
        document = json.load(answer)
    assert document["is_leader"] and document["leader_id"] == leader.server_id


def test_kazoo_over_tls_sees_the_same_tree(ensemble: Ensemble, files: TlsFolder) -> None:
    hosts = ",".join(server.zookeeper_tls for server in ensemble.status().servers)
    with kazoo_clients() as connect, ensemble.connect() as native:
        client = connect(
            hosts,
            use_ssl=True,
            ca=files.path("authority", "ca"),
            certfile=files.path("authority", "pem"),
            keyfile=files.path("authority", "key"),
        )
        client.create("/tls", b"1")
        assert native.get("/tls", consistency="linearizable")[0] == b"1"


def test_a_client_survives_the_death_of_the_leader(connect: Connect, ensemble: Ensemble) -> None:
    client = connect(timeout=20.0)
    states: list[str] = []
    client.add_listener(states.append)
    client.create("/survives", b"0")
    client.create("/survives/e", ephemeral=True)
    seen: list[bytes] = []
    client.DataWatch("/survives")(lambda data, _stat: seen.append(data))
    session = client.client_id[0]
    for number in range(1, 4):
        leader = role_of(ensemble, leads=True)
        os.kill(leader.pid, signal.SIGKILL)

        def is_set(value: bytes = b"%d" % number) -> bool:
            client.set("/survives", value)
            return True

        eventually(is_set, ignoring=(ConnectionLoss, SessionExpiredError))
        eventually(lambda number=number: seen[-1] == b"%d" % number)  # type: ignore[misc]
        eventually(lambda: all_serve(ensemble))
    assert KazooState.LOST not in states and client.client_id[0] == session
    assert client.exists("/survives/e").ephemeralOwner == session
    assert [int(value) for value in seen] == sorted(int(value) for value in seen)


def test_clients_of_other_languages_survive_the_death_of_the_leader(
    ensemble: Ensemble,
) -> None:
    """Each sets a znode before and after, and its ephemeral znode stays its own."""
    names = [name for name, program in PROGRAMS.items() if not program.missing()]
    if not names:
        pytest.skip("; ".join(program.missing() for program in PROGRAMS.values()))
    hosts = ",".join(server.zookeeper for server in ensemble.status().servers)
    with ExitStack() as stack:
        programs = {name: stack.enter_context(running(name, "survive", hosts)) for name in names}
        for number in range(1, 4):
            if number == 2:
                os.kill(role_of(ensemble, leads=True).pid, signal.SIGKILL)
            for program in programs.values():
                assert program.stdin is not None
                program.stdin.write(f"{number}\n")
                program.stdin.flush()
            for name, program in programs.items():
                assert program.stdout is not None
                line = program.stdout.readline()
                assert line == f"set {number}\n", (name, line)
        for name, program in programs.items():
            told, complaint = program.communicate(timeout=PATIENCE_S)
            assert (program.returncode, told) == (0, "done\n"), (name, complaint)
    eventually(lambda: all_serve(ensemble))


DYING = """
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1], timeout=4.0)
client.start(timeout=60)
client.create("/ends", ephemeral=True)
print("created", flush=True)
sys.stdin.read()
"""


def test_a_session_ends_some_time_after_its_process(connect: Connect, ensemble: Ensemble) -> None:
    other = connect()
    hosts = ",".join(server.zookeeper for server in ensemble.status().servers)
    command = [sys.executable, "-c", DYING, hosts]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dying:
        assert dying.stdout is not None and dying.stdout.readline() == b"created\n"
        gone = threading.Event()
        other.sync("/ends")
        assert other.exists("/ends", watch=lambda event: gone.set()) is not None
        dying.kill()
    assert gone.wait(PATIENCE_S)


def test_a_drained_server_moves_clients_of_zookeeper_without_an_error(
    connect: Connect, ensemble: Ensemble
) -> None:
    """They know all servers, and come to this one first; one writes all the time."""
    drained = role_of(ensemble, leads=False).server_id
    others = [server for server in (1, 2, 3) if server != drained]
    told: list[str] = []
    clients = [
        connect(drained, *others, randomize_hosts=False, command_retry={"max_tries": -1})
        for _ in range(4)
    ]
    for number, client in enumerate(clients):
        client.add_listener(told.append)
        client.create(f"/drained/{number}", b"0", ephemeral=True, makepath=True)
    sessions = [client.client_id[0] for client in clients]
    changed, ends = threading.Event(), threading.Event()
    clients[1].get("/drained/0", watch=lambda event: changed.set())
    written: list[int] = []

    def write() -> None:
        while not ends.is_set():
            # A write that meets the end of the connection is tried again, as callers of kazoo do.
            stat = clients[0].retry(clients[0].set, "/drained/0", b"%d" % len(written))
            written.append(stat.version)
            ends.wait(0.02)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        assert ensemble.drain(drained, clients_per_s=50) == len(clients)
        before = len(written)
        eventually(lambda: len(written) > before)
    finally:
        ends.set()
        writing.join()
        assert ensemble.end_drain(drained)
    assert changed.is_set() and written == sorted(written)
    for number, client in enumerate(clients):
        value, stat = client.get(f"/drained/{number}")
        assert (value == b"0") is (number > 0) and stat.ephemeralOwner == sessions[number]
    assert [client.client_id[0] for client in clients] == sessions
    assert KazooState.LOST not in told and told.count(KazooState.SUSPENDED) == len(clients)


def test_reconfig_of_kazoo_gives_a_server_its_vote_and_removes_it(
    connect: Connect, ensemble: Ensemble, data_dir: Path
) -> None:
    """One step right behind the other; the server that was removed ends by itself."""
    ensemble.add_server(4, observer=True, wait_s=PATIENCE_S)
    client, reader = connect(), connect(role_of(ensemble, leads=False).server_id)
    client.add_auth("digest", SUPER)
    joining = "server.4=its-host:2888:3888:participant;2181"

    def promote() -> bytes:
        config, _ = client.reconfig(joining, leaving=None, new_members=None)
        assert isinstance(config, bytes)
        return config

    promoted = eventually(promote, ignoring=(NewConfigNoQuorumError,))
    config, stat = client.reconfig(joining=None, leaving="4", new_members=None)
    assert b":participant" in next(x for x in promoted.splitlines() if x.startswith(b"server.4="))
    kept = [line for line in promoted.splitlines()[:-1] if not line.startswith(b"server.4=")]
    assert config.splitlines() == [*kept, b"version=%x" % stat.mzxid]
    reader.sync("/zookeeper/config")
    assert reader.get("/zookeeper/config")[0] == config
    eventually(
        lambda: {each.server_id: each.role for each in ensemble.status().servers}[4] == REMOVED
    )
    left = read_members(data_dir / ensemble.name / "4")
    assert left is not None and "left the ensemble" in left.removed
    assert ensemble.members().voters == [1, 2, 3]
