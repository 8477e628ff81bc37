"""A client of ZooKeeper's protocol as a pure state machine, as kazoo and the Java client behave.

It pings after a third of its session timeout without a request, gives a connection up after two
thirds without a word, and goes to the next server with the id and the password of its session. What
was not answered has failed then: nobody knows what became of it. On each connection it proves its
identities and sets its watches again before anything else. It opens no second connection.

It asserts what the protocol promises: replies in the order of the requests, each with the xid of
its request; zxids that do not go back; a ping answered once; the same session on every connection.

The interface is that of `ClientCore`, as far as the simulated client uses it.

ZooKeeper: `ClientCnxn`, `ClientCnxnSocketNIO`; kazoo: `ConnectionHandler`.
"""

from collections import deque
from itertools import count
from random import Random
from typing import Any, Final

from msgspec import Struct

from raykeeper.client.core.effects import (
    CallWatchers,
    ChangeState,
    CloseLink,
    Complete,
    Effect,
    Fail,
    OpenLink,
    SendFrame,
)
from raykeeper.client.core.outstanding import NewRequest, Query, WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import ClientId, ClientState, WatchedEvent
from raykeeper.jute.frames import (
    FrameReader,
    decode_connect_response,
    decode_reply,
    encode_connect,
    encode_request,
)
from raykeeper.jute.opcodes import (
    AUTH_XID,
    NOTIFICATION_XID,
    PING_XID,
    SET_WATCHES_XID,
    OpCode,
)
from raykeeper.jute.records import ConnectRequest, EmptyRequest, SetWatches2
from raykeeper.zab.ids import ZERO, Millis, ServerId, Zxid, format_zxid
from raykeeper.znodes.errors import Code, KeeperError, error_for
from raykeeper.znodes.replies import EventType, ExistsReply
from raykeeper.znodes.requests import (
    PASSWORD_BYTES,
    AddAuth,
    CloseSession,
    Exists,
    GetChildren,
    SessionId,
    WatchKind,
    WriteOp,
)
from tests.simulation.jute_clients.requests import record_of, reply_of
from tests.simulation.jute_clients.watch_tables import WatchTables

NO_PASSWORD: Final = bytes(PASSWORD_BYTES)
SYNC_CONNECTED: Final = 3
REMOVED: Final = {
    WatchKind.DATA: EventType.DATA_WATCH_REMOVED,
    WatchKind.CHILD: EventType.CHILD_WATCH_REMOVED,
    WatchKind.PERSISTENT: EventType.PERSISTENT_WATCH_REMOVED,
    WatchKind.RECURSIVE: EventType.PERSISTENT_WATCH_REMOVED,
}


class Habits(Struct, frozen=True):
    """In what clients of this protocol differ."""

    is_eager: bool
    """It sends its first requests right behind the connect request, in one segment."""
    is_old: bool
    """Its connect request ends before the flag `read_only`."""
    adopts_any: bool
    """It takes the zxid of any reply for the last one it has seen, of a ping or an auth too."""
    accepts_read_only: bool
    redial_ms_max: int


class Replays(Struct, frozen=True):
    """An effect: the client proves an identity again, without a request of its user."""

    ask: AddAuth


class SetAgain(Struct, frozen=True):
    """An effect: its watches are set on this connection, as of `zxid`."""

    zxid: Zxid


class Unanswered(Struct, frozen=True):
    """A request on the wire. `ask` is None for what no user asked for."""

    xid: int
    opcode: OpCode
    token: object = None
    ask: NewRequest | None = None


class JuteCore:
    """One session of a client."""

    def __init__(
        self,
        timeout_ms: Millis,
        servers: list[ServerId],
        random: Random,
        habits: Habits,
        takeover: ClientId | None = None,
    ) -> None:
        self.out: list[Effect | Replays | SetAgain] = []
        self.state = ClientState.SUSPENDED
        self.takeover = takeover
        self.session_id, self.password = takeover or ClientId(SessionId(0), NO_PASSWORD)
        self.timeout_ms = timeout_ms
        self.last_zxid = ZERO
        self.heard_at: Millis | None = None
        """When the last whole frame of this connection arrived."""
        self.habits = habits
        self.watches = WatchTables()
        self._servers = random.sample(servers, len(servers))
        self._server = self._servers[0]
        self._random = random
        self._reader = FrameReader()
        self._xids = count(1)
        self._unanswered: deque[Unanswered] = deque()
        self._pings = 0
        self._identities: list[AddAuth] = []
        self._floor = 0  # no reply of this connection is below it
        self._has_link = False
        self._had_leader = takeover is not None
        self._is_closing = False
        self._is_over = False
        self._dials_at: Millis | None = None
        self._connects_until: Millis | None = None
        self._sent_at = Millis(0)
        self._roams_at: Millis | None = None  # a read-only client looks for a leader

    # What the simulated client and the checks look at.

    @property
    def client_id(self) -> ClientId:
        """Return what another process needs to take the session over."""
        return ClientId(self.session_id, self.password)

    @property
    def asked(self) -> ClientId:
        """Return what it asks a server for: a new session if it has none but a server's own."""
        return self.client_id if self._had_leader else ClientId(SessionId(0), NO_PASSWORD)

    @property
    def is_connected(self) -> bool:
        """Return whether a server serves the session, with a leader or without."""
        return self.state in (ClientState.CONNECTED, ClientState.CONNECTED_READ_ONLY)

    @property
    def silence_ms(self) -> int:
        """Return how long it believes itself connected without a word."""
        return self.timeout_ms * 2 // 3

    # From the user.

    def start(self, now: Millis) -> None:
        """Look for a server."""
        self._dials_at = now
        self.wake(now)

    def submit(self, ask: NewRequest, token: object, now: Millis) -> None:
        """Send a request; there must be a connection."""
        assert self.is_connected and not self._is_closing, self.state
        if isinstance(ask, AddAuth) and ask not in self._identities:
            self._identities.append(ask)
        self._send(ask, token, now)

    def flush(self, now: Millis) -> None:
        """Do nothing: every request leaves at once."""

    def close(self, now: Millis) -> None:
        """End the session."""
        self._is_closing = True
        self._send(CloseSession(), None, now)

    def _send(self, ask: NewRequest, token: object, now: Millis) -> None:
        opcode, body = record_of(ask)
        xid = AUTH_XID if opcode is OpCode.AUTH else next(self._xids)
        self._unanswered.append(Unanswered(xid, opcode, token, ask))
        self._write(encode_request(xid, opcode, body), now)

    def _write(self, data: bytes, now: Millis) -> None:
        self._sent_at = now
        self.out.append(SendFrame(data))

    # Time.

    def deadline(self) -> Millis | None:
        """Return when to call `wake`."""
        if self._is_over:
            return None
        if self._dials_at is not None:
            return self._dials_at
        if self._connects_until is not None:
            return self._connects_until
        assert self.heard_at is not None
        due = [self.heard_at + self.silence_ms, self._sent_at + self.timeout_ms // 3]
        if self._roams_at is not None:
            due.append(self._roams_at)
        return Millis(min(due))

    def wake(self, now: Millis) -> None:
        """Do what is due."""
        if self._is_over:
            return
        if self._dials_at is not None:
            if now >= self._dials_at:
                self._dials_at = None
                self._server = self._servers[0]
                self._servers = [*self._servers[1:], self._server]
                self._connects_until = Millis(now + self.timeout_ms // len(self._servers))
                self.out.append(OpenLink(self._server))
        elif self._connects_until is not None:
            if now >= self._connects_until:
                self._disconnect(now, "it did not connect")
        elif self.heard_at is not None and now >= self.heard_at + self.silence_ms:
            self._disconnect(now, "it is silent")
        elif self._roams_at is not None and now >= self._roams_at:
            self._disconnect(now, "another server may have a leader")
        elif now >= self._sent_at + self.timeout_ms // 3:
            self._pings += 1
            self._write(encode_request(PING_XID, OpCode.PING, EmptyRequest()), now)

    # The connection.

    def link_opened(self, now: Millis) -> None:
        """Ask for the session."""
        self._has_link = True
        self._reader, self._pings, self._floor = FrameReader(), 0, self.last_zxid
        flag = None if self.habits.is_old else self.habits.accepts_read_only
        session_id, password = self.asked
        asked = ConnectRequest(0, self.last_zxid, self.timeout_ms, session_id, password, flag)
        self._write(encode_connect(asked), now)
        if self.habits.is_eager:
            self._send_first(now)

    def link_failed(self, _reason: str, now: Millis) -> None:
        """Go to the next server."""
        self._has_link = False
        self._disconnect(now, "link broken")

    def frame(self, data: bytes, now: Millis) -> None:
        """Take bytes, cut anywhere."""
        self._reader.feed(data)
        while not self._is_over and self._has_link:
            payload = self._reader.next()
            if payload is None:
                break
            self.heard_at = now
            if self._connects_until is not None:
                self._connected(payload, now)
            else:
                self._take(payload, now)

    def _send_first(self, now: Millis) -> None:
        for ask in self._identities:
            self.out.append(Replays(ask))
            self._unanswered.append(Unanswered(AUTH_XID, OpCode.AUTH, None, ask))
            self._write(encode_request(AUTH_XID, *record_of(ask)), now)
        again = self.watches.to_set_again(self.last_zxid)
        if again is not None:
            opcode = OpCode.SET_WATCHES2 if isinstance(again, SetWatches2) else OpCode.SET_WATCHES
            self._unanswered.append(Unanswered(SET_WATCHES_XID, opcode))
            self._write(encode_request(SET_WATCHES_XID, opcode, again), now)

    def _connected(self, payload: bytes, now: Millis) -> None:
        answer = decode_connect_response(payload)
        assert (answer.read_only is None) is self.habits.is_old, f"Protocol: {answer}"
        self._connects_until = None
        if answer.timeout <= 0:
            self._end(error_for(Code.SESSION_EXPIRED))
            return
        self.session_id, self.password = SessionId(answer.session_id), answer.password
        self.timeout_ms = Millis(answer.timeout)
        self.state = ClientState.CONNECTED
        self._had_leader |= not answer.read_only
        if answer.read_only:
            self.state = ClientState.CONNECTED_READ_ONLY
            self._roams_at = Millis(now + self._random.choice([300, 1_000]))
        self.out.append(ChangeState(self.state))
        if not self.habits.is_eager:
            self._send_first(now)

    def _disconnect(self, now: Millis, reason: str) -> None:
        if self._has_link or self._connects_until is not None:
            self.out.append(CloseLink(reason))
        self._has_link = False
        was_connected, self.state = self.is_connected, ClientState.SUSPENDED
        self.heard_at = self._connects_until = self._roams_at = None
        self._fail_all()
        if self._is_closing:
            self._end(None)
            return
        if was_connected:
            self.out.append(ChangeState(ClientState.SUSPENDED))
        self._dials_at = Millis(now + self._random.randint(0, self.habits.redial_ms_max))

    def _fail_all(self) -> None:
        unanswered, self._unanswered = self._unanswered, deque()
        for each in unanswered:
            if each.token is not None:
                definite = not isinstance(each.ask, WriteOp)
                error = error_for(Code.CONNECTION_LOSS, definite=definite)
                self.out.append(Fail(each.token, error))

    def _end(self, cause: KeeperError | None) -> None:
        self._is_over = True
        if self._has_link:
            self._has_link = False
            self.out.append(CloseLink("the session is over"))
        self._fail_all()
        self.state = ClientState.LOST
        self.out.append(ChangeState(ClientState.LOST, cause))

    # Replies and events.

    def _take(self, payload: bytes, now: Millis) -> None:
        head = self._unanswered[0] if self._unanswered else None
        xid = int.from_bytes(payload[:4], signed=True)
        if xid == NOTIFICATION_XID:
            self._event(decode_reply(payload, 0).body, decode_reply(payload, 0).header.zxid)
            return
        if xid == PING_XID:
            assert self._pings, "Protocol: a ping is answered that was not sent"
            self._pings -= 1
            header = decode_reply(payload, OpCode.PING).header
            self._shown(header.zxid, is_adopted=self.habits.adopts_any)
            return
        assert head is not None and xid == head.xid, f"Fifo: {xid} is answered, not {head}"
        self._unanswered.popleft()
        header, body = decode_reply(payload, head.opcode)
        is_adopted = head.opcode is not OpCode.AUTH or self.habits.adopts_any
        self._shown(header.zxid, is_adopted=is_adopted)
        if head.opcode in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2):
            assert not header.err, f"Protocol: {header} to {head}"
            self.out.append(SetAgain(Zxid(header.zxid)))
        elif head.opcode is OpCode.CLOSE_SESSION:
            self._end(None)
        elif head.token is not None:
            self._answered(head, Zxid(header.zxid), header.err, body)

    def _shown(self, zxid: int, *, is_adopted: bool) -> None:
        assert zxid >= self._floor, (
            f"Monotonic: {format_zxid(Zxid(zxid))} after {format_zxid(Zxid(self._floor))}"
        )
        self._floor = zxid
        if is_adopted and zxid > 0:
            self.last_zxid = Zxid(zxid)

    def _answered(self, head: Unanswered, zxid: Zxid, err: int, body: Any) -> None:
        ask = head.ask
        assert ask is not None, head
        is_missing = err == Code.NO_NODE and isinstance(ask, Query) and ask.kind is Exists
        if err and not is_missing:
            self.out.append(Fail(head.token, error_for(err)))
            return
        if isinstance(ask, Query) and ask.watcher is not None:
            table = self.watches.exist if is_missing else self.watches.data
            table = self.watches.child if ask.kind is GetChildren else table
            table.setdefault(ask.path, {})[ask.watcher] = None
        elif isinstance(ask, WatchAddition):
            self.watches.lasting[ask.mode].setdefault(ask.path, {})[ask.watcher] = None
        elif isinstance(ask, WatchRemoval):
            gone = self.watches.removed(ask.kind, ask.path, ask.watcher)
            if gone:
                self._call(gone, REMOVED[ask.kind], ask.path, zxid)
        reply = ExistsReply(0, zxid, None) if is_missing else reply_of(ask, zxid, body)
        self.out.append(Complete(head.token, reply))

    def _event(self, body: Any, zxid: int) -> None:
        kind = EventType(body.type)
        assert body.state == SYNC_CONNECTED, f"Protocol: {body}"
        watchers = self.watches.told_of(kind, body.path)
        if watchers:
            self._call(watchers, kind, body.path, Zxid(zxid))

    def _call(self, watchers: list[object], kind: EventType, path: str, zxid: Zxid) -> None:
        self.out.append(CallWatchers(watchers, WatchedEvent(kind, self.state, path, zxid)))
