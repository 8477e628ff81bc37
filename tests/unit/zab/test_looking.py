"""Looking and AwaitDisk: when they begin and end. An election's steps are data/looking*.txt."""

import pytest

from raykeeper.zab.ids import Epoch
from raykeeper.zab.looking import AwaitDisk, Looking
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import DiskIdle
from tests.unit.zab.histories import S2, T0, THREE, make_history, z


def test_a_vote_waits_for_the_disk() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    with pytest.raises(AssertionError):
        Looking(Settings(S2, THREE), history, {}, 1, [], T0)


def test_awaiting_an_idle_disk_ends_at_once() -> None:
    assert AwaitDisk(make_history([])).transition == DiskIdle()


def test_awaiting_the_disk_takes_until_log_and_promise_are_synced() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    history.promise(Epoch(2), S2)
    waiting = AwaitDisk(history)
    history.log_synced(z(1, 1))
    waiting.check()
    assert waiting.transition is None
    history.epochs_saved(Epoch(2), Epoch(0))
    waiting.check()
    assert waiting.transition == DiskIdle()
