"""A server in the simulated world: the real `Server` with a shell on virtual time."""

from typing import TYPE_CHECKING

from raykeeper.actors.effects import (
    CloseClient,
    PublishSnapshot,
    SendClient,
    SendPeer,
    SnapshotAbort,
    SnapshotBegin,
    SnapshotFinish,
    SnapshotWrite,
    TrackSessions,
)
from raykeeper.actors.events import (
    ClientFrameArrived,
    ClientGone,
    Event,
    LinkDown,
    LinkUp,
    PeerFrame,
    SessionsOverdue,
    SnapshotCredited,
    SnapshotFailed,
    SnapshotWritten,
    TrackerLost,
)
from raykeeper.actors.peer_messages import PeerMessage, decode_peer_frame, encode_peer_frame
from raykeeper.actors.server import Server
from raykeeper.actors.server_context import ServerOptions
from raykeeper.zab.effects import (
    Append,
    BreakLink,
    DiskEffect,
    InstallSnapshot,
    Note,
    Run,
    Truncate,
)
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.zab.settings import Settings, Timing, WindowLimits
from raykeeper.znodes.expiry import Expiry, SessionReport
from raykeeper.znodes.limits import Limits
from tests.simulation.disk import SimDisk, StoredSnapshot
from tests.simulation.network import Network, SimLink
from tests.simulation.schedule import Schedule

if TYPE_CHECKING:
    from tests.simulation.checks import Checks

TIMING = Timing(tick_ms=Millis(200), init_limit=20, sync_limit=4)
LIMITS = Limits(session_timeout_min_ms=Millis(1_000), session_timeout_max_ms=Millis(20_000))


class Node:
    """One server slot: its disk outlives its processes."""

    def __init__(
        self,
        server_id: ServerId,
        voters: tuple[ServerId, ...],
        schedule: Schedule,
        network: Network,
        checks: "Checks",
        votes: bool = True,
    ) -> None:
        self.server_id = server_id
        self.votes = votes
        self.disk = SimDisk(schedule)
        self.server: Server | None = None
        self.peers: list[Node] = []
        self._voters = voters
        self._schedule = schedule
        self._network = network
        self._checks = checks
        self.incarnation = 0
        self.logged: dict[Zxid, bytes] = {}
        self._links: dict[ServerId, SimLink] = {}
        self._clients: dict[int, SimLink] = {}
        self._connections = 0
        self._events: list[Event] = []
        self._is_planned = False
        self._wake_at: Millis | None = None
        self._tracker = Expiry()
        self._snapshot: StoredSnapshot | None = None

    @property
    def is_up(self) -> bool:
        """Whether a process runs."""
        return self.server is not None

    def start(self) -> None:
        """Start a process on the disk."""
        assert self.server is None
        self.incarnation += 1
        life = self.incarnation
        recovered = self.disk.open(lambda events: self._take(life, list(events)))
        self.logged = {zxid: txn for run in recovered.runs for zxid, txn in _entries(run)}
        random = self._schedule.random
        options = ServerOptions(
            snapshot_every_txns=random.choice([20, 50, 200]), touch_ms=Millis(100)
        )
        window = WindowLimits(
            txns_max=random.choice([5, 30, 200]), read_log_bytes_max=random.choice([500, 50_000])
        )
        settings = Settings(self.server_id, self._voters, timing=TIMING, window=window)
        self.server = Server(settings, LIMITS, options, recovered)
        self._checks.started(self)
        self._carry_out(self.server.start(self._schedule.times()))
        for peer in self.peers:
            self._dial(life, peer)

    def crash(self) -> None:
        """Kill the process; what was not synced may be lost."""
        assert self.server is not None
        self._checks.stopped(self)
        self.server = None
        self.disk.crash()
        for link in [*self._links.values(), *self._clients.values()]:
            link.close(("server", self.server_id))
        self._links = {}
        self._clients = {}
        self._events = []
        self._wake_at = None
        self._snapshot = None
        if self._schedule.random.random() < 0.5:
            self._tracker = Expiry()  # the tracker died with it

    def lose_tracker(self) -> None:
        """The session tracker dies alone."""
        self._tracker = Expiry()
        if self.server is not None:
            self._take(self.incarnation, [TrackerLost()])

    def accept_client(self, link: SimLink) -> None:
        """A client has dialled."""
        self._connections += 1
        number = self.incarnation << 32 | self._connections
        life = self.incarnation
        self._clients[number] = link
        link.attach(
            ("server", self.server_id),
            lambda data: self._take(life, [ClientFrameArrived(number, data)]),
            lambda: self._client_gone(life, number),
        )

    def _client_gone(self, life: int, number: int) -> None:
        self._clients.pop(number, None)
        self._take(life, [ClientGone(number)])

    # Links to other servers: the one with the smaller id dials.

    def _dial(self, life: int, peer: "Node") -> None:
        if life != self.incarnation or not self.is_up or self.server_id > peer.server_id:
            if self.is_up and life == self.incarnation:
                peer_life = peer.incarnation
                self._schedule.after(1, lambda: peer._dial(peer_life, self))
            return
        if peer.server_id in self._links:
            return
        link = None
        if peer.is_up:
            link = self._network.connect(("server", self.server_id), ("server", peer.server_id))
        if link is None:
            delay = self._schedule.random.randint(20, 200)
            self._schedule.after(delay, lambda: self._dial(life, peer))
            return
        self._linked(peer, link)
        peer._linked(self, link)

    def _linked(self, peer: "Node", link: SimLink) -> None:
        life = self.incarnation
        old = self._links.pop(peer.server_id, None)
        if old is not None:
            old.close(("server", self.server_id))
            self._take(life, [LinkDown(peer.server_id)])
        self._links[peer.server_id] = link
        link.attach(
            ("server", self.server_id),
            lambda data: self._take(life, [PeerFrame(peer.server_id, decode_peer_frame(data))]),
            lambda: self._unlinked(life, peer, link),
        )
        self._take(life, [LinkUp(peer.server_id)])

    def _unlinked(self, life: int, peer: "Node", link: SimLink) -> None:
        if life != self.incarnation or self._links.get(peer.server_id) is not link:
            return
        del self._links[peer.server_id]
        self._take(life, [LinkDown(peer.server_id)])
        self._schedule.after(20, lambda: self._dial(life, peer))

    # The loop of the shell.

    def _take(self, life: int, events: list[Event]) -> None:
        if life != self.incarnation or self.server is None:
            return
        self._events.extend(events)
        if not self._is_planned:
            self._is_planned = True
            self._schedule.after(self._schedule.random.randint(0, 1), lambda: self._step(life))

    def _wake(self, life: int, at: Millis) -> None:
        if life == self.incarnation and self._wake_at == at:
            self._wake_at = None
            self._take(life, [])

    def _step(self, life: int) -> None:
        self._is_planned = False
        if life != self.incarnation or self.server is None:
            return
        events, self._events = self._events, []
        effects = self.server.step(events, self._schedule.times())
        for effect in effects:
            self._remember(effect)
        self._checks.stepped(self)
        self._carry_out(effects)

    def _remember(self, effect: object) -> None:
        """Keep what the log will hold, for the checks."""
        if isinstance(effect, Append):
            self.logged.update(_entries(Run(effect.first, effect.txns)))
        elif isinstance(effect, Truncate):
            self.logged = {z: txn for z, txn in self.logged.items() if z <= effect.upto}
        elif isinstance(effect, InstallSnapshot):
            self.logged = {z: txn for run in effect.tail for z, txn in _entries(run)}

    def _carry_out(self, effects: list[object]) -> None:
        disk: list[DiskEffect | PublishSnapshot] = []
        frames: dict[ServerId, list[PeerMessage]] = {}
        for effect in effects:
            if isinstance(effect, SendPeer):
                frames.setdefault(effect.peer, []).append(effect.message)
            elif isinstance(effect, BreakLink):
                self._send(frames)
                frames = {}
                self._checks.note(self, Note("link.break", (effect.peer, effect.reason)))
                if (link := self._links.get(effect.peer)) is not None:
                    link.break_up()
            elif isinstance(effect, DiskEffect | PublishSnapshot):
                disk.append(effect)
            elif isinstance(effect, Note):
                self._checks.note(self, effect)
            elif isinstance(effect, SendClient):
                if (link := self._clients.get(effect.connection)) is not None:
                    link.send(("server", self.server_id), effect.data)
            elif isinstance(effect, CloseClient):
                self._close_client(effect.connection)
            elif isinstance(effect, TrackSessions):
                self._track(effect.report)
            else:
                self._to_snapshotter(effect)
        self._send(frames)
        if disk:
            self.disk.submit(disk)
        self._arm()

    def _send(self, frames: dict[ServerId, list[PeerMessage]]) -> None:
        for peer, messages in frames.items():
            if (link := self._links.get(peer)) is not None:
                link.send(("server", self.server_id), encode_peer_frame(messages))

    def _close_client(self, number: int) -> None:
        link = self._clients.pop(number, None)
        if link is not None:
            # What was sent before has left: close a little later than it takes to arrive.
            self._schedule.after(40, lambda: link.close(("server", self.server_id)))

    def _arm(self) -> None:
        assert self.server is not None
        due = self.server.deadline()
        if due is None:
            self._wake_at = None
            return
        at, life = Millis(max(due, self._schedule.now)), self.incarnation
        if at != self._wake_at:
            self._wake_at = at
            self._schedule.after(at - self._schedule.now, lambda: self._wake(life, at))

    # The two other actors of a server.

    def _track(self, report: SessionReport) -> None:
        life, random = self.incarnation, self._schedule.random

        def arrive() -> None:
            self._tracker.report(report, self._schedule.now)
            verdicts = self._tracker.verdicts(self._schedule.now)
            event = SessionsOverdue(verdicts)
            self._schedule.after(random.randint(0, 5), lambda: self._take(life, [event]))

        self._schedule.after(random.randint(0, 5), arrive)

    def _to_snapshotter(self, effect: object) -> None:
        life, random = self.incarnation, self._schedule.random

        def later(event: Event) -> None:
            self._schedule.after(random.randint(0, 10), lambda: self._take(life, [event]))

        match effect:
            case SnapshotBegin():
                self._snapshot = StoredSnapshot(effect.zxid, Zxid(0), [])
            case SnapshotWrite():
                if self._snapshot is not None and random.random() < 0.995:
                    self._snapshot.chunks.append(effect.data)
                    later(SnapshotCredited(effect.zxid))
                else:
                    self._snapshot = None
                    later(SnapshotFailed(effect.zxid))
            case SnapshotFinish():
                if self._snapshot is not None:
                    self._snapshot.consistent_at = effect.consistent_at
                    self.disk.written[effect.zxid] = self._snapshot
                    later(SnapshotWritten(effect.zxid))
                else:
                    later(SnapshotFailed(effect.zxid))
            case SnapshotAbort():
                self._snapshot = None
            case _:
                raise AssertionError(effect)


def _entries(run: Run) -> list[tuple[Zxid, bytes]]:
    return [(Zxid(run.first + index), txn) for index, txn in enumerate(run.txns)]
