"""The servers' end of the wire, for tests: a tiny ensemble that speaks the real frames.

All its servers share one flat tree of znodes and one table of sessions, at once and without
agreement. It keeps the promises that the client relies on: replies in order, watch events before
the replies that show them, repeated writes answered from the table. Tests make it fail on purpose.
"""

import asyncio
from collections import Counter

from raykeeper.links.contract import LinkEvents, LinkUnreachable
from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    ErrorReply,
    EventType,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    Item,
    ServerFrame,
    WatcherEvent,
    WriteReply,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Read,
    Request,
    SessionId,
    SetData,
    SetWatches,
    Sync,
    Write,
    WriteOp,
    decode_client_frame,
    decode_op,
)
from raykeeper.znodes.stat import Stat


class ScriptedEnsemble:
    """Servers 1 to `size`. Tests set its public attributes, which are switches."""

    def __init__(self, size: int = 3) -> None:
        self.servers = [ServerId(n) for n in range(1, size + 1)]
        self.is_down = False
        """Links are refused."""
        self.absent: set[ServerId] = set()
        """Servers to which links are refused."""
        self.members: MemberList | None = None
        """The list that clients are told when they connect."""
        self.is_mute = False
        """Frames arrive and are not answered, as if lost on the way back."""
        self.is_deaf = False
        """Frames are lost on the way here."""
        self.leaderless: set[ServerId] = set()
        """Servers that serve read-only whom they may, and answer nobody else."""
        self.values: dict[str, tuple[bytes, int]] = {"/": (b"", 0)}
        self.links: list[MemoryLink] = []
        self.requests: list[Request | WriteOp] = []
        """What was carried out, in order, repeats left out."""
        self.connects: list[Connect] = []
        self._zxid = make_zxid(Epoch(1), 0)
        self._sessions: dict[bytes, _Session] = {}
        self._creations: Counter[str] = Counter()

    async def dial(self, server: ServerId, events: LinkEvents) -> "MemoryLink":
        if self.is_down or server in self.absent:
            raise LinkUnreachable(f"nobody answers at {server}")
        link = MemoryLink(self, server, events)
        self.links.append(link)
        return link

    def cut(self, reason: str = "cut by the test") -> None:
        """Break every link."""
        links, self.links = self.links, []
        for link in links:
            link.break_off(reason)

    def expire_sessions(self) -> None:
        self._sessions.clear()

    def fire(self, kind: EventType, path: str) -> None:
        """Send an event to the clients that watch the path, in a frame of its own."""
        for link in self.links:
            if items := self._fired(link, kind, path):
                link.tell(encode_server_frame(ServerFrame(link.beat, self._zxid, items)))

    def take(self, link: "MemoryLink", data: bytes) -> None:
        """Handle a frame of a client."""
        frame = decode_client_frame(data)
        if isinstance(frame, Connect):
            if link.server in self.leaderless and not frame.read_only:
                return
            answer = self._connect(link, frame)
        else:
            answer = self._serve(link, frame)
        if not self.is_mute:
            link.tell(answer)

    def _connect(self, link: "MemoryLink", frame: Connect) -> bytes:
        self.connects.append(frame)
        if link.server in self.leaderless:
            local = SessionId(0), frame.timeout_ms, self._zxid, 0, ""
            return encode_server_frame(ConnectReply(0, *local, read_only=True))
        session = self._sessions.get(frame.password)
        if session is None:
            if frame.session_id:
                code = Code.SESSION_EXPIRED
                return encode_server_frame(
                    ConnectReply(code, frame.session_id, Millis(0), Zxid(0), 0)
                )
            session = _Session(SessionId(self._next_zxid()), frame.timeout_ms)
            self._sessions[frame.password] = session
        link.session, link.password = session, frame.password
        return encode_server_frame(
            ConnectReply(
                *(0, session.session_id, session.timeout_ms, self._zxid, len(session.outcomes)),
                members=self.members,
            )
        )

    def _serve(self, link: "MemoryLink", frame: ClientFrame) -> bytes:
        if link.server in self.leaderless:
            assert not any(isinstance(request, Write) for request in frame.requests), frame
        elif link.password not in self._sessions:
            return encode_server_frame(CloseFrame(Code.SESSION_EXPIRED))
        link.beat = frame.heartbeat_seq
        items: list[Item] = []
        for request in frame.requests:
            if isinstance(request, Write):
                items += self._write(link, request)
            elif isinstance(request, SetWatches):
                link.watches.update(("data", path) for path in request.data)
                link.watches.update(("exist", path) for path in request.exist)
                link.watches.update(("child", path) for path in request.child)
                items.append(EmptyReply(request.xid, self._zxid))
            else:
                self.requests.append(request)
                items.append(self._read(link, request))
        return encode_server_frame(ServerFrame(frame.heartbeat_seq, self._zxid, items))

    def _write(self, link: "MemoryLink", write: Write) -> list[Item]:
        session = link.session
        if write.number <= len(session.outcomes):
            return [session.outcomes[write.number - 1]]
        assert write.number == len(session.outcomes) + 1, write
        op = decode_op(write.op)
        self.requests.append(op)
        zxid, before = self._next_zxid(), len(link.watches)
        items: list[Item] = []
        outcome = WriteReply(write.number, zxid, 0, "", None)
        path = getattr(op, "path", "")
        match op:
            case Create(flags=flags):
                if flags & CreateMode.SEQUENTIAL:
                    path += f"{self._creations[_parent(path)]:010}"
                if _parent(path) not in self.values:
                    outcome = WriteReply(write.number, zxid, Code.NO_NODE, "", None)
                elif path in self.values:
                    outcome = WriteReply(write.number, zxid, Code.NODE_EXISTS, "", None)
                else:
                    self._creations[_parent(path)] += 1
                    self.values[path] = (op.value, 0)
                    items = self._fired(link, EventType.CREATED, path)
                    items += self._fired(link, EventType.CHILD, _parent(path))
                    outcome = WriteReply(write.number, zxid, 0, path, self._stat(path))
            case SetData():
                if path not in self.values:
                    outcome = WriteReply(write.number, zxid, Code.NO_NODE, "", None)
                elif op.version not in (-1, self.values[path][1]):
                    outcome = WriteReply(write.number, zxid, Code.BAD_VERSION, "", None)
                else:
                    self.values[path] = (op.value, self.values[path][1] + 1)
                    items = self._fired(link, EventType.CHANGED, path)
                    outcome = WriteReply(write.number, zxid, 0, "", self._stat(path))
            case Delete():
                if path not in self.values:
                    outcome = WriteReply(write.number, zxid, Code.NO_NODE, "", None)
                elif self._children(path):
                    outcome = WriteReply(write.number, zxid, Code.NOT_EMPTY, "", None)
                else:
                    del self.values[path]
                    items = self._fired(link, EventType.DELETED, path)
                    items += self._fired(link, EventType.CHILD, _parent(path))
            case _:
                del self._sessions[link.password]
        assert len(link.watches) <= before
        session.outcomes.append(outcome)
        return [*items, outcome]

    def _read(self, link: "MemoryLink", read: Read | Sync) -> Item:
        if isinstance(read, Sync):
            return EmptyReply(read.xid, self._zxid)
        path, is_there = read.path, read.path in self.values
        if isinstance(read, Exists):
            if read.watch:
                link.watches.add(("data" if is_there else "exist", path))
            return ExistsReply(read.xid, self._zxid, self._stat(path) if is_there else None)
        if not is_there:
            return ErrorReply(read.xid, self._zxid, Code.NO_NODE)
        if isinstance(read, GetChildren):
            if read.watch:
                link.watches.add(("child", path))
            children = [child.rpartition("/")[2] for child in self._children(path)]
            return GetChildrenReply(read.xid, self._zxid, children, self._stat(path))
        assert isinstance(read, GetData)
        if read.watch:
            link.watches.add(("data", path))
        return GetDataReply(read.xid, self._zxid, self.values[path][0], self._stat(path))

    def _fired(self, link: "MemoryLink", kind: EventType, path: str) -> list[Item]:
        tables = {
            EventType.CHILD: {"child"},
            EventType.DELETED: {"data", "exist", "child"},
        }.get(kind, {"data", "exist"})
        fired = {watch for watch in link.watches if watch[0] in tables and watch[1] == path}
        link.watches -= fired
        return [WatcherEvent(kind, path, self._zxid)] if fired else []

    def _children(self, path: str) -> list[str]:
        return [each for each in self.values if each != "/" and _parent(each) == path]

    def _stat(self, path: str) -> Stat:
        value, version = self.values[path]
        zxid, time = self._zxid, Millis(1)
        return Stat(zxid, zxid, time, time, version, 0, 0, 0, len(value), 0, zxid)

    def _next_zxid(self) -> Zxid:
        self._zxid = Zxid(self._zxid + 1)
        return self._zxid


class MemoryLink:
    """One link: the client's end, and what the server knows of that client."""

    incarnation = 1

    def __init__(self, ensemble: ScriptedEnsemble, server: ServerId, events: LinkEvents) -> None:
        self.server = server
        self.session = _Session(SessionId(0), Millis(0))
        self.password = b""
        self.beat = 0
        self.watches: set[tuple[str, str]] = set()
        self.sent: list[bytes] = []
        self._ensemble = ensemble
        self._events: LinkEvents | None = events
        self._loop = asyncio.get_running_loop()

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)
        if not self._ensemble.is_deaf:
            self._loop.call_soon(self._arrive, frame)

    def close(self, reason: str) -> None:
        self._events = None
        if self in self._ensemble.links:
            self._ensemble.links.remove(self)

    def tell(self, frame: bytes) -> None:
        self._loop.call_soon(self._deliver, frame)

    def break_off(self, reason: str) -> None:
        if self._events is not None:
            events, self._events = self._events, None
            self._loop.call_soon(events.closed, reason)

    def _arrive(self, frame: bytes) -> None:
        if self in self._ensemble.links:
            self._ensemble.take(self, frame)

    def _deliver(self, frame: bytes) -> None:
        if self._events is not None:
            self._events.frames([frame])


class _Session:
    def __init__(self, session_id: SessionId, timeout_ms: Millis) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.outcomes: list[WriteReply] = []


def _parent(path: str) -> str:
    return path[: path.rfind("/")] or "/"
