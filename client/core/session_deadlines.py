"""The deadlines of a session: when to send a heartbeat, leave a silent server, and expire.

The invariant of this file: a client becomes LOST before the ensemble can give its ephemerals to
another client. The leader heard of this session after the client sent the frame that the leader
confirms, and expires the session at the earliest a whole timeout later. So the session certainly
lives until `sent + timeout`, less a margin because two clocks do not run at the same rate.

ZooKeeper's client learns of its expiry from the server (ZOOKEEPER-4508: after 4/3 of the timeout
by itself), when other clients may have held its locks for long.
ZooKeeper: `ClientCnxn.SendThread`.
"""

from collections import deque

from raykeeper.client.core.limits import (
    EXPIRY_MARGIN_DIVISOR,
    EXPIRY_MARGIN_MS_MIN,
    HEARTBEAT_GRID_DIVISOR,
)
from raykeeper.zab.ids import Millis


class SessionDeadlines:
    """When frames were last sent, received and confirmed, in monotonic milliseconds."""

    def __init__(self, timeout_ms: Millis) -> None:
        """`timeout_ms` is what the client asks for; `on_connected` tells what was granted."""
        self.timeout_ms = timeout_ms
        self.expires_at: Millis | None = None
        """The time from which the session may be over; None before it was opened."""
        self._is_kept_alive = True  # the server reports what its leader has heard
        self._last_confirmed_at = Millis(0)  # the leader heard of the session at this time or later
        self._last_sent_at = Millis(0)
        self._last_received_at = Millis(0)
        # Unconfirmed frames and their times, at most one for each hundredth of the timeout. It
        # stands for the later frames of that span: its time is earlier, which is safe.
        self._unconfirmed: deque[tuple[int, Millis]] = deque()
        self._last_recorded_at = Millis(0)

    def on_connected(self, timeout_ms: Millis, connect_sent_at: Millis, now: Millis) -> None:
        """The leader opened or moved the session, as a Connect had asked."""
        self.timeout_ms = timeout_ms
        self._is_kept_alive = True
        self._last_sent_at = connect_sent_at
        self._last_received_at = now
        self._extend(connect_sent_at)

    def on_connected_read_only(self, connect_sent_at: Millis, now: Millis) -> None:
        """A server without a leader serves the client; it keeps no session alive."""
        self._is_kept_alive = False
        self._last_sent_at = connect_sent_at
        self._last_received_at = now

    def on_sent(self, beat: int, now: Millis) -> None:
        """The frame `beat` is sent."""
        self._last_sent_at = now
        if not self._is_kept_alive:
            return
        if not self._unconfirmed or now - self._last_recorded_at >= self.timeout_ms // 100:
            self._unconfirmed.append((beat, now))
            self._last_recorded_at = now

    def on_received(self, now: Millis) -> None:
        """The server sent a frame."""
        self._last_received_at = now

    def on_confirmed(self, beat: int) -> None:
        """The leader has heard of the session by frame `beat`."""
        beats = self._unconfirmed
        if beats and beats[0][0] <= beat:
            while beats and beats[0][0] <= beat:
                sent_at = beats.popleft()[1]
            self._extend(sent_at)

    def is_expired(self, now: Millis) -> bool:
        """Return whether the session may be over."""
        return self.expires_at is not None and now >= self.expires_at

    def left_ms(self, now: Millis) -> Millis:
        """Return how long the session certainly lives; the timeout if it is not open yet."""
        return self.timeout_ms if self.expires_at is None else Millis(self.expires_at - now)

    def unconfirmed_ms(self, now: Millis) -> Millis:
        """Return how long ago it is that the leader has certainly heard of the session."""
        return Millis(now - self._last_confirmed_at)

    def heartbeat_at(self) -> Millis:
        """Return when to send an empty frame unless another frame is sent before.

        After a third of the timeout, less the rest to a whole `HEARTBEAT_GRID_DIVISOR`th of it.
        The clock is the machine's, so the heartbeats of all its clients leave at the same moments,
        and a server that wakes up for one of them finds others beside it: waking up costs it more
        than to read a heartbeat.
        """
        due, grid_ms = self._last_sent_at + self.timeout_ms // 3, self._grid_ms()
        return Millis(due - due % grid_ms)

    def read_timeout_at(self) -> Millis:
        """Return when to leave this server unless it sends a frame before."""
        return Millis(self._last_received_at + self.timeout_ms * 2 // 3)

    def _grid_ms(self) -> int:
        return max(self.timeout_ms // HEARTBEAT_GRID_DIVISOR, 1)

    def _extend(self, at: Millis) -> None:
        self._last_confirmed_at = max(self._last_confirmed_at, at)
        margin = max(self.timeout_ms // EXPIRY_MARGIN_DIVISOR, EXPIRY_MARGIN_MS_MIN)
        self.expires_at = Millis(self._last_confirmed_at + self.timeout_ms - margin)
