"""Which ensembles are offered, and how their names are noted."""

import os
from pathlib import Path

import pytest

from raykeeper.commands.completion import (
    NAMES_MAX,
    complete_name,
    complete_place,
    forget_name,
    known_names,
    note_name,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_nothing_is_known_at_first(home: Path) -> None:
    assert known_names() == []
    forget_name("coord")
    assert list(home.iterdir()) == []


def test_the_newest_name_stands_first_and_once(home: Path) -> None:
    for name in ("apps", "coord", "apps", "cold"):
        note_name(name)
    assert known_names() == ["cold", "apps", "coord"]
    assert (complete_name("co"), complete_place("a")) == (["cold", "coord"], ["apps"])
    assert complete_place("apps/x") == []
    forget_name("apps")
    assert known_names() == ["cold", "coord"]
    assert [each.name for each in (home / ".raykeeper").iterdir()] == ["names.json"]


def test_a_folder_of_the_default_place_is_known_too(home: Path) -> None:
    (home / ".raykeeper/data/coord").mkdir(parents=True)
    (home / ".raykeeper/data/batch").mkdir()
    note_name("coord")
    assert known_names() == ["coord", "batch"]


def test_only_so_many_names_are_kept() -> None:
    for number in range(NAMES_MAX + 5):
        note_name(f"e{number}")
    assert len(known_names()) == NAMES_MAX
    assert known_names()[0] == f"e{NAMES_MAX + 4}"


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff", b'[1, "coord", null]'])
def test_a_note_that_is_damaged_is_replaced(home: Path, content: bytes) -> None:
    (home / ".raykeeper").mkdir()
    (home / ".raykeeper/names.json").write_bytes(content)
    assert known_names() == (["coord"] if b"coord" in content else [])
    note_name("apps")
    assert known_names()[0] == "apps"


def test_a_home_in_which_nothing_can_be_written_is_no_error(home: Path) -> None:
    (home / ".raykeeper").write_text("a file")
    note_name("coord")
    assert known_names() == []
    (home / ".raykeeper").unlink()
    (home / ".raykeeper/names.json").mkdir(parents=True)
    note_name("coord")
    assert known_names() == []
    assert [each.name for each in (home / ".raykeeper").iterdir()] == ["names.json"]


def test_a_user_without_a_home_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container nobody may know the user: a command that has done its work must not fail."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: (1 << 31) - 3)
    with pytest.raises(RuntimeError):
        Path.home()
    note_name("coord")
    assert known_names() == []
