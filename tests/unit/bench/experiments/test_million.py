"""Snapshots as seen from their files, and writes told apart by them."""

from pathlib import Path

from raykeeper.bench.experiments.million import SnapshotTimes, set_times, snapshot_sizes
from raykeeper.bench.loads.task import LoadReport


def test_a_snapshot_begins_with_its_file_and_ends_with_its_last_growth() -> None:
    times = SnapshotTimes()
    for moment, size in ((1.0, None), (2.0, 0), (3.0, 500_000), (4.0, 2_000_000), (5.0, 2_000_000)):
        times.observe(moment, {} if size is None else {"snapshot.2": size})
    assert times.spans == [(2.0, 4.0)]
    assert times.columns() == {"snapshots": 1, "snapshot_s": 2.0, "snapshot_mb": 2.0}


def test_an_earlier_snapshot_is_not_counted() -> None:
    times = SnapshotTimes({"snapshot.1": 10})
    times.observe(1.0, {"snapshot.1": 10})
    times.observe(2.0, {"snapshot.1": 20})  # it was under way
    assert times.spans == []
    assert times.columns() == {"snapshots": 0}


def test_the_columns_are_those_of_the_last_snapshot() -> None:
    times = SnapshotTimes()
    times.observe(1.0, {})
    times.observe(2.0, {"snapshot.1": 1_000_000})
    times.observe(5.0, {"snapshot.2": 1})  # the first one was pruned
    times.observe(6.0, {"snapshot.2": 3_000_000})
    assert times.spans == [(2.0, 2.0), (5.0, 6.0)]
    assert times.columns() == {"snapshots": 2, "snapshot_s": 1.0, "snapshot_mb": 3.0}


def test_a_snapshot_with_its_temporary_name_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "generation-1").mkdir()
    (tmp_path / "generation-1/snapshot.1").write_bytes(b"abc")
    (tmp_path / "snapshot.2.tmp").write_bytes(b"ab")
    (tmp_path / "log.1").write_bytes(b"a")
    assert snapshot_sizes(tmp_path) == {"snapshot.1": 3, "snapshot.2": 2}


def test_single_sets_are_grouped_by_the_snapshots() -> None:
    timings = [(float(i), 1000.0 * i) for i in range(1, 5)]
    reports = [
        LoadReport(seconds=5.0, cpu_s=1.0, timings={"set": timings}),
        LoadReport(seconds=5.0, cpu_s=1.0, done=100),
    ]
    assert set_times(reports, [(3.0, 4.0)]) == {
        "set_p50_without_ms": 1.0,
        "set_p99.9_without_ms": 2.0,
        "set_p50_during_ms": 3.0,
        "set_p99.9_during_ms": 4.0,
    }
    assert "set_p50_during_ms" not in set_times(reports, [])
