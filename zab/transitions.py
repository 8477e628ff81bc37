"""The transitions between roles. A role asks by setting `transition`; `Peer._become` acts.

AwaitDisk ──DiskIdle──> Looking ──Elected──> FollowerRecovery ──Synchronized──> FollowerBroadcast
   ^                       └─────Elected──> LeaderRecovery ────Established───> LeaderBroadcast
   └── StepDown, from every role but AwaitDisk and Looking
"""

from msgspec import Struct

from raykeeper.zab.ids import Epoch, ServerId, Zxid
from raykeeper.zab.learners import Learners
from raykeeper.zab.messages import Vote


class DiskIdle(Struct, frozen=True):
    """The disk has caught up: look for a leader."""


class Elected(Struct, frozen=True):
    """Looking ended in `round` with `vote`; the leader may be this server."""

    round: int
    vote: Vote


class Synchronized(Struct, frozen=True):
    """UPTODATE arrived: follow `leader` in broadcast from `position`, all acked so far."""

    leader: ServerId
    position: Zxid


class Established(Struct, frozen=True):
    """A quorum acknowledged NEWLEADER: lead `epoch` in broadcast."""

    epoch: Epoch
    learners: Learners


class StepDown(Struct, frozen=True):
    """Leave the role and look for a leader again; prefer `nominee`, if not None, as leader."""

    reason: str
    nominee: ServerId | None = None


Transition = DiskIdle | Elected | Synchronized | Established | StepDown
