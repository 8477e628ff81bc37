"""One server as a pure state machine: Zab, the tree, sessions, watches and the order of requests.

`step` takes every event that waits, and returns what the shell must do, in order. There is no
clock, disk, socket or thread in here, so the simulator runs this very code.

ZooKeeper: `QuorumPeer`, `LeaderZooKeeperServer`, `FollowerZooKeeperServer`.
"""

from collections.abc import Callable
from typing import Any

from raykeeper.server import server_notes as notes
from raykeeper.server.adoption import Adoption
from raykeeper.server.connections import Connections
from raykeeper.server.digests import Digests
from raykeeper.server.effects import Effect, Restart, SendPeer
from raykeeper.server.events import (
    ClientFrameArrived,
    ClientGone,
    ClientSent,
    EpochsSaved,
    Event,
    LinkDown,
    LinkUp,
    LogRead,
    LogSynced,
    LogTruncated,
    PeerFrame,
    ProcessGone,
    RoomChanged,
    SessionsOverdue,
    SnapshotCredited,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotPublished,
    SnapshotWritten,
    TrackerLost,
)
from raykeeper.server.leader_contact import LeaderContact
from raykeeper.server.leading import Leading
from raykeeper.server.peer_messages import (
    DigestAsk,
    DigestTold,
    Diverged,
    ForwardMessage,
    ForwardWrites,
    LeaderAnswer,
    LeaderQuestion,
    ProcessesGone,
    ReadPointReply,
    ReadPointRequest,
    Touches,
    TouchesConfirmed,
)
from raykeeper.server.recovered import Recovered, state_of
from raykeeper.server.server_context import ServerContext, ServerOptions
from raykeeper.server.server_stats import ServerStats, stats_of
from raykeeper.server.tree_streams import TreeStreams
from raykeeper.zab import effects as zab
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING, DiskId, Millis, Now, ServerId, Zxid
from raykeeper.zab.peer import Peer
from raykeeper.zab.settings import Settings
from raykeeper.zab.window import TxnWindow
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.state import State, outcome_of
from raykeeper.znodes.tree import Happening
from raykeeper.znodes.txns import (
    OpenRefused,
    SessionClosed,
    SessionOpened,
    Txn,
    VoterReplaced,
    decode_txn,
)


class Server:
    """A replica's state machine. Call `start` once, then `step` with whatever has happened."""

    def __init__(
        self, settings: Settings, limits: Limits, options: ServerOptions, recovered: Recovered
    ) -> None:
        """Takes up the recovered state: snapshot, then the log as far as it is known committed."""
        state = state_of(recovered)
        window = TxnWindow(recovered.snapshot_zxid)
        for run in recovered.runs:
            window.extend(run.first, run.txns)
        self._zab_out: zab.Outbox = []
        history = History(
            recovered.accepted,
            recovered.current,
            window,
            recovered.snapshot_zxid,
            self._zab_out,
            settings.window,
            is_uncertain=recovered.is_uncertain,
            has_initial=recovered.has_initial,
            has_room=recovered.has_room,
        )
        settings.members.adopt(state.voters)
        peer = Peer(settings, history, self._zab_out)
        self._context = ServerContext(state, peer, limits, options)
        self._connections = Connections(self._context)
        self._streams = TreeStreams(self._context)
        self._leading: Leading | None = None
        self._contact = LeaderContact(self._context, self._connections)
        self._adoption = Adoption(self._context, self._connections, self._streams)
        self._digests = Digests(self._context)
        # Votes moved by transactions that a prospective leader found undelivered in its log.
        self._inherited: dict[ServerId, DiskId] = {}
        self._report_at: Millis | None = None
        self._room_at: Millis | None = None  # when a full disk is looked at again
        self._handlers: dict[type, Callable[[Any], None]] = self._event_handlers()
        self._rare_changes: dict[type, Callable[[Zxid, Txn], None]] = {
            SessionOpened: self._opened,
            OpenRefused: self._open_refused,
            SessionClosed: self._closed,
            VoterReplaced: self._voter_replaced,
        }
        history.deliver(recovered.committed)
        self._pump()
        if settings.votes and settings.disk != FOUNDING:
            # Perhaps again: the last process may have died on it.
            self._context.out.append(zab.VoteGranted())

    def start(self, now: Now) -> list[Effect]:
        """Begin to look for a leader."""
        self._context.now = now
        if not self._context.peer.history.has_room:
            self._room_at = Millis(now.mono + self._context.options.room_check_ms)
        self._connections.read_only.role_changed(zab.Role.LOOKING)
        self._context.peer.start(now.mono)
        return self._finish()

    def step(self, events: list[Event], now: Now) -> list[Effect]:
        """Take every event, in order. Returns the effects to carry out, in order."""
        self._context.now = now
        mono = now.mono
        peer = self._context.peer
        due = peer.deadline()
        self._serve()
        handlers = self._handlers
        for event in events:
            handlers[type(event)](event)
        if due is not None and due <= mono:
            # After the events: what has arrived in time must not count as silence.
            peer.wake(mono)
            self._pump()
        if self._report_at is not None and self._report_at <= mono:
            self._report_at = Millis(mono + self._context.options.touch_ms)
            self._contact.touch(self._leading)
            self._pump()
            if self._leading is not None:
                self._leading.restore_votes()
                self._leading.end_znodes()
                self._leading.report()
                self._digests.ask()
        elif self._leading is not None and self._leading.wants_step:
            self._leading.end_znodes()
        if self._room_at is not None and self._room_at <= mono:
            self._room_at = None  # set again by the completion
            self._context.out.append(zab.CheckRoom())
        return self._finish()

    def deadline(self) -> Millis | None:
        """When to call `step` at the latest, in monotonic milliseconds; None if never."""
        leading = self._leading
        if (
            self._streams.wants_step
            or self._connections.wants_step
            or (leading is not None and leading.wants_step)
        ):
            return self._context.now.mono
        begins_at = self._connections.read_only.begins_at
        dues = (self._context.peer.deadline(), self._report_at, self._room_at, begins_at)
        return min((due for due in dues if due is not None), default=None)

    def stats(self) -> ServerStats:
        """A view of the server, cheap but for the digest."""
        return stats_of(self._context, self._connections)

    @property
    def state(self) -> State:
        """The replicated state, for checks from outside; never to be changed."""
        return self._context.state

    @property
    def peer(self) -> Peer:
        """The server's part in Zab, for checks from outside."""
        return self._context.peer

    # Events.

    def _event_handlers(self) -> dict[type, Callable[[Any], None]]:
        connections, streams = self._connections, self._streams
        return {
            PeerFrame: self._on_peer_frame,
            ClientFrameArrived: lambda e: connections.frame(e.connection, e.data, e.host),
            ClientGone: lambda event: connections.gone(event.connection),
            ProcessGone: lambda event: connections.process_gone(event.connection),
            ClientSent: lambda event: connections.sent(event.connection, event.bytes),
            LogSynced: self._on_log_synced,
            EpochsSaved: self._on_epochs_saved,
            LogTruncated: self._on_log_truncated,
            SnapshotInstalled: self._on_snapshot_installed,
            LogRead: self._on_log_read,
            LinkUp: self._on_link_up,
            LinkDown: self._on_link_down,
            SnapshotCredited: lambda event: streams.credited(event.zxid),
            SnapshotWritten: lambda event: streams.written(event.zxid),
            SnapshotFailed: lambda event: streams.failed(event.zxid),
            SnapshotPublished: lambda event: streams.published(event.zxid),
            RoomChanged: self._on_room_changed,
            SessionsOverdue: self._on_sessions_overdue,
            TrackerLost: self._on_tracker_lost,
        }

    def _on_peer_frame(self, event: PeerFrame) -> None:
        peer, mono = self._context.peer, self._context.now.mono
        sender = event.peer
        for message in event.messages:
            if not isinstance(message, ForwardMessage):
                peer.receive(sender, message, mono)
                self._pump()
            elif sender in peer.links:
                if isinstance(message, LeaderAnswer):
                    if sender == peer.leader:
                        self._on_leader_answer(message)
                elif self._leading is not None:
                    self._on_asked(self._leading, sender, message)
                    self._pump()  # the reign may have ended with its counter

    def _on_asked(self, leading: Leading, sender: ServerId, message: LeaderQuestion) -> None:
        """Another server asks us, its leader, for its clients."""
        if isinstance(message, ForwardWrites):
            for gap in leading.writes(sender, message.writes):
                self._context.out.append(SendPeer(sender, gap))
        elif isinstance(message, Touches):
            self._contact.touches_arrived(sender, message, leading)
        elif isinstance(message, ReadPointRequest):
            self._contact.read_point_asked(sender, message)
        elif isinstance(message, DigestTold):
            self._digests.told(sender, message)
        elif isinstance(message, ProcessesGone):
            leading.processes_gone(message.sessions)
        else:
            leading.connect(sender, message)

    def _on_leader_answer(self, message: LeaderAnswer) -> None:
        """Our leader answers what we asked for our clients."""
        if isinstance(message, TouchesConfirmed):
            self._contact.touches_confirmed(message)
        elif isinstance(message, ReadPointReply):
            self._contact.read_point(message.token, message.zxid)
        elif isinstance(message, DigestAsk):
            if self._adoption.is_settled:
                self._digests.compared(message)
        elif isinstance(message, Diverged):
            self._digests.diverged(message.zxid)
        else:
            self._connections.gap(message.session_id, message.owner)

    def _on_link_up(self, event: LinkUp) -> None:
        self._context.peer.link_up(event.peer, self._context.now.mono)
        self._pump()

    def _on_link_down(self, event: LinkDown) -> None:
        self._context.peer.link_down(event.peer, self._context.now.mono)
        self._pump()

    def _on_log_synced(self, event: LogSynced) -> None:
        self._context.peer.log_synced(event.upto, self._context.now.mono)
        self._pump()

    def _on_epochs_saved(self, event: EpochsSaved) -> None:
        self._context.peer.epochs_saved(event.accepted, event.current, self._context.now.mono)
        self._pump()

    def _on_log_truncated(self, event: LogTruncated) -> None:
        self._context.peer.log_truncated(event.upto, self._context.now.mono)
        self._pump()

    def _on_snapshot_installed(self, event: SnapshotInstalled) -> None:
        self._context.peer.snapshot_installed(event.zxid, self._context.now.mono)
        self._pump()

    def _on_log_read(self, event: LogRead) -> None:
        mono = self._context.now.mono
        self._context.peer.log_read(event.learner, event.after, event.runs, mono)
        self._pump()

    def _on_room_changed(self, event: RoomChanged) -> None:
        """Rule D6. A follower that went on in memory alone begins anew once it can log again."""
        context = self._context
        peer, has_room = context.peer, event.has_room
        if has_room != peer.history.has_room:
            context.out.append(zab.Note(notes.ROOM_FOUND if has_room else notes.ROOM_LOST))
        self._room_at = None
        if not has_room:
            self._room_at = Millis(context.now.mono + context.options.room_check_ms)
        elif peer.history.is_paused:
            context.out.append(Restart("the disk has room again", forget=False))
        peer.room_changed(has_room, context.now.mono)
        self._pump()

    def _on_sessions_overdue(self, event: SessionsOverdue) -> None:
        if self._leading is not None:
            self._leading.verdicts(event.verdicts)
            self._pump()

    def _on_tracker_lost(self, _event: TrackerLost) -> None:
        if self._leading is not None:
            self._leading.tracker_lost()

    # What Zab asks for.

    def _pump(self) -> None:
        """Act on the peer's effects; those for the outside go into the outbox, in order."""
        pending = self._zab_out
        out = self._context.out
        while pending:
            effects = pending[:]
            pending.clear()
            for effect in effects:
                if isinstance(effect, zab.Send):
                    out.append(SendPeer(effect.peer, effect.message))
                elif isinstance(effect, zab.Deliver):
                    self._deliver(effect.first, effect.txns)
                elif isinstance(effect, zab.Append | zab.Note | zab.BreakLink):
                    out.append(effect)
                elif isinstance(effect, zab.ReadPoint):
                    self._contact.confirmed(effect)
                else:
                    self._on_rare_effect(effect)

    def _on_rare_effect(self, effect: zab.Effect) -> None:
        if isinstance(effect, zab.RoleChanged):
            self._on_role_changed(effect)
        elif isinstance(effect, zab.Activated):
            self._on_activated(effect)
        elif isinstance(effect, zab.StreamSnapshot):
            self._streams.start(effect.learner)
        elif isinstance(effect, zab.GrantCredit):
            self._streams.grant(effect.learner)
        elif isinstance(effect, zab.CancelSnapshot):
            self._streams.cancel(effect.learner)
        elif isinstance(effect, zab.CheckSnapshot):
            self._adoption.check(effect)
        elif isinstance(effect, zab.AdoptSnapshot):
            self._adoption.adopt(effect)
            self._serve()
        else:
            self._context.out.append(effect)  # type: ignore[arg-type]
            self._adoption.observe(effect)

    def _deliver(self, first: Zxid, txns: list[bytes]) -> None:
        """Apply committed transactions; events and replies follow in the same order."""
        context, connections = self._context, self._connections
        state, tree, watches = context.state, context.state.tree, context.watches
        happened = context.history.fresh
        if not connections.is_serving:
            # A read that stands between two writes is due when the first is applied.
            self._serve()
        is_real = self._adoption.is_settled
        rare_changes = self._rare_changes
        zxid = first
        for data in txns:
            before = len(happened)
            txn = state.apply(zxid, data)
            if is_real:
                change = txn.change
                if tree.mortals and self._leading is not None:
                    self._leading.changed(change)
                if watches.count and len(happened) > before:
                    self._tell(happened[before:])
                rare = rare_changes.get(type(change))
                if rare is None:
                    connections.applied(txn)
                else:
                    rare(zxid, txn)
            zxid = Zxid(zxid + 1)
        context.history.settle()
        if self._leading is not None:
            self._leading.applied(state.zxid)
        self._streams.applied(len(txns))
        if not is_real:
            self._adoption.settle()

    def _tell(self, happened: list[Happening]) -> None:
        context, connections = self._context, self._connections
        who, znodes = connections.identities_of, context.state.tree.znodes
        for number, event in context.watches.trigger(happened, who, znodes):
            connections.fired(number, event)

    def _opened(self, zxid: Zxid, txn: Txn) -> None:
        change = txn.change
        assert isinstance(change, SessionOpened)
        detail = (change.session_id, change.server_id)
        self._context.out.append(zab.Note(notes.SESSION_OPENED, detail))
        self._connections.opened(zxid, change)
        if self._leading is not None:
            self._leading.opened(change.session_id)

    def _open_refused(self, _zxid: Zxid, txn: Txn) -> None:
        change = txn.change
        assert isinstance(change, OpenRefused)
        self._connections.refused(change)

    def _closed(self, zxid: Zxid, txn: Txn) -> None:
        change = txn.change
        assert isinstance(change, SessionClosed)
        self._connections.closed(change.session_id, txn, outcome_of(zxid, txn))
        if self._leading is not None:
            self._leading.closed(change.session_id)

    def _voter_replaced(self, _zxid: Zxid, txn: Txn) -> None:
        context, change = self._context, txn.change
        assert isinstance(change, VoterReplaced)
        server, disk = change.server_id, change.disk
        is_new = context.peer.voter_replaced(server, disk, context.now.mono)
        if self._leading is not None:
            self._leading.voter_replaced(server, disk, is_new)

    def _on_role_changed(self, effect: zab.RoleChanged) -> None:
        self._leading = None
        self._report_at = None
        self._connections.slow.role_since = self._context.now.mono
        self._connections.read_only.role_changed(effect.role)
        self._contact.lost()
        context = self._context
        history, members = context.peer.history, context.peer.settings.members
        members.forget_changes()
        self._inherited = {}
        if effect.role is zab.Role.LEADER:
            for run in history.window.between(history.delivered, history.logged):
                for change in (decode_txn(data).change for data in run.txns):
                    if isinstance(change, VoterReplaced):
                        members.changing(change.server_id, change.disk)
                        self._inherited[change.server_id] = change.disk
        if history.is_paused and effect.role is zab.Role.LOOKING:
            # The tree is ahead of the disk, and a new role speaks of the disk alone (rule Z2).
            context.out.append(Restart("the log was paused, and the role ends", forget=False))

    def _on_activated(self, effect: zab.Activated) -> None:
        assert self._adoption.is_settled, "a leader has everything that was ever committed"
        self._report_at = self._context.now.mono
        self._connections.read_only.activated()
        if effect.role is zab.Role.LEADER:
            # Who led before may have said it once only, for want of room or of time.
            moved = self._context.state.voters | self._inherited
            self._leading = Leading(self._context, effect.epoch, moved)
        self._connections.forward_all()
        self._serve()

    # The end of a step.

    def _serve(self) -> None:
        """Answer reads only while a leader was heard within the shortest session timeout.

        A client whose session may have expired meanwhile must not be told old news.
        """
        context = self._context
        contact = context.peer.contact_at(context.now.mono)
        is_serving = (
            contact is not None
            and context.now.mono - contact < context.limits.session_timeout_min_ms
            and self._adoption.is_settled
        )
        connections = self._connections
        if is_serving == connections.is_serving:
            return
        connections.is_serving = is_serving
        context.out.append(zab.Note(notes.READS_RESUMED if is_serving else notes.READS_HELD))
        if is_serving:
            connections.resume()

    def _finish(self) -> list[Effect]:
        context = self._context
        self._serve()
        self._connections.read_only.begin(is_settled=self._adoption.is_settled)
        self._connections.advance()
        self._contact.send(self._leading)
        while self._leading is not None:
            self._leading.propose()
            self._pump()
            if not self._connections.forwards:
                break
            # Alone, a leader confirms a sync at once, and writes have waited for that.
            self._contact.send(self._leading)
        self._streams.advance()
        self._pump()
        self._connections.flush()
        out = context.out[:]
        context.out.clear()
        return out
