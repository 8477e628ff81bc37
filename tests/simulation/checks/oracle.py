"""The one place that the simulated world tells what happened; it asks every check about it.

Cheap checks come with each step, those that look at everything now and then and at the end.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from raykeeper.actors.peer_messages import Touches, TouchesConfirmed
from raykeeper.actors.server_notes import READS_HELD, SESSION_EXPIRED, TRACKER_LOST
from raykeeper.client.effects import Answer
from raykeeper.client.outstanding import Ask, Query
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.zab.effects import Append, Note
from raykeeper.zab.ids import ZERO, Epoch, ServerId, Zxid, show_zxid
from raykeeper.znodes.errors import Code, KeeperError
from raykeeper.znodes.replies import ChildrenRead, DataRead, Done, StatRead, Written
from raykeeper.znodes.requests import CloseSession, SessionId
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import Created, SessionClosed, SessionOpened, Txn, decode_txn
from tests.simulation.checks import (
    answers,
    durability,
    execution,
    letting_go,
    overdue,
    replicas,
    sessions,
    zab,
)
from tests.simulation.checks.order import Recorder, writes_and_synced_reads_are_linearizable
from tests.simulation.checks.seen import Asked, Seen, Told, known_session, new_seen
from tests.simulation.checks.truth import Truth
from tests.simulation.checks.watches import Watches
from tests.simulation.schedule import Schedule
from tests.simulation.trace import note_in_words

if TYPE_CHECKING:
    from tests.simulation.client import SimClient
    from tests.simulation.node import Node

DEADLINES_EVERY: Final = 8
SURVIVAL_EVERY: Final = 256
FULL_EVERY: Final = 4_096
"""Steps of servers between two looks at deadlines, at the disks, and at everything."""

_END_CODES: Final = frozenset(
    {
        Code.SESSION_EXPIRED,
        Code.CONNECTION_LOSS,
        Code.OPERATION_TIMEOUT,
        Code.SESSION_MOVED,
        Code.AUTH_FAILED,
    }
)
"""What the client library says by itself; every other refusal came from a server."""


class Checks:
    """The history of one run. Every method raises AssertionError on a broken promise."""

    def __init__(self, schedule: Schedule) -> None:
        self.notes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.acked = 0
        self.zab = zab.Zab()
        self.truth = Truth()
        self._schedule = schedule
        self._promises = zab.Promises()
        self._watches = Watches(self.truth)
        self._recorder = Recorder(schedule)
        self._sequence = execution.SequenceNumbers()
        self._nodes: dict[ServerId, Node] = {}
        self._delivered: dict[ServerId, Zxid] = {}
        self._states: dict[ServerId, State | None] = {}
        self._epochs: dict[ServerId, tuple[Epoch, Epoch]] = {}
        self._appended: list[tuple[Zxid, list[bytes]]] = []
        self._old_news = letting_go.OldNews()
        self._seen: dict[tuple[str, int], Seen] = {}
        self._by_password: dict[bytes, Seen] = {}
        self._by_id: dict[SessionId, Seen] = {}
        self._told: dict[SessionId, dict[int, Told]] = {}
        self._timeouts = overdue.Timeouts()
        self._touches: dict[tuple[ServerId, ServerId], tuple[int, set[SessionId]]] = {}
        self._places: dict[SessionId, sessions.Place] = {}
        self._fences: dict[ServerId, list[tuple[Zxid, sessions.Place]]] = {}
        self._steps = 0

    @property
    def order(self) -> list[Zxid]:
        """Everything that was committed."""
        return self.zab.order

    # Servers.

    def started(self, node: "Node") -> None:
        """A process began on its disk."""
        if self._schedule.trace is not None:
            self._say(f"server {node.server_id} starts, log to {show_zxid(node.disk.last)}")
        self._nodes[node.server_id] = node
        self._delivered[node.server_id] = ZERO
        self._states[node.server_id] = None
        self._epochs.pop(node.server_id, None)

    def stopped(self, node: "Node") -> None:
        """A process was killed."""
        self._say(f"server {node.server_id} crashes")

    def note(self, node: "Node", note: Note) -> None:
        """A note of a server."""
        self.notes[note.name] += 1
        now = self._schedule.now
        if note.name == TRACKER_LOST:
            self._timeouts.tracker_lost(node.server_id, now)
        elif note.name == SESSION_EXPIRED:
            self._timeouts.full_after_a_loss(node.server_id, SessionId(note.detail), now)
            self._decided(node, SessionId(note.detail))
        if self._schedule.trace is not None:
            self._say(f"server {node.server_id}: {note_in_words(note)}")

    def _decided(self, node: "Node", session_id: SessionId) -> None:
        """A leader is about to end a session."""
        if (node.server_id, node.incarnation) == self.zab.newest_primary:
            seen = self._by_id[session_id]
            is_known = known_session(seen) == session_id
            sessions.only_who_has_let_go_expires(seen, is_known=is_known)

    def touched(self, node: "Node", sender: ServerId, message: Touches) -> None:
        """A server is about to take the touches of another."""
        known = self._delivered[node.server_id]
        gone = {
            touch.session_id
            for touch in message.touches
            if overdue.is_gone(self.truth, touch, known)
        }
        self._touches[node.server_id, sender] = (message.number, gone)

    def confirms(self, node: "Node", peer: ServerId, message: TouchesConfirmed) -> None:
        """A leader confirms heartbeats that came through `peer`."""
        number, gone = self._touches.get((node.server_id, peer), (0, set()))
        if number == message.number:
            overdue.only_the_living_are_confirmed(node.server_id, gone, message.rejected)

    def appends(self, effect: Append) -> None:
        """A server appends to its log, in the step that ends next."""
        self._appended.append((effect.first, effect.txns))

    def leads(self, node: "Node", epoch: Epoch) -> None:
        """A server sends NEWLEADER."""
        self.zab.synchronizes(epoch, (node.server_id, node.incarnation))

    def stepped(self, node: "Node") -> None:
        """A server took a step: compare it with everything known."""
        server = node.server
        assert server is not None
        peer = server.peer
        history, server_id = peer.history, node.server_id
        process = (server_id, node.incarnation)
        # One whose reign begins and ends in a step broadcasts all the same.
        if peer.broadcasting is not None or (
            history.promised_to == server_id
            and any(self.zab.is_news(first, txns) for first, txns in self._appended)
        ):
            self.zab.leadership(peer.epoch, process, history.delivered)
            self._timeouts.established(peer.epoch, self._schedule.now)
        if self._appended:
            for first, txns in self._appended:
                self.zab.broadcast(process, first, txns)
            self._appended.clear()
        epochs = (history.accepted, history.current)
        if epochs != self._epochs.get(server_id):
            self._epochs[server_id] = epochs
            disk = node.disk
            self._promises.epochs_only_grow(server_id, disk.disk, *epochs)
            zab.memory_follows_the_disk(epochs, (disk.accepted, disk.current))
        self._old_news.stepped(server_id, server)
        before = self._delivered[server_id]
        if self._fences.get(server_id):
            self._on_fences(node, before)
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
                # Kept in memory only, and not compared but by its digest (rule D6).
                entries += self.zab.between(entries[-1][0] if entries else before, upto)
            zab.cursors_go_on(server_id, before, upto, entries)
            self.zab.no_gap(server_id, before, entries[0][0])
        else:
            self._states[server_id] = state  # of a new process, or of a snapshot
        fresh = self.zab.deliver(server_id, entries)
        self.zab.known(server_id, upto)
        self._delivered[server_id] = upto
        if self._schedule.trace is not None:
            self._say(f"server {server_id} delivers up to {show_zxid(upto)}")
        for zxid, data in fresh:
            self._committed(zxid, decode_txn(data))
        if fresh:
            self._survival()
        assert state.zxid == upto, f"Replicas: {server_id} is at {state.zxid}, delivered {upto}"
        if upto >= state.consistent_at and not node.is_flipped:
            self.zab.digests_are_equal(server_id, upto, state.digest())

    def _on_fences(self, node: "Node", before: Zxid) -> None:
        """Moves that were delivered in an earlier step, whose effects were carried out."""
        assert node.server is not None
        if node.server._adoption.is_settled:
            fences = self._fences[node.server_id]
            # One that took over a snapshot may not know whose connection it is.
            bound = node.server._connections._by_number
            is_open = [n for n in node._clients if n in bound and bound[n].session_id]
            for _, place in [each for each in fences if each[0] <= before]:
                sessions.is_fenced(place, is_open)
            self._fences[node.server_id] = [each for each in fences if each[0] > before]

    def _deadlines(self) -> None:
        process = self.zab.newest_primary
        node = self._nodes[process[0]] if process is not None else None
        if node is not None and node.incarnation == process[1]:  # type: ignore[index]
            letting_go.nobody_counts_on_too_much(node, self._by_id)

    def _survival(self) -> None:
        last = self.zab.last
        voters = [node.disk for node in self._nodes.values() if node.votes]
        if last and voters:
            quorum = _quorum_of(self._nodes)
            durability.acked_writes_survive(voters, quorum, last, self.zab.committed[last])

    def _everything(self) -> None:
        """The checks that look at everything."""
        self.counts["checks.full"] += 1
        for server_id, node in self._nodes.items():
            durability.logs_agree(node.disk, self.zab.committed, self._delivered[server_id])
            server = node.server
            if server is None or node.is_flipped or server.state.zxid != self.truth.zxid:
                continue
            if server.state.zxid >= server.state.consistent_at:
                replicas.tree_is_true(server_id, server.state, self.truth)
                replicas.ephemerals_are_true(server_id, server.state, self.truth)
                replicas.sessions_are_true(server_id, server.state, self.truth, self._told)

    # What the transactions say.

    def _committed(self, zxid: Zxid, txn: Txn) -> None:
        truth, change = self.truth, txn.change
        execution.times_never_go_back(truth, txn)
        if txn.number:
            self._check_write(zxid, txn)
        else:
            execution.is_the_leaders_own(txn)
            if isinstance(change, SessionOpened):
                sessions.sessions_open_once(truth, zxid, change)
                asked = self._by_password.get(change.password)
                seen = sessions.one_session_for_a_client(truth, asked, change)
                if not sessions.is_its_session(truth, seen, known_session(seen)):
                    seen.session_id, seen.ended_at = change.session_id, None
                    seen.done_at = []
                self._by_id[change.session_id] = seen
                self._moved(zxid, change)
                self._timeouts.moved(change, self._schedule.now)
        if isinstance(change, SessionClosed):
            self._check_end(txn, change)
            if not txn.number:
                now = self._schedule.now
                self._timeouts.full_after_a_move(change.session_id, zxid, now)
        touched = truth.apply(zxid, txn)
        if txn.number:
            told = self._told.setdefault(txn.session_id, {})
            told[txn.number] = sessions.outcome(truth, zxid, txn)
            self._by_id[txn.session_id].done_at.append(self._recorder.clock.tick())
        if touched:
            self._watches.happened(touched)

    def _moved(self, zxid: Zxid, change: SessionOpened) -> None:
        session_id, place = change.session_id, (change.server_id, change.connection)
        known = self._places.get(session_id)
        if known is None or place != (known.server_id, known.connection):
            self._places[session_id] = sessions.Place(*place, zxid)
            if known is not None:
                self._fences.setdefault(known.server_id, []).append((zxid, known))

    def _check_write(self, zxid: Zxid, txn: Txn) -> None:
        truth, change = self.truth, txn.change
        session = truth.sessions.get(txn.session_id)
        sessions.expired_sessions_do_nothing(session, txn)
        assert session is not None
        seen = self._by_id[txn.session_id]
        op = sessions.exactly_once(session, txn, seen)
        if seen.client.life == seen.life and seen.client.core is not None:
            place, shown = self._places[txn.session_id], seen.client.core.last_zxid
            sessions.written_on_the_present_connection(seen, place, shown)
        if isinstance(change, Created):
            sessions.owns_only_for_itself(txn, change)
            if execution.is_sequential(op):
                self._sequence.given(change.path, truth)
        execution.refusals_are_justified(truth, zxid, txn, op)

    def _check_end(self, txn: Txn, change: SessionClosed) -> None:
        seen = self._by_id[change.session_id]
        if not txn.number and self._schedule.trace is not None:
            self._say(f"session {show_zxid(Zxid(change.session_id))} of {seen} expires")
        is_known = known_session(seen) == change.session_id
        sessions.ends_once_and_with_a_reason(self.truth, txn, change, seen, is_known=is_known)
        execution.ephemerals_end_with_their_session(self.truth.sessions[change.session_id], change)
        if seen.session_id == change.session_id:
            seen.ended_at = self._recorder.clock.tick()

    # Clients.

    def client_started(self, client: "SimClient") -> None:
        """A session begins."""
        assert client.core is not None
        seen = new_seen(client.name, client.life, client)
        self._seen[client.name, client.life] = seen
        self._by_password[client.core._password] = seen
        self._say(f"client {client.name} begins")

    def client_lost(self, client: "SimClient", cause: KeeperError | None) -> None:
        """The handle is LOST."""
        seen = self._seen[client.name, client.life]
        sessions.a_closed_handle_has_not_expired(seen, cause)
        self._over(seen)

    def client_closed(self, client: "SimClient") -> None:
        """The handle was closed."""
        seen = self._seen[client.name, client.life]
        if not seen.has_closed:
            seen.has_closed = seen.is_over = True
            seen.writes.append(CloseSession())

    def client_leaves(self, client: "SimClient", reason: str) -> None:
        """A client closes its link, because of what its server did, or did not."""
        who = self._seen[client.name, client.life]
        letting_go.servers_keep_the_protocol(who, reason)
        sessions.the_newest_connection_keeps_its_session(who, reason)

    def client_died(self, client: "SimClient") -> None:
        """The process was killed (its life counter has gone on)."""
        self._over(self._seen[client.name, client.life - 1])
        self._say(f"client {client.name} dies")

    def _over(self, seen: Seen) -> None:
        seen.is_over = True
        seen.watching = {}
        seen.due = {}

    def submitted(self, client: "SimClient", token: int, ask: Ask) -> None:
        """A request was made."""
        seen = self._seen[client.name, client.life]
        if seen.is_over:
            return  # it is refused at once
        number = 0
        if not isinstance(ask, Query):
            seen.writes.append(ask)
            number = len(seen.writes)
        operation = self._recorder.asked(seen, ask)
        seen.pending.append(Asked(ask, number, self.zab.last, self._delays(client), operation))

    def completed(self, client: "SimClient", ask: Ask, answer: Answer) -> None:
        """A request was answered."""
        seen = self._seen[client.name, client.life]
        asked = answers.answers_in_order(seen, ask)
        zxid = answer.zxid
        is_late = asked.delays != self._delays(client)
        answers.nothing_is_shown_before_it_is_committed(self.truth, seen, zxid)
        sessions.expired_sessions_are_not_answered(self.truth, seen)
        seen.is_answered = True
        if isinstance(answer, Written):
            due = self._told.get(seen.session_id, {}).get(asked.number)
            answers.answer_is_the_outcome(seen, asked, answer, due)
            self._wrote(seen, zxid)
            self.acked += 1
        else:
            answers.reads_never_go_back(seen, zxid)
            seen.zxid = zxid
            if not is_late:
                seen.read = zxid
            if seen.due:
                self._watches.event_before_the_state_it_announces(seen, zxid)
            if isinstance(answer, Done):
                answers.syncs_are_recent(seen, asked, zxid)
            else:
                self._read(seen, ask, answer)
        if asked.operation is not None:
            if is_late:
                self._recorder.was_late(seen, asked.operation)
            self._recorder.answered(seen, asked.operation, answer)

    def _delays(self, client: "SimClient") -> tuple[int, int]:
        """How often reads had to wait so far: for another connection, or for a leader."""
        return client._dials, self.notes[READS_HELD]

    def _wrote(self, seen: Seen, zxid: Zxid) -> None:
        answers.writes_come_after_earlier_reads(seen, zxid)
        seen.zxid = max(seen.zxid, zxid)
        if seen.due:
            self._watches.event_before_the_state_it_announces(seen, zxid, is_write=True)

    def _read(self, seen: Seen, ask: Ask, answer: DataRead | StatRead | ChildrenRead) -> None:
        assert isinstance(ask, Query)
        answers.reads_are_true(self.truth, seen, ask, answer)
        if ask.watcher is not None:
            key = (ask.path, isinstance(answer, ChildrenRead))
            is_missing = answer.stat is None
            self._watches.is_set(seen, key, ask.watcher, answer.zxid, is_missing=is_missing)

    def failed(self, client: "SimClient", ask: Ask, error: KeeperError) -> None:
        """A request failed."""
        seen = self._seen[client.name, client.life]
        if seen.is_over and not (seen.pending and seen.pending[0].ask is ask):
            answers.late_requests_never_leave(seen, error)
            return
        asked = answers.answers_in_order(seen, ask)
        answers.indefinite_only_where_it_may_have_happened(asked, error)
        due = self._told.get(seen.session_id, {}).get(asked.number) if asked.number else None
        if error.code in _END_CODES:
            sessions.only_the_end_of_a_session_fails_requests(seen, error)
        else:
            if isinstance(ask, Query):
                answers.missing_is_true(self.truth, seen, ask, error)
            else:
                due = answers.refusal_is_the_outcome(seen, asked, error.code, due)
                self._wrote(seen, due.zxid)
            if asked.operation is not None:
                if asked.delays != self._delays(client):
                    self._recorder.was_late(seen, asked.operation)
                self._recorder.refused(asked.operation, error.code)
        if error.code in _END_CODES and asked.number and error.definite:
            answers.denied_has_no_effect(seen, asked, due)
            seen.denied.add(asked.number)
        if asked.operation is not None and asked.operation.result is None:
            seen.unknown.append(asked)

    def event(self, client: "SimClient", watchers: list[object], event: WatchedEvent) -> None:
        """A watch fired."""
        seen = self._seen[client.name, client.life]
        answers.nothing_is_shown_before_it_is_committed(self.truth, seen, event.zxid)
        self._watches.once_and_true(seen, watchers, event)

    # The end of a run.

    def converged(self, nodes: list["Node"]) -> bool:
        """Whether every server has delivered everything and holds the same state."""
        ends = set()
        for node in nodes:
            server = node.server
            if server is None or not server.peer.is_active:
                return False
            ends.add((server.state.zxid, server.peer.history.logged))
        return len(ends) == 1 and self.order[-1:] == [next(iter(ends))[0]]

    def sessions_have_ended(self) -> bool:
        """Whether the sessions of all clients that are gone have ended."""
        living = [seen for seen in self._seen.values() if not seen.is_over]
        return sessions.every_session_ends(self.truth, [known_session(seen) for seen in living])

    def finish(self, nodes: list["Node"]) -> None:
        """Look at everything once more, and judge the whole history."""
        self._survival()
        self._everything()
        for node in nodes:
            zab.differences_are_found(node.server_id, node.is_flipped)
        for seen in self._seen.values():
            if not seen.is_over:
                self._watches.no_event_missed(seen)
        verdict = writes_and_synced_reads_are_linearizable(self._seen.values(), self._told)
        self.counts["linearizability.steps"] += verdict.steps
        self.counts["linearizability.znodes"] += verdict.znodes
        self.counts["linearizability.undecided"] += len(verdict.undecided)

    def _say(self, text: str) -> None:
        self._schedule.say(text)


def _quorum_of(nodes: "dict[ServerId, Node]") -> int:
    """How many voters are a majority."""
    return sum(node.votes for node in nodes.values()) // 2 + 1
