"""What a server says of itself when asked how it is."""

from msgspec import Struct

from raykeeper.server.client_requests import ClientRequests
from raykeeper.server.context import ServerContext
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Epoch, ServerId, Zxid


class ServerStats(Struct, frozen=True):
    """What a server says of itself."""

    role: Role
    is_active: bool
    leader: ServerId | None
    epoch: Epoch
    last_zxid: Zxid
    has_vote: bool
    voters_lost: list[ServerId]
    """Linked voters that lost their promises; they get their vote back from a leader (D3)."""
    has_disk_space: bool
    """False while the disk is full: nothing is logged (D6)."""
    linked: list[ServerId]
    sessions: int
    connections: int
    znodes: int
    watches: int
    outstanding: int
    digest: int


def collect_stats(context: ServerContext, connections: ClientRequests) -> ServerStats:
    """The stats of the server that these are parts of."""
    peer, state = context.peer, context.state
    return ServerStats(
        role=peer.role,
        is_active=peer.is_active,
        leader=peer.leader,
        epoch=peer.epoch,
        last_zxid=state.zxid,
        has_vote=peer.settings.has_vote,
        voters_lost=peer.voters_lost,
        has_disk_space=peer.history.has_disk_space,
        linked=sorted(peer.links),
        sessions=len(state.sessions.by_id),
        connections=len(connections),
        znodes=len(state.tree.znodes),
        watches=context.watches.count,
        outstanding=connections.outstanding,
        digest=state.digest(),
    )
