"""Several peers, the links between them and their disks in virtual time, driven by one seed.

Not the simulator of whole servers (tests/simulation): only Zab, so that thousands of seeds run in
a minute. The disks are in `zab_disk`, the checks in `zab_properties`.

A link is FIFO and breaks when it loses a message; its two ends come up and learn of a break at
different times. It is the link as Zab sees it, after the handshake, and carries messages. That of
tests/simulation/network.py lies below: it carries bytes, and a handshake decides when an end is up.
"""

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from random import Random

from raykeeper.zab import effects, trace_events
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, Millis, ServerId, Zxid
from raykeeper.zab.messages import Notification, ZabMessage
from raykeeper.zab.peer import Peer
from raykeeper.zab.quorum import Quorum
from raykeeper.zab.settings import RecentLogLimits, Settings
from tests.harness.log_entries import Entry, entries_of
from tests.harness.schedule import Schedule
from tests.harness.zab_disk import ZabDisk, encode_snapshot
from tests.harness.zab_properties import Properties

Call = Callable[[Peer, Millis], None]


class ZabLink:
    """One incarnation of the link between two servers."""

    def __init__(self, a: ServerId, b: ServerId) -> None:
        self.ends = (a, b)
        self.is_broken = False
        self.arrival = {a: 0, b: 0}  # when the newest message to each end arrives
        self.lost_to: set[ServerId] = set()  # ends that missed a message: no later one arrives


class Stream:
    """A snapshot on its way to a learner."""

    def __init__(self) -> None:
        self.chunks: list[bytes] | None = None  # None until it begins


class ZabServer:
    """One server: its disk survives, the rest dies with each incarnation."""

    def __init__(self, server_id: ServerId, disk_id: DiskId) -> None:
        self.id = server_id
        self.disk_id = disk_id
        self.disk = ZabDisk()
        self.checked = 0  # how many entries of the disk were checked
        self.incarnation = 0
        self.paused_until = 0
        self.slow_until = 0
        self.down()

    def down(self) -> None:
        self.incarnation += 1
        self.peer: Peer | None = None
        self.out: list[effects.Effect] = []
        self.links: dict[ServerId, ZabLink] = {}
        self.streams: dict[ServerId, Stream] = {}
        self.applied = 0
        self.inbox: list[Call] = []  # events that wait while the server is paused
        self.alarm: Millis | None = None
        self.reads: dict[int, Zxid] = {}
        self.is_disk_busy = False


class ZabWorld:
    """`run_until` advances time; the methods named after faults may be called in between."""

    def __init__(
        self, random: Random, voters: int, learners: int = 0, window: RecentLogLimits | None = None
    ) -> None:
        self.random = random
        self.schedule = Schedule(0)
        self.schedule.now = Millis(1_000)
        self.schedule.watcher = self._check_progress
        ids = [ServerId(i) for i in range(1, voters + learners + 1)]
        self.voters = tuple(ids[:voters])
        self.founders = self.voters
        self.quorum = Quorum(self.voters)
        self.properties = Properties(self.quorum)
        self.servers = {i: ZabServer(i, FOUNDING_DISK) for i in ids}
        self.window = window or RecentLogLimits()
        self.latency_ms = 2
        self.disk_ms = 3
        self.notice_ms = 100  # how long an end may take to learn of a break
        self.dial_ms = 50  # how long it may take to open a new link
        self.wiped = 0
        self.gone: dict[ServerId, None] = {}  # servers that were stopped for good
        self.trace: list[str] | None = None
        self.ambush: Callable[[ZabServer, effects.Effect], None] | None = None
        self.notes: dict[str, int] = {}
        self._cuts: set[tuple[ServerId, ServerId]] = set()
        self._spoken: Counter[tuple[ServerId, int]] = Counter()  # notifications this second
        self._reads = 0
        self._moment = self.now
        self._moment_began = 0  # at this step of the schedule
        self._dialing: set[tuple[ServerId, ServerId]] = set()
        self._newest: dict[tuple[ServerId, ServerId], ZabLink] = {}

    # Time.

    @property
    def now(self) -> Millis:
        return self.schedule.now

    def at(self, when: int, action: Callable[[], None]) -> None:
        self.after(max(0, when - self.now), action)

    def after(self, span: int, action: Callable[[], None]) -> None:
        self.schedule.after(span, action)

    def run_until(self, when: int) -> None:
        self.schedule.run_until(Millis(when))

    def _check_progress(self) -> None:
        if self.now > self._moment:
            self._moment, self._moment_began = self.now, self.schedule.steps
        assert self.schedule.steps - self._moment_began < 10_000, "the servers keep each other busy"

    # Faults, and other acts from outside.

    def start(self, server_id: ServerId) -> None:
        server = self.servers[server_id]
        assert server.peer is None
        if server_id in self.gone:
            return
        settings = Settings(server_id, self.founders, server.disk_id, window=self.window)
        history, server.applied = server.disk.recover(self.window, self.random, server.out)
        server.peer = Peer(settings, history, server.out)
        self.prepare(server)
        self._log(f"{server_id} starts at {history.logged:#x} {history.accepted}")
        self.event(server, lambda peer, now: peer.start(now))
        for other in self.servers:
            if other != server_id:
                self._dial(server_id, other)

    def prepare(self, server: ZabServer) -> None:
        """Give a new peer what a transaction of its snapshot says; here there is nothing."""

    def crash(self, server_id: ServerId) -> None:
        server = self.servers[server_id]
        if server.peer is None:
            return
        self._log(f"{server_id} crashes")
        links = [link for ends, link in self._newest.items() if server_id in ends]
        server.disk.crash(self.random)
        server.down()
        self._check_disk(server)
        for link in links:
            self._break(link)

    def wipe(self, server_id: ServerId) -> None:
        """Lose a disk with its promises: the server comes back without a vote (D3)."""
        self.crash(server_id)
        server = self.servers[server_id]
        self.wiped += server.disk_id == FOUNDING_DISK and server_id in self.voters
        server.disk_id = DiskId(f"{server.disk_id}+")
        server.disk, server.checked = ZabDisk(), 0

    def cut(self, a: ServerId, b: ServerId) -> None:
        """Lose all messages from `a` to `b`."""
        self._log(f"cut {a} -> {b}")
        self._cuts.add((a, b))
        if (link := self._newest.get((min(a, b), max(a, b)))) is not None:
            link.lost_to.add(b)
            self._break(link)

    def heal(self) -> None:
        self._log("heal")
        self._cuts.clear()
        for a, b in combinations(self.servers, 2):
            self._dial(a, b)

    def flap(self, a: ServerId, b: ServerId) -> None:
        if (link := self.servers[a].links.get(b)) is not None:
            self._log(f"flap {a} - {b}")
            self._break(link)

    def propose(self, server_id: ServerId, count: int) -> bool:
        server = self.servers[server_id]
        if server.peer is None or server.paused_until > self.now:
            return False
        if (leading := server.peer.broadcasting) is None:
            return False
        first, last = leading.next_zxid(), server.peer.history.logged
        txns = [b"%x" % self.random.getrandbits(64) for _ in range(count)]
        self.properties.broadcast(server_id, first, txns, last)
        server.peer.propose(txns, self.now)
        self._settle(server)
        return True

    def transfer(self, server_id: ServerId, to: ServerId | None, within_ms: int) -> str | None:
        """Have a leader transfer the lead; return why it does not."""
        server = self.servers[server_id]
        if server.peer is None or server.paused_until > self.now:
            return "down"
        if server.peer.broadcasting is None:
            return "does not lead"
        until = Millis(self.now + within_ms)
        found = server.peer.transfer_leadership(to, until, 1_000)
        self._settle(server)
        return found if isinstance(found, str) else None

    def read(self, server_id: ServerId) -> None:
        server = self.servers[server_id]
        if server.peer is None or server.paused_until > self.now:
            return
        if (leading := server.peer.broadcasting) is not None:
            self._reads += 1
            server.reads[self._reads] = self.properties.last
            leading.read_index(self._reads)
            self._settle(server)

    def take_snapshot(self, server_id: ServerId) -> None:
        server = self.servers[server_id]
        if server.peer is not None and not server.disk.queue:
            server.disk.take_snapshot(server.applied, self.random)

    def leaders(self) -> list[ServerId]:
        """Return the servers that lead in broadcast, or believe so."""
        return [s.id for s in self.servers.values() if s.peer and s.peer.broadcasting]

    # Events of one server.

    def event(self, server: ZabServer, call: Call) -> None:
        """Give a server one event, now or when it is no longer paused."""
        if server.peer is None:
            return
        server.inbox.append(call)
        if len(server.inbox) == 1:
            self.at(max(self.now, server.paused_until), lambda: self._work_off(server, call))

    def _work_off(self, server: ZabServer, first: Call) -> None:
        if server.paused_until > self.now:
            self.at(server.paused_until, lambda: self._work_off(server, first))
        elif server.inbox and server.inbox[0] is first:
            calls = list(server.inbox)
            server.inbox.clear()
            for call in calls:
                assert server.peer is not None
                call(server.peer, self.now)
                self._settle(server)

    def _settle(self, server: ZabServer) -> None:
        assert server.peer is not None
        found = server.out[:]
        server.out.clear()
        for effect in found:
            self._carry_out(server, effect)
        history = server.peer.history
        assert history.current <= history.accepted
        assert history.delivered <= history.logged
        assert server.disk.accepted >= history.accepted
        self.properties.survives([self.servers[i].disk for i in self.voters], self.wiped)
        deadline = server.peer.deadline()
        if deadline is not None and deadline != server.alarm:
            server.alarm = deadline
            incarnation = server.incarnation
            self.at(deadline, lambda: self._wake(server, incarnation, deadline))

    def _wake(self, server: ZabServer, incarnation: int, deadline: Millis) -> None:
        if server.incarnation == incarnation and server.alarm == deadline:
            server.alarm = None
            self.event(server, lambda peer, now: peer.wake(now))

    def _carry_out(self, server: ZabServer, effect: effects.Effect) -> None:
        self._log(f"{server.id}: {effect}")
        if self.ambush is not None:
            self.ambush(server, effect)
        if isinstance(effect, effects.Send):
            self._send(server, effect.peer, effect.message)
        elif isinstance(effect, effects.DiskEffect):
            server.disk.begin(effect)
            self._disk_next(server)
        elif isinstance(effect, effects.Deliver):
            self._deliver(server, effect)
        elif isinstance(effect, effects.AdoptSnapshot):
            server.applied = server.disk.snapshot
            assert server.disk.entries[: server.applied] == self._prefix(server.applied)
        elif isinstance(effect, effects.StreamSnapshot):
            self._stream(server, effect.learner)
        elif isinstance(effect, effects.CancelSnapshot):
            server.streams.pop(effect.learner, None)  # completions of it may wait in the inbox
        elif isinstance(effect, effects.BreakLink):
            if (link := server.links.pop(effect.peer, None)) is not None:
                self._break(link)
                self.after(0, lambda: self._end_down(server, effect.peer, link))
        elif isinstance(effect, effects.ReadIndex):
            asked = server.reads.pop(effect.token)
            assert effect.zxid >= asked, f"{server.id} would read {effect.zxid:#x}, not {asked:#x}"
        elif isinstance(effect, effects.TraceEvent):
            assert effect.name != trace_events.MESSAGE_ILLEGAL, effect.detail  # no server here lies
            self.notes[effect.name] = self.notes.get(effect.name, 0) + 1
        elif isinstance(effect, effects.RoleChanged):
            server.reads.clear()
        elif isinstance(effect, effects.GrantCredit):
            self._stream_next(server, effect.learner)
        elif isinstance(effect, effects.CheckSnapshot):
            pass  # the trees of this world are undamaged
        elif isinstance(effect, effects.HandOverBegun | effects.TransferAbandoned):
            pass  # nobody writes by itself here
        elif effect.role is effects.Role.LEADER:
            self.properties.establish(effect.epoch, server.id, server.incarnation, server.applied)

    def _deliver(self, server: ZabServer, effect: effects.Deliver) -> None:
        for entry in entries_of(effect):
            self.properties.deliver(server.applied, entry)
            server.applied += 1

    def _prefix(self, count: int) -> list[Entry]:
        assert count <= len(self.properties.committed)
        return self.properties.committed[:count]

    # Disks.

    def _disk_next(self, server: ZabServer) -> None:
        if server.disk.queue and not server.is_disk_busy:
            server.is_disk_busy = True
            incarnation = server.incarnation
            span = self.random.randint(0, self.disk_ms)
            self.at(
                max(self.now + span, server.slow_until),
                lambda: self._disk_done(server, incarnation),
            )

    def _disk_done(self, server: ZabServer, incarnation: int) -> None:
        if server.incarnation != incarnation:
            return
        effect, runs = server.disk.finish()
        self._log(f"{server.id} disk: {effect}")
        if isinstance(effect, effects.InstallSnapshot):
            server.checked = 0
        self._check_disk(server)
        server.is_disk_busy = False
        self._disk_next(server)
        if isinstance(effect, effects.Append):
            upto = Zxid(effect.first + len(effect.txns) - 1)
            self.event(server, lambda peer, now: peer.log_synced(upto, now))
        elif isinstance(effect, effects.SaveEpochs):
            epochs: tuple[Epoch, Epoch] = effect.accepted, effect.current
            self.event(server, lambda peer, now: peer.epochs_saved(*epochs, now))
        elif isinstance(effect, effects.Truncate):
            cut = effect.upto
            self.event(server, lambda peer, now: peer.log_truncated(cut, now))
        elif isinstance(effect, effects.InstallSnapshot):
            zxid = effect.zxid
            self.event(server, lambda peer, now: peer.snapshot_installed(zxid, now))
        elif isinstance(effect, effects.ReadLog):
            learner, after = effect.learner, effect.after
            self.event(server, lambda peer, now: peer.log_read(learner, after, runs, now))

    def _check_disk(self, server: ZabServer) -> None:
        entries = server.disk.entries
        for i in range(min(server.checked, len(entries)), len(entries)):
            self.properties.extend_log(entries[i - 1][0] if i else Zxid(0), entries[i])
        server.checked = len(entries)

    # Snapshots to learners: one chunk in flight at a time.

    def _stream(self, server: ZabServer, learner: ServerId) -> None:
        stream = server.streams[learner] = Stream()
        self.after(self.random.randint(0, 20), lambda: self._stream_begin(server, learner, stream))

    def _stream_begin(self, server: ZabServer, learner: ServerId, stream: Stream) -> None:
        def begin(peer: Peer, _now: Millis) -> None:
            if server.streams.get(learner) is stream:
                data = encode_snapshot(self._prefix(server.applied))
                stream.chunks = [data[i : i + 1_000] for i in range(0, len(data), 1_000)]
                peer.snapshot_begin(learner, peer.history.delivered)

        self.event(server, begin)
        self.event(server, lambda _peer, _now: self._stream_next(server, learner))

    def _stream_next(self, server: ZabServer, learner: ServerId) -> None:
        stream = server.streams.get(learner)
        if stream is None or stream.chunks is None:
            return
        if stream.chunks:
            data = stream.chunks.pop(0)
            self.event(server, lambda peer, now: peer.snapshot_chunk(learner, data))
        else:
            del server.streams[learner]
            self.event(
                server,
                lambda peer, now: peer.snapshot_end(learner, peer.history.delivered),
            )

    # Links.

    def _dial(self, a: ServerId, b: ServerId) -> None:
        """Try to open a link until it exists, unless the present one is unbroken."""
        a, b = min(a, b), max(a, b)
        if (a, b) not in self._dialing:
            self._dialing.add((a, b))
            self.after(self.random.randint(0, self.dial_ms), lambda: self._connect(a, b))

    def _connect(self, a: ServerId, b: ServerId) -> None:
        self._dialing.discard((a, b))
        one, other = self.servers[a], self.servers[b]
        if one.peer is None or other.peer is None:
            return  # the start of that server dials again
        if (a, b) in self._cuts or (b, a) in self._cuts:
            return  # the end of the cut dials again
        newest = self._newest.get((a, b))
        if newest is not None:
            if not newest.is_broken:
                return
            if one.links.get(b) is other.links.get(a) is newest:
                self._dial(a, b)  # neither end has noticed the break yet
                return
        link = self._newest[a, b] = ZabLink(a, b)
        for server, peer in ((one, b), (other, a)):
            self._arrive(link, server, lambda s=server, p=peer: self._end_up(s, p, link))

    def _arrive(self, link: ZabLink, receiver: ZabServer, action: Callable[[], None]) -> None:
        when = self.now + self.random.randint(0, self.latency_ms)
        link.arrival[receiver.id] = max(link.arrival[receiver.id], when)
        incarnation = receiver.incarnation

        def arrive() -> None:
            if receiver.incarnation == incarnation:
                action()

        self.at(link.arrival[receiver.id], arrive)

    def _end_up(self, server: ZabServer, peer: ServerId, link: ZabLink) -> None:
        if link.is_broken:
            return  # refused
        server.links[peer] = link
        self.event(server, lambda p, now: p.link_up(peer, now))

    def _end_down(self, server: ZabServer, peer: ServerId, link: ZabLink) -> None:
        if server.links.get(peer) in (link, None):
            server.links.pop(peer, None)
            self.event(server, lambda p, now: p.link_down(peer, now))
        self._dial(server.id, peer)

    def _break(self, link: ZabLink) -> None:
        if link.is_broken:
            return
        link.is_broken = True
        a, b = link.ends
        for server, peer in ((self.servers[a], b), (self.servers[b], a)):
            notice = self.now + self.random.randint(0, self.notice_ms)
            self.at(notice, lambda s=server, p=peer: self._end_down(s, p, link))

    def _send(self, sender: ZabServer, to: ServerId, message: ZabMessage) -> None:
        link = sender.links.get(to)
        if link is None:
            return
        if isinstance(message, Notification):
            self._spoken[sender.id, self.now // 1_000] += 1
            assert self._spoken[sender.id, self.now // 1_000] < 600, "an election without end"
        receiver = self.servers[to]
        self._arrive(link, receiver, lambda: self._receive(link, receiver, sender.id, message))

    def _receive(
        self, link: ZabLink, server: ZabServer, sender: ServerId, message: ZabMessage
    ) -> None:
        if server.links.get(sender) is link and server.id not in link.lost_to:
            self.event(server, lambda peer, now: peer.receive(sender, message, now))

    def _log(self, line: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:>7} {line}")
