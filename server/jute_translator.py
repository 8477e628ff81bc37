"""One connection of a client of ZooKeeper: its frames in, as this server's requests; and back.

To `ClientRequests` it is a connection like any other. The translator numbers the writes, which
this protocol does not, remembers the requests that are not answered, because replies have no names,
and counts what arrives as heartbeats. A heartbeat's number holds the time at which it arrived.

| what arrives | becomes |
|---|---|
| connect | `Connect`; a new session's password comes from the shell, as its clients have none |
| a write | a `Write` with the session's next number, the newest answered one as acknowledged |
| a read, sync or watch request | the same |
| ping | a heartbeat; answered when the leader has confirmed it, so out of the order |
| anything else | its answer, in its place in the order: `RejectedRequest` |

Invariants: a reply stands in the order of its request and an event before each reply that could
show it, as `ClientRequests` queues them; no more than `window` requests are unanswered, later ones
stay bytes; nothing is sent after `is_over`; the zxids of replies do not go back.

The file is long because one order of requests, pings and replies goes through all of it.

ZooKeeper: `ServerCnxn`, `ZooKeeperServer.processConnectRequest`, `processPacket`.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from raykeeper.jute.archives import ElementsMax, OutputArchive
from raykeeper.jute.errors import JuteError, MalformedRequest, TooManyElements
from raykeeper.jute.fields import EncodedStrings, Record
from raykeeper.jute.frames import (
    FrameReader,
    Request,
    decode_connect,
    decode_request,
    encode_connect_response,
    write_reply,
)
from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import NOTIFICATION_XID, PING_XID, OpCode
from raykeeper.jute.records import (
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    ReconfigRequest,
    SetSASLResponse,
)
from raykeeper.jute.records import WatcherEvent as JuteEvent
from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.connection import CheckWatches, Connection, Phase, RejectedRequest
from raykeeper.server.context import ServerContext
from raykeeper.server.jute_lists import EncodedChildrenReply, PagedNames
from raykeeper.server.jute_reconfig import reconfig_op
from raykeeper.server.jute_replies import UnansweredRequest, reply_to, with_names
from raykeeper.server.jute_requests import (
    WITH_ACLS,
    entries_above,
    read_request,
    reply_detail,
    write_op,
)
from raykeeper.server.response_counters import ResponseCounters
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes import requests as native
from raykeeper.znodes.acl import Acl, Identity, authenticate, identities_of
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    ErrorReply,
    EventType,
    GetChildrenReply,
    GetEphemeralsReply,
    Item,
    ServerFrame,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import PASSWORD_BYTES, Connect, SessionId
from raykeeper.znodes.sessions import Session

FIRST_FRAME_BYTES_MAX: Final = 1024
"""A first frame has 45 bytes; nobody without a session can make a server keep more."""
HEARTBEAT_VALID_DIVISOR: Final = 3
"""Frames leave for a third of the session timeout after a heartbeat: a client believes itself
connected for two thirds of it after each frame."""
_SYNC_CONNECTED: Final = 3
"""The state in an event, ZooKeeper's `KeeperState.SyncConnected`."""
_HEARTBEATS_BITS: Final = 20
"""A million pieces of bytes of one connection do not arrive within a millisecond."""
_NO_PASSWORD: Final = bytes(PASSWORD_BYTES)
_PING, _AUTH, _SASL = int(OpCode.PING), int(OpCode.AUTH), int(OpCode.SASL)  # of each request
_SETTING_WATCHES: Final = (OpCode.SET_WATCHES, OpCode.SET_WATCHES2)
_UNIMPLEMENTED: Final = (OpCode.CHECK, OpCode.DELETE_CONTAINER)
"""Operations that a client may know, and that exist inside of a multi or of the server only."""

ToServer = native.Request | CheckWatches | RejectedRequest


class JuteTranslator:
    """The translator of connection `number`.

    `is_over`: nothing more is sent, and the connection is to be closed.
    """

    def __init__(
        self,
        context: ServerContext,
        number: int,
        host: str,
        port: int,
        password: bytes,
        schedule: Callable[[int], None],
    ) -> None:
        """`password` is for a new session, drawn at random for this connection.

        `schedule` is called with the number when the connection can go on without an event.
        """
        self.number = number
        self.host = host
        self.port = port
        self.responses = ResponseCounters()
        self.reader = FrameReader(FIRST_FRAME_BYTES_MAX)
        self.connection: Connection | None = None
        self.is_over = False
        self.is_reading_paused = False
        self.heartbeat_seq = 0
        """The number of the newest heartbeat: when bytes arrived, and which of that moment."""
        self.fault = ""
        """Why what arrived cannot be read any further."""
        self._context = context
        self._schedule = schedule
        self._heartbeat_valid_ms = Millis(0)  # how long after one frames may leave; 0: for ever
        self._is_last_taken = False  # the request behind whose reply the connection is closed
        self._drawn_password = password
        self._elements_max: ElementsMax = {
            Operation: context.limits.request_ops_max,
            Acl: context.limits.request_entries_max,
            str: context.limits.watches_max,
        }
        self._connect = ConnectRequest(0, 0, 0, 0, None)
        self._arrived_at = Millis(0)  # the connect request
        self._window = 1
        self._number = 0  # of the newest write
        self._answered = 0  # of the newest write that was answered
        self._zxid = 0  # the highest that was told in a reply
        self._unanswered: deque[UnansweredRequest] = deque()
        self._pings: deque[tuple[int, int]] = deque()  # heartbeat, and how many came with it
        self._paged = PagedNames()
        self._list_bytes = 0  # of the list in pages that the client gets next, so far
        self._request_bytes = 0  # of the request that is taken now
        self._unanswered_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether no request is taken until another one is answered."""
        return len(self._unanswered) >= self._window

    def is_quiet(self, for_ms: Millis) -> bool:
        """Return whether every request was answered, and nothing has arrived for so long."""
        is_idle = not (self._unanswered or self._pings or len(self.reader))
        return is_idle and _time_of(self.heartbeat_seq) + for_ms <= self._context.now.mono

    def has_recent_heartbeat(self) -> bool:
        """Whether the newest confirmed heartbeat is new enough to send the client anything.

        Else a client that is cut off could believe itself connected when its session has ended.
        The reply to its own closeSession is sent at any time.
        """
        connection = self.connection
        assert connection is not None, "only a connection has frames"
        if not self._heartbeat_valid_ms:
            return True
        oldest = Millis(self._context.now.mono - self._heartbeat_valid_ms)
        if connection.confirmed_heartbeat >= _heartbeat_at(oldest):
            return True
        head = self._unanswered[0].opcode if self._unanswered else None
        sessions = self._context.state.sessions
        return head == OpCode.CLOSE_SESSION and sessions.get(connection.session_id) is None

    def may_send(self) -> bool:
        """Return `has_recent_heartbeat`; if not, have a paused connection read for a new one."""
        is_recent = self.has_recent_heartbeat()
        if not is_recent and self.is_reading_paused:
            self._schedule(self.number)
        return is_recent

    def note_kept(self) -> None:
        """Note what the connection makes the server keep: bytes in both directions, and names."""
        unsent = 0 if self.connection is None else self.connection.unsent_bytes
        kept = len(self.reader) + self._unanswered_bytes + self._list_bytes + unsent
        self._context.jute_buffers.note(self.number, kept)

    def note_list(self, size: int) -> None:
        """Note how many bytes the next list has so far; the connection of a longer one ends."""
        self._list_bytes, bytes_max = size, self._context.options.zookeeper.list_bytes_max
        if size > bytes_max and not self.is_over:
            self.is_over = True  # no frame may be so long
            self._trace_limit("a list", "zookeeper_list_bytes", bytes_max)
            self._schedule(self.number)
        self.note_kept()

    # From the client.

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived now."""
        self.reader.feed(data)
        self.heartbeat_seq = max(self.heartbeat_seq + 1, _heartbeat_at(self._context.now.mono))

    def take_connect(self) -> Connect | None:
        """Return the first request, None until all of it has arrived.

        Raises:
            JuteError: the first frame is no connect request.
        """
        payload = self.reader.next()
        if payload is None:
            return None
        request = self._connect = decode_connect(payload)
        self.reader.bytes_max = self._context.limits.request_bytes_max
        self._arrived_at = self._context.now.mono
        password = (request.password or b"") if request.session_id else self._drawn_password
        return Connect(
            SessionId(request.session_id),
            password,
            Millis(request.timeout),
            Zxid(request.last_zxid_seen),
            read_only=bool(request.read_only),
        )

    def take_requests(self, connection: Connection) -> list[ToServer]:
        """Return the requests that have arrived, as many as the window allows; see `fault`."""
        taken: list[ToServer] = []
        next_payload = self.reader.next
        while not self.is_full and not self._is_last_taken:
            try:
                payload = next_payload()
            except JuteError as error:
                self.fault = f"{error}: zookeeper_request_bytes"
                break
            if payload is None:
                break
            connection.packets_received += 1
            self._request_bytes = len(payload)
            try:
                request = decode_request(payload, self._elements_max)
            except MalformedRequest as error:
                if error.opcode in (_AUTH, _SASL):
                    self.fault = str(error)
                    break
                self._context.trace(trace_events.CLIENT_MALFORMED, (self.number, str(error)))
                refused = Request(error.xid, error.opcode, None)
                taken.append(self._reject(refused, Code.MARSHALLING_ERROR))
                continue
            except JuteError as error:
                self.fault = str(error)
                break
            if request.opcode == _PING:
                self._take_ping()
            else:
                taken.append(self._translate(connection, request))
        return taken

    def _take_ping(self) -> None:
        count = 1
        if self._pings and self._pings[-1][0] == self.heartbeat_seq:
            count += self._pings.pop()[1]
        self._pings.append((self.heartbeat_seq, count))

    def _translate(self, connection: Connection, request: Request) -> ToServer:
        xid, opcode, body = request.xid, request.opcode, request.body
        if isinstance(body, TooManyElements):
            return self._reject_elements(request, body)
        if isinstance(body, MultiRequest) and opcode == OpCode.MULTI_READ:
            reads_max = self._context.limits.transaction_ops_max
            if len(body.ops) > reads_max:
                return self._reject_elements(request, TooManyElements(Operation, reads_max))
        if body is None:
            # ZooKeeper closes too: a client that speaks another language cannot go on.
            return self._reject(request, Code.UNIMPLEMENTED, closes=True)
        if opcode == _AUTH:
            assert isinstance(body, AuthPacket), body
            return self._auth(connection, request, body)
        if connection.phase is Phase.READ_ONLY and opcode == OpCode.CLOSE_SESSION:
            return self._reject(request, Code.OK, closes=True)
        read = read_request(opcode, xid, body)
        if read is not None:
            if isinstance(read, Code):
                return self._reject(request, read)
            self._add_unanswered(request, reply_detail(body))
            return read
        if isinstance(body, ReconfigRequest):
            op: native.WriteOp | Code | None = reconfig_op(self._context, self.number, body)
        else:
            op = write_op(opcode, body)
        if op is not None and not isinstance(op, Code):
            return self._write(request, op, reply_detail(body))
        if op is not None:
            return self._reject(request, op)
        if opcode in _UNIMPLEMENTED:
            return self._reject(request, Code.UNIMPLEMENTED)
        assert opcode == OpCode.SASL, opcode
        return self._reject(request, Code.AUTH_FAILED, closes=True)

    def _write(self, request: Request, op: native.WriteOp, detail: Any = None) -> native.Write:
        if type(op) in WITH_ACLS:
            self._trace_refusal(op)
        self._add_unanswered(request, detail)
        self._number += 1
        return native.Write(self._number, self._answered, native.encode_op(op))

    def _reject_elements(self, request: Request, error: TooManyElements) -> RejectedRequest:
        """Refuse what is above a limit, before it is built."""
        limits = self._context.limits
        if error.kind is Operation and request.opcode == OpCode.MULTI_READ:
            most = limits.transaction_ops_max
            self._trace_limit(f"more than {most} reads", "transaction_ops_max", most)
        elif error.kind is Operation:
            what = f"a transaction of more than {error.most} operations"
            self._trace_limit(what, "zookeeper_request_bytes", limits.request_bytes_max)
        is_acl = error.kind is Acl
        if is_acl:
            what = f"a request with more than {error.most} entries of ACLs"
            self._trace_limit(what, "acl_entries_max", self._context.limits.acl_entries_max)
        return self._reject(request, Code.INVALID_ACL if is_acl else Code.BAD_ARGUMENTS)

    def _reject(self, request: Request, code: int, *, closes: bool = False) -> RejectedRequest:
        """Answer a request by `code` alone, in its place; `closes` closes the connection then."""
        self._add_unanswered(request, None, closes=closes)
        self._is_last_taken = closes
        zxid = self._context.state.zxid
        if code == Code.OK:
            return RejectedRequest(EmptyReply(request.xid, zxid))
        return RejectedRequest(ErrorReply(request.xid, zxid, code))

    def _auth(self, connection: Connection, request: Request, body: AuthPacket) -> ToServer:
        if body.scheme == "ip":
            return self._reject(request, Code.OK)  # every session has its address already
        identity = authenticate(body.scheme, body.auth or b"")
        if identity is None:
            return self._reject(request, Code.AUTH_FAILED, closes=True)
        session = self._session_of(connection)
        if identity in session.auth_ids:
            return self._reject(request, Code.OK)  # a client repeats this on every connection
        if connection.phase is Phase.READ_ONLY:
            _identify(session, identity)
            return self._reject(request, Code.OK)
        most = self._context.limits.session_identities_max
        if len(session.auth_ids) >= most:  # of which the leader takes no more
            self._trace_limit("one identity more", "session_identities_max", most)
        return self._write(request, native.AddAuth(body.scheme, body.auth or b""))

    def _add_unanswered(self, request: Request, detail: Any, *, closes: bool = False) -> None:
        size = self._request_bytes
        self._unanswered_bytes += size
        arrived = self._context.now.mono
        self._unanswered.append(
            UnansweredRequest(request.xid, request.opcode, arrived, detail, closes, size)
        )

    def _session_of(self, connection: Connection) -> Session:
        sessions = self._context.state.sessions
        return connection.local_session or sessions.by_id[connection.session_id]

    # To the client.

    def encode(self, frame: ConnectReply | ServerFrame | CloseFrame) -> bytes:
        """Return the bytes for a client, empty if it is sent nothing."""
        if self.is_over or isinstance(frame, CloseFrame):
            return b""
        if isinstance(frame, ConnectReply):
            data = self._encode_connect_reply(frame)
        else:
            data = self._encode_frame(frame)
        if self.is_over or len(self.reader):
            self._schedule(self.number)
        return data

    def _encode_frame(self, frame: ServerFrame) -> bytes:
        self._window = frame.window
        out = OutputArchive()
        for item in frame.items:
            self._write_item(out, item)
            if self.is_over:
                return bytes(out.data)
        connection = self.connection
        assert connection is not None, "only a connection has frames"
        pings = self._pings
        is_read_only = connection.phase is Phase.READ_ONLY
        while pings and (pings[0][0] <= frame.heartbeat_seq or is_read_only):
            heartbeat, count = pings.popleft()
            zxid, arrived = self._zxid, _time_of(heartbeat)
            self.responses.observe(OpCode.PING, PING_XID, zxid, arrived, self._context.now)
            for _ in range(count):
                self._write_reply(out, PING_XID, zxid, Code.OK, None)
        return bytes(out.data)

    def _encode_connect_reply(self, reply: ConnectReply) -> bytes:
        request, connection = self._connect, self.connection
        assert connection is not None, "it was opened by its connect request"
        if reply.code != Code.OK:
            self.is_over = True
            if reply.code == Code.CONNECTION_LOSS:
                return b""  # the session lives, and a refusal would say that it has ended
            refusal = self._read_only_flag(is_read_only=False)
            return encode_connect_response(ConnectResponse(0, 0, 0, _NO_PASSWORD, refusal))
        session_id = reply.session_id
        if not reply.read_only:
            valid_ms = reply.timeout_ms // HEARTBEAT_VALID_DIVISOR
            if self._context.now.mono - self._arrived_at > valid_ms:
                self.is_over = True  # too late: it would believe itself connected for too long
                return b""
            self._heartbeat_valid_ms = Millis(valid_ms)
            connection.confirmed_heartbeat = _heartbeat_at(self._arrived_at)
        elif self._is_known(request):
            session_id = SessionId(request.session_id)
        elif request.session_id > reply.zxid:
            self.is_over = True  # a session that this server has not seen yet: it may live
            return b""
        else:
            session_id = SessionId(-self.number)  # a server's own session, and never 0
        self._number = self._answered = reply.last_number
        self._window, self._zxid = reply.window, request.last_zxid_seen
        self.responses.observe_connect(reply.zxid, self._arrived_at, self._context.now)
        flag = self._read_only_flag(is_read_only=reply.read_only)
        return encode_connect_response(
            ConnectResponse(0, reply.timeout_ms, session_id, connection.connect.password, flag)
        )

    def _read_only_flag(self, *, is_read_only: bool) -> bool | None:
        """Return the last field of the connect response; None if the client does not know it."""
        return None if self._connect.read_only is None else is_read_only

    def _is_known(self, request: ConnectRequest) -> bool:
        session = self._context.state.sessions.get(SessionId(request.session_id))
        return session is not None and session.password == request.password

    def _write_item(self, out: OutputArchive, item: Item) -> None:
        # Types are compared, for `isinstance` of a struct that is another one takes 0.1 us.
        if type(item) is WatcherEvent:
            self._write_event(out, item)
            return
        names = None
        if (
            type(item) is GetEphemeralsReply
            and (item.more or self._list_bytes)
            and (names := self._join_page(item)) is None
        ):
            return
        request = self._unanswered.popleft()
        xid, opcode = request.xid, request.opcode
        self._unanswered_bytes -= request.bytes
        if type(item) is WriteReply:
            self._answered = item.number
        if opcode != _AUTH:
            self._raise_zxid(item.zxid)
        zxid = self._zxid
        if type(item) is EncodedChildrenReply:
            names = item.encoded
        elif type(item) is GetChildrenReply:
            names = self._context.jute_lists.names_of(request.detail, item)
        answer = reply_to(request, item)
        if names is not None:
            answer, self._list_bytes = with_names(answer, names), 0
        code, body = (answer, None) if isinstance(answer, int) else (0, answer)
        if request.closes or (code and opcode == _AUTH):
            self.is_over = True
        if opcode == _SASL:
            body = SetSASLResponse(None)  # which follows the error all the same
        self.responses.observe(opcode, xid, zxid, request.arrived, self._context.now)
        self._write_reply(out, xid, zxid, code, body)

    def _join_page(self, page: GetEphemeralsReply) -> EncodedStrings | None:
        """Add a page of a list; return all names with its last page."""
        self._paged.add(page.paths)
        self.note_list(self._paged.bytes)
        return None if page.more or self.is_over else self._paged.take()

    def _trace_refusal(self, op: native.WriteOp) -> None:
        """Trace the limit above which a write is, so that the leader refuses it."""
        most = self._context.limits.acl_entries_max
        if entries := entries_above(op, most):
            self._trace_limit(f"an ACL of {entries} entries", "acl_entries_max", most)

    def _trace_limit(self, what: str, setting: str, most: int) -> None:
        """Trace what is above a limit: no error of this protocol can name the setting."""
        reason = f"{what}: the setting {setting} is {most}"
        self._context.trace(trace_events.CLIENT_LIMITED, (self.number, reason))

    def _write_event(self, out: OutputArchive, event: WatcherEvent) -> None:
        if event.kind is EventType.RESYNC:
            # This protocol has no such event. To a client that sets its watches again ZooKeeper
            # says nothing of what persistent ones have missed; any other client must reconnect.
            head = self._unanswered[0].opcode if self._unanswered else None
            self.is_over = head not in _SETTING_WATCHES
            return
        body = JuteEvent(event.kind, _SYNC_CONNECTED, event.path)
        self._write_reply(out, NOTIFICATION_XID, event.zxid, Code.OK, body)

    def _write_reply(
        self, out: OutputArchive, xid: int, zxid: int, code: int, body: Record | None
    ) -> None:
        assert self.connection is not None, "only a connection has frames"
        self.connection.packets_sent += 1
        write_reply(out, xid, zxid, code, body)

    def _raise_zxid(self, zxid: int) -> None:
        """Set the zxid for a reply, which is not below an earlier one: a client adopts any.

        It sets its watches again as of that one. So pings and credentials, which may be answered
        before the setWatches of their connection and so before what was missed, do not raise it.
        """
        self._zxid = max(self._zxid, zxid)


def _heartbeat_at(time: Millis) -> int:
    """Return the first number of the heartbeats that arrive at a time; it is never 0."""
    return time + 1 << _HEARTBEATS_BITS


def _time_of(heartbeat: int) -> Millis:
    """Return when a heartbeat arrived."""
    return Millis((heartbeat >> _HEARTBEATS_BITS) - 1)


def _identify(session: Session, identity: Identity) -> None:
    """Give a read-only session, which no other server knows, an identity."""
    session.auth_ids = (*session.auth_ids, identity)
    session.identities = identities_of(session.auth_ids, session.host)
