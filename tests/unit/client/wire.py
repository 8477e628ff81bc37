"""The surroundings of ClientCore in its tests, in place of driver, link and server."""

from random import Random
from typing import Any

from raykeeper.client.core.chroot import ROOT, Chroot
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.effects import (
    ChangeState,
    Complete,
    Effect,
    OpenLink,
    SendFrame,
    SendSearchFrame,
)
from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientId, ClientState
from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    Item,
    ServerFrame,
    WriteReply,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    Exists,
    GetChildren,
    GetData,
    SessionId,
    SetData,
    Write,
    decode_client_frame,
    encode_op,
)
from raykeeper.znodes.stat import Stat

PASSWORD = b"0123456789abcdef"
S = 9000  # the session timeout, requested and granted unless a test says otherwise
Z = [make_zxid(Epoch(1), n) for n in range(100)]
SESSION = SessionId(Z[1])
STAT = Stat(Z[1], Z[1], Millis(1), Millis(1), 0, 0, 0, 0, 1, 0, Z[1])
CONNECTED = ChangeState(ClientState.CONNECTED)
READ_ONLY = ChangeState(ClientState.CONNECTED_READ_ONLY)
SUSPENDED = ChangeState(ClientState.SUSPENDED)
SET = SetData("/a", b"v", -1)
OFFER = ConnectReply(0, SessionId(0), Millis(S), Z[1], 0, "", True)
CLOSED = ChangeState(ClientState.LOST, None)


class Wire:
    """A core and its surroundings."""

    def __init__(
        self,
        servers: int = 3,
        *,
        taken: ClientId | None = None,
        chroot: Chroot = ROOT,
        read_only: bool = False,
        learns_servers: bool = True,
        **limits: int,
    ) -> None:
        self.servers = servers
        ids = [ServerId(n + 1) for n in range(servers)]
        # Request timeouts are also out of the way, unless a test wants them.
        limits.setdefault("request_timeout_ms", 1_000_000)
        self.core = ClientCore(
            PASSWORD,
            Millis(S),
            ids,
            Random(7),
            ClientLimits(**limits),
            takeover=taken,
            chroot=chroot,
            read_only=read_only,
            learns_servers=learns_servers,
        )
        self.now = Millis(1000)

    def effects(self) -> list[Any]:
        """Return the effects since the last call, with decoded frames."""
        out: list[Effect] = self.core.out
        self.core.out = []
        return [
            decode_client_frame(e.data) if isinstance(e, SendFrame | SendSearchFrame) else e
            for e in out
        ]

    def at(self, now: int) -> "Wire":
        self.now = Millis(now)
        return self

    def start(self) -> list[Any]:
        self.core.start(self.now)
        return self.effects()

    def opened(self) -> list[Any]:
        self.core.link_opened(self.now)
        return self.effects()

    def failed(self, reason: str = "reset") -> list[Any]:
        self.core.link_failed(reason, self.now)
        return self.effects()

    def search_opened(self) -> list[Any]:
        self.core.search_link_opened(self.now)
        return self.effects()

    def search_failed(self, reason: str = "reset") -> list[Any]:
        self.core.search_link_failed(reason, self.now)
        return self.effects()

    def search_told(self, *frames: ConnectReply | ServerFrame | CloseFrame) -> list[Any]:
        for frame in frames:
            self.core.search_frame(encode_server_frame(frame), self.now)
        return self.effects()

    def wake(self) -> list[Any]:
        self.core.wake(self.now)
        return self.effects()

    def close(self) -> list[Any]:
        self.core.close(self.now)
        return self.effects()

    def submit(self, *asks: Any) -> list[Any]:
        """Submit and flush; each request is its own token."""
        for ask in asks:
            self.core.submit(ask, ask, self.now)
        self.core.flush(self.now)
        return self.effects()

    def told(self, frame: ConnectReply | ServerFrame | CloseFrame) -> list[Any]:
        self.core.frame(encode_server_frame(frame), self.now)
        return self.effects()

    def items(self, *items: Item, heartbeat_seq: int = 0, zxid: Zxid = Z[2]) -> list[Any]:
        return self.told(ServerFrame(heartbeat_seq, zxid, list(items)))

    def connected(self, timeout_ms: int = S, zxid: Zxid = Z[1], last: int = 0) -> list[Any]:
        return self.told(ConnectReply(0, SESSION, Millis(timeout_ms), zxid, last))

    def offered(self) -> list[Any]:
        """Report that the server has no leader and serves read-only."""
        return self.told(OFFER)

    def reading(self) -> "Wire":
        """Ask every server once: none has a leader, and one of them serves read-only."""
        self.start()
        for _ in range(self.servers):
            self.opened()
            self.offered()
        self.at(self.core.deadline() or 0).wake()
        self.opened()
        assert self.offered() == [READ_ONLY]
        return self

    def serving(self) -> "Wire":
        """Open the session."""
        self.start()
        self.opened()
        assert self.connected() == [CONNECTED]
        return self

    def reconnected(self, zxid: Zxid = Z[1]) -> list[Any]:
        """Break the link and let the next server take the session; return the new effects."""
        before = self.failed()
        assert before[0] == SUSPENDED
        assert isinstance(before[1], OpenLink)
        self.opened()
        first, *sent = self.connected(zxid=zxid)
        assert first == CONNECTED
        return sent

    def watching(self, *asks: Query) -> None:
        """Set watches: the znode "/none" is missing."""
        sent = self.submit(*asks)[0].requests
        replies: list[Item] = []
        for request in sent:
            match request:
                case GetData(xid=xid):
                    replies.append(GetDataReply(xid, Z[2], b"", STAT))
                case Exists(xid=xid, path=path):
                    replies.append(ExistsReply(xid, Z[2], None if path == "/none" else STAT))
                case GetChildren(xid=xid):
                    replies.append(GetChildrenReply(xid, Z[2], [], STAT))
        assert all(isinstance(effect, Complete) for effect in self.items(*replies))


def write(number: int, op: Any = SET, acked: int = 0) -> Write:
    return Write(number, acked, encode_op(op))


def done(number: int, code: int = 0) -> WriteReply:
    return WriteReply(number, Z[2], code, "", None if code else STAT)
