"""What is told of the process and of its server's folder."""

import resource
from pathlib import Path

import pytest

from raykeeper.actors.process_facts import read_process_facts


def test_the_files_of_the_folder_are_those_of_snapshots_and_of_the_log(tmp_path: Path) -> None:
    generation = tmp_path / "generation-1"
    generation.mkdir()
    for path, size in (
        *((generation / "snapshot.00", 10), (generation / "snapshot.01", 20)),
        *((generation / "log.00", 300), (generation / "log.01", 4), (tmp_path / "spare", 1_000)),
        *((tmp_path / "identity", 7), (tmp_path / "epochs", 7)),
    ):
        path.write_bytes(bytes(size))
    facts = read_process_facts(tmp_path)
    assert (facts.snapshot_bytes, facts.log_bytes) == (30, 1_304)
    assert 0 < facts.disk_free_bytes < facts.disk_bytes
    missing = read_process_facts(tmp_path / "missing")
    assert (missing.log_bytes, missing.disk_bytes, missing.disk_free_bytes) == (0, 0, 0)


def test_a_file_that_vanishes_meanwhile_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "log.00").symlink_to(tmp_path / "gone")
    assert read_process_facts(tmp_path).log_bytes == 0


def test_open_files_and_their_limit(tmp_path: Path) -> None:
    before = read_process_facts(tmp_path)
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert read_process_facts(tmp_path).open_files == before.open_files + 2
    assert before.files_max == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_no_limit_of_open_files_is_minus_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    none = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (none, none))
    assert read_process_facts(tmp_path).files_max == -1


def test_the_environment_has_zookeepers_names(tmp_path: Path) -> None:
    values = dict(read_process_facts(tmp_path).environment)
    assert list(values) == [
        *("host.name", "python.version", "os.name", "os.arch", "os.version"),
        *("user.name", "user.home", "user.dir"),
    ]
    assert values["user.dir"] == str(Path.cwd()) and all(values.values())
