"""Draining: nothing but the disk ends it (rule Z2)."""

from raykeeper.zab.await_disk import AwaitDisk
from raykeeper.zab.ids import Epoch
from raykeeper.zab.transitions import DiskIdle
from tests.unit.zab.histories import S2, make_history, z


def test_ends_at_once_when_nothing_is_under_way() -> None:
    assert AwaitDisk(make_history([])).outcome == DiskIdle()


def test_waits_for_the_log_and_the_promise() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    history.promise(Epoch(2), S2)
    draining = AwaitDisk(history)
    history.log_synced(z(1, 1))
    draining.check()
    assert draining.outcome is None
    history.epochs_saved(Epoch(2), Epoch(0))
    draining.check()
    assert draining.outcome == DiskIdle()
