"""Pure servers without a shell: one alone, or several whose links a test can hold and cut.

Everything happens at once and in order unless a test says otherwise. A held disk keeps its work; a
held wire keeps its frames. The harness asserts what no server may ever do: send to itself, or send
to a client after closing its link.

`PureEnsemble` in bench/pure_ensemble.py is the one to measure: it does nothing of this.
"""

from collections import deque
from typing import TypeVar

from msgspec.structs import replace

from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import (
    CloseClient,
    Effect,
    MembersKnown,
    PublishSnapshot,
    ReadProcessFacts,
    SaveLevel,
    SendClient,
    SendPeer,
    SnapshotBegin,
    SnapshotEffect,
    SnapshotFinish,
    SnapshotWrite,
    TrackSessions,
)
from raykeeper.server.events import (
    SENT_REPORT_BYTES,
    ClientBytesSent,
    DiskEvent,
    Event,
    LinkDown,
    LinkUp,
    PeerFrame,
    ProcessFactsRead,
    SessionsOverdue,
    SnapshotCredited,
    SnapshotWritten,
    TrackerLost,
)
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.server.server import Server
from raykeeper.zab.effects import BreakLink, DiskEffect, Role, TraceEvent
from raykeeper.zab.feature_levels import LEVEL_MIN, FeatureLevel, FeatureLevels
from raykeeper.zab.ids import ZERO, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.settings import RecentLogLimits, Settings, Timing
from raykeeper.znodes.expiry import SessionExpiry
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    ServerFrame,
    decode_server_frame,
)
from tests.harness.caller import Caller
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import SimDisk, StoredSnapshot

LIMITS = Limits(session_timeout_min_ms=Millis(1_000), session_timeout_max_ms=Millis(20_000))
OPTIONS = ServerOptions(snapshot_every_txns=1_000_000, session_report_ms=Millis(100))
TIMING = Timing(tick_ms=Millis(1_000), init_limit=10, sync_limit=4)
FACTS = ProcessFacts(70, 1024, 300, 4000, (("host.name", "here"), ("python.version", "3")))
"""The facts of every process."""

T = TypeVar("T")


class PureServer:
    """A server, its disk, and all effects that the server returned since the last `take`."""

    def __init__(
        self,
        server_id: int = 1,
        voters: tuple[int, ...] = (1,),
        *,
        limits: Limits = LIMITS,
        options: ServerOptions = OPTIONS,
        window: RecentLogLimits | None = None,
        segment_bytes: int = 1_000_000,
        clock: Schedule | None = None,
        observers: tuple[int, ...] = (),
        newest_level: FeatureLevel = LEVEL_MIN,
    ) -> None:
        self.server_id = ServerId(server_id)
        self.clock = clock or Schedule(0)
        self._voters, self._window = tuple(map(ServerId, voters)), window
        self._observers = tuple(map(ServerId, observers))
        self.limits = limits
        self.options = options
        self.effects: list[Effect] = []
        self.frames: dict[int, list[ConnectReply | ServerFrame | CloseFrame]] = {}
        self.streams: dict[int, bytearray] = {}
        """The bytes that were sent to the clients of ZooKeeper, by connection."""
        self.closed: list[int] = []
        self.unsent: dict[int, int] = {}
        """Bytes that the server was not told to have left, by connection."""
        self.stuck: dict[int, None] = {}
        """Connections whose clients take nothing."""
        self.outbox: list[tuple[ServerId, list[PeerMessage]]] = []
        self.broken: list[ServerId] = []
        self.is_disk_held = False
        self.tracks = False
        self.has_snapshotter = False
        self.ensemble: PureServers | None = None
        self._disk_work = Schedule(0)
        self.disk = SimDisk(self._disk_work, segment_bytes=segment_bytes)
        self.disk.sync_ms_max = 0
        self._done: list[DiskEvent] = []
        self._told: list[Event] = []
        self.tracker = SessionExpiry()
        self._snapshot = StoredSnapshot(ZERO, ZERO, [])
        self.newest_level = newest_level
        """The newest feature level that its program knows, from the next start on."""
        self.raise_to: FeatureLevel | None = None
        """The level to which it raises the ensemble at most."""
        self.known: MemberList | None = None
        """The newest member list that whoever starts it knows."""
        self.was_member = False
        """Whether a list has had it, as its folder says."""
        self.settings: Settings
        self.server: Server
        self.start()

    def start(self) -> None:
        """Start a process on the disk; kill the previous one."""
        self.disk.crash()
        recovered = self.disk.open(self._done.extend)
        self.settings = Settings(
            *(self.server_id, self._voters, recovered.disk_id, TIMING, self._window),
            levels=FeatureLevels(self.newest_level, raise_to=self.raise_to),
            observers=self._observers,
            known=self.known,
        )
        recovered = replace(recovered, was_member=self.was_member)
        self.server = Server(self.settings, self.limits, self.options, recovered)
        self._carry_out(self.server.start(self.clock.times()))
        self._work_disk()

    def step(self, *events: Event) -> list[Effect]:
        """Make one step, and the steps that its disk work causes; return all effects."""
        already = len(self.effects)
        self._carry_out(self.server.step(list(events), self.clock.times()))
        self._work_disk()
        return self.effects[already:]

    def sync_disk(self, *others: Event) -> None:
        """Let a held disk do its waiting work once; `others` arrive before it, in the same step."""
        self._disk_work.run_until(self._disk_work.now)
        events, self._done[:] = [*others, *self._done], []
        self._carry_out(self.server.step(events, self.clock.times()))

    def release_disk(self) -> None:
        """End the hold: from now on the disk works at once again."""
        self.is_disk_held = False
        self._work_disk()

    def pass_time(self, ms: int) -> None:
        """Let time pass, with a step at each deadline."""
        until = self.clock.now + ms
        while (due := self.server.deadline()) is not None and due <= until:
            self.clock.now = max(self.clock.now, due)
            self.step()
        self.clock.now = Millis(until)
        self.step()

    def track(self) -> None:
        """Run a session tracker from now on."""
        self.tracks = True
        self.step(TrackerLost())

    def run(self) -> None:
        """Run the ensemble, if there is one, until nothing moves."""
        if self.ensemble is not None:
            self.ensemble.run()

    def caller(self, connection: int = 1, **connect: int) -> Caller:
        """Return a client with a session."""
        caller = Caller(self, connection)
        caller.connect(**connect)  # type: ignore[arg-type]
        return caller

    def of(self, kind: type[T]) -> list[T]:
        """Return the effects of one kind since the last `take`."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def notes(self, name: str) -> list[object]:
        """Return the details of the trace events of one name since the last `take`."""
        return [note.detail for note in self.of(TraceEvent) if note.name == name]

    def sent(self, kind: type[T]) -> list[T]:
        """Return the messages of one kind that were sent to any server since the last `take`."""
        return [x.message for x in self.of(SendPeer) if isinstance(x.message, kind)]

    def take(self) -> list[Effect]:
        """Return all effects since the last call."""
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
        """Do all disk work at once, and deliver what the actors beside the server answered."""
        told, self._told = self._told, []
        while True:
            if not self.is_disk_held:
                self._disk_work.run_until(self._disk_work.now)
            events = [*self._done, *told, *self._left()]
            self._done[:], told = [], []
            if not events:
                return
            self._carry_out(self.server.step(events, self.clock.times()))

    def _left(self) -> list[ClientBytesSent]:
        """Return the sends that have left the server: all of them, unless the client is stuck."""
        left = [
            n
            for n, size in self.unsent.items()
            if size >= SENT_REPORT_BYTES and n not in self.stuck
        ]
        return [ClientBytesSent(number, self.unsent.pop(number)) for number in left]

    def _carry_out(self, effects: list[Effect]) -> None:
        self.effects += effects
        to_peers: dict[ServerId, list[PeerMessage]] = {}
        for effect in effects:
            if isinstance(effect, SendPeer):
                assert effect.peer != self.server_id, effect
                to_peers.setdefault(effect.peer, []).append(effect.message)
            elif isinstance(effect, SendClient):
                assert effect.connection not in self.closed, "sent after the end"
                if effect.connection in self.streams:
                    self.streams[effect.connection] += effect.data
                else:
                    frame = decode_server_frame(effect.data)
                    self.frames.setdefault(effect.connection, []).append(frame)
                self.unsent[effect.connection] = self.unsent.get(effect.connection, 0) + len(
                    effect.data
                )
            elif isinstance(effect, CloseClient):
                self.closed.append(effect.connection)
            elif isinstance(effect, DiskEffect | PublishSnapshot | SaveLevel):
                self.disk.submit([effect])
            elif isinstance(effect, BreakLink):
                self.broken.append(effect.peer)
            elif isinstance(effect, MembersKnown):
                self.was_member = effect.was_member
            elif isinstance(effect, ReadProcessFacts):
                self._told.append(ProcessFactsRead(FACTS))
            elif isinstance(effect, TrackSessions) and self.tracks:
                found = self.tracker.track(effect.report, self.clock.now)
                self._told.append(TrackerLost() if found is None else SessionsOverdue(found))
            elif isinstance(effect, SnapshotEffect) and self.has_snapshotter:
                self._to_snapshotter(effect)
        self.outbox += to_peers.items()


class PureServers:
    """An ensemble on one clock. If logs are equal, the server with the highest id leads."""

    def __init__(
        self,
        count: int,
        *,
        limits: Limits = LIMITS,
        options: ServerOptions = OPTIONS,
        window: RecentLogLimits | None = None,
        segment_bytes: int = 1_000_000,
        observers: int = 0,
        strangers: int = 0,
        newest_level: FeatureLevel = LEVEL_MIN,
    ) -> None:
        """`strangers` are linked and are no members yet."""
        self.clock = Schedule(0)
        voters = tuple(range(1, count + 1))
        ids = tuple(range(1, count + observers + strangers + 1))
        self.held: dict[tuple[int, int], None] = {}
        self.wires: dict[tuple[int, int], deque[bytes]] = {}
        self.down: dict[int, PureServer] = {}
        self.hosts: dict[int, PureServer] = {}
        for i in ids:
            host = PureServer(
                i,
                voters,
                limits=limits,
                options=options,
                window=window,
                segment_bytes=segment_bytes,
                clock=self.clock,
                observers=ids[count : count + observers],
                newest_level=newest_level,
            )
            host.ensemble = self
            self.hosts[i] = host
        for i in ids:
            for j in ids[i:]:
                self._link(i, j)
        self.run()

    def __getitem__(self, server_id: int) -> PureServer:
        return self.hosts[server_id]

    @property
    def leader(self) -> PureServer:
        """Return the server that leads."""
        (leader,) = [x for x in self.hosts.values() if x.server.peer.role is Role.LEADER]
        assert leader.server.peer.is_active
        return leader

    def run(self) -> None:
        """Carry frames until nothing moves except held ones."""
        while self._carry():
            pass

    def hold(self, sender: int, receiver: int) -> None:
        """Keep the frames of one direction on the wire."""
        self.held[sender, receiver] = None

    def release(self, sender: int, receiver: int) -> None:
        """End the hold of one direction, and run until nothing moves."""
        self.held.pop((sender, receiver), None)
        self.run()

    def cut(self, one: int, other: int) -> None:
        """Break a link, and run until nothing moves."""
        self._unlink(one, other)
        self.run()

    def link(self, one: int, other: int) -> None:
        """Open a link, and run until nothing moves."""
        self._link(one, other)
        self.run()

    def crash(self, server_id: int) -> None:
        """Kill a server; its disk keeps what was submitted to it."""
        host = self.hosts.pop(server_id)
        host.disk.crash()
        self.down[server_id] = host
        for other in self.hosts:
            self._unlink(server_id, other)
        self.run()

    def restart(self, server_id: int) -> None:
        """Start a server again on its disk."""
        host = self.hosts[server_id] = self.down.pop(server_id)
        host.start()
        for other in self.hosts:
            if other != server_id:
                self._link(server_id, other)
        self.run()

    def pass_time(self, ms: int) -> None:
        """Let time pass, in steps of a tenth of a tick."""
        until = self.clock.now + ms
        while self.clock.now < until:
            self.clock.now = Millis(min(self.clock.now + TIMING.tick_ms // 10, until))
            for host in list(self.hosts.values()):
                host.step()
            self.run()

    def digests(self) -> list[int]:
        """Return the digest of every server's state."""
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


def zxid_of(host: PureServer) -> Zxid:
    """Return the zxid of the last transaction that the server has applied."""
    return max(ZERO, host.server.state.zxid)
