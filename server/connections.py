"""The clients of one server: frames in, replies and events out, in each session's own order.

ZooKeeper: `ServerCnxn`, `CommitProcessor`, `FinalRequestProcessor`. Paper, section 4.4.

Invariants: the requests of a session are answered in the order they came; a read waits for the
session's own earlier writes; an event is queued before any reply that could show the state it
announces; a write that was applied is answered from the table of outcomes, never done twice.
"""

from collections.abc import Iterable, Sequence

from raykeeper.server import server_notes as notes
from raykeeper.server.answers import Answers
from raykeeper.server.connection import Connection, Denied, Local, PendingSync
from raykeeper.server.departures import Departures
from raykeeper.server.effects import CloseClient, SendClient
from raykeeper.server.outgoing import FRAME_BYTES_MAX, Outgoing
from raykeeper.server.peer_messages import ForwardConnect, ForwardedWrite, Touch
from raykeeper.server.read_only import ReadOnly
from raykeeper.server.server_context import ServerContext
from raykeeper.server.slow_requests import SlowRequests
from raykeeper.zab.effects import Note
from raykeeper.zab.errors import MALFORMED
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Identities
from raykeeper.znodes.errors import Code
from raykeeper.znodes.happenings import size_of
from raykeeper.znodes.replies import (
    Connected,
    Done,
    Ended,
    WatchFired,
    Written,
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
from raykeeper.znodes.txns import OpenRefused, Outcome, SessionOpened, Txn


class Connections:
    """All connections of this server, by number and by session.

    `forwards`, `connects` and `syncs` collect what must go to the leader at the end of the step,
    and so does `departures`.
    """

    def __init__(self, context: ServerContext) -> None:
        self.forwards: list[ForwardedWrite] = []
        self.connects: list[ForwardConnect] = []
        self.syncs: list[PendingSync] = []
        self.departures = Departures(context)
        self.is_serving = False
        self.slow = SlowRequests(context)
        self._context = context
        self._by_number: dict[int, Connection] = {}
        self._by_session: dict[SessionId, Connection] = {}
        self._outgoing = Outgoing(context)
        self._push = self._outgoing.push
        self._answers = Answers(context, self._outgoing)
        self.read_only = ReadOnly(context, self._by_number, self._outgoing, self._end)
        self._touched: list[Connection] = []
        # Closed in this step: what else their clients sent may still wait in it.
        self._closed: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def waiting(self) -> int:
        """Requests that have arrived and are not answered."""
        return sum(len(connection.queue) for connection in self._by_number.values())

    @property
    def wants_step(self) -> bool:
        """Whether a long answer could go on right now."""
        return self._outgoing.wants_step

    # From the client.

    def frame(self, number: int, data: bytes, host: str = "") -> None:
        """A frame of a client, the first one being Connect; a malformed one ends the link.

        `host` is the address it comes from, as far as the carrier can tell.
        """
        if number in self._closed:
            return
        connection = self._by_number.get(number)
        try:
            frame = decode_client_frame(data)
        except MALFORMED as error:
            self._malformed(number, str(error))
            return
        if isinstance(frame, Connect):
            if connection is not None or not has_passwords(frame):
                self._malformed(number, "unexpected Connect")
                return
            self._by_number[number] = connection = Connection(number, frame, host)
            self._share_out()
            if not self.read_only.admit(connection):
                self.connects.append(ForwardConnect(number, frame, host))
        elif connection is None or not (connection.session_id or connection.local):
            self._malformed(number, "requests before a session")
        else:
            self._requests(connection, frame)

    def gone(self, number: int) -> None:
        """The link is closed; the session lives on until it is taken up or expires."""
        connection = self._by_number.get(number)
        if connection is not None:
            self._forget(connection)

    def process_gone(self, number: int) -> None:
        """The process at the other end of a link is dead, and so is the link."""
        self.gone(number)
        self.departures.process_gone(number)

    def sent(self, number: int, size: int) -> None:
        """The client took so many bytes."""
        connection = self._by_number.get(number)
        if connection is not None:
            self._outgoing.sent(connection, size)

    def _requests(self, connection: Connection, frame: ClientFrame) -> None:
        now = self._context.now.mono
        connection.beat = max(connection.beat, frame.beat)
        if not connection.is_touched:
            connection.is_touched = True
            self._touched.append(connection)
        session_id, owner = connection.session_id, connection.owner
        queue = connection.queue
        session = self._context.state.sessions.get(session_id)
        applied = session.last_number if session is not None else 0
        requests: Sequence[Request | Denied] = frame.requests
        if connection.local is not None:
            requests = self.read_only.allowed(frame.requests)
            self._outgoing.mark(connection)  # nobody else confirms its heartbeats
        for request in requests:
            if type(request) is Write:  # `isinstance` takes far longer where it does not hold
                queue.append((request, now))
                if request.number > applied and not connection.is_holding:
                    connection.forwarded = request.number
                    self.forwards.append(ForwardedWrite(session_id, owner, request))
            elif type(request) is Sync or (isinstance(request, Read) and request.linearizable):
                sync = PendingSync(request, connection)
                queue.append((sync, now))
                self.syncs.append(sync)
                connection.is_holding = True
            elif connection.is_full or not (self.is_serving or connection.local):
                queue.append((request, now))
                connection.is_holding = True
            elif queue:
                queue.append((request, now))
            else:
                self._answer(connection, request)
        if queue:
            self._drain(connection)
            if len(queue) > self._context.options.queue_max:
                self._context.out.append(Note(notes.CLIENT_OVERRUN, connection.number))
                self._end(connection, Code.CONNECTION_LOSS)

    def _malformed(self, number: int, reason: str) -> None:
        self._context.out.append(Note(notes.CLIENT_MALFORMED, (number, reason)))
        connection = self._by_number.get(number)
        if connection is not None:
            self._end(connection, Code.CONNECTION_LOSS)
            return
        self._send(number, Ended(Code.CONNECTION_LOSS))
        self._close(number)

    # From the replicated state.

    def opened(self, zxid: Zxid, change: SessionOpened) -> None:
        """A session was opened or moved: answer if it was for us, fence whoever had it before."""
        number = self._ours(change)
        connection = self._by_number.get(number)
        self.departures.opened(change.session_id, zxid, number)
        before = self._by_session.get(change.session_id)
        if before is not None and before is not connection:
            self._context.out.append(Note(notes.SESSION_FENCED, (change.session_id, before.number)))
            self._end(before, Code.SESSION_MOVED)
        if connection is None:
            return
        is_new = not connection.session_id
        connection.session_id = change.session_id
        connection.owner = zxid
        self._by_session[change.session_id] = connection
        if is_new:
            self._connected(connection, zxid, change)
        else:
            # Forwarded twice, around a change of leader: what went out under the first owner
            # number is refused by the leader.
            self._forward_again(connection)

    def _ours(self, change: SessionOpened | OpenRefused) -> int:
        """The number of the connection that asked, 0 if it is another server's."""
        is_ours = change.server_id == self._context.peer.settings.server_id
        return change.connection if is_ours else 0

    def _connected(self, connection: Connection, zxid: Zxid, change: SessionOpened) -> None:
        if connection.connect.last_zxid > zxid:
            # Such a zxid was never committed here: the client comes from another ensemble.
            self._end(connection, Code.CONNECTION_LOSS)
            return
        session = self._context.state.sessions.get(change.session_id)
        last = session.last_number if session is not None else 0
        self._outgoing.welcome(connection, change.timeout_ms, zxid, last)

    def refused(self, change: OpenRefused) -> None:
        """A session could not be taken up."""
        number = self._ours(change)
        connection = self._by_number.get(number)
        if connection is None or connection.session_id:
            self.departures.refused(number)
            return
        zxid = self._context.state.zxid
        refusal = Connected(change.code, SessionId(0), Millis(0), zxid, 0)
        self._send(connection.number, refusal)
        self._close(connection.number)
        self._forget(connection)
        self.departures.refused(connection.number)

    def closed(self, session_id: SessionId, txn: Txn, outcome: Outcome) -> None:
        """A session has ended: its client learns it, and its reply if it asked for it."""
        self.departures.closed(session_id)
        connection = self._by_session.get(session_id)
        if connection is None:
            return
        head = connection.queue[0][0] if connection.queue else None
        # Behind a read that is held it is not answered: nobody can answer the read any more, and
        # replies come in order. That the session is over is all there is to tell.
        is_next = isinstance(head, Write) and head.number == txn.number
        if is_next and txn.session_id == session_id:
            self._push(connection, _written(txn.number, outcome))
        self._end(connection, Code.SESSION_EXPIRED)

    def applied(self, txn: Txn) -> None:
        """A numbered write was applied: answer it if it came through us, and what waited."""
        connection = self._by_session.get(txn.session_id)
        if connection is None or not connection.queue:
            return
        queue = connection.queue
        request, arrived = queue[0]
        if not isinstance(request, Write) or request.number != txn.number:
            return  # behind a read that is held; answered as a repeat when it is its turn
        queue.popleft()
        self.slow.answered(connection.session_id, "write", txn.number, arrived)
        session = self._context.state.sessions.by_id[txn.session_id]
        self._push(connection, _written(txn.number, session.outcomes[txn.number]))
        if queue and not isinstance(queue[0][0], Write):
            self._drain(connection)

    def fired(self, number: int, event: WatchFired) -> None:
        """A watch of connection `number` was triggered."""
        connection = self._by_number[number]
        connection.bytes += size_of((event.old, event.new))
        self._push(connection, event)
        if connection.bytes > FRAME_BYTES_MAX and not event.more:
            self._outgoing.flush(connection)

    def identities_of(self, number: int) -> Identities:
        """As whom the ACLs know a connection; one whose session has just ended is nobody."""
        connection = self._by_number[number]
        session = connection.local or self._context.state.sessions.get(connection.session_id)
        return () if session is None else session.identities

    def adopted(self) -> None:
        """The tree was replaced: end what is no longer, answer what has been applied."""
        sessions = self._context.state.sessions
        for connection in list(self._by_session.values()):
            session = sessions.get(connection.session_id)
            if session is None:
                self._end(connection, Code.SESSION_EXPIRED)
            elif session.owner != connection.owner:
                self._end(connection, Code.CONNECTION_LOSS)
        self.departures.adopted()
        self.resume()

    # From the leader.

    def confirmed(self, beats: list[tuple[Connection, int]], rejected: list[SessionId]) -> None:
        """The leader confirmed heartbeats: the clients may count on their sessions again."""
        gone = frozenset(rejected)
        for connection, beat in beats:
            session_id = connection.session_id  # 0 when the connection is gone
            if session_id and session_id not in gone and beat > connection.confirmed:
                connection.confirmed = beat
                self._outgoing.mark(connection)

    def gap(self, session_id: SessionId, owner: Zxid) -> None:
        """The leader met a write whose predecessor it never saw."""
        connection = self._by_session.get(session_id)
        if connection is not None and connection.owner == owner:
            self._context.out.append(Note(notes.WRITE_GAP, session_id))
            self._end(connection, Code.CONNECTION_LOSS)

    def take_touched(self) -> tuple[list[Touch], list[tuple[Connection, int]]]:
        """The sessions heard since the last call, and which connection and beat each stands for."""
        touches, beats = [], []
        for connection in self._touched:
            connection.is_touched = False
            if connection.session_id:
                touches.append(Touch(connection.session_id, connection.owner))
                beats.append((connection, connection.beat))
        self._touched = []
        return touches, beats

    def forward_all(self) -> None:
        """There is a new leader: everything unanswered goes to it, in order."""
        self.forwards = []
        self.connects = []
        self.syncs = []
        self.departures.tell_again()
        for connection in self._by_number.values():
            if connection.session_id:
                self._forward_again(connection)
                if not connection.is_touched:
                    connection.is_touched = True
                    self._touched.append(connection)
            else:
                number, host = connection.number, connection.host
                self.connects.append(ForwardConnect(number, connection.connect, host))

    def resume(self) -> None:
        """Answer whatever may be answered now, on every connection."""
        for connection in list(self._by_number.values()):
            self._resume(connection)

    def read_point(self, syncs: Iterable[PendingSync], zxid: Zxid) -> None:
        """The read point of these syncs; the commits up to it came before it on the same link."""
        for sync in syncs:
            sync.point = zxid
            self._resume(sync.connection)

    def advance(self) -> None:
        """Go on with what waited for clients to take what they were sent."""
        if self._outgoing.wants_step:
            for connection in self._outgoing.advance():
                self._resume(connection)

    def flush(self) -> None:
        """End of the step: everything that was queued for a client leaves in one frame each."""
        outgoing = self._outgoing
        outgoing.flush_all()
        if outgoing.overrun:
            for connection in dict.fromkeys(outgoing.overrun):
                if connection.is_full:  # it may have ended meanwhile
                    self._context.out.append(Note(notes.CLIENT_OVERRUN, connection.number))
                    self._end(connection, Code.CONNECTION_LOSS)
            outgoing.overrun = []
        self._closed = {}
        self.slow.tell()

    # Within.

    def _resume(self, connection: Connection) -> None:
        if connection.queue:
            self._drain(connection)
            if connection.is_holding:
                self._forward(connection)

    def _forward_again(self, connection: Connection) -> None:
        session = self._context.state.sessions.get(connection.session_id)
        connection.forwarded = session.last_number if session is not None else 0
        self._forward(connection)
        for request, _ in connection.queue:
            if isinstance(request, PendingSync) and request.point is None:
                self.syncs.append(request)

    def _forward(self, connection: Connection) -> None:
        """Send the leader the writes, but none that could overtake an earlier request.

        A read that waits only for writes is answered between two of them; one that is held, or
        stands behind a sync, would see the writes of its own session that came after it.
        """
        connection.is_holding = False
        for request, _ in connection.queue:
            if isinstance(request, Write):
                if request.number > connection.forwarded:
                    connection.forwarded = request.number
                    self.forwards.append(
                        ForwardedWrite(connection.session_id, connection.owner, request)
                    )
            elif isinstance(request, PendingSync) or not self.is_serving or connection.is_full:
                connection.is_holding = True
                return

    def _drain(self, connection: Connection) -> None:
        """Answer from the head of the queue as far as possible; a sync may release writes."""
        queue = connection.queue
        is_released = False
        while queue:
            request, arrived = queue[0]
            if isinstance(request, Write):
                if not self._repeat(connection, request):
                    break
            elif isinstance(request, PendingSync):
                if request.point is None or request.point > self._context.state.zxid:
                    break
                read = request.request
                if isinstance(read, Read) and self._is_held(connection):
                    break
                is_released = True
                self.slow.answered(connection.session_id, "sync", request.xid, arrived)
                if isinstance(read, Read):
                    self._answer(connection, read)
                else:
                    self._push(connection, Done(request.xid, self._context.state.zxid))
            elif self._is_held(connection):
                connection.is_holding = True
                break
            else:
                is_released = is_released or connection.is_holding
                self._answer(connection, request)
            if queue:
                queue.popleft()
        if is_released:
            self._forward(connection)

    def _is_held(self, connection: Connection) -> bool:
        """Whether the read at the head of the queue must wait.

        For a client that does not take its answers it waits only while no write behind it has been
        forwarded: it would see that one.
        """
        if not (self.is_serving or connection.local):
            return True
        if not connection.is_full:
            return False
        session = self._context.state.sessions.get(connection.session_id)
        return session is None or connection.forwarded <= session.last_number

    def _repeat(self, connection: Connection, write: Write) -> bool:
        """Answer a write that has been applied before; False when it has not."""
        session = self._context.state.sessions.get(connection.session_id)
        if session is None or write.number > session.last_number:
            return False
        outcome = session.outcomes.get(write.number)
        if outcome is None:
            # The client said it has this outcome, and asks again.
            self._context.out.append(Note(notes.CLIENT_MALFORMED, (connection.number, "repeat")))
            self._end(connection, Code.CONNECTION_LOSS)
        else:
            self._push(connection, _written(write.number, outcome))
        return True

    def _answer(self, connection: Connection, request: Local) -> None:
        self._answers.to(connection, request)
        if connection.bytes > FRAME_BYTES_MAX:
            self._outgoing.flush(connection)

    def _send(self, number: int, frame: Connected | Ended) -> None:
        self._context.out.append(SendClient(number, encode_server_frame(frame)))

    def _end(self, connection: Connection, code: Code) -> None:
        """Close the link after what was queued for it and the reason."""
        if connection.is_dirty:
            self._outgoing.flush(connection)
        self._send(connection.number, Ended(code))
        self._close(connection.number)
        self._forget(connection)

    def _close(self, number: int) -> None:
        self._context.out.append(CloseClient(number))
        self._closed[number] = None

    def _forget(self, connection: Connection) -> None:
        self._by_number.pop(connection.number, None)
        self._share_out()
        if self._by_session.get(connection.session_id) is connection:
            del self._by_session[connection.session_id]
        self._context.watches.drop(connection.number)
        self.departures.left(connection)
        connection.session_id = SessionId(0)
        connection.queue.clear()
        self._outgoing.drop(connection)

    def _share_out(self) -> None:
        options, limits = self._context.options, self._context.limits
        share = options.requests_max // max(len(self._by_number), 1)
        self._outgoing.window = max(1, min(share, limits.outcomes_max))


def _written(number: int, outcome: Outcome) -> Written:
    return Written(number, outcome.zxid, outcome.code, outcome.path, outcome.stat, outcome.results)
