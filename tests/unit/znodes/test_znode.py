"""Traits: containers and znodes with a TTL, how they are created, found again and ended."""

import pytest

from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.requests import Create, CreateMode, Delete, SessionId, SetAcls, SetData
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.txns import CreateTxn, DeleteTxn, decode_txn
from raykeeper.znodes.znode import CONTAINER, attributes_of
from tests.unit.znodes.one_leader import OneLeader, zxid_at

TTL, TTL_SEQUENTIAL = CreateMode.TTL, CreateMode.TTL_SEQUENTIAL


@pytest.mark.parametrize(
    ("mode", "ttl_ms", "path", "kept"),
    [
        (CreateMode.CONTAINER, 0, "/t", CONTAINER),
        (TTL, 7, "/t", 7),
        (TTL_SEQUENTIAL, 7, "/t0000000000", 7),
        (TTL, (1 << 40) - 1, "/t", (1 << 40) - 1),
    ],
)
def test_a_created_znode_has_its_attributes(mode: int, ttl_ms: int, path: str, kept: int) -> None:
    leader = OneLeader()
    session = leader.open()
    change = leader.do(session, Create("/t", b"v", mode, None, ttl_ms))
    assert change == CreateTxn(path, b"v", SessionId(0), 1, None, kept)
    assert leader.state.tree.expiring_paths == {path: None}
    assert leader.state.tree.znodes[path].attributes is attributes_of(None, 0, kept)
    # Neither is shown as owned by anybody, and both can have children.
    assert leader.state.tree.znodes[path].ephemeral_owner == 0
    assert leader.create(session, f"{path}/child") == f"{path}/child"
    leader.delete(session, f"{path}/child")
    leader.delete(session, path)
    assert leader.state.tree.expiring_paths == {}


def test_a_new_acl_leaves_the_ttl() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.do(session, Create("/t", b"", TTL, None, 7))
    leader.do(session, SetAcls("/t", list(OPEN_ACL), 0))
    assert leader.state.tree.znodes["/t"].attributes is attributes_of(None, 1, 7)


def test_expiring_znodes_are_found_in_a_snapshot() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.do(session, Create("/t", b"", TTL, None, 7))
    walk, loader = SnapshotWalk(leader.state), SnapshotLoader()
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    loaded = loader.finish(leader.zxid, leader.zxid)
    assert loaded.tree.expiring_paths == {"/t": None}
    assert loaded.digest() == leader.state.digest()


def end(leader: OneLeader, path: str) -> bytes | None:
    zxid = zxid_at(len(leader.log) + 1)
    seen = leader.state.tree.znodes["/t"]
    return leader.preparation.prepare_delete_expired(zxid, leader.wall_ms, path, seen)


def test_a_znode_expires_only_if_unchanged_since_it_was_checked() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.do(session, Create("/t", b"", TTL, None, 7))
    assert end(leader, "/none") is None
    for changes in (
        [SetData("/t", b"", -1)],
        [Create("/t/a", b"", 0)],
        [Create("/t/b", b"", 0), Delete("/t/b", -1), Delete("/t/a", -1)],  # it came and went
    ):
        for change in changes:
            leader.prepare(session, change)
        assert end(leader, "/t") is None
        leader.apply()
    data = end(leader, "/t")
    assert data is not None
    txn = decode_txn(data)
    assert (txn.body, txn.session_id, txn.number) == (DeleteTxn("/t"), 0, 0)
    # It is gone for whatever comes after it.
    leader.log.append((zxid_at(len(leader.log) + 1), data))
    assert isinstance(leader.prepare(session, Create("/t", b"", 0)), CreateTxn)
    leader.apply()
    assert leader.state.tree.expiring_paths == {}
