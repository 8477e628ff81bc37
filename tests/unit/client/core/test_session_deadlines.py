"""Liveness: the arithmetic of the deadlines."""

import pytest

from raykeeper.client.core.session_deadlines import SessionDeadlines
from raykeeper.zab.ids import Millis


def connected(timeout_ms: int, at: int = 0) -> SessionDeadlines:
    liveness = SessionDeadlines(Millis(1))
    liveness.on_connected(Millis(timeout_ms), Millis(at), Millis(at))
    return liveness


def test_before_it_is_open_a_session_cannot_end() -> None:
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
def test_a_margin_before_the_end(timeout_ms: int, let_go_at: int) -> None:
    liveness = connected(timeout_ms)
    assert liveness.expires_at == let_go_at
    assert not liveness.is_expired(Millis(let_go_at - 1))
    assert liveness.is_expired(Millis(let_go_at))


def test_thirds() -> None:
    liveness = connected(9000, at=100)
    assert (liveness.heartbeat_at(), liveness.read_timeout_at()) == (3100, 6100)
    liveness.on_sent(1, Millis(1000))
    liveness.on_received(Millis(2000))
    assert (liveness.heartbeat_at(), liveness.read_timeout_at()) == (4000, 8000)


def test_only_a_newer_confirmation_moves_the_deadline() -> None:
    liveness = connected(10_000)
    for beat in range(1, 6):
        liveness.on_sent(beat, Millis(beat * 1000))
    deadlines = []
    for beat in (0, 2, 1, 2, 5, 9):
        liveness.on_confirmed(beat)
        deadlines.append(liveness.expires_at)
    assert deadlines == [9_500, 11_500, 11_500, 11_500, 14_500, 14_500]


def test_an_older_connect_does_not_move_it_back() -> None:
    liveness = connected(10_000)
    liveness.on_sent(1, Millis(5000))
    liveness.on_confirmed(1)
    liveness.on_connected(Millis(10_000), Millis(4000), Millis(6000))
    assert liveness.expires_at == 14_500


def test_many_frames_cost_little_memory_and_stay_on_the_safe_side() -> None:
    liveness = connected(10_000)
    for beat in range(1, 10_001):  # one a millisecond
        liveness.on_sent(beat, Millis(beat))
    assert len(liveness._unconfirmed) <= 101
    for beat in range(1, 10_001, 7):
        liveness.on_confirmed(beat)
        at = (liveness.expires_at or 0) - 9_500
        assert beat - 100 <= at <= beat
