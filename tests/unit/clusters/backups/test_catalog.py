"""What backups are in a folder: of real files, of damaged ones, and within limits."""

import io
from pathlib import Path

import pytest
from msgspec.structs import replace

from raykeeper.clusters.backups.archive import full_name, piece_name
from raykeeper.clusters.backups.backup_format import BackupFile, BackupWriter
from raykeeper.clusters.backups.catalog import Catalog, CatalogEntry, fill_catalog
from raykeeper.clusters.backups.places import BackupPlaceError, LocalPlace, place_at
from raykeeper.zab.ids import ZERO, Epoch, Millis
from tests.contract.server_folders import UnforcedFiles
from tests.harness.backup_sources import back_up, write_archive
from tests.unit.clusters.backups.test_loading import LOG, TIMES, z

FULL = full_name(z(10))
PIECES = [piece_name(z(10), z(14)), piece_name(z(14), z(20))]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A whole backup up to 10, pieces up to 14 and 20."""
    write_archive(tmp_path / "archive", LOG, [10, 14, 20])
    return tmp_path / "archive"


def catalog_of(path: Path, files_max: int = 100, calls: int = 100) -> Catalog:
    """Return what is found until `is_over` was asked `calls` times."""
    left = iter([False] * calls)
    catalog = Catalog()
    fill_catalog(catalog, LocalPlace(path), files_max, lambda: next(left, True))
    return catalog


def entry(catalog: Catalog, name: str) -> CatalogEntry:
    (found,) = [each for each in catalog.entries if each.name == name]
    return found


def test_an_archive_is_told_from_its_manifests(archive: Path) -> None:
    catalog = catalog_of(archive)
    assert [each.name for each in catalog.entries] == [PIECES[1], FULL, PIECES[0]]
    assert [each.kind for each in catalog.entries] == ["piece", "whole", "piece"]
    assert (catalog.is_archive, catalog.end, catalog.problem) == (True, z(20), "")
    assert (catalog.left_out, catalog.other_files) == (0, 0)
    for each in catalog.entries:
        assert each.opening is not None and each.closing is not None
        assert (each.problem, each.opening.ensemble) == ("", "coord")
        assert each.bytes == (archive / each.name).stat().st_size
    ends = [each.closing and (each.closing.zxid, each.closing.time_ms) for each in catalog.entries]
    assert ends == [(z(n), TIMES[n - 1]) for n in (20, 10, 14)]
    assert [each.after for each in catalog.entries] == [z(14), ZERO, z(10)]


def test_a_file_and_a_folder_of_backups_with_other_names(archive: Path, tmp_path: Path) -> None:
    server = write_archive(tmp_path / "other", LOG, [10])
    server.snapshot(LOG[10:12])
    folder = tmp_path / "folder"
    folder.mkdir()
    back_up(server, LocalPlace(folder / "monday.rkb", UnforcedFiles()))
    (archive / PIECES[0]).rename(folder / "part.rkb")
    (folder / "README").write_text("")
    (folder / "monday.rkb.7.tmp").write_text("")
    catalog = catalog_of(folder)
    assert [(each.name, each.kind) for each in catalog.entries] == [
        ("part.rkb", "piece"),
        ("monday.rkb", "whole"),
    ]
    assert (catalog.is_archive, catalog.end, catalog.other_files) == (False, None, 1)
    assert entry(catalog, "monday.rkb").after == z(12), "the snapshot is consistent from there on"
    assert catalog_of(folder / "monday.rkb").entries == [entry(catalog, "monday.rkb")]


def test_a_url_is_read_as_a_path(archive: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for file in archive.iterdir():
        system.pipe_file(f"/catalog/{file.name}", file.read_bytes())
    catalog = Catalog()
    fill_catalog(catalog, place_at("memory://catalog"), 100, lambda: False)
    assert catalog == catalog_of(archive)


def test_damaged_files_are_told_beside_the_others(archive: Path) -> None:
    whole = (archive / FULL).read_bytes()
    (archive / "cut.rkb").write_bytes(whole[:-9])
    (archive / "end.rkb").write_bytes(whole[:-40] + b"?" + whole[-39:])
    (archive / "begin.rkb").write_bytes(whole[:40] + b"?" + whole[41:])
    (archive / "empty.rkb").write_bytes(b"")
    (archive / "none.rkb").write_bytes(b"<script>" * 99)
    (archive / "folder.rkb").mkdir()
    (archive / "lost.rkb").symlink_to("loop.rkb")
    (archive / "loop.rkb").symlink_to("loop.rkb")
    catalog = catalog_of(archive)
    problems = {each.name: each.problem for each in catalog.entries if each.problem}
    assert {name: text.removeprefix(f"{archive}/") for name, text in problems.items()} == {
        "cut.rkb": "cut.rkb was cut: it has no end",
        "end.rkb": "end.rkb is altered: its end",
        "begin.rkb": problems["begin.rkb"].removeprefix(f"{archive}/"),
        "empty.rkb": "empty.rkb is no backup of Raykeeper",
        "none.rkb": "none.rkb is no backup of Raykeeper",
        "folder.rkb": "folder.rkb: Is a directory",
        "lost.rkb": "lost.rkb: Too many levels of symbolic links",
        "loop.rkb": "loop.rkb: Too many levels of symbolic links",
    }
    assert "is altered" in problems["begin.rkb"]
    kinds = {each.name: (each.kind, each.bytes) for each in catalog.entries}
    assert kinds["cut.rkb"] == ("whole", len(whole) - 9)
    assert kinds["begin.rkb"] == ("unknown", len(whole))
    assert kinds["loop.rkb"] == ("unknown", None)
    assert (catalog.end, catalog.problem) == (z(20), "")


def test_an_archive_ends_where_a_piece_is_damaged(archive: Path) -> None:
    (archive / PIECES[0]).write_bytes(b"")
    catalog = catalog_of(archive)
    assert catalog.end == z(10)
    assert catalog.problem == (
        "the log of the archive has a hole behind 1:10; pieces reach up to 1:20"
    )
    (archive / FULL).write_bytes(b"")
    catalog = catalog_of(archive)
    assert (catalog.end, catalog.problem) == (
        None,
        "the archive has no whole backup that can be read",
    )


def test_a_file_of_an_archive_has_what_its_name_says(archive: Path) -> None:
    content = "which goes from 1:14 to 1:20"
    for other in (piece_name(z(14), z(21)), full_name(z(21))):
        (archive / other).write_bytes((archive / PIECES[1]).read_bytes())
        told = entry(catalog_of(archive), other).problem
        assert told == f"{archive / other} has another name than its content, {content}"
        assert catalog_of(archive).end == z(20)


def test_the_limits_leave_the_oldest_pieces_out(archive: Path) -> None:
    catalog = catalog_of(archive, files_max=2)
    assert [each.name for each in catalog.entries] == [PIECES[1], FULL]
    assert (catalog.left_out, catalog.end) == (1, z(20))
    catalog = catalog_of(archive, calls=1)
    assert ([each.name for each in catalog.entries], catalog.left_out) == ([PIECES[1]], 2)


def test_a_file_that_retention_removes_meanwhile_is_left_out(archive: Path) -> None:
    catalog = Catalog()

    def remove() -> bool:
        (archive / PIECES[0]).unlink(missing_ok=True)
        return False

    fill_catalog(catalog, LocalPlace(archive), 100, remove)
    assert [each.name for each in catalog.entries] == [PIECES[1], FULL]
    assert (catalog.left_out, catalog.end) == (0, z(20))


def test_a_manifest_that_says_to_be_large_is_not_read(archive: Path) -> None:
    with (archive / FULL).open("rb") as file:
        opening = BackupFile(file, "full").opening
    output = io.BytesIO()
    writer = BackupWriter(output.write, replace(opening, after=z(10), ensemble="x" * 70_000))
    writer.finish(time_ms=Millis(0), epoch=Epoch(1), digest=None)
    (archive / "large.rkb").write_bytes(output.getvalue())
    assert "a manifest of 70" in entry(catalog_of(archive), "large.rkb").problem


def test_no_place(tmp_path: Path) -> None:
    with pytest.raises(BackupPlaceError, match="nothing does not exist"):
        catalog_of(tmp_path / "nothing")
    assert catalog_of(tmp_path) == Catalog()
