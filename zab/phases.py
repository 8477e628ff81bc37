"""Which message is legal when: a table, so that a test can walk the whole product.

A message that is legal for nobody here is a breach of the protocol and breaks the link. One that
a server in another role may have sent before it learned of our present role is *stale*: it is
noted and ignored. Election notifications are legal always.
"""

from enum import Enum

from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
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
    """How far a learner's recovery has come."""

    DISCOVERY = "discovery"
    """FOLLOWERINFO was sent; everything before LEADERINFO is of an earlier stint."""
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


LEADER_MESSAGES: frozenset[type] = frozenset(
    {
        LeaderInfo,
        Diff,
        Trunc,
        Snapshot,
        SnapshotChunk,
        SnapshotEnd,
        NewLeader,
        UpToDate,
        Proposals,
        Commit,
        Ping,
    }
)
LEARNER_MESSAGES: frozenset[type] = frozenset(
    {FollowerInfo, AckEpoch, AckNewLeader, SnapshotCredit, Ack, LogPaused, Pong}
)

FOLLOWER_RECOVERY: dict[FollowerPhase, frozenset[type]] = {
    FollowerPhase.DISCOVERY: frozenset({LeaderInfo}),
    FollowerPhase.PROMISING: frozenset(),
    FollowerPhase.PROMISED: frozenset({Diff, Trunc, Snapshot}),
    FollowerPhase.RECEIVING: frozenset({SnapshotChunk, SnapshotEnd}),
    FollowerPhase.SYNCHRONIZING: frozenset({Proposals, NewLeader}),
    FollowerPhase.LOGGING: frozenset({Proposals}),
    FollowerPhase.CONFIRMING: frozenset({Proposals}),
    FollowerPhase.CONFIRMED: frozenset({Proposals, UpToDate}),
}
FOLLOWER_BROADCAST: frozenset[type] = frozenset({Proposals, Commit, Ping})
LEADER_RECOVERY: frozenset[type] = frozenset({FollowerInfo, AckEpoch, AckNewLeader, SnapshotCredit})
LEADER_BROADCAST: frozenset[type] = LEARNER_MESSAGES
