"""WriteStages: the stage in which a write waited longest, as a table of what happened when."""

import pytest

from raykeeper.server.write_stages import WriteStages
from raykeeper.zab.ids import Millis, Zxid

LOGGED, SYNCED, DELIVERED, ROLE = "on_logged", "on_synced", "on_delivered", "on_role_changed"
Step = tuple[str, int, int]  # what, the zxid, when


def after(*steps: Step) -> WriteStages:
    stages = WriteStages()
    for what, zxid, at in steps:
        if what == ROLE:
            stages.on_role_changed(Millis(at))
        elif what == DELIVERED:
            stages.on_delivered(Zxid(zxid))
        else:
            getattr(stages, what)(Zxid(zxid), Millis(at))
    return stages


@pytest.mark.parametrize(
    ("steps", "zxid", "stage"),
    [
        # The request arrives at 100 and is answered at 1 000.
        ([(LOGGED, 5, 900), (SYNCED, 5, 950)], 5, "queue"),
        ([(LOGGED, 5, 200), (SYNCED, 5, 900)], 5, "force"),
        ([(LOGGED, 5, 200), (SYNCED, 5, 300)], 5, "quorum"),
        # A quorum was reached without this server's disk.
        ([(LOGGED, 5, 200)], 5, "quorum"),
        # It was logged before it arrived: the client has sent it again, here.
        ([(LOGGED, 5, 50), (SYNCED, 5, 60)], 5, "quorum"),
        ([], 5, "queue"),
        # One force covers several runs, and a part of the last one covers none of it.
        ([(LOGGED, 5, 150), (LOGGED, 8, 200), (SYNCED, 8, 900)], 5, "force"),
        ([(LOGGED, 5, 150), (LOGGED, 8, 200), (SYNCED, 7, 900)], 8, "quorum"),
        ([(LOGGED, 5, 150), (SYNCED, 5, 160), (LOGGED, 8, 200), (SYNCED, 8, 900)], 8, "force"),
        # A write within a run, and one behind a run that was delivered.
        ([(LOGGED, 5, 150), (LOGGED, 8, 900), (DELIVERED, 5, 950)], 6, "queue"),
        ([(LOGGED, 5, 150), (LOGGED, 8, 900), (DELIVERED, 4, 950)], 5, "quorum"),
        # Only a change of role after the arrival counts.
        ([(ROLE, 0, 50), (LOGGED, 5, 900)], 5, "queue"),
        ([(LOGGED, 5, 200), (ROLE, 0, 300)], 5, "election"),
        # What waits for a quorum alone.
        ([], None, "quorum"),
        ([(ROLE, 0, 300)], None, "election"),
    ],
)
def test_names_the_stage_that_took_longest(steps: list[Step], zxid: int | None, stage: str) -> None:
    stages = after(*steps)
    written = None if zxid is None else Zxid(zxid)
    assert stages.longest(written, Millis(100), Millis(1_000)) == stage


def test_what_was_delivered_or_belongs_to_an_ended_role_is_forgotten() -> None:
    stages = after(*((LOGGED, zxid, zxid) for zxid in range(100)), (DELIVERED, 97, 0))
    assert len(stages._runs) == 2
    stages.on_role_changed(Millis(0))
    assert not stages._runs
