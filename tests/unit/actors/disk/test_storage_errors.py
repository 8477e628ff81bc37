"""The errors of a store: they name what was found, and can be pickled."""

import pickle
from pathlib import Path

import pytest

from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    FolderInUse,
    ForeignFolder,
    NotFormatted,
    StorageError,
    storage_errors,
)
from raykeeper.zab.errors import RayKeeperError


def test_the_errors_form_a_tree() -> None:
    assert issubclass(StorageError, RayKeeperError)
    for kind in (CorruptRecord, NotFormatted, ForeignFolder, FolderInUse):
        assert issubclass(kind, StorageError)


def test_a_foreign_folder_is_named_with_both_owners() -> None:
    error = ForeignFolder("m1", "/data/a/1", "server 1 of 'b'", "server 1 of 'a'")
    assert str(error) == "/data/a/1 on m1 belongs to server 1 of 'b', not to server 1 of 'a'"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.machine, again.folder) == ("m1", "/data/a/1")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(28, "No space left on device", "/data/log.1"), "/data/log.1: No space left"),
        (OSError(5, "Input/output error"), "/data: Input/output error"),
        (OSError("no errno"), "/data: no errno"),
    ],
)
def test_an_error_of_the_system_names_the_file(error: OSError, text: str) -> None:
    with pytest.raises(StorageError, match=text) as caught, storage_errors(Path("/data")):
        raise error
    assert caught.value.__cause__ is error


def test_other_errors_pass_unchanged() -> None:
    with pytest.raises(AssertionError), storage_errors(Path("/data")):
        raise AssertionError("a bug")
