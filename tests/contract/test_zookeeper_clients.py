"""Clients that others wrote for ZooKeeper, unchanged, against a pure server over TCP."""

import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
)
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import make_digest_acl
from msgspec import structs

from raykeeper.server.context import ALLOWED_WORDS, ZooKeeperOptions
from raykeeper.zab.feature_levels import LEVEL_OF_MEMBERS
from raykeeper.znodes.acl import Identity, digest_id
from tests.harness.jute_port import JutePort
from tests.harness.kazoo_clients import PATIENCE_S, kazoo_clients
from tests.harness.pure_servers import LIMITS, OPTIONS
from tests.harness.tls_files import TlsFolder

ADDRESS = "10.0.0.7:2181"
"""What the server says of itself: a test that follows it would not find it there."""
Connect = Callable[..., KazooClient]


@pytest.fixture(scope="module")
def port() -> Iterator[JutePort]:
    super_identities = (Identity("digest", digest_id("super", "test")),)
    with JutePort(
        limits=structs.replace(LIMITS, super_identities=super_identities),
        options=structs.replace(OPTIONS, zookeeper=ZooKeeperOptions(address=ADDRESS)),
        newest_level=LEVEL_OF_MEMBERS,
    ) as opened:
        yield opened


@pytest.fixture
def connect(port: JutePort) -> Iterator[Connect]:
    """Connect kazoo."""
    with kazoo_clients() as open_client:
        yield partial(open_client, port.address)


def test_znodes_are_created_read_changed_and_deleted(connect: Connect) -> None:
    client = connect()
    assert client.create("/crud", b"1") == "/crud"
    data, stat = client.get("/crud")
    assert (data, stat.version, stat.dataLength) == (b"1", 0, 1)
    assert client.set("/crud", b"22", version=0).version == 1
    with pytest.raises(BadVersionError):
        client.set("/crud", b"", version=0)
    with pytest.raises(NodeExistsError):
        client.create("/crud")
    assert client.create("/crud/a/b-", makepath=True, sequence=True) == "/crud/a/b-0000000000"
    names, stat = client.get_children("/crud", include_data=True)
    assert (names, stat.numChildren) == (["a"], 1)
    path, stat = client.create("/crud/c", b"", include_data=True)
    assert (path, stat.czxid) == ("/crud/c", stat.mzxid)
    assert client.sync("/crud") == "/crud"
    client.delete("/crud", recursive=True)
    assert client.exists("/crud") is None
    with pytest.raises(NoNodeError):
        client.get("/crud")


def test_null_data_is_not_empty_data(connect: Connect) -> None:
    client = connect()
    client.create("/null", None)
    client.create("/empty", b"")
    assert (client.get("/null")[0], client.get("/empty")[0]) == (None, b"")
    client.set("/null", b"v")
    assert client.set("/null", None).dataLength == 0
    assert client.get("/null")[0] is None


def test_transactions_succeed_or_fail_as_a_whole(connect: Connect) -> None:
    client = connect()
    first = client.transaction()
    first.create("/multi", b"1")
    first.check("/multi", 0)
    first.set_data("/multi", b"2")
    created, checked, changed = first.commit()
    assert (created, checked, changed.version) == ("/multi", True, 1)
    second = client.transaction()
    second.create("/multi/x")
    second.delete("/missing")
    second.create("/multi/y")
    kinds = [type(result) for result in second.commit()]
    assert kinds[:2] == [RolledBackError, NoNodeError]
    assert client.get_children("/multi") == []


def test_thousands_of_requests_may_be_sent_at_once(connect: Connect) -> None:
    client = connect()
    client.create("/many")
    writes = [client.create_async("/many/n-", sequence=True) for _ in range(5_000)]
    paths = [write.get(timeout=PATIENCE_S) for write in writes]
    assert paths == [f"/many/n-{number:010d}" for number in range(5_000)]
    assert len(client.get_children("/many")) == 5_000


def test_acls_and_credentials(connect: Connect) -> None:
    owner, other = connect(auth_data=[("digest", "ann:pw")]), connect()
    owner.create("/acl", b"secret", acl=[make_digest_acl("ann", "pw", all=True)])
    other.sync("/acl")
    with pytest.raises(NoAuthError):
        other.get("/acl")
    other.add_auth("digest", "ann:pw")
    assert other.get("/acl")[0] == b"secret"
    acls, _ = owner.get_acls("/acl")
    assert [acl.id.scheme for acl in acls] == ["digest"]


def test_a_lock_and_an_election_pass_on(connect: Connect) -> None:
    first, second = connect(), connect()
    held = first.Lock("/lock", "first")
    assert held.acquire(timeout=PATIENCE_S)
    waiting = second.Lock("/lock", "second")
    assert not waiting.acquire(blocking=False)
    taken = threading.Event()
    thread = threading.Thread(target=lambda: waiting.acquire() and taken.set())
    thread.start()
    first.stop()
    assert taken.wait(PATIENCE_S)
    thread.join()
    led = threading.Event()
    second.Election("/election", "second").run(led.set)
    assert led.is_set()


def test_watches_follow_a_value_and_the_children(connect: Connect) -> None:
    writer, watcher = connect(), connect()
    writer.create("/watched", b"0")
    values: list[bytes] = []
    names: list[list[str]] = []
    changed = threading.Condition()

    def on_value(data: bytes, _stat: object) -> None:
        with changed:
            values.append(data)
            changed.notify_all()

    def on_children(children: list[str]) -> None:
        with changed:
            names.append(children)
            changed.notify_all()

    watcher.sync("/watched")
    DataWatch(watcher, "/watched", on_value)
    ChildrenWatch(watcher, "/watched", on_children)
    for number in range(1, 4):
        writer.set("/watched", b"%d" % number)
        writer.create(f"/watched/{number}")
        with changed:
            assert changed.wait_for(
                lambda number=number: (
                    values[-1] == b"%d" % number  # type: ignore[misc]
                    and len(names[-1]) == number
                ),
                PATIENCE_S,
            )
    assert values == [b"0", b"1", b"2", b"3"]


def test_a_wrong_password_is_an_expired_session(connect: Connect) -> None:
    owner = connect()
    stranger = connect(client_id=(owner.client_id[0], b"x" * 16))
    assert stranger.client_id[0] != owner.client_id[0], "kazoo begins a new one"
    assert owner.exists("/") is not None


def test_a_client_that_is_idle_stays_connected(connect: Connect) -> None:
    client = connect(timeout=1.0)
    states: list[str] = []
    client.add_listener(states.append)
    client.create("/idle", ephemeral=True)
    assert not threading.Event().wait(4.0), "several timeouts pass"
    assert states == [] and client.exists("/idle") is not None


def ask(port: JutePort, word: bytes, *, ends_its_half: bool) -> str:
    """What a word is answered before the server ends the connection."""
    host, _, number = port.address.rpartition(":")
    with socket.create_connection((host, int(number)), timeout=PATIENCE_S) as asking:
        asking.sendall(word)
        if ends_its_half:
            asking.shutdown(socket.SHUT_WR)
        return asking.makefile("rb").read().decode()


@pytest.mark.parametrize("ends_its_half", [True, False])
def test_a_word_is_answered_though_the_client_has_ended_its_half(
    port: JutePort, ends_its_half: bool
) -> None:
    assert ask(port, b"ruok", ends_its_half=ends_its_half) == "imok"
    assert ask(port, b"isro", ends_its_half=ends_its_half) == "rw"
    for word in ALLOWED_WORDS:  # some wait for what the process has open
        text = ask(port, word.encode(), ends_its_half=ends_its_half)
        assert text and "whitelist" not in text, word


def test_kazoo_and_exporters_read_the_words(port: JutePort, connect: Connect) -> None:
    client = connect()
    assert client.server_version() == (3, 9, 5)
    assert client.command(b"ruok") == "imok"
    lines = ask(port, b"mntr", ends_its_half=False).splitlines()
    # As exporters in Go and Python do: the name, white space, one word.
    found = [re.match(r"^zk_(\w[\w.\-]*)\s+([\w.\-]+)", line) for line in lines]
    assert None not in found
    values = {each[1]: each[2] for each in found if each is not None}
    assert values["version"] == "3.9.5-raykeeper" and values["server_state"] == "standalone"
    for name in (
        *("avg_latency", "min_latency", "max_latency", "packets_received", "packets_sent"),
        *("num_alive_connections", "outstanding_requests", "znode_count", "watch_count"),
        *("ephemerals_count", "approximate_data_size", "open_file_descriptor_count"),
        *("max_file_descriptor_count", "uptime", "followers", "synced_followers"),
        "pending_syncs",
    ):
        assert float(values[name]) >= 0, name
    assert int(values["num_alive_connections"]) >= 1
    assert int(values["open_file_descriptor_count"]) > 3
    host, _, number = port.address.rpartition(":")
    clients = re.findall(
        r"^ /([0-9.]+):(\d+)\[([01])\]\(queued=(\d+),recved=(\d+),sent=(\d+)\)$",
        ask(port, b"stat", ends_its_half=False),
        re.MULTILINE,
    )
    assert clients and {each[0] for each in clients} == {host}
    assert number not in {each[1] for each in clients}, "it is the port of the client"


def test_kazoo_over_tls_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    files = TlsFolder(tmp_path)
    with JutePort(files.of_server(asks_clients=True)) as port, kazoo_clients() as connect:
        client = connect(
            port.address,
            use_ssl=True,
            ca=files.path("authority", "ca"),
            certfile=files.path("authority", "pem"),
            keyfile=files.path("authority", "key"),
        )
        value = bytes(range(256)) * 3_000
        client.create("/tls", value)
        assert client.get("/tls")[0] == value


ZK_CLI = Path("/usr/share/zookeeper/bin/zkCli.sh")
COMMANDS = [
    ("create /cli v", "Created /cli"),
    ("get /cli", "v"),
    ("create -s /cli/s-", "Created /cli/s-0000000000"),
    ("create -e /cli/e", "Created /cli/e"),
    ("create -c /cli/c", "Created /cli/c"),
    ("create -t 100000 /cli/t", "Created /cli/t"),
    ("set -v 0 /cli w", ""),
    ("set -v 0 /cli x", "version No is not valid : /cli"),
    ("ls /cli", "[c, e, s-0000000000, t]"),
    ("getAcl /cli", "'world,'anyone"),
    ("addauth digest ann:pw", ""),
    ("whoami", "digest: ann"),
    ("setAcl /cli auth::cdrwa", ""),
    ("addWatch /cli", ""),
    ("set /cli z", "type:NodeDataChanged path:/cli"),
    ("removewatches /cli", "type:PersistentWatchRemoved path:/cli"),
    ("getEphemerals /cli", "[/cli/e]"),
    ("getAllChildrenNumber /cli", "4"),
    ("sync /cli", "Sync is OK"),
    ("deleteall /cli", ""),
    ("get /cli", "Node does not exist: /cli"),
    ("reconfig -remove 3", "Insufficient permission"),
    ("addauth digest super:test", ""),
    ("reconfig -remove 3", "Arguments are not valid"),
    ("reconfig -add server.4=h:2888:3888:observer;2181", "No quorum of new config is connected"),
    ("reconfig -v 7 -remove 1", "version No is not valid"),
    ("create /quota abc", "Created /quota"),
    ("setquota -n 5 /quota", ""),
    ("create /quota/x 12", "Created /quota/x"),
    ("listquota /quota", "Output quota for /quota count=5,bytes=-1"),
    ("listquota /quota", "Output stat for /quota count=2,bytes=5"),
    ("setquota -N 2 /quota", ""),
    ("create /quota/y", "Quota has exceeded : /quota/y"),
    ("delquota /quota", ""),
    ("listquota /quota", "quota for /quota does not exist."),
    ("create /quota/y", "Created /quota/y"),
    ("ls /zookeeper/quota", "[]"),
    ("config", "server.1=10.0.0.7:2888:3888:participant;10.0.0.7:2181"),
    ("config -c", f" {ADDRESS}"),
]
"""What is typed, and what is printed among other things."""


@pytest.mark.skipif(not ZK_CLI.exists(), reason="Debian's package zookeeper is not installed")
def test_the_command_line_of_zookeeper_and_its_java_client(port: JutePort) -> None:
    typed = "".join(f"{command}\n" for command, _ in [*COMMANDS, ("quit", "")])
    done = subprocess.run(
        [ZK_CLI, "-server", port.address],
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,  # its exit code is that of the last command
    )
    printed = done.stdout + done.stderr
    assert [each for each in COMMANDS if each[1] not in printed] == [], printed
