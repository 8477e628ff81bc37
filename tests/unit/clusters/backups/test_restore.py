"""The first epoch of a restored ensemble, and how times are shown."""

import pytest

from raykeeper.clusters.backups.restore import EPOCHS_SKIPPED, epoch_after, format_time
from raykeeper.zab.ids import EPOCH_MAX, Epoch, Millis

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
