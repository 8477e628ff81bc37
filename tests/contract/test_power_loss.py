"""Power is lost while something beside a store is written: it is there as before, or whole.

What a store itself does is in test_storage_crashes.py, an archive in
tests/unit/clusters/backups/test_archive_writer.py.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from raykeeper.actors.disk.file_operations import (
    make_folders,
    read_file,
    remove_tree,
    rename_durably,
    replace_file,
)
from raykeeper.actors.disk.founding import found_folder
from raykeeper.actors.disk.identity import format_folder, read_identity
from raykeeper.actors.disk.members_file import StoredMembers, read_members, write_members
from raykeeper.actors.disk.storage import Storage
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.clusters import node_discovery
from raykeeper.clusters.backups.places import LocalPlace, created_output
from raykeeper.clusters.node_report import EnsembleRecord
from raykeeper.server.recovered_state import load_state
from raykeeper.zab.ids import FOUNDING_DISK, Epoch, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from tests.contract.faulty_files import Crashed, FaultyFiles, Loss, crash_at
from tests.contract.stores import FOLDER, IDENTITY, OWNER
from tests.unit.actors.disk.test_founding import LAST, chunks_of, old_state

OPERATIONS_MAX = 200
HOME = FOLDER.parent
OTHER, FILE = HOME / "1.superseded-7", HOME / "file"
LISTS = [MemberList(Zxid(n), {ServerId(1): FOUNDING_DISK}) for n in (1, 2)]
RECORDS = [EnsembleRecord("8c1f", n) for n in (1, 3)]


def crashes(
    prepare: Callable[[FaultyFiles], object], act: Callable[[FaultyFiles], object], loss: Loss
) -> list[tuple[FaultyFiles, bool]]:
    """The disk after power was lost at each operation of `act`, and whether that had returned."""
    found = []
    for number in range(1, OPERATIONS_MAX):
        files = FaultyFiles()
        prepare(files)
        files.on_operation = crash_at(files.operations + number)
        is_done = False
        with suppress(Crashed):
            act(files)
            is_done = True
        found.append((files.crash(loss, random.Random(number)), is_done))
        if is_done:
            return found
    raise AssertionError("it never came to its end")


def found(files: FaultyFiles) -> None:
    found_folder(FOLDER, IDENTITY, Epoch(10_007), LAST, chunks_of(old_state()), files)


def made_by_another(files: FaultyFiles) -> None:
    """Another server of the ensemble is being formatted: their folder is not forced yet."""
    make_folders(files, HOME.parent)
    files.make_folder(HOME)


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("prepare", [lambda _: None, made_by_another])
def test_a_founded_state_is_there_whole_or_its_folder_may_be_removed(
    loss: Loss, prepare: Callable[[FaultyFiles], object]
) -> None:
    for files, is_done in crashes(prepare, found, loss):
        try:
            is_there = read_identity(FOLDER, files) is not None
        except CorruptRecord:
            is_there = False  # a snapshot without an identity
        if not is_there:
            assert not is_done
            if files.exists(FOLDER):
                remove_tree(files, FOLDER)
            found(files)
        storage = Storage.open(FOLDER, OWNER, files=files)
        recovered = storage.recover()
        assert (recovered.snapshot_zxid, recovered.accepted) == (LAST, 10_007)
        assert load_state(recovered).digest() == old_state().digest()
        storage.close()


@pytest.mark.parametrize("loss", Loss)
def test_a_formatted_folder_is_there_though_another_server_made_those_above(loss: Loss) -> None:
    for files, is_done in crashes(
        made_by_another, lambda files: format_folder(FOLDER, IDENTITY, files), loss
    ):
        assert not is_done or read_identity(FOLDER, files) == IDENTITY


def folder_with_file(files: FaultyFiles) -> None:
    make_folders(files, FOLDER)
    replace_file(files, FOLDER / "x", b"kept")


def where(files: FaultyFiles, *folders: Path) -> int:
    """The number of the folder that there is, of two of which there must be one, and whole."""
    (there,) = [n for n, each in enumerate(folders) if files.exists(each)]
    assert read_file(files, folders[there] / "x") == b"kept"
    return there


def written(files: FaultyFiles) -> None:
    with created_output(LocalPlace(FILE, files)) as output:
        output.write(b"some")
        output.write(b"thing")


def is_written(files: FaultyFiles) -> int:
    assert not files.exists(FILE) or read_file(files, FILE) == b"something"
    return int(files.exists(FILE))


def list_in(files: FaultyFiles) -> int:
    stored = read_members(HOME, files)
    assert stored is not None
    return LISTS.index(stored.members)


def record_in(files: FaultyFiles) -> int:
    return RECORDS.index(msgspec.json.decode(read_file(files, FILE), type=EnsembleRecord))


Act = Callable[[FaultyFiles], object]
ACTS: dict[str, tuple[Act, Act, Callable[[FaultyFiles], int]]] = {
    "a folder is set aside": (
        folder_with_file,
        lambda files: rename_durably(files, FOLDER, OTHER),
        lambda files: where(files, FOLDER, OTHER),
    ),
    "a prepared folder is adopted": (
        folder_with_file,
        lambda files: rename_durably(files, FOLDER, HOME.parent / "1"),
        lambda files: where(files, FOLDER, HOME.parent / "1"),
    ),
    "a backup is written": (lambda files: make_folders(files, HOME), written, is_written),
    "a member list is replaced": (
        lambda files: [make_folders(files, HOME), write_members(HOME, stored(0), files)],
        lambda files: write_members(HOME, stored(1), files),
        list_in,
    ),
    "a record is replaced": (
        lambda files: [make_folders(files, HOME), write_record(files, 0)],
        lambda files: write_record(files, 1),
        record_in,
    ),
}


def stored(number: int) -> StoredMembers:
    return StoredMembers(LISTS[number])


def write_record(files: FaultyFiles, number: int) -> None:
    node_discovery._write_record(FILE, RECORDS[number], files)


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize(("prepare", "act", "read"), ACTS.values(), ids=ACTS)
def test_what_is_written_is_there_as_before_or_whole(
    prepare: Act, act: Act, read: Callable[[FaultyFiles], int], loss: Loss
) -> None:
    for files, is_done in crashes(prepare, act, loss):
        assert read(files) in ((1,) if is_done else (0, 1))
