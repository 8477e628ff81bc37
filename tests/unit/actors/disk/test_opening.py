"""Opening a store: an empty folder is formatted, a corrupt one repaired, or both refused."""

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.identity import (
    IDENTITY_FILE,
    FolderOwner,
    format_folder,
    read_identity,
)
from raykeeper.actors.disk.opening import open_storage
from raykeeper.actors.disk.storage import Storage
from raykeeper.actors.disk.storage_errors import (
    FolderInUse,
    ForeignFolder,
    NotFormatted,
    UnknownVersion,
)
from raykeeper.links.hello import Fence
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.zab.ids import FOUNDING_DISK, ServerId
from tests.contract.faulty_files import FaultyFiles
from tests.contract.stores import FOLDER, IDENTITY, LIMITS, OWNER


def opened(
    files: FaultyFiles, owner: FolderOwner = OWNER, *, has_peers: bool = True, wall_s: int = 1_000
) -> tuple[Storage, RecoveredState]:
    return open_storage(FOLDER, owner, LIMITS, has_peers=has_peers, wall_s=wall_s, files=files)


@pytest.mark.parametrize("has_peers", [False, True])
def test_a_formatted_folder_is_opened(has_peers: bool) -> None:
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    storage, recovered = opened(files, has_peers=has_peers)
    assert (recovered.disk_id, storage.identity.incarnation) == (FOUNDING_DISK, 1_000)


def test_an_empty_folder_is_a_new_disk_to_servers_with_peers() -> None:
    files = FaultyFiles()
    with pytest.raises(NotFormatted, match="only voter"):
        opened(files, has_peers=False)
    assert files.paths(FOLDER.parents[2]) == []
    storage, recovered = opened(files)
    assert recovered.disk_id == storage.identity.disk_uuid != FOUNDING_DISK
    assert storage.identity.incarnation == 1_001
    assert storage.identity.reset_reason == "its folder was empty"
    storage.close()
    assert opened(files)[1].disk_id == recovered.disk_id


def test_an_old_disk_that_returns_is_a_newer_incarnation() -> None:
    old, new, fence = FaultyFiles(), FaultyFiles(), Fence()
    format_folder(FOLDER, IDENTITY, old)
    for files, wall_s in ((old, 1_000), (old, 1_000), (new, 1_001), (new, 1_500), (old, 2_000)):
        storage, _ = opened(files, wall_s=wall_s)
        assert fence.admit(OWNER.server_id, storage.identity.incarnation), (files is old, wall_s)
        storage.close()


def test_only_a_damaged_folder_is_repaired() -> None:
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    with pytest.raises(ForeignFolder):
        opened(files, FolderOwner("coord", "8c1f", ServerId(2)))
    storage, _ = opened(files)
    with pytest.raises(FolderInUse):
        opened(files)
    storage.close()
    assert read_identity(FOLDER, files) == replace(IDENTITY, incarnation=1_000)
    other = FaultyFiles()
    format_folder(FOLDER, IDENTITY, other)
    data = other.content(FOLDER / IDENTITY_FILE).partition(b"\n")[2]
    data = data.replace(b'"format_version":2', b'"format_version":9')
    other.content(FOLDER / IDENTITY_FILE)[:] = b"RKIDENTITY %08x\n" % zlib.crc32(data) + data
    with pytest.raises(UnknownVersion):
        opened(other)
    assert (files.open_files(), other.open_files()) == (0, 0)


class OvertakenFiles(FaultyFiles):
    """Files on which another process does something before a lock is taken for the first time."""

    def __init__(self, overtake: Callable[[FaultyFiles], None]) -> None:
        super().__init__()
        self.overtake: Callable[[FaultyFiles], None] | None = None
        format_folder(FOLDER, IDENTITY, self)
        self.overtake = overtake

    def lock(self, path: Path) -> int | None:
        overtake, self.overtake = self.overtake, None
        if overtake is not None:
            overtake(self)
        return super().lock(path)


def test_a_damaged_folder_that_is_in_use_is_left_alone() -> None:
    files = FaultyFiles()
    format_folder(FOLDER, IDENTITY, files)
    storage, _ = opened(files)
    files.flip(FOLDER / IDENTITY_FILE, 30)
    damaged = bytes(files.content(FOLDER / IDENTITY_FILE))
    with pytest.raises(FolderInUse, match=f"in use by process {os.getpid()} on"):
        opened(files)
    assert files.content(FOLDER / IDENTITY_FILE) == damaged
    storage.close()
    assert opened(files)[1].disk_id != FOUNDING_DISK


def test_a_disk_repaired_by_another_process_is_left_alone() -> None:
    # Frozen between looking at the identity and locking the folder: by now its vote may be back.
    repaired: list[str] = []

    def repair(files: FaultyFiles) -> None:
        storage, recovered = opened(files)
        repaired.append(recovered.disk_id)
        storage.close()

    files = OvertakenFiles(repair)
    files.flip(FOLDER / IDENTITY_FILE, 30)
    with pytest.raises(FolderInUse, match=r"/data/coord/1 .* was repaired by another process"):
        opened(files)
    assert files.open_files() == 0
    assert [opened(files)[1].disk_id] == repaired
