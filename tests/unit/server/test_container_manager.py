"""ContainerManager: which containers and TTL znodes are due, and when they stay after all."""

from raykeeper.server import container_manager as module
from raykeeper.server.container_manager import ContainerManager
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.requests import (
    CloseSession,
    Create,
    CreateMode,
    Delete,
    Multi,
    SessionId,
    SetAcls,
    SetData,
    WriteOp,
)
from raykeeper.znodes.txns import DeleteTxn, decode_txn
from tests.unit.znodes.one_leader import OneLeader, zxid_at

CONTAINER, TTL = CreateMode.CONTAINER, CreateMode.TTL


class Reign:
    """A leader that reports every applied change to its container manager."""

    def __init__(self) -> None:
        self.leader = OneLeader()
        self.session = self.leader.open()
        self.now = Millis(0)
        self.mortals = ContainerManager(self.leader.state, self.now)

    def create(self, path: str, mode: int = 0, ttl_ms: int = 0) -> None:
        self.do(Create(path, b"", mode, None, ttl_ms))

    def do(self, op: WriteOp) -> None:
        self.mortals.on_txn(self.leader.do(self.session, op), self.now)

    def due(self, at: int, most: int = 100) -> list[str]:
        self.now = Millis(at)
        return [path for path, _ in self.mortals.pop_due(self.now, most)]

    def end(self, path: str) -> bool:
        """Try to delete; return whether the znode was deleted."""
        znode = self.leader.state.tree.znodes.get(path)
        assert znode is not None
        leader = self.leader
        data = leader.preparation.prepare_delete_expired(
            zxid_at(len(leader.log) + 1), leader.wall_ms, path, znode.mzxid
        )
        if data is None:
            return False
        change = leader._add(data).body
        assert change == DeleteTxn(path)
        leader.apply()
        self.mortals.on_txn(change, self.now)
        return True


def test_a_container_is_deleted_after_its_last_child() -> None:
    reign = Reign()
    reign.create("/c", CONTAINER)
    assert reign.due(10_000) == []  # it never had a child
    reign.create("/c/a")
    reign.create("/c/b")
    reign.do(Delete("/c/a", -1))
    assert reign.due(20_000) == []
    reign.do(Delete("/c/b", -1))
    assert reign.due(20_000) == ["/c"]
    assert reign.end("/c")
    assert reign.due(90_000) == []
    assert "/c" not in reign.leader.state.tree.expiring_paths


def test_a_container_is_not_due_for_an_earlier_container_at_its_path() -> None:
    reign = Reign()
    reign.create("/c", CONTAINER)
    reign.create("/c/a")
    reign.do(Delete("/c/a", -1))
    # The server reports no change while there is no container, nor znode with a TTL.
    reign.leader.do(reign.session, Delete("/c", -1))
    reign.create("/c", CONTAINER)
    assert reign.due(10_000) == []
    reign.create("/c/a")
    reign.do(Delete("/c/a", -1))
    assert reign.due(10_000) == ["/c"]


def test_children_deleted_by_a_session_or_a_transaction_count() -> None:
    reign = Reign()
    reign.create("/c", CONTAINER)
    reign.do(Multi([], [Create("/c/a", b"", 0), Create("/c/b", b"", 0)], []))
    reign.do(Multi([], [Delete("/c/a", -1), Delete("/c/b", -1)], []))
    assert reign.due(0) == ["/c"]
    reign.create("/c/e", CreateMode.EPHEMERAL)
    reign.do(CloseSession())
    assert reign.due(0) == ["/c"]


def test_a_ttl_znode_is_due_to_the_millisecond() -> None:
    reign = Reign()
    reign.now = Millis(100)
    reign.create("/t", TTL, 5_000)
    assert reign.due(5_099) == []
    assert reign.due(5_100) == ["/t"]
    assert reign.end("/t")


def test_a_set_restarts_the_ttl() -> None:
    reign = Reign()
    reign.create("/t", TTL, 5_000)
    reign.now = Millis(4_000)
    reign.do(SetData("/t", b"", -1))
    assert reign.due(8_999) == []
    assert reign.due(9_000) == ["/t"]


def test_a_ttl_znode_with_children_stays_until_they_are_deleted() -> None:
    reign = Reign()
    reign.create("/t", TTL, 5_000)
    reign.create("/t/a")
    assert reign.due(6_000) == []
    reign.do(Delete("/t/a", -1))
    assert reign.due(6_000) == ["/t"]


def test_an_outstanding_change_keeps_the_znode() -> None:
    """A bug of ZooKeeper: a refresh between the check and the deletion is lost with the znode."""
    for keeps in (SetData("/t", b"", -1), Create("/t/a", b"", 0), Delete("/t", -1)):
        reign = Reign()
        reign.create("/t", TTL, 5_000)
        assert reign.due(5_000) == ["/t"]
        change = reign.leader.prepare(reign.session, keeps)
        assert not reign.end("/t")
        reign.leader.apply()
        reign.mortals.on_txn(change, reign.now)
        assert reign.due(9_999) == []


def test_a_deletion_that_was_not_proposed_is_due_again() -> None:
    reign = Reign()
    reign.create("/t", TTL, 5_000)
    assert reign.due(5_000) == ["/t"]
    reign.mortals.retry("/t", Millis(5_000))
    assert reign.due(5_000) == ["/t"]


def test_at_most_the_given_number_is_due_at_once() -> None:
    reign = Reign()
    for name in "abc":
        reign.create(f"/{name}", TTL, 10)
    assert reign.due(50, 2) == ["/a", "/b"]
    assert reign.due(50, 2) == ["/c"]


def test_at_most_a_bounded_number_is_checked_per_step() -> None:
    reign = Reign()
    for number in range(module.CHECKED_PER_STEP + 1):
        reign.create(f"/{number}", TTL, 10)
    reign.now = Millis(5)
    for number in range(module.CHECKED_PER_STEP + 1):
        reign.do(SetData(f"/{number}", b"", -1))
    assert reign.due(10) == []
    assert reign.mortals.is_behind(reign.now)
    assert reign.due(10) == []
    assert not reign.mortals.is_behind(reign.now)
    assert len(reign.due(15, 10_000)) == module.CHECKED_PER_STEP


def test_a_recreated_znode_is_another_znode() -> None:
    reign = Reign()
    reign.create("/t", TTL, 5_000)
    reign.do(Delete("/t", -1))
    reign.create("/t")
    assert reign.due(9_000) == []
    reign.do(Delete("/t", -1))
    reign.create("/t", TTL, 5_000)
    assert reign.due(13_999) == []
    assert reign.due(14_000) == ["/t"]


def test_a_recreated_znode_may_have_a_shorter_ttl() -> None:
    reign = Reign()
    reign.create("/t", TTL, 3_600_000)
    reign.do(Delete("/t", -1))
    reign.create("/t", TTL, 1_000)
    assert reign.due(999) == []
    assert reign.due(1_000) == ["/t"]
    assert reign.end("/t")
    assert reign.due(3_600_000) == []


def test_deleted_znodes_are_forgotten_before_they_were_due() -> None:
    reign = Reign()
    reign.create("/kept", TTL, 5_000)
    for number in range(3 * module.STALE_ENTRIES_MAX):
        reign.create(f"/{number}", TTL, 3_600_000)
        reign.do(Delete(f"/{number}", -1))
    mortals = reign.mortals
    for kept in (mortals._heap, mortals._heap_entries, mortals._due_times):
        assert len(kept) <= module.STALE_ENTRIES_MAX + 2
    assert reign.due(5_000) == ["/kept"]


def test_a_new_leader_counts_the_time_that_has_passed() -> None:
    reign = Reign()
    reign.create("/t", TTL, 5_000)
    reign.create("/full", TTL, 100)
    reign.create("/full/a")
    for path in ("/empty", "/unused", "/used"):
        reign.create(path, CONTAINER)
    reign.create("/used/a")
    reign.create("/empty/a")
    reign.do(Delete("/empty/a", -1))
    reign.leader.wall_ms = Millis(reign.leader.wall_ms + 3_000)
    reign.create("/later")
    reign.mortals = ContainerManager(reign.leader.state, Millis(70_000))
    assert reign.due(70_000) == ["/empty"]
    assert reign.due(71_999) == []
    assert reign.due(72_000) == ["/t"]


def test_a_new_leader_scans_many_znodes_in_portions() -> None:
    reign = Reign()
    count = module.SCANNED_PER_STEP + 5
    for number in range(count):
        reign.create(f"/{number:05}", TTL, 10)
    reign.leader.wall_ms = Millis(reign.leader.wall_ms + 60_000)
    reign.create("/later")
    reign.mortals = ContainerManager(reign.leader.state, Millis(0))
    # A value set before the znode is examined also begins its time again.
    reign.do(SetData(f"/{count - 1:05}", b"", -1))
    assert len(reign.due(5, 10_000)) == module.SCANNED_PER_STEP
    assert len(reign.due(5, 10_000)) == 4
    assert reign.due(10) == [f"/{count - 1:05}"]


def test_a_child_deleted_before_the_scan_of_its_parent_expires_nothing_early() -> None:
    reign = Reign()
    for number in range(module.SCANNED_PER_STEP):
        reign.create(f"/{number:05}", TTL, 10)
    reign.create("/last", TTL, 5_000)
    for name in "ab":
        reign.create(f"/last/{name}")
    reign.mortals = ContainerManager(reign.leader.state, Millis(0))
    for name in "ab":
        reign.do(Delete(f"/last/{name}", -1))
    reign.due(0)
    assert reign.due(4_999, 10_000)[-1] != "/last"
    assert reign.due(5_000) == ["/last"]


def test_a_set_of_a_container_expires_nothing() -> None:
    reign = Reign()
    reign.create("/c", CONTAINER)
    reign.do(SetData("/c", b"", -1))
    assert reign.due(9) == []
    reign.create("/c/a")
    reign.do(Delete("/c/a", -1))
    assert reign.due(9) == ["/c"]
    reign.do(SetData("/c", b"", -1))  # the write was under way when the container was due
    assert reign.due(9) == ["/c"]


def test_other_changes_do_not_restart_the_ttl() -> None:
    reign = Reign()
    reign.create("/t", TTL, 10)
    reign.do(SetAcls("/t", list(OPEN_ACL), -1))
    assert reign.due(9) == []
    assert reign.due(10) == ["/t"]


def test_the_log_tells_that_the_servers_deleted_it() -> None:
    reign = Reign()
    reign.create("/t", TTL, 10)
    reign.due(10)
    reign.end("/t")
    txn = decode_txn(reign.leader.log[-1][1])
    assert (txn.session_id, txn.number) == (SessionId(0), 0)
