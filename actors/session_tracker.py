"""The session tracker of a server: a clock around `znodes/expiry.py`, in an actor of its own.

Only the tracker beside the leader receives reports. It keeps nothing when it dies. So it answers a
report that does not follow the last one that it knows with None, and the leader starts again with
a full report. A call of a server that has died may still run; it gets None, and takes no proposal.
"""

import os
import time
from typing import Any

from raykeeper.actors.fate_sharing import share_fate_with_raylet
from raykeeper.actors.process_priority import LOWEST_PRIORITY, raise_priority
from raykeeper.actors.ray_actors import start_actor
from raykeeper.actors.replica_config import ReplicaConfig
from raykeeper.links.ray_names import tracker_name
from raykeeper.zab.ids import Millis
from raykeeper.znodes.expiry import ExpiryProposal, SessionExpiry, decode_report


class SessionTracker:
    """The actor. Its only caller has one call under way at a time."""

    def __init__(self, niceness: int = LOWEST_PRIORITY) -> None:
        """`niceness` is what the settings ask for; the system may not allow it."""
        share_fate_with_raylet()
        raise_priority(niceness)
        self._expiry = SessionExpiry()

    def track(self, report: bytes) -> list[ExpiryProposal] | None:
        """Take an encoded report; return proposals to expire sessions, None to get a full report.

        Encoded by its sender: Ray would pickle each session by itself, for twenty times as long.
        """
        now = Millis(time.monotonic_ns() // 1_000_000)
        return self._expiry.track(decode_report(report), now)

    def pid(self) -> int:
        """Return the process that the actor runs in."""
        return os.getpid()


def start_tracker(config: ReplicaConfig, node_id: str | None = None) -> Any:
    """Return the SessionTracker beside a server, started if there is none."""
    name = tracker_name(config.ensemble, config.server_id)
    return start_actor(SessionTracker, name, node_id, config.niceness)
