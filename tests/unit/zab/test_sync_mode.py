"""The decision table of synchronization, row by row."""

import pytest

from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import ZERO, Zxid
from raykeeper.zab.recent_log import RecentLog
from raykeeper.zab.sync_mode import SyncMode, choose_sync_mode, read_after, usable_runs
from tests.unit.zab.histories import run, z

BCD = run(z(1, 2), b"b", b"c", b"d")


def leader_window() -> RecentLog:
    window = RecentLog(z(1, 1))
    window.extend(z(1, 2), [b"b", b"c"])
    window.extend(z(3, 1), [b"x", b"y"])
    return window


@pytest.mark.parametrize(
    ("last_zxid", "way"),
    [
        # All of it, or more than the leader has.
        (z(3, 2), SyncMode.DIFF),
        (z(3, 3), SyncMode.TRUNC),
        (z(4, 1), SyncMode.TRUNC),
        # A position of the window, its base included.
        (z(3, 1), SyncMode.DIFF),
        (z(1, 2), SyncMode.DIFF),
        (z(1, 1), SyncMode.DIFF),
        # Between positions: the cut would cross an epoch (ZOOKEEPER-1154).
        (z(1, 4), SyncMode.SNAPSHOT),
        (z(2, 7), SyncMode.SNAPSHOT),
        # Before the window.
        (ZERO, SyncMode.READ_LOG),
    ],
)
def test_way(last_zxid: Zxid, way: SyncMode) -> None:
    assert choose_sync_mode(last_zxid, leader_window()) is way


@pytest.mark.parametrize(
    ("last_zxid", "after"), [(ZERO, ZERO), (z(1, 1), z(1, 0)), (z(1, 7), z(1, 6))]
)
def test_reads_one_before_to_see_whether_the_log_holds_it(last_zxid: Zxid, after: Zxid) -> None:
    assert read_after(last_zxid) == after


@pytest.mark.parametrize(
    ("last_zxid", "base", "runs", "usable"),
    [
        # The learner's last is the first that was read, and is left out.
        (z(1, 2), z(1, 4), [BCD], [run(z(1, 3), b"c", b"d")]),
        (z(1, 2), z(3, 1), [run(z(1, 2), b"b"), run(z(3, 1), b"x")], [run(z(3, 1), b"x")]),
        # An empty learner takes everything.
        (ZERO, z(1, 1), [run(z(1, 1), b"a")], [run(z(1, 1), b"a")]),
        # The log does not reach back, or does not hold the learner's last.
        (z(1, 2), z(1, 4), [], None),
        (z(1, 2), z(3, 1), [run(z(3, 1), b"x")], None),
        # Read for a window that began earlier: a hole would follow.
        (z(1, 2), z(1, 7), [BCD], None),
        (ZERO, z(1, 7), [run(z(1, 1), b"a")], None),
    ],
)
def test_usable_runs(
    last_zxid: Zxid, base: Zxid, runs: list[LogRun], usable: list[LogRun] | None
) -> None:
    assert usable_runs(last_zxid, base, runs) == usable
