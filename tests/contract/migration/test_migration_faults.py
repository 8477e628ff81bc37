"""Imports and exports that are killed, cut off, misdirected or used twice."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import make_acl
from msgspec import convert
from msgspec.structs import replace

from raykeeper.client import Client, subtree_walk
from raykeeper.client.copy_places import CopiedZnode
from raykeeper.client.errors import (
    BadArgumentsError,
    ConnectionLossError,
    NoAuthError,
    NoNodeError,
    OperationTimeoutError,
    RayKeeperError,
)
from raykeeper.commands.migration import migration
from raykeeper.commands.migration.errors import JournalError, ZooKeeperUnreachableError
from raykeeper.commands.migration.journal import CopyJournal
from raykeeper.commands.migration.migration import Migration
from raykeeper.commands.migration.order import Tls
from raykeeper.commands.migration.sides import EnsembleSide
from raykeeper.commands.migration.zookeeper_session import (
    ZooKeeperSession,
    open_session,
    parse_hosts,
)
from raykeeper.commands.migration.zookeeper_side import ZooKeeperSide
from raykeeper.znodes.stat import Stat
from tests.contract.migration.migrations import (
    ANN,
    DEFAULT_LIMITS,
    LIMITS_WITH_SUPER,
    PROOFS,
    Connect,
    export_all,
    exporting,
    import_all,
    importing,
    kazoo_tree,
    last,
    our_tree,
)
from tests.harness.jute_port import JutePort
from tests.harness.kazoo_clients import PATIENCE_S
from tests.harness.tls_files import TlsFolder


@pytest.fixture
def session(port: JutePort) -> Iterator[ZooKeeperSession]:
    """A session with the pure server."""
    with open_session(parse_hosts(port.address), PROOFS, None, PATIENCE_S) as opened:
        yield opened


@pytest.mark.parametrize(
    ("way", "path", "to", "error", "text"),
    [
        (importing, "/nothing", "/", NoNodeError, "/nothing"),
        (exporting, "/nothing", "/", NoNodeError, "/nothing"),
        (importing, "/zookeeper/quota", "/", BadArgumentsError, "system"),
        (importing, "/", "/zookeeper/x", BadArgumentsError, "system"),
        (importing, "/e", "/x", BadArgumentsError, "ephemeral"),
    ],
)
def test_places_that_cannot_be_are_refused(
    port: JutePort,
    client: Client,
    connect: Connect,
    way: Any,
    path: str,
    to: str,
    error: type[Exception],
    text: str,
) -> None:
    connect(port.address).create("/e", ephemeral=True)
    sides = (port.address, client) if way is importing else (client, port.address)
    with way(*sides, path=path, to=to) as migration, pytest.raises(error, match=text):
        last(migration)
    assert client.get_children("/") == ["zookeeper"]


def test_a_target_that_may_not_be_written_is_named(
    port: JutePort, client: Client, connect: Connect
) -> None:
    everybody = make_acl("world", "anyone", read=True)
    connect(port.address).create("/locked", acl=[ANN, everybody])
    client.create("/app/a", b"v", makepath=True)
    with (
        open_session(parse_hosts(port.address), [], None, PATIENCE_S) as opened,
        CopyJournal(None, "a", "b") as journal,
    ):
        sides = EnsembleSide(client, "/app", DEFAULT_LIMITS), ZooKeeperSide(opened, "/locked/app")
        with pytest.raises(NoAuthError, match="/locked/app"):
            last(Migration(*sides, journal))
    assert connect(port.address).get_children("/locked") == []


def test_a_tree_is_not_copied_into_itself(session: ZooKeeperSession) -> None:
    """Two sides of one ensemble are known by its /zookeeper/config."""
    session.client.create("/app/a", makepath=True)
    journal = CopyJournal(None, "a", "b")
    sides = ZooKeeperSide(session, "/app"), ZooKeeperSide(session, "/app/a/copy")
    config = sides[0].config_stat()
    assert config is not None
    if config.mtime == 0:  # a server without an ensemble has none
        pytest.MonkeyPatch().setattr(
            ZooKeeperSide, "config_stat", lambda _: replace(config, mtime=1)
        )
    with pytest.raises(BadArgumentsError, match="one tree"):
        last(Migration(*sides, journal))


class Interrupted(BaseException):
    """The process ends here."""


class EndsAt:
    """Ends a run when it is called for the nth time, before or after what it stands for."""

    def __init__(self, number: int) -> None:
        self.left = number

    def wrap(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        done = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.pass_by()
            found = done(*arguments, **options)
            self.pass_by()
            return found

        patch.setattr(owner, name, call)

    def pass_by(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Interrupted


STEPS = {
    ZooKeeperSide: (
        "read_access",
        "read_values",
        "list_children",
        "create",
        "set_value",
        "set_acls",
    ),
    EnsembleSide: ("read_access", "read_values", "create", "set_value", "set_acls"),
    CopyJournal: ("begin", "keep"),
}
SEQUENCE_STEPS = ("raise_sequence", "set_quota", "ensure_parents")


@pytest.mark.parametrize("way", ["import", "export"])
def test_a_run_that_is_killed_at_any_step_is_completed(
    way: str, port: JutePort, client: Client, connect: Connect, tmp_path: Path
) -> None:
    kazoo = connect(port.address)
    kazoo.create("/app/a/b", b"1", makepath=True)
    kazoo.create("/app/null", None)
    kazoo.create("/app/hers", b"2", acl=[ANN])
    for _ in range(3):
        kazoo.delete(kazoo.create("/app/n-", sequence=True))
    kazoo.create("/zookeeper/quota/app/zookeeper_limits", b"count=50,bytes=-1", makepath=True)
    wanted = kazoo_tree(kazoo)
    sides: tuple[Any, ...] = (port.address, client)
    if way == "export":
        import_all(*sides, path="/app", to="/app")
        sides = (client, port.address)
    start, tree = (
        (import_all, partial(our_tree, client))
        if way == "import"
        else (export_all, partial(kazoo_tree, kazoo))
    )
    ends = 0
    for number in range(1, 1_000):
        state, to = tmp_path / f"{number}", f"/{way}{number}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subtree_walk, "BATCH_ZNODES", 2)
            end = EndsAt(number)
            for owner, names in STEPS.items():
                for name in names:
                    end.wrap(patch, owner, name)
            for name in SEQUENCE_STEPS:
                end.wrap(patch, EnsembleSide if way == "import" else ZooKeeperSide, name)
            try:
                start(*sides, state, path="/app", to=to)
            except Interrupted:
                ends += 1
        report = start(*sides, state, path="/app", to=to)
        assert tree(to) == wanted, number
        assert (report.copied.znodes, report.gone) == (len(wanted), 0), number
        assert report.copied.changed == 0, number
        if end.left > 0:
            break
    assert ends > 50


def test_a_deletion_that_is_killed_at_any_step_is_completed(
    port: JutePort, client: Client, connect: Connect, tmp_path: Path
) -> None:
    kazoo = connect(port.address)
    for number in range(1, 100):
        kazoo.create("/app/a/b/c", makepath=True)
        kazoo.create("/app/a/d")
        to, state = f"/copy{number}", tmp_path / f"{number}"
        import_all(port.address, client, state, path="/app", to=to)
        kazoo.delete("/app/a", recursive=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subtree_walk, "BATCH_ZNODES", 2)
            end = EndsAt(number)
            for owner, name in ((EnsembleSide, "delete"), (CopyJournal, "forget")):
                end.wrap(patch, owner, name)
            with suppress(Interrupted):
                import_all(port.address, client, state, path="/app", to=to, delete=True)
        assert import_all(port.address, client, state, path="/app", to=to, delete=True).gone == 0
        assert client.get_children(to) == []
        if end.left > 0:
            break
    assert number == 13


def test_a_lost_connection_is_waited_for(
    port: JutePort, client: Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It breaks again and again, also right behind writes, of which nobody knows the outcome."""
    monkeypatch.setattr(subtree_walk, "BATCH_ZNODES", 8)
    for i in range(40):
        client.create(f"/app/{i:02}/x", f"{i}".encode(), makepath=True)
    create = ZooKeeperSide.create
    cuts = 0

    def create_and_cut(side: Any, relative: str, znode: Any) -> Any:
        nonlocal cuts
        found = create(side, relative, znode)
        if relative.endswith(("3", "7/x")) and cuts < 8:
            with suppress(OSError, AttributeError):  # it is broken already, and not there again
                side._client._connection._socket.shutdown(2)
                cuts += 1
        return found

    monkeypatch.setattr(ZooKeeperSide, "create", create_and_cut)
    report = export_all(client, port.address, path="/app", to="/copy")
    assert report.copied.znodes == 81
    assert cuts > 1
    assert kazoo_tree(connect(port.address), "/copy") == our_tree(client)


def test_a_sequence_that_was_raised_unseen_is_not_raised_twice(
    port: JutePort, client: Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(25):
        client.delete(client.create("/app/n-", sequence=True, makepath=True))
    monkeypatch.setattr(migration, "_RAISED_AT_ONCE", 10)
    raise_sequence = ZooKeeperSide.raise_sequence
    losses = 0

    def raise_and_lose(side: ZooKeeperSide, relative: str, missing: int) -> None:
        nonlocal losses
        raise_sequence(side, relative, missing)
        if losses < 2:
            losses += 1
            raise ConnectionLossError(side.path_of(relative), definite=False)

    monkeypatch.setattr(ZooKeeperSide, "raise_sequence", raise_and_lose)
    assert export_all(client, port.address, path="/app", to="/app").sequences == 5
    assert connect(port.address).create("/app/n-", sequence=True) == "/app/n-0000000025"
    monkeypatch.setattr(migration, "_LOSSES_MAX", 1)
    losses = 0
    with pytest.raises(ConnectionLossError):
        export_all(client, port.address, path="/app", to="/other")


def test_a_server_that_takes_requests_and_does_not_answer_ends_the_run(
    session: ZooKeeperSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many requests the first one ends it; of a write nobody knows whether it was done."""
    session.timeout_s = 0.2
    answers = session.client.handler.async_result
    for name in ("get_acls_async", "create_async"):
        monkeypatch.setattr(session.client, name, lambda *_, **__: answers())
    side = ZooKeeperSide(session, "/")
    with pytest.raises(OperationTimeoutError):
        side.read_access(["", "/a", "/b"])
    stat = convert([0] * 11, Stat)
    write = side.create("/a", CopiedZnode(b"", (), 0, stat))
    with pytest.raises(OperationTimeoutError) as late:
        write.result()
    assert not isinstance(late.value, side.lost_errors)
    assert not late.value.definite


def test_a_server_that_goes_away_ends_the_run(client: Client) -> None:
    with ExitStack() as stack:
        with JutePort(limits=LIMITS_WITH_SUPER) as port:
            hosts = parse_hosts(port.address)
            opened = stack.enter_context(open_session(hosts, [], None, PATIENCE_S))
            opened.timeout_s = 0.3
        with pytest.raises(ConnectionLossError, match=r"within 0.3 s"):
            ZooKeeperSide(opened, "/").read_access([""])


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"  # kazoo drops sockets whose handshake fails
)
def test_a_connection_over_tls(client: Client, tmp_path: Path) -> None:
    files = TlsFolder(tmp_path)
    with JutePort(files.of_server()) as port:
        hosts = parse_hosts(port.address)
        with open_session(hosts, [], Tls(files.path("authority", "ca")), PATIENCE_S) as opened:
            opened.client.create("/app", b"v")
            sides = ZooKeeperSide(opened, "/app"), EnsembleSide(client, "/app", DEFAULT_LIMITS)
            with CopyJournal(None, "a", "b") as journal:
                assert last(Migration(*sides, journal)).copied.created == 1
        (tmp_path / "others").mkdir()
        stranger = Tls(TlsFolder(tmp_path / "others").path("authority", "ca"))
        for tls, text in ((stranger, "over TLS"), (None, "--tls-ca")):
            with (
                pytest.raises(ZooKeeperUnreachableError, match=text),
                open_session(hosts, [], tls, 1.0),
            ):
                pass


def test_a_journal_is_of_one_copy_and_one_run(
    port: JutePort, client: Client, tmp_path: Path
) -> None:
    state = tmp_path / "folder" / "state"
    import_all(port.address, client, state)
    with pytest.raises(JournalError, match="not of zookeeper / to ensemble"):
        import_all(port.address, client, state, to="/other")
    with (
        importing(port.address, client, state),
        pytest.raises(JournalError, match="used by another run"),
    ):
        import_all(port.address, client, state)
    (tmp_path / "text").write_text("something else, of any length that a header of SQLite has not")
    with pytest.raises(JournalError, match="no journal"):
        import_all(port.address, client, tmp_path / "text")
    with pytest.raises(RayKeeperError, match=r"cannot use|no journal"):
        import_all(port.address, client, tmp_path)
