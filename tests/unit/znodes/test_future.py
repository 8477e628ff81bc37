"""FutureTree: what outstanding transactions leave, and forgetting what was applied."""

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.future import FutureTree, FutureZnode
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.txns import Created

NOBODY, OWNER, OTHER = SessionId(0), SessionId(77), SessionId(78)
T = Millis(5)


def tree_with(*paths: str, owner: SessionId = NOBODY) -> Tree:
    tree = Tree()
    tree.plant()
    for number, path in enumerate(paths, 1):
        tree.create(Zxid(number), T, Created(path, b"", owner, number))
    return tree


def found(future: FutureTree, path: str) -> FutureZnode:
    record = future.find(path)
    assert record is not None
    return record


def test_finds_the_tree_until_something_is_kept() -> None:
    future = FutureTree(tree_with("/a"))
    record = found(future, "/a")
    assert record == FutureZnode(
        Zxid(0), True, Zxid(1), T, 0, SessionId(0), 0, 0, Zxid(1), b"", Zxid(1), T, None
    )
    assert found(future, "/").num_children == 2
    record.version = 9
    assert found(future, "/a").version == 0
    assert len(future) == 0
    future.keep(Zxid(10), "/a", record)
    assert found(future, "/a").version == 9
    assert len(future) == 1
    assert future.find("/missing") is None


def test_what_will_exist() -> None:
    future = FutureTree(tree_with("/a"))
    assert future.exists("/a")
    assert not future.exists("/b")
    future.create(Zxid(10), T, "/b", b"", SessionId(0))
    assert future.exists("/b")
    future.delete(Zxid(11), "/a", found(future, "/a"))
    assert not future.exists("/a")
    assert future.find("/a") is None
    root = found(future, "/")
    assert (root.num_children, root.pzxid) == (1, 11)


def test_records_go_with_the_last_transaction_that_touched_them() -> None:
    future = FutureTree(tree_with("/a", "/b"))
    for zxid, path in [(10, "/a"), (11, "/b"), (12, "/a"), (13, "/b")]:
        record = found(future, path)
        record.version += 1
        future.keep(Zxid(zxid), path, record)
    future.applied(Zxid(9))
    assert len(future) == 2
    future.applied(Zxid(11))
    assert (found(future, "/a").version, found(future, "/b").version) == (2, 2)
    future.applied(Zxid(12))
    assert found(future, "/a").version == 0  # as the tree of this test still says
    assert found(future, "/b").version == 2
    future.applied(Zxid(13))
    assert len(future) == 0


def test_a_deletion_outlives_the_record_of_an_earlier_change() -> None:
    future = FutureTree(tree_with("/a"))
    future.keep(Zxid(10), "/a", found(future, "/a"))
    future.delete(Zxid(11), "/a", found(future, "/a"))
    future.applied(Zxid(10))
    assert not future.exists("/a")


def test_an_ephemeral_that_changed_hands_is_not_its_first_owners() -> None:
    """Else closing the first session would delete the second one's znode."""
    future = FutureTree(tree_with())
    future.create(Zxid(10), T, "/e", b"", OWNER)
    future.delete(Zxid(11), "/e", found(future, "/e"))
    future.create(Zxid(12), T, "/e", b"", OTHER)
    future.create(Zxid(13), T, "/unrelated", b"", OWNER)
    future.applied(Zxid(12))
    assert future.ephemerals_of(OWNER) == ["/unrelated"]


def test_ephemerals_are_those_of_the_tree_and_of_what_is_outstanding() -> None:
    future = FutureTree(tree_with("/e2", "/e1", owner=OWNER))
    assert future.ephemerals_of(OWNER) == ["/e1", "/e2"]
    assert future.ephemerals_of(OTHER) == []
    future.create(Zxid(10), T, "/e3", b"", OWNER)
    future.create(Zxid(11), T, "/e4", b"", OTHER)
    future.delete(Zxid(12), "/e2", found(future, "/e2"))
    assert future.ephemerals_of(OWNER) == ["/e1", "/e3"]
    assert future.ephemerals_of(OTHER) == ["/e4"]
    # Created and deleted while outstanding, and taken over by another session.
    future.delete(Zxid(13), "/e3", found(future, "/e3"))
    future.delete(Zxid(14), "/e1", found(future, "/e1"))
    future.create(Zxid(15), T, "/e1", b"", OTHER)
    assert future.ephemerals_of(OWNER) == []
    assert future.ephemerals_of(OTHER) == ["/e1", "/e4"]
    future.keep(Zxid(16), "/e1", found(future, "/e1"))
    future.applied(Zxid(15))  # /e4 went to the tree, which here does not have it
    assert future.ephemerals_of(OTHER) == ["/e1"]
    future.applied(Zxid(16))
    assert future.ephemerals_of(OTHER) == []
