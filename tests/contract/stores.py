"""The stores that `test_stores.py` runs over, under one small interface."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.identity import DiskIdentity, FolderOwner, format_folder
from raykeeper.actors.disk.snapshot_files import SnapshotWriter, temp_snapshot_path
from raykeeper.actors.disk.storage import Storage, StorageEffect, StorageLimits
from raykeeper.server.effects import PublishSnapshot
from raykeeper.server.events import DiskEvent
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.ids import Millis, ServerId
from tests.contract.faulty_files import FaultyFiles, Loss
from tests.contract.store_model import Step, WriteSnapshot
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import SimDisk, StoredSnapshot

OWNER = FolderOwner("coord", "8c1f", ServerId(1))
IDENTITY = DiskIdentity(OWNER, "disk-1", is_founding=True)
LIMITS = StorageLimits(segment_bytes=2048)  # small: every few batches a new segment
FOLDER = Path("/data/coord/1")


class Store(Protocol):
    """A durable store of one server, which knows its own format."""

    def recover(self) -> RecoveredState:
        """Return the recovered state, once, before performing anything."""

    def perform(self, effects: Sequence[StorageEffect]) -> list[DiskEvent]:
        """Perform effects; a completed effect outlives a crash."""

    def write_snapshot(self, step: WriteSnapshot) -> None:
        """Do the Snapshotter's part: write the complete temporary snapshot."""

    def crash(self) -> "Store":
        """Return the store after a crash, to be recovered."""


class DiskStore:
    """`Storage` on the operating system's files; its crash is the end of a process."""

    def __init__(
        self, folder: Path, files: Filesystem = OS_FILESYSTEM, limits: StorageLimits = LIMITS
    ) -> None:
        self.folder = folder
        self.files = files
        self.storage = Storage.open(folder, OWNER, limits, files)

    @classmethod
    def fresh(cls, tmp_path: Path) -> "DiskStore":
        """Return an empty store in a new folder."""
        folder = tmp_path / "coord" / "1"
        format_folder(folder, IDENTITY)
        return cls(folder)

    def recover(self) -> RecoveredState:
        return self.storage.recover()

    def perform(self, effects: Sequence[StorageEffect]) -> list[DiskEvent]:
        return self.storage.perform(effects)

    def write_snapshot(self, step: WriteSnapshot) -> None:
        path = temp_snapshot_path(self.folder, step.zxid)
        writer = SnapshotWriter(path, step.zxid, self.files)
        for chunk in step.chunks:
            writer.write(chunk)
        writer.finish(step.consistent_at)

    def crash(self) -> "Store":
        self.storage.close()
        return DiskStore(self.folder)


class LossyStore(DiskStore):
    """`Storage` on files that lose at a crash what was not forced."""

    loss: Loss

    @classmethod
    def fresh(cls, tmp_path: Path) -> "DiskStore":
        files = FaultyFiles()
        format_folder(FOLDER, IDENTITY, files)
        return cls(FOLDER, files)

    def crash(self) -> "Store":
        assert isinstance(self.files, FaultyFiles)
        return type(self)(FOLDER, self.files.crash(self.loss, random.Random(1)))


class LosingStore(LossyStore):
    """Loses everything that was not forced."""

    loss = Loss.ALL


class TearingStore(LossyStore):
    """Loses any part of what was not forced."""

    loss = Loss.SOME


class SimulatedStore:
    """The disk in memory of tests/simulation, which has no format."""

    def __init__(self, disk: SimDisk, schedule: Schedule) -> None:
        self._disk = disk
        self._schedule = schedule
        self._done: list[DiskEvent] = []

    @classmethod
    def fresh(cls, _tmp_path: Path) -> "SimulatedStore":
        """Return an empty store."""
        schedule = Schedule(0)
        return cls(SimDisk(schedule, segment_bytes=LIMITS.segment_bytes), schedule)

    def recover(self) -> RecoveredState:
        return self._disk.open(self._done.extend)

    def perform(self, effects: Sequence[StorageEffect]) -> list[DiskEvent]:
        self._disk.submit(list(effects))
        while not self._disk.is_idle:
            self._schedule.run_until(Millis(self._schedule.now + 1))
        done, self._done[:] = list(self._done), []
        return done

    def write_snapshot(self, step: WriteSnapshot) -> None:
        self._disk.written[step.zxid] = StoredSnapshot(
            step.zxid, step.consistent_at, list(step.chunks)
        )

    def crash(self) -> "Store":
        self._disk.crash()
        return SimulatedStore(self._disk, self._schedule)


def prepare(store: Store, steps: Sequence[Step]) -> list[StorageEffect]:
    """Do the Snapshotter's part of `steps`; return the effects for the store."""
    effects: list[StorageEffect] = []
    for step in steps:
        if isinstance(step, WriteSnapshot):
            store.write_snapshot(step)
            effects.append(PublishSnapshot(step.zxid))
        else:
            effects.append(step)
    return effects


def do(store: Store, steps: Sequence[Step]) -> list[DiskEvent]:
    """Perform `steps`, the Snapshotter's part of them first."""
    return store.perform(prepare(store, steps))
