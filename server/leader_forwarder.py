"""Forwards what the clients of a server need to its leader: writes, sessions, syncs, heartbeats.

ZooKeeper: `FollowerRequestProcessor`, `Learner.request`, `Learner.ping` (touched sessions). On the
leader itself the same requests go straight to its `LeaderRequestProcessor`.
"""

from collections.abc import Iterator
from typing import Final

from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.connection import Connection, PendingSync
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import SendPeer
from raykeeper.server.leader_request_processor import LeaderRequestProcessor
from raykeeper.server.peer_messages import (
    EndDeadSessions,
    ForwardedWrite,
    ForwardWrites,
    ReadIndexReply,
    ReadIndexRequest,
    TouchSessions,
    TouchSessionsReply,
)
from raykeeper.zab.effects import ReadIndex
from raykeeper.zab.ids import ServerId

FORWARDED_BYTES_MAX: Final = 8 << 20
"""Bytes of one message, unless a single write is larger; an election releases all that wait."""


class LeaderForwarder:
    """Requests under way to the leader, and on the leader the read indexes under way."""

    def __init__(self, context: ServerContext, clients: ClientRequests) -> None:
        self._context = context
        self._clients = clients
        self._touch_number = 0
        self._touched_heartbeats: list[tuple[Connection, int]] = []
        self._is_touch_outstanding = False
        self._token = 0
        self._syncs: dict[int, list[PendingSync]] = {}
        # On the leader: replies that are sent once a quorum has confirmed that it still leads.
        self._awaiting_quorum: dict[
            int, tuple[ServerId, ReadIndexRequest | TouchSessionsReply]
        ] = {}

    def on_role_ended(self) -> None:
        """Forget what is under way: the ended role will not answer it."""
        self._awaiting_quorum = {}
        self._syncs = {}
        self._is_touch_outstanding = False
        self._touched_heartbeats = []

    def send(self, processor: LeaderRequestProcessor | None) -> None:
        """Send the leader outbox to the leader, or give it to `processor`, which is the leader.

        While that leader hands over, the outbox waits for it to go on, or for the next leader.
        """
        outbox = self._context.leader_outbox
        if outbox.is_empty or (processor is not None and processor.is_handing_over):
            return
        batch, peer = outbox.take(), self._context.peer
        if not peer.is_active or peer.leader is None:
            return  # `ClientRequests.forward_all` collects it again once there is a leader
        out, leader = self._context.out, peer.leader
        if processor is not None:
            for connect in batch.connects:
                processor.prepare_connect(leader, connect)
            for gap in processor.prepare_writes(leader, batch.writes):
                self._clients.on_write_gap(gap.session_id, gap.owner_zxid)
            processor.sessions.end_dead_sessions(batch.dead_sessions)
        else:
            out.extend(SendPeer(leader, connect) for connect in batch.connects)
            for some in _split_by_size(batch.writes):
                out.append(SendPeer(leader, ForwardWrites(some)))
            if batch.dead_sessions:
                out.append(SendPeer(leader, EndDeadSessions(batch.dead_sessions)))
        if batch.syncs:
            self._token += 1
            self._syncs[self._token] = batch.syncs
            request = ReadIndexRequest(self._token)
            if processor is not None:
                self.on_read_index_request(leader, request)
            else:
                out.append(SendPeer(leader, request))

    def send_touches(self, processor: LeaderRequestProcessor | None) -> None:
        """Report the sessions heard to the leader, unless an earlier report is under way."""
        leader = self._context.peer.leader
        assert leader is not None, "sessions are reported while there is a leader"
        if self._is_touch_outstanding:
            return
        sessions, heartbeats = self._context.leader_outbox.take_touched()
        if not sessions:
            return
        self._touch_number += 1
        self._touched_heartbeats = heartbeats
        self._is_touch_outstanding = True
        message = TouchSessions(self._touch_number, sessions)
        if processor is not None:
            self.on_touch_sessions(leader, message, processor)
        else:
            self._context.out.append(SendPeer(leader, message))

    def on_touch_sessions(
        self, sender: ServerId, message: TouchSessions, processor: LeaderRequestProcessor
    ) -> None:
        """On the leader: touch the sessions, and confirm it once a quorum still follows.

        Counterexample for less: a leader that was deposed without knowing it confirms a heartbeat.
        The next leader counts timeouts from its activation, so the session may end before the
        client expects it. A quorum that answers now has not yet activated another leader.
        """
        rejected = processor.sessions.touch_sessions(message.sessions)
        self._reply_once_confirmed(sender, TouchSessionsReply(message.number, rejected))

    def on_touch_sessions_reply(self, message: TouchSessionsReply) -> None:
        """Confirm the heartbeats of the report that the leader has answered."""
        if self._is_touch_outstanding and message.number == self._touch_number:
            self._is_touch_outstanding = False
            self._clients.on_heartbeats_confirmed(self._touched_heartbeats, message.rejected)
            self._touched_heartbeats = []

    def on_read_index_request(self, sender: ServerId, request: ReadIndexRequest) -> None:
        """On the leader: have a read index confirmed for `sender` (rule Z4)."""
        self._reply_once_confirmed(sender, request)

    def on_leadership_confirmed(self, effect: ReadIndex) -> None:
        """On the leader: send the reply that waited for a quorum to confirm that it leads."""
        receiver, waiting = self._awaiting_quorum.pop(effect.token)
        if isinstance(waiting, TouchSessionsReply):
            reply: TouchSessionsReply | ReadIndexReply = waiting
        else:
            reply = ReadIndexReply(waiting.token, effect.zxid)
        if receiver != self._context.peer.settings.server_id:
            self._context.out.append(SendPeer(receiver, reply))
        elif isinstance(reply, TouchSessionsReply):
            self.on_touch_sessions_reply(reply)
        else:
            self.on_read_index_reply(reply)

    def on_read_index_reply(self, reply: ReadIndexReply) -> None:
        """Set the read index of the syncs under its token: they are due once it is applied."""
        self._clients.on_read_index(self._syncs.pop(reply.token, ()), reply.zxid)

    def _reply_once_confirmed(
        self, receiver: ServerId, waiting: ReadIndexRequest | TouchSessionsReply
    ) -> None:
        role = self._context.peer.broadcasting
        if role is not None:
            self._token += 1
            self._awaiting_quorum[self._token] = (receiver, waiting)
            role.read_index(self._token)


def _split_by_size(writes: list[ForwardedWrite]) -> Iterator[list[ForwardedWrite]]:
    start = size = 0
    for place, forwarded in enumerate(writes, 1):
        size += len(forwarded.write.op)
        if size > FORWARDED_BYTES_MAX:
            yield writes[start:place]
            start, size = place, 0
    if start < len(writes):
        yield writes[start:]
