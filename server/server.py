"""One server as a pure state machine: Zab, the tree, sessions, watches and the order of requests.

`step` takes every event that waits, and returns what the shell must do, in order. There is no
clock, disk, socket or thread in here, so the simulator runs this very code.

ZooKeeper: `QuorumPeer`, `LeaderZooKeeperServer`, `FollowerZooKeeperServer`.
"""

from collections.abc import Callable
from typing import Any

from raykeeper.server import server_trace_events
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.context import ServerContext, ServerOptions
from raykeeper.server.digest_comparison import DigestComparison
from raykeeper.server.effects import Effect, Restart, SendPeer
from raykeeper.server.events import (
    ClientBytesSent,
    ClientDisconnected,
    ClientFrameArrived,
    ClientProcessDied,
    DiskSpaceChanged,
    EpochsSaved,
    Event,
    LinkDown,
    LinkUp,
    LogRead,
    LogSynced,
    LogTruncated,
    PeerFrame,
    SessionsOverdue,
    SnapshotCredited,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotPublished,
    SnapshotWritten,
    TrackerLost,
)
from raykeeper.server.leader_forwarder import LeaderForwarder
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.peer_messages import (
    DigestMismatch,
    DigestReply,
    DigestRequest,
    EndDeadSessions,
    ForwardWrites,
    LeaderReply,
    LeaderRequest,
    ReadIndexReply,
    ReadIndexRequest,
    ServerMessage,
    TouchSessions,
    TouchSessionsReply,
)
from raykeeper.server.recovered_state import RecoveredState, load_state
from raykeeper.server.snapshot_install import SnapshotInstall
from raykeeper.server.snapshot_streams import SnapshotStreams
from raykeeper.server.stats import ServerStats, collect_stats
from raykeeper.zab import effects as zab
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Millis, Now, ServerId, Zxid
from raykeeper.zab.peer import Peer
from raykeeper.zab.recent_log import RecentLog
from raykeeper.zab.settings import Settings
from raykeeper.znodes.change_log import ZnodeChange
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.state import State, outcome_of
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    ReplaceVoterTxn,
    Txn,
    decode_txn,
)


class Server:
    """A replica's state machine. Call `start` once, then `step` with whatever has happened."""

    def __init__(
        self, settings: Settings, limits: Limits, options: ServerOptions, recovered: RecoveredState
    ) -> None:
        """Takes up the recovered state: snapshot, then the log as far as it is known committed."""
        state = load_state(recovered)
        window = RecentLog(recovered.snapshot_zxid)
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
            has_initial_history=recovered.has_initial_history,
            has_disk_space=recovered.has_disk_space,
        )
        settings.members.adopt(state.voters)
        peer = Peer(settings, history, self._zab_out)
        self._context = ServerContext(state, peer, limits, options)
        self._clients = ClientRequests(self._context)
        self._snapshot_streams = SnapshotStreams(self._context)
        self._leader_requests: LeaderRequestProcessor | None = None
        self._forwarder = LeaderForwarder(self._context, self._clients)
        self._snapshot_install = SnapshotInstall(
            self._context, self._clients, self._snapshot_streams
        )
        self._digests = DigestComparison(self._context)
        # Votes moved by transactions that a prospective leader found undelivered in its log.
        self._inherited_votes: dict[ServerId, DiskId] = {}
        self._next_report_at: Millis | None = None
        self._disk_check_at: Millis | None = None  # when a full disk is looked at again
        self._handlers: dict[type, Callable[[Any], None]] = self._event_handlers()
        self._txn_handlers: dict[type, Callable[[Zxid, Txn], None]] = {
            CreateSessionTxn: self._on_session_created,
            CreateSessionErrorTxn: self._on_session_refused,
            CloseSessionTxn: self._on_session_closed,
            ReplaceVoterTxn: self._on_voter_replaced,
        }
        history.deliver(recovered.committed)
        self._process_zab_effects()
        if settings.has_vote and settings.disk != FOUNDING_DISK:
            # Perhaps again: the last process may have died on it.
            self._context.out.append(zab.VoteGranted())

    def start(self, now: Now) -> list[Effect]:
        """Begin to look for a leader."""
        self._context.now = now
        if not self._context.peer.history.has_disk_space:
            self._disk_check_at = Millis(now.mono + self._context.options.disk_space_check_ms)
        self._clients.read_only.on_role_changed(zab.Role.LOOKING)
        self._context.peer.start(now.mono)
        return self._end_step()

    def step(self, events: list[Event], now: Now) -> list[Effect]:
        """Take every event, in order. Returns the effects to carry out, in order."""
        self._context.now = now
        mono = now.mono
        peer = self._context.peer
        due = peer.deadline()
        self._update_read_serving()
        handlers = self._handlers
        for event in events:
            handlers[type(event)](event)
        if due is not None and due <= mono:
            # After the events: what has arrived in time must not count as silence.
            peer.wake(mono)
            self._process_zab_effects()
        if self._next_report_at is not None and self._next_report_at <= mono:
            self._next_report_at = Millis(mono + self._context.options.session_report_ms)
            self._forwarder.send_touches(self._leader_requests)
            self._process_zab_effects()
            if self._leader_requests is not None:
                self._leader_requests.restore_votes()
                self._leader_requests.delete_expired_znodes()
                self._leader_requests.send_session_report()
                self._digests.send_requests()
        elif self._leader_requests is not None and self._leader_requests.has_work:
            self._leader_requests.delete_expired_znodes()
        if self._disk_check_at is not None and self._disk_check_at <= mono:
            self._disk_check_at = None  # set again by the completion
            self._context.out.append(zab.CheckDiskSpace())
        return self._end_step()

    def deadline(self) -> Millis | None:
        """When to call `step` at the latest, in monotonic milliseconds; None if never."""
        leading = self._leader_requests
        if (
            self._snapshot_streams.has_work
            or self._clients.has_work
            or (leading is not None and leading.has_work)
        ):
            return self._context.now.mono
        begins_at = self._clients.read_only.starts_at
        dues = (self._context.peer.deadline(), self._next_report_at, self._disk_check_at, begins_at)
        return min((due for due in dues if due is not None), default=None)

    def stats(self) -> ServerStats:
        """A view of the server, cheap but for the digest."""
        return collect_stats(self._context, self._clients)

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
        connections, streams = self._clients, self._snapshot_streams
        return {
            PeerFrame: self._on_peer_frame,
            ClientFrameArrived: lambda e: connections.on_frame(e.connection, e.data, e.host),
            ClientDisconnected: lambda event: connections.on_disconnect(event.connection),
            ClientProcessDied: lambda event: connections.on_process_died(event.connection),
            ClientBytesSent: lambda event: connections.on_bytes_sent(event.connection, event.bytes),
            LogSynced: self._on_log_synced,
            EpochsSaved: self._on_epochs_saved,
            LogTruncated: self._on_log_truncated,
            SnapshotInstalled: self._on_snapshot_installed,
            LogRead: self._on_log_read,
            LinkUp: self._on_link_up,
            LinkDown: self._on_link_down,
            SnapshotCredited: lambda event: streams.on_credited(event.zxid),
            SnapshotWritten: lambda event: streams.on_written(event.zxid),
            SnapshotFailed: lambda event: streams.on_failed(event.zxid),
            SnapshotPublished: lambda event: streams.on_published(event.zxid),
            DiskSpaceChanged: self._on_disk_space_changed,
            SessionsOverdue: self._on_sessions_overdue,
            TrackerLost: self._on_tracker_lost,
        }

    def _on_peer_frame(self, event: PeerFrame) -> None:
        peer, mono = self._context.peer, self._context.now.mono
        sender = event.peer
        for message in event.messages:
            if not isinstance(message, ServerMessage):
                peer.receive(sender, message, mono)
                self._process_zab_effects()
            elif sender in peer.links:
                if isinstance(message, LeaderReply):
                    if sender == peer.leader:
                        self._on_leader_reply(message)
                elif self._leader_requests is not None:
                    self._on_server_request(self._leader_requests, sender, message)
                    self._process_zab_effects()  # the reign may have ended with its counter

    def _on_server_request(
        self, leading: LeaderRequestProcessor, sender: ServerId, message: LeaderRequest
    ) -> None:
        """Another server asks us, its leader, for its clients."""
        if isinstance(message, ForwardWrites):
            for gap in leading.prepare_writes(sender, message.writes):
                self._context.out.append(SendPeer(sender, gap))
        elif isinstance(message, TouchSessions):
            self._forwarder.on_touch_sessions(sender, message, leading)
        elif isinstance(message, ReadIndexRequest):
            self._forwarder.on_read_index_request(sender, message)
        elif isinstance(message, DigestReply):
            self._digests.on_reply(sender, message)
        elif isinstance(message, EndDeadSessions):
            leading.end_dead_sessions(message.sessions)
        else:
            leading.prepare_connect(sender, message)

    def _on_leader_reply(self, message: LeaderReply) -> None:
        """Our leader answers what we asked for our clients."""
        if isinstance(message, TouchSessionsReply):
            self._forwarder.on_touch_sessions_reply(message)
        elif isinstance(message, ReadIndexReply):
            self._forwarder.on_read_index(message.token, message.zxid)
        elif isinstance(message, DigestRequest):
            if self._snapshot_install.is_consistent:
                self._digests.on_request(message)
        elif isinstance(message, DigestMismatch):
            self._digests.on_mismatch(message.zxid)
        else:
            self._clients.on_write_gap(message.session_id, message.owner_zxid)

    def _on_link_up(self, event: LinkUp) -> None:
        self._context.peer.link_up(event.peer, self._context.now.mono)
        self._process_zab_effects()

    def _on_link_down(self, event: LinkDown) -> None:
        self._context.peer.link_down(event.peer, self._context.now.mono)
        self._process_zab_effects()

    def _on_log_synced(self, event: LogSynced) -> None:
        self._context.peer.log_synced(event.upto, self._context.now.mono)
        self._process_zab_effects()

    def _on_epochs_saved(self, event: EpochsSaved) -> None:
        self._context.peer.epochs_saved(event.accepted, event.current, self._context.now.mono)
        self._process_zab_effects()

    def _on_log_truncated(self, event: LogTruncated) -> None:
        self._context.peer.log_truncated(event.upto, self._context.now.mono)
        self._process_zab_effects()

    def _on_snapshot_installed(self, event: SnapshotInstalled) -> None:
        self._context.peer.snapshot_installed(event.zxid, self._context.now.mono)
        self._process_zab_effects()

    def _on_log_read(self, event: LogRead) -> None:
        mono = self._context.now.mono
        self._context.peer.log_read(event.learner, event.after, event.runs, mono)
        self._process_zab_effects()

    def _on_disk_space_changed(self, event: DiskSpaceChanged) -> None:
        """Rule D6. A follower that went on in memory alone begins anew once it can log again."""
        context = self._context
        peer, has_room = context.peer, event.has_disk_space
        if has_room != peer.history.has_disk_space:
            context.out.append(
                zab.TraceEvent(
                    server_trace_events.DISK_SPACE_FREED
                    if has_room
                    else server_trace_events.DISK_FULL
                )
            )
        self._disk_check_at = None
        if not has_room:
            self._disk_check_at = Millis(context.now.mono + context.options.disk_space_check_ms)
        elif peer.history.is_paused:
            context.out.append(Restart("the disk has room again", wipe_disk=False))
        peer.disk_space_changed(has_room, context.now.mono)
        self._process_zab_effects()

    def _on_sessions_overdue(self, event: SessionsOverdue) -> None:
        if self._leader_requests is not None:
            self._leader_requests.on_expiry_proposals(event.proposals)
            self._process_zab_effects()

    def _on_tracker_lost(self, _event: TrackerLost) -> None:
        if self._leader_requests is not None:
            self._leader_requests.on_tracker_lost()

    # What Zab asks for.

    def _process_zab_effects(self) -> None:
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
                elif isinstance(effect, zab.Append | zab.TraceEvent | zab.BreakLink):
                    out.append(effect)
                elif isinstance(effect, zab.ReadIndex):
                    self._forwarder.on_leadership_confirmed(effect)
                else:
                    self._on_rare_effect(effect)

    def _on_rare_effect(self, effect: zab.Effect) -> None:
        if isinstance(effect, zab.RoleChanged):
            self._on_role_changed(effect)
        elif isinstance(effect, zab.Activated):
            self._on_activated(effect)
        elif isinstance(effect, zab.StreamSnapshot):
            self._snapshot_streams.start(effect.learner)
        elif isinstance(effect, zab.GrantCredit):
            self._snapshot_streams.on_learner_credit(effect.learner)
        elif isinstance(effect, zab.CancelSnapshot):
            self._snapshot_streams.cancel(effect.learner)
        elif isinstance(effect, zab.CheckSnapshot):
            self._snapshot_install.build_state(effect)
        elif isinstance(effect, zab.AdoptSnapshot):
            self._snapshot_install.install(effect)
            self._update_read_serving()
        else:
            self._context.out.append(effect)  # type: ignore[arg-type]
            self._snapshot_install.on_disk_effect(effect)

    def _deliver(self, first: Zxid, txns: list[bytes]) -> None:
        """Apply committed transactions; events and replies follow in the same order."""
        context, connections = self._context, self._clients
        state, tree, watches = context.state, context.state.tree, context.watches
        happened = context.change_log.pending
        if not connections.is_serving_reads:
            # A read that stands between two writes is due when the first is applied.
            self._update_read_serving()
        is_real = self._snapshot_install.is_consistent
        rare_changes = self._txn_handlers
        zxid = first
        for data in txns:
            before = len(happened)
            txn = state.apply(zxid, data)
            if is_real:
                change = txn.body
                if tree.expiring_paths and self._leader_requests is not None:
                    self._leader_requests.on_expiring_changed(change)
                if watches.count and len(happened) > before:
                    self._fire_watches(happened[before:])
                rare = rare_changes.get(type(change))
                if rare is None:
                    connections.on_write_applied(txn)
                else:
                    rare(zxid, txn)
            zxid = Zxid(zxid + 1)
        context.change_log.keep_pending()
        if self._leader_requests is not None:
            self._leader_requests.on_applied(state.zxid)
        self._snapshot_streams.on_applied(len(txns))
        if not is_real:
            self._snapshot_install.finish_if_consistent()

    def _fire_watches(self, happened: list[ZnodeChange]) -> None:
        context, connections = self._context, self._clients
        who, znodes = connections.identities_of, context.state.tree.znodes
        for number, event in context.watches.trigger(happened, who, znodes):
            connections.send_watcher_event(number, event)

    def _on_session_created(self, zxid: Zxid, txn: Txn) -> None:
        change = txn.body
        assert isinstance(change, CreateSessionTxn)
        detail = (change.session_id, change.server_id)
        self._context.out.append(zab.TraceEvent(server_trace_events.SESSION_OPENED, detail))
        self._clients.on_session_created(zxid, change)
        if self._leader_requests is not None:
            self._leader_requests.on_session_created(change.session_id)

    def _on_session_refused(self, _zxid: Zxid, txn: Txn) -> None:
        change = txn.body
        assert isinstance(change, CreateSessionErrorTxn)
        self._clients.on_session_refused(change)

    def _on_session_closed(self, zxid: Zxid, txn: Txn) -> None:
        change = txn.body
        assert isinstance(change, CloseSessionTxn)
        self._clients.on_session_closed(change.session_id, txn, outcome_of(zxid, txn))
        if self._leader_requests is not None:
            self._leader_requests.on_session_closed(change.session_id)

    def _on_voter_replaced(self, _zxid: Zxid, txn: Txn) -> None:
        context, change = self._context, txn.body
        assert isinstance(change, ReplaceVoterTxn)
        server, disk = change.server_id, change.disk
        is_new = context.peer.voter_replaced(server, disk, context.now.mono)
        if self._leader_requests is not None:
            self._leader_requests.on_voter_replaced(server, disk, is_new)

    def _on_role_changed(self, effect: zab.RoleChanged) -> None:
        self._leader_requests = None
        self._next_report_at = None
        self._clients.slow_requests.role_changed_at = self._context.now.mono
        self._clients.read_only.on_role_changed(effect.role)
        self._forwarder.on_role_ended()
        context = self._context
        history, members = context.peer.history, context.peer.settings.members
        members.forget_logged_changes()
        self._inherited_votes = {}
        if effect.role is zab.Role.LEADER:
            for run in history.recent_log.between(history.delivered, history.logged):
                for change in (decode_txn(data).body for data in run.txns):
                    if isinstance(change, ReplaceVoterTxn):
                        members.change_logged(change.server_id, change.disk)
                        self._inherited_votes[change.server_id] = change.disk
        if history.is_paused and effect.role is zab.Role.LOOKING:
            # The tree is ahead of the disk, and a new role speaks of the disk alone (rule Z2).
            context.out.append(Restart("the log was paused, and the role ends", wipe_disk=False))

    def _on_activated(self, effect: zab.Activated) -> None:
        assert self._snapshot_install.is_consistent, (
            "a leader has everything that was ever committed"
        )
        self._next_report_at = self._context.now.mono
        self._clients.read_only.on_activated()
        if effect.role is zab.Role.LEADER:
            # Who led before may have said it once only, for want of room or of time.
            moved = self._context.state.voters | self._inherited_votes
            self._leader_requests = LeaderRequestProcessor(self._context, effect.epoch, moved)
        self._clients.forward_all()
        self._update_read_serving()

    # The end of a step.

    def _update_read_serving(self) -> None:
        """Answer reads only while a leader was heard within the shortest session timeout.

        A client whose session may have expired meanwhile must not be told old news.
        """
        context = self._context
        contact = context.peer.last_quorum_contact(context.now.mono)
        is_serving = (
            contact is not None
            and context.now.mono - contact < context.limits.session_timeout_min_ms
            and self._snapshot_install.is_consistent
        )
        connections = self._clients
        if is_serving == connections.is_serving_reads:
            return
        connections.is_serving_reads = is_serving
        context.out.append(
            zab.TraceEvent(
                server_trace_events.READS_RESUMED
                if is_serving
                else server_trace_events.READS_PAUSED
            )
        )
        if is_serving:
            connections.resume_all()

    def _end_step(self) -> list[Effect]:
        context = self._context
        self._update_read_serving()
        self._clients.read_only.start_if_due(is_settled=self._snapshot_install.is_consistent)
        self._clients.resume_caught_up()
        self._forwarder.send(self._leader_requests)
        while self._leader_requests is not None:
            self._leader_requests.propose()
            self._process_zab_effects()
            if not self._clients.forwards:
                break
            # Alone, a leader confirms a sync at once, and writes have waited for that.
            self._forwarder.send(self._leader_requests)
        self._snapshot_streams.send_chunks()
        self._process_zab_effects()
        self._clients.flush()
        out = context.out[:]
        context.out.clear()
        return out
