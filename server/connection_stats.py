"""The statistics of each connection: where it is from, and its packets.

For a client of ZooKeeper also its last operation and how long its requests took; of a native client
only packets are counted.

ZooKeeper: `ServerCnxn.getConnectionInfo`.
"""

from msgspec import Struct

from raykeeper.server.connection import Connection, Phase
from raykeeper.server.context import ServerContext
from raykeeper.server.response_counters import ResponseCounters
from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.requests import SessionId


class ResponseStats(Struct, frozen=True):
    """The last answer to a client of ZooKeeper, and the latencies of all its requests."""

    operation: str
    xid: int
    zxid: Zxid
    at_ms: Millis
    """When the last answer was given, by the wall clock."""
    took_ms: int
    min_ms: int
    average_ms: int
    max_ms: int


class ConnectionStats(Struct, frozen=True):
    """One connection at one moment."""

    host: str
    port: int
    """0 for a native client."""
    is_read: bool
    """False while what has arrived on it waits to be taken."""
    outstanding: int
    packets_received: int
    packets_sent: int
    session_id: SessionId
    opened_at_ms: Millis
    """By the wall clock."""
    timeout_ms: Millis
    responses: ResponseStats | None
    """None for a native client."""
    identity: str = ""
    """The line with which a native client names its process, perhaps with odd characters."""
    watches: int = 0
    phase: str = Phase.CONNECTED.value


def connection_stats(context: ServerContext, connection: Connection) -> ConnectionStats:
    """Return what is known of a connection."""
    translator = connection.translator
    session = connection.local_session or context.state.sessions.get(connection.session_id)
    return ConnectionStats(
        host=connection.host,
        port=0 if translator is None else translator.port,
        is_read=translator is None or not translator.is_reading_paused,
        outstanding=len(connection.requests),
        packets_received=connection.packets_received,
        packets_sent=connection.packets_sent,
        session_id=connection.session_id,
        opened_at_ms=connection.opened_at,
        timeout_ms=Millis(0) if session is None else session.timeout_ms,
        responses=None if translator is None else _response_stats(translator.responses),
        identity=connection.connect.identity.decode(errors="replace"),
        watches=context.watches.count_of(connection.number),
        phase=connection.phase.value,
    )


def _response_stats(counters: ResponseCounters) -> ResponseStats:
    latency = counters.latency.stats()
    return ResponseStats(
        counters.operation,
        counters.xid,
        max(counters.zxid, ZERO),
        counters.at,
        counters.took_ms,
        latency.min_ms,
        latency.total_ms // max(latency.count, 1),
        latency.max_ms,
    )
