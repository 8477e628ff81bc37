"""A disk in memory that keeps the contract of `actors/disk`, and fails as disks do.

When its server dies, unforced writes are lost entirely or from some batch on. In the second case
bad bytes follow the last good batch. A flipped bit in the last forced batch looks the same, so the
disk is uncertain (rule D4). A flipped bit below the mark of what is known to be forced is
corruption: the disk starts again, empty, under another id.

`zab_disk` is another disk, for Zab alone: it promises less, because Zab needs less.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from msgspec import Struct

from raykeeper.server.effects import PublishSnapshot, SaveLevel
from raykeeper.server.events import (
    DiskEvent,
    DiskSpaceChanged,
    EpochsSaved,
    LogRead,
    LogSynced,
    LogTruncated,
    SnapshotInstalled,
    SnapshotPublished,
)
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.effects import (
    Append,
    CheckDiskSpace,
    DiscardSnapshot,
    DiskEffect,
    InstallSnapshot,
    ReadLog,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
    VoteGranted,
)
from raykeeper.zab.feature_levels import LEVEL_MIN
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, Zxid, epoch_of
from raykeeper.zab.recent_log import follows
from raykeeper.znodes.snapshot import SnapshotWalk
from raykeeper.znodes.state import State
from tests.harness.log_entries import Entry, entries_of, runs_of
from tests.harness.log_space import LogSpace
from tests.harness.schedule import Schedule

_Effect = DiskEffect | PublishSnapshot | SaveLevel
_BATCH_BYTES = 40
_TXN_BYTES = 8
_KEPT: Final = (
    "level",
    *("disk", "incarnation", "accepted", "current", "initial", "is_uncertain"),
    *("has_forgotten", "snapshots", "log", "committed", "_told", "_begin", "_mark", "_bad"),
)
"""What makes a disk."""


class DiskFailedError(Exception):
    """Raised when the disk fails; the process that uses it ends."""


class StoredSnapshot(Struct):
    """A snapshot file."""

    zxid: Zxid
    consistent_at: Zxid
    chunks: list[bytes]


class SimDisk:
    """The durable state of one server, and its effects that are not durable yet."""

    def __init__(
        self, schedule: Schedule, random: Random | None = None, segment_bytes: int = 1_000_000
    ) -> None:
        self.disk = FOUNDING_DISK
        self.level = LEVEL_MIN
        """What the identity says that its content requires."""
        self.incarnation = 0
        self.ahead_ms = 0
        """How far the wall clock of its machine, by which incarnations begin, is ahead."""
        self.repairs = 0
        self.accepted = Epoch(0)
        self.current = Epoch(0)
        self.initial = ZERO  # where the log ended when the server entered the current epoch
        self.is_uncertain = False
        self.has_forgotten = False
        """Whether it is uncertain because something is gone that may have been acknowledged."""
        self.snapshots: list[StoredSnapshot] = []
        self.log: list[Entry] = []
        self.committed = ZERO
        self._told: list[
            tuple[Zxid, Zxid]
        ] = []  # the end of each batch, and what it has as committed
        self.written: dict[Zxid, StoredSnapshot] = {}  # written by the Snapshotter, not published
        self.log_space = LogSpace(segment_bytes)
        self._segment_bytes = segment_bytes
        self.sync_ms_max = 5
        self.slow_ms = 0
        self.fails_write = self.fails_read = False
        """The next time it is asked."""
        self.may_be_uncertain: Callable[[], bool] = lambda: True
        """Whether the world can stand that one more server does not know what it acknowledged."""
        self.has_vote: Callable[[], bool] = lambda: True
        """Whether the vote rests on this disk, by all that was committed."""
        self.is_replaced = False
        """Whether it is another disk, without promises, which has no vote again yet."""
        self._is_locked = False
        self._begin = ZERO  # the log begins after this zxid
        self._mark = ZERO  # known to be forced, because later bytes follow it
        self._bad: Zxid | None = None  # the entry of which a bit has flipped
        self._old_copy: dict[str, Any] | None = None  # contents of the replaced disk
        self._incoming: list[bytes] = []
        self._queue: deque[_Effect] = deque()
        self._schedule = schedule
        self._random = random or schedule.stream("disk")
        self._work = 0  # number of the force under way; older ones are not awaited any more
        self._is_busy = False
        self._deliver: Callable[[list[DiskEvent]], None] = lambda _events: None
        self._failed: Callable[[str], None] = _raise

    def open(
        self,
        deliver: Callable[[list[DiskEvent]], None],
        failed: Callable[[str], None] | None = None,
    ) -> RecoveredState:
        """Start a server on this disk. `failed` is called when the disk becomes useless.

        Raises:
            DiskFailedError: another process has locked it, it cannot be read now, or it has no
                space for a log.
        """
        self._lock()
        try:
            return self._open(deliver, failed)
        except DiskFailedError:
            self._is_locked = False
            raise

    def _lock(self) -> None:
        if self._is_locked:
            raise DiskFailedError("another process has its disk")
        self._is_locked = True

    def _open(
        self, deliver: Callable[[list[DiskEvent]], None], failed: Callable[[str], None] | None
    ) -> RecoveredState:
        self.incarnation = max(self.incarnation + 1, self._schedule.now + self.ahead_ms)
        self._deliver = deliver
        self._failed = failed or _raise
        self._incoming = []
        if self.fails_read:
            self.fails_read = False
            raise DiskFailedError("it cannot be read")
        if self._is_corrupt:
            self.repair()
        if not self.log_space.reopen(bool(self.log), self._random):
            raise DiskFailedError("it has no space for a log")
        snapshot = self.snapshots[-1] if self.snapshots else StoredSnapshot(ZERO, ZERO, [])
        return RecoveredState(
            accepted=self.accepted,
            current=self.current,
            snapshot_zxid=snapshot.zxid,
            consistent_at=snapshot.consistent_at,
            chunks=list(snapshot.chunks),
            runs=runs_of([entry for entry in self.log if entry[0] > snapshot.zxid]),
            committed=max(self.committed, snapshot.consistent_at),
            disk_id=self.disk,
            is_uncertain=self.is_uncertain,
            has_initial_history=self.last >= self.initial,
            has_disk_space=self.log_space.has_space,
            level=self.level,
        )

    def crash(self) -> None:
        """Handle the death of the server: a random part of the queued writes is on the disk."""
        self._is_locked = False
        random = self._random
        for _ in range(random.randint(0, len(self._queue))):
            effect = self._queue.popleft()
            if isinstance(effect, Append) and random.random() < 0.5:
                # Torn: nothing of the batch is left, or bad bytes that cannot be read.
                if random.random() < 0.5 and self.may_be_uncertain():
                    self.is_uncertain = True
                break
            try:
                self._perform(effect)
            except DiskFailedError:
                break
        self._stop()

    def repair(self) -> None:
        """Start again as another, empty disk without promises (rules D3 and D4)."""
        self.repairs += 1
        if not self._is_corrupt:
            self._old_copy = {name: getattr(self, name) for name in _KEPT}
        self.disk = DiskId(f"{self._random.getrandbits(128):032x}")
        self.is_replaced = True
        self.level = LEVEL_MIN
        self.accepted = self.current = Epoch(0)
        self.is_uncertain = self.has_forgotten = False
        self.snapshots, self.log, self.written = [], [], {}
        self.committed = self._begin = self._mark = self.initial = ZERO
        self._told = []
        self._bad = None
        self.log_space.clear()

    def found(self, state: State) -> None:
        """Become a founding disk with this state, as `found_folder` makes one."""
        self.repair()
        walk, zxid = SnapshotWalk(state), state.zxid
        self.snapshots = [StoredSnapshot(zxid, zxid, [*iter(walk.next_chunk, None)])]
        self.disk, self.is_replaced, self._old_copy = FOUNDING_DISK, False, None
        self.level, self.initial = state.level, zxid
        self.accepted = self.current = epoch_of(zxid)

    def bring_back(self) -> bool:
        """Return the disk that `repair` replaced to its server, if there is one."""
        if self._old_copy is None or not self.has_old:
            return False
        self._restore(self._old_copy)
        self.is_replaced = True
        return True

    def take_old(self) -> "SimDisk | None":
        """Return the disk that `repair` replaced, for another process; None if there is none."""
        if self._old_copy is None:
            return None
        other = SimDisk(self._schedule, self._random, self._segment_bytes)
        other._old_copy, self._old_copy = self._old_copy, None
        other.put_back()
        return other

    def put_back(self) -> None:
        """Restore the disk that `repair` replaced, whose vote no other disk has."""
        assert self._old_copy is not None
        self._restore(self._old_copy)
        self.is_replaced = False

    @property
    def has_old(self) -> bool:
        """Return whether `repair` replaced a disk that has no vote any more."""
        return self._old_copy is not None and not self.is_replaced

    def flip_old(self, place: float) -> bool:
        """Flip a bit that is known to be forced, at `place` from 0 to 1. False if there is none."""
        old = [zxid for zxid, _ in self.log if zxid <= self._mark]
        if not old or self._bad is not None:
            return False
        self._bad = old[int(place * len(old))]
        return True

    def flip_last(self) -> bool:
        """Flip a bit of the last forced batch, while no process runs. False if there is none."""
        last = [zxid for zxid, _ in self.log if zxid > self._mark]
        if not last:
            return False
        bad = self._random.choice(last)
        self.log = [entry for entry in self.log if entry[0] < bad]
        self._told = [each for each in self._told if each[0] < bad]
        known = max((snapshot.consistent_at for snapshot in self.snapshots), default=ZERO)
        self.committed = max([known, *(committed for _, committed in self._told)])
        self.is_uncertain = self.has_forgotten = True
        return True

    @property
    def is_locked(self) -> bool:
        """Return whether a process uses it."""
        return self._is_locked

    @property
    def waits_for_vote(self) -> bool:
        """Return whether this is a replaced disk that has no vote, or does not know that it has.

        A founding disk that returns need not know: it has no repair to end.
        """
        return self.is_replaced and not (self.disk == FOUNDING_DISK and self.has_vote())

    @property
    def is_lost(self) -> bool:
        """Return whether its promises are lost or corrupt, and it has not got its vote back."""
        return self.is_replaced or self.is_damaged

    @property
    def is_damaged(self) -> bool:
        """Return whether the next start finds it corrupt, and begins anew as another disk."""
        return self._is_corrupt

    @property
    def _is_corrupt(self) -> bool:
        return self._bad is not None and self._bad > self._base()

    @property
    def last(self) -> Zxid:
        """Return the zxid at the end of the log."""
        return self.log[-1][0] if self.log else self._base()

    @property
    def is_idle(self) -> bool:
        """Return whether all submitted effects are done."""
        return not self._queue

    def submit(self, effects: list[_Effect]) -> None:
        """Queue effects; they are performed in order, with one force for all that wait."""
        self._queue.extend(effects)
        if not self._is_busy:
            self._start()

    def freeze(self) -> None:
        """Freeze the thread that performs the effects."""
        self._work += 1

    def thaw(self) -> None:
        """Thaw that thread, which continues its work."""
        if self._is_busy:
            self._start()

    def _start(self) -> None:
        self._is_busy = True
        self._work += 1
        work, count = self._work, len(self._queue)
        delay = int(self._random.random() * (self.sync_ms_max + self.slow_ms + 1))
        self._schedule.after(delay, lambda: self._complete(work, count))

    def _stop(self) -> None:
        self._queue.clear()
        self._work += 1
        self._is_busy = False

    def _complete(self, work: int, count: int) -> None:
        if work != self._work:
            return
        if self.fails_write:
            self.fails_write = False
            self._failed("a write has failed")
            return
        events: list[DiskEvent] = []
        is_in_row = False
        try:
            for _ in range(count):
                effect = self._queue[0]
                if not isinstance(effect, Append):
                    is_in_row = False
                elif not is_in_row:
                    is_in_row = True  # consecutive appends are forced together
                    self._mark = max(self._mark, self.last)
                self._add(events, self._perform(effect))
                self._queue.popleft()
        except DiskFailedError as error:
            self._failed(str(error))
            return
        self._is_busy = False
        if self._queue:
            self._start()
        if events:
            self._deliver(events)

    def _add(self, events: list[DiskEvent], event: DiskEvent | None) -> None:
        if event is None:
            return
        if isinstance(event, LogSynced) and events and isinstance(events[-1], LogSynced):
            events[-1] = event
        else:
            events.append(event)
        if self.log_space.has_changed() and not isinstance(event, DiskSpaceChanged):
            events.append(DiskSpaceChanged(self.log_space.has_space))

    def _perform(self, effect: _Effect) -> DiskEvent | None:
        match effect:
            case Append():
                self._append(effect)
                return LogSynced(self.log[-1][0])
            case SaveEpochs():
                assert effect.accepted >= self.accepted and effect.current >= self.current
                if effect.current == effect.accepted:
                    # A server that enters an epoch, or joins it again, has the leader's whole log.
                    self.is_uncertain = self.has_forgotten = False
                    self.initial = self.last
                self.accepted, self.current = effect.accepted, effect.current
                return EpochsSaved(effect.accepted, effect.current)
            case Truncate():
                self._truncate(effect.upto)
                return LogTruncated(effect.upto)
            case ReceiveSnapshot() | DiscardSnapshot():
                self._incoming = []
            case ReceiveChunk():
                self._incoming.append(effect.data)
            case InstallSnapshot():
                self._install(effect)
                return SnapshotInstalled(effect.zxid)
            case ReadLog():
                return self._read(effect)
            case SaveLevel():
                self.level = effect.level
            case PublishSnapshot():
                self._publish(effect.zxid)
                return SnapshotPublished(effect.zxid)
            case CheckDiskSpace():
                return DiskSpaceChanged(self.log_space.replenish())
            case VoteGranted():
                # A returned disk goes by what it knew: it believes that it has the vote.
                self.is_replaced = self.is_replaced and not self.has_vote()
        return None

    def _restore(self, shelf: dict[str, Any]) -> None:
        for name, value in shelf.items():
            setattr(self, name, value)
        self._old_copy, self.written = None, {}
        self.log_space.clear()

    def _append(self, effect: Append) -> None:
        last = self.last
        assert follows(effect.first, last), (effect.first, last)
        size = _BATCH_BYTES + sum(map(len, effect.txns)) + _TXN_BYTES * len(effect.txns)
        rolled = self.log_space.append(size)
        if rolled is None:
            # Pending writes, or the entries that a learner lacks, may need more than was left of
            # so small a segment: the process starts again until there is space.
            raise DiskFailedError("all room of the last segment is used")
        if rolled:
            self._mark = last  # a segment is forced before the next one begins
        self.log.extend(entries_of(effect))
        if effect.committed > self.committed:
            self.committed = effect.committed
            self._told.append((self.last, self.committed))

    def _base(self) -> Zxid:
        return self.snapshots[-1].zxid if self.snapshots else ZERO

    def _truncate(self, upto: Zxid) -> None:
        known = max((snapshot.consistent_at for snapshot in self.snapshots), default=ZERO)
        assert upto >= max(self.committed, known), "a committed transaction is cut"
        self.log = [entry for entry in self.log if entry[0] <= upto]
        self._mark = min(self._mark, upto)
        if self._bad is not None and self._bad > upto:
            self._bad = None
        self.log_space.replenish()

    def _install(self, effect: InstallSnapshot) -> None:
        snapshot = StoredSnapshot(effect.zxid, effect.consistent_at, self._incoming)
        self.snapshots = [snapshot]
        self.log = entries_of(*effect.tail)
        self.committed = self._mark = effect.consistent_at
        self._told = []
        self._begin = effect.zxid
        self._bad = None
        self._incoming = []
        self.log_space.clear()

    def _read(self, effect: ReadLog) -> LogRead:
        if self.fails_read:
            self.fails_read = False
            raise DiskFailedError("it cannot be read")
        found: list[Entry] = []
        if self._begin <= effect.after < self.last:
            found = [entry for entry in self.log if effect.after < entry[0] <= effect.upto]
        if self._bad is not None and found and found[0][0] <= self._bad <= found[-1][0]:
            if self._is_corrupt:
                raise DiskFailedError("a record is damaged")
            # No start needs the damaged part, so it is dropped.
            self._prune(self._bad)
            found = []
        if sum(len(txn) for _, txn in found) > effect.bytes_max:
            found = []
        return LogRead(effect.learner, effect.after, runs_of(found))

    def _publish(self, zxid: Zxid) -> None:
        snapshot = self.written.pop(zxid)
        assert snapshot.consistent_at <= self.last, "published before its log was synced"
        self._mark = max(self._mark, snapshot.consistent_at)
        self.snapshots = [*self.snapshots[-2:], snapshot]
        self._prune(self.snapshots[0].zxid)

    def _prune(self, upto: Zxid) -> None:
        self._begin = max(self._begin, upto)
        self.log = [entry for entry in self.log if entry[0] > upto]
        if self._bad is not None and self._bad <= upto:
            self._bad = None


def _raise(reason: str) -> None:
    raise DiskFailedError(reason)
