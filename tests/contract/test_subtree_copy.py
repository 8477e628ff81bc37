"""What `copy_subtree` promises, over servers of this process."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.client import (
    READ_ACL_UNSAFE,
    Client,
    QuotaLimits,
    make_acl,
    make_digest_acl,
    make_scrypt_acl,
    subtree_walk,
)
from raykeeper.client.copy_places import Access, ClientPlace
from raykeeper.client.errors import (
    BadArgumentsError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    QuotaExceededError,
)
from raykeeper.client.subtree_copier import CopyReport
from raykeeper.client.subtree_copy import copy_subtree
from raykeeper.znodes.requests import ANY_VERSION, Create, SetData
from raykeeper.znodes.znode import CONTAINER
from tests.contract.client_handles import SUPER, Room, open_blocking

Connect = Callable[..., Client]
OTHER_UUID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens clients of one of two ensembles, "a" or "b"."""
    rooms = {"a": Room(), "b": Room(OTHER_UUID)}
    opened: list[Client] = []

    def open_one(ensemble: str = "a", **options: Any) -> Client:
        opened.append(open_blocking(rooms[ensemble])(**options))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def client(connect: Connect) -> Client:
    """A client of the ensemble "a"."""
    return connect()


def tree(client: Client, path: str) -> dict[str, bytes]:
    """The values of a subtree, by relative path."""
    found = {"": client.get(path)[0]}
    for name in client.get_children(path):
        below = tree(client, f"{path}/{name}".replace("//", "/"))
        found |= {f"/{name}{relative}": value for relative, value in below.items()}
    return found


def ttl_ms(client: Client, path: str) -> int:
    """The TTL of a znode, or the mark of a container."""
    (found,) = ClientPlace(client, path).read_access([""])
    assert isinstance(found, Access)
    return found.ttl_ms


def fill(client: Client) -> None:
    """A subtree at /app with znodes of every kind."""
    for path, value in {"": b"v", "/a": b"1", "/a/b": b"2", "/a/b/c": b"3", "/d": b""}.items():
        client.create(f"/app{path}", value)
    client.create("/app/kept", container=True)
    client.create("/app/short", b"t", ttl_s=3600.5)
    client.create("/app/e", ephemeral=True)
    client.create("/app/a/e", ephemeral=True)


KEPT = {"": b"v", "/a": b"1", "/a/b": b"2", "/a/b/c": b"3", "/d": b""} | {
    "/kept": b"",
    "/short": b"t",
}


@pytest.mark.parametrize("ensemble", ["a", "b"])
def test_a_copy_has_values_and_kinds_and_no_ephemerals(
    client: Client, connect: Connect, ensemble: str
) -> None:
    fill(client)
    target = connect(ensemble)
    report = copy_subtree(client, "/app", target, "/copies/of/app")
    assert report == CopyReport(created=7, ephemerals=2, value_bytes=5)
    assert report.znodes == 7
    assert tree(target, "/copies/of/app") == KEPT
    assert ttl_ms(target, "/copies/of/app/kept") == CONTAINER
    assert ttl_ms(target, "/copies/of/app/short") == 3_600_500
    assert ttl_ms(target, "/copies/of/app/a") == 0
    assert client.get_ephemerals("/copies") == []


def test_a_whole_ensemble_is_copied_without_the_systems_znodes(
    client: Client, connect: Connect
) -> None:
    fill(client)
    target = connect("b")
    with pytest.raises(NodeExistsError, match="merge"):
        copy_subtree(client, "/", target, "/")
    report = copy_subtree(client, "/", target, "/", merge=True)
    assert (report.created, report.unchanged, report.ephemerals) == (7, 1, 2)
    assert tree(target, "/app") == KEPT
    below = copy_subtree(client, "/", target, "/all")
    assert (below.created, sorted(target.get_children("/all"))) == (8, ["app"])


def test_an_existing_destination_is_refused_and_left_alone(client: Client) -> None:
    fill(client)
    client.create("/there", b"mine")
    for dry_run in (False, True):
        with pytest.raises(NodeExistsError, match=r"/there.*merge"):
            copy_subtree(client, "/app", client, "/there", dry_run=dry_run)
    assert tree(client, "/there") == {"": b"mine"}


def test_a_merge_creates_and_replaces_and_deletes_nothing(client: Client) -> None:
    fill(client)
    for path, value in {"": b"old", "/a": b"1", "/own": b"mine", "/kept": b"old"}.items():
        client.create(f"/there{path}", value)
    version = client.get("/there/a")[1].mzxid
    report = copy_subtree(client, "/app", client, "/there", merge=True)
    counts = CopyReport(created=4, changed=2, unchanged=1, ephemerals=2, value_bytes=5)
    assert report == replace(counts, other_kinds=1)
    assert tree(client, "/there") == KEPT | {"/own": b"mine"}
    assert client.get("/there/a")[1].mzxid == version, "what is the same is not written"
    again = copy_subtree(client, "/app", client, "/there", merge=True)
    assert (again.created, again.changed, again.unchanged) == (0, 0, 7)


def test_a_dry_run_counts_and_writes_nothing(client: Client) -> None:
    fill(client)
    report = copy_subtree(client, "/app", client, "/new/app", dry_run=True)
    assert report == CopyReport(created=7, ephemerals=2, value_bytes=5)
    assert client.exists("/new") is None
    client.create("/there", b"old")
    report = copy_subtree(client, "/app", client, "/there", merge=True, dry_run=True)
    assert (report.created, report.changed) == (6, 1)
    assert tree(client, "/there") == {"": b"old"}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("/app", "/app"),
        ("/app", "/app/a/copy"),
        ("/app/a", "/app"),
        ("/", "/copy"),
        ("/zookeeper/quota", "/copy"),
        ("/app", "/zookeeper/app"),
        ("app", "/copy"),
        ("/app", "/copy/"),
        ("/app/e", "/copy"),
    ],
)
def test_places_that_cannot_be_are_refused(client: Client, source: str, target: str) -> None:
    fill(client)
    with pytest.raises(BadArgumentsError):
        copy_subtree(client, source, client, target)
    assert client.exists("/copy") is None


def test_a_missing_source_is_an_error(client: Client) -> None:
    with pytest.raises(NoNodeError, match="/nothing"):
        copy_subtree(client, "/nothing", client, "/copy")
    assert client.exists("/copy") is None


def test_overlaps_are_found_through_chroots(client: Client, connect: Connect) -> None:
    fill(client)
    inner = connect(chroot="/app")
    with pytest.raises(BadArgumentsError, match="overlaps"):
        copy_subtree(inner, "/", client, "/app/a/copy")
    assert copy_subtree(inner, "/a", client, "/copy").created == 3
    inner.create("/zookeeper", b"an ordinary znode here")
    copy_subtree(inner, "/", client, "/whole")
    assert "zookeeper" in client.get_children("/whole")


def test_acls_are_kept(client: Client, connect: Connect) -> None:
    reader = [make_digest_acl("ann", "secret", read=True, write=True, create=True, admin=True)]
    client.create("/app", b"v", acl=[*READ_ACL_UNSAFE, *reader])
    client.add_auth("digest", "ann:secret")
    client.create("/app/a", b"hers", acl=reader)
    target = connect("b")
    with pytest.raises(NoAuthError, match="ADMIN"):
        copy_subtree(connect(), "/app", target, "/copy")
    with pytest.raises(NoAuthError):
        copy_subtree(client, "/app", target, "/copy")
    target.add_auth("digest", "ann:secret")
    assert copy_subtree(client, "/app", target, "/copy", merge=True).znodes == 2
    assert target.get_acls("/copy/a")[0] == reader
    assert target.get("/copy/a")[0] == b"hers"
    client.set_acls("/app/a", [make_acl("ip", "10.0.0.0/8", read=True), *reader])
    assert copy_subtree(client, "/app", target, "/copy", merge=True).changed == 1
    assert target.get_acls("/copy/a")[0] == client.get_acls("/app/a")[0]


def test_scrypt_entries_of_another_ensemble_are_counted(client: Client, connect: Connect) -> None:
    for each in (client, connect("b")):
        each.add_auth("digest", SUPER)
    client.create("/app", acl=[make_scrypt_acl(client.ensemble_uuid, "ann", "secret", all=True)])
    target = connect("b")
    target.add_auth("digest", SUPER)
    assert copy_subtree(client, "/app", target, "/copy").scrypt_acls == 1
    assert copy_subtree(client, "/app", client, "/copy").scrypt_acls == 0


def test_sequential_numbers_go_on_with_the_number_of_children(client: Client) -> None:
    client.create("/app")
    for _ in range(5):
        client.create("/app/n-", sequence=True)
    for name in ("n-0000000000", "n-0000000001"):
        client.delete(f"/app/{name}")
    copy_subtree(client, "/app", client, "/copy")
    assert client.create("/app/n-", sequence=True) == "/app/n-0000000005"
    assert client.create("/copy/m-", sequence=True) == "/copy/m-0000000003"


def test_a_tree_of_many_batches_is_copied(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtree_walk, "BATCH_ZNODES", 4)
    paths = [f"/{i}" for i in range(9)] + [f"/{i}/{j}" for i in range(9) for j in range(i)]
    for path in ["", *paths, "/3/0/x"]:
        client.create(f"/app{path}", path.encode())
    seen: list[CopyReport] = []
    report = copy_subtree(client, "/app", client, "/copy", progress=seen.append)
    assert tree(client, "/copy") == tree(client, "/app")
    assert (report.created, seen[-1]) == (47, report)
    assert len(seen) > 10
    assert seen == sorted(seen, key=lambda each: each.created)


def test_values_that_do_not_fit_into_one_reply_are_copied(client: Client) -> None:
    big = bytes(900_000)
    client.create("/app")
    for i in range(6):
        client.create(f"/app/{i}", big)
    assert copy_subtree(client, "/app", client, "/copy").value_bytes == 6 * len(big)
    assert tree(client, "/copy") == tree(client, "/app")


def test_values_are_read_by_four_megabytes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [900_000] * 9 + [0] * 4
    for i, size in enumerate(sizes):
        client.create(f"/app/{i:02}", bytes(size), makepath=True)
    read: Any = ClientPlace.read_values
    at_once: list[int] = []

    def read_and_count(place: Any, batch: list[str]) -> Any:
        found = read(place, batch)
        at_once.append(sum(len(each[0]) for each in found))
        return found

    monkeypatch.setattr(ClientPlace, "read_values", read_and_count)
    copy_subtree(client, "/app", client, "/copy")
    assert (sum(at_once), max(at_once)) == (sum(sizes), 4 * 900_000)
    assert len(at_once) == 4, "the root, and three chunks"


def test_null_data_stays_null(client: Client, connect: Connect) -> None:
    fill(client)
    for write in (Create("/app/null", None, 0), SetData("/app/a", None, ANY_VERSION)):
        client._open_session().start(write).result()
    target = connect("b")
    copy_subtree(client, "/app", target, "/app")
    place = ClientPlace(target, "/app")
    values = place.read_values(["/null", "/a", "/d"])
    assert [value for value, _ in values] == [None, None, b""]  # type: ignore[misc]
    client.set("/app/null", b"")
    assert copy_subtree(client, "/app", target, "/app", merge=True).changed == 1


def test_changes_of_the_source_meanwhile_are_counted(
    client: Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subtree_walk, "BATCH_ZNODES", 1)
    other = connect()
    for path in ("/app", "/app/a", "/app/b"):
        client.create(path)
    acted: list[object] = []

    def act(_report: CopyReport) -> None:
        if not acted:  # /app is copied, its children are not listed yet
            acted.append(other.delete("/app/a"))
            other.set("/app", b"new")
            client.sync()

    report = copy_subtree(client, "/app", client, "/copy", progress=act)
    assert (report.created, report.changes) == (2, 2)
    again = copy_subtree(client, "/app", client, "/copy", merge=True)
    assert (again.changed, again.unchanged, again.changes) == (1, 1, 0)


def test_a_znode_that_is_deleted_after_its_listing_is_counted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subtree_walk, "BATCH_ZNODES", 1)
    for path in ("/app", "/app/a", "/app/b", "/app/c"):
        client.create(path)

    def act(report: CopyReport) -> None:
        if report.created == 1 and client.exists("/app/a"):
            client.delete("/app/a")
            client.delete("/app/b")
            client.delete("/app/c")

    report = copy_subtree(client, "/app", client, "/copy", progress=act)
    assert report.created + report.deleted_meanwhile == 4
    assert report.deleted_meanwhile >= 1
    assert report.changes == 3


def test_an_interrupted_copy_is_completed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtree_walk, "BATCH_ZNODES", 2)
    fill(client)

    def interrupt(report: CopyReport) -> None:
        if report.created >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_subtree(client, "/app", client, "/copy", progress=interrupt)
    with pytest.raises(NodeExistsError, match="merge"):
        copy_subtree(client, "/app", client, "/copy")
    report = copy_subtree(client, "/app", client, "/copy", merge=True)
    assert report.znodes == 7
    assert 1 <= report.created <= 5
    assert tree(client, "/copy") == KEPT


def test_a_quota_of_the_destination_holds(client: Client) -> None:
    fill(client)
    client.create("/there")
    client.set_quota("/there", QuotaLimits(hard_znodes=3))
    with pytest.raises(QuotaExceededError):
        copy_subtree(client, "/app", client, "/there/copy")


def test_what_others_do_to_the_destination_meanwhile_is_met(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the read of the destination and the writes made of it."""
    fill(client)
    client.create("/there", b"old")
    client.create("/there/a", b"old")
    read: Any = ClientPlace.read_access
    acts: list[Callable[[], object]] = [
        lambda: (client.delete("/there/a"), client.create("/there/d", b"new")),
        lambda: client.create("/there/a", b"new"),
    ]

    def read_then_act(place: Any, batch: list[str]) -> Any:
        found = read(place, batch)
        if place.path == "/there" and "/a" in batch and acts:
            acts.pop(0)()
        return found

    monkeypatch.setattr(ClientPlace, "read_access", read_then_act)
    report = copy_subtree(client, "/app", client, "/there", merge=True)
    assert not acts
    assert tree(client, "/there") == KEPT
    assert report.znodes == 7


def test_an_ephemeral_of_the_destination_is_an_error(client: Client) -> None:
    fill(client)
    client.create("/there/a", ephemeral=True, makepath=True)
    with pytest.raises(NodeExistsError, match=r"/there/a.*ephemeral"):
        copy_subtree(client, "/app", client, "/there", merge=True)


def test_only_blocking_clients_copy(client: Client) -> None:
    with pytest.raises(BadArgumentsError, match="Client, not str"):
        copy_subtree(client, "/app", "b", "/copy")  # type: ignore[arg-type]
