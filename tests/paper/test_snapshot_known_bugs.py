"""What ZooKeeper's fuzzy snapshots got wrong: each issue at every moment at which one may begin.

A story of transactions is played; a walk of the tree begins after some of them and goes on while
the others are applied. What is loaded from it and replayed must be the state that never stopped.
"""

from collections.abc import Iterator

import pytest
from msgspec import Struct

from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.znodes.change_log import ChangeLog
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import CloseSession, CreateMode, Delete, SessionId, SetWatches
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.watch_replay import WatchReplay
from raykeeper.znodes.watches import WatchTable
from raykeeper.znodes.znode import stat_of
from tests.unit.znodes.one_leader import OneLeader

EPHEMERAL = CreateMode.EPHEMERAL
Log = list[tuple[Zxid, bytes]]


class Case(Struct):
    """One walk: the live state at its begin and end, and what is loaded of it."""

    loaded: State
    live: State
    rest: Log

    def replay(self) -> State:
        """Everything after the beginning of the walk, once more."""
        for zxid, data in self.rest:
            self.loaded.apply(zxid, data)
        return self.loaded


def played(log: Log) -> State:
    state = State()
    for zxid, data in log:
        state.apply(zxid, data)
    return state


def cases(log: Log) -> Iterator[Case]:
    """Walks that begin after each transaction, the others applied sooner or later during them."""
    for begin in range(len(log)):
        for pause in range(12):
            live = played(log[:begin])
            start = live.zxid
            walk = SnapshotWalk(live, chunk_bytes=1)
            chunks: list[bytes] = []
            rest = list(log[begin:])
            while (chunk := walk.next_chunk()) is not None:
                chunks.append(chunk)
                if len(chunks) > pause and rest:
                    live.apply(*rest.pop(0))
            loader = SnapshotLoader()
            for chunk in chunks:
                loader.load(chunk)
            loaded = loader.finish(start, live.zxid)
            for zxid, data in rest:
                live.apply(zxid, data)
            yield Case(loaded, live, log[begin:])


def stat(state: State, path: str) -> tuple[Zxid, int, int]:
    """czxid, pzxid and cversion of a znode."""
    znode = state.tree.znodes[path]
    found = stat_of(znode)
    return znode.czxid, found.pzxid, found.cversion


def orphans(state: State) -> set[SessionId]:
    """Owners of ephemerals that have no session."""
    return set(state.tree.ephemerals) - set(state.sessions.by_id)


def test_zookeeper_3144_a_walk_that_begins_while_a_session_is_opened_or_closed() -> None:
    """Table of sessions and tree are those of one zxid after replay; no ephemeral has no session.

    1. Sessions open, own ephemerals and close, one after the other.
    2. A snapshot begins at any moment of that. ZooKeeper's could begin when a session was in the
       table already, and its transaction not yet in the number of the snapshot.
    """
    leader = OneLeader()
    for n in range(1, 4):
        session = leader.open(n)
        leader.create(session, f"/e{n}", b"", EPHEMERAL)
        leader.create(session, f"/p{n}")
        if n != 2:
            leader.do(session, CloseSession())
    count = 0
    for case in cases(leader.log):
        assert case.loaded.zxid == (case.rest[0][0] - 1 if case.loaded.zxid else ZERO)
        state = case.replay()
        assert state.digest() == case.live.digest()
        assert state.sessions.by_id.keys() == case.live.sessions.by_id.keys()
        assert not orphans(state) and state.tree.ephemerals == case.live.tree.ephemerals
        count += 1
    assert count > 100


def test_zookeeper_3145_the_child_is_gone_already_and_its_session_is_closed_again() -> None:
    """The parent's pzxid advances by a replayed deletion though there is nothing to delete.

    1. A walk has written /p, and comes to /p/e when the session that owned it has been closed.
    2. ZooKeeper, replaying the close, found no /p/e and left the pzxid of /p as it was.
    3. A client that watched the children of /p connects again and must be told.
    """
    leader = OneLeader()
    owner, _other = leader.open(1), leader.open(2)
    leader.create(owner, "/p")
    leader.create(owner, "/p/e", b"", EPHEMERAL)
    before = leader.state.zxid
    leader.do(owner, CloseSession())
    happened = 0
    for case in cases(leader.log):
        loaded = case.loaded.tree
        if "/p" in loaded.znodes and "/p/e" not in loaded.znodes:
            happened += loaded.znodes["/p"].pzxid == before and case.loaded.zxid == before
        state = case.replay()
        assert stat(state, "/p") == stat(case.live, "/p")
        assert state.digest() == case.live.digest()
        missed = WatchReplay(state, ChangeLog(state.zxid, 0, 0), lambda _: ())
        (event,) = missed.set_watches(WatchTable(), 1, [SetWatches(1, before, [], [], ["/p"])])
        assert (event.kind, event.path) == (EventType.CHILD, "/p")
    assert happened > 0, "the walk was never between parent and child"


@pytest.mark.parametrize("issue", ["3125: deletions", "3249: creations"])
def test_zookeeper_3125_3249_replay_of_children_that_are_gone(issue: str) -> None:
    """pzxid and the counter of a parent never go down, and never stay behind.

    1. Children of /p are created and deleted, the same path again and again.
    2. A snapshot is taken at any moment of that.
    3. The deletion of a child that is missing (3125), or the creation of one that is deleted later
       (3249), is replayed: ZooKeeper set both numbers back, or left them behind.
    """
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/p")
    for n in range(4):
        leader.create(session, "/p/a")
        if issue.startswith("3125"):
            leader.do(session, Delete("/p/a", -1))
            leader.create(session, f"/p/b{n}")
        else:
            leader.create(session, f"/p/a/{n}")
            leader.do(session, Delete(f"/p/a/{n}", -1))
            leader.do(session, Delete("/p/a", -1))
    for case in cases(leader.log):
        state = case.loaded
        for zxid, data in case.rest:
            before = state.tree.get("/p")
            numbers = (before.pzxid, before.child_create_count) if before is not None else (ZERO, 0)
            state.apply(zxid, data)
            after = state.tree.get("/p")
            assert after is None or (
                after.pzxid >= numbers[0] and after.child_create_count >= numbers[1]
            )
        assert stat(state, "/p") == stat(case.live, "/p")
        assert state.digest() == case.live.digest()


def test_zookeeper_3249_a_child_in_the_snapshot_that_its_parent_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replayed creation of a child that is there already counts for its parent.

    1. /p has so many children that they are listed in parts, after /p was written.
    2. One more is created then, and written with the last part; the /p in the snapshot is older.
    3. ZooKeeper's replay met the child, took its creation for done, and left cversion and pzxid of
       the parent behind.
    """
    monkeypatch.setattr("raykeeper.znodes.tree.SHARDED_FROM", 2)
    monkeypatch.setattr("raykeeper.znodes.children.SHARD_SIZE", 2)
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/p")
    for n in range(8):
        leader.create(session, f"/p/{n}")
    happened = 0
    for case in cases(leader.log):
        loaded = case.loaded.tree.znodes
        if "/p" in loaded:
            newest = max((z.czxid for p, z in loaded.items() if p.startswith("/p/")), default=ZERO)
            happened += newest > loaded["/p"].pzxid
        state = case.replay()
        assert stat(state, "/p") == stat(case.live, "/p")
        assert state.digest() == case.live.digest()
    assert happened > 0, "no child was newer than its parent"


def test_zookeeper_3127_a_walk_in_the_middle_of_a_transaction_of_many_parts() -> None:
    """All of a transaction or nothing: from the end of the walk on, each state is a real one.

    1. A session with ephemerals in several places is closed: one transaction that deletes all.
    2. A snapshot is taken at any moment of that. ZooKeeper's could begin in the middle of a multi,
       and its first half was replayed onto itself.
    3. At each zxid from the end of the walk on the state is that of a server that never stopped.
    """
    leader = OneLeader()
    owner, other = leader.open(1), leader.open(2)
    for parent in ("/a", "/b", "/c"):
        leader.create(other, parent)
        leader.create(owner, f"{parent}/e", b"", EPHEMERAL)
    leader.do(owner, CloseSession())
    for parent in ("/a", "/b"):
        leader.do(other, Delete(parent, -1))
    digests = {ZERO: State().digest()}
    for n, (zxid, _) in enumerate(leader.log):
        digests[zxid] = played(leader.log[: n + 1]).digest()
    real = 0
    for case in cases(leader.log):
        state = case.loaded
        for zxid, data in case.rest:
            state.apply(zxid, data)
            if zxid >= state.consistent_at:
                assert state.digest() == digests[zxid]
                assert len([p for p in state.tree.znodes if p.endswith("/e")]) in (0, 1, 2, 3)
                real += 1
    assert real > 100
