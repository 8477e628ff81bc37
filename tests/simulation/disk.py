"""A disk in memory: what was not synced when its server crashed may be lost, wholly or in part."""

from collections import deque
from collections.abc import Callable
from random import Random

from msgspec import Struct

from raykeeper.actors.effects import PublishSnapshot
from raykeeper.actors.events import (
    DiskEvent,
    EpochsSaved,
    LogRead,
    LogSynced,
    LogTruncated,
    SnapshotInstalled,
    SnapshotPublished,
)
from raykeeper.actors.recovered import Recovered
from raykeeper.zab.effects import (
    Append,
    DiscardSnapshot,
    DiskEffect,
    InstallSnapshot,
    ReadLog,
    ReceiveChunk,
    ReceiveSnapshot,
    Run,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.ids import ZERO, Epoch, Zxid
from raykeeper.zab.window import follows
from tests.simulation.schedule import Schedule

_Effect = DiskEffect | PublishSnapshot


class StoredSnapshot(Struct):
    """A snapshot file."""

    zxid: Zxid
    consistent_at: Zxid
    chunks: list[bytes]


class SimDisk:
    """The durable state of one server, and the effects that are not durable yet."""

    def __init__(self, schedule: Schedule, random: Random | None = None) -> None:
        self.accepted = Epoch(0)
        self.current = Epoch(0)
        self.snapshots: list[StoredSnapshot] = []
        self.log: list[tuple[Zxid, bytes]] = []
        self.committed = ZERO
        self.written: dict[Zxid, StoredSnapshot] = {}  # by the Snapshotter, not published
        self.sync_ms_max = 5
        self._incoming: list[bytes] = []
        self._queue: deque[_Effect] = deque()
        self._schedule = schedule
        self._random = random or schedule.stream("disk")
        self._life = 0
        self._is_busy = False
        self._is_frozen = False
        self._deliver: Callable[[list[DiskEvent]], None] = lambda _events: None

    def open(self, deliver: Callable[[list[DiskEvent]], None]) -> Recovered:
        """A server starts on this disk."""
        self._life += 1
        self._deliver = deliver
        self._incoming = []
        snapshot = self.snapshots[-1] if self.snapshots else None
        base = snapshot.zxid if snapshot else ZERO
        return Recovered(
            accepted=self.accepted,
            current=self.current,
            snapshot_zxid=base,
            consistent_at=snapshot.consistent_at if snapshot else ZERO,
            chunks=list(snapshot.chunks) if snapshot else [],
            runs=_runs([entry for entry in self.log if entry[0] > base]),
            committed=max(self.committed, snapshot.consistent_at if snapshot else ZERO),
        )

    def crash(self) -> None:
        """The server dies: a random part of what was queued has reached the platter."""
        random = self._random
        self._is_frozen = False
        for _ in range(random.randint(0, len(self._queue))):
            effect = self._queue.popleft()
            if isinstance(effect, Append) and random.random() < 0.5:
                kept = effect.txns[: random.randint(0, len(effect.txns))]
                self._append(effect.first, kept, self.committed)  # a torn batch
                break
            self._perform(effect)
        self._queue.clear()
        self._life += 1
        self._is_busy = False

    def submit(self, effects: list[_Effect]) -> None:
        """Queue effects; they are performed in order, all that wait by one sync."""
        self._queue.extend(effects)
        if not self._is_busy:
            self._begin()

    def freeze(self) -> None:
        """The thread that works off the effects stands still."""
        self._is_frozen = True

    def thaw(self) -> None:
        """It goes on with what was under way."""
        self._is_frozen = False
        if self._is_busy:
            self._begin()

    def _begin(self) -> None:
        self._is_busy = True
        life, count = self._life, len(self._queue)
        delay = self._random.randint(0, self.sync_ms_max)
        self._schedule.after(delay, lambda: self._complete(life, count))

    def _complete(self, life: int, count: int) -> None:
        if life != self._life or self._is_frozen:
            return
        events: list[DiskEvent] = []
        for _ in range(count):
            event = self._perform(self._queue.popleft())
            if isinstance(event, LogSynced) and events and isinstance(events[-1], LogSynced):
                events[-1] = event
            elif event is not None:
                events.append(event)
        self._is_busy = False
        if self._queue:
            self._begin()
        if events:
            self._deliver(events)

    def _perform(self, effect: _Effect) -> DiskEvent | None:
        match effect:
            case Append():
                self._append(effect.first, effect.txns, effect.committed)
                return LogSynced(self.log[-1][0])
            case SaveEpochs():
                assert effect.accepted >= self.accepted and effect.current >= self.current
                self.accepted, self.current = effect.accepted, effect.current
                return EpochsSaved(effect.accepted, effect.current)
            case Truncate():
                assert effect.upto >= self.committed, "a committed transaction is cut"
                self.log = [entry for entry in self.log if entry[0] <= effect.upto]
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
            case PublishSnapshot():
                self._publish(effect.zxid)
                return SnapshotPublished(effect.zxid)
        return None

    def _append(self, first: Zxid, txns: list[bytes], committed: Zxid) -> None:
        last = self.log[-1][0] if self.log else self._base()
        assert follows(first, last), (first, last)
        self.log.extend((Zxid(first + i), txn) for i, txn in enumerate(txns))
        self.committed = max(self.committed, committed)

    def _base(self) -> Zxid:
        return self.snapshots[-1].zxid if self.snapshots else ZERO

    def _install(self, effect: InstallSnapshot) -> None:
        snapshot = StoredSnapshot(effect.zxid, effect.consistent_at, self._incoming)
        self.snapshots = [snapshot]
        self.log = [
            (Zxid(run.first + i), txn) for run in effect.tail for i, txn in enumerate(run.txns)
        ]
        self.committed = effect.consistent_at
        self._incoming = []

    def _read(self, effect: ReadLog) -> LogRead:
        found = [entry for entry in self.log if effect.after < entry[0] <= effect.upto]
        reaches_back = bool(self.log) and self.log[0][0] <= effect.after + 1
        starts_at_zero = effect.after == ZERO and not self.snapshots
        too_much = sum(len(txn) for _, txn in found) > effect.bytes_max
        if too_much or not (reaches_back or starts_at_zero):
            found = []
        return LogRead(effect.learner, effect.after, _runs(found))

    def _publish(self, zxid: Zxid) -> None:
        snapshot = self.written.pop(zxid)
        last = self.log[-1][0] if self.log else self._base()
        assert snapshot.consistent_at <= last, "published before its log was synced"
        self.snapshots = [*self.snapshots[-2:], snapshot]
        oldest = self.snapshots[0].zxid
        self.log = [entry for entry in self.log if entry[0] > oldest]


def _runs(entries: list[tuple[Zxid, bytes]]) -> list[Run]:
    runs: list[Run] = []
    for zxid, txn in entries:
        if runs and zxid == runs[-1].first + len(runs[-1].txns):
            runs[-1].txns.append(txn)
        else:
            runs.append(Run(zxid, [txn]))
    return runs
