"""The member list in a data folder: what is read back, and what counts as none."""

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

from raykeeper.actors.disk.file_operations import remove_leftovers
from raykeeper.actors.disk.members_file import (
    MEMBERS_FILE,
    StoredMembers,
    read_members,
    write_members,
)
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss

S1, S2, S4 = ServerId(1), ServerId(2), ServerId(4)
LIST = MemberList(Zxid(7), {S1: FOUNDING_DISK, S4: DiskId("d4")}, (S2,))
STORED = StoredMembers(LIST, "left the ensemble by the change of version 1:66")


def told_of(folder: Path) -> tuple[StoredMembers | None, list[str]]:
    told: list[str] = []
    return read_members(folder, tell=told.append), told


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    assert told_of(tmp_path) == (None, [])
    for stored in (StoredMembers(LIST), STORED):
        write_members(tmp_path, stored)
        assert told_of(tmp_path) == (stored, [])


def test_an_operator_can_read_it(tmp_path: Path) -> None:
    write_members(tmp_path, STORED)
    content = json.loads((tmp_path / MEMBERS_FILE).read_text())["content"]
    assert content == {
        "members": [7, {"1": "", "4": "d4"}, [2]],
        "removed": STORED.removed,
        "format_version": 1,
    }


@pytest.mark.parametrize("place", [2, 20, 40, 60, -5])
def test_a_file_with_another_byte_counts_as_none(tmp_path: Path, place: int) -> None:
    write_members(tmp_path, STORED)
    path = tmp_path / MEMBERS_FILE
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    found, told = told_of(tmp_path)
    assert found is None
    assert len(told) == 1 and told[0].startswith(f"{path} is damaged: ")


@pytest.mark.parametrize("data", [b"", b"{}", b"x" * (2 << 20), b"\xff"])
def test_other_bytes_count_as_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / MEMBERS_FILE).write_bytes(data)
    found, told = told_of(tmp_path)
    assert (found, len(told)) == (None, 1)


def test_a_file_of_a_newer_program_counts_as_none(tmp_path: Path) -> None:
    write_members(tmp_path, StoredMembers(LIST, "", 2))
    reason = f"{tmp_path / MEMBERS_FILE} has version 2; this program reads 1"
    assert told_of(tmp_path) == (None, [reason])


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / MEMBERS_FILE).mkdir()
    found, told = told_of(tmp_path)
    assert (found, len(told)) == (None, 1)
    assert MEMBERS_FILE in told[0]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="missing"):
        write_members(tmp_path / "missing", STORED)


@pytest.mark.parametrize("loss", Loss)
def test_a_crash_leaves_the_old_list_or_the_new_one(loss: Loss) -> None:
    folder, old = Path("/data"), StoredMembers(LIST)
    found = []
    for number in range(20):
        files = FaultyFiles()
        files.make_folder(folder)
        files.sync_folder(folder.parent)
        write_members(folder, old, files)
        crash_at(files, number)
        with suppress(Crashed):
            write_members(folder, STORED, files)
        files = files.crash(loss, random.Random(number))
        remove_leftovers(files, folder)
        found.append(read_members(folder, files))
    assert found[0] == old and found[-1] == STORED
    assert {each == old for each in found} == {True, False}
    assert all(each in (old, STORED) for each in found)


def crash_at(files: FaultyFiles, number: int) -> None:
    last = files.operations + number

    def crash(now: int, _name: str) -> None:
        if now > last:
            raise Crashed

    files.on_operation = crash
