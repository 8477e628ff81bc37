"""Paths and URLs: a file is there whole or not at all, and every failure names the place."""

import errno
import sys
from pathlib import Path

import pytest

from raykeeper.clusters.backups.places import (
    BackupPlaceError,
    LocalPlace,
    Place,
    created_output,
    opened_input,
    place_at,
)
from tests.contract.faulty_files import FaultyFiles

PIECE = b"x" * 1000


@pytest.fixture(params=["path", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty folder of each kind."""
    url = {
        "path": str(tmp_path),
        "file": f"file://{tmp_path}",
        "memory": f"memory://{tmp_path}",
    }[request.param]
    return place_at(url)


def content(place: Place) -> bytes:
    with opened_input(place) as file:
        data = b"".join(iter(lambda: file.read(700), b""))
        assert len(data) == file.size
        return data


def test_a_written_file_is_there_and_read(folder: Place) -> None:
    place = folder.child("a.rkb")
    assert not place.exists()
    with created_output(place) as output:
        output.write(PIECE)
        output.write(b"end")
    assert place.exists() and not place.is_folder()
    assert content(place) == PIECE + b"end"
    with opened_input(place) as file:
        file.seek(1000)
        assert file.read(9) == b"end"
    assert folder.names() == ["a.rkb"]
    place.remove()
    place.remove()
    assert not place.exists()


def test_a_failed_file_is_gone(folder: Place) -> None:
    with pytest.raises(KeyError), created_output(folder.child("a.rkb")) as output:
        output.write(PIECE)
        raise KeyError
    assert folder.names() == []
    assert not folder.child("a.rkb").exists()


def test_folders(folder: Place) -> None:
    inner = folder.child("x").child("y")
    assert inner.names() == [] and not inner.is_folder()
    inner.make_folder()
    inner.make_folder()
    with created_output(inner.child("a.rkb")) as output:
        output.write(PIECE)
    assert inner.is_folder() and inner.names() == ["a.rkb"]


def test_what_is_not_there_is_named(folder: Place) -> None:
    with pytest.raises(BackupPlaceError, match="none"):
        folder.child("none").open()


def test_a_full_disk_leaves_nothing_and_is_named() -> None:
    files = FaultyFiles()
    files.make_folder(Path("/b"))
    written = 0

    def full(_number: int, name: str) -> None:
        nonlocal written
        if name == "write":
            written += 1
            if written == 2:
                raise OSError(errno.ENOSPC, "No space left on device")

    files.on_operation = full
    place = LocalPlace(Path("/b/a.rkb"), files)
    with (
        pytest.raises(BackupPlaceError, match=r"/b/a\.rkb: No space left"),
        created_output(place) as output,
    ):
        for _ in range(10):
            output.write(b"x" * (3 << 20))
    assert files.names(Path("/b")) == []
    assert files.open_files() == 0


def test_a_local_file_is_forced_on_its_way() -> None:
    files = FaultyFiles()
    done: list[str] = []
    files.on_operation = lambda _number, name: done.append(name)
    with created_output(LocalPlace(Path("/a.rkb"), files)) as output:
        for _ in range(9):
            output.write(b"x" * (1 << 20))
    assert done.count("write") == 3 and done.count("sync") == 4
    assert done[-2:] == ["rename", "sync_folder"]
    assert files.names(Path("/")) == ["a.rkb"]


def test_a_leftover_of_the_same_process_is_replaced(tmp_path: Path) -> None:
    place = LocalPlace(tmp_path / "a.rkb")
    place.create()  # never completed
    with created_output(place) as output:
        output.write(PIECE)
    assert content(place) == PIECE
    assert [path.name for path in tmp_path.iterdir()] == ["a.rkb"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "is empty"),
        ("file://", "is empty"),
        ("nosuchkind://x/y", "nosuchkind"),
    ],
)
def test_a_place_that_cannot_be_is_refused(url: str, problem: str) -> None:
    with pytest.raises(BackupPlaceError, match=problem):
        place_at(url)


def test_a_url_without_fsspec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(BackupPlaceError, match=r"pip install 'raykeeper\[backup\]'"):
        place_at("memory://x")


def test_an_upload_that_was_cut_is_recognized(tmp_path: Path) -> None:
    place = place_at(f"memory://{tmp_path}/a.rkb")
    output = place.create()
    output.write(PIECE)
    output._bytes += 1  # type: ignore[attr-defined]  # the store has taken one byte less
    with pytest.raises(BackupPlaceError, match="1000 bytes after 1001 were written"):
        output.complete()


def test_a_home_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place_at("~/a.rkb").name == str(tmp_path / "a.rkb")
    assert place_at(Path("/x/a.rkb")).name == "/x/a.rkb"
