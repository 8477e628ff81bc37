"""The fate of each message in a server: one table by role, phase and sender.

A row says how a server stands towards the sender of a message, and maps each message to its fate:

    HANDLE   the role handles it
    STALE    ignored with a trace event: it was sent before its sender learned of the present role
    ANSWER   as STALE, and the sender, which takes this server for a leader, is told the role

A message that is not in the row breaks the protocol, and its sender loses the link. Two rules stand
outside the table: election notifications are legal always (`Peer._on_notification`), and a
LEADERINFO for an earlier attempt to follow the same leader is stale in every phase.
"""

from enum import Enum
from typing import Final, get_args

from msgspec import Struct

from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    LeaderMessage,
    LearnerMessage,
    LogPaused,
    NewLeader,
    Ping,
    Pong,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotCredit,
    SnapshotEnd,
    Trunc,
    UpToDate,
)


class FollowerPhase(Enum):
    """The phase that a learner's recovery has reached."""

    DISCOVERY = "discovery"
    """FOLLOWERINFO was sent; everything before LEADERINFO belongs to an earlier attempt."""
    PROMISING = "promising"
    """The accepted epoch is on its way to the disk."""
    PROMISED = "promised"
    """ACKEPOCH was sent; the leader chooses how to synchronize."""
    RECEIVING = "receiving"
    """A snapshot is coming in."""
    SYNCHRONIZING = "synchronizing"
    """Missing transactions are coming in."""
    LOGGING = "logging"
    """NEWLEADER arrived; the log is on its way to the disk."""
    CONFIRMING = "confirming"
    """The current epoch is on its way to the disk."""
    CONFIRMED = "confirmed"
    """NEWLEADER was acknowledged."""


class Fate(Enum):
    """The outcome of a message that does not break the protocol."""

    HANDLE = "handle"
    STALE = "stale"
    ANSWER = "answer"


HANDLE, STALE, ANSWER = Fate.HANDLE, Fate.STALE, Fate.ANSWER

LEADER_MESSAGES: Final[tuple[type, ...]] = get_args(LeaderMessage)
LEARNER_MESSAGES: Final[tuple[type, ...]] = get_args(LearnerMessage)


class Row(Struct, frozen=True):
    """One row of the table; `situation` completes the refusal "Ack while …"."""

    situation: str
    fates: dict[type, Fate]


def _row(
    situation: str, *handled: type, stale: tuple[type, ...] = (), answered: bool = True
) -> Row:
    """Make a row; `answered` is whether FOLLOWERINFO is a mistake of the sender."""
    fates = dict.fromkeys(stale, STALE)
    if answered:
        fates[FollowerInfo] = ANSWER
    return Row(situation, fates | dict.fromkeys(handled, HANDLE))


UNRELATED: Final = _row("unrelated", stale=LEADER_MESSAGES + LEARNER_MESSAGES)
"""The sender is neither this server's leader nor its learner, and this server leads nobody."""


FOLLOWER_RECOVERY: Final[dict[FollowerPhase, Row]] = {
    phase: _row(
        phase.value,
        *handled,
        stale=LEARNER_MESSAGES + (LEADER_MESSAGES if phase is FollowerPhase.DISCOVERY else ()),
    )
    for phase, handled in {
        FollowerPhase.DISCOVERY: (LeaderInfo,),
        FollowerPhase.PROMISING: (),
        FollowerPhase.PROMISED: (Diff, Trunc, Snapshot),
        FollowerPhase.RECEIVING: (SnapshotChunk, SnapshotEnd),
        FollowerPhase.SYNCHRONIZING: (Proposals, NewLeader),
        FollowerPhase.LOGGING: (Proposals,),
        FollowerPhase.CONFIRMING: (Proposals,),
        FollowerPhase.CONFIRMED: (Proposals, UpToDate),
    }.items()
}
"""The sender is the leader behind which this server recovers."""

FOLLOWER_BROADCAST: Final = _row("following in broadcast", Proposals, Commit, Ping)
"""The sender is the leader that this server follows."""

NOT_A_LEARNER: Final = _row(
    "leading", FollowerInfo, stale=LEADER_MESSAGES + LEARNER_MESSAGES, answered=False
)
"""This server leads, or is about to, and the sender has not sent FOLLOWERINFO on this link."""

LEADER_RECOVERY: Final = _row(
    "recovering as leader",
    *(FollowerInfo, AckEpoch, AckNewLeader, SnapshotCredit),
    stale=LEADER_MESSAGES,
    answered=False,
)
"""This server is about to lead, and the sender is its learner."""

LEADER_BROADCAST: Final = _row(
    "leading in broadcast",
    *(FollowerInfo, AckEpoch, AckNewLeader, SnapshotCredit, Ack, LogPaused, Pong),
    stale=LEADER_MESSAGES,
    answered=False,
)
"""This server leads, and the sender is its learner."""
