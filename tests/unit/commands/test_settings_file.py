"""`raykeeper init` writes the settings file of the repository, and overwrites nothing unasked."""

from pathlib import Path

import pytest

from raykeeper.clusters.config import DEFAULTS, load_config
from raykeeper.commands.settings_file import InitError, settings_text, write_settings

ROOT = Path(__file__).parents[3]


def test_the_text_is_that_of_the_repository(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    write_settings(file, overwrites=False)
    assert file.read_text() == settings_text() == (ROOT / "ray-config.yaml").read_text()
    assert load_config(file) == DEFAULTS


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("mine")
    with pytest.raises(InitError, match=r"my\.yaml exists; --force overwrites it"):
        write_settings(file, overwrites=False)
    assert file.read_text() == "mine"
    write_settings(file, overwrites=True)
    assert file.read_text() == settings_text()


@pytest.mark.parametrize("overwrites", [False, True])
def test_an_unwritable_path_is_an_error(tmp_path: Path, overwrites: bool) -> None:
    (tmp_path / "folder").mkdir()
    for file in (tmp_path / "missing/my.yaml", tmp_path / "folder"):
        with pytest.raises(InitError):
            write_settings(file, overwrites=overwrites)
