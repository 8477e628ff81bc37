"""The durable store of a replica: promises, log and snapshots of one server in one folder.

    <folder>/lock                      held by the one process that has the folder (rule D1)
             identity                  its owner, its disk, the incarnation
             epochs                    accepted and current epoch
             members.json              a copy of the member list, for launches
             generation-<n>/log.*      the log
                            snapshot.* the last snapshots; the newest complete one counts
             spare                     the next segment of the log, allocated
             damaged/                  set aside by a repair until the vote is back
             *.tmp                     incomplete; removed at the next start

Source: ZooKeeper's `FileTxnSnapLog` and `SyncRequestProcessor`. Invariants: effects are performed
in order; a completion means that the effect is forced; a crash at any point leaves the state
before or after the effect that was under way. After a failure the store is dead: a failed fsync
leaves an unknown state behind, so it is never tried again (rule D5).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.epochs import Epochs, EpochsFile
from raykeeper.actors.disk.file_operations import remove_leftovers
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.generations import Generations, open_generations
from raykeeper.actors.disk.identity import (
    Claim,
    DiskIdentity,
    FolderOwner,
    claim_folder,
    write_identity,
)
from raykeeper.actors.disk.log import Log
from raykeeper.actors.disk.repair import begin_repair, finish_repair, remove_damaged
from raykeeper.actors.disk.snapshot_files import (
    SnapshotChunks,
    SnapshotSummary,
    SnapshotWriter,
    read_summary,
    snapshot_name,
    snapshot_zxids,
    temp_snapshot_path,
    verify_snapshot,
)
from raykeeper.actors.disk.spare_segment import SpareSegment
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    NoRoom,
    StorageError,
    storage_errors,
)
from raykeeper.actors.disk.storage_trace_events import (
    LEFTOVER_REMOVED,
    REPAIRED,
    SNAPSHOT_INVALID,
    SYNC_INTERRUPTED,
)
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
    TraceEvent,
    Truncate,
    VoteGranted,
)
from raykeeper.zab.ids import ZERO, Zxid, epoch_of, format_zxid

StorageEffect = DiskEffect | PublishSnapshot | SaveLevel

_RECEIVED = "received.tmp"
_NO_SNAPSHOT = SnapshotSummary(ZERO, ZERO)


class StorageLimits(Struct, frozen=True):
    """Sizes and counts of a store."""

    segment_bytes: int = 64 << 20
    """Of the largest segments of the log."""
    snapshots_kept: int = 3
    first_segment_bytes: int = 1 << 20
    """Of the first segment after a start, if that is less; the next ones grow."""


DEFAULT_LIMITS = StorageLimits()


class Storage:
    """A claimed folder. Call `open`, then `recover`, then `perform`; at the end `close`.

    When `recover` says that the folder is corrupt, `repair` may be called, and `recover` again.
    """

    def __init__(
        self, folder: Path, claim: Claim, limits: StorageLimits, files: Filesystem
    ) -> None:
        """Use `Storage.open`."""
        self.folder = folder
        self.identity: DiskIdentity = claim.identity
        self._lock = claim.lock
        self._trace_events = [TraceEvent(LEFTOVER_REMOVED, name) for name in claim.leftovers]
        self._limits = limits
        self._files = files
        self._promises: EpochsFile | None = None
        self._generations: Generations
        first = min(limits.first_segment_bytes, limits.segment_bytes)
        self._spare = SpareSegment(files, folder, first, limits.segment_bytes)
        self._reported_disk_space = True  # as the server was told
        self._log: Log | None = None
        self._snapshots: dict[Zxid, Zxid] = {}  # valid ones: zxid -> consistent_at
        self._incoming_snapshot: SnapshotWriter | None = None
        self._failure: BaseException | None = None
        self._handlers: dict[type, Callable[[Any], DiskEvent | None]] = {
            Truncate: self._truncate,
            SaveEpochs: self._save_epochs,
            ReadLog: self._read_log,
            ReceiveSnapshot: self._receive_snapshot,
            ReceiveChunk: self._receive_chunk,
            DiscardSnapshot: self._discard_snapshot,
            InstallSnapshot: self._install_snapshot,
            PublishSnapshot: self._publish_snapshot,
            SaveLevel: self._save_level,
            CheckDiskSpace: self._check_room,
            VoteGranted: self._vote_granted,
        }

    @classmethod
    def open(
        cls,
        folder: Path,
        owner: FolderOwner,
        limits: StorageLimits = DEFAULT_LIMITS,
        files: Filesystem = OS_FILESYSTEM,
    ) -> "Storage":
        """Lock the folder of `owner` and raise its incarnation.

        Raises:
            NotFormatted: the folder has no identity.
            FolderInUse: another process has it.
            ForeignFolder: it belongs to another ensemble or server.
            StorageError: it cannot be read or written.
        """
        return cls(folder, claim_folder(folder, owner, files), limits, files)

    def repair(self, reason: str) -> None:
        """Start again as a lost disk would, or continue a repair that was interrupted.

        Raises:
            StorageError: the folder cannot be written; the next start continues.
        """
        self._close_files()
        with storage_errors(self.folder):
            identity = begin_repair(self._files, self.folder, self.identity, reason)
            assert identity.repair is not None
            self.identity = finish_repair(self._files, self.folder, identity)
        self._snapshots.clear()
        detail = {"disk": self.identity.disk_uuid, "reason": identity.repair.reason}
        self._trace_events = [TraceEvent(REPAIRED, detail)]

    def mark_for_repair(self, reason: str) -> None:
        """Declare the content of the folder void, durably; the next start repairs it.

        Raises:
            StorageError: the folder cannot be written.
        """
        with storage_errors(self.folder):
            self.identity = begin_repair(self._files, self.folder, self.identity, reason)

    def recover(self) -> RecoveredState:
        """Read the folder, make sure that its content is on the disk, and get ready to perform.

        Raises:
            CorruptRecord: something that was forced is missing or damaged.
            NoRoom: the disk is full.
            StorageError: the folder cannot be read or written.
        """
        assert self._log is None, "recovered before"
        assert self.identity.repair is None, self.identity
        try:
            with storage_errors(self.folder):
                return self._recover()
        except NoRoom as error:
            free, needed = self._files.free_bytes(self.folder), self._limits.segment_bytes
            raise NoRoom(
                f"{self.folder}: {free:,} bytes are free on its disk, "
                f"and a segment of the log takes {needed:,}"
            ) from error

    def _recover(self) -> RecoveredState:
        files = self._files
        self._promises = promises = EpochsFile(files, self.folder)
        self._generations, old = open_generations(files, self.folder)
        path = self._generations.path
        old += remove_leftovers(files, path)
        snapshot, synced = self._newest_snapshot(path)
        self._spare.remove_old(path)
        self._log = log = self._make_log(path, snapshot.zxid)
        runs, events = log.recover(snapshot.zxid, synced, self._mark_uncertain)
        self._trace_events += [TraceEvent(LEFTOVER_REMOVED, name) for name in old]
        self._trace_events += promises.trace_events + events
        self._check_consistency(synced, log.last, promises.epochs)
        if not self._spare.replenish() and not log.has_tail:
            raise NoRoom(f"{self.folder} has no space for a log")
        self._reported_disk_space = self._spare.has_disk_space
        return RecoveredState(
            accepted=promises.epochs.accepted,
            current=promises.epochs.current,
            snapshot_zxid=snapshot.zxid,
            consistent_at=snapshot.consistent_at,
            chunks=SnapshotChunks(path / snapshot_name(snapshot.zxid), files)
            if snapshot.zxid
            else [],
            runs=runs,
            committed=min(log.last, max(log.committed, snapshot.consistent_at)),
            disk_id=self.identity.disk(),
            is_uncertain=promises.epochs.is_uncertain,
            has_initial_history=log.last >= promises.epochs.initial,
            has_disk_space=self._reported_disk_space,
            level=self.identity.level,
            trace_events=self.take_trace_events(),
        )

    def take_trace_events(self) -> list[TraceEvent]:
        """Return the trace events since the last call."""
        events, self._trace_events = self._trace_events, []
        return events

    def perform(self, effects: Sequence[StorageEffect]) -> list[DiskEvent]:
        """Perform `effects` in order; consecutive Appends are forced together.

        Returns:
            The completions, in order; one LogSynced for consecutive Appends. DiskSpaceChanged comes
            right behind the completion of what has found or lost the room.

        Raises:
            StorageError: the disk failed, now or before. Some of the effects may have been
                performed; this store never performs any again.
        """
        if self._failure is not None:
            raise StorageError(f"{self.folder} failed before: {self._failure}") from self._failure
        assert self._log is not None, "not recovered"
        completions: list[DiskEvent] = []
        appends: list[Append] = []
        try:
            with storage_errors(self.folder):
                for effect in effects:
                    if isinstance(effect, Append):
                        appends.append(effect)
                        continue
                    if appends:
                        self._append(appends, completions)
                        appends = []
                    completion = self._handlers[type(effect)](effect)
                    if completion is not None:
                        self._complete(completion, completions)
                if appends:
                    self._append(appends, completions)
        except BaseException as error:
            self._failure = error
            raise
        return completions

    def close(self) -> None:
        """Unlock the folder. Everything that was completed is on the disk already.

        Raises:
            StorageError: a file could not be closed.
        """
        self._failure = StorageError(f"{self.folder} is closed")
        try:
            self._close_files()
        finally:
            # Otherwise the next start in this process would wait for this one for ever.
            with storage_errors(self.folder):
                self._files.close(self._lock)

    def _close_files(self) -> None:
        received, self._incoming_snapshot = self._incoming_snapshot, None
        log, self._log = self._log, None
        promises, self._promises = self._promises, None
        with storage_errors(self.folder), ExitStack() as stack:
            stack.callback(self._spare.close)
            if promises is not None:
                stack.callback(promises.close)
            if log is not None:
                stack.callback(log.close)
            if received is not None:
                stack.callback(received.close)  # the next start removes the file

    def _append(self, appends: Sequence[Append], completions: list[DiskEvent]) -> None:
        assert self._log is not None
        self._complete(LogSynced(self._log.append(appends)), completions)

    def _complete(self, completion: DiskEvent, completions: list[DiskEvent]) -> None:
        completions.append(completion)
        has_room = self._spare.has_disk_space
        if has_room is not self._reported_disk_space:
            self._reported_disk_space = has_room
            if not isinstance(completion, DiskSpaceChanged):
                completions.append(DiskSpaceChanged(has_room))

    def _make_log(self, path: Path, base: Zxid) -> Log:
        salt = self.identity.disk_uuid.encode()
        return Log(self._files, path, base, self._spare, salt)

    def _mark_uncertain(self) -> None:
        assert self._promises is not None
        self._promises.save(self._promises.epochs._replace(is_uncertain=True))

    def _newest_snapshot(self, path: Path) -> tuple[SnapshotSummary, Zxid]:
        """Return the newest valid snapshot, and the zxid up to which the log was forced."""
        newest, synced = _NO_SNAPSHOT, ZERO
        for zxid in reversed(snapshot_zxids(self._files.names(path))):
            file = path / snapshot_name(zxid)
            try:
                # Verify all of the one that is loaded; read what pruning needs of the older ones.
                found = read_summary(file, self._files)
                if newest is _NO_SNAPSHOT:
                    verify_snapshot(file, self._files)
                if found.zxid != zxid:
                    raise CorruptRecord(f"{file} is the snapshot as of {format_zxid(found.zxid)}")
            except CorruptRecord as error:
                self._trace_events.append(TraceEvent(SNAPSHOT_INVALID, str(error)))
                synced = max(synced, zxid)
                continue
            synced = max(synced, found.consistent_at)
            self._snapshots[zxid] = found.consistent_at
            if newest is _NO_SNAPSHOT:
                newest = found
        return newest, synced

    def _check_consistency(self, synced: Zxid, last: Zxid, epochs: Epochs) -> None:
        check_consistency(self.folder, synced, last, epochs)
        if epoch_of(last) > epochs.current:
            detail = {"last": format_zxid(last), "current": epochs.current}
            self._trace_events.append(TraceEvent(SYNC_INTERRUPTED, detail))

    def _truncate(self, effect: Truncate) -> DiskEvent:
        assert self._log is not None
        committed = max(self._snapshots.values(), default=ZERO)
        if effect.upto < committed:
            # A snapshot holds committed transactions only; if it went beyond the cut, the next
            # start would bring back what was cut (ZOOKEEPER-1549, 4837).
            raise StorageError(
                f"{self.folder}: asked to cut the log after {format_zxid(effect.upto)}, but all up "
                f"to {format_zxid(committed)} was committed"
            )
        self._log.truncate(effect.upto)
        self._spare.replenish()
        return LogTruncated(effect.upto)

    def _save_epochs(self, effect: SaveEpochs) -> DiskEvent:
        assert self._promises is not None and self._log is not None
        before = self._promises.epochs
        assert effect.accepted >= before.accepted, (effect, before)
        assert effect.current >= before.current, (effect, before)
        # A server that takes over its accepted epoch, or joins it again, has the leader's log.
        is_taken_over = effect.current == effect.accepted
        is_uncertain = before.is_uncertain and not is_taken_over
        initial = self._log.last if is_taken_over else before.initial
        self._promises.save(Epochs(effect.accepted, effect.current, is_uncertain, initial))
        return EpochsSaved(effect.accepted, effect.current)

    def _read_log(self, effect: ReadLog) -> DiskEvent:
        assert self._log is not None
        needed_after = max(self._snapshots, default=ZERO)
        runs, events = self._log.read(effect.after, effect.upto, effect.bytes_max, needed_after)
        self._trace_events += events
        return LogRead(effect.learner, effect.after, runs)

    def _receive_snapshot(self, effect: ReceiveSnapshot) -> None:
        self._discard_snapshot()
        self._incoming_snapshot = SnapshotWriter(self.folder / _RECEIVED, effect.zxid, self._files)

    def _receive_chunk(self, effect: ReceiveChunk) -> None:
        assert self._incoming_snapshot is not None, "a chunk of no snapshot"
        self._incoming_snapshot.write(effect.data)

    def _discard_snapshot(self, _effect: DiscardSnapshot | None = None) -> None:
        if self._incoming_snapshot is not None:
            self._incoming_snapshot.discard()
            self._incoming_snapshot = None

    def _install_snapshot(self, effect: InstallSnapshot) -> DiskEvent:
        assert self._log is not None
        received = self._incoming_snapshot
        assert received is not None, "no snapshot was received"
        assert received.zxid == effect.zxid, (received.zxid, effect.zxid)
        received.finish(effect.consistent_at)
        self._incoming_snapshot = None
        path = self._generations.prepare()
        self._files.rename(received.path, path / snapshot_name(effect.zxid))
        self._log.close()
        self._log = log = self._make_log(path, effect.zxid)
        log.append([Append(run.first, run.txns, effect.consistent_at) for run in effect.tail])
        assert log.last >= effect.consistent_at, (log.last, effect.consistent_at)
        self._generations.publish()
        log.set_folder(self._generations.path)
        self._snapshots = {effect.zxid: effect.consistent_at}
        self._spare.replenish()  # the old generation is gone
        return SnapshotInstalled(effect.zxid)

    def _publish_snapshot(self, effect: PublishSnapshot) -> DiskEvent:
        assert self._log is not None
        temp = temp_snapshot_path(self.folder, effect.zxid)
        zxid, consistent_at = read_summary(temp, self._files)
        if zxid != effect.zxid:
            raise CorruptRecord(f"{temp} is the snapshot as of {format_zxid(zxid)}")
        assert consistent_at <= self._log.last, (consistent_at, self._log.last)
        assert zxid >= self._log.begin, (zxid, self._log.begin)
        path = self._generations.path
        self._files.rename(temp, path / snapshot_name(zxid))
        self._files.sync_folder(path)
        self._files.sync_folder(self.folder)
        self._snapshots[zxid] = consistent_at
        self._prune(path)
        self._spare.replenish()  # pruning has freed space
        return SnapshotPublished(zxid)

    def _save_level(self, effect: SaveLevel) -> None:
        assert effect.level >= self.identity.level, (effect, self.identity)
        self.identity = replace(self.identity, level=effect.level)
        write_identity(self._files, self.folder, self.identity)

    def _check_room(self, _effect: CheckDiskSpace) -> DiskEvent:
        return DiskSpaceChanged(self._spare.replenish())

    def _vote_granted(self, _effect: VoteGranted) -> None:
        remove_damaged(self._files, self.folder)

    def _prune(self, path: Path) -> None:
        """Keep the newest valid snapshots and the log that the oldest of them needs.

        Only valid ones count (ZOOKEEPER-3231); an invalid one is removed when it is older.
        """
        assert self._log is not None
        oldest = sorted(self._snapshots)[-self._limits.snapshots_kept :][0]
        for zxid in snapshot_zxids(self._files.names(path)):
            if zxid < oldest:
                self._files.remove(path / snapshot_name(zxid))
                self._snapshots.pop(zxid, None)
        self._files.sync_folder(path)
        self._log.prune(oldest)


def check_consistency(folder: Path, synced: Zxid, last: Zxid, epochs: Epochs) -> None:
    """Check that promises, snapshots and log can be the work of this program.

    The log may be of a newer epoch than the current one: a learner logs what it lacks, or
    installs a snapshot, before it takes over the epoch, and a crash can come between. All of
    that is committed history or a part of what the leader of the accepted epoch had, and a
    vote counts it under the old current epoch. ZooKeeper refuses to start there
    (ZOOKEEPER-1653, 4643). The log never goes beyond the accepted epoch.

    Args:
        folder: The data folder.
        synced: The snapshots say that the log was forced up to here.
        last: The last transaction of the log, or the newest snapshot.
        epochs: The promises.

    Raises:
        CorruptRecord: they cannot.
    """
    if last < synced:
        # A snapshot is published after the log was forced up to there, which is never cut.
        raise CorruptRecord(
            f"{folder}: the log ends at {format_zxid(last)}, the snapshot needs it up to "
            f"{format_zxid(synced)}"
        )
    if epoch_of(last) > epochs.accepted:
        raise CorruptRecord(
            f"{folder}: the log reaches {format_zxid(last)}, but only epoch "
            f"{epochs.accepted} was accepted"
        )
