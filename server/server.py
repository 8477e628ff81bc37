"""One server as a pure state machine: Zab, the tree, sessions, watches and the order of requests.

`step` takes every event that waits, and returns what the shell must do, in order. The server has no
clock, disk, socket or thread, so the simulator runs this very code.

Two tables here say what the server reacts to: events of the shell, and effects of Zab. The messages
of other servers beside Zab's have tables by role in peer_message_handlers.py.

ZooKeeper: `QuorumPeer`, `LeaderZooKeeperServer`, `FollowerZooKeeperServer`.

The file is long because the tables stand here with the handlers that they name.
"""

from collections.abc import Callable, Generator
from typing import Any, Final

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.admin_queries import AdminAnswer, AdminQuery
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.connection_stats import ConnectionStats
from raykeeper.server.context import ServerContext, ServerOptions
from raykeeper.server.digest_comparison import DigestComparison
from raykeeper.server.effects import Effect, Restart, SaveLevel, SendPeer
from raykeeper.server.events import (
    ClientBytesSent,
    ClientDisconnected,
    ClientFrameArrived,
    ClientProcessDied,
    DiskSpaceChanged,
    DrainEnded,
    DrainRequested,
    EpochsSaved,
    Event,
    JuteBytesArrived,
    JuteClientConnected,
    LinkDown,
    LinkUp,
    LogRead,
    LogSynced,
    LogTruncated,
    PeerFrame,
    ProcessFactsRead,
    ReconfigRequested,
    SessionsOverdue,
    SnapshotCredited,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotPublished,
    SnapshotWritten,
    TrackerLost,
    TransferRequested,
)
from raykeeper.server.final_request_processor import FinalRequestProcessor
from raykeeper.server.leader_forwarder import LeaderForwarder
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.leadership_transfer import LeadershipTransfer
from raykeeper.server.membership import Membership
from raykeeper.server.peer_message_handlers import PeerMessageHandlers
from raykeeper.server.peer_messages import (
    MemberAddress,
    ServerMessage,
)
from raykeeper.server.reconfig_requests import ReconfigRequests
from raykeeper.server.recovered_state import RecoveredState, load_state
from raykeeper.server.server_metrics import ServerMetrics
from raykeeper.server.snapshot_install import SnapshotInstall
from raykeeper.server.snapshot_streams import SnapshotStreams
from raykeeper.server.stats import ServerStats
from raykeeper.zab import effects as zab
from raykeeper.zab.feature_levels import FeatureLevel, level_problem
from raykeeper.zab.history import History
from raykeeper.zab.ids import DiskId, Millis, Now, ServerId, Zxid
from raykeeper.zab.peer import Peer
from raykeeper.zab.recent_log import RecentLog
from raykeeper.zab.settings import Settings
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import (
    ReconfigTxn,
    ReplaceVoterTxn,
    UnknownTxnError,
    decode_known_txn,
    level_required_by,
)

HASHED_AT_ONCE: Final = 1_000
"""Loaded znodes that one step hashes: less than a millisecond."""


class Server:
    """A replica's state machine. Call `start` once, then `step` with every event that happens."""

    def __init__(
        self, settings: Settings, limits: Limits, options: ServerOptions, recovered: RecoveredState
    ) -> None:
        """Loads the snapshot of `recovered`, then its log as far as it is known to be committed."""
        state = load_state(recovered)
        state.newest_level = settings.levels.newest
        settings.levels.require(max(recovered.level, state.level))
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
        settings.members.adopt(state.member_list(settings.members.founding))
        peer = Peer(settings, history, self._zab_out)
        context = self._context = ServerContext(state, peer, limits, options)
        clients = self._clients = ClientRequests(context)
        self._stages = clients.slow_requests.stages
        self._looking_since: Millis | None = None
        self._snapshot_streams = SnapshotStreams(context)
        self._leader_requests: LeaderRequestProcessor | None = None
        self._forwarder = LeaderForwarder(context, clients)
        self._snapshot_install = SnapshotInstall(context, clients, self._snapshot_streams)
        self._digests = DigestComparison(context)
        self._transfer = LeadershipTransfer(
            context, self._on_server_message, self._on_sessions_overdue
        )
        self._reconfigs = ReconfigRequests(context)
        self._membership = Membership(context, clients.close_all, was_member=recovered.was_member)
        self._final_requests = FinalRequestProcessor(
            context, clients, self._snapshot_install, self._snapshot_streams, self._reconfigs
        )
        self._peer_messages = PeerMessageHandlers(
            context, clients, self._forwarder, self._digests, self._transfer, self._snapshot_install
        )
        # Votes moved by transactions that a prospective leader found undelivered in its log.
        self._inherited_votes: dict[ServerId, DiskId] = {}
        self._next_report_at: Millis | None = None
        self._disk_check_at: Millis | None = None  # when the space of a full disk is checked again
        self._event_handlers = self._make_event_handlers()
        self._zab_handlers = self._make_zab_handlers()
        self._end_of_step = self._order_at_the_end()
        history.deliver(recovered.committed)
        self._process_zab_effects()
        context.repeat_vote_granted()

    def start(self, now: Now) -> list[Effect]:
        """Begin to look for a leader."""
        self._context.now = now
        self._context.started_at = self._looking_since = now.mono
        if not self._context.peer.history.has_disk_space:
            self._disk_check_at = Millis(now.mono + self._context.options.disk_space_check_ms)
        self._clients.read_only.on_role_changed(zab.Role.LOOKING)
        self._context.peer.start(now.mono)
        return self._end_step()

    def step(self, events: list[Event], now: Now) -> list[Effect]:
        """Take every event, in order. Returns the effects to carry out, in order."""
        self._context.now = now
        mono, peer = now.mono, self._context.peer
        due = peer.deadline()
        self._update_read_serving()
        handlers = self._event_handlers
        for event in events:
            handlers[type(event)](event)
            if self._zab_out:
                self._process_zab_effects()
        if due is not None and due <= mono:
            # After the events: what has arrived in time must not count as silence.
            peer.wake(mono)
            self._process_zab_effects()
        self._transfer.wake(mono)
        leader = self._leader_requests
        if self._next_report_at is not None and self._next_report_at <= mono:
            self._next_report_at = Millis(mono + self._context.options.session_report_ms)
            self._report()
        elif leader is not None and leader.has_work:
            leader.delete_expired_znodes()
        if self._disk_check_at is not None and self._disk_check_at <= mono:
            self._disk_check_at = None  # set again by the completion
            self._context.out.append(zab.CheckDiskSpace())
        if self._is_hashing:
            self._context.state.tree.hash_loaded(HASHED_AT_ONCE)
        return self._end_step()

    def deadline(self) -> Millis | None:
        """Return when to call `step` at the latest, in monotonic milliseconds; None if never."""
        leader = self._leader_requests
        if (
            self._snapshot_streams.has_work
            or self._clients.has_work
            or (leader is not None and leader.has_work)
            or self._is_hashing
        ):
            return self._context.now.mono
        deadlines = (
            self._context.peer.deadline(),
            self._next_report_at,
            self._disk_check_at,
            self._clients.read_only.starts_at,
            self._clients.drain.deadline,
            self._transfer.deadline,
        )
        return min((due for due in deadlines if due is not None), default=None)

    def stats(self) -> ServerStats:
        """Return what this server is and has counted."""
        return self._clients.stats()

    @property
    def txn_counts(self) -> tuple[int, int]:
        """How many transactions this server has proposed and applied since the last reset."""
        counters = self._context.counters
        return counters.proposed, counters.applied

    def metrics(self) -> ServerMetrics:
        """Return the same, and what only metrics show."""
        return self._clients.metrics()

    def connection_stats(self) -> list[ConnectionStats]:
        """Return what is known of each connection of a client."""
        return self._clients.connection_stats()

    def answer(self, query: AdminQuery) -> Generator[None, None, AdminAnswer]:
        """Work on the answer to an operator, a step for each `next`, and return it."""
        return self._clients.tables.answer(query)

    def awaits_process_death(self, connection: int) -> bool:
        """Return whether ClientProcessDied of this connection, which is gone, would end a session.

        It would not if its session has ended or was taken up again, or was reported before.
        """
        return self._clients.dead_clients.awaits_process_death(connection)

    def knows_lost(self, path: str, token: Zxid) -> bool:
        """Return whether this server knows that what had this fencing token is held no longer.

        A server that has not delivered the token yet does not know.
        """
        state = self.state
        znode = state.tree.znodes.get(path)
        is_there = znode is not None and znode.czxid == token
        return state.zxid >= max(token, state.consistent_at) and not is_there

    @property
    def open_change(self) -> str:
        """On a leader, the step of the member list that is under way, in words; "" if none is."""
        leader = self._leader_requests
        return "" if leader is None else leader.open_step

    @property
    def state(self) -> State:
        """The replicated state, for checks from outside; never to be changed."""
        return self._context.state

    @property
    def peer(self) -> Peer:
        """The server's part in Zab, for checks from outside."""
        return self._context.peer

    @property
    def _is_hashing(self) -> bool:
        """Whether a loaded tree waits to be hashed; an election and clients come first."""
        return self._next_report_at is not None and bool(self._context.state.tree.unhashed)

    # The tables.

    def _make_event_handlers(self) -> dict[type, Callable[[Any], None]]:
        context, clients, streams = self._context, self._clients, self._snapshot_streams
        peer = context.peer
        return {
            PeerFrame: self._on_peer_frame,
            ClientFrameArrived: lambda e: clients.on_frame(e.connection, e.data, e.host),
            JuteClientConnected: lambda e: clients.jute.on_connected(
                e.connection, e.host, e.port, e.password
            ),
            JuteBytesArrived: lambda e: clients.jute.on_bytes(e.connection, e.data),
            ProcessFactsRead: lambda e: clients.jute.words.on_process_facts(e.facts),
            ClientDisconnected: lambda e: clients.on_disconnect(e.connection),
            ClientProcessDied: lambda e: clients.on_process_died(e.connection),
            ClientBytesSent: lambda e: clients.on_bytes_sent(e.connection, e.bytes),
            LogSynced: self._on_log_synced,
            EpochsSaved: lambda e: peer.epochs_saved(e.accepted, e.current, context.now.mono),
            LogTruncated: lambda e: peer.log_truncated(e.upto, context.now.mono),
            SnapshotInstalled: lambda e: peer.snapshot_installed(e.zxid, context.now.mono),
            LogRead: lambda e: peer.log_read(e.learner, e.after, e.runs, context.now.mono),
            LinkUp: lambda e: peer.link_up(e.peer, context.now.mono),
            LinkDown: lambda e: peer.link_down(e.peer, context.now.mono),
            SnapshotCredited: lambda e: streams.on_credited(e.zxid),
            SnapshotWritten: lambda e: streams.on_written(e.zxid),
            SnapshotFailed: lambda e: streams.on_failed(e.zxid),
            SnapshotPublished: lambda e: streams.on_published(e.zxid),
            DiskSpaceChanged: self._on_disk_space_changed,
            SessionsOverdue: self._on_sessions_overdue,
            TrackerLost: self._on_tracker_lost,
            TransferRequested: self._transfer.request,
            ReconfigRequested: lambda e: self._reconfigs.request(e, self._leader_requests),
            DrainRequested: clients.drain.begin,
            DrainEnded: lambda _: clients.drain.end(),
        }

    def _make_zab_handlers(self) -> dict[type, Callable[[Any], None]]:
        out, streams, install = self._context.out, self._snapshot_streams, self._snapshot_install
        of_the_shell = (
            *(zab.Truncate, zab.SaveEpochs, zab.ReadLog),
            *(zab.CheckDiskSpace, zab.VoteGranted, zab.BreakLink, zab.TraceEvent),
        )
        return {
            **dict.fromkeys(of_the_shell, out.append),
            zab.Append: self._on_append,
            zab.InstallSnapshot: self._on_install_snapshot,
            zab.Send: lambda e: out.append(SendPeer(e.peer, e.message)),
            zab.Deliver: self._on_deliver,
            zab.ReadIndex: self._forwarder.on_leadership_confirmed,
            zab.RoleChanged: self._on_role_changed,
            zab.Activated: self._on_activated,
            zab.HandOverBegun: lambda _: None,  # the role is asked whenever something is prepared
            zab.TransferAbandoned: lambda e: self._transfer.on_abandoned(e.reason),
            zab.StreamSnapshot: lambda e: streams.start(e.learner),
            zab.GrantCredit: lambda e: streams.on_learner_credit(e.learner),
            zab.CancelSnapshot: lambda e: streams.cancel(e.learner),
            zab.ReceiveSnapshot: self._on_receive_effect,
            zab.ReceiveChunk: self._on_receive_effect,
            zab.DiscardSnapshot: self._on_receive_effect,
            zab.CheckSnapshot: install.build_state,
            zab.AdoptSnapshot: self._on_adopt_snapshot,
        }

    def _order_at_the_end(self) -> tuple[Callable[[], None], ...]:
        """Return what ends every step, in order."""
        return (
            # Reads wait from here on if the leader fell silent; held ones are answered otherwise.
            self._update_read_serving,
            self._start_read_only_if_due,
            # Clients that read again get what waited, then the replies to their next requests.
            self._clients.resume_caught_up,
            # All that the step needs from the leader leaves; a leader prepares it and proposes.
            self._send_to_leader,
            # A chunk of each snapshot, after the proposals: writes come first.
            self._snapshot_streams.send_chunks,
            self._process_zab_effects,
            # A server that is a member no more lets its clients go.
            self._membership.finish,
            # Clients are moved with all that was queued for them.
            self._clients.drain.move_due,
            # Last, one frame for each client: it holds everything that was queued above.
            self._clients.flush,
        )

    # Events.

    def _on_peer_frame(self, event: PeerFrame) -> None:
        peer, mono = self._context.peer, self._context.now.mono
        for message in event.messages:
            if isinstance(message, ServerMessage):
                self._on_server_message(event.peer, message)
            else:
                peer.receive(event.peer, message, mono)
            # Before the next message: what this one commits must be applied, and it may end the
            # role for which the next one was sent.
            self._process_zab_effects()

    def _on_server_message(self, sender: ServerId, message: ServerMessage) -> None:
        self._peer_messages.receive(sender, message, self._leader_requests)

    def _on_log_synced(self, event: LogSynced) -> None:
        now = self._context.now.mono
        self._stages.on_synced(event.upto, now)
        self._context.peer.log_synced(event.upto, now)

    def _on_disk_space_changed(self, event: DiskSpaceChanged) -> None:
        """Rule D6. A follower that went on in memory alone restarts once it can log again."""
        context = self._context
        peer, has_space = context.peer, event.has_disk_space
        if has_space != peer.history.has_disk_space:
            context.trace(trace_events.DISK_SPACE_FREED if has_space else trace_events.DISK_FULL)
        self._disk_check_at = None
        if not has_space:
            self._disk_check_at = Millis(context.now.mono + context.options.disk_space_check_ms)
        elif peer.history.is_paused:
            context.out.append(Restart("the disk has space again", wipe_disk=False))
        peer.disk_space_changed(has_space, context.now.mono)

    def _on_sessions_overdue(self, event: SessionsOverdue) -> None:
        if self._leader_requests is not None and not self._transfer.hold_overdue(event):
            self._leader_requests.sessions.on_expiry_proposals(event.proposals)

    def _on_tracker_lost(self, _event: TrackerLost) -> None:
        if self._leader_requests is not None:
            self._leader_requests.sessions.on_tracker_lost()

    # Effects of Zab.

    def _process_zab_effects(self) -> None:
        """Carry out the effects of Zab, in order; those for the shell go into the outbox."""
        pending, handlers = self._zab_out, self._zab_handlers
        while pending:
            effects = pending[:]
            pending.clear()
            for effect in effects:
                handlers[type(effect)](effect)

    def _on_append(self, effect: zab.Append) -> None:
        self._require_level_of(effect.first, effect.txns)
        self._context.out.append(effect)
        last = Zxid(effect.first + len(effect.txns) - 1)
        self._stages.on_logged(last, self._context.now.mono)

    def _on_install_snapshot(self, effect: zab.InstallSnapshot) -> None:
        self._require_level(self._snapshot_install.built_level)
        for run in effect.tail:
            self._require_level_of(run.first, run.txns)
        self._context.out.append(effect)

    def _require_level_of(self, first: Zxid, txns: list[bytes]) -> None:
        levels = self._context.peer.settings.levels
        if levels.required < levels.newest:  # else there is nothing to look for
            self._require_level(level_required_by(first, txns))

    def _require_level(self, level: FeatureLevel) -> None:
        """Mark the disk before it holds what an older program cannot read.

        Counterexample for a mark at the delivery: all servers stop when the raise is logged and not
        delivered. Those of the program before start, one of them leads and commits it, and all end.
        """
        levels = self._context.peer.settings.levels
        if problem := level_problem(level, levels.newest):
            raise UnknownTxnError(f"the leader sent what requires {problem}")
        if levels.require(level):
            self._context.out.append(SaveLevel(level))

    def _on_receive_effect(
        self, effect: zab.ReceiveSnapshot | zab.ReceiveChunk | zab.DiscardSnapshot
    ) -> None:
        self._context.out.append(effect)
        self._snapshot_install.on_disk_effect(effect)

    def _on_adopt_snapshot(self, effect: zab.AdoptSnapshot) -> None:
        self._snapshot_install.install(effect)
        self._update_read_serving()

    def _on_deliver(self, effect: zab.Deliver) -> None:
        if not self._clients.is_serving_reads:
            # A read between two writes must be answered after the first one and before the second.
            self._update_read_serving()
        self._final_requests.deliver(effect.first, effect.txns, self._leader_requests)

    def _on_role_changed(self, effect: zab.RoleChanged) -> None:
        self._leader_requests = None
        self._next_report_at = None
        self._stages.on_role_changed(self._context.now.mono)
        if self._looking_since is None:
            self._looking_since = self._context.now.mono
        self._clients.read_only.on_role_changed(effect.role)
        self._forwarder.on_role_ended()
        self._transfer.on_role_changed(effect.role)
        self._reconfigs.on_role_changed()
        context = self._context
        history, members = context.peer.history, context.peer.settings.members
        members.forget_logged_lists()
        self._inherited_votes = {}
        if effect.role is zab.Role.LEADER:
            for run in history.recent_log.between(history.delivered, history.logged):
                for zxid, data in enumerate(run.txns, run.first):
                    body = decode_known_txn(Zxid(zxid), data).body
                    if isinstance(body, ReplaceVoterTxn):
                        members.disk_logged(body.server_id, body.disk, Zxid(zxid))
                        self._inherited_votes[body.server_id] = body.disk
                    elif isinstance(body, ReconfigTxn):
                        members.list_logged(body.members)
        if history.is_paused and effect.role is zab.Role.LOOKING:
            # The tree is ahead of the disk, and a new role counts on the disk alone (rule Z2).
            context.out.append(Restart("the log was paused, and the role ends", wipe_disk=False))

    def _on_activated(self, effect: zab.Activated) -> None:
        # Every commit up to `consistent_at` comes before the activation. Counterexample for less:
        # a leader would prepare writes against a state that never existed.
        assert self._snapshot_install.is_consistent, "activated with an inconsistent state"
        self._next_report_at = self._context.now.mono
        assert self._looking_since is not None, "a role begins before it is established"
        self._context.counters.on_elected(self._context.now.mono - self._looking_since)
        self._looking_since = None
        self._clients.read_only.on_activated()
        if effect.role is zab.Role.LEADER:
            # The leader before may not have repeated them: its disk was full, or its role ended.
            inherited = self._context.state.voters | self._inherited_votes
            self._leader_requests = LeaderRequestProcessor(
                self._context, effect.epoch, inherited, self._digests.is_confirmed
            )
        self._transfer.on_activated()
        self._tell_address()
        self._clients.forward_all()
        self._update_read_serving()

    def _tell_address(self) -> None:
        """Tell the leader where clients of ZooKeeper find this server: it may have moved."""
        context = self._context
        address, leader = context.options.zookeeper.address, context.peer.leader
        if not address:
            return
        if self._leader_requests is not None:
            self._leader_requests.learn_address(context.peer.settings.server_id, address)
        else:
            assert leader is not None, "an active server that does not lead follows a leader"
            context.out.append(SendPeer(leader, MemberAddress(address)))

    # The end of a step.

    def _update_read_serving(self) -> None:
        """Answer reads only while a leader was heard within the shortest session timeout.

        Counterexample for more: a session expires on the other side of a partition, and another
        client takes its lock; its own client would still read here that it holds the lock.
        """
        context = self._context
        contact = context.peer.last_quorum_contact(context.now.mono)
        is_serving = (
            contact is not None
            and context.now.mono - contact < context.limits.session_timeout_min_ms
            and self._snapshot_install.is_consistent
        )
        clients = self._clients
        if is_serving == clients.is_serving_reads:
            return
        clients.is_serving_reads = is_serving
        context.trace(trace_events.READS_RESUMED if is_serving else trace_events.READS_PAUSED)
        if is_serving:
            clients.resume_all()

    def _report(self) -> None:
        """Do what is done every `session_report_ms` while this server leads or follows a leader."""
        self._forwarder.send_touches(self._leader_requests)
        self._process_zab_effects()
        leader = self._leader_requests
        if leader is not None and not leader.is_handing_over:
            leader.restore_votes()
            leader.raise_level()
            leader.update_config()
            leader.delete_expired_znodes()
            leader.sessions.send_report()
        if leader is not None:
            self._digests.send_requests()

    def _start_read_only_if_due(self) -> None:
        is_consistent = self._snapshot_install.is_consistent
        self._clients.read_only.start_if_due(is_consistent=is_consistent)

    def _send_to_leader(self) -> None:
        while True:
            leader = self._leader_requests
            self._forwarder.send(leader)
            if leader is None:
                return
            leader.propose()
            self._process_zab_effects()
            if leader.is_handing_over or not self._context.leader_outbox.has_writes:
                return
            # A leader alone confirms a sync at once, which releases the writes behind it.

    def _end_step(self) -> list[Effect]:
        """Finish the step in the order of `_end_of_step`, and return all its effects."""
        for finish in self._end_of_step:
            finish()
        out = self._context.out
        effects = out[:]
        out.clear()
        return effects
