"""Read-only mode: a server without a leader serves reads to the clients that accept it.

It serves them while it looks for a leader and has had none for `read_only_after_ms`, from the last
consistent state that it has applied. That state may be arbitrarily old, but it is never older than
what the client has seen. Their sessions are local: no transaction creates them, their id is 0, and
only this server knows them. As soon as a leader is elected these sessions end, and their clients
connect again.

ZooKeeper: `ReadOnlyZooKeeperServer`, `ReadOnlyRequestProcessor`.
"""

from collections.abc import Callable, Sequence

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.client_send_queues import ClientSendQueues
from raykeeper.server.connection import (
    CheckWatches,
    Connection,
    LocalRequest,
    Phase,
    RejectedRequest,
)
from raykeeper.server.context import ServerContext
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import ZERO, Millis, ServerId
from raykeeper.znodes.acl import identities_of
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import ErrorReply, WriteReply
from raykeeper.znodes.requests import Read, Request, SessionId, Sync, Write
from raykeeper.znodes.sessions import Session


class ReadOnlyMode:
    """Starts and ends read-only mode, and gives clients their local sessions."""

    def __init__(
        self,
        context: ServerContext,
        connections: dict[int, Connection],
        send_queues: ClientSendQueues,
        close: Callable[[Connection, Code], None],
    ) -> None:
        """`connections` are all of this server, by number; `close` closes one of them."""
        self.is_active = False
        self._context = context
        self._connections = connections
        self._send_queues = send_queues
        self._close = close
        self.starts_at: Millis | None = None
        """When to call `start_if_due`, unless a leader is elected before."""
        self._leaderless_since: Millis | None = None
        self.is_leaderless = False
        """Whether this server has looked for a leader for so long that the mode may start."""

    def on_role_changed(self, role: Role) -> None:
        """Wait for a leader, or end the mode because one was elected."""
        context = self._context
        if self._leaderless_since is None:
            self._leaderless_since = context.now.mono
        if role is Role.LOOKING:
            self.starts_at = Millis(self._leaderless_since + context.options.read_only_after_ms)
            return
        self.starts_at = None
        self.is_leaderless = False
        if self.is_active:
            self.is_active = False
            context.trace(trace_events.READ_ONLY_ENDED)
            for connection in list(self._connections.values()):
                if connection.phase is Phase.READ_ONLY:
                    self._close(connection, Code.CONNECTION_LOSS)

    def on_activated(self) -> None:
        """Note that the server leads, or follows a leader."""
        self._leaderless_since = None

    def start_if_due(self, *, is_consistent: bool) -> None:
        """Start the mode when it is time, if the state may be shown.

        A received snapshot that is not consistent yet, or older than what other clients here have
        seen, may not be shown. Only a leader can complete it.
        """
        if self.starts_at is None or self.starts_at > self._context.now.mono:
            return
        self.starts_at = None
        self.is_leaderless = True
        if is_consistent:
            self.is_active = True
            self._context.trace(trace_events.READ_ONLY_BEGUN)
            for connection in list(self._connections.values()):
                if connection.phase is Phase.CONNECTED and connection.connect.read_only:
                    # Its requests wait for a leader. After a new Connect it can at least read.
                    self._close(connection, Code.CONNECTION_LOSS)
                elif connection.phase is Phase.CONNECTING:
                    self.admit(connection)
        for connection in list(self._connections.values()):
            if connection.translator is not None and connection.phase is not Phase.READ_ONLY:
                # It would time out here, and may find a leader elsewhere.
                self._close(connection, Code.CONNECTION_LOSS)

    def admit(self, connection: Connection) -> bool:
        """Give a connecting client a local session, if it accepts one; return whether it got it."""
        context, connect = self._context, connection.connect
        state = context.state
        is_real = state.zxid > ZERO and state.zxid >= state.consistent_at
        is_new_enough = connect.last_zxid <= state.zxid
        if not (self.is_active and connect.read_only and is_real and is_new_enough):
            return False
        known = state.sessions.get(connect.session_id)
        auth_ids = (
            known.auth_ids if known is not None and known.password == connect.password else ()
        )
        timeout_ms = context.limits.session_timeout_of(connect.timeout_ms)
        opened = SessionId(0), connect.password, timeout_ms, ZERO
        host, attempt = connection.host, connect.attempt
        identities = identities_of(auth_ids, host)
        connection.local_session = Session(
            *opened, 0, 0, {}, attempt, host, auth_ids, ServerId(0), False, identities
        )
        connection.enter(Phase.READ_ONLY)
        self._send_queues.send_connect_reply(connection, timeout_ms, state.zxid, 0)
        return True

    def reject_writes(
        self, requests: Sequence[Request | CheckWatches | RejectedRequest]
    ) -> list[LocalRequest]:
        """Replace the requests that need a leader by their refusals."""
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
