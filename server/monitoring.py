"""The numbers of a server under the names that ZooKeeper's monitoring has for them.

The word `mntr`, the admin server's command `monitor` and the exporters that read them share these.

ZooKeeper: `ZooKeeperServer.dumpMonitorValues`, `LeaderZooKeeperServer.registerMetrics`.
"""

from typing import Final

from msgspec import Struct

from raykeeper.server.latency import LatencyStats
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.server.stats import ServerStats
from raykeeper.zab.effects import Role

VERSION: Final = "3.9.5-raykeeper, built on 2026-11-24 00:00 UTC"
"""The ZooKeeper that clients may take this server for, in the form that tools parse."""
STANDALONE: Final = "standalone"
READ_ONLY: Final = "read-only"
_PEER_STATES: Final = {
    Role.LEADER: "leading - broadcast",
    Role.FOLLOWER: "following - broadcast",
    Role.OBSERVER: "observing - broadcast",
    Role.LOOKING: "looking",
}
_DIGITS: Final = 4


class Average(Struct, frozen=True):
    """A mean that is not divided out; as a text it has at most four digits behind the point."""

    total: int
    count: int

    def __str__(self) -> str:
        scale = 10**_DIGITS
        scaled = (self.total * scale + self.count // 2) // max(self.count, 1)
        digits = f"{scaled % scale:0{_DIGITS}}".rstrip("0") or "0"
        return f"{scaled // scale}.{digits}"


def average_of(latency: LatencyStats) -> Average:
    """Return the mean latency."""
    return Average(latency.total_ms, latency.count)


def server_state(stats: ServerStats) -> str:
    """Return what ZooKeeper calls the role of a server that serves."""
    if not stats.is_active and stats.is_read_only:
        return READ_ONLY
    is_alone = stats.voters == 1 and stats.role is Role.LEADER
    if is_alone and (stats.learners is None or not stats.learners.learners):
        return STANDALONE
    return stats.role.value


def monitor_values(stats: ServerStats, facts: ProcessFacts) -> dict[str, int | str | Average]:
    """Return all values by name, in the order in which they are told."""
    latency, learners = stats.latency, stats.learners
    values: dict[str, int | str | Average] = {
        "version": VERSION,
        "server_state": server_state(stats),
        "peer_state": _PEER_STATES[stats.role],
        "avg_latency": average_of(latency),
        "max_latency": latency.max_ms,
        "min_latency": latency.min_ms,
        "packets_received": stats.packets_received,
        "packets_sent": stats.packets_sent,
        "num_alive_connections": stats.connections,
        "outstanding_requests": stats.outstanding,
        "znode_count": stats.znodes,
        "watch_count": stats.watches,
        "ephemerals_count": stats.ephemerals,
        "approximate_data_size": stats.data_bytes,
        "open_file_descriptor_count": facts.open_files,
        "max_file_descriptor_count": facts.files_max,
        "uptime": stats.uptime_ms,
        "global_sessions": stats.sessions,
        "local_sessions": stats.local_sessions,
        "quorum_size": stats.voters,
        **_latency_values("readlatency", stats.reads),
        **_latency_values("updatelatency", stats.updates),
    }
    if learners is not None:
        values |= {
            "followers": learners.learners,  # its name until 3.6
            "learners": learners.learners,
            "synced_followers": learners.followers,
            "synced_non_voting_followers": learners.non_voting_followers,
            "synced_observers": learners.observers,
            "pending_syncs": learners.pending_syncs,
        }
    return values


def _latency_values(name: str, latency: LatencyStats) -> dict[str, int | Average]:
    return {
        f"avg_{name}": average_of(latency),
        f"min_{name}": latency.min_ms,
        f"max_{name}": latency.max_ms,
        f"cnt_{name}": latency.count,
        f"sum_{name}": latency.total_ms,
    }
