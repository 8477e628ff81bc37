"""PartedChildren: a set of paths, whatever its parts; and a tree that changes over to it."""

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.children import PARTED_FROM, PARTS, PartedChildren
from raykeeper.znodes.reads import answer
from raykeeper.znodes.replies import ChildrenRead
from raykeeper.znodes.requests import GetChildren, SessionId
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import stat_of
from raykeeper.znodes.txns import Created

PATHS = [f"/a/{number}" for number in range(1_000)]


def test_is_a_set() -> None:
    children = PartedChildren(dict.fromkeys(PATHS))
    children.add(PATHS[0])
    assert len(children) == len(PATHS)
    assert sorted(children) == sorted(PATHS)
    for path in PATHS[:500]:
        children.remove(path)
    assert sorted(children) == sorted(PATHS[500:])
    assert len(children) == 500


def test_no_part_is_large() -> None:
    children = PartedChildren(dict.fromkeys(PATHS))
    assert len(children.parts) == PARTS
    assert max(map(len, children.parts)) < 3 * len(PATHS) / PARTS


def crowded() -> State:
    """Under / one more child than a dict holds, the first ones deleted again."""
    state = State()
    for number in range(PARTED_FROM):
        change = Created(f"/{number}", b"", SessionId(0), number + 1)
        state.tree.create(Zxid(number + 1), Millis(number), change)
    for number in range(10):
        state.tree.delete(Zxid(PARTED_FROM + 1 + number), f"/{number}")
    return state


def test_a_crowded_znode_reads_like_any_other() -> None:
    state = crowded()
    root = state.tree.znodes["/"]
    assert isinstance(root.children, PartedChildren)
    stat = stat_of(root)
    assert (stat.num_children, stat.cversion) == (PARTED_FROM - 9, PARTED_FROM + 9)
    item = answer(state, GetChildren(1, "/", False))
    assert isinstance(item, ChildrenRead)
    assert sorted(item.children) == sorted(
        ["zookeeper", *(str(number) for number in range(10, PARTED_FROM))]
    )


def test_a_walk_lists_a_crowded_znode_part_by_part() -> None:
    state = crowded()
    walk, loader = SnapshotWalk(state), SnapshotLoader()
    listed = []
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
        listed.append(len(walk._paths))
    assert max(listed) < 10 * PARTED_FROM / PARTS
    loaded = loader.finish(state.zxid, state.zxid)
    assert loaded.digest() == state.digest()
    # What is below the bound when it is loaded is in one dict again.
    assert isinstance(loaded.tree.znodes["/"].children, dict)
    assert sorted(loaded.tree.znodes["/"].children) == sorted(state.tree.znodes["/"].children or ())


def test_a_walk_ends_when_the_parts_it_has_not_listed_become_empty() -> None:
    state = crowded()
    walk, loader = SnapshotWalk(state, chunk_bytes=1), SnapshotLoader()
    for _ in range(10):
        chunk = walk.next_chunk()
        assert chunk is not None
        loader.load(chunk)
    for number in range(10, PARTED_FROM):
        state.tree.delete(Zxid(3 * PARTED_FROM + number), f"/{number}")
    while (chunk := walk.next_chunk()) is not None:
        loader.load(chunk)
    assert len(loader.finish(state.zxid, state.zxid).tree.znodes) < 20
