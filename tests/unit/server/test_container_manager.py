"""ContainerManager: which containers and TTL znodes are due, and when they stay after all."""

import pytest

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


class Host:
    """A leader that reports every applied change to its container manager."""

    def __init__(self, grace_ms: int = 0) -> None:
        self.leader = OneLeader()
        self.session = self.leader.open()
        self.now = Millis(0)
        self.grace_ms = Millis(grace_ms)
        self.lead(0)

    def lead(self, at: int) -> None:
        """Begin with another leader."""
        self.now = Millis(at)
        self.containers = ContainerManager(self.leader.state, self.now, self.grace_ms)

    def create(self, path: str, mode: int = 0, ttl_ms: int = 0) -> None:
        self.do(Create(path, b"", mode, None, ttl_ms))

    def do(self, op: WriteOp) -> None:
        self.containers.on_txn(self.leader.do(self.session, op), self.now)

    def due(self, at: int, most: int = 100) -> list[str]:
        self.now = Millis(at)
        return [path for path, _ in self.containers.pop_due(self.now, most)]

    def end(self, path: str) -> bool:
        """Try to delete; return whether the znode was deleted."""
        znode = self.leader.state.tree.znodes.get(path)
        assert znode is not None
        leader = self.leader
        data = leader.preparation.prepare_delete_expired(
            zxid_at(len(leader.log) + 1), leader.wall_ms, path, znode
        )
        if data is None:
            return False
        change = leader._add(data).body
        assert change == DeleteTxn(path)
        leader.apply()
        self.containers.on_txn(change, self.now)
        return True


def test_a_container_is_deleted_after_its_last_child() -> None:
    host = Host()
    host.create("/c", CONTAINER)
    assert host.due(10_000) == []  # it never had a child
    host.create("/c/a")
    host.create("/c/b")
    host.do(Delete("/c/a", -1))
    assert host.due(20_000) == []
    host.do(Delete("/c/b", -1))
    assert host.due(20_000) == ["/c"]
    assert host.end("/c")
    assert host.due(90_000) == []
    assert "/c" not in host.leader.state.tree.expiring_paths


def test_a_container_is_not_due_for_an_earlier_container_at_its_path() -> None:
    host = Host()
    host.create("/c", CONTAINER)
    host.create("/c/a")
    host.do(Delete("/c/a", -1))
    # The server reports no change while there is no container, nor znode with a TTL.
    host.leader.do(host.session, Delete("/c", -1))
    host.create("/c", CONTAINER)
    assert host.due(10_000) == []
    host.create("/c/a")
    host.do(Delete("/c/a", -1))
    assert host.due(10_000) == ["/c"]


def test_children_deleted_by_a_session_or_a_transaction_count() -> None:
    host = Host()
    host.create("/c", CONTAINER)
    host.do(Multi([], [Create("/c/a", b"", 0), Create("/c/b", b"", 0)], []))
    host.do(Multi([], [Delete("/c/a", -1), Delete("/c/b", -1)], []))
    assert host.due(0) == ["/c"]
    host.create("/c/e", CreateMode.EPHEMERAL)
    host.do(CloseSession())
    assert host.due(0) == ["/c"]


@pytest.mark.parametrize("mode", [CONTAINER, TTL])
def test_an_emptied_znode_stays_for_the_grace(mode: int) -> None:
    """A znode with a TTL for no longer than that."""
    ttl_ms = 300 if mode == TTL else 0
    grace_ms = min(ttl_ms or 1_000, 1_000)
    host = Host(1_000)
    host.create("/c", mode, ttl_ms)
    host.create("/c/a")
    host.now = Millis(5_000)
    host.do(Delete("/c/a", -1))
    assert host.due(5_000 + grace_ms - 1) == []
    # A child that came and went again begins the grace again, and a set changes nothing.
    host.create("/c/a")
    host.do(Delete("/c/a", -1))
    emptied = host.now
    host.now = Millis(emptied + 1)
    host.do(SetData("/c", b"", -1))
    late = 1 if mode == TTL else 0  # by the new value
    assert host.due(emptied + grace_ms + late - 1) == []
    assert host.due(emptied + grace_ms + late) == ["/c"]
    assert host.end("/c")


def test_a_grace_is_of_one_life_of_a_znode() -> None:
    host = Host(1_000)
    host.create("/t", CONTAINER)
    host.create("/t/a")
    host.do(Delete("/t/a", -1))
    # The server reports no change while there is no znode that can expire.
    host.leader.do(host.session, Delete("/t", -1))
    host.create("/t", TTL, 10)
    assert host.due(10) == ["/t"]


def test_a_new_leader_counts_the_grace_from_its_beginning() -> None:
    host = Host(1_000)
    host.create("/c", CONTAINER)
    host.create("/t", TTL, 300)
    for parent in ("/c", "/t"):
        host.create(f"{parent}/a")
        host.do(Delete(f"{parent}/a", -1))
    host.create("/unused", CONTAINER)
    host.leader.wall_ms = Millis(host.leader.wall_ms + 90_000)
    host.create("/later")
    host.lead(7_000)
    assert host.due(7_299) == []
    assert host.due(7_300) == ["/t"]
    assert host.due(7_999) == []
    assert host.due(8_000) == ["/c"]


def test_a_ttl_znode_is_due_to_the_millisecond() -> None:
    host = Host()
    host.now = Millis(100)
    host.create("/t", TTL, 5_000)
    assert host.due(5_099) == []
    assert host.due(5_100) == ["/t"]
    assert host.end("/t")


def test_a_set_restarts_the_ttl() -> None:
    host = Host()
    host.create("/t", TTL, 5_000)
    host.now = Millis(4_000)
    host.do(SetData("/t", b"", -1))
    assert host.due(8_999) == []
    assert host.due(9_000) == ["/t"]


def test_a_ttl_znode_with_children_stays_until_they_are_deleted() -> None:
    host = Host()
    host.create("/t", TTL, 5_000)
    host.create("/t/a")
    assert host.due(6_000) == []
    host.do(Delete("/t/a", -1))
    assert host.due(6_000) == ["/t"]


def test_an_outstanding_change_keeps_the_znode() -> None:
    """A bug of ZooKeeper: a refresh between the check and the deletion is lost with the znode."""
    for keeps in (SetData("/t", b"", -1), Create("/t/a", b"", 0), Delete("/t", -1)):
        host = Host()
        host.create("/t", TTL, 5_000)
        assert host.due(5_000) == ["/t"]
        change = host.leader.prepare(host.session, keeps)
        assert not host.end("/t")
        host.leader.apply()
        host.containers.on_txn(change, host.now)
        assert host.due(9_999) == []


def test_a_deletion_that_was_not_proposed_is_due_again() -> None:
    host = Host()
    host.create("/t", TTL, 5_000)
    assert host.due(5_000) == ["/t"]
    host.containers.retry("/t", Millis(5_000))
    assert host.due(5_000) == ["/t"]


def test_at_most_the_given_number_is_due_at_once() -> None:
    host = Host()
    for name in "abc":
        host.create(f"/{name}", TTL, 10)
    assert host.due(50, 2) == ["/a", "/b"]
    assert host.due(50, 2) == ["/c"]


def test_at_most_a_bounded_number_is_checked_per_step() -> None:
    host = Host()
    for number in range(module.CHECKED_PER_STEP + 1):
        host.create(f"/{number}", TTL, 10)
    host.now = Millis(5)
    for number in range(module.CHECKED_PER_STEP + 1):
        host.do(SetData(f"/{number}", b"", -1))
    assert host.due(10) == []
    assert host.containers.is_behind(host.now)
    assert host.due(10) == []
    assert not host.containers.is_behind(host.now)
    assert len(host.due(15, 10_000)) == module.CHECKED_PER_STEP


def test_a_recreated_znode_is_another_znode() -> None:
    host = Host()
    host.create("/t", TTL, 5_000)
    host.do(Delete("/t", -1))
    host.create("/t")
    assert host.due(9_000) == []
    host.do(Delete("/t", -1))
    host.create("/t", TTL, 5_000)
    assert host.due(13_999) == []
    assert host.due(14_000) == ["/t"]


def test_a_recreated_znode_may_have_a_shorter_ttl() -> None:
    host = Host()
    host.create("/t", TTL, 3_600_000)
    host.do(Delete("/t", -1))
    host.create("/t", TTL, 1_000)
    assert host.due(999) == []
    assert host.due(1_000) == ["/t"]
    assert host.end("/t")
    assert host.due(3_600_000) == []


def test_deleted_znodes_are_forgotten_before_they_were_due() -> None:
    host = Host()
    host.create("/kept", TTL, 5_000)
    for number in range(3 * module.STALE_ENTRIES_MAX):
        host.create(f"/{number}", TTL, 3_600_000)
        host.do(Delete(f"/{number}", -1))
    containers = host.containers
    for kept in (containers._heap, containers._heap_entries, containers._ttl_ends):
        assert len(kept) <= module.STALE_ENTRIES_MAX + 2
    assert host.due(5_000) == ["/kept"]


def test_what_was_refreshed_is_due_though_the_heap_was_rebuilt() -> None:
    """Its entry is earlier than it is due then."""
    host = Host()
    host.create("/t", TTL, 5_000)
    host.now = Millis(1_000)
    host.do(SetData("/t", b"", -1))
    for number in range(module.STALE_ENTRIES_MAX + 4):
        host.create(f"/{number}", TTL, 3_600_000)
        host.do(Delete(f"/{number}", -1))
    assert len(host.containers._heap) < module.STALE_ENTRIES_MAX, "it was rebuilt"
    assert host.due(5_999) == []
    assert host.due(6_000) == ["/t"]


def test_a_new_leader_counts_the_time_that_has_passed() -> None:
    host = Host()
    host.create("/t", TTL, 5_000)
    host.create("/full", TTL, 100)
    host.create("/full/a")
    for path in ("/empty", "/unused", "/used"):
        host.create(path, CONTAINER)
    host.create("/used/a")
    host.create("/empty/a")
    host.do(Delete("/empty/a", -1))
    host.leader.wall_ms = Millis(host.leader.wall_ms + 3_000)
    host.create("/later")
    host.lead(70_000)
    assert host.due(70_000) == ["/empty"]
    assert host.due(71_999) == []
    assert host.due(72_000) == ["/t"]


def test_a_new_leader_scans_many_znodes_in_portions() -> None:
    host = Host()
    count = module.SCANNED_PER_STEP + 5
    for number in range(count):
        host.create(f"/{number:05}", TTL, 10)
    host.leader.wall_ms = Millis(host.leader.wall_ms + 60_000)
    host.create("/later")
    host.lead(0)
    # A value set before the znode is examined also begins its time again.
    host.do(SetData(f"/{count - 1:05}", b"", -1))
    assert len(host.due(5, 10_000)) == module.SCANNED_PER_STEP
    assert len(host.due(5, 10_000)) == 4
    assert host.due(10) == [f"/{count - 1:05}"]


def test_a_znode_deleted_before_the_scan_is_not_due() -> None:
    host = Host()
    for path in ("/gone", "/kept"):
        host.create(path, TTL, 10)
    host.lead(0)
    host.do(Delete("/gone", -1))
    assert host.due(100) == ["/kept"]


def test_a_child_deleted_before_the_scan_of_its_parent_expires_nothing_early() -> None:
    host = Host()
    for number in range(module.SCANNED_PER_STEP):
        host.create(f"/{number:05}", TTL, 10)
    host.create("/last", TTL, 5_000)
    for name in "ab":
        host.create(f"/last/{name}")
    host.lead(0)
    for name in "ab":
        host.do(Delete(f"/last/{name}", -1))
    host.due(0)
    assert host.due(4_999, 10_000)[-1] != "/last"
    assert host.due(5_000) == ["/last"]


def test_a_set_of_a_container_expires_nothing() -> None:
    host = Host()
    host.create("/c", CONTAINER)
    host.do(SetData("/c", b"", -1))
    assert host.due(9) == []
    host.create("/c/a")
    host.do(Delete("/c/a", -1))
    assert host.due(9) == ["/c"]
    host.do(SetData("/c", b"", -1))  # the write was under way when the container was due
    assert host.due(9) == ["/c"]


def test_other_changes_do_not_restart_the_ttl() -> None:
    host = Host()
    host.create("/t", TTL, 10)
    host.do(SetAcls("/t", list(OPEN_ACL), -1))
    assert host.due(9) == []
    assert host.due(10) == ["/t"]


def test_the_log_tells_that_the_servers_deleted_it() -> None:
    host = Host()
    host.create("/t", TTL, 10)
    host.due(10)
    host.end("/t")
    txn = decode_txn(host.leader.log[-1][1])
    assert (txn.session_id, txn.number) == (SessionId(0), 0)
