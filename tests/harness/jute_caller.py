"""A client of ZooKeeper's protocol in a test: it sends bytes to a pure server and reads replies."""

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from raykeeper.jute.fields import Record
from raykeeper.jute.frames import (
    FrameReader,
    decode_connect_response,
    decode_reply,
    encode_connect,
    encode_request,
)
from raykeeper.jute.opcodes import AUTH_XID, NOTIFICATION_XID, PING_XID, OpCode
from raykeeper.jute.records import (
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    DeleteRequest,
    EmptyRequest,
    PathRequest,
    PathWatchRequest,
    SetDataRequest,
)
from raykeeper.server.events import ClientDisconnected, JuteBytesArrived, JuteClientConnected
from raykeeper.znodes.acl import OPEN_ACL

if TYPE_CHECKING:
    from tests.harness.pure_servers import PureServer

ZEROS = bytes(16)


class Answer(NamedTuple):
    """A reply or an event, with what its header says."""

    xid: int
    zxid: int
    err: int
    body: Record | None


class JuteCaller:
    """The client's end of one connection."""

    def __init__(
        self, host: "PureServer", connection: int, address: str = "10.0.0.1", port: int = 4000
    ) -> None:
        self.host = host
        self.connection = connection
        self.xid = 0
        self.response: ConnectResponse | None = None
        self._reader = FrameReader(1 << 30)
        self._sent: deque[int] = deque()  # opcodes that wait for a reply with their place
        host.streams[connection] = bytearray()
        host.step(JuteClientConnected(connection, address, connection.to_bytes(16), port))

    def connect(
        self,
        session_id: int = 0,
        password: bytes = ZEROS,
        *,
        timeout_ms: int = 10_000,
        last_zxid: int = 0,
        read_only: bool | None = False,
    ) -> ConnectResponse | None:
        """Open a session, or take one up; return the answer, None while there is none."""
        self.raw(
            encode_connect(
                ConnectRequest(0, last_zxid, timeout_ms, session_id, password, read_only)
            )
        )
        self.read()
        return self.response

    def take_up(self, other: "JuteCaller", **connect: Any) -> ConnectResponse | None:
        """Connect with the session of another connection."""
        assert other.response is not None
        return self.connect(other.response.session_id, other.response.password or b"", **connect)

    @property
    def session_id(self) -> int:
        assert self.response is not None
        return self.response.session_id

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed the connection."""
        return self.connection in self.host.closed

    def frame(self, opcode: int, body: Record | None = None, xid: int | None = None) -> bytes:
        """Return the frame of the next request."""
        if opcode == OpCode.PING:
            return encode_request(PING_XID, opcode, EmptyRequest())
        if xid is None:
            self.xid += 1
            xid = self.xid
        self._sent.append(opcode)
        return encode_request(xid, opcode, body or EmptyRequest())

    def raw(self, data: bytes) -> None:
        """Send bytes, and run the ensemble until nothing moves."""
        self.host.step(JuteBytesArrived(self.connection, data))
        self.host.run()
        while self.host.server.deadline() == self.host.clock.now:
            self.host.step()
            self.host.run()

    def send(self, opcode: int, body: Record | None = None, xid: int | None = None) -> None:
        self.raw(self.frame(opcode, body, xid))

    def ask(self, opcode: int, body: Record | None = None, xid: int | None = None) -> Answer:
        """Send a request; return its reply, which must be the one thing that arrives."""
        before = self.read()
        assert before == [], before
        self.send(opcode, body, xid)
        (answer,) = self.read()
        return answer

    def read(self) -> list[Answer]:
        """Return what has arrived since the last call, in order."""
        stream = self.host.streams[self.connection]
        self._reader.feed(bytes(stream))
        stream.clear()
        answers: list[Answer] = []
        while (payload := self._reader.next()) is not None:
            if self.response is None:
                self.response = decode_connect_response(payload)
                continue
            xid = int.from_bytes(payload[:4], signed=True)
            if xid == PING_XID:
                opcode = int(OpCode.PING)
            elif xid == NOTIFICATION_XID:
                opcode = 0
            else:
                opcode = self._sent.popleft()
            header, body = decode_reply(payload, opcode)
            answers.append(Answer(header.xid, header.zxid, header.err, body))
        return answers

    def disconnect(self) -> None:
        """End the connection, but not the session."""
        self.host.step(ClientDisconnected(self.connection))

    def create(self, path: str, data: bytes | None = b"", flags: int = 0) -> Answer:
        return self.ask(OpCode.CREATE, CreateRequest(path, data, list(OPEN_ACL), flags))

    def delete(self, path: str, version: int = -1) -> Answer:
        return self.ask(OpCode.DELETE, DeleteRequest(path, version))

    def set(self, path: str, data: bytes | None, version: int = -1) -> Answer:
        return self.ask(OpCode.SET_DATA, SetDataRequest(path, data, version))

    def get(self, path: str, *, watch: bool = False) -> Answer:
        return self.ask(OpCode.GET_DATA, PathWatchRequest(path, watch))

    def exists(self, path: str, *, watch: bool = False) -> Answer:
        return self.ask(OpCode.EXISTS, PathWatchRequest(path, watch))

    def children(self, path: str, *, watch: bool = False) -> Answer:
        return self.ask(OpCode.GET_CHILDREN, PathWatchRequest(path, watch))

    def sync(self, path: str) -> Answer:
        return self.ask(OpCode.SYNC, PathRequest(path))

    def auth(self, scheme: str, credential: bytes) -> Answer:
        return self.ask(OpCode.AUTH, AuthPacket(0, scheme, credential), AUTH_XID)


def connected(host: "PureServer", connection: int = 1, *, read_only: bool = False) -> JuteCaller:
    """Return a client with a session of 10 s."""
    caller = JuteCaller(host, connection)
    response = caller.connect(read_only=read_only)
    assert response is not None and response.timeout == 10_000
    return caller
