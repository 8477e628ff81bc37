"""ACLs of the scheme `scrypt` after a restore: who was let in still is, and nobody else.

A backup is taken of the state of servers in this process, read again, and made the first state of
others, as `raykeeper restore` does it. Clients talk to both.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from raykeeper.actors.disk.backup_frames import snapshot_body
from raykeeper.client import CREATOR_ALL_ACL, Client, make_acl, make_scrypt_acl
from raykeeper.client.access import credential_proof
from raykeeper.client.errors import NoAuthError
from raykeeper.client.subtree_copy import copy_subtree
from raykeeper.clusters.backups.backup import opening_of
from raykeeper.clusters.backups.backup_format import BackupWriter
from raykeeper.clusters.backups.loading import Point, load_state
from raykeeper.clusters.backups.places import LocalPlace, created_output
from raykeeper.clusters.backups.restore import origin_uuid
from raykeeper.clusters.backups.server_choice import ReadServer
from raykeeper.zab.ids import Epoch, ServerId, Zxid, epoch_of, make_zxid
from raykeeper.znodes.refounding import refound
from raykeeper.znodes.requests import AddAuth
from raykeeper.znodes.snapshot import SnapshotWalk
from tests.contract.client_handles import SUPER, Room, open_blocking
from tests.contract.server_folders import UnforcedFiles

ORIGIN, RESTORED, AGAIN = "the first one", "restored from it", "restored from that"
Connect = Callable[..., Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens clients."""
    opened: list[Client] = []

    def open_one(room: Room, *credentials: tuple[str, str]) -> Client:
        opened.append(open_blocking(room)())
        for scheme, credential in credentials:
            opened[-1].add_auth(scheme, credential)
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


def backed_up(room: Room, folder: Path, **uuids: str) -> LocalPlace:
    """A backup of the present state; `uuids` are what the server tells of itself."""
    place, state = LocalPlace(folder / "it.rkb", UnforcedFiles()), room.state
    server = ReadServer(ServerId(1), "", "node", **uuids)
    opening = opening_of("coord", server, state.zxid, state.zxid, has_snapshot=True)
    with created_output(place) as output:
        writer = BackupWriter(output.write, opening)
        for chunk in iter(SnapshotWalk(state).next_chunk, None):
            writer.add_chunk(snapshot_body(chunk))
        writer.finish(time_ms=state.time_ms, epoch=epoch_of(state.zxid), digest=state.digest())
    return place


def restored(place: LocalPlace, uuid: str) -> Room:
    """Servers of another ensemble, which begin with a backup."""
    loaded = load_state(place, Point(), lambda _: None, str)
    first = make_zxid(Epoch(epoch_of(loaded.state.zxid) + 10), 1)
    refound(loaded.state, Zxid(first), [], origin_uuid(loaded.opening))
    room = Room(uuid)
    room.found(loaded.state)
    return room


ANN = ("scrypt", "ann:secret")


@pytest.fixture
def origin(connect: Connect) -> Room:
    """Servers with a znode that is for ann alone."""
    room = Room(ORIGIN)
    connect(room, ANN).create("/anns", b"of ann", acl=CREATOR_ALL_ACL)
    return room


def test_a_password_opens_the_restored_ensemble(
    origin: Room, connect: Connect, tmp_path: Path
) -> None:
    room = restored(backed_up(origin, tmp_path, ensemble_uuid=ORIGIN), RESTORED)
    client = connect(room, ANN)
    assert client.ensemble_uuid == ORIGIN
    assert client.get("/anns")[0] == b"of ann"
    # New ACLs have the same salt, made by a client from its password or by another from hers.
    client.create("/new", b"", acl=CREATOR_ALL_ACL)
    bob = make_scrypt_acl(client.ensemble_uuid, "bob", "staple", read=True)
    client.create("/bobs", b"of bob", acl=[bob])
    later = connect(room, ANN, ("scrypt", "bob:staple"))
    later.sync()
    assert (later.get("/new")[0], later.get("/bobs")[0]) == (b"", b"of bob")


@pytest.mark.parametrize(
    "credentials",
    [
        [],
        [("scrypt", "ann:wrong")],
        [("scrypt", "bob:secret")],
        # The other scheme has the same form of ids, and is another identity.
        [("digest", "ann:secret")],
    ],
)
def test_nobody_else_is_let_in(
    origin: Room, connect: Connect, tmp_path: Path, credentials: list[tuple[str, str]]
) -> None:
    room = restored(backed_up(origin, tmp_path, ensemble_uuid=ORIGIN), RESTORED)
    client = connect(room, *credentials)
    for act in (
        lambda: client.get("/anns"),
        lambda: client.set("/anns", b""),
        lambda: client.create("/anns/a"),
        lambda: client.set_acls("/anns", [make_acl("world", "anyone", all=True)]),
    ):
        with pytest.raises(NoAuthError):
            act()


def test_a_hash_of_the_backup_opens_nothing(origin: Room, connect: Connect, tmp_path: Path) -> None:
    """Whoever reads the backup has the hash of the key, which is no key."""
    (acl,) = connect(origin, ANN).get_acls("/anns")[0]
    kept = base64.b64decode(acl.id.partition(":")[2])
    room = restored(backed_up(origin, tmp_path, ensemble_uuid=ORIGIN), RESTORED)
    foreign = credential_proof(RESTORED, *ANN).partition(b":")[2]
    for key in (kept, hashlib.sha256(kept).digest(), foreign):
        client = connect(room)
        session = client._open_session()
        session.call(AddAuth("scrypt", b"ann:" + key))
        assert "scrypt" in [each.scheme for each in client.who_am_i()]
        with pytest.raises(NoAuthError):
            client.get("/anns")


@pytest.mark.parametrize(
    ("uuids", "is_open"),
    [
        ({"ensemble_uuid": ORIGIN}, True),
        # The old ensemble had recovered: its present uuid salts nothing.
        ({"ensemble_uuid": "after a recovery", "first_uuid": ORIGIN}, True),
        # A program of before did not tell the first one: then the super user alone is let in.
        ({"ensemble_uuid": "after a recovery"}, False),
    ],
)
def test_what_the_backup_tells_of_the_old_ensemble(
    origin: Room, connect: Connect, tmp_path: Path, uuids: dict[str, str], is_open: bool
) -> None:
    room = restored(backed_up(origin, tmp_path, **uuids), RESTORED)
    client = connect(room, ANN)
    if is_open:
        assert client.get("/anns")[0] == b"of ann"
    else:
        with pytest.raises(NoAuthError):
            client.get("/anns")
    root = connect(room, ("digest", SUPER))
    assert root.get("/anns")[0] == b"of ann"


def test_a_restored_ensemble_is_backed_up_and_restored(
    origin: Room, connect: Connect, tmp_path: Path
) -> None:
    """The state names the salt, not the uuid of the ensemble that is backed up."""
    room = restored(backed_up(origin, tmp_path, ensemble_uuid=ORIGIN), RESTORED)
    connect(room, ANN).create("/later", b"", acl=CREATOR_ALL_ACL)
    (tmp_path / "it.rkb").unlink()
    again = restored(backed_up(room, tmp_path, ensemble_uuid=RESTORED), AGAIN)
    client = connect(again, ANN)
    assert (client.ensemble_uuid, client.get("/later")[0]) == (ORIGIN, b"")
    assert client.get("/anns")[0] == b"of ann"


def test_a_server_on_an_empty_disk_tells_the_same_salt(
    origin: Room, connect: Connect, tmp_path: Path
) -> None:
    room = restored(backed_up(origin, tmp_path, ensemble_uuid=ORIGIN), RESTORED)
    room.empty(1)
    assert room.state.acl_salt == ORIGIN
    assert connect(room, ANN).get("/anns")[0] == b"of ann"


def test_a_restored_subtree_is_copied_back(origin: Room, connect: Connect, tmp_path: Path) -> None:
    """The two have one salt, and are two ensembles: the same path is another place."""
    room = restored(backed_up(origin, tmp_path, ensemble_uuid=ORIGIN), RESTORED)
    source, target = connect(room, ANN), connect(origin, ANN)
    assert source._open_session().own_uuid == RESTORED
    target.set("/anns", b"by mistake")
    report = copy_subtree(source, "/anns", target, "/anns", merge=True)
    assert (report.changed, report.scrypt_acls) == (1, 0)
    assert target.get("/anns")[0] == b"of ann"
