"""The events of a server: a closed union; all that wait are handed to one `step`."""

from typing import Final

from msgspec import Struct

from raykeeper.server.peer_messages import PeerMessage
from raykeeper.server.process_facts import ProcessFacts
from raykeeper.zab.effects import LogRun
from raykeeper.zab.ids import Epoch, ServerId, Zxid
from raykeeper.znodes.expiry import ExpiryProposal
from raykeeper.znodes.requests import Reconfig


class LinkUp(Struct, frozen=True):
    """A link to another server was opened; nothing is under way on it."""

    peer: ServerId


class LinkDown(Struct, frozen=True):
    """The link to another server is gone, with everything that was under way on it."""

    peer: ServerId


class PeerFrame(Struct, frozen=True):
    """Messages of another server, in order."""

    peer: ServerId
    messages: list[PeerMessage]


class ClientFrameArrived(Struct, frozen=True):
    """A frame of a client; the first one of a new `connection` number opens it.

    Connection numbers are never used twice, by any incarnation of this server.
    """

    connection: int
    data: bytes
    host: str = ""


class JuteClientConnected(Struct, frozen=True):
    """A client of ZooKeeper opened a connection; see `ClientFrameArrived` for its number.

    `password`: 16 bytes that the shell has drawn at random. A new session on this connection gets
    them, since these clients draw none.
    """

    connection: int
    host: str
    password: bytes
    port: int = 0


class JuteBytesArrived(Struct, frozen=True):
    """Bytes of a client of ZooKeeper, cut anywhere."""

    connection: int
    data: bytes


class ProcessFactsRead(Struct, frozen=True):
    """Completion of ReadProcessFacts."""

    facts: ProcessFacts


class ClientDisconnected(Struct, frozen=True):
    """The client's link is closed; its session lives on."""

    connection: int


class ClientProcessDied(Struct, frozen=True):
    """The process at the other end of `connection` is dead beyond doubt; so is its link by now.

    The event may be late, repeated, or about a connection that was refused. The session ends only
    if it still belongs to that connection.
    """

    connection: int


class ClientBytesSent(Struct, frozen=True):
    """`bytes` of what was sent to a client have left since the last event of this kind.

    The shell may collect bytes for one event, but not more than `SENT_REPORT_BYTES`.
    """

    connection: int
    bytes: int


SENT_REPORT_BYTES: Final = 1 << 20
JUTE_SENT_REPORT_BYTES: Final = 32 << 10
"""The same for a client of ZooKeeper: what all of them keep has a bound, and is counted by this."""
JUTE_WRITE_BUFFER_BYTES: Final = 32 << 10
"""As long as no more is on its way to such a client, the shell need not report what has left."""


class LogSynced(Struct, frozen=True):
    """Completion of Append: the log is on disk up to `upto`."""

    upto: Zxid


class EpochsSaved(Struct, frozen=True):
    """Completion of SaveEpochs."""

    accepted: Epoch
    current: Epoch


class LogTruncated(Struct, frozen=True):
    """Completion of Truncate."""

    upto: Zxid


class SnapshotInstalled(Struct, frozen=True):
    """Completion of InstallSnapshot: snapshot `zxid` and its tail replaced snapshot and log."""

    zxid: Zxid


class LogRead(Struct, frozen=True):
    """Completion of ReadLog: the transactions of (after, upto], or none."""

    learner: ServerId
    after: Zxid
    runs: list[LogRun]


class SnapshotCredited(Struct, frozen=True):
    """The Snapshotter took a chunk of the snapshot as of `zxid` and may be sent another."""

    zxid: Zxid


class SnapshotWritten(Struct, frozen=True):
    """The Snapshotter has the whole snapshot as of `zxid` in a temporary file, forced."""

    zxid: Zxid


class SnapshotFailed(Struct, frozen=True):
    """The Snapshotter died or could not write; the snapshot as of `zxid` will not be completed."""

    zxid: Zxid


class SnapshotPublished(Struct, frozen=True):
    """Completion of PublishSnapshot: it is durable and older files were pruned."""

    zxid: Zxid


class DiskSpaceChanged(Struct, frozen=True):
    """The disk has no space for another segment of the log, or has it again (rule D6).

    Everything accepted so far still fits. Also the completion of CheckDiskSpace.
    """

    has_disk_space: bool


class SessionsOverdue(Struct, frozen=True):
    """Expiry proposals of the session tracker."""

    proposals: list[ExpiryProposal]


class TransferRequested(Struct, frozen=True):
    """An operator asks this server to transfer the lead. Completion: TransferAnswered.

    `to` is a voter, None for any. The transfer is abandoned after `within_ms`, and refused if the
    voter lacks more than `lag_max` transactions.
    """

    request: int
    to: ServerId | None
    within_ms: int
    lag_max: int


class ReconfigRequested(Struct, frozen=True):
    """An operator asks this server for a step of the member list. Completion: ReconfigAnswered."""

    request: int
    op: Reconfig


class DrainRequested(Struct, frozen=True):
    """An operator has this server take no more clients, and move those it has to other servers.

    It moves at most `clients_per_s`, and waits up to `patience_ms` for clients of ZooKeeper that
    are never without a request. It lasts until DrainEnded, or to the end of the process.
    """

    clients_per_s: int
    patience_ms: int


class DrainEnded(Struct, frozen=True):
    """An operator has this server take clients again, if it was drained."""


class TrackerLost(Struct, frozen=True):
    """The session tracker died or did not answer; its knowledge is lost."""


Event = (
    LinkUp
    | LinkDown
    | PeerFrame
    | ClientFrameArrived
    | JuteClientConnected
    | JuteBytesArrived
    | ProcessFactsRead
    | ClientDisconnected
    | ClientProcessDied
    | ClientBytesSent
    | LogSynced
    | EpochsSaved
    | LogTruncated
    | SnapshotInstalled
    | LogRead
    | SnapshotCredited
    | SnapshotWritten
    | SnapshotFailed
    | SnapshotPublished
    | DiskSpaceChanged
    | SessionsOverdue
    | TransferRequested
    | ReconfigRequested
    | DrainRequested
    | DrainEnded
    | TrackerLost
)
DiskEvent = (
    LogSynced
    | EpochsSaved
    | LogTruncated
    | SnapshotInstalled
    | LogRead
    | SnapshotPublished
    | DiskSpaceChanged
)
