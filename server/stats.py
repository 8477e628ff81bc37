"""The statistics of one server."""

from msgspec import Struct

from raykeeper.zab.effects import Role
from raykeeper.zab.ids import DiskId, Epoch, ServerId, Zxid


class ServerStats(Struct, frozen=True):
    """One server at one moment."""

    role: Role
    is_active: bool
    leader: ServerId | None
    epoch: Epoch
    last_zxid: Zxid
    has_vote: bool
    voters_lost: list[ServerId]
    """Linked voters that lost their promises; a leader gives them their vote back (D3)."""
    voter_disks: dict[ServerId, DiskId]
    """The disk under which each voter is counted, as far as this server has delivered (D3)."""
    has_disk_space: bool
    """False while the disk is full and nothing is logged (D6)."""
    linked: list[ServerId]
    sessions: int
    connections: int
    znodes: int
    watches: int
    outstanding: int
    digest: int
