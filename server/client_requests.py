"""The clients of one server: frames in, replies and events out, in each session's own order.

ZooKeeper: `ServerCnxn`, `CommitProcessor`, `FinalRequestProcessor`. Paper, section 4.4.

Invariants: the requests of a session are answered in the order they came; a read waits for the
session's own earlier writes; an event is queued before any reply that could show the state it
announces; a write that was applied is answered from the table of outcomes, never done twice.
"""

from collections.abc import Iterable, Sequence

from raykeeper.server import server_trace_events
from raykeeper.server.client_send_queues import FRAME_BYTES_MAX, ClientSendQueues
from raykeeper.server.connection import Connection, LocalRequest, PendingSync, RejectedRequest
from raykeeper.server.context import ServerContext
from raykeeper.server.dead_clients import DeadClients
from raykeeper.server.effects import CloseClient, SendClient
from raykeeper.server.peer_messages import ForwardConnect, ForwardedWrite, OwnedSession
from raykeeper.server.read_only_mode import ReadOnlyMode
from raykeeper.server.read_processor import ReadProcessor
from raykeeper.server.slow_requests import SlowRequests
from raykeeper.zab.effects import TraceEvent
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
    ClientFrame,
    Connect,
    Read,
    Request,
    SessionId,
    Sync,
    Write,
    decode_client_frame,
    has_passwords,
)
from raykeeper.znodes.txns import CreateSessionErrorTxn, CreateSessionTxn, Txn, WriteOutcome


class ClientRequests:
    """All connections of this server, by number and by session.

    `forwards`, `connects` and `syncs` collect what must go to the leader at the end of the step,
    and so does `departures`.
    """

    def __init__(self, context: ServerContext) -> None:
        self.forwards: list[ForwardedWrite] = []
        self.connects: list[ForwardConnect] = []
        self.syncs: list[PendingSync] = []
        self.dead_clients = DeadClients(context)
        self.is_serving_reads = False
        self.slow_requests = SlowRequests(context)
        self._context = context
        self._by_number: dict[int, Connection] = {}
        self._by_session: dict[SessionId, Connection] = {}
        self._send_queues = ClientSendQueues(context)
        self._push = self._send_queues.push
        self._read_processor = ReadProcessor(context, self._send_queues)
        self.read_only = ReadOnlyMode(
            context, self._by_number, self._send_queues, self._close_connection
        )
        self._touched: list[Connection] = []
        # Closed in this step: what else their clients sent may still wait in it.
        self._closed_in_step: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def outstanding(self) -> int:
        """Requests that have arrived and are not answered."""
        return sum(len(connection.requests) for connection in self._by_number.values())

    @property
    def has_work(self) -> bool:
        """Whether a long answer could go on right now."""
        return self._send_queues.has_work

    # From the client.

    def on_frame(self, number: int, data: bytes, host: str = "") -> None:
        """A frame of a client, the first one being Connect; a malformed one ends the link.

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
            self._by_number[number] = connection = Connection(number, frame, host)
            self._update_windows()
            if not self.read_only.admit(connection):
                self.connects.append(ForwardConnect(number, frame, host))
        elif connection is None or not (connection.session_id or connection.local_session):
            self._reject_malformed(number, "requests before a session")
        else:
            self._take_requests(connection, frame)

    def on_disconnect(self, number: int) -> None:
        """The link is closed; the session lives on until it is taken up or expires."""
        connection = self._by_number.get(number)
        if connection is not None:
            self._remove(connection)

    def on_process_died(self, number: int) -> None:
        """The process at the other end of a link is dead, and so is the link."""
        self.on_disconnect(number)
        self.dead_clients.on_process_died(number)

    def on_bytes_sent(self, number: int, size: int) -> None:
        """The client took so many bytes."""
        connection = self._by_number.get(number)
        if connection is not None:
            self._send_queues.on_bytes_sent(connection, size)

    def _take_requests(self, connection: Connection, frame: ClientFrame) -> None:
        now = self._context.now.mono
        connection.heartbeat_seq = max(connection.heartbeat_seq, frame.heartbeat_seq)
        if not connection.is_touched:
            connection.is_touched = True
            self._touched.append(connection)
        session_id, owner = connection.session_id, connection.owner_zxid
        queue = connection.requests
        session = self._context.state.sessions.get(session_id)
        applied = session.last_number if session is not None else 0
        requests: Sequence[Request | RejectedRequest] = frame.requests
        if connection.local_session is not None:
            requests = self.read_only.reject_writes(frame.requests)
            self._send_queues.schedule_flush(connection)  # nobody else confirms its heartbeats
        for request in requests:
            if type(request) is Write:  # `isinstance` takes far longer where it does not hold
                queue.append((request, now))
                if request.number > applied and not connection.is_holding:
                    connection.last_forwarded = request.number
                    self.forwards.append(ForwardedWrite(session_id, owner, request))
            elif type(request) is Sync or (isinstance(request, Read) and request.linearizable):
                sync = PendingSync(request, connection)
                queue.append((sync, now))
                self.syncs.append(sync)
                connection.is_holding = True
            elif connection.is_full or not (self.is_serving_reads or connection.local_session):
                queue.append((request, now))
                connection.is_holding = True
            elif queue:
                queue.append((request, now))
            else:
                self._reply(connection, request)
        if queue:
            self._drain(connection)
            if len(queue) > self._context.options.queued_requests_max:
                self._context.out.append(
                    TraceEvent(server_trace_events.CLIENT_OVERRUN, connection.number)
                )
                self._close_connection(connection, Code.CONNECTION_LOSS)

    def _reject_malformed(self, number: int, reason: str) -> None:
        self._context.out.append(TraceEvent(server_trace_events.CLIENT_MALFORMED, (number, reason)))
        connection = self._by_number.get(number)
        if connection is not None:
            self._close_connection(connection, Code.CONNECTION_LOSS)
            return
        self._send(number, CloseFrame(Code.CONNECTION_LOSS))
        self._close_link(number)

    # From the replicated state.

    def on_session_created(self, zxid: Zxid, change: CreateSessionTxn) -> None:
        """A session was opened or moved: answer if it was for us, fence whoever had it before."""
        number = self._own_connection_number(change)
        connection = self._by_number.get(number)
        self.dead_clients.on_session_created(change.session_id, zxid, number)
        before = self._by_session.get(change.session_id)
        if before is not None and before is not connection:
            self._context.out.append(
                TraceEvent(server_trace_events.SESSION_FENCED, (change.session_id, before.number))
            )
            self._close_connection(before, Code.SESSION_MOVED)
        if connection is None:
            return
        is_new = not connection.session_id
        connection.session_id = change.session_id
        connection.owner_zxid = zxid
        self._by_session[change.session_id] = connection
        if is_new:
            self._accept_session(connection, zxid, change)
        else:
            # Forwarded twice, around a change of leader: what went out under the first owner
            # number is refused by the leader.
            self._forward_again(connection)

    def _own_connection_number(self, change: CreateSessionTxn | CreateSessionErrorTxn) -> int:
        """The number of the connection that asked, 0 if it is another server's."""
        is_ours = change.server_id == self._context.peer.settings.server_id
        return change.connection if is_ours else 0

    def _accept_session(self, connection: Connection, zxid: Zxid, change: CreateSessionTxn) -> None:
        if connection.connect.last_zxid > zxid:
            # Such a zxid was never committed here: the client comes from another ensemble.
            self._close_connection(connection, Code.CONNECTION_LOSS)
            return
        session = self._context.state.sessions.get(change.session_id)
        last = session.last_number if session is not None else 0
        self._send_queues.send_connect_reply(connection, change.timeout_ms, zxid, last)

    def on_session_refused(self, change: CreateSessionErrorTxn) -> None:
        """A session could not be taken up."""
        number = self._own_connection_number(change)
        connection = self._by_number.get(number)
        if connection is None or connection.session_id:
            self.dead_clients.on_session_refused(number)
            return
        zxid = self._context.state.zxid
        refusal = ConnectReply(change.code, SessionId(0), Millis(0), zxid, 0)
        self._send(connection.number, refusal)
        self._close_link(connection.number)
        self._remove(connection)
        self.dead_clients.on_session_refused(connection.number)

    def on_session_closed(self, session_id: SessionId, txn: Txn, outcome: WriteOutcome) -> None:
        """A session has ended: its client learns it, and its reply if it asked for it."""
        self.dead_clients.on_session_closed(session_id)
        connection = self._by_session.get(session_id)
        if connection is None:
            return
        head = connection.requests[0][0] if connection.requests else None
        # Behind a read that is held it is not answered: nobody can answer the read any more, and
        # replies come in order. That the session is over is all there is to tell.
        is_next = isinstance(head, Write) and head.number == txn.number
        if is_next and txn.session_id == session_id:
            self._push(connection, _write_reply(txn.number, outcome))
        self._close_connection(connection, Code.SESSION_EXPIRED)

    def on_write_applied(self, txn: Txn) -> None:
        """A numbered write was applied: answer it if it came through us, and what waited."""
        connection = self._by_session.get(txn.session_id)
        if connection is None or not connection.requests:
            return
        queue = connection.requests
        request, arrived = queue[0]
        if not isinstance(request, Write) or request.number != txn.number:
            return  # behind a read that is held; answered as a repeat when it is its turn
        queue.popleft()
        self.slow_requests.observe(connection.session_id, "write", txn.number, arrived)
        session = self._context.state.sessions.by_id[txn.session_id]
        self._push(connection, _write_reply(txn.number, session.reply_cache[txn.number]))
        if queue and not isinstance(queue[0][0], Write):
            self._drain(connection)

    def send_watcher_event(self, number: int, event: WatcherEvent) -> None:
        """A watch of connection `number` was triggered."""
        connection = self._by_number[number]
        connection.frame_bytes += values_size((event.old, event.new))
        self._push(connection, event)
        if connection.frame_bytes > FRAME_BYTES_MAX and not event.more:
            self._send_queues.flush(connection)

    def identities_of(self, number: int) -> Identities:
        """As whom the ACLs know a connection; one whose session has just ended is nobody."""
        connection = self._by_number[number]
        session = connection.local_session or self._context.state.sessions.get(
            connection.session_id
        )
        return () if session is None else session.identities

    def on_state_replaced(self) -> None:
        """The tree was replaced: end what is no longer, answer what has been applied."""
        sessions = self._context.state.sessions
        for connection in list(self._by_session.values()):
            session = sessions.get(connection.session_id)
            if session is None:
                self._close_connection(connection, Code.SESSION_EXPIRED)
            elif session.owner_zxid != connection.owner_zxid:
                self._close_connection(connection, Code.CONNECTION_LOSS)
        self.dead_clients.on_state_replaced()
        self.resume_all()

    # From the leader.

    def on_heartbeats_confirmed(
        self, beats: list[tuple[Connection, int]], rejected: list[SessionId]
    ) -> None:
        """The leader confirmed heartbeats: the clients may count on their sessions again."""
        gone = frozenset(rejected)
        for connection, beat in beats:
            session_id = connection.session_id  # 0 when the connection is gone
            if session_id and session_id not in gone and beat > connection.confirmed_heartbeat:
                connection.confirmed_heartbeat = beat
                self._send_queues.schedule_flush(connection)

    def on_write_gap(self, session_id: SessionId, owner: Zxid) -> None:
        """The leader met a write whose predecessor it never saw."""
        connection = self._by_session.get(session_id)
        if connection is not None and connection.owner_zxid == owner:
            self._context.out.append(TraceEvent(server_trace_events.WRITE_GAP, session_id))
            self._close_connection(connection, Code.CONNECTION_LOSS)

    def take_touched(self) -> tuple[list[OwnedSession], list[tuple[Connection, int]]]:
        """The sessions heard since the last call, and which connection and beat each stands for."""
        touches, beats = [], []
        for connection in self._touched:
            connection.is_touched = False
            if connection.session_id:
                touches.append(OwnedSession(connection.session_id, connection.owner_zxid))
                beats.append((connection, connection.heartbeat_seq))
        self._touched = []
        return touches, beats

    def forward_all(self) -> None:
        """There is a new leader: everything unanswered goes to it, in order."""
        self.forwards = []
        self.connects = []
        self.syncs = []
        self.dead_clients.report_all()
        for connection in self._by_number.values():
            if connection.session_id:
                self._forward_again(connection)
                if not connection.is_touched:
                    connection.is_touched = True
                    self._touched.append(connection)
            else:
                number, host = connection.number, connection.host
                self.connects.append(ForwardConnect(number, connection.connect, host))

    def resume_all(self) -> None:
        """Answer whatever may be answered now, on every connection."""
        for connection in list(self._by_number.values()):
            self._resume(connection)

    def on_read_index(self, syncs: Iterable[PendingSync], zxid: Zxid) -> None:
        """The read point of these syncs; the commits up to it came before it on the same link."""
        for sync in syncs:
            sync.read_index = zxid
            self._resume(sync.connection)

    def resume_caught_up(self) -> None:
        """Go on with what waited for clients to take what they were sent."""
        if self._send_queues.has_work:
            for connection in self._send_queues.send_queued():
                self._resume(connection)

    def flush(self) -> None:
        """End of the step: everything that was queued for a client leaves in one frame each."""
        outgoing = self._send_queues
        outgoing.flush_all()
        if outgoing.overrun_connections:
            for connection in dict.fromkeys(outgoing.overrun_connections):
                if connection.is_full:  # it may have ended meanwhile
                    self._context.out.append(
                        TraceEvent(server_trace_events.CLIENT_OVERRUN, connection.number)
                    )
                    self._close_connection(connection, Code.CONNECTION_LOSS)
            outgoing.overrun_connections = []
        self._closed_in_step = {}
        self.slow_requests.emit()

    # Within.

    def _resume(self, connection: Connection) -> None:
        if connection.requests:
            self._drain(connection)
            if connection.is_holding:
                self._forward(connection)

    def _forward_again(self, connection: Connection) -> None:
        session = self._context.state.sessions.get(connection.session_id)
        connection.last_forwarded = session.last_number if session is not None else 0
        self._forward(connection)
        for request, _ in connection.requests:
            if isinstance(request, PendingSync) and request.read_index is None:
                self.syncs.append(request)

    def _forward(self, connection: Connection) -> None:
        """Send the leader the writes, but none that could overtake an earlier request.

        A read that waits only for writes is answered between two of them; one that is held, or
        stands behind a sync, would see the writes of its own session that came after it.
        """
        connection.is_holding = False
        for request, _ in connection.requests:
            if isinstance(request, Write):
                if request.number > connection.last_forwarded:
                    connection.last_forwarded = request.number
                    self.forwards.append(
                        ForwardedWrite(connection.session_id, connection.owner_zxid, request)
                    )
            elif (
                isinstance(request, PendingSync) or not self.is_serving_reads or connection.is_full
            ):
                connection.is_holding = True
                return

    def _drain(self, connection: Connection) -> None:
        """Answer from the head of the queue as far as possible; a sync may release writes."""
        queue = connection.requests
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
                self.slow_requests.observe(connection.session_id, "sync", request.xid, arrived)
                if isinstance(read, Read):
                    self._reply(connection, read)
                else:
                    self._push(connection, EmptyReply(request.xid, self._context.state.zxid))
            elif self._must_read_wait(connection):
                connection.is_holding = True
                break
            else:
                is_released = is_released or connection.is_holding
                self._reply(connection, request)
            if queue:
                queue.popleft()
        if is_released:
            self._forward(connection)

    def _must_read_wait(self, connection: Connection) -> bool:
        """Whether the read at the head of the queue must wait.

        For a client that does not take its answers it waits only while no write behind it has been
        forwarded: it would see that one.
        """
        if not (self.is_serving_reads or connection.local_session):
            return True
        if not connection.is_full:
            return False
        session = self._context.state.sessions.get(connection.session_id)
        return session is None or connection.last_forwarded <= session.last_number

    def _reply_to_repeated_write(self, connection: Connection, write: Write) -> bool:
        """Answer a write that has been applied before; False when it has not."""
        session = self._context.state.sessions.get(connection.session_id)
        if session is None or write.number > session.last_number:
            return False
        outcome = session.reply_cache.get(write.number)
        if outcome is None:
            # The client said it has this outcome, and asks again.
            self._context.out.append(
                TraceEvent(server_trace_events.CLIENT_MALFORMED, (connection.number, "repeat"))
            )
            self._close_connection(connection, Code.CONNECTION_LOSS)
        else:
            self._push(connection, _write_reply(write.number, outcome))
        return True

    def _reply(self, connection: Connection, request: LocalRequest) -> None:
        self._read_processor.process(connection, request)
        if connection.frame_bytes > FRAME_BYTES_MAX:
            self._send_queues.flush(connection)

    def _send(self, number: int, frame: ConnectReply | CloseFrame) -> None:
        self._context.out.append(SendClient(number, encode_server_frame(frame)))

    def _close_connection(self, connection: Connection, code: Code) -> None:
        """Close the link after what was queued for it and the reason."""
        if connection.is_dirty:
            self._send_queues.flush(connection)
        self._send(connection.number, CloseFrame(code))
        self._close_link(connection.number)
        self._remove(connection)

    def _close_link(self, number: int) -> None:
        self._context.out.append(CloseClient(number))
        self._closed_in_step[number] = None

    def _remove(self, connection: Connection) -> None:
        self._by_number.pop(connection.number, None)
        self._update_windows()
        if self._by_session.get(connection.session_id) is connection:
            del self._by_session[connection.session_id]
        self._context.watches.drop(connection.number)
        self.dead_clients.on_connection_removed(connection)
        connection.session_id = SessionId(0)
        connection.requests.clear()
        self._send_queues.drop(connection)

    def _update_windows(self) -> None:
        options, limits = self._context.options, self._context.limits
        share = options.outstanding_requests_max // max(len(self._by_number), 1)
        self._send_queues.window = max(1, min(share, limits.outcomes_max))


def _write_reply(number: int, outcome: WriteOutcome) -> WriteReply:
    return WriteReply(
        number, outcome.zxid, outcome.code, outcome.path, outcome.stat, outcome.results
    )
