"""The identity of a folder: formatting, claiming, and who may not."""

import subprocess
import sys
from pathlib import Path

import pytest

from raykeeper.actors.disk.file_layer import OS_FILES
from raykeeper.actors.disk.identity import (
    IDENTITY_FILE,
    Identity,
    Owner,
    claim_folder,
    format_folder,
    peek_identity,
)
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    FolderInUse,
    ForeignFolder,
    NotFormatted,
    StorageError,
)
from raykeeper.zab.ids import ServerId

OWNER = Owner("coord", "8c1f", ServerId(1))
IDENTITY = Identity(OWNER, "disk-1", votes=True)


def test_each_claim_raises_the_incarnation(tmp_path: Path) -> None:
    folder = tmp_path / "coord" / "1"
    format_folder(folder, IDENTITY)
    for incarnation in (1, 2, 3):
        claim = claim_folder(folder, OWNER)
        assert claim.identity == Identity(OWNER, "disk-1", votes=True, incarnation=incarnation)
        assert peek_identity(folder) == claim.identity
        OS_FILES.close(claim.lock)


@pytest.mark.parametrize("votes", [True, False])
def test_a_vote_is_given_by_formatting(tmp_path: Path, votes: bool) -> None:
    format_folder(tmp_path, Identity(OWNER, "disk-1", votes))
    claim = claim_folder(tmp_path, OWNER)
    assert claim.identity.votes is votes
    OS_FILES.close(claim.lock)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_folder_without_identity_is_not_touched(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFormatted, match="has no identity"):
        claim_folder(tmp_path / name, OWNER)
    assert peek_identity(tmp_path / name) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("expected", "named"),
    [
        (Owner("coord", "8c1f", ServerId(2)), r"server 2 of ensemble 'coord' \(8c1f\)"),
        (Owner("coord", "ffff", ServerId(1)), r"server 1 of ensemble 'coord' \(ffff\)"),
        (Owner("other", "8c1f", ServerId(1)), r"server 1 of ensemble 'other' \(8c1f\)"),
    ],
)
def test_a_foreign_folder_is_left_alone(tmp_path: Path, expected: Owner, named: str) -> None:
    format_folder(tmp_path, IDENTITY)
    before = (tmp_path / IDENTITY_FILE).read_bytes()
    (tmp_path / "precious.tmp").touch()
    found = r"belongs to server 1 of ensemble 'coord' \(8c1f\), not to "
    with pytest.raises(ForeignFolder, match=f"{tmp_path} on .* {found}{named}"):
        claim_folder(tmp_path, expected)
    assert (tmp_path / IDENTITY_FILE).read_bytes() == before
    assert (tmp_path / "precious.tmp").exists()
    OS_FILES.close(claim_folder(tmp_path, OWNER).lock)  # it was not left locked


def test_formatting_twice_is_refused(tmp_path: Path) -> None:
    format_folder(tmp_path, IDENTITY)
    with pytest.raises(StorageError, match="is formatted already"):
        format_folder(tmp_path, IDENTITY)


def test_data_without_an_identity_is_not_formatted_away(tmp_path: Path) -> None:
    format_folder(tmp_path, IDENTITY)
    (tmp_path / IDENTITY_FILE).unlink()
    log = tmp_path / "generation-1" / "log.1"
    log.touch()
    with pytest.raises(StorageError, match="holds a log or a snapshot"):
        format_folder(tmp_path, IDENTITY)
    assert log.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged"),
        (b'{"format_version": 1}', "is damaged"),
        (b'{"format_version": 9, "later": true}', "version 9; this program reads 1"),
    ],
)
def test_a_damaged_or_newer_identity_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / IDENTITY_FILE).write_bytes(content)
    with pytest.raises(CorruptRecord, match=message):
        claim_folder(tmp_path, OWNER)
    with pytest.raises(CorruptRecord, match=message):
        peek_identity(tmp_path)


# Root writes through file modes, so an unwritable folder is one below a regular file, or on a
# file system that is read-only.
@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/raykeeper"])
def test_an_unwritable_folder_is_an_error_that_names_it(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=folder.partition("/")[0] or "proc"):
        format_folder(tmp_path / folder, IDENTITY)


_HOLD = """
import sys
from pathlib import Path
from raykeeper.actors.disk.identity import Owner, claim_folder
from raykeeper.zab.ids import ServerId
claim_folder(Path(sys.argv[1]), Owner("coord", "8c1f", ServerId(1)))
print("held", flush=True)
sys.stdin.read()
"""


def test_two_processes_on_one_folder(tmp_path: Path) -> None:
    format_folder(tmp_path, IDENTITY)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        for attempt in (claim_folder, format_folder):
            with pytest.raises(FolderInUse, match="in use by another process"):
                attempt(tmp_path, OWNER if attempt is claim_folder else IDENTITY)  # type: ignore[operator]
        other.kill()
        other.wait()
    # A process that was killed holds nothing, and its incarnation stays used.
    claim = claim_folder(tmp_path, OWNER)
    assert claim.identity.incarnation == 2
    OS_FILES.close(claim.lock)
