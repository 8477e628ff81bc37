"""Repair, step by step; tests/contract/test_storage_damage.py breaks it at every operation."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.identity import (
    DiskIdentity,
    RepairStep,
    format_folder,
    read_identity,
    write_identity,
)
from raykeeper.actors.disk.repair import (
    DAMAGED_FOLDER,
    begin_repair,
    finish_repair,
    remove_damaged,
)
from tests.contract.faulty_files import FaultyFiles
from tests.contract.stores import FOLDER, IDENTITY

DAMAGED = FOLDER / DAMAGED_FOLDER


def with_log(name: str, files: FaultyFiles | None = None) -> FaultyFiles:
    """A formatted folder with a file of that name in the place of a log."""
    if files is None:
        files = FaultyFiles()
        format_folder(FOLDER, IDENTITY, files)
    files.close(files.create(FOLDER / "generation-1" / name))
    return files


def begun(files: FaultyFiles, reason: str = "log.1 is damaged") -> DiskIdentity:
    identity = read_identity(FOLDER, files)
    assert identity is not None
    return begin_repair(files, FOLDER, identity, reason)


def test_a_repaired_folder_is_another_disk() -> None:
    files = with_log("log.1")
    before = files.names(FOLDER)
    identity = begun(files)
    assert read_identity(FOLDER, files) == identity
    assert identity.owner == IDENTITY.owner
    assert identity.disk() not in (IDENTITY.disk(), IDENTITY.disk_uuid)
    assert identity.repair is not None
    assert (identity.repair.step, identity.reset_reason) == (
        RepairStep.SET_ASIDE,
        "log.1 is damaged",
    )
    assert files.names(FOLDER) == before
    # One that has begun goes on, for its own reason, but never as a disk that was named before.
    again = begun(files, "another")
    assert read_identity(FOLDER, files) == again
    assert again.disk_uuid != identity.disk_uuid
    assert replace(again, disk_uuid=identity.disk_uuid) == identity


def test_a_repair_sets_the_damaged_files_aside() -> None:
    files = with_log("log.1")
    identity = finish_repair(files, FOLDER, begun(files))
    assert (identity.repair, read_identity(FOLDER, files)) == (None, identity)
    assert files.paths(DAMAGED) == [DAMAGED / "epochs", DAMAGED / "generation-1" / "log.1"]
    assert files.names(FOLDER / "generation-1") == []
    remove_damaged(files, FOLDER)
    remove_damaged(files, FOLDER)
    assert not files.exists(DAMAGED)


def test_a_later_repair_keeps_what_the_first_set_aside() -> None:
    files = with_log("log.1")
    finish_repair(files, FOLDER, begun(files))
    with_log("log.2", files)
    identity = begun(files)
    assert identity.repair is not None and identity.repair.step is RepairStep.START_ANEW
    finish_repair(files, FOLDER, identity)
    assert DAMAGED / "generation-1" / "log.1" in files.paths(DAMAGED)
    assert not [path for path in files.paths(Path("/")) if path.name == "log.2"]


@pytest.mark.parametrize("step", RepairStep)
def test_a_repair_whose_last_steps_were_lost_is_continued(step: RepairStep) -> None:
    """The identity is of an earlier step again, while the folder is at a later one."""
    files = with_log("log.1")
    identity = begun(files)
    assert identity.repair is not None
    finish_repair(files, FOLDER, identity)
    with_log("log.2", files)
    earlier = replace(identity, repair=replace(identity.repair, step=step))
    write_identity(files, FOLDER, earlier)
    again = finish_repair(files, FOLDER, begun(files))
    assert again.disk_uuid not in (identity.disk_uuid, IDENTITY.disk_uuid)
    assert (again.repair, read_identity(FOLDER, files)) == (None, again)
    assert files.paths(DAMAGED) == [DAMAGED / "epochs", DAMAGED / "generation-1" / "log.1"]
    assert files.names(FOLDER / "generation-1") == []
