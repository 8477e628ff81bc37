"""Streams of the whole state: to the Snapshotter, and to learners that need all of it.

The tree is walked in short slices between other work (the fuzzy snapshot of the paper, section
4.3): one chunk per step and stream, and only as many as the receiver has given credit for.

Invariant: a snapshot is published only when the log is synced to the zxid at which its walk ended.
Counterexample for less: the walk saw a transaction that was never synced; after a crash the log
ends before it, and replay cannot make the snapshot a consistent state.
"""

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import (
    PublishSnapshot,
    SnapshotAbort,
    SnapshotBegin,
    SnapshotFinish,
    SnapshotWrite,
)
from raykeeper.zab.ids import ServerId, Zxid, format_zxid
from raykeeper.znodes.snapshot import SnapshotWalk

CREDIT_MAX = 4
"""Chunks that may be under way to one receiver."""


class _Stream:
    """One walk of the tree."""

    __slots__ = ("credit", "walk", "zxid")

    def __init__(self, context: ServerContext) -> None:
        self.zxid = context.state.zxid
        self.walk = SnapshotWalk(context.state, context.options.chunk_bytes)
        self.credit = CREDIT_MAX


class SnapshotStreams:
    """The streams under way: at most one to the Snapshotter, and one per learner."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._learners: dict[ServerId, _Stream] = {}
        self._own: _Stream | None = None
        self._finished: tuple[Zxid, Zxid] | None = None  # zxid, consistent_at: being written
        self._is_written = False
        self._is_publishing = False
        self._txns_since_last = 0
        # Each server has another interval, so that not all snapshot at the same moment.
        settings = context.peer.settings
        voters = settings.members.voters
        turn = sum(voter < settings.server_id for voter in voters)
        self._snapshot_every = (
            context.options.snapshot_every_txns * (len(voters) + turn) // len(voters)
        )

    @property
    def has_work(self) -> bool:
        """Whether a stream has credit for a chunk."""
        if self._own is not None and self._own.credit > 0:
            return True
        return bool(self._learners) and any(x.credit > 0 for x in self._learners.values())

    # Learners.

    def start(self, learner: ServerId) -> None:
        """StreamSnapshot: begin a stream of the present state."""
        stream = _Stream(self._context)
        self._learners[learner] = stream
        self._context.peer.snapshot_begin(learner, stream.zxid)

    def on_learner_credit(self, learner: ServerId) -> None:
        """GrantCredit: let one more chunk leave; cut off a learner that took more than it was sent.

        Counterexample for less: a faulty learner could make the whole tree queue on its link.
        """
        stream = self._learners[learner]
        if stream.credit == CREDIT_MAX:
            now = self._context.now.mono
            self._context.peer.reject(learner, "credit for a chunk that was not sent", now)
            return
        stream.credit += 1

    def cancel(self, learner: ServerId) -> None:
        """CancelSnapshot: end the stream of a learner that is gone."""
        del self._learners[learner]

    # The Snapshotter.

    def on_applied(self, count: int) -> None:
        """Count applied transactions, and begin a snapshot when there are enough."""
        self._txns_since_last += count
        if self._txns_since_last >= self._snapshot_every and self._under_way is None:
            self._begin()

    def on_credited(self, zxid: Zxid) -> None:
        """Let one more chunk leave for the Snapshotter."""
        if self._own is not None and self._own.zxid == zxid:
            self._own.credit += 1

    def on_written(self, zxid: Zxid) -> None:
        """Note that the Snapshotter has the snapshot on disk under a temporary name."""
        if self._finished is not None and self._finished[0] == zxid:
            self._is_written = True

    def on_failed(self, zxid: Zxid) -> None:
        """Give up a snapshot; the next one begins after as many transactions again."""
        if zxid == self._under_way and not self._is_publishing:
            self._context.trace(trace_events.SNAPSHOT_FAILED, format_zxid(zxid))
            self._reset()

    def on_published(self, zxid: Zxid) -> None:
        """Note that the snapshot has its name and older files are pruned."""
        self._context.trace(trace_events.SNAPSHOT_PUBLISHED, format_zxid(zxid))
        self._reset()

    def on_state_replaced(self) -> None:
        """Abort the snapshot of a state that a received one has replaced."""
        assert not self._learners, "streams to learners end with the role"
        zxid = self._under_way
        if zxid is not None and not self._is_publishing:
            self._context.out.append(SnapshotAbort(zxid))
            self._reset()
        self._txns_since_last = 0

    def send_chunks(self) -> None:
        """Send a chunk of each stream that has credit; publish a complete snapshot."""
        if self._learners:
            for learner, stream in list(self._learners.items()):
                if stream.credit > 0:
                    self._send_chunk(learner, stream)
        if self._own is not None and self._own.credit > 0:
            self._write_chunk(self._own)
        if self._finished is not None and self._is_written and not self._is_publishing:
            zxid, consistent_at = self._finished
            if self._context.peer.history.is_synced_to(consistent_at):
                self._is_publishing = True
                self._context.out.append(PublishSnapshot(zxid))

    # Within.

    @property
    def _under_way(self) -> Zxid | None:
        """The zxid of the snapshot that the Snapshotter is writing or has written."""
        if self._own is not None:
            return self._own.zxid
        return None if self._finished is None else self._finished[0]

    def _begin(self) -> None:
        self._own = _Stream(self._context)
        self._txns_since_last = 0
        self._context.trace(trace_events.SNAPSHOT_STARTED, format_zxid(self._own.zxid))
        self._context.out.append(SnapshotBegin(self._own.zxid))

    def _send_chunk(self, learner: ServerId, stream: _Stream) -> None:
        chunk = stream.walk.next_chunk()
        if chunk is not None:
            stream.credit -= 1
            self._context.peer.snapshot_chunk(learner, chunk)
        else:
            del self._learners[learner]
            self._context.peer.snapshot_end(learner, self._context.state.zxid)

    def _write_chunk(self, stream: _Stream) -> None:
        chunk = stream.walk.next_chunk()
        if chunk is not None:
            stream.credit -= 1
            self._context.out.append(SnapshotWrite(stream.zxid, chunk))
        else:
            self._own = None
            self._finished = (stream.zxid, self._context.state.zxid)
            self._context.out.append(SnapshotFinish(stream.zxid, self._context.state.zxid))

    def _reset(self) -> None:
        self._own = None
        self._finished = None
        self._is_written = False
        self._is_publishing = False
