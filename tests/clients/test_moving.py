"""The program of docs/MOVING.md copies a tree between servers of ZooKeeper's protocol."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id, make_acl, make_digest_acl
from msgspec.structs import replace

from raykeeper.znodes.acl import Identity, digest_id
from tests.differential.zookeeper_server import missing, zookeeper_server
from tests.harness.jute_port import JutePort
from tests.harness.kazoo_clients import PATIENCE_S, kazoo_clients
from tests.harness.pure_servers import LIMITS

PAGE = Path(__file__).parents[2] / "docs/MOVING.md"
LIMITS_WITH_SUPER = replace(
    LIMITS, super_identities=(Identity("digest", digest_id("super", "secret")),)
)
ANN = make_digest_acl("ann", "pw", all=True)
PORT = "a pure server"
Connect = Callable[..., KazooClient]


class Copied(NamedTuple):
    """What of a znode must be the same in the copy."""

    data: bytes | None
    acls: list[ACL]
    next_number: int


@pytest.fixture
def connect() -> Iterator[Connect]:
    with kazoo_clients() as open_client:
        yield open_client


@pytest.fixture
def target() -> Iterator[str]:
    with JutePort(limits=LIMITS_WITH_SUPER) as port:
        yield port.address


@pytest.fixture(params=["ours", "zookeeper"])
def source(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server: of ours, or of Debian's ZooKeeper."""
    if request.param == "ours":
        with JutePort(limits=LIMITS_WITH_SUPER) as port:
            yield port.address
    elif missing():
        pytest.skip(missing())
    else:
        with zookeeper_server() as address:
            yield address


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the program of the page."""
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    file = tmp_path_factory.mktemp("program") / "copy_tree.py"
    file.write_text(text)
    return file


def run(
    program: Path, source: str, target: str, credential: str = "ann:pw"
) -> subprocess.CompletedProcess[str]:
    """Run the program with one credential for both sides."""
    names = ("SOURCE_CREDENTIAL", "TARGET_CREDENTIAL")
    environment = {**os.environ, **dict.fromkeys(names, credential)}
    return subprocess.run(
        [sys.executable, program, source, target],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def grow(client: KazooClient) -> None:
    """Create what a program may have left in a tree."""
    client.create("/app", b"v")
    client.create("/app/null", None)
    client.create("/app/empty", b"")
    client.create("/app/large", bytes(900_000))
    client.create("/app/private", b"s", acl=[ANN, make_acl("ip", "127.0.0.0/8", read=True)])
    client.create("/app/private/below", b"t", acl=[ANN])
    client.create("/app/queue")
    for number in range(1_003):
        client.create_async("/app/queue/n-", sequence=True)
        if number not in (3, 900):
            client.delete_async(f"/app/queue/n-{number:010d}")
    client.create("/app/here", ephemeral=True)
    client.create("/zookeeper/quota/app", acl=None)
    client.create("/zookeeper/quota/app/zookeeper_limits", b"count=50,bytes=-1")
    client.create("/zookeeper/quota/app/zookeeper_stats", b"count=0,bytes=0")


def tree(client: KazooClient, path: str) -> dict[str, Copied]:
    """The znodes of a subtree that are not ephemeral."""
    data, stat = client.get(path)
    if stat.ephemeralOwner:
        return {}
    number = (stat.cversion + stat.numChildren) // 2
    found = {path: Copied(data, client.get_acls(path)[0], number)}
    for name in client.get_children(path):
        found |= tree(client, f"{path}/{name}")
    return found


def test_a_tree_moves_there_and_back(
    program: Path, source: str, target: str, connect: Connect
) -> None:
    old, new = (connect(hosts, auth_data=[("digest", "ann:pw")]) for hosts in (source, target))
    grow(old)
    before = tree(old, "/app")
    assert before["/app/queue"].next_number == 1_003
    done = run(program, source, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{1 + len(before) + 3} znodes\n", "the root, and those of the quota"
    assert tree(new, "/app") == before
    assert new.create("/app/queue/n-", sequence=True) == "/app/queue/n-0000001003"
    quota = tree(new, "/zookeeper/quota/app")
    assert quota["/zookeeper/quota/app/zookeeper_limits"].data == b"count=50,bytes=-1"

    # Again, over what is there; then it goes back.
    assert run(program, source, target).returncode == 0
    new.set("/app", b"w")
    after = tree(new, "/app")
    old.delete("/app/private/below")
    assert run(program, target, source).returncode == 0
    back = tree(old, "/app")
    assert {path: each[:2] for path, each in back.items()} == {
        path: each[:2] for path, each in after.items()
    }
    assert all(back[path].next_number >= each.next_number for path, each in after.items())
    assert old.exists("/app/here") is not None, "what the target has beside it stays"


def test_a_subtree_moves_under_another_name(
    program: Path, source: str, target: str, connect: Connect
) -> None:
    old, new = connect(source), connect(target)
    old.create("/app/a/b", b"v", makepath=True)
    done = run(program, f"{source}/app", f"{target}/team/app", credential="")
    assert (done.returncode, done.stdout) == (0, "3 znodes\n"), done.stderr
    assert new.get("/team/app/a/b")[0] == b"v"


def test_what_cannot_be_copied_is_named(
    program: Path, source: str, target: str, connect: Connect
) -> None:
    owner = connect(source, auth_data=[("digest", "ann:pw")])
    everybody = make_acl("world", "anyone", read=True)
    owner.create("/hashes", b"", acl=[ANN, everybody])
    done = run(program, source, target, credential="")
    assert done.returncode == 1
    assert done.stderr.startswith("/hashes: its ACL is shown without hashes")
    assert connect(target).exists("/hashes") is None


def test_a_superuser_copies_what_is_not_open_to_it(
    program: Path, target: str, connect: Connect
) -> None:
    with JutePort(limits=LIMITS_WITH_SUPER) as port:
        owner = connect(port.address, auth_data=[("digest", "ann:pw")])
        owner.create("/hers", b"v", acl=[ANN])
        owner.create("/hers/s-", sequence=True, acl=[ANN])
        owner.delete("/hers/s-0000000000")
        done = run(program, port.address, target, credential="super:secret")
        assert (done.returncode, done.stdout) == (0, "2 znodes\n"), done.stderr
        there = connect(target, auth_data=[("digest", "ann:pw")])
        assert tree(there, "/hers") == tree(owner, "/hers")


def test_an_acl_of_another_scheme_ends_the_copy(
    program: Path, target: str, connect: Connect
) -> None:
    """ZooKeeper itself takes only schemes that it knows, so a smaller bound stands for one."""
    with JutePort(limits=LIMITS_WITH_SUPER) as port:
        many = [ACL(1, Id("ip", f"10.0.0.{number}")) for number in range(2)]
        many.append(make_acl("world", "anyone", read=True))
        connect(port.address).create("/many", b"", acl=many)
        with JutePort(limits=replace(LIMITS_WITH_SUPER, acl_entries_max=2)) as small:
            done = run(program, port.address, small.address, credential="")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("/many cannot be written: InvalidACLError")


def test_zxids_as_tools_split_them(target: str, connect: Connect) -> None:
    stat = connect(target).create("/first", include_data=True)[1]
    epoch, counter = stat.czxid >> 42, stat.czxid & (1 << 42) - 1
    assert (stat.czxid >> 32, stat.czxid & 0xFFFFFFFF) == (1024 * epoch, counter)
    assert epoch == 1
    assert 0xC0000000007 == 3 << 42 | 7 == 3072 << 32 | 7
