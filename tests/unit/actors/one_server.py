"""Pure servers without a shell: one alone, or several whose links a test can hold and cut.

Everything is done at once and in order unless a test says otherwise. A disk that is held keeps its
work; a wire that is held keeps its frames. What no server may ever do is asserted here: send to
itself, or send to a client after closing its link.
"""

from collections import deque
from typing import TypeVar

from raykeeper.actors.effects import (
    CloseClient,
    Effect,
    PublishSnapshot,
    SendClient,
    SendPeer,
    SnapshotBegin,
    SnapshotEffect,
    SnapshotFinish,
    SnapshotWrite,
    TrackSessions,
)
from raykeeper.actors.events import (
    ClientFrameArrived,
    DiskEvent,
    Event,
    LinkDown,
    LinkUp,
    PeerFrame,
    SessionsOverdue,
    SnapshotCredited,
    SnapshotWritten,
    TrackerLost,
)
from raykeeper.actors.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.actors.server import Server
from raykeeper.actors.server_context import ServerOptions
from raykeeper.zab.effects import BreakLink, DiskEffect, Note, Role
from raykeeper.zab.ids import ZERO, Millis, ServerId, Zxid
from raykeeper.zab.settings import Settings, Timing, WindowLimits
from raykeeper.znodes.expiry import Expiry
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    Connected,
    Ended,
    Item,
    ServerFrame,
    decode_server_frame,
)
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
from tests.simulation.disk import SimDisk, StoredSnapshot
from tests.simulation.schedule import Schedule

LIMITS = Limits(session_timeout_min_ms=Millis(1_000), session_timeout_max_ms=Millis(20_000))
OPTIONS = ServerOptions(snapshot_every_txns=1_000_000, touch_ms=Millis(100))
TIMING = Timing(tick_ms=Millis(1_000), init_limit=10, sync_limit=4)
WALL_AT_START = 1_700_000_000_000

T = TypeVar("T")


class OneServer:
    """A server, its disk, and everything it has asked for since the last `take`."""

    def __init__(
        self,
        server_id: int = 1,
        voters: tuple[int, ...] = (1,),
        *,
        limits: Limits = LIMITS,
        options: ServerOptions = OPTIONS,
        window: WindowLimits | None = None,
        segment_bytes: int = 1_000_000,
        clock: Schedule | None = None,
    ) -> None:
        self.server_id = ServerId(server_id)
        self.clock = clock or Schedule(0)
        self._voters, self._window = tuple(map(ServerId, voters)), window
        self.limits = limits
        self.options = options
        self.effects: list[Effect] = []
        self.frames: dict[int, list[Connected | ServerFrame | Ended]] = {}
        self.closed: list[int] = []
        self.outbox: list[tuple[ServerId, list[PeerMessage]]] = []
        self.broken: list[ServerId] = []
        self.is_disk_held = False
        self.tracks = False
        self.has_snapshotter = False
        self.ensemble: Servers | None = None
        self._disk_work = Schedule(0)
        self.disk = SimDisk(self._disk_work, segment_bytes=segment_bytes)
        self.disk.sync_ms_max = 0
        self._done: list[DiskEvent] = []
        self._told: list[Event] = []
        self._tracker = Expiry()
        self._snapshot = StoredSnapshot(ZERO, ZERO, [])
        self.settings: Settings
        self.server: Server
        self.start()

    def start(self) -> None:
        """Start a process on the disk; the one before it is killed."""
        self.disk.crash()
        recovered = self.disk.open(self._done.extend)
        self.settings = Settings(
            self.server_id, self._voters, recovered.disk, timing=TIMING, window=self._window
        )
        self.server = Server(self.settings, self.limits, self.options, recovered)
        self._carry_out(self.server.start(self.clock.times()))
        self._work_disk()

    def step(self, *events: Event) -> list[Effect]:
        """One step, and those that its disk work leads to; returns all effects."""
        already = len(self.effects)
        self._carry_out(self.server.step(list(events), self.clock.times()))
        self._work_disk()
        return self.effects[already:]

    def sync_disk(self) -> None:
        """Let a held disk do what waits, once."""
        self._disk_work.run_until(self._disk_work.now)
        events, self._done[:] = list(self._done), []
        self._carry_out(self.server.step(list(events), self.clock.times()))

    def release_disk(self) -> None:
        """The disk works at once again."""
        self.is_disk_held = False
        self._work_disk()

    def pass_time(self, ms: int) -> None:
        """Step at each deadline on the way."""
        until = self.clock.now + ms
        while (due := self.server.deadline()) is not None and due <= until:
            self.clock.now = max(self.clock.now, due)
            self.step()
        self.clock.now = Millis(until)
        self.step()

    def track(self) -> None:
        """From now on there is a session tracker."""
        self.tracks = True
        self.step(TrackerLost())

    def run(self) -> None:
        """Let the ensemble, if there is one, come to rest."""
        if self.ensemble is not None:
            self.ensemble.run()

    def caller(self, connection: int = 1, **connect: int) -> "Caller":
        """A client with a session."""
        caller = Caller(self, connection)
        caller.connect(**connect)  # type: ignore[arg-type]
        return caller

    def of(self, kind: type[T]) -> list[T]:
        """The effects of one kind since the last `take`."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def notes(self, name: str) -> list[object]:
        """Details of the notes of one name since the last `take`."""
        return [note.detail for note in self.of(Note) if note.name == name]

    def sent(self, kind: type[T]) -> list[T]:
        """The messages of one kind to any server since the last `take`."""
        return [x.message for x in self.of(SendPeer) if isinstance(x.message, kind)]

    def take(self) -> list[Effect]:
        """All effects since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def _to_snapshotter(self, effect: SnapshotEffect) -> None:
        if isinstance(effect, SnapshotBegin):
            self._snapshot = StoredSnapshot(effect.zxid, ZERO, [])
        elif isinstance(effect, SnapshotWrite):
            self._snapshot.chunks.append(effect.data)
            self._told.append(SnapshotCredited(effect.zxid))
        elif isinstance(effect, SnapshotFinish):
            self._snapshot.consistent_at = effect.consistent_at
            self.disk.written[effect.zxid] = self._snapshot
            self._told.append(SnapshotWritten(effect.zxid))

    def _work_disk(self) -> None:
        """What the disk does, at once; and what the companions have said, one answer a step."""
        told, self._told = self._told, []
        while True:
            if not self.is_disk_held:
                self._disk_work.run_until(self._disk_work.now)
            events = [*self._done, *told]
            self._done[:], told = [], []
            if not events:
                return
            self._carry_out(self.server.step(events, self.clock.times()))

    def _carry_out(self, effects: list[Effect]) -> None:
        self.effects += effects
        to_peers: dict[ServerId, list[PeerMessage]] = {}
        for effect in effects:
            if isinstance(effect, SendPeer):
                assert effect.peer != self.server_id, effect
                to_peers.setdefault(effect.peer, []).append(effect.message)
            elif isinstance(effect, SendClient):
                assert effect.connection not in self.closed, "sent after the end"
                frame = decode_server_frame(effect.data)
                self.frames.setdefault(effect.connection, []).append(frame)
            elif isinstance(effect, CloseClient):
                self.closed.append(effect.connection)
            elif isinstance(effect, DiskEffect | PublishSnapshot):
                self.disk.submit([effect])
            elif isinstance(effect, BreakLink):
                self.broken.append(effect.peer)
            elif isinstance(effect, TrackSessions) and self.tracks:
                self._tracker.report(effect.report, self.clock.now)
                self._told.append(SessionsOverdue(self._tracker.verdicts(self.clock.now)))
            elif isinstance(effect, SnapshotEffect) and self.has_snapshotter:
                self._to_snapshotter(effect)
        self.outbox += to_peers.items()


class Caller:
    """The client's end of one connection."""

    def __init__(self, host: OneServer, connection: int, password: bytes | None = None) -> None:
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
    ) -> Connected | Ended | None:
        """Open a session or take one up; None while there is no answer."""
        request = self.request(session_id, timeout_ms, last_zxid)
        self.raw(encode_client_frame(request))
        return self.greeting

    def request(self, session_id: int = 0, timeout_ms: int = 10_000, last_zxid: int = 0) -> Connect:
        """The first frame of the connection."""
        shown, attempt = Zxid(last_zxid), self.attempt
        return Connect(SessionId(session_id), self.password, Millis(timeout_ms), shown, attempt)

    def take_up(self, other: "Caller") -> Connected | Ended | None:
        """Go on with the session of another connection."""
        self.password, self.attempt = other.password, other.attempt + 1
        self.number, self.acked = other.number, other.acked
        return self.connect(other.session_id)

    @property
    def greeting(self) -> Connected | Ended | None:
        """The first answer on this connection, if any."""
        frames = self.host.frames.get(self.connection)
        if not frames:
            return None
        assert not isinstance(frames[0], ServerFrame)
        if isinstance(frames[0], Connected):
            self.session_id = frames[0].session_id
        return frames[0]

    @property
    def owner(self) -> Zxid:
        """The owner number of the session, as its server knows it."""
        return self.host.server.state.sessions.by_id[self.session_id].owner

    @property
    def answers(self) -> list[ServerFrame]:
        """The frames of items so far."""
        frames = self.host.frames.get(self.connection, [])
        return [frame for frame in frames if isinstance(frame, ServerFrame)]

    @property
    def items(self) -> list[Item]:
        """Everything answered and told so far, in order."""
        return [item for frame in self.answers for item in frame.items]

    @property
    def ended(self) -> int | None:
        """Why the server closed the connection; None while it has not."""
        frames = self.host.frames.get(self.connection, [])
        ends = [frame for frame in frames if isinstance(frame, Ended)]
        if not ends:
            return None
        assert frames[-1:] == ends and self.connection in self.host.closed, frames
        return ends[0].code

    def new(self) -> list[Item]:
        """The items since the last call."""
        items = self.items[self._seen :]
        self._seen += len(items)
        return items

    def raw(self, data: bytes) -> None:
        """Send a frame, and let everything come to rest."""
        self.host.step(ClientFrameArrived(self.connection, data))
        self.host.run()

    def frame(self, *requests: Request) -> ClientFrameArrived:
        """The event of a frame, for a test that steps by itself."""
        self.beat += 1
        data = encode_client_frame(ClientFrame(self.beat, list(requests)))
        return ClientFrameArrived(self.connection, data)

    def ask(self, *requests: Request) -> list[Item]:
        """Send requests in one frame; what comes back by the time everything is at rest."""
        self.new()
        self.host.step(self.frame(*requests))
        self.host.run()
        return self.new()

    def write(self, op: WriteOp) -> Write:
        """The next write."""
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


class Servers:
    """An ensemble on one clock. The server with the highest id leads, all else being equal."""

    def __init__(
        self,
        count: int,
        *,
        limits: Limits = LIMITS,
        options: ServerOptions = OPTIONS,
        window: WindowLimits | None = None,
        segment_bytes: int = 1_000_000,
        observers: int = 0,
    ) -> None:
        self.clock = Schedule(0)
        voters = tuple(range(1, count + 1))
        ids = tuple(range(1, count + observers + 1))
        self.held: dict[tuple[int, int], None] = {}
        self.wires: dict[tuple[int, int], deque[bytes]] = {}
        self.down: dict[int, OneServer] = {}
        self.hosts: dict[int, OneServer] = {}
        for i in ids:
            host = OneServer(
                i,
                voters,
                limits=limits,
                options=options,
                window=window,
                segment_bytes=segment_bytes,
                clock=self.clock,
            )
            host.ensemble = self
            self.hosts[i] = host
        for i in ids:
            for j in ids[i:]:
                self._link(i, j)
        self.run()

    def __getitem__(self, server_id: int) -> OneServer:
        return self.hosts[server_id]

    @property
    def leader(self) -> OneServer:
        """The one that leads."""
        (leader,) = [x for x in self.hosts.values() if x.server.peer.role is Role.LEADER]
        assert leader.server.peer.is_active
        return leader

    def run(self) -> None:
        """Carry frames until nothing moves but what is held."""
        while self._carry():
            pass

    def hold(self, sender: int, receiver: int) -> None:
        """Keep the frames of one direction on the wire."""
        self.held[sender, receiver] = None

    def release(self, sender: int, receiver: int) -> None:
        """Let them go on, and everything come to rest."""
        self.held.pop((sender, receiver), None)
        self.run()

    def cut(self, one: int, other: int) -> None:
        """Break a link, and let everything come to rest."""
        self._unlink(one, other)
        self.run()

    def link(self, one: int, other: int) -> None:
        """Open a link, and let everything come to rest."""
        self._link(one, other)
        self.run()

    def crash(self, server_id: int) -> None:
        """Kill a server: its disk keeps what it was told to."""
        host = self.hosts.pop(server_id)
        host.disk.crash()
        self.down[server_id] = host
        for other in self.hosts:
            self._unlink(server_id, other)
        self.run()

    def restart(self, server_id: int) -> None:
        """Start it again on its disk."""
        host = self.hosts[server_id] = self.down.pop(server_id)
        host.start()
        for other in self.hosts:
            if other != server_id:
                self._link(server_id, other)
        self.run()

    def pass_time(self, ms: int) -> None:
        """Let time go by, in steps of a tenth of a tick."""
        until = self.clock.now + ms
        while self.clock.now < until:
            self.clock.now = Millis(min(self.clock.now + TIMING.tick_ms // 10, until))
            for host in list(self.hosts.values()):
                host.step()
            self.run()

    def digests(self) -> list[int]:
        """Of every server's state."""
        return [host.server.state.digest() for host in self.hosts.values()]

    def _link(self, one: int, other: int) -> None:
        self.wires[one, other] = deque()
        self.wires[other, one] = deque()
        self.hosts[one].step(LinkUp(ServerId(other)))
        self.hosts[other].step(LinkUp(ServerId(one)))

    def _unlink(self, one: int, other: int) -> None:
        if self.wires.pop((one, other), None) is None:
            return
        del self.wires[other, one]
        for end, peer in ((one, other), (other, one)):
            if end in self.hosts:
                self.hosts[end].step(LinkDown(ServerId(peer)))

    def _carry(self) -> bool:
        moved = False
        for host in list(self.hosts.values()):
            frames, host.outbox = host.outbox, []
            for peer, messages in frames:
                if (wire := self.wires.get((host.server_id, peer))) is not None:
                    wire.append(encode_peer_frame(messages))
            for peer in host.broken:
                self._unlink(host.server_id, peer)
            host.broken = []
        for (sender, receiver), wire in list(self.wires.items()):
            if wire and (sender, receiver) not in self.held and receiver in self.hosts:
                moved = True
                messages = decode_peer_frame(wire.popleft())
                self.hosts[receiver].step(PeerFrame(ServerId(sender), messages))
        return moved


def zxid_of(host: OneServer) -> Zxid:
    """The last transaction the server has applied."""
    return max(ZERO, host.server.state.zxid)
