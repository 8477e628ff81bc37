"""Tree: what each change does, doing it twice, and replaying it over a later znode."""

import msgspec
import pytest

from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.txns import CreateTxn, DeleteTxn, SetDataTxn
from raykeeper.znodes.znode import Znode, cversion_of, stat_of

NOBODY, OWNER = SessionId(0), SessionId(77)
Step = tuple[int, CreateTxn | DeleteTxn | SetDataTxn]


def stat(version: int, data_length: int = 0) -> Stat:
    """Of a SetDataTxn only these two are applied; the rest is what the client was told."""
    return Stat(ZERO, ZERO, Millis(0), Millis(0), version, 0, 0, 0, data_length, 0, ZERO)


def created(path: str, creates: int, value: bytes = b"", owner: SessionId = NOBODY) -> CreateTxn:
    return CreateTxn(path, value, owner, creates)


def data_set(path: str, value: bytes, version: int) -> SetDataTxn:
    return SetDataTxn(path, value, stat(version, len(value)))


def new_tree() -> Tree:
    tree = Tree()
    tree.create_system_znodes()
    return tree


def apply(tree: Tree, *steps: Step) -> Tree:
    """Each transaction has its zxid for its time, times ten."""
    for number, change in steps:
        zxid, time_ms = Zxid(number), Millis(number * 10)
        match change:
            case CreateTxn():
                tree.create(zxid, time_ms, change)
            case DeleteTxn():
                tree.delete(zxid, change.path)
            case SetDataTxn():
                tree.set_data(zxid, time_ms, change)
    return tree


def image(tree: Tree) -> object:
    """Everything in a tree, and whether its sums are those of what it holds."""
    again = Tree()
    again.add_all(
        (path, msgspec.structs.replace(znode, digest_hash=0, children=None))
        for path, znode in sorted(tree.znodes.items())
    )
    assert again.full_digest() == tree.full_digest()
    assert again.data_bytes == tree.data_bytes
    assert {o: sorted(p) for o, p in again.ephemerals.items()} == {
        o: sorted(p) for o, p in tree.ephemerals.items()
    }
    return {
        path: (znode.value, znode.child_create_count, stat_of(znode), sorted(znode.children or ()))
        for path, znode in tree.znodes.items()
    }


def test_the_first_znodes_are_those_of_zookeeper() -> None:
    tree = new_tree()
    assert sorted(tree.znodes) == ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
    root = tree.get("/")
    assert root is not None
    assert stat_of(root) == Stat(ZERO, ZERO, Millis(0), Millis(0), 0, -1, 0, 0, 0, 1, ZERO)
    assert tree.get("/missing") is None


def shown(tree: Tree, path: str) -> tuple[int, ...] | None:
    """czxid, mzxid, ctime, mtime, version, cversion, owner, length, children, pzxid."""
    znode = tree.get(path)
    if znode is None:
        return None
    s = stat_of(znode)
    return (
        s.czxid, s.mzxid, s.ctime, s.mtime, s.version, s.cversion, s.ephemeral_owner,
        s.data_length, s.num_children, s.pzxid,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "path", "expected"),
    [
        # A creation sets both zxids and times, and shows in the parent.
        ([(1, created("/a", 1, b"xy"))], "/a", (1, 1, 10, 10, 0, 0, 0, 2, 0, 1)),
        ([(1, created("/a", 1)), (2, created("/a/b", 1))], "/a", (1, 1, 10, 10, 0, 1, 0, 0, 1, 2)),
        ([(1, created("/a", 1, b"", OWNER))], "/a", (1, 1, 10, 10, 0, 0, 77, 0, 0, 1)),
        # A deletion counts in cversion, and raises the parent's pzxid.
        ([(1, created("/a", 1)), (2, created("/a/b", 1)), (3, DeleteTxn("/a/b"))],
         "/a", (1, 1, 10, 10, 0, 2, 0, 0, 0, 3)),
        ([(1, created("/a", 1)), (2, DeleteTxn("/a"))], "/a", None),
        # A change of the value leaves creation and children alone.
        ([(1, created("/a", 1)), (2, created("/a/b", 1)), (3, data_set("/a", b"xyz", 1))],
         "/a", (1, 3, 10, 30, 1, 1, 0, 3, 1, 2)),
        # What is missing is not there to be changed.
        ([(3, data_set("/a", b"x", 1))], "/a", None),
        ([(3, created("/a/b", 1))], "/a/b", None),
        ([(3, DeleteTxn("/a/b"))], "/a/b", None),
    ],
)  # fmt: skip
def test_each_change_has_its_effect(
    steps: list[Step], path: str, expected: tuple[int, ...] | None
) -> None:
    assert shown(apply(new_tree(), *steps), path) == expected


BEGIN: list[Step] = [
    (1, created("/a", 1)),
    (2, created("/a/b", 1, b"old", OWNER)),
    (3, data_set("/a/b", b"new", 1)),
    (4, created("/a/c", 2)),
    (5, DeleteTxn("/a/c")),
]


@pytest.mark.parametrize("upto", range(1, len(BEGIN) + 1))
def test_applying_a_change_twice_changes_nothing(upto: int) -> None:
    once, twice = apply(new_tree(), *BEGIN[:upto]), new_tree()
    for step in BEGIN[:upto]:
        apply(twice, step, step)
    assert image(twice) == image(once)


@pytest.mark.parametrize(
    ("later", "replayed"),
    [
        # Created again since: the old life's creation, change and end do not touch the new one.
        ([(6, DeleteTxn("/a/b")), (7, created("/a/b", 3, b"again"))], BEGIN[1]),
        ([(6, DeleteTxn("/a/b")), (7, created("/a/b", 3, b"again"))], BEGIN[2]),
        ([(6, DeleteTxn("/a/b")), (7, created("/a/b", 3, b"again"))], (6, DeleteTxn("/a/b"))),
        # An older change of the value does not bring the old value back.
        ([(6, data_set("/a/b", b"newest", 2))], BEGIN[2]),
        # Counter and pzxid only rise (ZOOKEEPER-3145).
        ([(6, created("/a/d", 3))], BEGIN[1]),
        ([(6, created("/a/d", 3))], BEGIN[4]),
        # A parent's new life is not told of the children of its old one.
        ([(6, DeleteTxn("/a/b")), (7, DeleteTxn("/a")), (8, created("/a", 2))], BEGIN[1]),
        ([(6, DeleteTxn("/a/b")), (7, DeleteTxn("/a")), (8, created("/a", 2))], BEGIN[4]),
        ([(6, DeleteTxn("/a/b")), (7, DeleteTxn("/a"))], BEGIN[4]),
    ],
)  # fmt: skip
def test_an_old_transaction_changes_nothing_newer(later: list[Step], replayed: Step) -> None:
    tree = apply(new_tree(), *BEGIN, *later)
    before = image(tree)
    assert image(apply(tree, replayed)) == before


def test_a_replayed_deletion_raises_pzxid_though_the_child_is_gone() -> None:
    """ZOOKEEPER-3145: the walk saw the parent before, and the child after its deletion."""
    tree = apply(new_tree(), (1, created("/a", 1)), (2, created("/a/b", 1)))
    walked = apply(new_tree(), (1, created("/a", 1)), (2, created("/a/b", 1)))
    tree_after = image(apply(tree, (3, DeleteTxn("/a/b"))))
    znode = walked.znodes.pop("/a/b")
    walked._count_out("/a/b", znode)
    parent = walked.znodes["/a"]
    parent.children = None
    assert image(apply(walked, (3, DeleteTxn("/a/b")))) == tree_after


def test_a_child_outlives_the_replayed_deletion_of_its_parent_and_is_linked_again() -> None:
    """The walk saw the parent in its old life, the child in the new one."""
    history: list[Step] = [
        (1, created("/a", 1)),
        (2, DeleteTxn("/a")),
        (3, created("/a", 2)),
        (4, created("/a/b", 1)),
    ]
    tree = apply(new_tree(), history[0])
    child = Znode(b"", Zxid(4), Zxid(4), Millis(40), Millis(40), 0, NOBODY, 0, Zxid(4), 0)
    tree.add_all([("/a/b", child)])
    apply(tree, *history[1:3])
    parent = tree.get("/a")
    assert parent is not None
    assert parent.children is None
    apply(tree, history[3])
    assert image(tree) == image(apply(new_tree(), *history))


def test_an_owner_is_forgotten_with_its_last_ephemeral() -> None:
    tree = apply(new_tree(), (1, created("/a", 1, b"", OWNER)), (2, created("/b", 2, b"", OWNER)))
    assert list(tree.ephemerals[OWNER]) == ["/a", "/b"]
    apply(tree, (3, DeleteTxn("/a")))
    assert list(tree.ephemerals[OWNER]) == ["/b"]
    apply(tree, (4, DeleteTxn("/b")))
    assert tree.ephemerals == {}


@pytest.mark.parametrize(
    ("creates", "children", "cversion"),
    [
        (0, 0, 0),
        (3, 3, 3),
        (3, 1, 5),
        # The three znodes of the beginning were never counted as created.
        (0, 1, -1),
        ((1 << 30) - 1, 0, (1 << 31) - 2),
        (1 << 30, 0, -(1 << 31)),
        (1 << 31, 0, 0),
    ],
)
def test_cversion_wraps_as_a_32_bit_number(creates: int, children: int, cversion: int) -> None:
    assert cversion_of(creates, children) == cversion


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(3, data_set("/a", b"new", 1))],
        [(3, DeleteTxn("/a/b"))],
        [(3, DeleteTxn("/a/b")), (4, created("/a/b", 2, b"again"))],
    ],
)
def test_a_loaded_znode_may_change_before_it_is_hashed(changes: list[Step]) -> None:
    grown = apply(new_tree(), (1, created("/a", 1, b"x")), (2, created("/a/b", 1, b"y", OWNER)))
    loaded = Tree()
    loaded.add_all(
        (path, msgspec.structs.replace(znode, digest_hash=0, children=None))
        for path, znode in grown.znodes.items()
    )
    assert loaded.unhashed == list(grown.znodes)
    for tree in (grown, loaded):
        apply(tree, *changes)
    assert loaded.full_digest() == grown.digest
    loaded.hash_loaded(2)
    assert len(loaded.unhashed) == 4
    assert loaded.full_digest() == grown.digest
    loaded.hash_loaded(100)
    assert (loaded.unhashed, loaded.digest) == ([], grown.digest)
