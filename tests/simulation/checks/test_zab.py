"""Checks of Zab and of disks: a kept property passes, and each broken one raises its name."""

from collections.abc import Callable

import pytest
from msgspec import Struct

from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, ServerId, Zxid, make_zxid
from tests.harness.sim_disk import StoredSnapshot
from tests.simulation.checks.durability import acked_writes_survive, logs_agree
from tests.simulation.checks.zab import (
    Entry,
    Promises,
    Zab,
    cursors_go_on,
    differences_are_found,
    memory_follows_the_disk,
)

ONE, TWO, THREE = ServerId(1), ServerId(2), ServerId(3)
LEADER, NEXT = (ONE, 1), (TWO, 1)


def z(epoch: int, counter: int) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


A, B, C = (z(1, 1), b"a"), (z(1, 2), b"b"), (z(1, 3), b"c")
D, E = (z(2, 1), b"d"), (z(2, 2), b"e")


def story(*delivered: Entry) -> Zab:
    """Return a leader of epoch 1 that has broadcast a, b, c, and a server that delivered some."""
    zab = Zab()
    zab.leadership(Epoch(1), LEADER, Zxid(0))
    zab.broadcast(LEADER, A[0], [b"a", b"b"])
    zab.broadcast(LEADER, C[0], [b"c"])
    zab.deliver(ONE, list(delivered))
    return zab


def reign(zab: Zab, delivered: Zxid) -> Zab:
    """Add the next leader, which has broadcast d and e."""
    zab.leadership(Epoch(2), NEXT, delivered)
    zab.broadcast(NEXT, D[0], [b"d", b"e"])
    return zab


def test_kept_properties_pass() -> None:
    zab = story(A, B)
    assert zab.deliver(TWO, [A]) == []
    assert zab.deliver(TWO, [B, C]) == [C]
    assert zab.deliver(THREE, [C]) == []  # it began with a snapshot
    reign(zab, C[0])
    zab.broadcast((ONE, 2), D[0], [b"d"])  # a follower logs it
    assert zab.deliver(TWO, [D, E]) == [D, E]
    zab.no_gap(ONE, B[0], C[0])
    zab.known(ONE, E[0])
    zab.digests_are_equal(ONE, B[0], 7)
    zab.digests_are_equal(TWO, B[0], 7)
    assert zab.order == [A[0], B[0], C[0], D[0], E[0]]
    assert zab.between(A[0], C[0]) == [B, C]


BROKEN: list[tuple[str, Callable[[], object]]] = [
    ("Leadership", lambda: story().leadership(Epoch(1), NEXT, Zxid(0))),
    ("Leadership", lambda: story().leadership(Epoch(1), (ONE, 2), Zxid(0))),
    ("Leadership", lambda: story().synchronizes(Epoch(1), NEXT)),
    ("Leadership", lambda: story().broadcast(NEXT, z(1, 4), [b"x"])),
    ("Leadership", lambda: story().broadcast(LEADER, z(2, 1), [b"x"])),
    ("LocalPrimaryOrder", lambda: story().broadcast(LEADER, z(1, 5), [b"x"])),
    ("LocalPrimaryOrder", lambda: story(A).deliver(TWO, [A, C])),
    ("Integrity", lambda: story().deliver(ONE, [(A[0], b"x")])),
    ("Integrity", lambda: story(A).deliver(TWO, [A, B, C, (z(1, 4), b"x")])),
    ("Integrity", lambda: story(A).known(ONE, B[0])),
    ("Agreement", lambda: story(A).deliver(TWO, [(A[0], b"x")])),
    ("TotalOrder", lambda: story(A, B, C).deliver(TWO, [A, C])),
    ("PrefixConsistency", lambda: story(A, B, C).no_gap(TWO, A[0], C[0])),
    ("GlobalPrimaryOrder", lambda: reign(story(A), A[0]).deliver(TWO, [A, D, B])),
    ("PrimaryIntegrity", lambda: reign(story(A, B), A[0])),
    ("PrimaryIntegrity", lambda: reign(story(A), A[0]).deliver(TWO, [B])),
    ("Digests", lambda: _digests(story(A))),
    ("Digests", lambda: differences_are_found(ONE, True)),
    ("Cursors", lambda: cursors_go_on(ONE, B[0], A[0], [A])),
    ("Cursors", lambda: cursors_go_on(ONE, A[0], B[0], [])),
    ("Cursors", lambda: cursors_go_on(ONE, A[0], C[0], [B])),
    ("EpochsGrow", lambda: _epochs((2, 1), (1, 1))),
    ("EpochsGrow", lambda: _epochs((2, 2), (2, 1))),
    ("EpochsGrow", lambda: _epochs((1, 2))),
    ("EpochsSaved", lambda: memory_follows_the_disk((Epoch(2), Epoch(1)), (Epoch(1), Epoch(1)))),
]


@pytest.mark.parametrize(("name", "breaks"), BROKEN)
def test_a_broken_property_is_named(name: str, breaks: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=f"^{name}: "):
        breaks()


def _digests(zab: Zab) -> None:
    zab.digests_are_equal(ONE, A[0], 7)
    zab.digests_are_equal(TWO, A[0], 8)


def _epochs(*epochs: tuple[int, int]) -> None:
    promises = Promises()
    for accepted, current in epochs:
        promises.epochs_only_grow(ONE, FOUNDING_DISK, Epoch(accepted), Epoch(current))


def test_a_replaced_disk_makes_new_promises() -> None:
    promises = Promises()
    promises.epochs_only_grow(ONE, FOUNDING_DISK, Epoch(5), Epoch(5))
    promises.epochs_only_grow(ONE, DiskId("new"), Epoch(1), Epoch(0))
    with pytest.raises(AssertionError, match=r"^EpochsGrow: "):
        promises.epochs_only_grow(ONE, FOUNDING_DISK, Epoch(4), Epoch(4))


class Disk(Struct):
    """The content of a disk."""

    log: list[Entry]
    snapshots: list[StoredSnapshot] = []
    is_lost: bool = False
    has_forgotten: bool = False


HAS, OTHER, LACKS = Disk([A, B]), Disk([A, (B[0], b"x")]), Disk([A])
LOST, FORGOT = Disk([], is_lost=True), Disk([A], has_forgotten=True)
SNAPSHOT, OLDER = (
    Disk([], [StoredSnapshot(B[0], B[0], [])]),
    Disk([], [StoredSnapshot(A[0], B[0], [])]),
)


@pytest.mark.parametrize(
    ("disks", "survives"),
    [
        ([HAS, HAS, LACKS], True),
        ([HAS, SNAPSHOT, LACKS], True),
        ([HAS, LOST, LACKS], True),
        ([HAS, FORGOT, LACKS], True),
        ([HAS, LACKS, LACKS], False),
        ([HAS, OTHER, LACKS], False),
        ([HAS, OLDER, LACKS], False),
        ([LACKS, LOST, LACKS], False),
    ],
)
def test_delivered_transactions_are_on_a_quorum_of_disks(disks: list[Disk], survives: bool) -> None:
    if survives:
        acked_writes_survive(disks, 2, *B)
        return
    with pytest.raises(AssertionError, match=r"^Durability: 1:2 is on 1 disks, 2 is a quorum"):
        acked_writes_survive(disks, 2, *B)


def test_a_log_holds_the_committed_transactions() -> None:
    committed = dict([A, B])
    logs_agree(HAS, committed, B[0])
    logs_agree(OTHER, committed, A[0])  # a log may still be truncated where it was not delivered
    with pytest.raises(AssertionError, match=r"^PrefixConsistency: 1:2"):
        logs_agree(OTHER, committed, B[0])
