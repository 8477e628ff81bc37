"""What a server asks of its leader for its clients: writes, sessions, read points, heartbeats.

ZooKeeper: `FollowerRequestProcessor`, `Learner.request`, `Learner.ping` (touched sessions). On the
leader itself the same requests take the short way to `Leading`.
"""

from collections.abc import Iterator
from typing import Final

from raykeeper.server.connection import Connection, PendingSync
from raykeeper.server.connections import Connections
from raykeeper.server.effects import SendPeer
from raykeeper.server.leading import Leading
from raykeeper.server.peer_messages import (
    ForwardedWrite,
    ForwardWrites,
    ProcessesGone,
    ReadPointReply,
    ReadPointRequest,
    Touches,
    TouchesConfirmed,
)
from raykeeper.server.server_context import ServerContext
from raykeeper.zab.effects import ReadPoint
from raykeeper.zab.ids import ServerId, Zxid

FORWARD_BYTES_MAX: Final = 8 << 20
"""Of one message, unless a single write is larger: after an election all that wait leave."""


class LeaderContact:
    """Requests under way to the leader, and on the leader the read points under way."""

    def __init__(self, context: ServerContext, connections: Connections) -> None:
        self._context = context
        self._connections = connections
        self._touch_number = 0
        self._touch_beats: list[tuple[Connection, int]] = []
        self._is_touching = False
        self._token = 0
        self._syncs: dict[int, list[PendingSync]] = {}
        # On the leader: what is sent to whom once a quorum has confirmed that it still leads.
        self._confirming: dict[int, tuple[ServerId, ReadPointRequest | TouchesConfirmed]] = {}

    def lost(self) -> None:
        """The role has ended: what was under way will not be answered."""
        self._confirming = {}
        self._syncs = {}
        self._is_touching = False
        self._touch_beats = []

    def send(self, leading: Leading | None) -> None:
        """End of the step: everything the clients asked for goes to the leader."""
        connections, peer = self._connections, self._context.peer
        connects, connections.connects = connections.connects, []
        writes, connections.forwards = connections.forwards, []
        syncs, connections.syncs = connections.syncs, []
        ended, connections.departures.ended = connections.departures.ended, []
        if not peer.is_active or peer.leader is None:
            return  # `Connections.forward_all` collects it again once there is a leader
        out, leader = self._context.out, peer.leader
        if leading is not None:
            for connect in connects:
                leading.connect(leader, connect)
            for gap in leading.writes(leader, writes):
                connections.gap(gap.session_id, gap.owner)
            leading.processes_gone(ended)
        else:
            out.extend(SendPeer(leader, connect) for connect in connects)
            out.extend(SendPeer(leader, ForwardWrites(some)) for some in _portions(writes))
            if ended:  # after what they had written
                out.append(SendPeer(leader, ProcessesGone(ended)))
        if syncs:
            self._token += 1
            self._syncs[self._token] = syncs
            request = ReadPointRequest(self._token)
            if leading is not None:
                self.read_point_asked(leader, request)
            else:
                out.append(SendPeer(leader, request))

    def touch(self, leading: Leading | None) -> None:
        """Tell the leader which sessions were heard, unless an earlier batch is under way."""
        leader = self._context.peer.leader
        assert leader is not None, "sessions are reported while there is a leader"
        if self._is_touching:
            return
        touches, beats = self._connections.take_touched()
        if not touches:
            return
        self._touch_number += 1
        self._touch_beats = beats
        self._is_touching = True
        message = Touches(self._touch_number, touches)
        if leading is not None:
            self.touches_arrived(leader, message, leading)
        else:
            self._context.out.append(SendPeer(leader, message))

    def touches_arrived(self, sender: ServerId, message: Touches, leading: Leading) -> None:
        """On the leader: take note of a batch, and confirm it once a quorum still follows.

        A leader that was deposed without knowing it must not confirm: the next one counts the
        timeouts from its own activation, which a quorum that answers now has not yet allowed.
        """
        rejected = leading.touches(message.touches)
        self._confirm_then(sender, TouchesConfirmed(message.number, rejected))

    def touches_confirmed(self, message: TouchesConfirmed) -> None:
        """The leader has taken note of a batch."""
        if self._is_touching and message.number == self._touch_number:
            self._is_touching = False
            self._connections.confirmed(self._touch_beats, message.rejected)
            self._touch_beats = []

    def read_point_asked(self, sender: ServerId, request: ReadPointRequest) -> None:
        """On the leader: have a read point confirmed for `sender` (rule Z4)."""
        self._confirm_then(sender, request)

    def confirmed(self, effect: ReadPoint) -> None:
        """On the leader: a quorum has confirmed that it leads."""
        asker, what = self._confirming.pop(effect.token)
        is_own = asker == self._context.peer.settings.server_id
        if isinstance(what, TouchesConfirmed):
            if is_own:
                self.touches_confirmed(what)
            else:
                self._context.out.append(SendPeer(asker, what))
        elif is_own:
            self.read_point(what.token, effect.zxid)
        else:
            self._context.out.append(SendPeer(asker, ReadPointReply(what.token, effect.zxid)))

    def read_point(self, token: int, zxid: Zxid) -> None:
        """The read point of the syncs under `token`: they are due once it is applied."""
        self._connections.read_point(self._syncs.pop(token, ()), zxid)

    def _confirm_then(self, asker: ServerId, what: ReadPointRequest | TouchesConfirmed) -> None:
        role = self._context.peer.broadcasting
        if role is not None:
            self._token += 1
            self._confirming[self._token] = (asker, what)
            role.read_point(self._token)


def _portions(writes: list[ForwardedWrite]) -> Iterator[list[ForwardedWrite]]:
    start = size = 0
    for place, forwarded in enumerate(writes, 1):
        size += len(forwarded.write.op)
        if size > FORWARD_BYTES_MAX:
            yield writes[start:place]
            start, size = place, 0
    if start < len(writes):
        yield writes[start:]
