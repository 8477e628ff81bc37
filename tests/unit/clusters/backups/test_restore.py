"""The first epoch of a restored ensemble, and how times are shown."""

import pytest

from raykeeper.clusters.backups.restore import (
    EPOCHS_SKIPPED,
    RestoreRefusedError,
    check_room,
    epoch_after,
    format_time,
)
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.membership import founding_members
from raykeeper.clusters.node_report import NodeReport
from raykeeper.clusters.placement import FolderFormat, LaunchPlan, Placement
from raykeeper.zab.ids import EPOCH_MAX, Epoch, Millis, ServerId

MINUTE = 60_000
YEAR = 365 * 24 * 60 * MINUTE


@pytest.mark.parametrize(
    ("known", "age_ms", "epoch"),
    [
        (0, 0, EPOCHS_SKIPPED),
        (7, 59_999, 7 + EPOCHS_SKIPPED),
        (7, MINUTE, 8 + EPOCHS_SKIPPED),
        (7, 24 * 60 * MINUTE, 7 + 1440 + EPOCHS_SKIPPED),
        # A clock that is behind that of the backup.
        (7, -YEAR, 7 + EPOCHS_SKIPPED),
        # A very old backup leaves half of the epochs.
        (7, 40 * YEAR, 7 + EPOCHS_SKIPPED + (EPOCH_MAX - 7) // 2),
    ],
)
def test_the_first_epoch(known: int, age_ms: int, epoch: int) -> None:
    assert epoch_after(Epoch(known), age_ms) == epoch


def test_an_old_backup_can_be_restored_again_and_again() -> None:
    epoch, times = 1, 0
    while epoch < EPOCH_MAX:
        epoch, times = epoch_after(Epoch(epoch), YEAR), times + 1
    assert times > 5
    assert EPOCH_MAX // EPOCHS_SKIPPED > 100


def test_times_are_shown_in_utc() -> None:
    assert format_time(Millis(1_795_647_326_146)) == "2026-11-25T22:55:26.146+00:00"


def node(name: str, free_bytes: int) -> NodeReport:
    return NodeReport(name, f"{name} (10.0.0.1)", {}, [], free_bytes=free_bytes)


def test_every_node_needs_room_for_all_its_servers() -> None:
    places = [Placement(ServerId(n), at, FolderFormat.FOUNDING) for n, at in enumerate("aab", 1)]
    plan = LaunchPlan(places, None, [], founding_members(EnsembleConfig()))
    size, log = 100 << 20, 4 << 20
    # A snapshot is staged beside the folder, and copied into it before the staged one is removed.
    enough = [node("a", 2 * (2 * size + log)), node("b", 2 * size + log), node("c", 0)]
    check_room("/data", enough, plan, size)
    for index in (0, 1):
        short = [*enough]
        short[index] = node(short[index].node_id, short[index].free_bytes - 1)
        with pytest.raises(RestoreRefusedError, match=rf"{'ab'[index]} \(10.0.0.1\) has .* /data"):
            check_room("/data", short, plan, size)
