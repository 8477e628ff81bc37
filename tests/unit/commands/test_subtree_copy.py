"""`raykeeper copy`: its report, its progress and its file of credentials."""

import json
from pathlib import Path

import pytest

from raykeeper.client import CopyReport
from raykeeper.clusters.config import ConfigError
from raykeeper.commands import subtree_copy
from raykeeper.commands.output import make_console
from raykeeper.commands.subtree_copy import copy_and_tell, lines_of, read_credentials
from tests.contract.client_handles import Room, open_blocking


def test_a_report_names_what_a_user_should_know() -> None:
    clean = CopyReport(created=3, unchanged=1, value_bytes=70)
    done = "4 znodes with 70 bytes in 1.5 s: 3 created, 0 changed, 1 as they were"
    assert lines_of(clean, 1.5, dry_run=False) == [f"copied {done}"]
    full = CopyReport(ephemerals=2, deleted_meanwhile=3, other_kinds=4, scrypt_acls=5, changes=6)
    first, *notes = lines_of(full, 0.0, dry_run=True)
    assert first.startswith("would copy 0 znodes")
    assert [(note[0], note.split()[-1]) for note in notes] == [
        ("2", "out"),
        ("3", "meanwhile"),
        ("4", "keep"),
        ("5", "anew"),
        ("6", "moment"),
    ]


def test_a_copy_tells_its_progress_and_its_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subtree_copy, "_TOLD_EVERY_S", 0)
    with open_blocking(Room())() as client:
        client.create("/a", b"12")
        places = ((client, "/a"), (client, "/b"))
        consoles = (make_console(), make_console(stderr=True))
        copy_and_tell(*places, *consoles, merge=False, dry_run=False, as_json=True)
        printed = capsys.readouterr()
        document = json.loads(printed.out)
        assert document.pop("seconds") > 0
        assert document == {
            "dry_run": False,
            "znodes": 1,
            "created": 1,
            "changed": 0,
            "unchanged": 0,
            "skipped": 0,
            "value_bytes": 2,
            "ephemerals": 0,
            "deleted_meanwhile": 0,
            "other_kinds": 0,
            "scrypt_acls": 0,
            "changes": 0,
        }
        assert printed.err.splitlines()[-1].startswith("1 znodes, 2 bytes, ")
        copy_and_tell(*places, *consoles, merge=True, dry_run=False, as_json=False)
        assert "0 changed, 1 as they were" in capsys.readouterr().out


def test_credentials_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("scrypt ann:with a space\n \n digest bob:b\n")
    assert read_credentials(file) == [("scrypt", "ann:with a space"), ("digest", "bob:b")]


@pytest.mark.parametrize("text", [None, b"ann:secret\n", b"\xff"])
def test_a_wrong_file_of_credentials_is_refused(tmp_path: Path, text: bytes | None) -> None:
    file = tmp_path / "credentials"
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(ConfigError, match="credentials") as refused:
        read_credentials(file)
    assert "secret" not in str(refused.value)
