"""The folder of a server with real transactions and snapshots, for the tools that look into one."""

from collections.abc import Sequence
from pathlib import Path

from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner, format_folder
from raykeeper.actors.disk.snapshot_files import SnapshotWriter, temp_snapshot_path
from raykeeper.actors.disk.storage import Storage, StorageLimits
from raykeeper.server.effects import PublishSnapshot
from raykeeper.zab.effects import Append, SaveEpochs
from raykeeper.zab.ids import Epoch, ServerId, Zxid
from raykeeper.znodes.snapshot import SnapshotWalk
from raykeeper.znodes.state import State
from tests.contract.faulty_files import FaultyFiles
from tests.contract.stores import FOLDER

Entry = tuple[Zxid, bytes]
LIMITS = StorageLimits(segment_bytes=1024)


class UnforcedFiles(Filesystem):
    """The operating system's files, never forced: for commands that read them at once."""

    def sync(self, fd: int) -> None:
        pass

    def sync_data(self, fd: int) -> None:
        pass

    def sync_folder(self, path: Path) -> None:
        pass


class ServerFolder:
    """A store that grows by transactions, with the state that they give."""

    def __init__(
        self,
        folder: Path = FOLDER,
        files: Filesystem | None = None,
        limits: StorageLimits = LIMITS,
        server_id: int = 1,
    ) -> None:
        self.folder = folder
        self.files = FaultyFiles() if files is None else files
        self.state = State()
        owner = FolderOwner("coord", "8c1f", ServerId(server_id))
        format_folder(
            folder, DiskIdentity(owner, f"disk-{server_id}", is_founding=True), files=self.files
        )
        self.storage = Storage.open(folder, owner, limits, self.files)
        self.storage.recover()
        self.storage.perform([SaveEpochs(Epoch(1), Epoch(1))])

    def append(self, entries: Sequence[Entry], *, uncommitted: int = 0) -> None:
        """Log and apply transactions, each forced by itself.

        The next one says that the one before is committed, but for the last `uncommitted`.
        """
        committed = self.state.zxid
        for number, (zxid, data) in enumerate(entries, 1):
            self.storage.perform([Append(zxid, [data], committed)])
            self.state.apply(zxid, data)
            if number < len(entries) - uncommitted:
                committed = zxid

    def snapshot(self, during: Sequence[Entry] = (), chunk_bytes: int = 64 << 10) -> None:
        """Publish a snapshot; `during` are logged and applied while it is walked, one a chunk."""
        begin, rest = self.state.zxid, list(during)
        walk = SnapshotWalk(self.state, chunk_bytes)
        writer = SnapshotWriter(temp_snapshot_path(self.folder, begin), begin, self.files)
        while (chunk := walk.next_chunk()) is not None:
            writer.write(chunk)
            if rest:
                self.append([rest.pop(0)])
        writer.finish(self.state.zxid)
        self.append(rest)
        self.storage.perform([PublishSnapshot(begin)])

    def reader(self) -> FolderReader:
        """Return a reader of the folder as it is."""
        return FolderReader(self.folder, self.files)

    def at_rest(self) -> FaultyFiles:
        """Return the disk after the server has ended."""
        self.storage.close()
        assert isinstance(self.files, FaultyFiles)
        return self.files.restart()

    def segments(self) -> list[Path]:
        """Return the segments of the log, oldest first."""
        return self._files_named("log.")

    def snapshots(self) -> list[Path]:
        """Return the snapshots, oldest first."""
        return self._files_named("snapshot.")

    def _files_named(self, prefix: str) -> list[Path]:
        folder = self.reader().generation()[0]
        return [folder / name for name in self.files.names(folder) if name.startswith(prefix)]
