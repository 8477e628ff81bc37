"""The one place to which the simulated world reports what happened, and which calls every check.

Cheap checks run at each step; checks of everything run now and then, and at the end.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from raykeeper.server.peer_messages import TouchSessions, TouchSessionsReply
from raykeeper.server.server import Server
from raykeeper.server.server_trace_events import (
    SESSION_EXPIRED,
    SESSION_PROCESS_DIED,
    SESSION_SUSPECTED,
    TRACKER_LOST,
)
from raykeeper.zab.effects import Append, TraceEvent
from raykeeper.zab.ids import ZERO, Epoch, ServerId, Zxid, format_zxid
from raykeeper.zab.leader_broadcast import LeaderBroadcast
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import decode_txn
from tests.harness.schedule import Schedule
from tests.simulation.checks import (
    durability,
    full_timeouts,
    members,
    replicas,
    session_deadlines,
    sessions,
    zab,
)
from tests.simulation.checks.clients import Clients
from tests.simulation.checks.committed import Committed
from tests.simulation.trace import note_in_words

if TYPE_CHECKING:
    from tests.simulation.node import Node

DEADLINES_EVERY: Final = 8
SURVIVAL_EVERY: Final = 256
FULL_EVERY: Final = 4_096
"""Steps of servers between two looks at deadlines, at the disks, and at everything."""


class Checks:
    """The history of one run. Every method raises AssertionError on a broken promise."""

    def __init__(self, schedule: Schedule) -> None:
        self.notes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.zab = zab.Zab()
        self.last_txn_at = 0
        """When, in virtual milliseconds, a server was the first to deliver a transaction."""
        self._schedule = schedule
        self._promises = zab.Promises()
        self._committed = Committed(schedule)
        self.truth = self._committed.truth
        self.clients = Clients(schedule, self.zab, self._committed, self.notes)
        self._nodes: dict[ServerId, Node] = {}
        self._delivered: dict[ServerId, Zxid] = {}
        self._states: dict[ServerId, State | None] = {}
        self._known: dict[ServerId, State] = {}  # the states whose history their servers know
        self._epochs: dict[ServerId, tuple[Epoch, Epoch]] = {}
        self._roles: dict[ServerId, LeaderBroadcast | None] = {}  # that were seen already
        self._appended: list[tuple[Zxid, list[bytes]]] = []
        self._old_news = session_deadlines.StaleContacts()
        self._touches: dict[tuple[ServerId, ServerId], tuple[int, set[SessionId]]] = {}
        self._steps = 0
        self.on_append: Callable[[Append], None] = lambda _effect: None
        """Sees what every server appends to its log."""

    @property
    def order(self) -> list[Zxid]:
        """Return the zxids of all committed transactions."""
        return self.zab.order

    # Servers.

    def started(self, node: "Node") -> None:
        """Record that a process began on its disk."""
        if self._schedule.trace is not None:
            self._say(f"server {node.server_id} starts, log to {format_zxid(node.disk.last)}")
        self._nodes[node.server_id] = node
        self._delivered[node.server_id] = ZERO
        self._states[node.server_id] = None
        self._known.pop(node.server_id, None)
        self._committed.lasting.known_from.pop(node.server_id, None)
        self._epochs.pop(node.server_id, None)

    def stopped(self, node: "Node") -> None:
        """Record that a process was killed."""
        self._say(f"server {node.server_id} crashes")

    def leaves(self, node: "Node", list_: MemberList) -> None:
        """Check and record that a server ends, because the member list has it no more."""
        members.may_leave(self.truth, node.server_id, list_)
        self.counts["left"] += 1

    def note(self, node: "Node", note: TraceEvent) -> None:
        """Handle a trace event of a server."""
        self.notes[note.name] += 1
        now = self._schedule.now
        if note.name == TRACKER_LOST:
            self._committed.timeouts.tracker_lost(node.server_id, now)
        elif note.name == SESSION_EXPIRED:
            self._ends(node, SessionId(note.detail))
        elif note.name == SESSION_SUSPECTED:
            self._had_full_timeout(node, SessionId(note.detail), is_suspecting=True)
        elif note.name == SESSION_PROCESS_DIED:
            self._departs(node, SessionId(note.detail))
        if self._schedule.trace is not None:
            self._say(f"server {node.server_id}: {note_in_words(note)}")

    def _ends(self, node: "Node", session_id: SessionId) -> None:
        """Check a leader that is about to end a session."""
        self._had_full_timeout(node, session_id, is_suspecting=False)
        if (node.server_id, node.incarnation) == self.zab.newest_primary:
            seen = self._committed.by_id[session_id]
            is_known = self._committed.is_counted_on(session_id)
            sessions.only_who_has_let_go_expires(seen, is_known=is_known)

    def _had_full_timeout(
        self, node: "Node", session_id: SessionId, *, is_suspecting: bool
    ) -> None:
        known = self._delivered[node.server_id]
        self._committed.timeouts.full_after_a_loss(
            *(node.server_id, session_id, known, self._schedule.now), is_suspecting=is_suspecting
        )

    def _departs(self, node: "Node", session_id: SessionId) -> None:
        """Check a leader that is about to end a session without waiting for its timeout."""
        self._committed.departing[session_id] = None
        if (node.server_id, node.incarnation) == self.zab.newest_primary:
            sessions.only_the_dead_depart(self._committed.by_id[session_id])

    def touched(self, node: "Node", sender: ServerId, message: TouchSessions) -> None:
        """Record that a server is about to take the touches of another one."""
        known = self._delivered[node.server_id]
        gone = {
            touch.session_id
            for touch in message.sessions
            if full_timeouts.is_gone(self.truth, touch, known)
            or self._committed.timeouts.is_suspected(touch.session_id, known)
        }
        self._touches[node.server_id, sender] = (message.number, gone)

    def confirms(self, node: "Node", peer: ServerId, message: TouchSessionsReply) -> None:
        """Check a leader's confirmation of heartbeats that came through `peer`."""
        number, gone = self._touches.get((node.server_id, peer), (0, set()))
        if number == message.number:
            full_timeouts.only_the_living_are_confirmed(node.server_id, gone, message.rejected)

    def appends(self, effect: Append) -> None:
        """Record that a server appends to its log, in the step that ends next."""
        self._appended.append((effect.first, effect.txns))
        self.on_append(effect)

    def leads(self, node: "Node", epoch: Epoch) -> None:
        """Record that a server sends NEWLEADER."""
        self.zab.synchronizes(epoch, (node.server_id, node.incarnation))

    def stepped(self, node: "Node") -> None:
        """Compare a server with everything known, after its step."""
        server = node.server
        assert server is not None
        peer = server.peer
        history, server_id = peer.history, node.server_id
        process = (server_id, node.incarnation)
        # A leader whose epoch begins and ends in one step broadcasts all the same.
        role = peer.broadcasting
        if (role is not None and role is not self._roles.get(server_id)) or (
            history.promised_to == server_id
            and any(self.zab.is_news(first, txns) for first, txns in self._appended)
        ):
            self._roles[server_id] = role
            self.zab.leadership(peer.epoch, process, history.delivered)
            self._committed.timeouts.established(peer.epoch, self._schedule.now)
            self._committed.endings.established(
                peer.epoch, self._schedule.now, node.container_grace_ms
            )
        if self._appended:
            for first, txns in self._appended:
                self.zab.broadcast(process, first, txns)
            self._appended.clear()
        is_changing = peer.settings.members.is_changing
        members.counts_as_its_role(server_id, peer.role, is_changing=is_changing)
        epochs = (history.accepted, history.current)
        if epochs != self._epochs.get(server_id):
            self._epochs[server_id] = epochs
            disk = node.disk
            self._promises.epochs_only_grow(server_id, disk.disk, *epochs)
            zab.memory_follows_the_disk(epochs, (disk.accepted, disk.current))
        self._old_news.stepped(node)
        before = self._delivered[server_id]
        if self._committed.fences.get(server_id):
            self._on_fences(node, before)
        if server.state is not self._known.get(server_id):
            self._remembers_from(node, server)
        if history.delivered != before:
            self._on_delivered(node, before, history.delivered)
        self._steps += 1
        if self._steps % DEADLINES_EVERY == 0:
            self._deadlines()
        if self._steps % SURVIVAL_EVERY == 0:
            self._survival()
            if self._steps % FULL_EVERY == 0:
                self._everything()

    def _on_delivered(self, node: "Node", before: Zxid, upto: Zxid) -> None:
        server, server_id = node.server, node.server_id
        assert server is not None
        entries: list[zab.Entry] = []
        for zxid in reversed(node.logged):
            if zxid <= before:
                break
            if zxid <= upto:
                entries.append((zxid, node.logged[zxid]))
        entries.reverse()
        state = server.state
        if state is self._states[server_id]:
            if server.peer.history.is_paused:
                # Kept in memory only, and compared only by its digest (rule D6).
                entries += self.zab.between(entries[-1][0] if entries else before, upto)
            zab.cursors_go_on(server_id, before, upto, entries)
            self.zab.no_gap(server_id, before, entries[0][0])
        else:
            self._states[server_id] = state  # of a new process, or of a snapshot
        fresh = self.zab.deliver(server_id, entries)
        self.zab.known(server_id, upto)
        self._delivered[server_id] = upto
        if self._schedule.trace is not None:
            self._say(f"server {server_id} delivers up to {format_zxid(upto)}")
        for zxid, data in fresh:
            self._committed.committed(zxid, decode_txn(data))
        if fresh:
            self.last_txn_at = self._schedule.now
            self._survival()
        assert state.zxid == upto, f"Replicas: {server_id} is at {state.zxid}, delivered {upto}"
        if upto >= state.consistent_at and not node.is_flipped:
            self.zab.digests_are_equal(server_id, upto, state.digest())

    def _remembers_from(self, node: "Node", server: Server) -> None:
        """Record that from here on, at the latest, the server knows what led to a new state."""
        state = server.state
        if server._snapshot_install.is_consistent:
            self._known[node.server_id] = state
        if node.remembers_all:
            zxid = max(state.zxid, state.consistent_at)
            self._committed.lasting.known_from[node.server_id] = zxid

    def _on_fences(self, node: "Node", before: Zxid) -> None:
        """Check moves that were delivered in an earlier step, whose effects were carried out."""
        assert node.server is not None
        if node.server._snapshot_install.is_consistent:
            fences = self._committed.fences[node.server_id]
            # A server that installed a snapshot may not know whose connection it is.
            bound = node.server._clients._by_number
            is_open = [n for n in node._clients if n in bound and bound[n].session_id]
            for _, place in [each for each in fences if each[0] <= before]:
                sessions.is_fenced(place, is_open)
            self._committed.fences[node.server_id] = [each for each in fences if each[0] > before]

    def _deadlines(self) -> None:
        process = self.zab.newest_primary
        node = self._nodes[process[0]] if process is not None else None
        if node is not None and node.incarnation == process[1]:  # type: ignore[index]
            session_deadlines.nobody_counts_on_too_much(node, self._committed)

    def _survival(self) -> None:
        last = self.zab.last
        voters = [node.disk for node in self._nodes.values() if node.votes]
        if last and voters:
            quorum = _quorum_of(self._nodes)
            durability.acked_writes_survive(voters, quorum, last, self.zab.committed[last])

    def _everything(self) -> None:
        """Run the checks that look at everything."""
        self.counts["checks.full"] += 1
        for server_id, node in self._nodes.items():
            durability.logs_agree(node.disk, self.zab.committed, self._delivered[server_id])
            server = node.server
            if server is None or node.is_flipped or server.state.zxid != self.truth.zxid:
                continue
            if server.state.zxid >= server.state.consistent_at:
                replicas.tree_is_true(server_id, server.state, self.truth)
                replicas.ephemerals_are_true(server_id, server.state, self.truth)
                replicas.sessions_are_true(
                    server_id, server.state, self.truth, self._committed.told
                )

    # The end of a run.

    def calm(self, nodes: list["Node"]) -> None:
        """Record that faults are over for these servers, except one that must leave."""
        is_calm = nodes and not any(node.is_flipped for node in nodes)
        self._committed.endings.calm_since = self._schedule.now if is_calm else None

    def converged(self, nodes: list["Node"]) -> bool:
        """Return whether every server has delivered everything and holds the same state."""
        ends = set()
        for node in nodes:
            server = node.server
            if server is None or not server.peer.is_active:
                return False
            ends.add((server.state.zxid, server.peer.history.logged))
        return len(ends) == 1 and self.order[-1:] == [next(iter(ends))[0]]

    def all_have_ended(self) -> bool:
        """Return whether sessions of clients that are gone, and expiring znodes, have ended."""
        return self.clients.sessions_have_ended() and self._committed.endings.are_all_gone()

    def finish(self, nodes: list["Node"]) -> None:
        """Check everything once more, and the whole history."""
        self._survival()
        self._everything()
        for node in nodes:
            zab.differences_are_found(node.server_id, node.is_flipped)
        self.clients.finish(self.counts)

    def _say(self, text: str) -> None:
        self._schedule.say(text)


def _quorum_of(nodes: "dict[ServerId, Node]") -> int:
    """Return how many voters are a majority."""
    return sum(node.votes for node in nodes.values()) // 2 + 1
