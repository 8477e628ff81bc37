"""Filesystem on the operating system."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from raykeeper.actors.disk.file_operations import remove_leftovers
from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Unreadable


def test_a_write_may_have_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    fd = OS_FILESYSTEM.create(tmp_path / "file")
    buffers = [bytes([n % 251]) * (n % 7) for n in range(3000)]
    OS_FILESYSTEM.write(fd, buffers, 10)
    whole = b"".join(buffers)
    assert OS_FILESYSTEM.size(fd) == 10 + len(whole)
    assert OS_FILESYSTEM.read(fd, len(whole), 10) == whole
    assert OS_FILESYSTEM.read(fd, 1 << 20, 10) == whole  # up to the end of the file
    assert OS_FILESYSTEM.read(fd, 5, 1 << 20) == b""
    OS_FILESYSTEM.close(fd)


def test_allocated_space_reads_as_zeros(tmp_path: Path) -> None:
    fd = OS_FILESYSTEM.create(tmp_path / "file")
    OS_FILESYSTEM.allocate(fd, 5000)
    OS_FILESYSTEM.write(fd, [b"x"], 100)
    OS_FILESYSTEM.sync_data(fd)
    OS_FILESYSTEM.sync(fd)
    assert OS_FILESYSTEM.read(fd, 5000, 0) == bytes(100) + b"x" + bytes(4899)
    OS_FILESYSTEM.close(fd)


def test_allocated_space_has_no_holes(tmp_path: Path) -> None:
    fd = OS_FILESYSTEM.create(tmp_path / "file")
    OS_FILESYSTEM.allocate(fd, 1 << 20)
    status = os.fstat(fd)
    assert (status.st_size, status.st_blocks * 512 >= 1 << 20) == (1 << 20, True)
    OS_FILESYSTEM.close(fd)


def test_sync_calls_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[tuple[str, Path]] = []

    def note(call: str) -> Callable[[int], None]:
        return lambda fd: forced.append((call, Path(f"/proc/self/fd/{fd}").readlink()))

    monkeypatch.setattr(os, "fsync", note("fsync"))
    monkeypatch.setattr(os, "fdatasync", note("fdatasync"))
    path = tmp_path / "file"
    fd = OS_FILESYSTEM.create(path)
    before = open_files()
    OS_FILESYSTEM.sync(fd)
    OS_FILESYSTEM.sync_data(fd)
    OS_FILESYSTEM.sync_folder(tmp_path)
    assert forced == [("fsync", path), ("fdatasync", path), ("fsync", tmp_path)]
    assert open_files() == before
    OS_FILESYSTEM.close(fd)


@pytest.mark.parametrize("code", [errno.EIO, errno.EBADMSG])
def test_lost_bytes_raise_unreadable(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int, _size: int, _offset: int) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(Unreadable):
        OS_FILESYSTEM.read(0, 1, 0)
    code = errno.EISDIR
    with pytest.raises(IsADirectoryError):
        OS_FILESYSTEM.read(0, 1, 0)


def test_no_child_inherits_a_file(tmp_path: Path) -> None:
    # It would hold the lock of a server that is gone.
    lock = OS_FILESYSTEM.lock(tmp_path / "lock")
    assert lock is not None
    path = tmp_path / "file"
    fds = [
        lock,
        OS_FILESYSTEM.create(path),
        OS_FILESYSTEM.open(path),
        OS_FILESYSTEM.open_for_update(path),
    ]
    assert not any(os.get_inheritable(fd) for fd in fds)
    for fd in fds:
        OS_FILESYSTEM.close(fd)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_create_does_not_take_an_existing_file(tmp_path: Path) -> None:
    OS_FILESYSTEM.close(OS_FILESYSTEM.create(tmp_path / "file"))
    with pytest.raises(FileExistsError):
        OS_FILESYSTEM.create(tmp_path / "file")


def test_a_lock_has_one_holder_until_it_is_closed(tmp_path: Path) -> None:
    first = OS_FILESYSTEM.lock(tmp_path / "lock")
    assert first is not None
    assert OS_FILESYSTEM.lock(tmp_path / "lock") is None
    OS_FILESYSTEM.close(first)
    second = OS_FILESYSTEM.lock(tmp_path / "lock")
    assert second is not None
    OS_FILESYSTEM.close(second)


def test_a_folder_lists_its_names(tmp_path: Path) -> None:
    OS_FILESYSTEM.make_folder(tmp_path / "folder")
    OS_FILESYSTEM.close(OS_FILESYSTEM.create(tmp_path / "b"))
    OS_FILESYSTEM.rename(tmp_path / "b", tmp_path / "a")
    OS_FILESYSTEM.sync_folder(tmp_path)
    assert OS_FILESYSTEM.names(tmp_path) == ["a", "folder"]
    assert OS_FILESYSTEM.is_folder(tmp_path / "folder")
    assert not OS_FILESYSTEM.is_folder(tmp_path / "a")
    OS_FILESYSTEM.remove(tmp_path / "a")
    OS_FILESYSTEM.remove_folder(tmp_path / "folder")
    assert not OS_FILESYSTEM.exists(tmp_path / "a")


def test_a_link_to_a_folder_is_removed_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link.tmp").symlink_to(tmp_path / "precious")
    assert remove_leftovers(OS_FILESYSTEM, tmp_path / "folder") == ["link.tmp"]
    assert list((tmp_path / "folder").iterdir()) == []
    assert (tmp_path / "precious/file").exists()


def test_a_forbidden_file_is_not_reported_as_missing(tmp_path: Path) -> None:
    assert not OS_FILESYSTEM.exists(tmp_path / "missing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    for name in ("loop/x", "file/x"):
        with pytest.raises(OSError, match=name):
            OS_FILESYSTEM.exists(tmp_path / name)


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread, pwrite = os.pread, os.pwrite

    def short_pread(fd: int, size: int, offset: int) -> bytes:
        return pread(fd, min(size, 7), offset)

    def short_pwrite(fd: int, data: bytes, offset: int) -> int:
        return pwrite(fd, data[:5], offset)

    def short_pwritev(fd: int, buffers: Sequence[bytes], offset: int) -> int:
        return pwrite(fd, buffers[0][:3], offset)

    monkeypatch.setattr(os, "pread", short_pread)
    monkeypatch.setattr(os, "pwrite", short_pwrite)
    monkeypatch.setattr(os, "pwritev", short_pwritev)
    fd = OS_FILESYSTEM.create(tmp_path / "file")
    OS_FILESYSTEM.write(fd, [b"0123456789", b"abcdefghij"], 2)
    assert OS_FILESYSTEM.read(fd, 18, 4) == b"23456789abcdefghij"
    assert OS_FILESYSTEM.read(fd, 100, 4) == b"23456789abcdefghij"
    OS_FILESYSTEM.close(fd)


def test_a_lock_that_the_system_refuses_leaves_no_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fd: int, _how: int) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    before = open_files()
    with pytest.raises(OSError, match="no locks available"):
        OS_FILESYSTEM.lock(tmp_path / "lock")
    assert open_files() == before


def test_free_bytes_are_those_of_the_disk(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    assert 0 < OS_FILESYSTEM.free_bytes(tmp_path) <= disk.f_blocks * disk.f_frsize
