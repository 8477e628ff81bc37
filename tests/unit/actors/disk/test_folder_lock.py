"""The lock of a folder names its holder, and nothing depends on that."""

import errno
import os
import socket
from pathlib import Path

import pytest

from raykeeper.actors.disk.folder_lock import LOCK_FILE, last_holder, lock_folder
from raykeeper.actors.disk.storage_errors import FolderInUse
from tests.contract.faulty_files import FaultyFiles

FOLDER = Path("/")
LOCK = FOLDER / LOCK_FILE


def fail_write(code: int, files: FaultyFiles) -> None:
    def fail(_number: int, name: str) -> None:
        if name == "write":
            raise OSError(code, "failed")

    files.on_operation = fail


def told(files: FaultyFiles) -> str:
    with pytest.raises(FolderInUse) as caught:
        lock_folder(files, FOLDER)
    return str(caught.value)


def test_a_refusal_names_the_holder() -> None:
    files = FaultyFiles()
    for _ in range(2):  # a later holder leaves nothing of an earlier one
        lock = lock_folder(files, FOLDER)
        host = socket.gethostname()
        assert f"/ on {host} is in use by process {os.getpid()} on {host} since 2" in told(files)
        assert len(files.content(LOCK)) == 512
        files.close(lock)
        files.content(LOCK)[:] = b"x" * 512
    assert files.open_files() == 0


@pytest.mark.parametrize("content", [b"", bytes(512), b"{}", b"\xff", b'{"pid":"1"}'])
def test_a_refusal_without_a_name_says_another_process(content: bytes) -> None:
    files = FaultyFiles()
    lock = lock_folder(files, FOLDER)
    files.content(LOCK)[:] = content
    assert told(files).endswith("is in use by another process")
    files.close(lock)
    assert files.open_files() == 0


def test_a_lock_needs_no_disk_space() -> None:
    files = FaultyFiles()
    fail_write(errno.ENOSPC, files)
    lock = lock_folder(files, FOLDER)
    assert told(files).endswith("is in use by another process")
    files.close(lock)
    fail_write(errno.EIO, files)
    with pytest.raises(OSError, match="failed"):
        lock_folder(files, FOLDER)
    assert files.open_files() == 0


def test_the_last_holder_is_told_without_a_lock() -> None:
    files = FaultyFiles()
    assert last_holder(files, FOLDER) is None
    files.close(lock_folder(files, FOLDER))
    operations = files.operations
    told = last_holder(files, FOLDER)
    assert told is not None and told.startswith(f"process {os.getpid()} on ")
    assert (files.operations, files.open_files()) == (operations, 0)
    files.content(LOCK)[:] = b"x" * 512
    assert last_holder(files, FOLDER) is None
