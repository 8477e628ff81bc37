"""What `--upgrade-from` accepts, and what a node has installed."""

from pathlib import Path

import pytest

from raykeeper.chaos.upgrade import (
    SERVERS,
    InstalledPrograms,
    UpgradeSettings,
    check_upgrade_settings,
)
from raykeeper.clusters.config import ConfigError


def package(folder: Path) -> Path:
    (folder / "raykeeper").mkdir(parents=True)
    (folder / "raykeeper" / "__init__.py").touch()
    return folder


def test_a_folder_with_a_package_is_accepted(tmp_path: Path) -> None:
    earlier = package(tmp_path / "earlier")
    assert check_upgrade_settings(earlier, 7) == UpgradeSettings(earlier.resolve(), 7)


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="/nothing has no raykeeper/__init__"):
        check_upgrade_settings(tmp_path / "nothing", 1)
    with pytest.raises(ConfigError, match="--seed must not be negative"):
        check_upgrade_settings(package(tmp_path), -1)


def test_a_program_is_installed_for_one_server_alone(tmp_path: Path) -> None:
    earlier = package(tmp_path / "earlier")
    programs = InstalledPrograms(tmp_path, earlier)
    assert (programs.present / "raykeeper" / "__init__.py").exists()
    one, *others = SERVERS
    for program in (programs.present, earlier, programs.present):
        programs.install(one, program)
        assert programs.link(one).resolve() == program
        assert {programs.link(server).resolve() for server in others} == {earlier}
    arguments = programs.node_arguments()
    assert arguments[one]["env_vars"] == {"PYTHONPATH": str(programs.link(one))}
