"""Reads the data folder of a server without changing, or locking, anything in it.

For tools: `raykeeper inspect` and `raykeeper log`. A server opens its folder by `storage.py`; the
files are decoded and judged by the same functions. The server may run meanwhile: what belongs
together is read in the order in which a server never contradicts itself, that is snapshots before
the log, which reaches beyond them, and the log before the promises, which cover it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from raykeeper.actors.disk.epochs import Epochs, read_epochs
from raykeeper.actors.disk.file_operations import opened
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.generations import find_generation
from raykeeper.actors.disk.identity import IDENTITY_FILE, DiskIdentity, read_identity
from raykeeper.actors.disk.log_reader import LogReader
from raykeeper.actors.disk.log_segment import segment_name
from raykeeper.actors.disk.snapshot_files import (
    SnapshotChunks,
    check_snapshot_names,
    read_summary,
    snapshot_name,
    snapshot_zxids,
    verify_snapshot,
)
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    NotFormatted,
    StorageError,
    storage_errors,
)
from raykeeper.zab.ids import ZERO, Zxid, format_zxid
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotLoader
from raykeeper.znodes.state import State

_EXPECTED = "expected the data folder of a server, <data_dir>/<ensemble>/<server>"


class SnapshotFile(Struct):
    """A snapshot, all of which was read."""

    path: Path
    zxid: Zxid
    """As its name says."""
    size: int
    consistent_at: Zxid | None
    """None if it is damaged."""
    problem: str = ""


class FolderReader:
    """The data folder of a server, or what is left of it."""

    def __init__(self, folder: Path, files: Filesystem = OS_FILESYSTEM) -> None:
        """Look whether `folder` is one.

        Raises:
            NotFormatted: it holds neither an identity nor data.
            StorageError: it does not exist, is no folder, or cannot be read.
        """
        self.folder = folder
        self.files = files
        self._listed: list[Path] = []  # snapshots and segments, which a server may remove
        try:
            with storage_errors(folder):
                names = files.names(folder)
                is_empty = read_identity(folder, files) is None
        except CorruptRecord:
            return  # told by `identity`
        except StorageError as error:
            kind = type(error.__cause__)
            if kind is FileNotFoundError:
                raise StorageError(f"{folder} does not exist; {_EXPECTED}") from error
            if kind is NotADirectoryError:
                raise StorageError(f"{folder} is no folder; {_EXPECTED}") from error
            raise
        if is_empty:
            servers = [name for name in names if _is_formatted(files, folder / name)]
            hint = f"; it holds those of servers {', '.join(servers)}" if servers else ""
            raise NotFormatted(f"{folder} holds neither an identity nor data; {_EXPECTED}{hint}")

    def check_unchanged(self) -> None:
        """Check that every snapshot and segment that was listed is still there.

        If not, what looks missing or contradictory may be the work of the server.

        Raises:
            StorageError: the server has removed one.
        """
        for path in self._listed:
            with storage_errors(path):
                is_there = self.files.exists(path)
            if not is_there:
                raise StorageError(
                    f"{path} was removed by its server while the folder was read; "
                    "run the command again"
                )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """If the block fails because the server has removed a file, say so.

        Raises:
            StorageError: the server has removed one.
        """
        try:
            yield
        except StorageError:
            self.check_unchanged()
            raise

    def identity(self) -> DiskIdentity:
        """Read the identity.

        Raises:
            CorruptRecord: it is damaged or missing.
            UnknownVersion: it is of a version that this program does not know.
            StorageError: it cannot be read.
        """
        identity = read_identity(self.folder, self.files)
        if identity is None:
            raise CorruptRecord(f"{self.folder / IDENTITY_FILE} is missing")
        return identity

    def epochs(self) -> tuple[Epochs, int]:
        """Read the promises; return them and the number of good copies, of two.

        Raises:
            CorruptRecord: the file is missing, or both copies are damaged.
            UnknownVersion: it is of a version that this program does not know.
            StorageError: it cannot be read.
        """
        found = read_epochs(self.files, self.folder)
        # A server may just have been writing the bad copy.
        return found if found[1] == 2 else read_epochs(self.files, self.folder)

    def generation(self) -> tuple[Path, list[str]]:
        """Return the folder of the log and the snapshots that count, and names of older ones.

        Raises:
            CorruptRecord: there is none, or it lacks its snapshot.
            StorageError: a folder cannot be read.
        """
        with storage_errors(self.folder):
            generations, older = find_generation(self.files, self.folder)
        return generations.path, older

    def snapshots(self) -> list[SnapshotFile]:
        """Read all bytes of all snapshots, oldest first.

        Raises:
            CorruptRecord: there is no generation, or a name is not that of a snapshot.
            UnknownVersion: one is of a version that this program does not know.
            StorageError: one cannot be read.
        """
        folder = self.generation()[0]
        with storage_errors(folder):
            names = self._names(folder)
        check_snapshot_names(names)
        zxids = snapshot_zxids(names)
        # Segments too: a server may prune the log before `log` lists it.
        self._listed += [folder / name for name in names]
        return [self._verified(folder / snapshot_name(zxid), zxid) for zxid in zxids]

    def _names(self, folder: Path) -> list[str]:
        """Return the names as of one moment: the list of a folder is not read in one step.

        Counterexample for one look: a server publishes a snapshot, which the list is past already,
        and removes the segments before it, which the list has not come to; then both are missing.
        """
        before, names = None, self.files.names(folder)
        while names != before:
            before, names = names, self.files.names(folder)
        return names

    def _verified(self, path: Path, zxid: Zxid) -> SnapshotFile:
        with opened(self.files, path) as fd:
            size = self.files.size(fd)
        try:
            summary = verify_snapshot(path, self.files)
            if summary.zxid != zxid:
                raise CorruptRecord(f"{path} is the snapshot as of {format_zxid(summary.zxid)}")
        except CorruptRecord as error:
            return SnapshotFile(path, zxid, size, None, str(error))
        return SnapshotFile(path, zxid, size, summary.consistent_at)

    def log(self, synced: Zxid = ZERO) -> LogReader:
        """Return the log, which is known to have been forced up to `synced`.

        Raises:
            CorruptRecord: there is no generation, or a name is not that of a segment.
            StorageError: a folder cannot be read.
        """
        folder = self.generation()[0]
        log = LogReader(self.files, folder, synced)
        self._listed += [folder / segment_name(first) for first in log.firsts]
        return log


def synced_upto(snapshots: list[SnapshotFile]) -> Zxid:
    """Return up to where the log was forced when the snapshots were published."""
    return max((s.consistent_at or s.zxid for s in snapshots), default=ZERO)


def newest_zxids(log: LogReader, snapshots: list[SnapshotFile]) -> tuple[Zxid, Zxid]:
    """Return the last zxid of the log or a snapshot, and the newest one known to be committed.

    Reads the last segment that has a batch.

    Raises:
        UnknownVersion: a segment is of a version that this program does not know.
        StorageError: a segment cannot be read.
    """
    committed = max((s.consistent_at for s in snapshots if s.consistent_at), default=ZERO)
    for index in reversed(range(len(log.firsts))):
        content = log.read(index)
        if content.batches:
            last = content.batches[-1].last
            named = max(batch.committed for batch in content.batches)
            return max(committed, last), max(committed, min(last, named))
    return committed, committed


def load_state_at(
    log: LogReader, snapshot: SnapshotFile | None, zxid: Zxid, files: Filesystem
) -> State:
    """Return the state as of `zxid`: that of a snapshot, or the first one, and the log after it.

    Takes as much memory as a server.

    Raises:
        CorruptRecord: snapshot and log are damaged or do not fit together, or do not reach there.
        UnknownVersion: a segment is of a version that this program does not know.
        SnapshotFormatError: the snapshot is of a format that this program does not know.
        StorageError: they cannot be read.
    """
    name = "the first state" if snapshot is None else str(snapshot.path)
    if snapshot is not None and (snapshot.consistent_at is None or snapshot.consistent_at > zxid):
        raise CorruptRecord(
            snapshot.problem
            or f"{name} is consistent at {format_zxid(snapshot.consistent_at or ZERO)} only, "
            f"after {format_zxid(zxid)}"
        )
    state = State() if snapshot is None else _loaded(snapshot, files)
    for content in log:
        if content.header is not None and content.header.previous > state.zxid:
            break  # a hole, also if the part before it is damaged or missing
        if content.last is not None and content.last <= state.zxid:
            continue
        for each, txn in content.txns(state.zxid):
            if each > zxid:
                break
            try:
                state.apply(each, txn)
            except Exception as error:  # assertions of the tree, and errors of the decoder
                raise CorruptRecord(
                    f"{content.path}: transaction {format_zxid(each)} does not fit to {name}: "
                    f"{type(error).__name__} {error}"
                ) from error
        if content.problem and state.zxid < zxid:
            raise CorruptRecord(content.problem)
    if state.zxid != zxid:
        raise CorruptRecord(
            f"{name} and the log after it reach {format_zxid(state.zxid)}, not {format_zxid(zxid)}"
        )
    return state


def _loaded(snapshot: SnapshotFile, files: Filesystem) -> State:
    loader = SnapshotLoader()
    try:
        for chunk in SnapshotChunks(snapshot.path, files):
            loader.load(chunk)
        zxid, consistent_at = read_summary(snapshot.path, files)
        return loader.finish(zxid, consistent_at)
    except SnapshotFormatError as error:
        raise SnapshotFormatError(f"{snapshot.path}: {error}") from error


def _is_formatted(files: Filesystem, folder: Path) -> bool:
    try:
        return files.exists(folder / IDENTITY_FILE)
    except OSError:
        return False
