"""The folder of a chaos run stays when something is wrong, and only then."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from raykeeper.chaos.run_folder import RunFolder, run_folder


class Ended(Exception):
    """What a run may raise."""


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    """Folders are made below `tmp_path`; what is printed can be read with `said`."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Console(file=io.StringIO(), width=1_000)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def fill(folder: RunFolder) -> None:
    (folder.path / "records").write_text("x")


def test_a_released_folder_is_removed_silently(console: Console) -> None:
    with run_folder("rk-", console) as folder:
        fill(folder)
        folder.release()
    assert not folder.path.exists()
    assert said(console) == ""


def test_a_folder_that_nobody_released_stays_and_is_told(console: Console) -> None:
    with run_folder("rk-", console) as folder:
        fill(folder)
    assert (folder.path / "records").read_text() == "x"
    assert said(console) == f"records and data are kept in {folder.path}\n"


def test_a_failed_run_keeps_its_folder(console: Console) -> None:
    with pytest.raises(Ended), run_folder("rk-", console) as folder:
        fill(folder)
        raise Ended
    assert folder.path.exists()
    assert str(folder.path) in said(console)


def test_an_interrupted_run_leaves_nothing(console: Console) -> None:
    with pytest.raises(KeyboardInterrupt), run_folder("rk-", console) as folder:
        fill(folder)
        raise KeyboardInterrupt
    assert not folder.path.exists()
    assert said(console) == ""
