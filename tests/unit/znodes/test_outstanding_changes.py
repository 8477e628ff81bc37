"""OutstandingChanges: what outstanding transactions leave, and forgetting what was applied."""

import gc
import sys
from collections import deque
from collections.abc import Iterable
from random import Random

import pytest

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.outstanding_changes import ChangeRecord, OutstandingChanges
from raykeeper.znodes.paths import parent_of
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.txns import CreateTxn

NOBODY, OWNER, OTHER = SessionId(0), SessionId(77), SessionId(78)
T = Millis(5)


def tree_with(*paths: str, owner: SessionId = NOBODY) -> Tree:
    tree = Tree()
    tree.create_system_znodes()
    for number, path in enumerate(paths, 1):
        tree.create(Zxid(number), T, CreateTxn(path, b"", owner, number))
    return tree


def found(future: OutstandingChanges, path: str) -> ChangeRecord:
    record = future.find(path)
    assert record is not None
    return record


def test_a_lookup_without_outstanding_changes_finds_the_tree() -> None:
    future = OutstandingChanges(tree_with("/a"))
    record = found(future, "/a")
    assert record == ChangeRecord(
        Zxid(0), True, Zxid(1), T, 0, SessionId(0), 0, 0, Zxid(1), b"", Zxid(1), T, None
    )
    assert found(future, "/").num_children == 2
    record.version = 9
    assert found(future, "/a").version == 0
    assert len(future) == 0
    future.put(Zxid(10), "/a", record)
    assert found(future, "/a").version == 9
    assert len(future) == 1
    assert future.find("/missing") is None


def test_exists_and_find_see_outstanding_changes() -> None:
    future = OutstandingChanges(tree_with("/a"))
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
    future = OutstandingChanges(tree_with("/a", "/b"))
    for zxid, path in [(10, "/a"), (11, "/b"), (12, "/a"), (13, "/b")]:
        record = found(future, path)
        record.version += 1
        future.put(Zxid(zxid), path, record)
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
    future = OutstandingChanges(tree_with("/a"))
    future.put(Zxid(10), "/a", found(future, "/a"))
    future.delete(Zxid(11), "/a", found(future, "/a"))
    future.applied(Zxid(10))
    assert not future.exists("/a")


def test_an_ephemeral_recreated_by_another_session_is_not_the_first_owners() -> None:
    """Else closing the first session would delete the second one's znode."""
    future = OutstandingChanges(tree_with())
    future.create(Zxid(10), T, "/e", b"", OWNER)
    future.delete(Zxid(11), "/e", found(future, "/e"))
    future.create(Zxid(12), T, "/e", b"", OTHER)
    future.create(Zxid(13), T, "/unrelated", b"", OWNER)
    future.applied(Zxid(12))
    assert future.ephemerals_of(OWNER) == ["/unrelated"]


def test_ephemerals_include_outstanding_ones() -> None:
    future = OutstandingChanges(tree_with("/e2", "/e1", owner=OWNER))
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
    future.put(Zxid(16), "/e1", found(future, "/e1"))
    future.applied(Zxid(15))  # /e4 went to the tree, which here does not have it
    assert future.ephemerals_of(OTHER) == ["/e1"]
    future.applied(Zxid(16))
    assert future.ephemerals_of(OTHER) == []


class Naive:
    """The names below each parent, written down again in full by every change."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = set(paths)

    def names_of(self, path: str) -> list[str]:
        start = len(path.rstrip("/")) + 1
        return sorted(each[start:] for each in self.paths if parent_of(each) == path != each)


@pytest.mark.parametrize("seed", range(20))
def test_names_of_children_include_outstanding_changes(seed: int) -> None:
    """Asked for seldom or often, before, in and after drafts, while transactions are applied."""
    rng = Random(seed)
    parents = ["/p", "/q"]
    tree = tree_with(*parents, *(f"/p/{n}" for n in range(4)))
    future, naive = OutstandingChanges(tree), Naive(tree.znodes)
    applied: deque[tuple[Zxid, list[str]]] = deque()
    zxid = Zxid(100)
    for _ in range(300):
        path = f"{rng.choice(parents)}/{rng.randrange(6)}"
        zxid = Zxid(zxid + 1)
        match rng.choice(("change", "change", "draft", "ask", "apply")):
            case "change":
                toggle(future, naive, zxid, path)
            case "draft":
                before = set(naive.paths)
                future.begin()
                for _ in range(rng.randrange(4)):
                    toggle(future, naive, zxid, f"{rng.choice(parents)}/{rng.randrange(6)}")
                    if rng.random() < 0.5:
                        assert sorted(future.names_of("/p")) == naive.names_of("/p")
                if rng.random() < 0.5:
                    future.commit(zxid)
                else:
                    future.rollback()
                    naive.paths = before
            case "ask":
                for parent in (*parents, "/"):
                    assert sorted(future.names_of(parent)) == naive.names_of(parent)
            case _:
                pass
        applied.append((zxid, sorted(naive.paths)))
        if rng.random() < 0.2:
            done, paths = applied[rng.randrange(len(applied))]
            apply(tree, done, paths)
            future.applied(done)
            while applied and applied[0][0] <= done:
                applied.popleft()
    assert sorted(future.names_of("/p")) == naive.names_of("/p")


def test_the_root_has_no_parent() -> None:
    future = OutstandingChanges(tree_with("/a"))
    future.put(Zxid(10), "/", found(future, "/"))
    assert sorted(future.names_of("/")) == ["a", "zookeeper"]
    future.create(Zxid(11), T, "/b", b"", NOBODY)
    future.applied(Zxid(10))
    assert sorted(future.names_of("/")) == ["a", "b", "zookeeper"]


def toggle(future: OutstandingChanges, naive: Naive, zxid: Zxid, path: str) -> None:
    record = future.find(path)
    assert (record is not None) is (path in naive.paths)
    if record is not None:
        future.delete(zxid, path, record)
        naive.paths.remove(path)
    else:
        parent = found(future, parent_of(path))
        parent.num_children += 1
        future.put(zxid, parent_of(path), parent)
        future.create(zxid, T, path, b"", NOBODY)
        naive.paths.add(path)


def apply(tree: Tree, zxid: Zxid, paths: list[str]) -> None:
    """Make the tree what it was to be after a transaction."""
    for path in [path for path in tree.znodes if path not in paths]:
        tree.delete(zxid, path)
    for path in paths:
        if path not in tree.znodes:
            tree.create(zxid, T, CreateTxn(path, b"", NOBODY, 1))


def test_the_cost_of_a_list_does_not_grow_with_outstanding_changes() -> None:
    """Else a transaction of many listings would hold the leader up for long."""

    def steps(outstanding: int) -> int:
        future = OutstandingChanges(tree_with("/p", "/p/a", "/q"))
        for number in range(outstanding):
            future.create(Zxid(10 + number), T, f"/q/{number}", b"", NOBODY)
        future.names_of("/p")
        future.create(Zxid(10 + outstanding), T, "/p/b", b"", NOBODY)
        calls = 0

        def count(*_event: object) -> None:
            nonlocal calls
            calls += 1

        gc.disable()  # a collection calls what others have registered
        sys.setprofile(count)
        names = future.names_of("/p")
        sys.setprofile(None)
        gc.enable()
        assert names == ["a", "b"]
        return calls

    assert steps(1_000) == steps(1)
