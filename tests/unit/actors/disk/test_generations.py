"""Generations: the highest number counts, and only whole ones have a number."""

import random
from pathlib import Path

import pytest

from raykeeper.actors.disk.generations import (
    find_generation,
    make_first_generation,
    open_generations,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError
from tests.contract.faulty_files import FaultyFiles, Loss

FOLDER = Path("/")


def with_generations(*names: str) -> FaultyFiles:
    files = FaultyFiles()
    for name in names:
        files.make_folder(FOLDER / name)
        files.close(files.create(FOLDER / name / "log.1"))
        files.close(files.create(FOLDER / name / "snapshot.1"))
    return files


def test_the_first_generation_is_created_once() -> None:
    files = FaultyFiles()
    make_first_generation(files, FOLDER)
    make_first_generation(files, FOLDER)
    generations, old = open_generations(files, FOLDER)
    assert (generations.path, old) == (FOLDER / "generation-1", [])


@pytest.mark.parametrize("names", [["generation-1"], ["generation-2"]])
def test_data_without_an_identity_is_left_alone(names: list[str]) -> None:
    files = with_generations(*names)
    with pytest.raises(StorageError, match="has no identity but holds a log or a snapshot"):
        make_first_generation(files, FOLDER)
    assert files.names(FOLDER) == names


def test_older_generations_are_removed() -> None:
    files = with_generations("generation-9", "generation-10", "generation-2")
    generations, old = open_generations(files, FOLDER)
    assert generations.path == FOLDER / "generation-10"
    assert old == ["generation-2", "generation-9"]
    assert files.names(FOLDER) == ["generation-10"]


def test_the_generation_is_found_without_a_change() -> None:
    files = with_generations("generation-9", "generation-10", "generation-2")
    operations = files.operations
    generations, older = find_generation(files, FOLDER)
    assert (generations.path, older) == (FOLDER / "generation-10", ["generation-2", "generation-9"])
    assert files.operations == operations


def test_unforced_names_are_forced() -> None:
    files = with_generations("generation-1")
    open_generations(files, FOLDER)
    after = files.crash(Loss.ALL, random.Random(0))
    assert after.names(FOLDER / "generation-1") == ["log.1", "snapshot.1"]


def test_a_generation_without_its_snapshot_leaves_the_previous_one() -> None:
    files = with_generations("generation-1", "generation-2")
    files.remove(FOLDER / "generation-2" / "snapshot.1")
    with pytest.raises(CorruptRecord, match=r"the snapshot in .*generation-2 is gone"):
        open_generations(files, FOLDER)
    assert files.names(FOLDER) == ["generation-1", "generation-2"]


def test_the_next_generation_replaces_the_last() -> None:
    files = with_generations("generation-1")
    generations, _ = open_generations(files, FOLDER)
    files.close(files.create(generations.prepare() / "new"))
    generations.publish()
    assert generations.path == FOLDER / "generation-2"
    assert files.names(FOLDER) == ["generation-2"]
    assert files.names(generations.path) == ["new"]


def test_a_missing_generation_is_a_loss() -> None:
    with pytest.raises(CorruptRecord, match="are gone"):
        open_generations(FaultyFiles(), FOLDER)


def test_a_foreign_name_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="generation-x is not the name"):
        open_generations(with_generations("generation-x"), FOLDER)
