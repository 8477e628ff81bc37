"""The weakest disk that Zab may be given, for one server of `zab_world`.

Operations are done in order, and each completes only when the world says so. A crash keeps a
random part of the pending ones: the log may end inside a batch, and the file of the epochs may or
may not have been replaced, even before an older append is done. A server may start from any
snapshot that the log reaches back to.

`sim_disk` is another disk: it keeps the stronger contract of `actors/disk` (a batch is there whole
or not at all, nothing overtakes), and fails in the ways that its server must handle.
"""

from collections import deque
from random import Random

import msgspec

from raykeeper.zab.effects import (
    Append,
    DiscardSnapshot,
    DiskEffect,
    InstallSnapshot,
    LogRun,
    ReadLog,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.history import History
from raykeeper.zab.ids import ZERO, Epoch, Zxid
from raykeeper.zab.recent_log import RecentLog
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.log_entries import Entry, entries_of, runs_of


class ZabDisk:
    """`entries` is the whole history; the log has `entries[log_start:]`, a snapshot the rest."""

    def __init__(self) -> None:
        self.accepted = Epoch(0)
        self.current = Epoch(0)
        self.entries: list[Entry] = []
        self.snapshot = 0  # how many entries the newest snapshot covers
        self.consistent = 0  # the snapshot is fuzzy up to this entry
        self.log_start = 0
        self.committed = ZERO  # the newest mark stored with a batch
        self.queue: deque[DiskEffect] = deque()
        self._incoming: bytes | None = None  # the temporary snapshot

    @property
    def last(self) -> Zxid:
        return self.entries[-1][0] if self.entries else ZERO

    def place(self, zxid: Zxid) -> int:
        """Return how many entries lie at or before `zxid`, which is one of them or 0."""
        if zxid == ZERO:
            return 0
        places = [i + 1 for i, (z, _) in enumerate(self.entries) if z == zxid]
        assert places, f"{zxid:#x} is not on the disk"
        return places[0]

    def begin(self, effect: DiskEffect) -> None:
        """Begin an operation; operations on the temporary snapshot have no completion."""
        if isinstance(effect, ReceiveSnapshot):
            self._incoming = b""
        elif isinstance(effect, ReceiveChunk):
            assert self._incoming is not None
            self._incoming += effect.data
        elif isinstance(effect, DiscardSnapshot):
            self._incoming = None
        else:
            self.queue.append(effect)

    def finish(self) -> tuple[DiskEffect, list[LogRun]]:
        """Complete the next operation; all waiting appends share one sync."""
        effect = self.queue.popleft()
        found = self._carry_out(effect)
        while isinstance(effect, Append) and self.queue and isinstance(self.queue[0], Append):
            effect = self.queue.popleft()
            self._carry_out(effect)
        return effect, found

    def crash(self, random: Random) -> None:
        """Lose the pending operations, all or in part."""
        survivors = random.randint(0, len(self.queue))
        for i, effect in enumerate(self.queue):
            if isinstance(effect, SaveEpochs):
                # The epochs are not in the log: their file may be replaced before older appends.
                if random.random() < 0.5:
                    self._carry_out(effect)
            elif i < survivors:
                self._carry_out(effect)
            elif i == survivors and isinstance(effect, Append):
                self.entries += entries_of(effect)[: random.randint(0, len(effect.txns))]
            else:
                survivors = -1
        self.queue.clear()
        self._incoming = None

    def recover(self, limits: RecentLogLimits, random: Random, out: list) -> tuple[History, int]:  # type: ignore[type-arg]
        """Return the history of a starting server, and how many entries it has delivered."""
        base = random.randint(self.log_start, self.snapshot)
        window = RecentLog(self.entries[base - 1][0] if base else ZERO)
        for run in runs_of(self.entries[base:]):
            window.extend(run.first, run.txns)
        marked = max(self.consistent, self.place(self.committed))
        delivered = random.randint(self.consistent, marked)
        zxid = self.entries[delivered - 1][0] if delivered else ZERO
        return History(self.accepted, self.current, window, zxid, out, limits), delivered

    def take_snapshot(self, applied: int, random: Random) -> None:
        """Publish a snapshot of all applied and synced entries, and purge a part of the log."""
        self.consistent = max(self.consistent, min(applied, len(self.entries)))
        self.snapshot = random.randint(self.snapshot, self.consistent)
        self.log_start = random.randint(self.log_start, self.snapshot)

    def _carry_out(self, effect: DiskEffect) -> list[LogRun]:
        if isinstance(effect, Append):
            self.entries += entries_of(effect)
            self.committed = max(self.committed, effect.committed)
        elif isinstance(effect, SaveEpochs):
            assert effect.accepted >= self.accepted, "a promise was taken back"
            assert effect.current >= self.current, "the current epoch went back"
            assert effect.current <= effect.accepted
            self.accepted, self.current = effect.accepted, effect.current
        elif isinstance(effect, Truncate):
            keep = self.place(effect.upto)
            assert keep >= self.consistent, "a snapshot holds what is cut"
            del self.entries[keep:]
        elif isinstance(effect, InstallSnapshot):
            self._install(effect)
        else:
            assert isinstance(effect, ReadLog), effect
            return self._read(effect)
        return []

    def _install(self, effect: InstallSnapshot) -> None:
        assert self._incoming is not None, "nothing was received"
        self.entries = decode_snapshot(self._incoming)
        assert self.last == effect.zxid
        self.snapshot = self.log_start = len(self.entries)
        self.entries += entries_of(*effect.tail)
        self.consistent = self.place(effect.consistent_at)
        self._incoming = None

    def _read(self, effect: ReadLog) -> list[LogRun]:
        start = sum(zxid <= effect.after for zxid, _ in self.entries)
        if start < self.log_start:
            return []
        found = [entry for entry in self.entries[start:] if entry[0] <= effect.upto]
        if sum(len(txn) for _, txn in found) > effect.bytes_max:
            return []
        return runs_of(found)


def encode_snapshot(entries: list[Entry]) -> bytes:
    return msgspec.msgpack.encode(entries)


def decode_snapshot(data: bytes) -> list[Entry]:
    return msgspec.msgpack.decode(data, type=list[Entry])
