"""The metrics of a server, and the numbers of a moment under their names.

docs/METRICS.md has the same table; a test compares them. ZooKeeper: `ServerMetrics`.
"""

from typing import Final

from msgspec import Struct

from raykeeper.actors.step_times import STAGE_BOUNDS, StepTimes
from raykeeper.links.ray_metrics import INF, Kind, Metric, Samples, bucket_samples, histogram
from raykeeper.server.latency import BOUNDS_MS, LatencyBuckets
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.server.server_metrics import ServerMetrics
from raykeeper.zab.effects import Role

LATENCY_BOUNDS: Final = (*(f"{bound / 1000:.3f}" for bound in BOUNDS_MS), INF)
QUORUM: Final = "quorum"
NOTES: Final = "raykeeper_notes"


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"raykeeper_{name}", Kind.GAUGE, labels, meaning)


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"raykeeper_{name}", Kind.COUNTER, labels, meaning)


SERVER_LABELS: Final = ("ensemble", "server")
"""The labels of every metric of a server."""
SERVER_METRICS: Final = (
    # Requests.
    _counter("requests", "Answered requests of this server's clients.", "kind", "outcome"),
    *histogram(
        "raykeeper_request_seconds", ("type",), "From the arrival of a request to its answer."
    ),
    *histogram("raykeeper_stage_seconds", ("stage",), "The stages of a server's work."),
    _gauge("outstanding_requests", "Requests that wait for their answer."),
    _counter("packets_received", "Requests, connects and heartbeats of clients."),
    _counter("packets_sent", "Replies, events and confirmed heartbeats for clients."),
    # The ensemble.
    _gauge("role", "1 for the role that the server has, 0 for the others.", "role"),
    _gauge("is_active", "1 if the server leads, or follows a leader, and serves clients."),
    _gauge("is_read_only", "1 if it serves reads without a leader."),
    _gauge("has_vote", "1 if it votes."),
    _gauge("epoch", "The epoch in which the server is."),
    _gauge("voters", "Voting servers of the ensemble."),
    _gauge("synced_voters", "On the leader: voters that have what it has, itself included."),
    _gauge("linked_servers", "Other servers with a link to this one."),
    _counter("elections", "How often the server came to lead, or to follow a leader."),
    _counter("election_seconds", "How long it was without a leader before, in all."),
    _gauge("last_election_seconds", "The same of the last election."),
    _gauge(
        "follower_lag_txns",
        "On the leader: transactions that a synchronized server has not acknowledged.",
        "follower",
    ),
    _counter("txns_proposed", "Transactions that the server has proposed as a leader."),
    _counter("txns_applied", "Transactions that it has applied."),
    _counter("notes", "Events that the server's log names.", "note"),
    # The disk.
    _gauge("log_bytes", "Bytes of the log of transactions."),
    _gauge("snapshot_bytes", "Bytes of the snapshots."),
    _gauge("disk_free_bytes", "Bytes that are free where the data lies."),
    _gauge("disk_bytes", "Bytes of the file system where the data lies."),
    _gauge("has_disk_space", "0 while the disk is full and nothing is logged."),
    # The tree and its clients.
    _gauge("sessions", "Sessions of the ensemble."),
    _gauge("sessions_max", "The setting sessions_max."),
    _gauge("connections", "Clients that are connected to this server."),
    _gauge("connections_max", "How many clients this server takes."),
    _gauge("watches", "Watches of this server's clients."),
    _gauge("znodes", "Znodes of the tree."),
    _gauge("ephemerals", "Ephemeral ones among them."),
    _gauge("data_bytes", "Bytes of all values, and characters of all paths."),
    # The process.
    _gauge("uptime_seconds", "Since the server's start."),
    _gauge("memory_bytes", "Resident memory of the server's process."),
    _counter("cpu_seconds", "Processor time of the server's process."),
    _gauge("open_files", "Open files of the server's process, links among them."),
    _gauge("open_files_max", "The limit of these."),
    _gauge("loop_pause_seconds", "The longest pause of the event loop in the last 15 seconds."),
    _gauge("gc_pause_seconds", "The longest garbage collection in the last 15 seconds."),
    _counter("gc_seconds", "Seconds of all garbage collections."),
    _counter("gc_collections", "Garbage collections."),
)


class ProcessLoad(Struct, frozen=True, kw_only=True):
    """What the process of a server takes, at one moment; pauses are in seconds."""

    memory_bytes: int
    cpu_s: float
    loop_pause_s: float
    gc_pause_s: float
    gc_s: float
    collections: int
    sessions_max: int
    connections_max: int


def server_samples(metrics: ServerMetrics, times: StepTimes) -> Samples:
    """Return the numbers that the pure server and its steps have."""
    stats = metrics.stats
    learners = stats.learners
    counts = {
        "outstanding_requests": stats.outstanding,
        "packets_received": stats.packets_received,
        "packets_sent": stats.packets_sent,
        "is_active": stats.is_active,
        "is_read_only": stats.is_read_only,
        "has_vote": stats.has_vote,
        "epoch": stats.epoch,
        "voters": stats.voters,
        "synced_voters": 0 if learners is None else learners.followers + 1,
        "linked_servers": len(stats.linked),
        "elections": metrics.elections,
        "election_seconds": metrics.election_ms / 1000,
        "last_election_seconds": metrics.last_election_ms / 1000,
        "txns_proposed": metrics.proposed,
        "txns_applied": metrics.applied,
        "has_disk_space": stats.has_disk_space,
        "sessions": stats.sessions,
        "connections": stats.connections,
        "watches": stats.watches,
        "znodes": stats.znodes,
        "ephemerals": stats.ephemerals,
        "data_bytes": stats.data_bytes,
        "uptime_seconds": stats.uptime_ms / 1000,
    }
    samples = _named(counts)
    samples |= {("raykeeper_requests", key): count for key, count in metrics.requests.items()}
    samples |= {("raykeeper_role", (role.value,)): role is stats.role for role in Role}
    for follower, lag in metrics.follower_lags.items():
        samples["raykeeper_follower_lag_txns", (str(follower),)] = lag
    samples |= _latency_samples("raykeeper_request_seconds", "read", metrics.reads)
    samples |= _latency_samples("raykeeper_request_seconds", "update", metrics.updates)
    samples |= _latency_samples("raykeeper_stage_seconds", QUORUM, metrics.commits)
    for stage, taken in times.by_stage.items():
        samples |= bucket_samples(
            "raykeeper_stage_seconds", (stage,), STAGE_BOUNDS, taken.below(), taken.total_s
        )
    return samples


def process_samples(load: ProcessLoad, facts: ProcessFacts | None) -> Samples:
    """Return the numbers of the server's process; `facts` None are not known yet."""
    samples = _named(
        {
            "sessions_max": load.sessions_max,
            "connections_max": load.connections_max,
            "memory_bytes": load.memory_bytes,
            "cpu_seconds": load.cpu_s,
            "loop_pause_seconds": load.loop_pause_s,
            "gc_pause_seconds": load.gc_pause_s,
            "gc_seconds": load.gc_s,
            "gc_collections": load.collections,
        }
    )
    if facts is not None:
        samples |= _named(
            {
                "log_bytes": facts.log_bytes,
                "snapshot_bytes": facts.snapshot_bytes,
                "disk_free_bytes": facts.disk_free_bytes,
                "disk_bytes": facts.disk_bytes,
                "open_files": facts.open_files,
                "open_files_max": facts.files_max,
            }
        )
    return samples


def _named(numbers: dict[str, int | float]) -> Samples:
    return {(f"raykeeper_{name}", ()): float(number) for name, number in numbers.items()}


def _latency_samples(name: str, value: str, latency: LatencyBuckets) -> Samples:
    return bucket_samples(name, (value,), LATENCY_BOUNDS, latency.counts, latency.total_ms / 1000)
