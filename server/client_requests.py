"""The clients of one server: frames in, replies and events out, in each session's own order.

ZooKeeper: `ServerCnxn`, `CommitProcessor`, `FinalRequestProcessor`. Paper, section 4.4. The
lifecycle of a connection is the table in `connection.py`.

Invariants: the requests of a session are answered in the order in which they came; a read waits for
the session's own earlier writes; an event is queued before any reply that could show the state it
announces; a write that was applied is answered from the session's reply cache, never done twice.

The file is long because the order of a session's requests depends on all that can happen to its
connection.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, get_args

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.admin_tables import AdminTables
from raykeeper.server.client_drain import REFUSAL, ClientDrain
from raykeeper.server.client_send_queues import FRAME_BYTES_MAX, ClientSendQueues
from raykeeper.server.connection import (
    CheckWatches,
    Connection,
    LocalRequest,
    PendingSync,
    Phase,
    RejectedRequest,
    SendState,
)
from raykeeper.server.connection_stats import ConnectionStats, connection_stats
from raykeeper.server.context import ServerContext
from raykeeper.server.dead_clients import DeadClients
from raykeeper.server.effects import CloseClient, SendClient
from raykeeper.server.four_letter_words import FourLetterWords
from raykeeper.server.jute_clients import JuteClients
from raykeeper.server.read_only_mode import ReadOnlyMode
from raykeeper.server.read_processor import ReadProcessor
from raykeeper.server.request_counts import CLOSE_SESSION, CONNECT, SYNC, kind_of_op
from raykeeper.server.server_metrics import ServerMetrics, collect_metrics
from raykeeper.server.slow_requests import SlowRequests
from raykeeper.server.stats import ServerStats, collect_stats
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Identities
from raykeeper.znodes.change_log import values_size
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    WatcherEvent,
    WriteReply,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    Connect,
    Read,
    Request,
    SessionId,
    Sync,
    Write,
    decode_client_frame,
    has_passwords,
)
from raykeeper.znodes.txns import (
    CreateSessionErrorTxn,
    CreateSessionTxn,
    ReconfigErrorTxn,
    Txn,
    WriteOutcome,
)

RETURNS_AT_ONCE: Final = 20
"""So many clients of a lost server may all return at once: that takes less than the election."""
RETURN_US: Final = 500
"""The other servers take one client more after so long, about."""
_READS: Final = frozenset(get_args(Read))


class ClientRequests:
    """The connections of this server, by number and by session."""

    def __init__(self, context: ServerContext) -> None:
        self.dead_clients = DeadClients(context)
        self.is_serving_reads = False
        self.slow_requests = SlowRequests(context)
        self._context = context
        self._counters = context.counters
        self._read_times = context.counters.reads
        self._updates_by_ms = context.counters.updates.by_ms
        self._slow_ms = context.options.slow_request_ms
        self._counts = context.counters.requests
        self._written = context.counters.requests.written
        self._leader_outbox = context.leader_outbox
        self._by_number: dict[int, Connection] = {}
        self._by_session: dict[SessionId, Connection] = {}
        self._send_queues = ClientSendQueues(context)
        self._push = self._send_queues.push
        self._read_processor = ReadProcessor(context, self._send_queues)
        self.read_only = ReadOnlyMode(
            context, self._by_number, self._send_queues, self.close_connection
        )
        self.drain = ClientDrain(context, self._by_number, self._send_queues, self.close_connection)
        """Moves the clients to other servers, if an operator says so."""
        self.jute = JuteClients(
            context,
            FourLetterWords(context, self.read_only, self._by_number),
            self.open_connection,
            self.take_requests,
            self.close_connection,
        )
        """The clients of ZooKeeper's protocol."""
        self.tables = AdminTables(context, self._by_number, self._by_session, self.stats)
        """What operators may ask."""
        # Numbers closed in this step: the same step may hold more frames of their clients.
        self._closed_in_step: dict[int, None] = {}

    def stats(self) -> ServerStats:
        """Return the statistics of this server."""
        return collect_stats(
            self._context, self._by_number.values(), self.read_only, self.drain.clients_to_move
        )

    def metrics(self) -> ServerMetrics:
        """Return the metrics of this server."""
        return collect_metrics(self._context, self._by_number.values(), self.read_only)

    def connection_stats(self) -> list[ConnectionStats]:
        """Return what is known of each connection."""
        return [connection_stats(self._context, each) for each in self._by_number.values()]

    @property
    def has_work(self) -> bool:
        """Whether frames that waited can leave right now."""
        return self._send_queues.has_work or self.jute.has_work

    # From the client.

    def on_frame(self, number: int, data: bytes, host: str = "") -> None:
        """Take a client's frame, of which the first is Connect; a malformed one closes the link.

        `host` is the address it comes from, as far as the carrier can tell.
        """
        if number in self._closed_in_step:
            return
        connection = self._by_number.get(number)
        try:
            frame = decode_client_frame(data)
        except DECODE_ERRORS as error:
            self._reject_malformed(number, str(error))
            return
        if isinstance(frame, Connect):
            if connection is not None or not has_passwords(frame):
                self._reject_malformed(number, "unexpected Connect")
                return
            self.open_connection(Connection(number, frame, host))
        elif connection is None or connection.phase is Phase.CONNECTING:
            self._reject_malformed(number, "requests before a session")
        else:
            connection.packets_received += len(frame.requests) or 1
            self.take_requests(connection, frame.heartbeat_seq, frame.requests)

    def open_connection(self, connection: Connection) -> None:
        """Ask for the session of a connection that has just been opened."""
        self._by_number[connection.number] = connection
        connection.opened_at = self._context.now.wall
        self._update_windows()
        if self.drain.is_draining:
            self._refuse(connection, Code.CONNECTION_LOSS, REFUSAL)
            return
        if self._refuse_as_stranger(connection) or self.read_only.admit(connection):
            return
        if connection.translator is not None and self.read_only.is_leaderless:
            self.close_connection(connection, Code.CONNECTION_LOSS)
        else:
            self._leader_outbox.add_connect(connection)

    def _refuse_as_stranger(self, connection: Connection) -> bool:
        """Send a client to the members unless this server is one; return whether it was sent.

        A server that waits to be added, or was removed, may be gone at any time.
        """
        settings = self._context.peer.settings
        members, me = settings.members.newest, settings.server_id
        if me in members.voters or me in members.observers:
            return False
        self._refuse(connection, Code.CONNECTION_LOSS, f"server {me} is no member of the ensemble")
        return True

    def _refuse(self, connection: Connection, code: int, detail: str) -> None:
        """Tell a connection that it gets no session here, and close it."""
        self._counts.count(CONNECT, code)
        zxid, members = self._context.state.zxid, self._context.peer.settings.members.newest
        told = SessionId(0), Millis(0), zxid, 0
        reply = ConnectReply(code, *told, detail=detail, members=members)
        self._send_queues.send(connection, reply)
        self._close_link(connection.number)
        self._remove(connection)

    def on_disconnect(self, number: int) -> None:
        """Remove a connection whose link is closed; its session lives on until it expires."""
        connection = self._by_number.get(number)
        if connection is not None:
            self._remove(connection)
        else:
            self.jute.discard(number)

    def on_process_died(self, number: int) -> None:
        """Remove the connection of a dead process, and have the leader end its session."""
        self.on_disconnect(number)
        self.dead_clients.on_process_died(number)

    def on_bytes_sent(self, number: int, size: int) -> None:
        """Count `size` bytes that the client took."""
        connection = self._by_number.get(number)
        if connection is not None:
            self._send_queues.on_bytes_sent(connection, size)

    def take_requests(
        self,
        connection: Connection,
        heartbeat_seq: int,
        requests: Sequence[Request | CheckWatches | RejectedRequest],
    ) -> None:
        """Take requests of a client that has its session, and the heartbeat that they stand for."""
        now = self._context.now.mono
        connection.heartbeat_seq = max(connection.heartbeat_seq, heartbeat_seq)
        queue = connection.requests
        if connection.phase is Phase.READ_ONLY:
            requests = self.read_only.reject_writes(requests)
            self._send_queues.schedule_flush(connection)  # no leader confirms its heartbeats
        else:
            self._leader_outbox.touch(connection)
        if not requests and not queue:
            return  # a heartbeat
        applied, waiting = self._last_applied(connection), len(queue)
        # `_can_read` for each request, without a call: a reply may block only what is sent.
        serves, is_open = self._serves_reads(connection), SendState.OPEN
        process = self._read_processor.by_type
        types: list[type] = list(map(type, requests))
        request: Any  # narrowed by its type, which `isinstance` would look up once more
        for request, kind in zip(requests, types, strict=True):
            if kind is Write:
                queue.append((request, now))
                if request.number > applied and not connection.are_writes_held:
                    self._leader_outbox.add_write(connection, request)
            elif kind is Sync or (kind in _READS and request.linearizable):
                sync = PendingSync(request, connection)
                queue.append((sync, now))
                self._leader_outbox.add_sync(sync)
                connection.are_writes_held = True
            elif not serves or connection.send_state is not is_open:
                queue.append((request, now))
                connection.are_writes_held = True
            elif queue:
                queue.append((request, now))
            else:
                process[kind](connection, request)
                if connection.frame_bytes > FRAME_BYTES_MAX:
                    self._send_queues.flush(connection)
        answered = len(requests) - len(queue) + waiting
        if answered:  # they stand before the others: behind one that waits, all wait
            self._read_times.by_ms[0] += answered
            self._counts.count_local(types[:answered])
        if queue:
            self._drain(connection)
            if len(queue) > self._context.options.queued_requests_max:
                self._context.trace(trace_events.CLIENT_OVERRUN, connection.number)
                self.close_connection(connection, Code.CONNECTION_LOSS)

    def _reject_malformed(self, number: int, reason: str) -> None:
        self._context.trace(trace_events.CLIENT_MALFORMED, (number, reason))
        connection = self._by_number.get(number)
        if connection is not None:
            self.close_connection(connection, Code.CONNECTION_LOSS)
            return
        closing = encode_server_frame(CloseFrame(Code.CONNECTION_LOSS))
        self._context.out.append(SendClient(number, closing))
        self._close_link(number)

    # From the replicated state.

    def on_session_created(self, zxid: Zxid, change: CreateSessionTxn) -> None:
        """Give a created or moved session to the connection that asked; fence the one before."""
        number = self._own_connection_number(change)
        connection = self._by_number.get(number)
        self.dead_clients.on_session_created(change.session_id, zxid, number)
        before = self._by_session.get(change.session_id)
        if before is not None and before is not connection:
            self._context.trace(trace_events.SESSION_FENCED, (change.session_id, before.number))
            self.close_connection(before, Code.SESSION_MOVED)
        if connection is None:
            return
        if connection.phase is Phase.READ_ONLY:
            # A leader took the Connect and was lost, and read-only mode began before its commit
            # was delivered. Only a new Connect can give the client the session.
            self.close_connection(connection, Code.CONNECTION_LOSS)
            return
        is_new = connection.phase is Phase.CONNECTING
        connection.enter(Phase.CONNECTED)
        connection.session_id = change.session_id
        connection.owner_zxid = zxid
        self._by_session[change.session_id] = connection
        if is_new:
            self._accept_session(connection, zxid, change)
        else:
            # The Connect was forwarded twice, around a change of leader. The leader refuses the
            # writes that were forwarded under the first owner zxid.
            self._forward_again(connection)

    def _own_connection_number(self, change: CreateSessionTxn | CreateSessionErrorTxn) -> int:
        """Return the number of the connection that asked, 0 if it is another server's."""
        is_ours = change.server_id == self._context.peer.settings.server_id
        return change.connection if is_ours else 0

    def _accept_session(self, connection: Connection, zxid: Zxid, change: CreateSessionTxn) -> None:
        if connection.connect.last_zxid > zxid:
            # Such a zxid was never committed here: the client comes from another ensemble.
            self.close_connection(connection, Code.CONNECTION_LOSS)
            return
        last = self._last_applied(connection)
        self._send_queues.send_connect_reply(connection, change.timeout_ms, zxid, last)

    def on_session_refused(self, change: CreateSessionErrorTxn) -> None:
        """Tell the connection that asked for a session that it cannot have it, and close it."""
        number = self._own_connection_number(change)
        connection = self._by_number.get(number)
        if connection is not None and connection.phase is Phase.READ_ONLY:
            self.close_connection(connection, Code.CONNECTION_LOSS)
        elif connection is not None and connection.phase is Phase.CONNECTING:
            self._refuse(connection, change.code, _refusal_detail(change.sessions_max))
        self.dead_clients.on_session_refused(number)

    def on_session_closed(self, session_id: SessionId, txn: Txn, outcome: WriteOutcome) -> None:
        """Close the connection of a session that has ended, after the reply to its own close."""
        self.dead_clients.on_session_closed(session_id)
        connection = self._by_session.get(session_id)
        if connection is None:
            return
        head = connection.requests[0][0] if connection.requests else None
        # A close behind a read that waits gets no reply: replies come in order, and no server can
        # answer a read of a session that has ended.
        is_next = isinstance(head, Write) and head.number == txn.number
        if is_next and txn.session_id == session_id:
            self._counts.count(CLOSE_SESSION, outcome.code)
            self._push(connection, _write_reply(txn.number, outcome))
        self.close_connection(connection, Code.SESSION_EXPIRED)

    def on_write_applied(self, txn: Txn) -> None:
        """Answer an applied write if it came through this server, and the reads behind it."""
        connection = self._by_session.get(txn.session_id)
        if connection is None or not connection.requests:
            return
        queue = connection.requests
        request, arrived = queue[0]
        if type(request) is not Write or request.number != txn.number:
            return  # it stands behind a read that waits; `_drain` answers it as a repeat
        queue.popleft()
        context = self._context
        took = context.now.mono - arrived
        try:  # every write comes here
            self._updates_by_ms[took] += 1
        except IndexError:
            self._counters.updates.observe(took)
        if took > self._slow_ms:
            session_id, zxid = connection.session_id, context.state.zxid
            self.slow_requests.observe(session_id, "write", txn.number, arrived, zxid)
        session = context.state.sessions.by_id[txn.session_id]
        outcome = session.reply_cache[txn.number]
        try:
            self._written[type(txn.body)] += 1
        except KeyError:  # an error
            self._counts.count(kind_of_op(request.op), outcome.code)
            if type(txn.body) is ReconfigErrorTxn:
                reason = connection.number, outcome.path
                context.trace(trace_events.RECONFIG_REFUSED, reason)
        self._push(connection, _write_reply(txn.number, outcome))
        if queue and not isinstance(queue[0][0], Write):
            self._drain(connection)

    def send_watcher_event(self, number: int, event: WatcherEvent) -> None:
        """Queue the event of a watch of connection `number`."""
        connection = self._by_number[number]
        if event.old is not None or event.new is not None:  # seldom, and thousands may be told
            connection.frame_bytes += values_size((event.old, event.new))
        self._send_queues.push_event(connection, event)
        if connection.frame_bytes > FRAME_BYTES_MAX and not event.more:
            self._send_queues.flush(connection)

    def identities_of(self, number: int) -> Identities:
        """Return the identities of a connection for ACLs; none when its session has just ended."""
        connection = self._by_number[number]
        session = connection.local_session or self._context.state.sessions.get(
            connection.session_id
        )
        return () if session is None else session.identities

    def on_state_replaced(self) -> None:
        """Close connections whose session has ended or moved; answer what was applied."""
        sessions = self._context.state.sessions
        for connection in list(self._by_session.values()):
            session = sessions.get(connection.session_id)
            if session is None:
                self.close_connection(connection, Code.SESSION_EXPIRED)
            elif session.owner_zxid != connection.owner_zxid:
                self.close_connection(connection, Code.CONNECTION_LOSS)
        self.dead_clients.on_state_replaced()
        self.resume_all()

    # From the leader.

    def on_heartbeats_confirmed(
        self, heartbeats: list[tuple[Connection, int]], rejected: list[SessionId]
    ) -> None:
        """Tell clients that the leader confirmed their heartbeats, except `rejected` sessions.

        Those are reported again: they end or move soon, or count as heard again by then.
        """
        unconfirmed = frozenset(rejected)
        for connection, heartbeat in heartbeats:
            if connection.phase is not Phase.CONNECTED:
                continue
            if connection.session_id in unconfirmed:
                self._leader_outbox.touch(connection)
            elif heartbeat > connection.confirmed_heartbeat:
                connection.confirmed_heartbeat = heartbeat
                self._send_queues.on_heartbeat_confirmed(connection)

    def on_write_gap(self, session_id: SessionId, owner_zxid: Zxid) -> None:
        """Close the connection of a write whose predecessor the leader never received."""
        connection = self._by_session.get(session_id)
        if connection is not None and connection.owner_zxid == owner_zxid:
            self._context.trace(trace_events.WRITE_GAP, session_id)
            self.close_connection(connection, Code.CONNECTION_LOSS)

    def forward_all(self) -> None:
        """Forward everything unanswered to a new leader, in order."""
        self._leader_outbox.take()  # all of it is collected again
        self.dead_clients.report_all()
        for connection in self._by_number.values():
            if connection.phase is Phase.CONNECTED:
                self._forward_again(connection)
                self._leader_outbox.touch(connection)
            else:
                assert connection.phase is Phase.CONNECTING, "an elected leader ends read-only mode"
                self._leader_outbox.add_connect(connection)

    def resume_all(self) -> None:
        """Answer the requests that may be answered now, on every connection."""
        for connection in list(self._by_number.values()):
            self._resume(connection)

    def on_read_index(self, syncs: Iterable[PendingSync], zxid: Zxid) -> None:
        """Set the read index of `syncs`; the commits up to it came before it on the same link."""
        for sync in syncs:
            sync.read_index = zxid
            self._resume(sync.connection)

    def resume_caught_up(self) -> None:
        """Send what waited for clients to read, and answer the reads of those that caught up."""
        if self._send_queues.has_work:
            for connection in self._send_queues.send_queued():
                self._resume(connection)
        self.jute.resume()

    def flush(self) -> None:
        """Send everything that was queued in this step, one frame for each client."""
        queues = self._send_queues
        queues.flush_all()
        if queues.overrun_connections:
            for connection in dict.fromkeys(queues.overrun_connections):
                if connection.send_state is not SendState.OPEN:  # not closed, nor caught up
                    self._context.trace(trace_events.CLIENT_OVERRUN, connection.number)
                    self.close_connection(connection, Code.CONNECTION_LOSS)
            queues.overrun_connections = []
        if self._context.jute_buffers.is_full:
            self.jute.close_largest()
        queues.release_held()
        self._closed_in_step = {}
        self.slow_requests.emit()

    # Within.

    def _last_applied(self, connection: Connection) -> int:
        """Return the number of the session's last applied write, 0 without a session."""
        session = self._context.state.sessions.get(connection.session_id)
        return session.last_number if session is not None else 0

    def _can_read(self, connection: Connection) -> bool:
        """Whether a read that nothing precedes is answered at once."""
        return self._serves_reads(connection) and connection.send_state is SendState.OPEN

    def _serves_reads(self, connection: Connection) -> bool:
        return self.is_serving_reads or connection.phase is Phase.READ_ONLY

    def _resume(self, connection: Connection) -> None:
        if connection.requests:
            self._drain(connection)
            if connection.are_writes_held:
                self._forward(connection)

    def _forward_again(self, connection: Connection) -> None:
        connection.last_forwarded = self._last_applied(connection)
        self._forward(connection)
        for request, _ in connection.requests:
            if isinstance(request, PendingSync) and request.read_index is None:
                self._leader_outbox.add_sync(request)

    def _forward(self, connection: Connection) -> None:
        """Forward the writes, but none that could overtake an earlier request.

        A read that waits only for writes is answered between two of them. Counterexample for other
        reads: a read held for a silent leader, then a write. Forwarded at once, the write could be
        applied before the read is answered, which would then see a later write of its own session.
        """
        connection.are_writes_held = False
        for request, _ in connection.requests:
            if isinstance(request, Write):
                if request.number > connection.last_forwarded:
                    self._leader_outbox.add_write(connection, request)
            elif isinstance(request, PendingSync) or not self._can_read(connection):
                connection.are_writes_held = True
                return

    def _drain(self, connection: Connection) -> None:
        """Answer from the head of the queue as far as possible, and forward the writes it held."""
        queue, now = connection.requests, self._context.now.mono
        is_released = False
        while queue:
            request, arrived = queue[0]
            if isinstance(request, Write):
                if not self._reply_to_repeated_write(connection, request):
                    break
            elif isinstance(request, PendingSync):
                if request.read_index is None or request.read_index > self._context.state.zxid:
                    break
                read = request.request
                if isinstance(read, Read) and self._must_read_wait(connection):
                    break
                is_released = True
                self._read_times.observe(now - arrived)
                session_id = connection.session_id
                self.slow_requests.observe(session_id, "sync", request.xid, arrived)
                if isinstance(read, Read):
                    self._counts.count_local([type(read)])
                    self._reply(connection, read)
                else:
                    self._counts.count(SYNC, Code.OK)
                    self._push(connection, EmptyReply(request.xid, self._context.state.zxid))
            elif self._must_read_wait(connection):
                connection.are_writes_held = True
                break
            else:
                is_released = is_released or connection.are_writes_held
                self._read_times.observe(now - arrived)
                self._counts.count_local([type(request)])
                self._reply(connection, request)
            if queue:
                queue.popleft()
        if is_released:
            self._forward(connection)

    def _must_read_wait(self, connection: Connection) -> bool:
        """Whether the read at the head of the queue must wait.

        If the client stops reading, its reads wait only while no write behind them is under way.
        Counterexample: a read that waits for its client would see a write of the same session that
        came after it, was forwarded before, and is applied meanwhile.
        """
        if self._can_read(connection):
            return False
        if not self.is_serving_reads and connection.phase is not Phase.READ_ONLY:
            return True
        return connection.last_forwarded <= self._last_applied(connection)

    def _reply_to_repeated_write(self, connection: Connection, write: Write) -> bool:
        """Answer a write that was applied before; return False if it was not."""
        session = self._context.state.sessions.get(connection.session_id)
        if session is None or write.number > session.last_number:
            return False
        outcome = session.reply_cache.get(write.number)
        if outcome is None:
            # The client acknowledged this reply before, and asks for it again.
            self._context.trace(trace_events.CLIENT_MALFORMED, (connection.number, "repeat"))
            self.close_connection(connection, Code.CONNECTION_LOSS)
        else:
            self._counts.count(kind_of_op(write.op), outcome.code)
            self._push(connection, _write_reply(write.number, outcome))
        return True

    def _reply(self, connection: Connection, request: LocalRequest) -> None:
        self._read_processor.process(connection, request)
        if connection.frame_bytes > FRAME_BYTES_MAX:
            self._send_queues.flush(connection)

    def close_connection(self, connection: Connection, code: Code) -> None:
        """Close the link, after the frames that were queued for it and the reason."""
        self._send_queues.flush_if_scheduled(connection)
        self._send_queues.send(connection, CloseFrame(code))
        self._close_link(connection.number)
        self._remove(connection)

    def close_all(self) -> None:
        """Close the links of all clients, which go on with another server."""
        for connection in [*self._by_number.values()]:
            self.close_connection(connection, Code.CONNECTION_LOSS)

    def _close_link(self, number: int) -> None:
        self._context.out.append(CloseClient(number))
        self._closed_in_step[number] = None

    def _remove(self, connection: Connection) -> None:
        self._by_number.pop(connection.number, None)
        self._counters.take_over(connection)
        if connection.translator is not None:
            self.jute.discard(connection.number)
        self._update_windows()
        if self._by_session.get(connection.session_id) is connection:
            del self._by_session[connection.session_id]
        self._context.watches.drop(connection.number)
        self.dead_clients.on_connection_removed(connection)
        connection.enter(Phase.CLOSED)
        connection.requests.clear()
        self._send_queues.drop(connection)

    def _update_windows(self) -> None:
        options, limits = self._context.options, self._context.limits
        clients = len(self._by_number)
        share = options.outstanding_requests_max // max(clients, 1)
        self._send_queues.window = max(1, min(share, limits.outcomes_max))
        self._send_queues.return_spread_ms = Millis(
            max(clients - RETURNS_AT_ONCE, 0) * RETURN_US // 1000
        )


def _refusal_detail(sessions_max: int) -> str:
    """Return what a person should know of a refused session; `sessions_max` 0 is another reason."""
    if not sessions_max:
        return ""
    return (
        f"the setting sessions_max is {sessions_max}, and the ensemble has as many sessions "
        "already; close some, or raise it in the settings of the ensemble"
    )


def _write_reply(number: int, outcome: WriteOutcome) -> WriteReply:
    return WriteReply(
        number, outcome.zxid, outcome.code, outcome.path, outcome.stat, outcome.results
    )
