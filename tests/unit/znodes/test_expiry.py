"""Expiry: exact deadlines, one proposal each, lost reports, and a clock that stood still."""

import pytest

from raykeeper.zab.ids import Epoch, Millis, Zxid
from raykeeper.znodes.expiry import ExpiryProposal, SessionExpiry, SessionReport, TouchedSession
from raykeeper.znodes.requests import SessionId

EPOCH = Epoch(3)


def touched(session_id: int, timeout_ms: int = 100, owner: int = 50) -> TouchedSession:
    return TouchedSession(SessionId(session_id), Zxid(owner), Millis(timeout_ms))


def report(
    batch: int,
    *sessions: TouchedSession,
    ended: tuple[int, ...] = (),
    full: bool = False,
    epoch: Epoch = EPOCH,
) -> SessionReport:
    return SessionReport(epoch, batch, full, list(sessions), [SessionId(id_) for id_ in ended])


def proposal(session_id: int, batch: int, owner: int = 50) -> ExpiryProposal:
    return ExpiryProposal(EPOCH, SessionId(session_id), Zxid(owner), batch)


Step = tuple[int, SessionReport | list[ExpiryProposal] | str | None]
FULL = report(1, touched(1), touched(2, 200), full=True)


def play(*steps: Step) -> SessionExpiry:
    """A report is given, a list is the proposals expected, None: no deadline; "d<ms>": that one."""
    expiry = SessionExpiry(clock_gap_ms=1_000)
    for at, step in steps:
        now = Millis(at)
        if isinstance(step, SessionReport):
            expiry.report(step, now)
        elif isinstance(step, list):
            assert expiry.proposals(now) == step, (at, step)
        else:
            assert expiry.deadline() == (None if step is None else Millis(int(step[1:]))), at
    return expiry


@pytest.mark.parametrize(
    "steps",
    [
        # Nothing known, nothing due.
        [(0, None), (0, [])],
        # Overdue at the deadline, not a millisecond before, and once.
        [(0, FULL), (0, "d100"), (99, []), (100, [proposal(1, 1)]), (100, []), (150, "d200"),
         (200, [proposal(2, 1)]), (300, []), (300, None)],
        # A late call tells all of them, the longest overdue first, then by number.
        [(0, report(1, touched(3), touched(2), touched(1, 90), full=True)),
         (500, [proposal(1, 1), proposal(2, 1), proposal(3, 1)])],
        # A touch begins the timeout anew and names its batch.
        [(0, FULL), (60, report(2, touched(1))), (60, "d160"), (159, []), (160, [proposal(1, 2)])],
        [(0, FULL), (60, report(2, touched(1))), (100, "d160"), (120, report(3, touched(1))),
         (200, [proposal(2, 1)]), (220, [proposal(1, 3)])],
        # After its proposal a session that is touched counts again.
        [(0, FULL), (100, [proposal(1, 1)]), (120, report(2, touched(1))), (120, "d200"),
         (220, [proposal(2, 1), proposal(1, 2)])],
        # Moved: another owner, and another timeout, shorter or longer.
        [(0, FULL), (10, report(2, touched(2, 20, 51))), (10, "d30"), (30, [proposal(2, 2, 51)]),
         (100, [proposal(1, 1)]), (500, [])],
        [(0, FULL), (10, report(2, touched(1, 300, 51))), (10, "d200"), (200, [proposal(2, 1)]),
         (309, []), (310, [proposal(1, 2, 51)])],
        # Ended.
        [(0, FULL), (10, report(2, ended=(1, 9))), (100, "d200"), (150, []),
         (200, [proposal(2, 1)])],
        [(0, FULL), (10, report(2, touched(1), ended=(1,))), (200, [proposal(2, 1)])],
        [(0, FULL), (10, report(2, ended=(1,))), (20, report(3, touched(1, 90))),
         (110, [proposal(1, 3)]), (300, [proposal(2, 1)])],
        # A full report replaces what was known and gives each its whole timeout.
        [(0, FULL), (50, report(2, touched(2, 60), full=True)), (109, []), (110, [proposal(2, 2)]),
         (500, [])],
        # Repeated, or of an older epoch: ignored, a full one too.
        [(0, FULL), (50, FULL), (100, [proposal(1, 1)])],
        [(0, FULL), (50, report(2, touched(1))), (60, report(2, touched(1))),
         (150, [proposal(1, 2)])],
        [(0, FULL), (50, report(9, touched(1), full=True, epoch=Epoch(2))),
         (100, [proposal(1, 1)])],
    ],
)  # fmt: skip
def test_sessions_expire_at_their_exact_deadlines(steps: list[Step]) -> None:
    assert not play(*steps).needs_full_report


@pytest.mark.parametrize(
    "steps",
    [
        # The first report was lost, of this epoch or of all.
        [(0, report(1, touched(1)))],
        [(0, report(5, touched(1)))],
        [(0, FULL), (0, report(1, touched(7), epoch=Epoch(4)))],
        # One in between was lost, or overtaken: it is too late then.
        [(0, FULL), (0, report(3, touched(1)))],
        [(0, FULL), (0, report(3, touched(1))), (0, report(2, touched(2)))],
    ],
)  # fmt: skip
def test_a_lost_report_stops_the_proposals_until_a_full_one(steps: list[Step]) -> None:
    expiry = play(*steps)
    assert expiry.needs_full_report
    assert expiry.deadline() is None
    assert expiry.proposals(Millis(900)) == []
    epoch = expiry._epoch
    expiry.report(report(6, touched(1), full=True, epoch=epoch), Millis(950))
    assert not expiry.needs_full_report
    assert expiry.deadline() == 1_050
    assert expiry.proposals(Millis(1_050)) == [ExpiryProposal(epoch, SessionId(1), Zxid(50), 6)]
    assert expiry.proposals(Millis(2_000)) == []


def test_a_new_epoch_forgets_the_old_one() -> None:
    expiry = play((0, FULL))
    expiry.report(report(1, touched(2, 300), full=True, epoch=Epoch(4)), Millis(10))
    assert expiry.proposals(Millis(310)) == [ExpiryProposal(Epoch(4), SessionId(2), Zxid(50), 1)]


def test_a_gap_in_the_clock_extends_every_deadline() -> None:
    """Held up for longer than allowed: touches may wait that are older than the gap."""
    expiry = play((0, FULL), (50, []))
    assert expiry.proposals(Millis(5_050)) == []
    assert expiry.deadline() == 5_100
    assert expiry.proposals(Millis(5_100)) == [proposal(1, 1)]
    # What is touched after the gap is not extended by it.
    expiry.report(report(2, touched(2, 40)), Millis(5_110))
    assert expiry.deadline() == 5_150
    # A call at the bound is in time.
    expiry.report(report(3, touched(2, 1_000)), Millis(5_120))
    assert expiry.proposals(Millis(6_120)) == [proposal(2, 3)]


def test_a_gap_before_a_report_counts_too() -> None:
    expiry = play((0, FULL))
    expiry.report(report(2, touched(2, 60)), Millis(3_000))
    assert expiry.deadline() == 3_060
    assert expiry.proposals(Millis(3_100)) == [proposal(2, 2), proposal(1, 1)]


def test_many_touches_leave_the_heap_small() -> None:
    expiry = play((0, FULL))
    for batch in range(2, 1_000):
        expiry.report(report(batch, touched(1), touched(2)), Millis(batch))
        assert expiry.proposals(Millis(batch)) == []
    assert len(expiry._heap) == 2
