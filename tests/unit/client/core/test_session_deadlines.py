"""SessionDeadlines: when a session expires for its client, and the times of heartbeats."""

import pytest

from raykeeper.client.core.session_deadlines import SessionDeadlines
from raykeeper.zab.ids import Millis


def connected(timeout_ms: int, at: int = 0) -> SessionDeadlines:
    deadlines = SessionDeadlines(Millis(1))
    deadlines.on_connected(Millis(timeout_ms), Millis(at), Millis(at))
    return deadlines


def test_an_unopened_session_cannot_expire() -> None:
    assert not SessionDeadlines(Millis(1000)).is_expired(Millis(10**9))


@pytest.mark.parametrize(
    ("timeout_ms", "let_go_at"),
    [
        # A twentieth for clocks that do not run alike, at least 50 ms.
        (10_000, 9_500),
        (2_000, 1_900),
        (500, 450),
    ],
)
def test_the_deadline_is_a_margin_before_the_timeout(timeout_ms: int, let_go_at: int) -> None:
    deadlines = connected(timeout_ms)
    assert deadlines.expires_at == let_go_at
    assert not deadlines.is_expired(Millis(let_go_at - 1))
    assert deadlines.is_expired(Millis(let_go_at))


def test_heartbeats_and_read_timeouts_are_thirds_of_the_timeout() -> None:
    deadlines = connected(9000, at=100)
    # Heartbeats leave at multiples of 45 ms.
    assert (deadlines.heartbeat_at(), deadlines.read_timeout_at()) == (3060, 6100)
    deadlines.on_sent(1, Millis(1000))
    deadlines.on_received(Millis(2000))
    assert (deadlines.heartbeat_at(), deadlines.read_timeout_at()) == (3960, 8000)


def test_heartbeats_of_sessions_that_began_apart_leave_together() -> None:
    """67 moments of a third of the timeout have all heartbeats, whenever the sessions began."""
    moments = {connected(10_000, at).heartbeat_at() for at in range(100_000, 103_334)}
    assert len(moments) <= 68
    assert all(moment % 50 == 0 for moment in moments)


@pytest.mark.parametrize("timeout_ms", [1, 3, 199, 500, 2_000, 10_000, 60_000])
def test_a_heartbeat_is_never_late_and_hardly_early(timeout_ms: int) -> None:
    for at in range(timeout_ms):
        due = at + timeout_ms // 3
        assert due - timeout_ms // 200 <= connected(timeout_ms, at).heartbeat_at() <= due


def test_only_a_newer_confirmation_moves_the_deadline() -> None:
    deadlines = connected(10_000)
    for seq in range(1, 6):
        deadlines.on_sent(seq, Millis(seq * 1000))
    expiries = []
    for seq in (0, 2, 1, 2, 5, 9):
        deadlines.on_confirmed(seq)
        expiries.append(deadlines.expires_at)
    assert expiries == [9_500, 11_500, 11_500, 11_500, 14_500, 14_500]


def test_an_older_connect_does_not_move_the_deadline_back() -> None:
    deadlines = connected(10_000)
    deadlines.on_sent(1, Millis(5000))
    deadlines.on_confirmed(1)
    deadlines.on_connected(Millis(10_000), Millis(4000), Millis(6000))
    assert deadlines.expires_at == 14_500


def test_many_frames_cost_little_memory_and_stay_on_the_safe_side() -> None:
    deadlines = connected(10_000)
    for seq in range(1, 10_001):  # one a millisecond
        deadlines.on_sent(seq, Millis(seq))
    assert len(deadlines._unconfirmed) <= 101
    for seq in range(1, 10_001, 7):
        deadlines.on_confirmed(seq)
        at = (deadlines.expires_at or 0) - 9_500
        assert seq - 100 <= at <= seq
