"""The first state of a restored ensemble: what stays, and what belonged to the old one."""

import pytest

from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN, LEVEL_OF_ACL_SALTS, FeatureLevel
from raykeeper.zab.ids import DiskId, Epoch, ServerId, Zxid, make_zxid
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.children import SHARDED_FROM
from raykeeper.znodes.new_history import begin_new_history
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.refounding import count_salted_acls, refound
from raykeeper.znodes.requests import ANY_VERSION, Create, CreateMode, SessionId, SetAcls, SetData
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk, level_of
from raykeeper.znodes.state import State
from raykeeper.znodes.znode import stat_of
from tests.unit.znodes.one_leader import OneLeader

FIRST = make_zxid(Epoch(9), 1)
EPHEMERAL = CreateMode.EPHEMERAL
ORIGIN = "8c1f"


def reloaded(state: State) -> State:
    """What a server reads from the snapshot of a state."""
    walk, loader = SnapshotWalk(state), SnapshotLoader()
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    return loader.finish(state.zxid, state.consistent_at)


def refounded(leader: OneLeader, *dropped: str) -> State:
    state = leader.state
    state.tree.changes = None
    state.tree.value_watches = ()
    refound(state, FIRST, dropped, ORIGIN)
    again = reloaded(state)
    assert (again.digest(), again.acl_salt) == (state.digest(), state.acl_salt)
    return state


def leader_with_sessions() -> tuple[OneLeader, SessionId, SessionId]:
    leader = OneLeader()
    return leader, leader.open(1), leader.open(2)


def test_sessions_end_with_their_ephemerals_and_all_else_stays() -> None:
    leader, one, two = leader_with_sessions()
    leader.do(one, Create("/a", b"v", 0))
    leader.do(one, Create("/a/e", b"", EPHEMERAL))
    leader.do(two, Create("/e", b"", EPHEMERAL))
    leader.do(one, SetData("/a", b"w", 0))
    before = stat_of(leader.state.tree.znodes["/a"])
    time_ms = leader.state.time_ms
    state = refounded(leader)
    assert not state.sessions.by_id and not state.tree.ephemerals
    assert sorted(state.tree.znodes) == [
        *("/", "/a", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
    ]
    after = stat_of(state.tree.znodes["/a"])
    assert (after.czxid, after.mzxid, after.version) == (before.czxid, before.mzxid, 1)
    assert (after.pzxid, after.num_children) == (FIRST, 0)
    assert (state.zxid, state.consistent_at, state.time_ms) == (FIRST, FIRST, time_ms)


def test_many_ephemerals_end_too() -> None:
    leader, one, _ = leader_with_sessions()
    for number in range(SHARDED_FROM + 2):
        leader.do(one, Create(f"/e{number}", b"", EPHEMERAL))
    state = refounded(leader)
    assert not state.tree.ephemerals and len(state.tree.znodes) == 4


def test_the_old_servers_are_forgotten() -> None:
    leader, _, _ = leader_with_sessions()
    leader.prepare_voter(2, "disk-7")
    leader.apply()
    assert leader.state.voters == {ServerId(2): DiskId("disk-7")}
    zxid = make_zxid(Epoch(1), len(leader.log) + 1)
    data = leader.preparation.prepare_config(
        zxid, leader.wall_ms, {ServerId(1): "10.0.0.1:2181"}, [ServerId(1)], []
    )
    assert data is not None
    leader.log.append((zxid, data))
    leader.state.apply(zxid, data)
    config = leader.state.tree.znodes[CONFIG_PATH]
    assert b"10.0.0.1" in (config.value or b"")
    version = config.version
    state = refounded(leader)
    assert state.voters == {}
    assert (config.value, config.version, config.mzxid) == (b"", version + 1, FIRST)


@pytest.mark.parametrize("root", ["/k", "/none"])
def test_subtrees_are_dropped(root: str) -> None:
    leader, one, _ = leader_with_sessions()
    for path in ("/k", "/k/a", "/k/a/b", "/k/c", "/kept"):
        leader.do(one, Create(path, b"v", 0))
    state = refounded(leader, root)
    found = [path for path in state.tree.znodes if path.startswith("/k")]
    assert sorted(found) == (
        ["/kept"] if root == "/k" else ["/k", "/k/a", "/k/a/b", "/k/c", "/kept"]
    )


def test_no_earlier_zxid_and_no_mixture_is_taken() -> None:
    leader, _, _ = leader_with_sessions()
    with pytest.raises(AssertionError):
        refound(leader.state, leader.state.zxid, [], ORIGIN)
    leader.state.consistent_at = Zxid(leader.state.zxid + 1)
    with pytest.raises(AssertionError):
        refound(leader.state, FIRST, [], ORIGIN)


@pytest.mark.parametrize(
    ("salt", "level", "kept"),
    [
        # The ensemble was founded from nothing: its own uuid has salted what is there.
        ("", LEVEL_MIN, ORIGIN),
        ("", LEVEL_MAX, ORIGIN),
        # It was restored itself: all keys have the salt of the first one.
        ("first", LEVEL_MAX, "first"),
    ],
)
def test_the_salt_of_the_acls_stays(salt: str, level: FeatureLevel, kept: str) -> None:
    leader, _, _ = leader_with_sessions()
    leader.state.acl_salt, leader.state.level = salt, level
    state = refounded(leader)
    assert state.acl_salt == kept
    # A program that would forget the salt cannot read it.
    assert level_of(SnapshotWalk(state).next_chunk() or b"") == LEVEL_OF_ACL_SALTS
    unsalted = reloaded(state)
    unsalted.acl_salt = ""
    assert unsalted.digest() != state.digest()


def test_a_recovery_keeps_the_salt() -> None:
    leader, _, _ = leader_with_sessions()
    state = refounded(leader)
    begin_new_history(state)
    assert reloaded(state).acl_salt == ORIGIN


def test_acls_whose_keys_are_salted_are_counted() -> None:
    leader, one, _ = leader_with_sessions()
    assert count_salted_acls(leader.state) == 0
    world = Acl(31, "world", "anyone")
    for path, acls in {
        "/a": [Acl(31, "scrypt", "ann:" + "a" * 43), world],
        "/b": [Acl(1, "digest", "ann:" + "a" * 27 + "="), world],
        "/c": [world, Acl(1, "scrypt", "bob:" + "b" * 43)],
    }.items():
        leader.do(one, Create(path, b"v", 0))
        leader.do(one, SetAcls(path, acls, ANY_VERSION))
    assert count_salted_acls(leader.state) == 2
    leader.do(one, Create("/ttl", b"", CreateMode.TTL, None, 1000))
    assert count_salted_acls(leader.state) == 2
