"""ShardedChildren: a set of paths, whatever its parts; and a tree that changes over to it."""

import pytest

from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.children import SHARD_SIZE, SHARDED_FROM, ShardedChildren
from raykeeper.znodes.errors import Code
from raykeeper.znodes.reads import reply_to_aux_read, reply_to_read
from raykeeper.znodes.replies import GetChildrenReply, MultiReadReply
from raykeeper.znodes.requests import (
    GetChildren,
    Multi,
    MultiRead,
    ReadChildren,
    ReadStat,
    SessionId,
)
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import CreateTxn, MultiErrorTxn, OpFailed, OpStat
from raykeeper.znodes.znode import stat_of
from tests.unit.znodes.one_leader import OneLeader

COUNT = 3 * SHARD_SIZE
CROWD = SHARDED_FROM + 5
PAIRS = [(Zxid(number + 1), f"/a/{number}") for number in range(COUNT)]


def test_children_behave_as_a_set() -> None:
    children = ShardedChildren(reversed(PAIRS))
    for czxid, path in PAIRS[::500]:
        children.add(path, czxid)
    assert len(children) == COUNT
    assert list(children) == [path for _, path in PAIRS]
    for czxid, path in PAIRS[::2]:
        children.remove(path, czxid)
    assert list(children) == [path for _, path in PAIRS[1::2]]
    assert len(children) == COUNT // 2


def test_shards_are_full_and_in_order_of_age() -> None:
    children = ShardedChildren(PAIRS)
    assert [len(part) for part in children.shards] == [SHARD_SIZE] * 3


def test_a_late_child_goes_to_the_shard_of_its_age() -> None:
    """A load, or a replay, may bring an older child after a newer one."""
    children = ShardedChildren(PAIRS[: SHARD_SIZE + 1] + PAIRS[SHARD_SIZE + 2 :])
    czxid, path = PAIRS[SHARD_SIZE + 1]
    children.add(path, czxid)
    children.add("/a/first", Zxid(0))
    assert path in children.shards[1]
    assert "/a/first" in children.shards[0]
    children.remove(path, czxid)
    children.remove("/a/first", Zxid(0))
    assert len(children) == COUNT - 1


def test_children_of_one_transaction_stay_in_one_shard() -> None:
    """Else the second could not be told by its czxid."""
    children = ShardedChildren(PAIRS[:SHARD_SIZE])
    czxid, path = PAIRS[SHARD_SIZE - 1]
    children.add("/a/twin", czxid)
    assert len(children.shards) == 1
    children.remove("/a/twin", czxid)
    children.remove(path, czxid)
    assert len(children) == SHARD_SIZE - 1


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_an_empty_shard_is_dropped(gone: int) -> None:
    """A queue fills at one end and empties at the other for ever."""
    children = ShardedChildren(PAIRS)
    within = PAIRS[gone * SHARD_SIZE : (gone + 1) * SHARD_SIZE]
    for czxid, path in within:
        children.remove(path, czxid)
    assert len(children.shards) == 2
    # What is of that age still finds a place.
    children.add(within[5][1], within[5][0])
    children.add("/a/new", Zxid(COUNT + 1))
    children.remove(within[5][1], within[5][0])
    children.remove("/a/new", Zxid(COUNT + 1))
    assert len(children) == 2 * SHARD_SIZE


def test_the_last_shard_stays() -> None:
    children = ShardedChildren(PAIRS[:1])
    children.remove(PAIRS[0][1], PAIRS[0][0])
    assert (len(children), children.shards) == (0, [{}])


def crowded() -> State:
    """Under / more children than a dict holds, the first ones deleted again."""
    state = State()
    for number in range(CROWD):
        change = CreateTxn(f"/{number}", b"", SessionId(0), number + 1)
        state.tree.create(Zxid(number + 1), Millis(number), change)
    for number in range(10):
        state.tree.delete(Zxid(CROWD + 1 + number), f"/{number}")
    return state


def test_a_crowded_znode_reads_like_any_other() -> None:
    state = crowded()
    root = state.tree.znodes["/"]
    assert isinstance(root.children, ShardedChildren)
    stat = stat_of(root)
    assert (stat.num_children, stat.cversion) == (CROWD - 9, CROWD + 9)
    item = reply_to_read(state, (), GetChildren(1, "/", False))
    assert isinstance(item, GetChildrenReply)
    assert sorted(item.children) == sorted(
        ["zookeeper", *(str(number) for number in range(10, CROWD))]
    )


def test_a_crowded_list_is_refused_in_a_multi_read() -> None:
    state = crowded()
    for number in range(10):
        change = CreateTxn(f"/new{number}", b"", SessionId(0), CROWD + number)
        state.tree.create(Zxid(2 * CROWD + number), Millis(0), change)
    session = Session(
        SessionId(1), b"", Millis(1), Zxid(1), 0, 0, {}, 0, "", (), ServerId(0), False, ()
    )
    item = reply_to_aux_read(state, session, MultiRead(1, [ReadChildren("/"), ReadStat("/none")]))
    assert item == MultiReadReply(1, state.zxid, [OpFailed(Code.THROTTLED_OP), OpStat(None)])


def test_a_crowded_list_is_refused_in_a_transaction() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/a")
    for number in range(SHARDED_FROM + 1):
        change = CreateTxn(f"/a/{number}", b"", SessionId(0), number + 1)
        leader.state.tree.create(Zxid(leader.zxid + 1 + number), Millis(0), change)
    change = leader.do(session, Multi([], [ReadStat("/"), ReadChildren("/a")], []))
    assert change == MultiErrorTxn(True, Code.THROTTLED_OP, 1, 2, 10, "/a")


def test_a_walk_lists_a_crowded_znode_shard_by_shard() -> None:
    state = crowded()
    walk, loader = SnapshotWalk(state), SnapshotLoader()
    listed = []
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
        listed.append(len(walk._paths))
    assert max(listed) <= SHARD_SIZE
    loaded = loader.finish(state.zxid, state.zxid)
    assert loaded.digest() == state.digest()
    # What is not above the bound when it is loaded is in one dict again.
    assert isinstance(loaded.tree.znodes["/"].children, dict)
    assert sorted(loaded.tree.znodes["/"].children) == sorted(state.tree.znodes["/"].children or ())


def test_a_walk_ends_when_the_unlisted_shards_become_empty() -> None:
    state = crowded()
    walk, loader = SnapshotWalk(state, chunk_bytes=1), SnapshotLoader()
    for _ in range(10):
        chunk = walk.next_chunk()
        assert chunk is not None
        loader.load(chunk)
    for number in range(10, CROWD):
        state.tree.delete(Zxid(3 * CROWD + number), f"/{number}")
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    assert len(loader.finish(state.zxid, state.zxid).tree.znodes) < 20
