"""Clients that asked for it are served by a server without a leader, for reading only.

It serves them while it looks for a leader and has had none for `read_only_after_ms`, from the last
real state that it has applied, which may be arbitrarily old but is never older than what the
client has seen. Their sessions are local: no transaction makes them, their id is 0, and no server
knows of them but this one. As soon as a leader is elected they end, and their clients come again.

ZooKeeper: `ReadOnlyZooKeeperServer`, `ReadOnlyRequestProcessor`.
"""

from collections.abc import Callable

from raykeeper.server import server_trace_events
from raykeeper.server.client_send_queues import ClientSendQueues
from raykeeper.server.connection import Connection, LocalRequest, RejectedRequest
from raykeeper.server.context import ServerContext
from raykeeper.zab.effects import Role, TraceEvent
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.acl import identities_of
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import ErrorReply, WriteReply
from raykeeper.znodes.requests import (
    Read,
    Request,
    SessionId,
    Sync,
    Write,
)
from raykeeper.znodes.sessions import Session


class ReadOnlyMode:
    """Which of the connections are served without a leader, and since when there is none."""

    def __init__(
        self,
        context: ServerContext,
        connections: dict[int, Connection],
        outgoing: ClientSendQueues,
        end: Callable[[Connection, Code], None],
    ) -> None:
        """`connections` are all of this server, by number."""
        self.is_active = False
        self._context = context
        self._connections = connections
        self._outgoing = outgoing
        self._end = end
        self.starts_at: Millis | None = None
        """When to call `start_if_due`, if there is no leader until then."""
        self._leaderless_since: Millis | None = None

    def on_role_changed(self, role: Role) -> None:
        """The server looks for a leader, or has found one to recover with."""
        context = self._context
        if self._leaderless_since is None:
            self._leaderless_since = context.now.mono
        if role is Role.LOOKING:
            self.starts_at = Millis(self._leaderless_since + context.options.read_only_after_ms)
            return
        self.starts_at = None
        if self.is_active:
            self.is_active = False
            context.out.append(TraceEvent(server_trace_events.READ_ONLY_ENDED))
            for connection in list(self._connections.values()):
                if connection.local_session is not None:
                    self._end(connection, Code.CONNECTION_LOSS)

    def on_activated(self) -> None:
        """The server leads, or follows a leader."""
        self._leaderless_since = None

    def start_if_due(self, *, is_settled: bool) -> None:
        """Serve read-only, if it is time, whoever wants it.

        Not from a tree that is no real state yet, or older than what others here were shown; only
        a leader can mend that.
        """
        if self.starts_at is None or self.starts_at > self._context.now.mono:
            return
        self.starts_at = None
        if is_settled:
            self.is_active = True
            self._context.out.append(TraceEvent(server_trace_events.READ_ONLY_BEGUN))
            for connection in list(self._connections.values()):
                if connection.session_id and connection.connect.read_only:
                    # What it asked for waits; when it comes again, it can at least read.
                    self._end(connection, Code.CONNECTION_LOSS)
                else:
                    self.admit(connection)

    def admit(self, connection: Connection) -> bool:
        """Give a client that waits for a session a local one; whether it has got it."""
        context, connect = self._context, connection.connect
        state = context.state
        is_real = state.zxid > ZERO and state.zxid >= state.consistent_at
        is_wanted = connect.read_only and not connection.session_id
        if not (self.is_active and is_wanted and is_real and connect.last_zxid <= state.zxid):
            return False
        known = state.sessions.get(connect.session_id)
        proven = known.auth_ids if known is not None and known.password == connect.password else ()
        opened = SessionId(0), connect.password, connect.timeout_ms, ZERO
        host = connection.host
        connection.local_session = Session(
            *opened, 0, 0, {}, connect.attempt, host, proven, identities_of(proven, host)
        )
        connection.is_touched = True  # there is no leader to tell of its heartbeats
        self._outgoing.send_connect_reply(connection, connect.timeout_ms, state.zxid, 0)
        return True

    def reject_writes(self, requests: list[Request]) -> list[LocalRequest]:
        """The requests of such a client: refusals in the places of those that need a leader."""
        zxid = self._context.state.zxid
        checked: list[LocalRequest] = []
        for request in requests:
            if isinstance(request, Write):
                refusal = WriteReply(request.number, zxid, Code.NOT_READ_ONLY, "", None)
                checked.append(RejectedRequest(refusal))
            elif isinstance(request, Sync) or (isinstance(request, Read) and request.linearizable):
                checked.append(RejectedRequest(ErrorReply(request.xid, zxid, Code.NOT_READ_ONLY)))
            else:
                checked.append(request)
        return checked
