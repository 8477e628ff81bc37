"""A client of a pure server in a test: it sends frames and decodes what the server sends."""

from typing import TYPE_CHECKING

from raykeeper.server.events import ClientFrameArrived
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import CloseFrame, ConnectReply, Item, ServerFrame
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Connect,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Request,
    SessionId,
    SetData,
    Sync,
    Write,
    WriteOp,
    encode_client_frame,
    encode_op,
)

if TYPE_CHECKING:
    from tests.harness.pure_servers import PureServer


class Caller:
    """The client's end of one connection."""

    def __init__(self, host: "PureServer", connection: int, password: bytes | None = None) -> None:
        self.host = host
        self.connection = connection
        self.password = password or connection.to_bytes(16)
        self.attempt = 1
        self.session_id = SessionId(0)
        self.number = self.acked = self.beat = 0
        self._xid = 0
        self._seen = 0

    def connect(
        self, session_id: int = 0, timeout_ms: int = 10_000, last_zxid: int = 0
    ) -> ConnectReply | CloseFrame | None:
        """Open a session, or take one over; return the first answer, None while there is none."""
        request = self.request(session_id, timeout_ms, last_zxid)
        self.raw(encode_client_frame(request))
        return self.greeting

    def request(self, session_id: int = 0, timeout_ms: int = 10_000, last_zxid: int = 0) -> Connect:
        """Return the first frame of the connection."""
        shown, attempt = Zxid(last_zxid), self.attempt
        return Connect(SessionId(session_id), self.password, Millis(timeout_ms), shown, attempt)

    def take_up(self, other: "Caller") -> ConnectReply | CloseFrame | None:
        """Take over the session of another connection."""
        self.password, self.attempt = other.password, other.attempt + 1
        self.number, self.acked = other.number, other.acked
        return self.connect(other.session_id)

    @property
    def greeting(self) -> ConnectReply | CloseFrame | None:
        """Return the first answer on this connection, None while there is none."""
        frames = self.host.frames.get(self.connection)
        if not frames:
            return None
        assert not isinstance(frames[0], ServerFrame)
        if isinstance(frames[0], ConnectReply):
            self.session_id = frames[0].session_id
        return frames[0]

    @property
    def owner(self) -> Zxid:
        """Return the owner number of the session, as its server knows it."""
        return self.host.server.state.sessions.by_id[self.session_id].owner_zxid

    @property
    def answers(self) -> list[ServerFrame]:
        """Return the frames with items that have arrived so far."""
        frames = self.host.frames.get(self.connection, [])
        return [frame for frame in frames if isinstance(frame, ServerFrame)]

    @property
    def items(self) -> list[Item]:
        """Return all replies and events that have arrived so far, in order."""
        return [item for frame in self.answers for item in frame.items]

    @property
    def ended(self) -> int | None:
        """Return the code with which the server closed the connection; None while it is open."""
        frames = self.host.frames.get(self.connection, [])
        ends = [frame for frame in frames if isinstance(frame, CloseFrame)]
        if not ends:
            return None
        assert frames[-1:] == ends and self.connection in self.host.closed, frames
        return ends[0].code

    def new(self) -> list[Item]:
        """Return the items that have arrived since the last call."""
        items = self.items[self._seen :]
        self._seen += len(items)
        return items

    def raw(self, data: bytes) -> None:
        """Send a frame, and run the ensemble until nothing moves."""
        self.host.step(ClientFrameArrived(self.connection, data))
        self.host.run()

    def frame(self, *requests: Request) -> ClientFrameArrived:
        """Return the event of a frame, for a test that makes the steps itself."""
        self.beat += 1
        data = encode_client_frame(ClientFrame(self.beat, list(requests)))
        return ClientFrameArrived(self.connection, data)

    def ask(self, *requests: Request) -> list[Item]:
        """Send requests in one frame; return the items that arrive until nothing moves."""
        self.new()
        self.host.step(self.frame(*requests))
        self.host.run()
        return self.new()

    def write(self, op: WriteOp) -> Write:
        """Return the next write."""
        self.number += 1
        return Write(self.number, self.acked, encode_op(op))

    def create(self, path: str, value: bytes = b"", flags: int = 0) -> Write:
        return self.write(Create(path, value, flags))

    def set(self, path: str, value: bytes, version: int = -1) -> Write:
        return self.write(SetData(path, value, version))

    def delete(self, path: str, version: int = -1) -> Write:
        return self.write(Delete(path, version))

    def close(self) -> Write:
        return self.write(CloseSession())

    def get(self, path: str, *, watch: bool = False) -> GetData:
        return GetData(self.next_xid(), path, watch)

    def exists(self, path: str, *, watch: bool = False) -> Exists:
        return Exists(self.next_xid(), path, watch)

    def children(self, path: str, *, watch: bool = False) -> GetChildren:
        return GetChildren(self.next_xid(), path, watch)

    def sync(self) -> Sync:
        return Sync(self.next_xid(), "/")

    def next_xid(self) -> int:
        self._xid += 1
        return self._xid
