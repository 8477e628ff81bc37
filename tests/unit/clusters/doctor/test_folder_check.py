"""The cold files of a folder: any damage is told, and nothing of one that is whole or in use."""

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from raykeeper.actors.disk import log_format
from raykeeper.actors.disk.epochs import EPOCHS_FILE
from raykeeper.actors.disk.identity import IDENTITY_FILE
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.clusters.doctor.folder_check import FolderCheck, check_folder
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.requests import Create, SetData
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import ServerFolder
from tests.contract.stores import FOLDER
from tests.model.histories import START, Command, written

COMMANDS: list[Command] = [
    *START,
    *(("write", 0, SetData("/a", bytes(200), -1)) for _ in range(6)),
    ("write", 1, Create("/b/e", b"", 1)),
]
LOG = written(COMMANDS).log


def running(limits: StorageLimits | None = None) -> ServerFolder:
    """Two snapshots and a log of several segments, of a server that still has them open."""
    server = ServerFolder(limits=limits or StorageLimits(segment_bytes=700))
    server.append(LOG[:3])
    server.snapshot()
    server.append(LOG[3:5])
    server.snapshot()
    server.append(LOG[5:])
    assert len(server.snapshots()) == 2 and len(server.segments()) > 2
    return server


def checked(files: FaultyFiles, seconds: int = 1_000) -> FolderCheck:
    """Check with a clock that shows one second more each time."""
    ticks, opened = count(), files.open_files()
    found = check_folder(FOLDER, seconds, files, lambda: next(ticks))
    assert files.open_files() == opened
    return found


def test_a_folder_in_use_is_whole() -> None:
    server = running()
    found = checked(server.files)  # type: ignore[arg-type]
    assert (found.damage, found.unreadable, found.other_version) == ([], [], "")
    assert found.unread_files == 0
    assert found.snapshot_bytes == max(
        len(server.files.content(path))  # type: ignore[attr-defined]
        for path in server.snapshots()
    )
    assert found.segment_bytes == 700


def test_what_is_not_read_in_time_is_counted() -> None:
    server = running()
    files = len(server.snapshots()) + len(server.segments())
    found = checked(server.files, seconds=3)  # type: ignore[arg-type]
    assert (found.unread_files, found.damage) == (files - 3, [])
    assert checked(server.files, seconds=0).unread_files == files  # type: ignore[arg-type]


@pytest.mark.parametrize("which", ["snapshot.", "log.", IDENTITY_FILE, EPOCHS_FILE])
def test_a_flipped_bit_is_told_with_its_place(which: str) -> None:
    server = running()
    cold = [*server.snapshots(), *server.segments(), FOLDER / IDENTITY_FILE, FOLDER / EPOCHS_FILE]
    path = next(each for each in cold if each.name.startswith(which))
    files = server.at_rest()
    assert checked(files).damage == []
    files.flip(path, 40)
    (damage,) = checked(files).damage
    assert (f"the epochs in {FOLDER}" if which == EPOCHS_FILE else str(path)) in damage


def test_a_lost_file_is_told_by_its_neighbour_and_an_unreadable_one_by_itself() -> None:
    server = running()
    first, lost, *_, spoiled = server.segments()
    files = server.at_rest()
    files.lose(lost)
    assert [str(first) in each for each in checked(files).damage] == [True]
    files.spoil(spoiled)
    assert [str(spoiled) in each for each in checked(files).damage] == [False, True]


def test_a_file_of_another_version_is_told_and_is_no_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = running()
    with monkeypatch.context() as newer:
        newer.setattr(log_format, "LOG_VERSION", 9)
        while len(server.segments()) < 9:
            server.append([(Zxid(server.state.zxid + 1), LOG[-2][1])])
    found = checked(server.files)  # type: ignore[arg-type]
    assert found.other_version.endswith("has version 9; this program reads 2")
    assert (found.damage, found.unreadable) == ([], [])


def test_what_the_server_removes_meanwhile_is_no_damage() -> None:
    server = running()
    files = server.files
    assert isinstance(files, FaultyFiles)
    first = server.segments()[0]
    ticks = count()

    def remove_after_a_while() -> int:
        if next(ticks) == 2:  # the snapshots are read
            files.remove(first)
        return 0

    found = check_folder(FOLDER, 1, files, remove_after_a_while)
    assert (found.damage, found.unreadable, found.unread_files) == ([], [], 0)


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    found = check_folder(tmp_path / "missing", 1e9)
    assert found.unreadable and "does not exist" in found.unreadable[0]
    (tmp_path / "empty").mkdir()
    found = check_folder(tmp_path / "empty", 1e9)
    assert found.unreadable and "neither an identity nor data" in found.unreadable[0]


def test_a_damaged_or_unreadable_snapshot_keeps_nothing_from_being_read() -> None:
    server = running()
    first, second = server.snapshots()
    files = server.at_rest()
    files.flip(first, 4)
    files.spoil(second)
    found = checked(files)
    assert [str(path) in text for path, text in zip((first, second), found.damage, strict=True)]
    assert found.unread_files == 0 and found.segment_bytes > 0


def test_a_file_system_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = running()
    segments = server.segments()
    files = server.at_rest()
    really = {"open": files.open, "exists": files.exists}

    def broken(name: str) -> Callable[[Path], int | bool]:
        def call(path: Path) -> int | bool:
            if path in segments:
                raise OSError(errno.EIO, "Input/output error")
            return really[name](path)

        return call

    for name in really:
        monkeypatch.setattr(files, name, broken(name))
    found = checked(files)
    assert len(found.unreadable) == len(segments) and found.segment_bytes == 0
    assert all("Input/output error" in each for each in found.unreadable)
    assert found.damage == [] and found.snapshot_bytes > 0
