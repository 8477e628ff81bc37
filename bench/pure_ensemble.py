"""Pure servers in one thread over in-memory links, to measure the cost of the server core.

Disks sync at once and links are instant; every frame is encoded and decoded as on a real link.
Nothing here is timed: callers time their calls of `run`.

The servers of tests/harness/pure_servers.py are another thing: a test looks into them, so each
frame is a step of its own, every effect is kept and every reply decoded. With them a write takes a
quarter longer here, and a read half as long again.
"""

from collections.abc import Sequence

from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import SendClient, SendPeer
from raykeeper.server.events import (
    SENT_REPORT_BYTES,
    ClientBytesSent,
    ClientFrameArrived,
    EpochsSaved,
    Event,
    LinkUp,
    LogSynced,
    PeerFrame,
)
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.server.server import Server
from raykeeper.zab.effects import Append, SaveEpochs
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Epoch, Millis, Now, ServerId, Zxid
from raykeeper.zab.settings import Settings, Timing
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    ErrorReply,
    Item,
    ServerFrame,
    WriteReply,
    decode_server_frame,
)
from raykeeper.znodes.requests import Connect, SessionId, encode_client_frame

TOUCH_MS = Millis(250)
_NEVER_MS = Millis(3_600_000)
_NEVER_TXNS = 10**9
_LIMITS = Limits(sessions_max=10_000_000, watches_max=10_000_000)


class PureEnsemble:
    """Servers whose messages `run` delivers until none is left. Time stands still."""

    def __init__(self, size: int) -> None:
        self.ids = [ServerId(i + 1) for i in range(size)]
        recovered = RecoveredState(Epoch(0), Epoch(0), ZERO, ZERO, [], [], ZERO, FOUNDING_DISK)
        options = ServerOptions(snapshot_every_txns=_NEVER_TXNS, session_report_ms=TOUCH_MS)
        self.servers = {
            i: Server(
                Settings(i, tuple(self.ids), timing=Timing(tick_ms=_NEVER_MS)),
                _LIMITS,
                options,
                recovered,
            )
            for i in self.ids
        }
        self.events: dict[ServerId, list[Event]] = {i: [] for i in self.ids}
        self.replies: list[bytes] = []
        self.sent: dict[int, int] = {}
        self.now = Now(Millis(0), Millis(1_700_000_000_000))
        for i, server in self.servers.items():
            self._carry_out(i, server.start(self.now))
        for i in self.ids:
            self.events[i].extend(LinkUp(peer) for peer in self.ids if peer != i)
        self.run()
        leaders = [i for i, server in self.servers.items() if server.peer.broadcasting]
        assert len(leaders) == 1, leaders
        self.leader = leaders[0]

    def run(self) -> None:
        """Step every server that has events or work left, until none has any."""
        while any(self.events.values()) or any(map(self._has_work, self.servers.values())):
            self.step()

    def step(self) -> None:
        """Step every server that has something to do once; new events wait for the next step."""
        for i, server in self.servers.items():
            events = self.events[i]
            if events or self._has_work(server):
                self.events[i] = []
                self._carry_out(i, server.step(events, self.now))

    def tick(self) -> None:
        """Advance time so far that every server reports its active sessions."""
        mono, wall = self.now
        self.now = Now(Millis(mono + TOUCH_MS), Millis(wall + TOUCH_MS))
        for i, server in self.servers.items():
            self._carry_out(i, server.step([], self.now))
        self.run()

    def connect(self, i: ServerId, connections: Sequence[int]) -> None:
        """Open a session on server `i` for each of these connections."""
        for connection in connections:
            password = connection.to_bytes(16)
            connect = Connect(SessionId(0), password, Millis(60_000), ZERO)
            self.send(i, connection, encode_client_frame(connect))
        self.run()
        replies, self.replies = self.replies, []
        assert len(replies) == len(connections), len(replies)
        for data in replies:
            answer = decode_server_frame(data)
            assert isinstance(answer, ConnectReply) and answer.code == 0, answer

    def send(self, i: ServerId, connection: int, data: bytes) -> None:
        """Deliver a client's frame to server `i`."""
        self.events[i].append(ClientFrameArrived(connection, data))

    def answered(self) -> list[Item]:
        """Return the replies to clients since the last call; asserts that none is an error."""
        replies, self.replies = self.replies, []
        items: list[Item] = []
        for data in replies:
            frame = decode_server_frame(data)
            if isinstance(frame, ServerFrame):
                items += frame.items
            else:
                assert isinstance(frame, CloseFrame) and frame.code == Code.SESSION_EXPIRED, frame
        for item in items:
            assert not isinstance(item, ErrorReply), item
            assert not isinstance(item, WriteReply) or item.code == 0, item
        return items

    def _has_work(self, server: Server) -> bool:
        return server.deadline() == self.now.mono

    def _carry_out(self, i: ServerId, effects: Sequence[object]) -> None:
        """Carry out the effects of a step as the shell does, with an instant disk."""
        frames: dict[ServerId, list[PeerMessage]] = {}
        synced = None
        for effect in effects:
            if isinstance(effect, SendPeer):
                frames.setdefault(effect.peer, []).append(effect.message)
            elif isinstance(effect, SendClient):
                number, data = effect.connection, effect.data
                self.replies.append(data)
                size = self.sent[number] = self.sent.get(number, 0) + len(data)
                if size >= SENT_REPORT_BYTES:
                    self.sent[number] = 0
                    self.events[i].append(ClientBytesSent(number, size))
            elif isinstance(effect, Append):
                synced = Zxid(effect.first + len(effect.txns) - 1)
            elif isinstance(effect, SaveEpochs):
                self.events[i].append(EpochsSaved(effect.accepted, effect.current))
        if synced is not None:
            self.events[i].append(LogSynced(synced))
        for peer, messages in frames.items():
            self.events[peer].append(PeerFrame(i, decode_peer_frame(encode_peer_frame(messages))))
