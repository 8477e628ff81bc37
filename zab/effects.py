"""The requests of the protocol to its surroundings: a closed union, carried out in list order.

An effect on the disk has a completion that comes back as an event: `Append` is answered by
"log synced", `SaveEpochs` by "epochs saved", `Truncate` by "log truncated", `InstallSnapshot` by
"snapshot installed", `ReadLog` by "log read". The disk works off its effects in order. A server
takes up a new role only when nothing that changes the log or the epochs is under way (rule Z2), so
a completion never reaches another role than the one that asked. Only "log read" can: it says what
was asked.
"""

from enum import Enum
from typing import Any

from msgspec import Struct

from raykeeper.zab.ids import Epoch, ServerId, Zxid
from raykeeper.zab.messages import ZabMessage


class Role(Enum):
    """The role of a server in its ensemble."""

    LOOKING = "looking"
    FOLLOWER = "follower"
    OBSERVER = "observer"
    LEADER = "leader"


class Send(Struct, frozen=True):
    """Send `message` over the link to `peer`; a link that is down drops it."""

    peer: ServerId
    message: ZabMessage


class BreakLink(Struct, frozen=True):
    """Drop the link to `peer`, which broke the protocol or is beyond help on this link."""

    peer: ServerId
    reason: str


class Append(Struct, frozen=True):
    """Append a run of transactions to the log and force it. Completion: synced up to a zxid.

    `committed` is the newest zxid known to be committed; it is stored with the batch.
    """

    first: Zxid
    txns: list[bytes]
    committed: Zxid


class Truncate(Struct, frozen=True):
    """Cut the log after `upto`, durably. Completion: log truncated."""

    upto: Zxid


class SaveEpochs(Struct, frozen=True):
    """Save both promises in one file, atomically and durably. Completion: epochs saved."""

    accepted: Epoch
    current: Epoch


class ReadLog(Struct, frozen=True):
    """Read the transactions in (after, upto] from the log on disk for `learner`.

    Completion: log read, with none when the log does not reach back to the first zxid above
    `after`, or when they are more than `bytes_max` together: a snapshot is then the shorter way.
    """

    learner: ServerId
    after: Zxid
    upto: Zxid
    bytes_max: int


class CheckDiskSpace(Struct, frozen=True):
    """See whether the disk has room for another segment of the log again (rule D6).

    Completion: room changed, whether or not it did.
    """


class VoteGranted(Struct, frozen=True):
    """Delete what this disk replaced: the member list names this disk now. No completion."""


class ReceiveSnapshot(Struct, frozen=True):
    """Open a temporary snapshot as of `zxid`, dropping an earlier temporary one."""

    zxid: Zxid


class ReceiveChunk(Struct, frozen=True):
    """Add a chunk to the temporary snapshot."""

    data: bytes


class DiscardSnapshot(Struct, frozen=True):
    """Drop the temporary snapshot: the link broke before it was complete."""


class LogRun(Struct, frozen=True, array_like=True):
    """Transactions with consecutive zxids of one epoch, starting at `first`."""

    first: Zxid
    txns: list[bytes]


class InstallSnapshot(Struct, frozen=True):
    """Replace snapshot and log, at once and durably, by the temporary snapshot and `tail` (Z7).

    `tail` holds every transaction after `zxid` that goes with it, at least up to
    `consistent_at`. A crash leaves either the old state or the new one.
    Completion: snapshot installed.
    """

    zxid: Zxid
    consistent_at: Zxid
    tail: list[LogRun]


class CheckSnapshot(Struct, frozen=True):
    """Check that the received snapshot is a whole tree, or reject the leader."""

    zxid: Zxid
    consistent_at: Zxid


class AdoptSnapshot(Struct, frozen=True):
    """Replace the tree by the received snapshot, which is installed.

    It is a real state only once everything up to `consistent_at` is delivered, which follows.
    """

    zxid: Zxid
    consistent_at: Zxid


class Deliver(Struct, frozen=True):
    """Apply committed transactions, which follow the last delivered one."""

    first: Zxid
    txns: list[bytes]


class StreamSnapshot(Struct, frozen=True):
    """Stream the whole tree to `learner` by `snapshot_begin`, `_chunk`, `_end`."""

    learner: ServerId


class GrantCredit(Struct, frozen=True):
    """Go on with the snapshot streamed to `learner`, which has taken a chunk."""

    learner: ServerId


class CancelSnapshot(Struct, frozen=True):
    """Stop the stream to `learner`, which is gone or which this server leads no more."""

    learner: ServerId


class RoleChanged(Struct, frozen=True):
    """The server entered a role. It may serve clients only after `Activated`."""

    role: Role
    leader: ServerId | None


class Activated(Struct, frozen=True):
    """Broadcast begins: a quorum acknowledged this epoch and its history was delivered.

    On the leader `propose` works from here on until the next `RoleChanged`.
    """

    role: Role
    leader: ServerId
    epoch: Epoch


class HandOverBegun(Struct, frozen=True):
    """This leader prepares nothing more: it waits until the nominee has all of its log."""

    nominee: ServerId


class TransferAbandoned(Struct, frozen=True):
    """The lead was not transferred: this leader goes on, and prepares again what waits."""

    reason: str


class ReadIndex(Struct, frozen=True):
    """A quorum confirmed, after the request for `token` arrived, that this leader leads (Z4).

    `zxid` is the commit point at the arrival of the request.
    """

    token: int
    zxid: Zxid


class TraceEvent(Struct, frozen=True):
    """An event worth a log line, a counter and a trace; `trace_events` holds the names."""

    name: str
    detail: Any = None


DiskEffect = (
    Append
    | Truncate
    | SaveEpochs
    | ReadLog
    | ReceiveSnapshot
    | ReceiveChunk
    | DiscardSnapshot
    | InstallSnapshot
    | CheckDiskSpace
    | VoteGranted
)
ServerEffect = (
    Deliver
    | CheckSnapshot
    | AdoptSnapshot
    | StreamSnapshot
    | GrantCredit
    | CancelSnapshot
    | RoleChanged
    | Activated
    | HandOverBegun
    | TransferAbandoned
    | ReadIndex
)
Effect = Send | BreakLink | DiskEffect | ServerEffect | TraceEvent
Outbox = list[Effect]
