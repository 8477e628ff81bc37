"""What `raykeeper import` and `export` promise, between kazoo's servers and servers of ours.

Most tests run against a pure server over TCP; those with Debian's ZooKeeper are skipped without it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.security import make_acl

from raykeeper.client import Client, QuotaLimits
from raykeeper.client.copy_places import Access
from raykeeper.client.errors import (
    BadArgumentsError,
    InvalidAclError,
    KeeperError,
    NoAuthError,
    NodeExistsError,
)
from raykeeper.commands.migration.journal import CopyJournal
from raykeeper.commands.migration.migration import Migration
from raykeeper.commands.migration.sides import EnsembleSide
from raykeeper.commands.migration.zookeeper_session import (
    ZooKeeperSession,
    open_session,
    parse_hosts,
)
from raykeeper.commands.migration.zookeeper_side import PACKET_BYTES_MAX, ZooKeeperSide
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.stat import Stat
from tests.contract.migration.migrations import (
    ANN,
    DEFAULT_LIMITS,
    GROWN,
    SMALL,
    VALUE_BYTES,
    Connect,
    export_all,
    exporting,
    grow,
    import_all,
    importing,
    kazoo_tree,
    last,
    our_tree,
)
from tests.differential.zookeeper_server import missing, zookeeper_server
from tests.harness.jute_port import JutePort
from tests.harness.kazoo_clients import PATIENCE_S


@pytest.fixture(params=["ours", "zookeeper"])
def hosts(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server: of ours, or of Debian's ZooKeeper."""
    if request.param == "ours":
        yield request.getfixturevalue("port").address
    elif missing():
        pytest.skip(missing())
    else:
        with zookeeper_server() as address:
            yield address


def test_a_tree_moves_there_and_back(hosts: str, client: Client, connect: Connect) -> None:
    kazoo = connect(hosts)
    grow(kazoo)
    before = kazoo_tree(kazoo)
    assert (len(before), before["/queue"].next_number) == (GROWN, 53)
    report = import_all(hosts, client)
    copied = report.copied
    assert (copied.created, copied.unchanged, copied.ephemerals) == (GROWN, 1, 1), (
        "the root is as it was"
    )
    assert (copied.value_bytes, report.quotas) == (VALUE_BYTES, 1)
    assert our_tree(client) == before
    assert report.sequences == before["/queue"].next_number - 2 + 1, "and of the ephemeral one"
    assert client.create("/app/queue/n-", sequence=True) == "/app/queue/n-0000000053"
    assert client.get_quota("/app").limits == QuotaLimits(znodes=500)

    client.delete("/app/queue/n-0000000053")
    back = export_all(client, hosts, path="/app", to="/back/app")
    assert back.copied.created == GROWN
    there = kazoo_tree(kazoo, "/back/app")
    before["/queue"] = before["/queue"]._replace(next_number=54)
    assert there == before
    limits = kazoo.get("/zookeeper/quota/back/app/zookeeper_limits")[0]
    assert limits.startswith(b"count=500,bytes=-1")


def test_a_subtree_moves_from_a_chroot_to_another_path(
    port: JutePort, client: Client, connect: Connect
) -> None:
    connect(port.address).create("/team/app/a", b"v", makepath=True)
    assert import_all(port.address, client, path="/team/app", to="/x/y").copied.created == 2
    assert client.get("/x/y/a")[0] == b"v"


def test_a_second_run_skips_what_is_as_the_first_left_it(
    hosts: str, client: Client, connect: Connect, tmp_path: Path
) -> None:
    kazoo, state = connect(hosts), tmp_path / "state"
    grow(kazoo)
    import_all(hosts, client, state)
    again = import_all(hosts, client, state).copied
    assert (again.skipped, again.created, again.changed, again.unchanged) == (GROWN + 1, 0, 0, 0)
    assert (again.znodes, again.value_bytes) == (GROWN + 1, VALUE_BYTES)

    kazoo.set("/app/empty", b"new")
    kazoo.set("/app/null", b"")
    kazoo.set_acls("/app/large", [ANN])
    kazoo.create("/app/queue/n-", sequence=True)
    kazoo.delete("/app/private/below")
    kazoo.delete("/app/private")
    kazoo.create("/app/private", b"s")  # another znode now
    report = import_all(hosts, client, state)
    copied = report.copied
    assert (copied.created, copied.changed) == (1, 4)
    assert copied.skipped == GROWN + 1 - 2 - 4 + 1
    assert (report.gone, report.gone_paths) == (1, ["/app/private/below"])
    client.delete("/app/private/below")
    copy = our_tree(client)
    assert copy.pop("/private").data == b"s", "its sequential numbers are not taken back"
    assert copy.items() < kazoo_tree(kazoo).items()
    assert import_all(hosts, client, state).gone == 1, "it may still be there"


def test_what_the_source_has_no_more_is_deleted_when_asked_for(
    hosts: str, client: Client, connect: Connect, tmp_path: Path
) -> None:
    """But not what others have changed, nor what they have made children of."""
    kazoo, state = connect(hosts), tmp_path / "state"
    for path in ("/app/gone/a/b", "/app/kept", "/app/used/a", "/app/changed", "/app/already"):
        kazoo.create(path, b"", makepath=True)
    import_all(hosts, client, state)
    for path in ("/app/gone", "/app/used", "/app/changed", "/app/already"):
        kazoo.delete(path, recursive=True)
    client.create("/app/used/others")
    client.set("/app/changed", b"theirs")
    client.delete("/app/already")
    client.create("/app/others")
    assert import_all(hosts, client, state).gone == 7
    report = import_all(hosts, client, state, delete=True)
    assert (report.deleted, report.gone) == (4, 2)
    assert report.gone_paths == ["/app/changed", "/app/used"]
    assert sorted(client.get_children("/app")) == ["changed", "kept", "others", "used"]
    assert client.get_children("/app/used") == ["others"]
    client.delete("/app/used/others")
    assert import_all(hosts, client, state, delete=True).deleted == 1


def test_an_export_deletes_too(
    port: JutePort, client: Client, connect: Connect, tmp_path: Path
) -> None:
    client.create("/app/a/b", makepath=True)
    state = tmp_path / "state"
    export_all(client, port.address, state)
    client.delete("/app/a", recursive=True)
    assert export_all(client, port.address, state, dry_run=True, delete=True).deleted == 0
    assert export_all(client, port.address, state, delete=True).deleted == 2
    assert connect(port.address).get_children("/app") == []


def test_what_others_have_changed_in_the_copy_is_replaced_only_with_merge(
    port: JutePort, client: Client, connect: Connect, tmp_path: Path
) -> None:
    kazoo, state = connect(port.address), tmp_path / "state"
    grow(kazoo)
    import_all(port.address, client, state)
    client.set("/app/empty", b"mine")
    with pytest.raises(NodeExistsError, match=r"/app/empty.*differs"):
        import_all(port.address, client, state)
    kazoo.set("/app/queue", b"x")
    tried = import_all(port.address, client, state, dry_run=True)
    assert [(each.znodes, each.paths) for each in tried.refused] == [(1, ["/app/empty"])]
    assert tried.copied.changed == 1
    assert import_all(port.address, client, state, merge=True).copied.changed == 2
    assert client.get("/app/empty")[0] == b""
    kazoo.set("/zookeeper/quota/app/zookeeper_limits", b"count=7,bytes=-1")
    with pytest.raises(NodeExistsError, match="another quota"):
        import_all(port.address, client, state)
    import_all(port.address, client, state, merge=True)
    assert client.get_quota("/app").limits == QuotaLimits(znodes=7)


def test_a_target_with_znodes_of_others_is_refused(
    port: JutePort, client: Client, connect: Connect, tmp_path: Path
) -> None:
    connect(port.address).create("/app/a", b"v", makepath=True)
    client.create("/app", b"mine")
    for dry_run in (False, True):
        with pytest.raises(NodeExistsError, match="not empty"):
            import_all(port.address, client, tmp_path / "state", dry_run=dry_run)
        with pytest.raises(NodeExistsError, match="not empty"):
            import_all(port.address, client, path="/app", to="/app", dry_run=dry_run)
    assert (client.get("/app")[0], client.get_children("/app")) == (b"mine", [])
    assert import_all(port.address, client, merge=True).copied.changed == 1
    client.create("/empty")
    assert import_all(port.address, client, path="/app", to="/empty").copied.created == 1


def test_a_try_writes_nothing_and_counts_what_would_be_refused(
    port: JutePort, client: Client, connect: Connect, tmp_path: Path
) -> None:
    kazoo, state = connect(port.address), tmp_path / "state"
    grow(kazoo)
    entries = [ANN, make_acl("ip", "10.0.0.1", read=True), make_acl("world", "anyone", read=True)]
    kazoo.create("/app/many", acl=entries)
    report = import_all(port.address, client, state, dry_run=True, limits=SMALL)
    assert {each.reason.partition("(")[2]: each.paths for each in report.refused} == {
        "its value is above value_limit_bytes, 1000)": ["/app/large"],
        "more entries than acl_entries_max, 2)": ["/app/many"],
    }
    assert (report.copied.created, report.copied.ephemerals, report.quotas) == (GROWN - 1, 1, 1)
    assert client.get_children("/") == ["zookeeper"]
    with pytest.raises(KeeperError, match=r"value_limit_bytes|acl_entries_max"):
        import_all(port.address, client, limits=SMALL)


def test_what_a_session_may_not_read_is_told(
    port: JutePort, client: Client, connect: Connect
) -> None:
    kazoo = connect(port.address)
    kazoo.create("/app/hidden/below", b"", makepath=True)
    kazoo.create("/app/masked", b"", acl=[ANN, make_acl("world", "anyone", read=True)])
    kazoo.set_acls("/app/hidden", [make_acl("ip", "10.9.9.9", all=True)])
    with ExitStack() as stack:
        opened = stack.enter_context(open_session(parse_hosts(port.address), [], None, PATIENCE_S))
        sides = ZooKeeperSide(opened, "/"), EnsembleSide(client, "/", DEFAULT_LIMITS)
        journal = stack.enter_context(CopyJournal(None, "a", "b"))
        report = last(Migration(*sides, journal, dry_run=True))
        assert sorted(path for each in report.refused for path in each.paths) == [
            "/app/hidden",
            "/app/masked",
        ]
        with pytest.raises(NoAuthError):
            last(Migration(*sides, journal))


def test_kinds_are_kept_where_the_other_side_has_them(
    hosts: str, client: Client, connect: Connect
) -> None:
    client.create("/app/kept", container=True, makepath=True)
    client.create("/app/kept/below", b"1")
    client.create("/app/short", b"t", ttl_s=3600)
    report = export_all(client, hosts, path="/app", to="/app")
    assert (report.copied.created, report.kinds_lost, report.copied.other_kinds) == (4, 0, 0)
    assert connect(hosts).get("/app/short")[0] == b"t"


def test_kinds_that_the_other_side_refuses_become_ordinary_znodes(
    port: JutePort, client: Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create("/app/kept", container=True, makepath=True)
    client.create("/app/kept/below", b"1")
    client.create("/app/t1", b"t", ttl_s=3600)
    client.create("/app/t2", b"t", ttl_s=3600)
    unknown = 13  # an opcode that servers answer with UNIMPLEMENTED
    from raykeeper.commands.migration import zookeeper_side

    monkeypatch.setattr(zookeeper_side._CreateTtl, "type", unknown)
    monkeypatch.setattr(zookeeper_side._CreateContainer, "type", unknown)
    report = export_all(client, port.address, path="/app", to="/app")
    assert (report.copied.created, report.kinds_lost) == (5, 3)
    assert connect(port.address).get("/app/kept/below")[0] == b"1"


def test_what_zookeeper_would_not_take_is_found_before(
    port: JutePort, client: Client, connect: Connect
) -> None:
    client.create("/app", acl=[Acl(31, "scrypt", "ann:hash")])
    client.create("/app/large", bytes(1 << 20))
    report = export_all(client, port.address, path="/app", to="/app", dry_run=True)
    assert {each.reason: each.paths for each in report.refused} == {
        "invalid ACL (an entry of the scheme 'scrypt' is unknown to ZooKeeper)": ["/app"],
        "bad arguments (its request is above jute.maxbuffer, 1048575)": ["/app/large"],
    }
    client.set("/app/large", bytes(PACKET_BYTES_MAX - 64 - len("/copy") - 20 - 4))
    export_all(client, port.address, path="/app/large", to="/copy")
    assert len(connect(port.address).get("/copy")[0]) > 1_000_000


def test_an_unknown_scheme_is_refused(client: Client) -> None:
    side = EnsembleSide(client, "/", DEFAULT_LIMITS)
    stat = Stat(*[0] * 11)  # type: ignore[arg-type]
    for scheme, text in (("sasl", "ann@REALM"), ("x509", "CN=ann"), ("digest", "ann")):
        error = side.refusal_of("/a", Access((Acl(31, scheme, text),), 0, stat))
        assert isinstance(error, InvalidAclError)
        assert repr(scheme) in str(error)
    assert isinstance(side.refusal_of("/\x01", Access((), 0, stat)), BadArgumentsError)


def test_changes_of_the_source_are_told(
    port: JutePort, client: Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    kazoo = connect(port.address)
    kazoo.create("/app/a", makepath=True)
    with importing(port.address, client, path="/app", to="/app") as migration:
        steps = migration.steps()
        next(steps)
        kazoo.set("/app", b"new")
        kazoo.set("/app", b"newer")
        *_, report = steps
        assert report.meanwhile == 2
    with exporting(client, port.address, path="/app", to="/back") as migration:
        steps = migration.steps()
        next(steps)
        client.set("/app", b"newest")
        *_, report = steps
        assert report.meanwhile == 1
    monkeypatch.setattr(
        ZooKeeperSession, "last_zxid", lambda _, zxids=[1 << 42, 2 << 42]: zxids.pop()
    )
    assert import_all(port.address, client, path="/app", to="/other").meanwhile is None
