"""What `raykeeper backup` and `restore` print and show."""

import io
import json

import pytest
from msgspec.structs import replace
from rich.console import Console

from raykeeper.clusters import Ensemble
from raykeeper.clusters.backups import (
    BackupProgress,
    BackupReport,
    FollowEvent,
    RestoreReport,
)
from raykeeper.commands.backup_commands import (
    backup_document,
    print_backup,
    print_restore,
    restore_document,
    shown_progress,
    teller,
)
from raykeeper.commands.output import make_console
from raykeeper.zab.ids import Epoch, Millis, ServerId, make_zxid

Z = make_zxid(Epoch(3), 17)
BACKUP = BackupReport(
    place="/b/[x].rkb",
    ensemble="coord",
    server_id=ServerId(2),
    zxid=Z,
    time_ms=Millis(1_795_647_326_146),
    digest=255,
    bytes=12345,
    txns=7,
    seconds=1.25,
)
RESTORE = RestoreReport(
    ensemble=Ensemble("coord2"),
    origin="coord",
    zxid=Z,
    time_ms=Millis(1_795_647_326_146),
    first_zxid=make_zxid(Epoch(16388), 1),
    znodes=2000,
    sessions_ended=4,
    salted_acls=0,
    seconds=3.0,
)


def test_a_backup_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_backup(make_console(), BACKUP, as_json=False)
    line = "wrote /b/[x].rkb: coord as of 3:17, 12,345 bytes in 1.2 s, read from server 2\n"
    assert capsys.readouterr().out == line
    print_backup(make_console(), replace(BACKUP, digest=None), as_json=False)
    assert capsys.readouterr().out.endswith("without a digest: the server did not know it yet\n")


def test_the_document_of_a_backup(capsys: pytest.CaptureFixture[str]) -> None:
    document = backup_document(BACKUP)
    assert (document["zxid"], document["digest"]) == ("3:17", "0x00000000000000ff")
    assert document["time"] == "2026-11-25T22:55:26.146+00:00"
    assert set(document) == set(BACKUP.__struct_fields__) - {"time_ms"} | {"time"}
    assert backup_document(replace(BACKUP, digest=None))["digest"] is None
    print_backup(make_console(), BACKUP, as_json=True)
    assert '"ensemble": "coord"' in capsys.readouterr().out


def test_a_restore_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_restore(make_console(), RESTORE, as_json=False)
    assert capsys.readouterr().out == (
        "restored coord as of 3:17 (2026-11-25T22:55:26.146+00:00) as coord2, which runs: 2,000 "
        "znodes, 4 sessions ended; all zxids will be above 16388:1\n"
    )
    print_restore(make_console(), replace(RESTORE, salted_acls=3), as_json=False)
    assert "3 znodes have ACL entries of the scheme scrypt" in capsys.readouterr().out


def test_the_document_of_a_restore(capsys: pytest.CaptureFixture[str]) -> None:
    document = restore_document(RESTORE)
    assert (document["ensemble"], document["first_zxid"]) == ("coord2", "16388:1")
    assert set(document) == set(RESTORE.__struct_fields__) - {"time_ms"} | {"time"}
    print_restore(make_console(), RESTORE, as_json=True)
    assert '"origin": "coord"' in capsys.readouterr().out


def test_events_of_an_archive_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    begun = FollowEvent("begun", "begins with [full]", Z)
    piece = FollowEvent("archived", "archived up to 3:17", Z)
    tell = teller(make_console(), None, as_json=False)
    tell(begun)
    tell(piece)
    line = capsys.readouterr().out
    assert line.endswith("+00:00 begins with [full]\n") and line.count("\n") == 1
    tell = teller(make_console(), None, as_json=True)
    tell(replace(begun, zxid=None))
    tell(begun)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["kind"], first["zxid"], second["zxid"]) == ("begun", None, "3:17")
    file = io.StringIO()
    with Console(file=file, force_terminal=True).status("") as status:
        teller(make_console(), status, as_json=False)(piece)
        assert status.status == "archived up to 3:17"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_progress_is_shown_on_a_terminal_only(is_terminal: bool) -> None:
    file = io.StringIO()
    with shown_progress(Console(file=file, force_terminal=is_terminal, width=100)) as tell:
        for done in (10, 20, 40):
            tell(BackupProgress("snapshot", done, 30))
            tell(BackupProgress("log [x]", done, None))
    assert ("snapshot" in file.getvalue(), "log [x]" in file.getvalue()) == (is_terminal,) * 2
