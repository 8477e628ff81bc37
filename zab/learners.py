"""The leader's side of every learner: handshake, synchronization, and what it was sent and acked.

ZooKeeper: `LearnerHandler`, `LearnerMaster`. One table serves discovery and broadcast, since a
learner may join in either.

Invariant: acked <= sent for each learner; what lies between a learner's synchronization point and
`sent` was sent to it once, in order, so acks and commits can be cumulative (rule Z3).
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    BreakLink,
    CancelSnapshot,
    GrantCredit,
    LogRun,
    Outbox,
    ReadLog,
    Send,
    StreamSnapshot,
    TraceEvent,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.history import History
from raykeeper.zab.ids import ZERO, Epoch, Millis, ServerId, Zxid, format_zxid
from raykeeper.zab.members import Seat
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
    Trunc,
)
from raykeeper.zab.recent_log import split_run
from raykeeper.zab.settings import Settings
from raykeeper.zab.sync_mode import SyncMode, choose_sync_mode, read_after, usable_runs


class Stage(IntEnum):
    """How far a learner has come; it only moves forward."""

    FOLLOWER_INFO_RECEIVED = 0
    """FOLLOWERINFO arrived."""
    LEADER_INFO_SENT = 1
    """LEADERINFO was sent."""
    PROMISED = 2
    """ACKEPOCH arrived; synchronization waits for a quorum of them."""
    READING = 3
    """The log on disk is read for it."""
    STREAMING = 4
    """The tree is streamed to it."""
    SYNCING = 5
    """NEWLEADER was sent; every proposal is forwarded from here on."""
    FOLLOWING = 6
    """NEWLEADER was acknowledged."""


class Learner:
    """The leader's view of one learner, on its present link and attempt to follow."""

    def __init__(
        self, server_id: ServerId, info: FollowerInfo, has_vote: bool, now: Millis
    ) -> None:
        self.server_id = server_id
        self.follow_attempt = info.follow_attempt
        self.disk = info.disk
        self.level = info.level
        self.seat: Seat = (server_id, info.disk)
        self.has_vote = has_vote
        self.stage = Stage.FOLLOWER_INFO_RECEIVED
        self.has_promised = False
        self.is_uncertain = False
        self.is_ahead = False
        """Whether it has a better history than this leader, and not every list has its seat."""
        self.is_logging = True
        self.last_zxid = ZERO
        self.snapshot_zxid = ZERO
        self.new_leader_last = ZERO
        self.sent = ZERO
        self.acked = ZERO
        self.acked_at = now
        self.last_pong = 0
        self.last_received_at = now


class Learners:
    """The learners of one leader, from its election to its end."""

    def __init__(self, settings: Settings, history: History, out: Outbox) -> None:
        self.epoch = Epoch(0)  # proposed; 0 until a quorum was heard
        self.is_synchronizing = False  # a quorum promised the epoch
        self._settings = settings
        self._history = history
        self._out = out
        self._by_id: dict[ServerId, Learner] = {}

    def __iter__(self) -> Iterator[Learner]:
        return iter(self._by_id.values())

    def get(self, server_id: ServerId) -> Learner | None:
        """Return the learner if it has sent FOLLOWERINFO on this link."""
        return self._by_id.get(server_id)

    def on_follower_info(self, sender: ServerId, info: FollowerInfo, now: Millis) -> None:
        """Handle FOLLOWERINFO: a learner begins, or begins anew with another attempt to follow."""
        known = self._by_id.get(sender)
        if known is not None and known.follow_attempt == info.follow_attempt:
            return  # sent again on our LEADING notification
        self.drop(sender, "began anew")
        required = self._settings.levels.required
        if info.level < required:
            # It would be sent this log, in which it could not read the raise.
            reason = f"its program knows feature level {info.level}, and {required} is required"
            self._out.append(TraceEvent(trace_events.LEVEL_REFUSED, (sender, reason)))
            self._out.append(BreakLink(sender, reason))
            return
        votes = self._settings.members.has_vote(sender, info.disk)
        self._by_id[sender] = Learner(sender, info, votes, now)
        if self.epoch:
            self.send_leader_info(self._by_id[sender])

    def send_leader_info(self, learner: Learner) -> None:
        """Send LEADERINFO: propose the epoch."""
        assert learner.stage is Stage.FOLLOWER_INFO_RECEIVED, learner.stage
        learner.stage = Stage.LEADER_INFO_SENT
        self._out.append(
            Send(
                learner.server_id,
                LeaderInfo(self.epoch, learner.follow_attempt, self._settings.levels.required),
            )
        )

    def on_ack_epoch(self, learner: Learner, ack: AckEpoch) -> None:
        """Handle ACKEPOCH: synchronize at once if a quorum has promised, else when it has.

        Raises:
            PeerProtocolError: LEADERINFO was not sent, or was answered before.
        """
        if learner.stage is not Stage.LEADER_INFO_SENT:
            raise PeerProtocolError(f"ACKEPOCH at stage {learner.stage.name}")
        learner.stage = Stage.PROMISED
        learner.has_promised = ack.promised
        learner.is_uncertain = ack.is_uncertain
        learner.last_zxid = ack.last_zxid
        if self.is_synchronizing:
            self.synchronize(learner)

    def synchronize(self, learner: Learner) -> None:
        """Choose how to synchronize, and begin."""
        assert learner.stage is Stage.PROMISED, learner.stage
        window = self._history.recent_log
        way = choose_sync_mode(learner.last_zxid, window)
        if way is SyncMode.READ_LOG:
            # The recent log must not move on while the disk is read up to its base.
            self._history.pin(learner.server_id, window.base)
            learner.stage = Stage.READING
            self._trace(trace_events.SYNC_READ_LOG, learner)
            self._out.append(
                ReadLog(
                    learner.server_id,
                    read_after(learner.last_zxid),
                    window.base,
                    self._settings.window.read_log_bytes_max,
                )
            )
        elif way is SyncMode.SNAPSHOT:
            self._stream(learner)
        elif way is SyncMode.TRUNC:
            self._trace(trace_events.SYNC_TRUNC, learner)
            self._out.append(Send(learner.server_id, Trunc(window.last)))
            self._send_rest(learner, window.last)
        else:
            self._trace(trace_events.SYNC_DIFF, learner)
            self._out.append(Send(learner.server_id, Diff()))
            self._send_rest(learner, learner.last_zxid)

    def log_read(self, learner: Learner, after: Zxid, runs: list[LogRun]) -> None:
        """Handle the completion of ReadLog: a DIFF if the disk had it all, else a snapshot."""
        if learner.stage is not Stage.READING or after != read_after(learner.last_zxid):
            return  # an earlier attempt to follow asked for it
        usable = usable_runs(learner.last_zxid, self._history.recent_log.base, runs)
        if usable is None:
            self._stream(learner)
            return
        self._trace(trace_events.SYNC_DIFF, learner)
        self._out.append(Send(learner.server_id, Diff()))
        self._send_runs(learner, usable)
        self._send_rest(learner, self._history.recent_log.base)

    def snapshot_begin(self, learner: Learner, zxid: Zxid) -> None:
        """Begin the stream with the tree as of `zxid`, the last delivered transaction."""
        assert learner.stage is Stage.STREAMING, learner.stage
        assert zxid == self._history.delivered, (zxid, self._history.delivered)
        learner.snapshot_zxid = zxid
        self._history.pin(learner.server_id, zxid)
        self._out.append(Send(learner.server_id, Snapshot(zxid)))

    def snapshot_chunk(self, learner: Learner, data: bytes) -> None:
        """Send one chunk."""
        assert learner.stage is Stage.STREAMING, learner.stage
        self._out.append(Send(learner.server_id, SnapshotChunk(data)))

    def on_snapshot_credit(self, learner: Learner) -> None:
        """Continue the stream to a learner that took a chunk, if the stream still runs."""
        if learner.stage is Stage.STREAMING:
            self._out.append(GrantCredit(learner.server_id))

    def snapshot_end(self, learner: Learner, consistent_at: Zxid) -> None:
        """End the stream: the tree is complete, and what was proposed since it began follows."""
        assert learner.stage is Stage.STREAMING, learner.stage
        self._out.append(Send(learner.server_id, SnapshotEnd(consistent_at)))
        self._send_rest(learner, learner.snapshot_zxid)

    def on_ack_new_leader(self, learner: Learner, ack: AckNewLeader, now: Millis) -> None:
        """Handle the ack of NEWLEADER: the learner has on disk what it was sent before NEWLEADER.

        Raises:
            PeerProtocolError: NEWLEADER was not sent, or another epoch is acknowledged.
        """
        if learner.stage is not Stage.SYNCING or ack.epoch != self.epoch:
            raise PeerProtocolError(f"ACK of NEWLEADER {ack.epoch} at stage {learner.stage.name}")
        learner.stage = Stage.FOLLOWING
        learner.acked = learner.new_leader_last
        learner.acked_at = now

    def drop(self, server_id: ServerId, reason: str) -> None:
        """Forget a learner; ignore an unknown one."""
        learner = self._by_id.pop(server_id, None)
        if learner is None:
            return
        self._history.unpin(server_id)
        if learner.stage is Stage.STREAMING:
            self._out.append(CancelSnapshot(server_id))
        self._out.append(TraceEvent(trace_events.LEARNER_LOST, (server_id, reason)))

    def level_of_all(self, members: Iterable[ServerId]) -> FeatureLevel | None:
        """Return the newest feature level that all `members`, this server included, know.

        None while one of them does not follow: nobody knows what its program knows now.
        """
        levels = [learner.level for learner in self]  # also of one that is being synchronized
        for member in members:
            learner = self._by_id.get(member)
            if member == self._settings.server_id:
                levels.append(self._settings.levels.newest)
            elif learner is None or learner.stage is not Stage.FOLLOWING:
                return None
            else:
                levels.append(learner.level)
        return min(levels)

    def members_changed(self) -> None:
        """Count every learner under the disk that the member list names now (rule D3)."""
        for learner in self:
            learner.has_vote = self._settings.members.has_vote(learner.server_id, learner.disk)

    def clear(self) -> None:
        """Forget all learners at the end of the role."""
        for server_id in list(self._by_id):
            self.drop(server_id, "role ended")

    def _stream(self, learner: Learner) -> None:
        learner.stage = Stage.STREAMING
        # Until the stream begins nothing may fall out of the recent log that it will need.
        self._history.pin(learner.server_id, self._history.delivered)
        self._trace(trace_events.SYNC_SNAPSHOT, learner)
        self._out.append(StreamSnapshot(learner.server_id))

    def _send_rest(self, learner: Learner, after: Zxid) -> None:
        window = self._history.recent_log
        self._send_runs(learner, window.between(after, window.last))
        self._history.unpin(learner.server_id)
        learner.sent = learner.new_leader_last = window.last
        # Its time to ack starts now, not before the stream.
        learner.acked_at = learner.last_received_at
        learner.stage = Stage.SYNCING
        self._out.append(Send(learner.server_id, NewLeader(self.epoch, window.last)))

    def _send_runs(self, learner: Learner, runs: list[LogRun]) -> None:
        for run in runs:
            for part in split_run(run, self._settings.window.message_bytes_max):
                message = Proposals(part.first, part.txns, self._history.committed)
                self._out.append(Send(learner.server_id, message))

    def _trace(self, name: str, learner: Learner) -> None:
        self._out.append(TraceEvent(name, (learner.server_id, format_zxid(learner.last_zxid))))
