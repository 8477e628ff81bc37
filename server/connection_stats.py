"""What a server can say of each connection: where it is from, what it sent and was told.

Of a client of ZooKeeper also its last operation and how long its requests took; the path of a
native client counts packets alone.

ZooKeeper: `ServerCnxn.getConnectionInfo`.
"""

from msgspec import Struct

from raykeeper.server.answered import Answered
from raykeeper.server.connection import Connection
from raykeeper.server.context import ServerContext
from raykeeper.zab.ids import ZERO, Millis, Zxid
from raykeeper.znodes.requests import SessionId


class AnsweredStats(Struct, frozen=True):
    """See `Answered`."""

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
    """0 of a native client."""
    is_read: bool
    """False while what has arrived on it waits to be taken."""
    outstanding: int
    packets_received: int
    packets_sent: int
    session_id: SessionId
    opened_at_ms: Millis
    """By the wall clock."""
    timeout_ms: Millis
    answered: AnsweredStats | None
    """None of a native client."""


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
        answered=None if translator is None else _answered_stats(translator.answered),
    )


def _answered_stats(answered: Answered) -> AnsweredStats:
    latency = answered.latency.stats()
    return AnsweredStats(
        answered.operation,
        answered.xid,
        max(answered.zxid, ZERO),
        answered.at,
        answered.took_ms,
        latency.min_ms,
        latency.total_ms // max(latency.count, 1),
        latency.max_ms,
    )
