"""A server in the simulated world: the real `Server` with a shell on virtual time.

The file is long because a shell takes every event and carries out every effect.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from raykeeper.links.hello import Fence, peer_hello
from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import (
    CloseClient,
    LeaveEnsemble,
    MembersKnown,
    PauseReading,
    PublishSnapshot,
    ReconfigAnswered,
    Restart,
    ResumeReading,
    SaveLevel,
    SendClient,
    SendPeer,
    TrackSessions,
    TransferAnswered,
    TransferResult,
)
from raykeeper.server.events import (
    ClientBytesSent,
    ClientDisconnected,
    ClientFrameArrived,
    ClientProcessDied,
    DiskSpaceChanged,
    DrainEnded,
    DrainRequested,
    Event,
    JuteClientConnected,
    LinkDown,
    LinkUp,
    PeerFrame,
    TransferRequested,
)
from raykeeper.server.peer_messages import (
    PeerMessage,
    TouchSessions,
    TouchSessionsReply,
    decode_peer_frame,
    encode_peer_frame,
)
from raykeeper.server.server import Server
from raykeeper.zab.effects import (
    Append,
    BreakLink,
    DiskEffect,
    InstallSnapshot,
    TraceEvent,
    Truncate,
)
from raykeeper.zab.feature_levels import LEVEL_MAX, FeatureLevels
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Millis, ServerId, Zxid
from raykeeper.zab.messages import NewLeader
from raykeeper.zab.settings import RecentLogLimits, Settings
from raykeeper.zab.trace_events import MESSAGE_ILLEGAL
from raykeeper.znodes.requests import Reconfig, SessionId
from raykeeper.znodes.znode import Znode
from tests.harness.log_entries import entries_of
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import DiskFailedError, SimDisk
from tests.simulation.checks import transfers
from tests.simulation.checks.drains import Drains
from tests.simulation.checks.reconfigs import Reconfigs
from tests.simulation.checks.transfers import Transfers
from tests.simulation.clock import SimClock
from tests.simulation.jute_clients.server_end import ByteEnd
from tests.simulation.list_follower import ListFollower
from tests.simulation.network import Network, SimLink, server_end
from tests.simulation.plan import HISTORY_MAX, ServerPlan
from tests.simulation.server_side_actors import SimSnapshotter, SimTracker
from tests.simulation.timing import TimingPlan

if TYPE_CHECKING:
    from tests.simulation.checks import Checks

PAGE_NAMES = 3
REQUESTS_MAX = 30
UNSENT_BYTES_MAX = 400
WAITING_ITEMS_MAX = 20
"""Few, so that most listings take several steps, many clients wait, and some are let go."""
SENT_BYTES = 150
"""What a client has taken is told when it is so much."""
STRAY = "/flipped"
"""A znode that no client knows of and that hangs on no other."""
_NUMBER_BITS = 20
READ_ONLY_AFTER_MS = Millis(400)
PROMOTION_LAG_MAX = 20
PROMOTION_WAIT_MS = Millis(200)
RESTART_MS = 300
"""How long until a process that ended by itself is started again."""


class Node:
    """One server slot: its disk outlives its processes."""

    def __init__(
        self,
        plan: ServerPlan,
        voters: tuple[ServerId, ...],
        timing: TimingPlan,
        schedule: Schedule,
        network: Network,
        checks: "Checks",
        newer: "Node | None" = None,
        disk: SimDisk | None = None,
    ) -> None:
        """`newer` is the node whose second process this is, on `disk`."""
        self.server_id = ServerId(plan.server_id)
        self.end = server_end(plan.server_id)
        self.voters = voters
        name = str(plan.server_id)
        disk = disk or SimDisk(schedule, schedule.stream(f"disk.{name}"), plan.segment_bytes)
        disk.sync_ms_max = plan.sync_ms_max
        self.disk = disk
        if newer is None:
            truth = checks.truth
            disk.has_vote = lambda: truth.vote_of(self.server_id) == disk.disk
        self.clock = SimClock(schedule, plan.drift_ppm, plan.server_id * 1_000_000)
        self.tracker = SimTracker(name, schedule, self.clock, plan)
        self.snapshotter = SimSnapshotter(name, schedule, self.disk)
        self.server: Server | None = None
        self.peers: list[Node] = []
        self.are_others_strangers = False
        """Whether those that did not found the ensemble with a vote are no members at first."""
        self.newest_level = LEVEL_MAX
        """The newest feature level that its program knows."""
        self.on_started: Callable[[Node], None] = lambda _node: None
        self.on_marked: Callable[[Node], None] = lambda _node: None
        self.incarnation, self.is_frozen = 0, False
        self.logged: dict[Zxid, bytes] = {}
        self.heard: dict[ServerId, Millis] = {}
        """When, by its clock, this process came to a frame of each server last."""
        self.transfers, self.reconfigs = Transfers(checks.counts), Reconfigs(checks.counts)
        self.drains = Drains()
        self.list = ListFollower(self.server_id)
        self._newer = newer
        self._plan = plan
        self._timing = timing
        self._schedule = schedule
        self._random = schedule.stream(f"server.{name}")
        self._network = network
        self._checks = checks
        self._links: dict[ServerId, SimLink] = {}
        self._clients: dict[int, SimLink] = {}
        self._byte_ends: dict[int, ByteEnd] = {}
        self._processes: dict[int, tuple[int, int]] = {}
        self._connections, self._fence = 0, Fence()
        self._events: list[Event] = []
        self._is_planned = self._was_flipped = False  # the latter during the life of a process
        self._wake_at: Millis | None = None
        self.watcher: Callable[[Node, list[object]], None] | None = None  # sees every effect
        self.may_start: Callable[[], bool] = lambda: True
        self._leaving: Restart | None = None
        self._has_room = True  # as its disk has reported

    @property
    def votes(self) -> bool:
        """Return whether the server is a voter, by the newest committed member list."""
        members = self._checks.truth.members
        return self._plan.is_voter if members is None else self.server_id in members.voters

    @property
    def is_up(self) -> bool:
        """Return whether a process runs or is frozen."""
        return self.server is not None

    @property
    def remembers_all(self) -> bool:
        """Return whether the process knows all changes since it started."""
        return self._plan.history_max == HISTORY_MAX

    @property
    def is_answering(self) -> bool:
        """Return whether a process runs."""
        return self.server is not None and not self.is_frozen

    def start(self) -> None:
        """Start a process on the disk, unless one exists."""
        if self.server is not None or not self.may_start():
            return
        if self.disk.level > self.newest_level:
            self._schedule.say(f"server {self.server_id} is refused: its disk requires more")
            self._checks.counts["refused_programs"] += 1
            return
        self.incarnation += 1
        life = self.incarnation
        self.is_frozen = False
        self._leaving = None
        self._was_flipped = self.list.is_removed = False
        try:
            recovered = self.disk.open(
                lambda events: self._take(life, list(events)),
                lambda reason: self._end(life, reason),
            )
        except DiskFailedError as error:
            self._schedule.say(f"server {self.server_id} does not start: {error}")
            self._start_again(RESTART_MS)
            return
        self._fence, self._connections = Fence(), 0
        self.heard = {}
        self.transfers, self.drains = Transfers(self._checks.counts), Drains()
        self.reconfigs = Reconfigs(self._checks.counts)
        self._processes = {}
        self._has_room = recovered.has_disk_space
        self.logged = dict(entries_of(*recovered.runs))
        self.tracker.server_starts(lambda events: self._take(life, events))
        self.snapshotter.server_starts(lambda events: self._take(life, events))
        window = RecentLogLimits(
            txns_max=self._plan.window_txns_max,
            read_log_bytes_max=self._plan.read_log_bytes_max,
        )
        timing = self._timing.timing(self._plan.tick_times, self._plan.sync_divisor)
        settings = Settings(
            *(self.server_id, self.voters, recovered.disk_id, timing, window),
            FeatureLevels(self.newest_level),
            self._observers(),
            self.list.known(),
        )
        recovered = replace(recovered, was_member=self.list.was_member)
        self.server = Server(settings, self._timing.limits(), self._options(), recovered)
        self.on_started(self)
        self._checks.started(self)
        self._carry_out(self.server.start(self.clock.times()))
        for peer in self.peers:
            self._dial(life, peer)

    @property
    def container_grace_ms(self) -> Millis:
        """How long an emptied container stays while this server leads."""
        return Millis(self._plan.container_grace_ms)

    def _options(self) -> ServerOptions:
        plan = self._plan
        return ServerOptions(
            snapshot_every_txns=plan.snapshot_every_txns,
            session_report_ms=Millis(plan.touch_ms),
            chunk_bytes=plan.chunk_bytes,
            queued_requests_max=plan.queue_max,
            page_names=PAGE_NAMES,
            outstanding_requests_max=REQUESTS_MAX,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            queued_items_max=WAITING_ITEMS_MAX,
            read_only_after_ms=READ_ONLY_AFTER_MS,
            change_log_count_max=plan.history_max,
            promotion_lag_max=PROMOTION_LAG_MAX,
            promotion_wait_ms=PROMOTION_WAIT_MS,
            container_grace_ms=self.container_grace_ms,
        )

    def _observers(self) -> tuple[ServerId, ...]:
        if self.are_others_strangers:
            return ()
        every = {self.server_id, *(peer.server_id for peer in self.peers)}
        return tuple(sorted(every - {*self.voters}))

    def incarnations_seen(self) -> dict[ServerId, int]:
        """Return the newest incarnation seen of each other server."""
        return self._fence.newest()

    def use_disk(self, disk: SimDisk, ahead_ms: int) -> None:
        """Run on another machine from now on: on this disk, and by a wall clock so far ahead."""
        assert self.server is None
        truth = self._checks.truth
        disk.has_vote = lambda: truth.vote_of(self.server_id, FOUNDING_DISK) == disk.disk
        disk.sync_ms_max = self._plan.sync_ms_max
        self.disk = self.snapshotter.disk = disk
        self.clock.wall_offset_ms = ahead_ms

    def crash(self) -> None:
        """Kill the process; unsynced writes may be lost."""
        assert self.server is not None
        self._checks.stopped(self)
        self.server = None
        self.is_frozen = False
        self.disk.crash()
        for link in [*self._links.values(), *self._clients.values()]:
            link.close(self.end)
        self._links = {}
        self._clients = {}
        self._byte_ends = {}
        self._events = []
        self._is_planned = False
        self._wake_at = None

    def _end(self, life: int, reason: str) -> None:
        """End the process by itself, and restart it."""
        if life == self.incarnation and self.server is not None:
            self._schedule.say(f"server {self.server_id} ends: {reason}")
            self.crash()
            self._start_again(self._random.randint(0, RESTART_MS))

    def _start_again(self, delay_ms: int) -> None:
        if self._newer is None:
            self._schedule.after(delay_ms, self.start)

    def beside(self, disk: SimDisk, checks: "Checks") -> "Node":
        """Start another process of this server, which no server dials and which never restarts."""
        second = Node(
            *(self._plan, self.voters, self._timing, self._schedule, self._network, checks),
            *(self, disk),
        )
        second.peers = self.peers
        second.newest_level = self.newest_level
        return second

    def _leave(self, life: int) -> None:
        """Restart after the disk has performed its effects."""
        leaving = self._leaving
        if life != self.incarnation or self.server is None or leaving is None:
            return
        if self.is_frozen or not self.disk.is_idle:
            self._schedule.after(5, lambda: self._leave(life))
            return
        self._end(life, leaving.reason)
        if leaving.wipe_disk:
            self.disk.repair()
        self.list.process_ended()

    def transfer(self, to: ServerId | None, within_ms: int) -> Callable[[], TransferResult | None]:
        """Ask the process to transfer the lead; return what tells the answer."""
        request, asked = self.transfers.asks(to, within_ms), self.transfers
        self._take(self.incarnation, [request])
        return lambda: asked.answer_to(request)

    def drain(self, clients_per_s: int, patience_ms: int) -> None:
        """Have the process take no clients and move those it has; it ends with the process."""
        self._take(self.incarnation, [DrainRequested(clients_per_s, patience_ms)])

    def end_drain(self) -> None:
        """Have the process take clients again."""
        self._take(self.incarnation, [DrainEnded()])

    def reconfig(self, op: Reconfig) -> None:
        """Ask the process for a step of the member list, as an operator does."""
        if self.server is not None and self._leaving is None:
            self._checks.truth.operators_steps.append(op)
            self._take(self.incarnation, [self.reconfigs.asks(op)])

    def freeze(self) -> None:
        """Freeze the process and its disk thread (SIGSTOP); arriving events wait."""
        self.is_frozen = True
        self.disk.freeze()

    def thaw(self) -> None:
        """Thaw the process (SIGCONT): all waiting events happen at once."""
        if self.is_frozen:
            self.is_frozen = False
            self.disk.thaw()
            self._take(self.incarnation, [])

    def flip_memory(self) -> None:
        """Put a znode into the tree that no transaction made; a snapshot does not show it."""
        assert self.server is not None
        znode = Znode(b"flipped", ZERO, ZERO, Millis(0), Millis(0), 0, SessionId(0), 0, ZERO, 0)
        tree = self.server.state.tree
        self._was_flipped = tree.znodes.setdefault(STRAY, znode) is znode
        tree.unhashed.append(STRAY)

    @property
    def is_flipped(self) -> bool:
        """Return whether `flip_memory` made the tree differ from those of the other servers."""
        return self.server is not None and STRAY in self.server.state.tree.znodes

    def accept_client(self, link: SimLink, process: tuple[int, int]) -> None:
        """Accept a link of a client, which told its process."""
        self._connections += 1
        number = self.disk.incarnation << _NUMBER_BITS | self._connections
        life = self.incarnation
        self._clients[number] = link
        self._processes[number] = process
        link.attach(
            self.end,
            lambda data: self._take(life, [ClientFrameArrived(number, data)]),
            lambda: self._client_gone(life, number),
            self._teller(life, number),
        )

    def accept_bytes(self, link: SimLink) -> tuple[ByteEnd, bytes]:
        """Accept a client of ZooKeeper's protocol; return also the password for a new session."""
        self._connections += 1
        number = self.disk.incarnation << _NUMBER_BITS | self._connections
        life = self.incarnation
        byte_end = ByteEnd(
            number,
            self.end,
            link,
            self._schedule,
            lambda events: self._take(life, events),
            self._teller(life, number),
            lambda: self._client_gone(life, number),
        )
        self._clients[number] = link
        self._byte_ends[number] = byte_end
        password = self._schedule.stream(f"password.{self.server_id}.{number}").randbytes(16)
        link.attach(self.end, byte_end.arrived, byte_end.lost)
        self._take(life, [JuteClientConnected(number, "", password)])
        return byte_end, password

    def _teller(self, life: int, number: int) -> Callable[[int], None]:
        untold = 0

        def left(size: int) -> None:
            nonlocal untold
            untold += size
            if untold >= SENT_BYTES:
                told, untold = untold, 0
                self._take(life, [ClientBytesSent(number, told)])

        return left

    def process_gone(self, process: tuple[int, int]) -> None:
        """Learn that a process is dead, with all its links to this server."""
        gone = [number for number, each in self._processes.items() if each == process]
        self._take(self.incarnation, [ClientProcessDied(number) for number in gone])

    def _client_gone(self, life: int, number: int) -> None:
        self._clients.pop(number, None)
        self._byte_ends.pop(number, None)
        self._take(life, [ClientDisconnected(number)])

    # Links to other servers: the one with the smaller id dials.

    def _dial(self, life: int, peer: "Node") -> None:
        if life != self.incarnation or self.server is None:
            return
        if self.server_id > peer.server_id:
            peer_life = peer.incarnation
            if self._newer is None:
                self._schedule.after(1, lambda: peer._dial(peer_life, self))
            return
        if peer.server_id in self._links:
            return
        link = None
        are_up = peer.is_answering and self.is_answering
        if are_up and self._is_to_dial(peer) and self.list.may_link(peer.list):
            link = self._network.connect(self.end, peer.end)
        if link is not None and not (peer._admits(self) and self._admits(peer)):
            link.close(self.end)
            link = None
        if link is None:
            delay = self._random.randint(20, 200)
            self._schedule.after(delay, lambda: self._dial(life, peer))
            return
        assert self._newer is None, f"Fence: two processes are linked as server {self.server_id}"
        self._linked(peer, link)
        peer._linked(self, link)

    def _is_to_dial(self, peer: "Node") -> bool:
        """Return whether to dial `peer`: only if the newer process, if any, has a link to it.

        Otherwise `peer` would be right to accept this process, but the checks know only one server
        of each id.
        """
        if self._newer is None:
            return True
        link = self._newer._links.get(peer.server_id)
        return link is not None and peer._links.get(self.server_id) is link

    def _admits(self, peer: "Node") -> bool:
        """Return whether no newer incarnation of that server was seen (rule D1)."""
        hello = peer_hello("", peer.server_id, peer.disk.incarnation)
        objection = self._fence.refusal_reason(hello.server_id, hello.incarnation)
        if objection:
            self._schedule.say(f"server {self.server_id} takes no link: {objection}")
        return not objection

    def _linked(self, peer: "Node", link: SimLink) -> None:
        life = self.incarnation
        old = self._links.pop(peer.server_id, None)
        if old is not None:
            old.close(self.end)
            self._take(life, [LinkDown(peer.server_id)])
        self._links[peer.server_id] = link
        self._schedule.say(f"server {self.server_id} has a link to server {peer.server_id}")
        link.attach(
            self.end,
            lambda data: self._take(life, [PeerFrame(peer.server_id, decode_peer_frame(data))]),
            lambda: self._unlinked(life, peer, link),
        )
        self._take(life, [LinkUp(peer.server_id)])

    def _unlinked(self, life: int, peer: "Node", link: SimLink) -> None:
        if life != self.incarnation or self._links.get(peer.server_id) is not link:
            return
        del self._links[peer.server_id]
        self._schedule.say(f"server {self.server_id} loses its link to server {peer.server_id}")
        self._take(life, [LinkDown(peer.server_id)])
        self._schedule.after(20, lambda: self._dial(life, peer))

    # The loop of the shell.

    def _take(self, life: int, events: list[Event]) -> None:
        if life != self.incarnation or self.server is None or self._leaving is not None:
            return
        self._events.extend(events)
        if not self._is_planned and not self.is_frozen:
            self._is_planned = True
            delay = int(self._random.random() * 2)
            self._schedule.after(delay, lambda: self._step(life))

    def _wake(self, life: int, at: Millis) -> None:
        if life == self.incarnation and self._wake_at == at:
            self._wake_at = None
            self._take(life, [])

    def _step(self, life: int) -> None:
        if life != self.incarnation or self.server is None:
            return
        self._is_planned = False
        if self.is_frozen or self._leaving is not None:
            return
        events, self._events = self._events, []
        self._see_frames(events)
        told = [event.has_disk_space for event in events if isinstance(event, DiskSpaceChanged)]
        is_bound = not self._has_room and self.server.peer.is_active and True not in told
        handing_over = transfers.handing_over(self.server)
        self.drains.takes(events)
        effects = self.server.step(events, self.clock.times())
        transfers.proposes_nothing(self, handing_over, effects)
        self.transfers.ends_in_time(self.server, self.clock.mono())
        self.drains.stepped(self)
        for effect in effects:
            assert not is_bound or not isinstance(effect, Append), "FullDisk: more is accepted"
            self._remember(effect)
        self._has_room = told[-1] if told else self._has_room
        self._checks.stepped(self)
        self._carry_out(effects)

    def _see_frames(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, TransferRequested):
                self.transfers.begins(event, self.clock.mono())
            elif isinstance(event, PeerFrame):
                self.heard[event.peer] = self.clock.mono()
                for message in event.messages:
                    if isinstance(message, TouchSessions):
                        self._checks.touched(self, event.peer, message)

    def _remember(self, effect: object) -> None:
        """Remember the future content of the log, for the checks."""
        if isinstance(effect, Append):
            self.logged.update(entries_of(effect))
            self._checks.appends(effect)
        elif isinstance(effect, Truncate):
            self.logged = {z: txn for z, txn in self.logged.items() if z <= effect.upto}
        elif isinstance(effect, InstallSnapshot):
            self.logged = dict(entries_of(*effect.tail))

    def _carry_out(self, effects: list[object]) -> None:
        disk: list[DiskEffect | PublishSnapshot | SaveLevel] = []
        frames: dict[ServerId, list[PeerMessage]] = {}
        for effect in effects:
            if isinstance(effect, SendPeer):
                if isinstance(effect.message, TouchSessionsReply):
                    self._checks.confirms(self, effect.peer, effect.message)
                elif isinstance(effect.message, NewLeader):
                    self._checks.leads(self, effect.message.epoch)
                frames.setdefault(effect.peer, []).append(effect.message)
            elif isinstance(effect, SendClient):
                if (byte_end := self._byte_ends.get(effect.connection)) is not None:
                    byte_end.send(effect.data)
                elif (link := self._clients.get(effect.connection)) is not None:
                    link.send(self.end, effect.data)
            elif isinstance(effect, DiskEffect | PublishSnapshot | SaveLevel):
                disk.append(effect)
            elif isinstance(effect, TraceEvent):
                assert effect.name != MESSAGE_ILLEGAL, f"Protocol: {self.server_id} met {effect}"
                self._checks.note(self, effect)
                transfers.nominee_has_all(self, self.peers, effect)
            elif isinstance(effect, TransferAnswered):
                self.transfers.answered(self, effect)
            elif isinstance(effect, ReconfigAnswered | MembersKnown | LeaveEnsemble):
                self._follow_list(effect)
            elif isinstance(effect, BreakLink):
                self._send(frames)
                frames = {}
                self._checks.note(self, TraceEvent("link.break", (effect.peer, effect.reason)))
                if (link := self._links.get(effect.peer)) is not None:
                    link.break_up()
            elif isinstance(effect, CloseClient):
                self._close_client(effect.connection)
            elif isinstance(effect, PauseReading | ResumeReading):
                self._checks.counts["recipe.pauses"] += isinstance(effect, PauseReading)
                if (byte_end := self._byte_ends.get(effect.connection)) is not None:
                    byte_end.set_reading(isinstance(effect, ResumeReading))
            elif isinstance(effect, TrackSessions):
                self.tracker.track(effect.report)
            elif isinstance(effect, Restart):
                assert self._was_flipped or not effect.wipe_disk, effect.reason
                self._leaving = effect
            else:
                self.snapshotter.perform(effect)
        self._send(frames)
        if disk:
            self.disk.submit(disk)
        if any(isinstance(effect, SaveLevel) for effect in effects):
            self.on_marked(self)
        if self.watcher is not None:
            self.watcher(self, effects)
        if self._leaving is None:
            self._arm()
        else:
            self._leave(self.incarnation)

    def _follow_list(self, effect: ReconfigAnswered | MembersKnown | LeaveEnsemble) -> None:
        if isinstance(effect, ReconfigAnswered):
            self.reconfigs.answered(self, effect)
        elif isinstance(effect, MembersKnown):
            self.list.take(effect)
        else:
            self._checks.leaves(self, effect.members)
            self.list.is_removed = True
            self._leaving = Restart("it was removed", wipe_disk=True)

    def _send(self, frames: dict[ServerId, list[PeerMessage]]) -> None:
        for peer, messages in frames.items():
            if (link := self._links.get(peer)) is not None:
                link.send(self.end, encode_peer_frame(messages))

    def _close_client(self, number: int) -> None:
        link = self._clients.pop(number, None)
        self._byte_ends.pop(number, None)
        if link is not None:
            # Earlier frames were sent: close a little later than they take to arrive.
            self._schedule.after(40, lambda: link.close(self.end))

    def _arm(self) -> None:
        assert self.server is not None
        due = self.server.deadline()
        if due is None:
            self._wake_at = None
        elif due != self._wake_at:
            self._wake_at = due
            life = self.incarnation
            self._schedule.after(self.clock.delay_until(due), lambda: self._wake(life, due))
