"""What a server does with the messages of other servers beside Zab's: two tables, by its role.

A leader takes requests of the servers that are linked to it; a server that follows takes what its
leader answers or asks. What is in neither table was sent to what this server was before: it is
traced as stale and dropped, and its sender asks again.

ZooKeeper: `LearnerHandler.run`, `Learner.processPacket`.
"""

from collections.abc import Callable
from typing import Any

from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.context import ServerContext
from raykeeper.server.digest_comparison import DigestComparison
from raykeeper.server.effects import SendPeer
from raykeeper.server.leader_forwarder import LeaderForwarder
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.leadership_transfer import LeadershipTransfer
from raykeeper.server.peer_messages import (
    DigestMismatch,
    DigestReply,
    DigestRequest,
    EndDeadSessions,
    ForwardConnect,
    ForwardWrites,
    MemberAddress,
    ReadIndexReply,
    ReadIndexRequest,
    ServerMessage,
    TouchSessions,
    TouchSessionsReply,
    WriteGap,
)
from raykeeper.server.snapshot_install import SnapshotInstall
from raykeeper.zab.ids import ServerId
from raykeeper.zab.trace_events import MESSAGE_STALE

_LeaderHandler = Callable[[LeaderRequestProcessor, ServerId, Any], None]
_LearnerHandler = Callable[[Any], None]


class PeerMessageHandlers:
    """The handlers of one server."""

    def __init__(
        self,
        context: ServerContext,
        clients: ClientRequests,
        forwarder: LeaderForwarder,
        digests: DigestComparison,
        transfer: LeadershipTransfer,
        snapshot_install: SnapshotInstall,
    ) -> None:
        self._context = context
        self._clients = clients
        self._forwarder = forwarder
        self._digests = digests
        self._transfer = transfer
        self._snapshot_install = snapshot_install
        self._on_leader = self._make_leader_handlers()
        self._on_learner = self._make_learner_handlers()

    def receive(
        self, sender: ServerId, message: ServerMessage, leader: LeaderRequestProcessor | None
    ) -> None:
        """Handle a message, or hold it while the lead is transferred.

        `leader` is this server's part as an established leader, None if it is none.
        """
        peer = self._context.peer
        kind = type(message)
        if sender in peer.links:
            if leader is not None:
                if (of_leader := self._on_leader.get(kind)) is not None:
                    if not self._transfer.hold(sender, message):
                        of_leader(leader, sender, message)
                    return
            elif sender == peer.leader and (of_learner := self._on_learner.get(kind)) is not None:
                of_learner(message)
                return
        self._context.trace(MESSAGE_STALE, (sender, kind.__name__))

    def _make_leader_handlers(self) -> dict[type, _LeaderHandler]:
        forwarder, digests = self._forwarder, self._digests
        return {
            ForwardConnect: LeaderRequestProcessor.prepare_connect,
            ForwardWrites: self._on_forward_writes,
            EndDeadSessions: lambda leader, _, message: leader.sessions.end_dead_sessions(
                message.sessions
            ),
            MemberAddress: lambda leader, sender, message: leader.learn_address(
                sender, message.address
            ),
            TouchSessions: lambda leader, sender, message: forwarder.on_touch_sessions(
                sender, message, leader
            ),
            ReadIndexRequest: lambda _, sender, message: forwarder.on_read_index_request(
                sender, message
            ),
            DigestReply: lambda _, sender, message: digests.on_reply(sender, message),
        }

    def _make_learner_handlers(self) -> dict[type, _LearnerHandler]:
        clients, forwarder = self._clients, self._forwarder
        return {
            WriteGap: lambda message: clients.on_write_gap(message.session_id, message.owner_zxid),
            TouchSessionsReply: forwarder.on_touch_sessions_reply,
            ReadIndexReply: forwarder.on_read_index_reply,
            DigestRequest: self._on_digest_request,
            DigestMismatch: lambda message: self._digests.on_mismatch(message.zxid),
        }

    def _on_forward_writes(
        self, leader: LeaderRequestProcessor, sender: ServerId, message: ForwardWrites
    ) -> None:
        for gap in leader.prepare_writes(sender, message.writes):
            self._context.out.append(SendPeer(sender, gap))

    def _on_digest_request(self, message: DigestRequest) -> None:
        if self._snapshot_install.is_consistent:
            self._digests.on_request(message)
