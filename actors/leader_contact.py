"""What a server asks of its leader for its clients: writes, sessions, read points, heartbeats.

ZooKeeper: `FollowerRequestProcessor`, `Learner.request`, `Learner.ping` (touched sessions). On the
leader itself the same requests take the short way to `Leading`.
"""

from raykeeper.actors.connections import Connection, Connections, PendingSync
from raykeeper.actors.effects import SendPeer
from raykeeper.actors.leading import Leading
from raykeeper.actors.peer_messages import (
    ForwardWrites,
    ReadPointReply,
    ReadPointRequest,
    Touches,
    TouchesConfirmed,
)
from raykeeper.actors.server_context import ServerContext
from raykeeper.zab.effects import ReadPoint
from raykeeper.zab.ids import ServerId, Zxid


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
        self._askers: dict[int, tuple[ServerId, int]] = {}  # on the leader: who asked what

    def lost(self) -> None:
        """The role has ended: what was under way will not be answered."""
        self._askers = {}
        self._syncs = {}
        self._is_touching = False
        self._touch_beats = []

    def send(self, leading: Leading | None) -> None:
        """End of the step: everything the clients asked for goes to the leader."""
        connections, peer = self._connections, self._context.peer
        if not peer.is_active or peer.leader is None:
            return  # `Connections.forward_all` collects it again once there is a leader
        out, leader = self._context.out, peer.leader
        connects, connections.connects = connections.connects, []
        writes, connections.forwards = connections.forwards, []
        syncs, connections.syncs = connections.syncs, []
        if leading is not None:
            for connect in connects:
                leading.connect(leader, connect)
            leading.writes(leader, writes)
        else:
            out.extend(SendPeer(leader, connect) for connect in connects)
            if writes:
                out.append(SendPeer(leader, ForwardWrites(writes)))
        if syncs:
            self._token += 1
            self._syncs[self._token] = syncs
            if leading is not None:
                self.read_point_asked(leader, self._token)
            else:
                out.append(SendPeer(leader, ReadPointRequest(self._token)))

    def touch(self, leading: Leading | None) -> None:
        """Tell the leader which sessions were heard, unless an earlier batch is under way."""
        leader = self._context.peer.leader
        if self._is_touching or leader is None:
            return
        touches, beats = self._connections.take_touched()
        if leading is not None:
            self._connections.confirmed(beats, leading.touches(touches))
        elif touches:
            self._touch_number += 1
            self._touch_beats = beats
            self._is_touching = True
            self._context.out.append(SendPeer(leader, Touches(self._touch_number, touches)))

    def touches_confirmed(self, message: TouchesConfirmed) -> None:
        """The leader has taken note of a batch."""
        if self._is_touching and message.number == self._touch_number:
            self._is_touching = False
            self._connections.confirmed(self._touch_beats, message.rejected)
            self._touch_beats = []

    def read_point_asked(self, sender: ServerId, token: int) -> None:
        """On the leader: have a read point confirmed for `sender` (rule Z4)."""
        role = self._context.peer.broadcasting
        if role is not None:
            self._token += 1
            self._askers[self._token] = (sender, token)
            role.read_point(self._token)

    def read_point_confirmed(self, effect: ReadPoint) -> None:
        """On the leader: a quorum has confirmed."""
        asker = self._askers.pop(effect.token, None)
        if asker is None:
            return
        sender, token = asker
        if sender == self._context.peer.settings.server_id:
            self.read_point(token, effect.zxid)
        else:
            self._context.out.append(SendPeer(sender, ReadPointReply(token, effect.zxid)))

    def read_point(self, token: int, zxid: Zxid) -> None:
        """The read point of the syncs under `token`: they are due once it is applied."""
        for sync in self._syncs.pop(token, ()):
            sync.point = zxid
        self._connections.resume()
