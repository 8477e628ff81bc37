"""Which sessions are overdue: the logic of the session tracker, without a clock of its own.

ZooKeeper: `SessionTrackerImpl`, `ExpiryQueue`.
"""

from msgspec import Struct

from raykeeper.zab.ids import Epoch, Millis, Zxid
from raykeeper.znodes.requests import SessionId


class TouchedSession(Struct, frozen=True, array_like=True):
    """A session that was heard, or opened; it now has `timeout_ms` from the report's arrival."""

    session_id: SessionId
    owner: Zxid
    timeout_ms: Millis


class SessionReport(Struct, frozen=True, array_like=True):
    """What the leader tells its tracker. `batch` numbers the reports within one epoch.

    A `full` report names every session and replaces what the tracker knew; each gets its whole
    timeout. The first report of an epoch, and after the loss of a tracker, is full.
    """

    epoch: Epoch
    batch: int
    full: bool
    touched: list[TouchedSession]
    ended: list[SessionId]


class Verdict(Struct, frozen=True, array_like=True):
    """A session was not heard for its timeout, as far as reports up to `batch` say.

    `batch` is the last report that touched this session. The core drops the verdict unless
    epoch and owner are current and the session was not touched after that report.
    """

    epoch: Epoch
    session_id: SessionId
    owner: Zxid
    batch: int
