"""The deadlines of a session: when to give a sign of life, leave a server, and let go.

The invariant of this file: a client calls itself LOST before the ensemble can give its ephemerals
to anybody else. The leader heard of this session at some moment after we sent the frame that it
confirms, and ends it a whole timeout after that at the earliest; so the session is certainly alive
until `on_sent + timeout`, less a margin because two clocks do not run alike.

ZooKeeper's client learns of its expiry from the server (ZOOKEEPER-4508: after 4/3 of the timeout
by itself), when others may have held its locks for long. ZooKeeper: `ClientCnxn.SendThread`.
"""

from collections import deque

from raykeeper.client.core.limits import EXPIRY_MARGIN_DIVISOR, EXPIRY_MARGIN_MS_MIN
from raykeeper.zab.ids import Millis


class SessionDeadlines:
    """What was sent and heard when, in monotonic milliseconds."""

    def __init__(self, timeout_ms: Millis) -> None:
        """`timeout_ms` is the wish; `on_connected` tells what was granted."""
        self.timeout_ms = timeout_ms
        self.expires_at: Millis | None = None
        """When the session may be over; None before it was opened."""
        self._is_kept_alive = True  # the server tells what its leader has heard
        self._last_confirmed_at = Millis(0)  # the leader heard of the session then or later
        self._last_sent_at = Millis(0)
        self._last_received_at = Millis(0)
        # Beats in order with their times, one per grain of time: the first of each grain stands
        # for the others, which is early and so safe.
        self._unconfirmed: deque[tuple[int, Millis]] = deque()
        self._last_recorded_at = Millis(0)

    def on_connected(self, timeout_ms: Millis, asked_at: Millis, now: Millis) -> None:
        """The leader opened or moved the session, asked by a frame sent at `asked_at`."""
        self.timeout_ms = timeout_ms
        self._is_kept_alive = True
        self._last_sent_at = asked_at
        self._last_received_at = now
        self._extend(asked_at)

    def on_connected_read_only(self, asked_at: Millis, now: Millis) -> None:
        """A server without a leader serves us: it keeps no session alive."""
        self._is_kept_alive = False
        self._last_sent_at = asked_at
        self._last_received_at = now

    def on_sent(self, beat: int, now: Millis) -> None:
        """The frame `beat` leaves."""
        self._last_sent_at = now
        if not self._is_kept_alive:
            return
        if not self._unconfirmed or now - self._last_recorded_at >= self.timeout_ms // 100:
            self._unconfirmed.append((beat, now))
            self._last_recorded_at = now

    def on_received(self, now: Millis) -> None:
        """The server gave a sign of life."""
        self._last_received_at = now

    def on_confirmed(self, beat: int) -> None:
        """The leader has heard of the session by frame `beat`."""
        beats = self._unconfirmed
        if beats and beats[0][0] <= beat:
            while beats and beats[0][0] <= beat:
                sent_at = beats.popleft()[1]
            self._extend(sent_at)

    def is_expired(self, now: Millis) -> bool:
        """Whether the session may be over."""
        return self.expires_at is not None and now >= self.expires_at

    def heartbeat_at(self) -> Millis:
        """When to send an empty frame unless another one leaves before."""
        return Millis(self._last_sent_at + self.timeout_ms // 3)

    def read_timeout_at(self) -> Millis:
        """When to leave this server unless it is heard before."""
        return Millis(self._last_received_at + self.timeout_ms * 2 // 3)

    def _extend(self, at: Millis) -> None:
        self._last_confirmed_at = max(self._last_confirmed_at, at)
        margin = max(self.timeout_ms // EXPIRY_MARGIN_DIVISOR, EXPIRY_MARGIN_MS_MIN)
        self.expires_at = Millis(self._last_confirmed_at + self.timeout_ms - margin)
