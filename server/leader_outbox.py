"""Requests of this server's clients that need the leader, collected until the end of a step.

Every component puts its requests here, and only `LeaderForwarder` takes them out. Without a leader
they are dropped: `ClientRequests.forward_all` collects them anew when there is one.
"""

from typing import NamedTuple

from raykeeper.server.connection import Connection, PendingSync, Phase
from raykeeper.server.peer_messages import ForwardConnect, ForwardedWrite, OwnedSession
from raykeeper.znodes.requests import Write


class LeaderBatch(NamedTuple):
    """The requests of one step, in the order in which they are sent.

    A dead session follows the writes, so that what its client wrote before it died is done.
    """

    connects: list[ForwardConnect]
    writes: list[ForwardedWrite]
    dead_sessions: list[OwnedSession]
    syncs: list[PendingSync]


class LeaderOutbox:
    """Requests of this step, and the sessions heard since the last report to the leader."""

    def __init__(self) -> None:
        self._batch = LeaderBatch([], [], [], [])
        self._touched: dict[Connection, None] = {}

    @property
    def has_writes(self) -> bool:
        """Whether writes were added since the last `take`."""
        return bool(self._batch.writes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added since the last `take`."""
        batch = self._batch
        return not (batch.writes or batch.syncs or batch.connects or batch.dead_sessions)

    def add_connect(self, connection: Connection) -> None:
        """Ask for a session for `connection`."""
        number, host = connection.number, connection.host
        self._batch.connects.append(ForwardConnect(number, connection.connect, host))

    def add_write(self, connection: Connection, write: Write) -> None:
        """Forward a write of `connection`, behind those that were added before."""
        connection.last_forwarded = write.number
        self._batch.writes.append(
            ForwardedWrite(connection.session_id, connection.owner_zxid, write)
        )

    def add_dead_session(self, session: OwnedSession) -> None:
        """Ask to end a session whose process is dead."""
        self._batch.dead_sessions.append(session)

    def add_sync(self, sync: PendingSync) -> None:
        """Ask for a read index for `sync`."""
        self._batch.syncs.append(sync)

    def take(self) -> LeaderBatch:
        """Remove and return all requests."""
        batch, self._batch = self._batch, LeaderBatch([], [], [], [])
        return batch

    def touch(self, connection: Connection) -> None:
        """Name the session of `connection` in the next report to the leader."""
        self._touched[connection] = None

    def take_touched(self) -> tuple[list[OwnedSession], list[tuple[Connection, int]]]:
        """Remove and return the touched sessions, and the heartbeat that each one stands for."""
        touched, self._touched = self._touched, {}
        connected = [connection for connection in touched if connection.phase is Phase.CONNECTED]
        sessions = [OwnedSession(each.session_id, each.owner_zxid) for each in connected]
        return sessions, [(each, each.heartbeat_seq) for each in connected]
