"""The session tracker of a server: a clock around `znodes/expiry.py`, in an actor of its own.

Only the one beside the leader is told anything. It forgets everything when it dies, and says so:
a report that does not follow what it knows is answered with None, and the leader starts anew.
"""

import os
import time

from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.zab.ids import Millis
from raykeeper.znodes.expiry import ExpiryProposal, SessionExpiry, SessionReport


class SessionTracker:
    """The actor. Its only caller has one call under way at a time."""

    def __init__(self) -> None:
        share_fate_with_raylet()
        self._expiry = SessionExpiry()

    def track(self, report: SessionReport) -> list[ExpiryProposal] | None:
        """Take a report; the sessions that are overdue, or None when a full report is needed."""
        now = Millis(time.monotonic_ns() // 1_000_000)
        self._expiry.report(report, now)
        if self._expiry.needs_full_report:
            return None
        return self._expiry.proposals(now)

    def pid(self) -> int:
        """The process it runs in."""
        return os.getpid()
