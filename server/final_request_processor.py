"""Applies committed transactions, and does what follows from each: watch events, replies, the role.

Every server applies the same transactions in the same order. What it tells its own clients of one
comes before the next is applied: first the watch events, then the reply. A leader also learns here
which of its sessions, members and expiring znodes have changed.

ZooKeeper: `FinalRequestProcessor`. Paper: ZooKeeper (USENIX ATC 2010), section 4.4.
"""

from collections.abc import Callable, Iterable
from typing import cast

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.context import ServerContext
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.reconfig_requests import ReconfigRequests
from raykeeper.server.snapshot_install import SnapshotInstall
from raykeeper.server.snapshot_streams import SnapshotStreams
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.change_log import ZnodeChange
from raykeeper.znodes.state import outcome_of
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    RaiseLevelTxn,
    ReconfigTxn,
    ReplaceVoterTxn,
    SuspectSessionTxn,
    Txn,
)

Leader = LeaderRequestProcessor | None
"""None on a server that does not lead."""


class FinalRequestProcessor:
    """What a server does with the transactions that were committed."""

    def __init__(
        self,
        context: ServerContext,
        clients: ClientRequests,
        snapshot_install: SnapshotInstall,
        snapshot_streams: SnapshotStreams,
        reconfigs: ReconfigRequests,
    ) -> None:
        self._context = context
        self._clients = clients
        self._stages = clients.slow_requests.stages
        self._snapshot_install = snapshot_install
        self._snapshot_streams = snapshot_streams
        self._reconfigs = reconfigs
        self._handlers: dict[type, Callable[[Zxid, Txn, Leader], None]] = {
            CreateSessionTxn: self._on_session_created,
            CreateSessionErrorTxn: self._on_session_refused,
            CloseSessionTxn: self._on_session_closed,
            SuspectSessionTxn: self._on_session_suspected,
            ReplaceVoterTxn: self._on_voter_replaced,
            RaiseLevelTxn: self._on_level_raised,
            ReconfigTxn: self._on_members_changed,
        }

    def deliver(self, first: Zxid, txns: list[bytes], leader: Leader) -> None:
        """Apply committed transactions; events and replies follow in the same order.

        `leader` is this server's part as an established leader.
        """
        context, clients = self._context, self._clients
        state, tree, watches = context.state, context.state.tree, context.watches
        changes = context.change_log.pending
        is_consistent = self._snapshot_install.is_consistent
        handlers = self._handlers
        for zxid, data in cast("Iterable[tuple[Zxid, bytes]]", enumerate(txns, first)):
            before = len(changes)
            txn = state.apply(zxid, data)
            if is_consistent:
                if tree.expiring_paths and leader is not None:
                    leader.on_expiring_changed(txn.body)
                if watches.count and len(changes) > before:
                    self._fire_watches(changes[before:])
                handler = handlers.get(type(txn.body))
                if handler is None:
                    clients.on_write_applied(txn)
                else:
                    handler(zxid, txn, leader)
        context.change_log.keep_pending()
        context.counters.applied += len(txns)
        self._stages.on_delivered(state.zxid)
        if leader is not None:
            leader.on_applied(state.zxid)
        self._snapshot_streams.on_applied(len(txns))
        if not is_consistent:
            self._snapshot_install.finish_if_consistent()

    def _fire_watches(self, changes: list[ZnodeChange]) -> None:
        context, clients = self._context, self._clients
        znodes = context.state.tree.znodes
        for number, event in context.watches.trigger(changes, clients.identities_of, znodes):
            clients.send_watcher_event(number, event)

    def _on_session_created(self, zxid: Zxid, txn: Txn, leader: Leader) -> None:
        body = txn.body
        assert isinstance(body, CreateSessionTxn)
        self._context.trace(trace_events.SESSION_OPENED, (body.session_id, body.server_id))
        self._clients.on_session_created(zxid, body)
        if leader is not None:
            leader.sessions.on_session_changed(body.session_id)

    def _on_session_refused(self, _zxid: Zxid, txn: Txn, _leader: Leader) -> None:
        assert isinstance(txn.body, CreateSessionErrorTxn)
        self._clients.on_session_refused(txn.body)

    def _on_session_closed(self, zxid: Zxid, txn: Txn, leader: Leader) -> None:
        body = txn.body
        assert isinstance(body, CloseSessionTxn)
        self._clients.on_session_closed(body.session_id, txn, outcome_of(zxid, txn))
        if leader is not None:
            leader.sessions.on_session_closed(body.session_id)

    def _on_session_suspected(self, _zxid: Zxid, txn: Txn, leader: Leader) -> None:
        assert isinstance(txn.body, SuspectSessionTxn)
        if leader is not None:
            leader.sessions.on_session_changed(txn.body.session_id)

    def _on_voter_replaced(self, zxid: Zxid, txn: Txn, leader: Leader) -> None:
        context, body = self._context, txn.body
        assert isinstance(body, ReplaceVoterTxn)
        server, disk = body.server_id, body.disk
        if leader is not None:
            leader.propose_behind_step()
        context.peer.voter_replaced(server, disk, zxid, context.now.mono)
        if leader is not None:
            leader.say_members_again()

    def _on_members_changed(self, _zxid: Zxid, txn: Txn, leader: Leader) -> None:
        context, body = self._context, txn.body
        assert isinstance(body, ReconfigTxn)
        if leader is not None:
            leader.propose_behind_step()
        context.peer.list_delivered(body.members, context.now.mono)
        if leader is not None:
            leader.say_members_again()
        self._reconfigs.on_list_delivered()
        if txn.session_id:
            self._clients.on_write_applied(txn)

    def _on_level_raised(self, _zxid: Zxid, txn: Txn, _leader: Leader) -> None:
        assert isinstance(txn.body, RaiseLevelTxn)
        self._context.trace(trace_events.LEVEL_RAISED, txn.body.level)
