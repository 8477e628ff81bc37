"""The identity of a folder: formatting, claiming, and refusals."""

import random
import socket
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import LOCK_FILE
from raykeeper.actors.disk.identity import (
    IDENTITY_FILE,
    DiskIdentity,
    FolderOwner,
    claim_folder,
    format_folder,
    read_identity,
    write_identity,
)
from raykeeper.actors.disk.storage_errors import (
    CorruptRecord,
    FolderInUse,
    ForeignFolder,
    NotFormatted,
    StorageError,
    UnknownVersion,
)
from raykeeper.zab.feature_levels import LEVEL_MAX
from raykeeper.zab.ids import FOUNDING_DISK, ServerId
from tests.contract.faulty_files import FaultyFiles, Loss

OWNER = FolderOwner("coord", "8c1f", ServerId(1))
IDENTITY = DiskIdentity(OWNER, "disk-1", is_founding=True)


def test_each_claim_raises_the_incarnation(tmp_path: Path) -> None:
    folder = tmp_path / "coord" / "1"
    format_folder(folder, IDENTITY)
    for incarnation in (1, 2, 3):
        claim = claim_folder(folder, OWNER)
        assert claim.identity == replace(IDENTITY, incarnation=incarnation)
        assert read_identity(folder) == claim.identity
        OS_FILESYSTEM.close(claim.lock)


@pytest.mark.parametrize(("is_founding", "disk"), [(True, FOUNDING_DISK), (False, "disk-1")])
def test_formatting_names_a_founding_disk(tmp_path: Path, is_founding: bool, disk: str) -> None:
    format_folder(tmp_path, DiskIdentity(OWNER, "disk-1", is_founding))
    claim = claim_folder(tmp_path, OWNER)
    assert claim.identity.disk() == disk
    OS_FILESYSTEM.close(claim.lock)


def test_a_later_disk_counts_on_from_the_clock(tmp_path: Path) -> None:
    # Peers refuse for ever an incarnation below one that they saw (rule D1).
    format_folder(
        tmp_path, DiskIdentity(OWNER, "disk-2", is_founding=False, incarnation=1_800_000_000)
    )
    claim = claim_folder(tmp_path, OWNER)
    assert claim.identity.incarnation == 1_800_000_001
    OS_FILESYSTEM.close(claim.lock)
    with pytest.raises(AssertionError):
        format_folder(tmp_path / "new", DiskIdentity(OWNER, "d", is_founding=True, incarnation=1))


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_folder_without_identity_is_not_touched(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFormatted, match="has no identity"):
        claim_folder(tmp_path / name, OWNER)
    assert read_identity(tmp_path / name) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("expected", "named"),
    [
        (FolderOwner("coord", "8c1f", ServerId(2)), r"server 2 of ensemble 'coord' \(8c1f\)"),
        (FolderOwner("coord", "ffff", ServerId(1)), r"server 1 of ensemble 'coord' \(ffff\)"),
        (FolderOwner("other", "8c1f", ServerId(1)), r"server 1 of ensemble 'other' \(8c1f\)"),
    ],
)
def test_a_foreign_folder_is_left_alone(tmp_path: Path, expected: FolderOwner, named: str) -> None:
    format_folder(tmp_path, IDENTITY)
    before = (tmp_path / IDENTITY_FILE).read_bytes()
    (tmp_path / "precious.tmp").touch()
    found = r"belongs to server 1 of ensemble 'coord' \(8c1f\), not to "
    with pytest.raises(ForeignFolder, match=f"{tmp_path} on .* {found}{named}"):
        claim_folder(tmp_path, expected)
    assert (tmp_path / IDENTITY_FILE).read_bytes() == before
    assert (tmp_path / "precious.tmp").exists()
    OS_FILESYSTEM.close(claim_folder(tmp_path, OWNER).lock)  # it was not left locked


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


def test_every_flipped_bit_of_an_identity_is_detected(tmp_path: Path) -> None:
    format_folder(tmp_path, IDENTITY)
    content = (tmp_path / IDENTITY_FILE).read_bytes()
    for offset in range(len(content)):
        for bit in (1, 16, 128):
            damaged = bytearray(content)
            damaged[offset] ^= bit
            (tmp_path / IDENTITY_FILE).write_bytes(damaged)
            with pytest.raises(CorruptRecord, match="is damaged"):
                read_identity(tmp_path)
    for size in range(len(content)):
        (tmp_path / IDENTITY_FILE).write_bytes(content[:size])
        with pytest.raises(CorruptRecord, match="is damaged"):
            claim_folder(tmp_path, OWNER)


def test_a_huge_identity_is_not_read(tmp_path: Path) -> None:
    format_folder(tmp_path, IDENTITY)
    with (tmp_path / IDENTITY_FILE).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptRecord, match=r"identity has 1099511627776 bytes, at most"):
        claim_folder(tmp_path, OWNER)


@pytest.mark.parametrize("name", [IDENTITY_FILE, LOCK_FILE])
def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    format_folder(tmp_path, IDENTITY)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=f"/{name}: Is a directory"):
        claim_folder(tmp_path, OWNER)


def test_a_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in ("file", "file/1"):
        with pytest.raises(StorageError, match=f"{tmp_path}/{folder}.*: Not a directory"):
            claim_folder(tmp_path / folder, OWNER)


def test_a_formatted_folder_survives_a_crash() -> None:
    # A launch that formats another server of the ensemble, or one that was killed.
    files = FaultyFiles()
    folder = Path("/data/coord/1")
    files.make_folder(Path("/data"))
    files.sync_folder(Path("/"))
    files.make_folder(folder.parent)
    files.make_folder(folder)
    format_folder(folder, IDENTITY, files)
    assert read_identity(folder, files.crash(Loss.ALL, random.Random(0))) == IDENTITY


def rewrite(folder: Path, old: bytes, new: bytes) -> None:
    """Change the identity as a program of another version would write it."""
    data = (folder / IDENTITY_FILE).read_bytes().partition(b"\n")[2]
    assert old in data
    data = data.replace(old, new)
    (folder / IDENTITY_FILE).write_bytes(b"RKIDENTITY %08x\n" % zlib.crc32(data) + data)


def test_the_level_of_a_folder_decides_the_version_of_its_identity(tmp_path: Path) -> None:
    """The program before reads version 2 alone, and has no field for the level."""
    format_folder(tmp_path, IDENTITY)
    rewrite(tmp_path, b'"format_version":2,"supersedes":[],"level":1', b'"format_version":2')
    assert read_identity(tmp_path) == IDENTITY
    raised = replace(IDENTITY, level=LEVEL_MAX)
    write_identity(OS_FILESYSTEM, tmp_path, raised)
    assert b'"format_version":3' in (tmp_path / IDENTITY_FILE).read_bytes()
    assert read_identity(tmp_path) == raised


def test_an_identity_of_another_version_is_not_reported_as_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is damaged is repaired, which throws it away in the end.
    (tmp_path / IDENTITY_FILE).write_bytes(b'{"owner": {}, "format_version": 1}')
    with pytest.raises(UnknownVersion, match="version 1; this program reads 2 and 3"):
        claim_folder(tmp_path, OWNER)
    (tmp_path / IDENTITY_FILE).unlink()
    format_folder(tmp_path, IDENTITY)
    rewrite(tmp_path, b'"format_version":2', b'"format_version":9')
    with pytest.raises(UnknownVersion, match="version 9; this program reads 2 and 3"):
        read_identity(tmp_path)
    rewrite(tmp_path, b'"format_version":9', b'"format_version":3')
    rewrite(tmp_path, b'"level":1', b'"level":3')
    with pytest.raises(UnknownVersion, match="level 3, and this program knows 1 to 2"):
        claim_folder(tmp_path, OWNER)
    assert not issubclass(UnknownVersion, CorruptRecord)


def test_data_without_an_identity_is_damage(tmp_path: Path) -> None:
    format_folder(tmp_path, IDENTITY)
    (tmp_path / IDENTITY_FILE).unlink()
    assert read_identity(tmp_path) is None  # nothing is lost yet
    (tmp_path / "generation-1" / "log.1").touch()
    for look in (read_identity, lambda folder: claim_folder(folder, OWNER)):
        with pytest.raises(CorruptRecord, match=r"identity is missing, but .* holds a log"):
            look(tmp_path)


# Root writes through file modes, so an unwritable folder is one below a regular file, or on a
# file system that is read-only.
@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/raykeeper"])
def test_an_unwritable_folder_is_named(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=folder.partition("/")[0] or "proc"):
        format_folder(tmp_path / folder, IDENTITY)


_HOLD = """
import sys
from pathlib import Path
from raykeeper.actors.disk.identity import FolderOwner, claim_folder
from raykeeper.zab.ids import ServerId
claim_folder(Path(sys.argv[1]), FolderOwner("coord", "8c1f", ServerId(1)))
print("held", flush=True)
sys.stdin.read()
"""


def test_two_processes_cannot_use_one_folder(tmp_path: Path) -> None:
    format_folder(tmp_path, IDENTITY)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        for attempt in (claim_folder, format_folder):
            with pytest.raises(
                FolderInUse, match=f"in use by process {other.pid} on {socket.gethostname()} si"
            ):
                attempt(tmp_path, OWNER if attempt is claim_folder else IDENTITY)  # type: ignore[operator]
        other.kill()
        other.wait()
    # A process that was killed holds nothing, and its incarnation stays used.
    claim = claim_folder(tmp_path, OWNER)
    assert claim.identity.incarnation == 2
    OS_FILESYSTEM.close(claim.lock)
