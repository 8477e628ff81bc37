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


RECOVERY = (
    *("FollowerInfo", "LeaderInfo", "AckEpoch", "Diff", "Trunc", "Snapshot", "SnapshotEnd"),
    *("NewLeader", "AckNewLeader", "UpToDate", "SaveEpochs", "Truncate", "InstallSnapshot"),
)
BROADCAST = ("Proposals", "Append", "Ack", "Commit", "SendClient", "ForwardWrites", "Ping")
"""Those that go with a change of leader, and those that go with writes."""


class Reaction(Enum):
    """The reactions of triggered faults. "It" is the server whose message or disk effect it was."""

    CRASH = "crash it"
    CRASH_PEER = "crash whom it spoke to"
    CRASH_LEADER = "crash the leader"
    CRASH_OTHERS = "crash all others"
    BLACKOUT = "crash all, it comes back last"
    BLACKOUT_LEADER = "crash all, the leader comes back last"
    FREEZE = "freeze it"
    FREEZE_LEADER = "freeze the leader"
    ISOLATE = "isolate it"
    ISOLATE_LEADER = "isolate the leader"
    DEPOSE = "part a minority with the leader from the other servers, which it learns late"
    STRAND = "cut it from the other servers, not from its clients"
    LEAVE_BEHIND = (
        "the others leave the leader, which hears late what they said, and that they left"
    )
    FORGET = "crash all, it without what it forced last; the leader comes back last"
    CORRUPT = "crash all, it with a damaged record; the leader comes back last"
    DEPOSE_LEADER = "cut the leader from the other servers, not from its clients"
    LAPSE = "keep a minority behind; then it forgets what it forced last, and is with those alone"
    RELAPSE = "keep a minority behind; then its disk of before is back, and it is with those alone"
    RELIEVE = "cut a minority with the leader off, who was cut off is back, and crash it"
    HOLD_BACK = "what the others say to the leader stays on its way until after they have left it"
    SCATTER = "crash all, they come back one after the other"


_OF_THEIR_OWN = (
    *(Reaction.LAPSE, Reaction.RELAPSE, Reaction.RELIEVE),
    *(Reaction.HOLD_BACK, Reaction.SCATTER),
)
COMMON = tuple(each for each in Reaction if each not in _OF_THEIR_OWN)
"""Those that any trigger may have; the others take a while and have plans of their own."""
