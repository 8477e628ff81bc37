"""The durable store of a replica: promises, log and snapshots of one server in one folder.

    <folder>/lock                      held by the one process that has the folder (rule D1)
             identity                  whose it is, incarnation, vote
             epochs                    accepted and current epoch
             generation-<n>/log.*      the log
                            snapshot.* the last snapshots, newest complete one wins
             *.tmp                     being put together; removed at the next start

Source: ZooKeeper's `FileTxnSnapLog` and `SyncRequestProcessor`. Invariants: effects are carried
out in order, a completion is given only for what is forced, and a crash at any point leaves the
state before or after the effect that was under way. After a failure the store is dead: what a
failed fsync left behind is unknown, so it is never tried again (rule D5).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from raykeeper.actors.disk.atomic_file import remove_leftovers
from raykeeper.actors.disk.epochs import Epochs, read_epochs, save_epochs
from raykeeper.actors.disk.file_layer import OS_FILES, FileLayer
from raykeeper.actors.disk.generations import Generations, open_generations
from raykeeper.actors.disk.identity import Claim, Identity, Owner, claim_folder
from raykeeper.actors.disk.log import Log
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
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError, storage_errors
from raykeeper.actors.disk.storage_notes import LEFTOVER_REMOVED, SNAPSHOT_INVALID, SYNC_INTERRUPTED
from raykeeper.actors.effects import PublishSnapshot
from raykeeper.actors.events import (
    DiskEvent,
    EpochsSaved,
    LogRead,
    LogSynced,
    LogTruncated,
    RoomChanged,
    SnapshotInstalled,
    SnapshotPublished,
)
from raykeeper.actors.recovered import Recovered
from raykeeper.zab.effects import (
    Append,
    CheckRoom,
    DiscardSnapshot,
    DiskEffect,
    InstallSnapshot,
    Note,
    ReadLog,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Truncate,
    VoteGranted,
)
from raykeeper.zab.ids import ZERO, Zxid, epoch_of, show_zxid

StorageEffect = DiskEffect | PublishSnapshot

_RECEIVED = "received.tmp"
_NO_SNAPSHOT = SnapshotSummary(ZERO, ZERO)


class StorageLimits(Struct, frozen=True):
    """Sizes and counts of a store."""

    segment_bytes: int = 64 << 20
    snapshots_kept: int = 3


DEFAULT_LIMITS = StorageLimits()


class Storage:
    """A claimed folder. Call `open`, then `recover` once, then `perform`; at the end `close`."""

    def __init__(self, folder: Path, claim: Claim, limits: StorageLimits, files: FileLayer) -> None:
        """Use `Storage.open`."""
        self.folder = folder
        self.identity: Identity = claim.identity
        self._lock = claim.lock
        self._notes = [Note(LEFTOVER_REMOVED, name) for name in claim.leftovers]
        self._limits = limits
        self._files = files
        self._epochs: Epochs
        self._generations: Generations
        self._log: Log | None = None
        self._snapshots: dict[Zxid, Zxid] = {}  # valid ones: zxid -> consistent_at
        self._received: SnapshotWriter | None = None
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
            CheckRoom: self._check_for_room,
            VoteGranted: self._vote_granted,
        }

    @classmethod
    def open(
        cls,
        folder: Path,
        owner: Owner,
        limits: StorageLimits = DEFAULT_LIMITS,
        files: FileLayer = OS_FILES,
    ) -> "Storage":
        """Lock the folder of `owner` and raise its incarnation.

        Raises:
            NotFormatted: the folder has no identity.
            FolderInUse: another process has it.
            ForeignFolder: it belongs to another ensemble or server.
            StorageError: it cannot be read or written.
        """
        return cls(folder, claim_folder(folder, owner, files), limits, files)

    def recover(self) -> Recovered:
        """Read what is there, make sure that it is on the disk, and get ready to perform.

        Raises:
            CorruptRecord: something that was forced is missing or damaged.
            StorageError: the folder cannot be read or written.
        """
        assert self._log is None, "recovered before"
        files = self._files
        with storage_errors(self.folder):
            self._epochs = read_epochs(files, self.folder)
            # Written anew: what was read may be in the page cache only (rule D5).
            save_epochs(files, self.folder, self._epochs)
            self._generations, old = open_generations(files, self.folder)
            path = self._generations.path
            old += remove_leftovers(files, path)
            snapshot = self._newest_snapshot(path)
            self._check_room()
            log = self._make_log(path, snapshot.zxid)
            runs, notes = log.recover(snapshot.zxid)
        self._log = log
        self._notes += [Note(LEFTOVER_REMOVED, name) for name in old]
        self._notes += notes
        self._check(snapshot, log.last)
        return Recovered(
            accepted=self._epochs.accepted,
            current=self._epochs.current,
            snapshot_zxid=snapshot.zxid,
            consistent_at=snapshot.consistent_at,
            chunks=SnapshotChunks(path / snapshot_name(snapshot.zxid), files)
            if snapshot.zxid
            else [],
            runs=runs,
            committed=min(log.last, max(log.committed, snapshot.consistent_at)),
            votes=self.identity.votes,
            notes=self._notes,
        )

    def perform(self, effects: Sequence[StorageEffect]) -> list[DiskEvent]:
        """Carry out `effects` in order; Appends in a row are forced together.

        Returns:
            The completions, in order; one LogSynced for Appends in a row.

        Raises:
            StorageError: the disk failed, now or before. Some of the effects may have been
                carried out; this store never does anything again.
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
                        completions.append(LogSynced(self._log.append(appends)))
                        appends = []
                    completion = self._handlers[type(effect)](effect)
                    if completion is not None:
                        completions.append(completion)
                if appends:
                    completions.append(LogSynced(self._log.append(appends)))
        except BaseException as error:
            self._failure = error
            raise
        return completions

    def close(self) -> None:
        """Give the folder back. Everything that was completed is on the disk already.

        Raises:
            StorageError: a file could not be closed.
        """
        with storage_errors(self.folder):
            if self._received is not None:
                self._received.close()  # what there is of it is removed at the next start
            if self._log is not None:
                self._log.close()
            self._files.close(self._lock)
        self._failure = StorageError(f"{self.folder} is closed")

    def _check_room(self) -> None:
        """Say now that there is no room, not by dying at the first write, again and again."""
        free, needed = self._files.free_bytes(self.folder), self._limits.segment_bytes
        if free < needed:
            raise StorageError(
                f"{self.folder}: {free:,} bytes are free on its disk, "
                f"and a segment of the log takes {needed:,}"
            )

    def _make_log(self, path: Path, base: Zxid) -> Log:
        salt = self.identity.disk_uuid.encode()
        return Log(self._files, path, base, self._limits.segment_bytes, salt)

    def _newest_snapshot(self, path: Path) -> SnapshotSummary:
        newest = _NO_SNAPSHOT
        for zxid in reversed(snapshot_zxids(self._files.names(path))):
            file = path / snapshot_name(zxid)
            try:
                # All of the one that is loaded; of the older ones what pruning needs to know.
                found = read_summary(file, self._files)
                if newest is _NO_SNAPSHOT:
                    verify_snapshot(file, self._files)
                if found.zxid != zxid:
                    raise CorruptRecord(f"{file} is the snapshot as of {show_zxid(found.zxid)}")
            except CorruptRecord as error:
                self._notes.append(Note(SNAPSHOT_INVALID, str(error)))
                continue
            self._snapshots[zxid] = found.consistent_at
            if newest is _NO_SNAPSHOT:
                newest = found
        return newest

    def _check(self, snapshot: SnapshotSummary, last: Zxid) -> None:
        """Whether promises, snapshot and log can be the work of this program.

        The log may be of a newer epoch than the current one: a learner logs what it lacks, or
        installs a snapshot, before it takes over the epoch, and a crash can come between. All of
        that is committed history or a part of what the leader of the accepted epoch had, and a
        vote counts it under the old current epoch. ZooKeeper refuses to start there
        (ZOOKEEPER-1653, 4643). Beyond the accepted epoch the log never goes.
        """
        if last < snapshot.consistent_at:
            # Published only once the log was forced up to there, and never cut below.
            raise CorruptRecord(
                f"{self.folder}: the log ends at {show_zxid(last)}, the snapshot needs it up to "
                f"{show_zxid(snapshot.consistent_at)}"
            )
        epoch = epoch_of(last)
        if epoch > self._epochs.accepted:
            raise CorruptRecord(
                f"{self.folder}: the log reaches {show_zxid(last)}, but only epoch "
                f"{self._epochs.accepted} was accepted"
            )
        if epoch > self._epochs.current:
            detail = {"last": show_zxid(last), "current": self._epochs.current}
            self._notes.append(Note(SYNC_INTERRUPTED, detail))

    def _truncate(self, effect: Truncate) -> DiskEvent:
        assert self._log is not None
        committed = max(self._snapshots.values(), default=ZERO)
        if effect.upto < committed:
            # A snapshot holds committed transactions only; one that went beyond the cut would
            # bring back at the next start what was cut (ZOOKEEPER-1549, 4837).
            raise StorageError(
                f"{self.folder}: asked to cut the log after {show_zxid(effect.upto)}, but all up "
                f"to {show_zxid(committed)} was committed"
            )
        self._log.truncate(effect.upto)
        return LogTruncated(effect.upto)

    def _save_epochs(self, effect: SaveEpochs) -> DiskEvent:
        epochs = Epochs(effect.accepted, effect.current)
        assert epochs.accepted >= self._epochs.accepted, (epochs, self._epochs)
        assert epochs.current >= self._epochs.current, (epochs, self._epochs)
        save_epochs(self._files, self.folder, epochs)
        self._epochs = epochs
        return EpochsSaved(*epochs)

    def _read_log(self, effect: ReadLog) -> DiskEvent:
        assert self._log is not None
        runs = self._log.read(effect.after, effect.upto, effect.bytes_max)
        return LogRead(effect.learner, effect.after, runs)

    def _receive_snapshot(self, effect: ReceiveSnapshot) -> None:
        self._discard_snapshot()
        self._received = SnapshotWriter(self.folder / _RECEIVED, effect.zxid, self._files)

    def _receive_chunk(self, effect: ReceiveChunk) -> None:
        assert self._received is not None, "a chunk of no snapshot"
        self._received.write(effect.data)

    def _discard_snapshot(self, _effect: DiscardSnapshot | None = None) -> None:
        if self._received is not None:
            self._received.discard()
            self._received = None

    def _install_snapshot(self, effect: InstallSnapshot) -> DiskEvent:
        assert self._log is not None
        received = self._received
        assert received is not None, "no snapshot was received"
        assert received.zxid == effect.zxid, (received.zxid, effect.zxid)
        received.finish(effect.consistent_at)
        self._received = None
        path = self._generations.prepare()
        self._files.rename(received.path, path / snapshot_name(effect.zxid))
        self._log.close()
        self._log = log = self._make_log(path, effect.zxid)
        log.append([Append(run.first, run.txns, effect.consistent_at) for run in effect.tail])
        assert log.last >= effect.consistent_at, (log.last, effect.consistent_at)
        self._generations.publish()
        log.moved_to(self._generations.path)
        self._snapshots = {effect.zxid: effect.consistent_at}
        return SnapshotInstalled(effect.zxid)

    def _publish_snapshot(self, effect: PublishSnapshot) -> DiskEvent:
        assert self._log is not None
        temp = temp_snapshot_path(self.folder, effect.zxid)
        zxid, consistent_at = read_summary(temp, self._files)
        if zxid != effect.zxid:
            raise CorruptRecord(f"{temp} is the snapshot as of {show_zxid(zxid)}")
        assert consistent_at <= self._log.last, (consistent_at, self._log.last)
        assert zxid >= self._log.begin, (zxid, self._log.begin)
        path = self._generations.path
        self._files.rename(temp, path / snapshot_name(zxid))
        self._files.sync_folder(path)
        self._files.sync_folder(self.folder)
        self._snapshots[zxid] = consistent_at
        self._prune(path)
        return SnapshotPublished(zxid)

    def _check_for_room(self, _effect: CheckRoom) -> DiskEvent:
        has_room = self._files.free_bytes(self.folder) >= self._limits.segment_bytes
        return RoomChanged(has_room)

    def _vote_granted(self, _effect: VoteGranted) -> None:
        pass  # nothing was set aside yet

    def _prune(self, path: Path) -> None:
        """Keep the newest valid snapshots and the log that the oldest of them needs.

        Only valid ones count (ZOOKEEPER-3231); an invalid one goes when it is older than those.
        """
        assert self._log is not None
        oldest = sorted(self._snapshots)[-self._limits.snapshots_kept :][0]
        for zxid in snapshot_zxids(self._files.names(path)):
            if zxid < oldest:
                self._files.remove(path / snapshot_name(zxid))
                self._snapshots.pop(zxid, None)
        self._files.sync_folder(path)
        self._log.prune(oldest)
