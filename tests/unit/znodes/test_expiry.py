"""Expiry: exact deadlines, one proposal each, lost and late reports, a clock that stood still."""

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


Step = tuple[int, SessionReport, list[ExpiryProposal] | None]
FULL = report(1, touched(1), touched(2, 200), full=True)


def play(*steps: Step) -> SessionExpiry:
    """Track the report of each step at its time; the answer must be that of the step."""
    expiry = SessionExpiry(clock_gap_ms=1_000)
    for at, step, answer in steps:
        assert expiry.track(step, Millis(at)) == answer, (at, step)
    return expiry


@pytest.mark.parametrize(
    "steps",
    [
        # Nothing known, nothing due.
        [(0, report(1, full=True), []), (9_000, report(2), [])],
        # Overdue at the deadline, not a millisecond before, and once.
        [(0, FULL, []), (99, report(2), []), (100, report(3), [proposal(1, 1)]),
         (100, report(4), []), (199, report(5), []), (200, report(6), [proposal(2, 1)]),
         (300, report(7), [])],
        # Also by the report that touches it, if its timeout is nothing.
        [(0, report(1, touched(1, 0), full=True), [proposal(1, 1)])],
        # A late call tells all of them, the longest overdue first, then by number.
        [(0, report(1, touched(3), touched(2), touched(1, 90), full=True), []),
         (500, report(2), [proposal(1, 1), proposal(2, 1), proposal(3, 1)])],
        # A touch begins the timeout anew and names its batch.
        [(0, FULL, []), (60, report(2, touched(1)), []), (159, report(3), []),
         (160, report(4), [proposal(1, 2)])],
        [(0, FULL, []), (60, report(2, touched(1)), []), (120, report(3, touched(1)), []),
         (200, report(4), [proposal(2, 1)]), (220, report(5), [proposal(1, 3)])],
        # A touch at the deadline is in time.
        [(0, FULL, []), (100, report(2, touched(1)), []), (199, report(3), [])],
        # After its proposal a session that is touched counts again.
        [(0, FULL, []), (100, report(2), [proposal(1, 1)]), (120, report(3, touched(1)), []),
         (220, report(4), [proposal(2, 1), proposal(1, 3)])],
        # Moved: another owner, and another timeout, shorter or longer.
        [(0, FULL, []), (10, report(2, touched(2, 20, 51)), []), (29, report(3), []),
         (30, report(4), [proposal(2, 2, 51)]), (100, report(5), [proposal(1, 1)]),
         (500, report(6), [])],
        [(0, FULL, []), (10, report(2, touched(1, 300, 51)), []),
         (200, report(3), [proposal(2, 1)]), (309, report(4), []),
         (310, report(5), [proposal(1, 2, 51)])],
        # Ended.
        [(0, FULL, []), (10, report(2, ended=(1, 9)), []), (150, report(3), []),
         (200, report(4), [proposal(2, 1)])],
        [(0, FULL, []), (10, report(2, touched(1), ended=(1,)), []),
         (200, report(3), [proposal(2, 1)])],
        [(0, FULL, []), (10, report(2, ended=(1,)), []), (20, report(3, touched(1, 90)), []),
         (110, report(4), [proposal(1, 3)]), (300, report(5), [proposal(2, 1)])],
        # A full report replaces what was known and gives each its whole timeout.
        [(0, FULL, []), (50, report(2, touched(2, 60), full=True), []), (109, report(3), []),
         (110, report(4), [proposal(2, 2)]), (500, report(5), [])],
    ],
)  # fmt: skip
def test_sessions_expire_at_their_exact_deadlines(steps: list[Step]) -> None:
    play(*steps)


@pytest.mark.parametrize(
    "late",
    [
        # Repeated: the last one, an earlier one, a full one.
        report(2, touched(1)),
        report(1, touched(1), full=True),
        # Of an older epoch, however many reports that had.
        report(9, touched(1), epoch=Epoch(2)),
        report(9, touched(1), full=True, epoch=Epoch(2)),
    ],
)
@pytest.mark.parametrize("at", [50, 100, 5_000])
def test_a_late_report_takes_no_proposal_and_changes_nothing(late: SessionReport, at: int) -> None:
    """Its sender may have died, and then its answer reaches nobody."""
    expiry = play((0, FULL, []), (0, report(2), []))
    assert expiry.track(late, Millis(at)) is None
    due = 5_100 if at == 5_000 else 100  # that is a gap in the clock
    assert expiry.track(report(3), Millis(due)) == [proposal(1, 1)]


@pytest.mark.parametrize(
    "steps",
    [
        # The first report was lost, of this epoch or of all.
        [(0, report(1, touched(1)), None)],
        [(0, report(5, touched(1)), None)],
        [(0, FULL, []), (0, report(1, touched(7), epoch=Epoch(4)), None)],
        # One in between was lost, or overtaken: it is too late then.
        [(0, FULL, []), (0, report(3, touched(1)), None)],
        [(0, FULL, []), (0, report(3, touched(1)), None), (0, report(2, touched(2)), None)],
    ],
)  # fmt: skip
def test_a_lost_report_stops_the_proposals_until_a_full_one(steps: list[Step]) -> None:
    expiry = play(*steps)
    epoch = expiry._epoch
    assert expiry.track(report(6, touched(1), epoch=epoch), Millis(900)) is None
    assert expiry.track(report(7, touched(1), full=True, epoch=epoch), Millis(950)) == []
    assert expiry.track(report(8, epoch=epoch), Millis(1_049)) == []
    assert expiry.track(report(9, epoch=epoch), Millis(1_050)) == [
        ExpiryProposal(epoch, SessionId(1), Zxid(50), 7)
    ]
    assert expiry.track(report(10, epoch=epoch), Millis(2_000)) == []


def test_a_new_epoch_forgets_the_old_one() -> None:
    expiry, epoch = play((0, FULL, [])), Epoch(4)
    assert expiry.track(report(1, touched(2, 300), full=True, epoch=epoch), Millis(10)) == []
    assert expiry.track(report(2, epoch=epoch), Millis(310)) == [
        ExpiryProposal(epoch, SessionId(2), Zxid(50), 1)
    ]


def test_a_gap_in_the_clock_extends_every_deadline() -> None:
    """Held up for longer than allowed: touches may wait that are older than the gap."""
    play(
        (0, FULL, []),
        (50, report(2), []),
        (5_050, report(3), []),
        (5_099, report(4), []),
        (5_100, report(5), [proposal(1, 1)]),
        # What is touched after the gap is not extended by it.
        (5_110, report(6, touched(2, 40)), []),
        (5_149, report(7), []),
        (5_150, report(8), [proposal(2, 6)]),
        # A call at the bound is in time.
        (5_160, report(9, touched(2, 1_000)), []),
        (6_160, report(10), [proposal(2, 9)]),
    )


def test_a_gap_before_a_report_counts_too() -> None:
    play(
        (0, FULL, []),
        (3_000, report(2, touched(2, 60)), []),
        (3_059, report(3), []),
        (3_100, report(4), [proposal(2, 2), proposal(1, 1)]),
    )


def test_many_touches_leave_the_heap_small() -> None:
    expiry = play((0, FULL, []))
    for batch in range(2, 1_000):
        assert expiry.track(report(batch, touched(1), touched(2)), Millis(batch)) == []
    assert len(expiry._heap) == 2
