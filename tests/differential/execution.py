"""Runs a program over bytes, and returns what each session was told, step by step.

After each step every session sends a sync and waits for its reply, so that the events that the step
has caused belong to it, whatever the target's speed.
"""

from typing import Any, Final

from msgspec.structs import replace

from raykeeper.jute.fields import Record
from raykeeper.jute.frames import (
    decode_connect_response,
    encode_connect,
    encode_request,
)
from raykeeper.jute.multi import MultiRequest
from raykeeper.jute.opcodes import AUTH_XID, PING_XID, SET_WATCHES_XID, OpCode
from raykeeper.jute.records import (
    AddWatchRequest,
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    CreateResponse,
    EmptyRequest,
    PathRequest,
    PathWatchRequest,
    SetWatches2,
    WatcherEvent,
    WatchesRequest,
)
from raykeeper.jute.schema import REPLIES
from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import WatchKind
from tests.differential.conversations import Conversation, Told, Transcript
from tests.differential.programs import ABSOLUTE, Ask, Drop, Open, Program, Return, Step
from tests.differential.targets import Silent, Stream, Target

ROOT_NAME: Final = "/program-"
_ZEROS: Final = bytes(16)
_XIDS: Final = {
    OpCode.PING: PING_XID,
    OpCode.AUTH: AUTH_XID,
    OpCode.SET_WATCHES: SET_WATCHES_XID,
    OpCode.SET_WATCHES2: SET_WATCHES_XID,
}


class _Watches:
    """The watches of a session that have not fired, as a client of ZooKeeper keeps them."""

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.exist: dict[str, None] = {}
        self.child: dict[str, None] = {}
        self.persistent: dict[str, int] = {}

    def on_reply(self, opcode: int, request: Record | None, err: int) -> None:
        """Note what a reply has set or removed."""
        match request:
            case PathWatchRequest(path, True):
                if opcode in (OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2):
                    if not err:
                        self.child[path] = None
                elif not err:
                    self.data[path] = None
                elif opcode == OpCode.EXISTS and err == Code.NO_NODE:
                    self.exist[path] = None
            case AddWatchRequest(path, mode) if not err:
                self.persistent[path] = mode
            case WatchesRequest(path, kind) if not err and opcode == OpCode.REMOVE_WATCHES:
                self._remove(path, kind)

    def _remove(self, path: str, kind: int) -> None:
        if kind in (WatchKind.CHILD, WatchKind.ANY):
            self.child.pop(path, None)
        if kind in (WatchKind.DATA, WatchKind.ANY):
            self.data.pop(path, None)
            self.exist.pop(path, None)
        if kind == WatchKind.ANY:
            self.persistent.pop(path, None)

    def on_event(self, event: WatcherEvent) -> None:
        """Forget what has fired."""
        path = event.path
        if event.type in (EventType.CHILD, EventType.DELETED):
            self.child.pop(path, None)
        if event.type != EventType.CHILD:
            self.data.pop(path, None)
            self.exist.pop(path, None)

    def as_request(self, zxid: int) -> SetWatches2:
        """Return the request that sets all again."""
        return SetWatches2(
            zxid,
            list(self.data),
            list(self.exist),
            list(self.child),
            [path for path, mode in self.persistent.items() if mode == 0],
            [path for path, mode in self.persistent.items() if mode == 1],
        )


class _Client(Conversation):
    """One session, over one connection after the other."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.stream: Stream | None = None
        self.response: ConnectResponse | None = None
        self.watches = _Watches()
        self.credentials: dict[AuthPacket, None] = {}
        """Those that a server has taken, in their order. A client repeats them when it returns."""
        self._xid = 0

    def frame(self, opcode: int, body: Record) -> bytes:
        """Return the frame of the next request."""
        xid = _XIDS.get(OpCode(opcode)) if opcode in REPLIES else None
        if xid is None:
            self._xid += 1
            xid = self._xid
        self.expect(xid, opcode, body)
        return encode_request(xid, opcode, body)

    def begin(self, stream: Stream) -> None:
        """Go on with a new connection."""
        self.stream = stream
        self._xid = 0
        self.forget()

    def read(self, payload: bytes) -> dict[str, Any]:
        """Return the fields of `Told` that a payload says."""
        told = super().read(payload)
        request, body, err = told["request"], told.get("body"), told.get("err", 0)
        if isinstance(request, AuthPacket) and not err:
            self.credentials[request] = None
        self.watches.on_reply(told["opcode"], request, err)
        if isinstance(body, WatcherEvent):
            self.watches.on_event(body)
        return told


class _Execution:
    """One run of a program."""

    def __init__(self, program: Program, target: Target) -> None:
        self._program, self._target = program, target
        self._clients: dict[int, _Client] = {}
        self._told: list[Told] = []
        self._session_ids: list[int] = []
        self._step = 0
        self._root = ""

    def run(self) -> Transcript:
        """Run all steps; each stream is closed at the end."""
        try:
            self._make_root()
            for number, step in enumerate(self._program.steps):
                self._step = number
                self._do(step)
                self._settle()
        except Silent:
            self._tell(-1, fault="no answer")
        finally:
            for client in self._clients.values():
                if client.stream is not None:
                    client.stream.close()
        return Transcript(self._root, self._session_ids, self._told)

    def _make_root(self) -> None:
        maker = self._connect(-1, ConnectRequest(0, 0, 10_000, 0, _ZEROS, False))
        create = CreateRequest(ROOT_NAME, b"", list(OPEN_ACL), 2)
        self._ask(maker, ((OpCode.CREATE, create), (OpCode.CLOSE_SESSION, EmptyRequest())))
        body = self._told[1].body
        assert isinstance(body, CreateResponse), self._told
        self._root = body.path
        stream = maker.stream
        assert stream is not None
        self._read_to_end(stream, -1)
        self._clients.clear()
        self._told.clear()
        self._session_ids.clear()

    def _do(self, step: Step) -> None:
        match step:
            case Open():
                request = ConnectRequest(0, 0, step.timeout_ms, 0, _ZEROS, step.read_only)
                self._connect(step.session, request)
            case Drop():
                client = self._clients[step.session]
                if client.stream is not None:
                    client.stream.close()
                    client.stream = None
            case Return():
                self._return(step)
            case Ask():
                client = self._clients[step.session]
                if client.stream is not None:
                    self._ask(client, step.requests)
                if client.stream is not None and self._ends(step.requests[-1]):
                    stream, client.stream = client.stream, None
                    self._read_to_end(stream, step.session)

    def _ends(self, request: tuple[int, Record]) -> bool:
        """Return whether a server closes the connection behind its answer to a request."""
        opcode, _ = request
        if opcode == OpCode.AUTH:
            return self._told[-1].err != 0
        return opcode == OpCode.CLOSE_SESSION or opcode not in REPLIES

    def _return(self, step: Return) -> None:
        client = self._clients[step.session]
        response = client.response
        assert response is not None and response.password is not None
        password = bytes(16) if step.is_wrong else response.password
        if step.is_wrong and client.stream is not None:
            # ZooKeeper would close it before it looks at the password.
            client.stream.close()
            client.stream = None
        former = client.stream
        client = self._connect(
            step.session,
            ConnectRequest(0, client.zxid, 10_000, response.session_id, password, False),
        )
        if former is not None:
            self._read_to_end(former, step.session)
        if client.stream is not None:
            for credential in list(client.credentials):
                self._ask(client, ((OpCode.AUTH, credential),))
            watches = client.watches.as_request(client.zxid)
            self._ask(client, ((OpCode.SET_WATCHES2, watches),))

    def _connect(self, session: int, request: ConnectRequest) -> _Client:
        client = self._clients.get(session) if request.session_id else None
        if client is None:
            client = self._clients[session] = _Client(session)
        stream = self._target.connect()
        client.begin(stream)
        stream.send(encode_connect(request))
        payload = stream.next()
        if payload is None:
            self._tell(session, fault="closed")
            client.stream = None
            return client
        response = decode_connect_response(payload)
        self._tell(session, body=response)
        if response.timeout <= 0:
            self._read_to_end(stream, session)
            client.stream = None
        elif response.session_id not in self._session_ids:
            self._session_ids.append(response.session_id)
        if not request.session_id:
            client.response = response
        return client

    def _ask(self, client: _Client, requests: tuple[tuple[int, Record], ...]) -> None:
        assert client.stream is not None
        frames = [client.frame(opcode, self._rooted(body)) for opcode, body in requests]
        client.stream.send(b"".join(frames))
        self._read(client)

    def _settle(self) -> None:
        """Read what every session is told because of the step."""
        connected = [client for client in self._clients.values() if client.stream is not None]
        for client in connected:
            assert client.stream is not None
            client.stream.send(client.frame(OpCode.SYNC, PathRequest("/")))
        for client in connected:
            self._read(client, is_barrier=True)

    def _read(self, client: _Client, *, is_barrier: bool = False) -> None:
        stream = client.stream
        assert stream is not None
        while client.is_waiting:
            payload = stream.next()
            if payload is None:
                self._tell(client.number, fault="closed")
                client.stream = None
                stream.close()
                return
            told = client.read(payload)
            is_barriers = is_barrier and not client.is_waiting and "fault" not in told
            if not is_barriers:
                self._tell(client.number, **told)

    def _read_to_end(self, stream: Stream, session: int) -> None:
        while (payload := stream.next()) is not None:
            self._tell(session, fault=f"told more before the end: {payload.hex()}")
        self._tell(session, fault="closed")
        stream.close()

    def _tell(self, session: int, **told: Any) -> None:
        fields = {"opcode": 0, "request": None, **told}
        self._told.append(Told(self._step, session, **fields))

    def _rooted(self, record: Record) -> Record:
        """Return the record with paths below the root of this run."""
        if isinstance(record, MultiRequest):
            ops = [replace(op, body=self._rooted(op.body)) for op in record.ops]
            return MultiRequest(ops)
        path = getattr(record, "path", None)
        if path is None or path.startswith(ROOT_NAME):
            return record
        return replace(record, path=self._path(path))

    def _path(self, path: str) -> str:
        if path.startswith(ABSOLUTE):
            return path.removeprefix(ABSOLUTE)
        return self._root + path if path.startswith("/") else path


def execute(program: Program, target: Target) -> Transcript:
    """Run a program, and return what its sessions were told."""
    return _Execution(program, target).run()
