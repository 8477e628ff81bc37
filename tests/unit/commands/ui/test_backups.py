"""The route of the backups: places with real files, damaged ones, and one that does not answer."""

import os
from datetime import UTC, datetime
from pathlib import Path

from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.clusters.backups.archive import full_name, piece_name
from raykeeper.commands.ui.backups import without_credentials
from tests.harness.backup_sources import write_archive
from tests.harness.page_stage import NAME, PureSource, open_page
from tests.unit.clusters.backups.test_loading import LOG, TIMES, z


def iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def grow(source: PureSource, znodes: int) -> None:
    """Let the servers apply a transaction for each znode, besides the one of the session."""
    caller = source.servers[2].caller(1)
    for number in range(znodes):
        caller.ask(caller.create(f"/n{number}"))
    source.pass_time(1_000)


async def test_an_archive_is_told_and_how_far_behind_it_is(tmp_path: Path) -> None:
    write_archive(tmp_path, LOG, [10, 14])
    async with open_page(backups=(str(tmp_path),)) as page:
        grow(page.source, 19)
        status, told = await page.get("/api/v1/backups")
        assert status == 200
        assert (told["name"], told["newest"], told["problem"]) == (NAME, "1:20", "")
        (place,) = told["places"]
        assert (place["place"], place["problem"], place["left_out"]) == (str(tmp_path), "", 0)
        archive = place["archive"]
        assert archive.pop("behind_s") > 0
        assert archive == {
            "end": "1:14",
            "end_time": iso(TIMES[13]),
            "behind_txns": 6,
            "problem": "",
        }
        piece, whole = place["backups"]
        assert (whole["file"], whole["kind"]) == (full_name(z(10)), "whole")
        assert (whole["from_zxid"], whole["from_time"]) == ("0:0", None)
        assert (whole["zxid"], whole["time"], whole["txns"]) == ("1:10", iso(TIMES[9]), 10)
        assert (piece["file"], piece["kind"]) == (piece_name(z(10), z(14)), "piece")
        assert (piece["from_zxid"], piece["from_time"]) == ("1:10", iso(TIMES[9]))
        assert (piece["zxid"], piece["time"], piece["txns"]) == ("1:14", iso(TIMES[13]), 4)
        assert piece["bytes"] == (tmp_path / piece["file"]).stat().st_size
        assert (piece["ensemble"], piece["ensemble_uuid"], piece["problem"]) == (
            "coord",
            "8c1f",
            "",
        )


async def test_an_archive_in_step_one_ahead_and_one_of_another_ensemble(tmp_path: Path) -> None:
    write_archive(tmp_path, LOG, [10, 14])
    source = PureSource()
    async with open_page(source, backups=(str(tmp_path),)) as page:
        grow(source, 13)
        told = (await page.get("/api/v1/backups"))[1]
        archive = told["places"][0]["archive"]
        assert (told["newest"], archive["behind_txns"], archive["behind_s"]) == ("1:14", 0, 0)
    async with open_page(backups=(str(tmp_path),)) as page:
        grow(page.source, 1)
        archive = (await page.get("/api/v1/backups"))[1]["places"][0]["archive"]
        assert (archive["behind_txns"], archive["behind_s"]) == (None, None)
        assert archive["problem"].startswith("it goes on to 1:14, and the servers only to 1:2: ")
    source = PureSource()
    source.name = "apps"
    async with open_page(source, backups=(str(tmp_path),)) as page:
        archive = (await page.get("/api/v1/backups"))[1]["places"][0]["archive"]
        assert (archive["end"], archive["behind_txns"]) == ("1:14", None)
        assert archive["problem"] == "it is an archive of coord"


async def test_a_bad_file_and_a_bad_place_hide_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    write_archive(folder, LOG, [10, 12, 14])
    (folder / "cut.rkb").write_bytes((folder / full_name(z(10))).read_bytes()[:-1])
    nothing = tmp_path / "nothing"
    unknown = "nosuch://ann:secret@host/backups"
    places = (str(nothing), unknown, str(folder))
    async with open_page(backups=places, backup_files_max=3) as page:
        page.source.problem = EnsembleNotFoundError("no ensemble coord runs here")
        status, told = await page.get("/api/v1/backups")
        assert (status, told["newest"], told["files_max"]) == (200, None, 3)
        assert told["problem"] == "no ensemble coord runs here"
        missing, refused, good = told["places"]
        assert missing["problem"] == f"{nothing} does not exist" and missing["backups"] == []
        assert refused["place"] == "nosuch://host/backups"
        assert refused["problem"].startswith("nosuch://host/backups: ")
        assert "secret" not in str(told)
        piece, whole, cut = good["backups"]
        assert (piece["zxid"], piece["problem"]) == ("1:14", "")
        assert (whole["problem"], good["problem"], good["left_out"]) == ("", "", 1)
        assert cut["problem"] == f"{folder / 'cut.rkb'} was cut: it has no end"
        assert (cut["kind"], cut["zxid"], cut["time"]) == ("whole", None, None)
        assert good["archive"]["end"] == "1:14" and good["archive"]["behind_txns"] is None


async def test_a_place_that_does_not_answer_hides_no_other(tmp_path: Path) -> None:
    good, late = tmp_path / "good", tmp_path / "late"
    for each in (good, late):
        write_archive(each, LOG, [10])
    pipe = late / "pipe.rkb"
    os.mkfifo(pipe)  # to open it waits for a writer
    try:
        async with open_page(backups=(str(late), str(good)), backup_timeout_s=1.0) as page:
            status, told = await page.get("/api/v1/backups")
    finally:
        os.close(os.open(pipe, os.O_RDWR))  # the reader goes on
    assert status == 200
    assert told["places"][0]["problem"] == f"{late} does not answer within 1 s"
    assert [len(each["backups"]) for each in told["places"]] == [1, 1]
    assert [each["left_out"] for each in told["places"]] == [1, 0]
    assert told["places"][1]["problem"] == ""


async def test_without_a_place_there_are_no_backups() -> None:
    async with open_page() as page:
        assert (await page.get("/api/v1/ensemble"))[1]["shows_backups"] is False
        status, told = await page.get("/api/v1/backups")
        assert status == 404 and "`--backups PLACE`" in told["error"]
    async with open_page(backups=("/x",)) as page:
        assert (await page.get("/api/v1/ensemble"))[1]["shows_backups"] is True


def test_passwords_in_urls_are_not_shown() -> None:
    assert without_credentials("a ftp://u:p@host/x: simplecache::s3://k:s@b/y, c@d /a@b") == (
        "a ftp://host/x: simplecache::s3://b/y, c@d /a@b"
    )
