"""What a server asks of its leader for its clients: writes, sessions, read points, heartbeats.

ZooKeeper: `FollowerRequestProcessor`, `Learner.request`, `Learner.ping` (touched sessions). On the
leader itself the same requests take the short way to `LeaderRequestProcessor`.
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
from raykeeper.zab.ids import ServerId, Zxid

FORWARDED_BYTES_MAX: Final = 8 << 20
"""Of one message, unless a single write is larger: after an election all that wait leave."""


class LeaderForwarder:
    """Requests under way to the leader, and on the leader the read points under way."""

    def __init__(self, context: ServerContext, connections: ClientRequests) -> None:
        self._context = context
        self._connections = connections
        self._touch_number = 0
        self._touched_heartbeats: list[tuple[Connection, int]] = []
        self._is_touch_outstanding = False
        self._token = 0
        self._syncs: dict[int, list[PendingSync]] = {}
        # On the leader: what is sent to whom once a quorum has confirmed that it still leads.
        self._awaiting_quorum: dict[
            int, tuple[ServerId, ReadIndexRequest | TouchSessionsReply]
        ] = {}

    def on_role_ended(self) -> None:
        """The role has ended: what was under way will not be answered."""
        self._awaiting_quorum = {}
        self._syncs = {}
        self._is_touch_outstanding = False
        self._touched_heartbeats = []

    def send(self, leading: LeaderRequestProcessor | None) -> None:
        """End of the step: everything the clients asked for goes to the leader."""
        connections, peer = self._connections, self._context.peer
        connects, connections.connects = connections.connects, []
        writes, connections.forwards = connections.forwards, []
        syncs, connections.syncs = connections.syncs, []
        ended, connections.dead_clients.ended = connections.dead_clients.ended, []
        if not peer.is_active or peer.leader is None:
            return  # `ClientRequests.forward_all` collects it again once there is a leader
        out, leader = self._context.out, peer.leader
        if leading is not None:
            for connect in connects:
                leading.prepare_connect(leader, connect)
            for gap in leading.prepare_writes(leader, writes):
                connections.on_write_gap(gap.session_id, gap.owner_zxid)
            leading.end_dead_sessions(ended)
        else:
            out.extend(SendPeer(leader, connect) for connect in connects)
            out.extend(SendPeer(leader, ForwardWrites(some)) for some in _split_by_size(writes))
            if ended:  # after what they had written
                out.append(SendPeer(leader, EndDeadSessions(ended)))
        if syncs:
            self._token += 1
            self._syncs[self._token] = syncs
            request = ReadIndexRequest(self._token)
            if leading is not None:
                self.on_read_index_request(leader, request)
            else:
                out.append(SendPeer(leader, request))

    def send_touches(self, leading: LeaderRequestProcessor | None) -> None:
        """Tell the leader which sessions were heard, unless an earlier batch is under way."""
        leader = self._context.peer.leader
        assert leader is not None, "sessions are reported while there is a leader"
        if self._is_touch_outstanding:
            return
        touches, beats = self._connections.take_touched()
        if not touches:
            return
        self._touch_number += 1
        self._touched_heartbeats = beats
        self._is_touch_outstanding = True
        message = TouchSessions(self._touch_number, touches)
        if leading is not None:
            self.on_touch_sessions(leader, message, leading)
        else:
            self._context.out.append(SendPeer(leader, message))

    def on_touch_sessions(
        self, sender: ServerId, message: TouchSessions, leading: LeaderRequestProcessor
    ) -> None:
        """On the leader: take note of a batch, and confirm it once a quorum still follows.

        A leader that was deposed without knowing it must not confirm: the next one counts the
        timeouts from its own activation, which a quorum that answers now has not yet allowed.
        """
        rejected = leading.touch_sessions(message.sessions)
        self._reply_once_confirmed(sender, TouchSessionsReply(message.number, rejected))

    def on_touch_sessions_reply(self, message: TouchSessionsReply) -> None:
        """The leader has taken note of a batch."""
        if self._is_touch_outstanding and message.number == self._touch_number:
            self._is_touch_outstanding = False
            self._connections.on_heartbeats_confirmed(self._touched_heartbeats, message.rejected)
            self._touched_heartbeats = []

    def on_read_index_request(self, sender: ServerId, request: ReadIndexRequest) -> None:
        """On the leader: have a read point confirmed for `sender` (rule Z4)."""
        self._reply_once_confirmed(sender, request)

    def on_leadership_confirmed(self, effect: ReadIndex) -> None:
        """On the leader: a quorum has confirmed that it leads."""
        asker, what = self._awaiting_quorum.pop(effect.token)
        is_own = asker == self._context.peer.settings.server_id
        if isinstance(what, TouchSessionsReply):
            if is_own:
                self.on_touch_sessions_reply(what)
            else:
                self._context.out.append(SendPeer(asker, what))
        elif is_own:
            self.on_read_index(what.token, effect.zxid)
        else:
            self._context.out.append(SendPeer(asker, ReadIndexReply(what.token, effect.zxid)))

    def on_read_index(self, token: int, zxid: Zxid) -> None:
        """The read point of the syncs under `token`: they are due once it is applied."""
        self._connections.on_read_index(self._syncs.pop(token, ()), zxid)

    def _reply_once_confirmed(
        self, asker: ServerId, what: ReadIndexRequest | TouchSessionsReply
    ) -> None:
        role = self._context.peer.broadcasting
        if role is not None:
            self._token += 1
            self._awaiting_quorum[self._token] = (asker, what)
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
