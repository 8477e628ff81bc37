"""SessionTracker: a clock around the expiry, and its answer when it has lost its memory."""

import os

from raykeeper.actors.session_tracker import SessionTracker
from raykeeper.zab.ids import Epoch, Millis, Zxid
from raykeeper.znodes.expiry import (
    ExpiryProposal,
    SessionReport,
    TouchedSession,
    encode_report,
)
from raykeeper.znodes.requests import SessionId


def report(batch: int, full: bool, timeout_ms: int, epoch: int = 1) -> bytes:
    touched = [TouchedSession(SessionId(7), Zxid(70), Millis(timeout_ms))]
    return encode_report(SessionReport(Epoch(epoch), batch, full, touched, []))


def test_an_overdue_session_gets_a_proposal() -> None:
    tracker = SessionTracker()
    assert tracker.track(report(1, True, 60_000)) == []
    assert tracker.track(report(2, False, 0)) == [
        ExpiryProposal(Epoch(1), SessionId(7), Zxid(70), 2)
    ]


def test_a_tracker_that_missed_the_beginning_asks_for_a_full_report() -> None:
    assert SessionTracker().track(report(2, False, 0)) is None


def test_a_call_of_a_server_that_has_died_takes_no_proposal() -> None:
    tracker = SessionTracker()
    assert tracker.track(report(1, True, 60_000, epoch=2)) == []
    assert tracker.track(report(9, False, 0)) is None
    assert tracker.track(report(9, True, 0)) is None


def test_the_process_of_the_tracker_is_reported() -> None:
    assert SessionTracker().pid() == os.getpid()
