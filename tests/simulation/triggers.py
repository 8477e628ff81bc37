"""The triggers of triggered faults, and their reactions (see triggered_faults.py)."""

from enum import Enum

TRIGGERS = (
    *("Notification", "FollowerInfo", "LeaderInfo", "AckEpoch", "Diff", "Trunc", "Snapshot"),
    *("SnapshotEnd", "NewLeader", "AckNewLeader", "UpToDate", "Proposals", "Ack", "Commit"),
    *("Ping", "Pong", "LogPaused", "ForwardWrites", "ForwardConnect", "TouchSessions"),
    *("TouchSessionsReply", "ReadIndexRequest", "ReadIndexReply", "DigestRequest"),
    *("Append", "SaveEpochs", "Truncate", "ReadLog", "ReceiveSnapshot", "InstallSnapshot"),
    *("PublishSnapshot", "VoteGranted", "SendClient", "CloseClient"),
    "TrackSessions",
)
"""Messages to servers, and effects on the disk and for clients, by the names of their types."""


ANY = "*"
"""Any effect, of a triggered fault that waits for one server alone."""

RECOVERY = (
    *("FollowerInfo", "LeaderInfo", "AckEpoch", "Diff", "Trunc", "Snapshot", "SnapshotEnd"),
    *("NewLeader", "AckNewLeader", "UpToDate", "SaveEpochs", "Truncate", "InstallSnapshot"),
)
BROADCAST = ("Proposals", "Append", "Ack", "Commit", "SendClient", "ForwardWrites", "Ping")
"""The triggers of a change of leader, and those of writes."""


class Reaction(Enum):
    """The reactions of triggered faults. "It" is the server whose message or disk effect it was."""

    CRASH = "crash it"
    CRASH_PEER = "crash the receiver"
    CRASH_LEADER = "crash the leader"
    CRASH_OTHERS = "crash all others"
    BLACKOUT = "crash all, it comes back last"
    BLACKOUT_LEADER = "crash all, the leader comes back last"
    FREEZE = "freeze it"
    FREEZE_LEADER = "freeze the leader"
    ISOLATE = "isolate it"
    ISOLATE_LEADER = "isolate the leader"
    PARTITION_LEADER = (
        "separate a minority with the leader from the other servers, which the leader learns late"
    )
    CUT_FROM_SERVERS = "cut it from the other servers, not from its clients"
    LEAVE_LEADER = "the others leave the leader, which receives their messages and the breaks late"
    FORGET = "crash all, it without its last force; the leader comes back last"
    CORRUPT = "crash all, it with a damaged record; the leader comes back last"
    CUT_LEADER = "cut the leader from the other servers, not from its clients"
    FORGET_WITH_MINORITY = (
        "keep a minority behind; then it loses its last force and reaches only that minority"
    )
    OLD_DISK_WITH_MINORITY = (
        "keep a minority behind; then it has its previous disk and reaches only that minority"
    )
    SWITCH_MINORITY = (
        "cut off a minority with the leader, reconnect the previous minority, and crash it"
    )
    HOLD_THEN_LEAVE = "messages of the others reach the leader only after they have left it"
    STAGGERED_CRASH = "crash all, they come back one after the other"
    CRASH_JOINING = "crash the server that the newest member list has more"
    CRASH_LEAVING = "crash the server that the newest member list has no more"
    FORGET_JOINING = (
        "let the leader reach none but the server that the newest member list has more; then crash "
        "all, that one without its last force; the leader comes back last"
    )
    FREEZE_JOINING = "freeze the server that the newest member list has more"
    LATE_TRACKER = "the session tracker of the leader takes reports, and answers them, late"


_OF_THEIR_OWN = (
    *(Reaction.FORGET_WITH_MINORITY, Reaction.OLD_DISK_WITH_MINORITY, Reaction.SWITCH_MINORITY),
    *(Reaction.HOLD_THEN_LEAVE, Reaction.STAGGERED_CRASH),
    *(Reaction.CRASH_JOINING, Reaction.CRASH_LEAVING, Reaction.FREEZE_JOINING),
    *(Reaction.FORGET_JOINING, Reaction.LATE_TRACKER),
)
COMMON = tuple(each for each in Reaction if each not in _OF_THEIR_OWN)
"""Reactions that any trigger may have; the others take longer and have plans of their own."""
