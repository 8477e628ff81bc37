"""What a node finds on its disk, and how it formats a folder."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.identity import DiskIdentity, read_identity
from raykeeper.actors.disk.members_file import StoredMembers, read_members, write_members
from raykeeper.actors.disk.storage_errors import FolderInUse, StorageError
from raykeeper.clusters.node_discovery import (
    RECORD_FILE,
    SUPERSEDED_MARK,
    DiskContents,
    choose_node,
    inspect_node,
    prepare_folder,
    server_folder,
    set_superseded_aside,
    write_record,
)
from raykeeper.clusters.node_report import EnsembleRecord, UnreadableFolder
from raykeeper.zab.ids import FOUNDING_DISK, ServerId, Zxid
from raykeeper.zab.member_list import MemberList

ONE, TWO = ServerId(1), ServerId(2)
RECORD = EnsembleRecord("uuid", 3)


def test_an_empty_disk_holds_nothing(tmp_path: Path) -> None:
    found = inspect_node(str(tmp_path / "missing"), "coord")
    assert found == DiskContents(None, "", [], [], found.free_bytes, found.wall_s)
    assert found.free_bytes > 0 and found.wall_s > 0
    assert list(tmp_path.iterdir()) == []


def test_a_formatted_folder_is_found(tmp_path: Path) -> None:
    first = prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    second = prepare_folder(str(tmp_path), "coord", RECORD, TWO, is_founding=False)
    prepare_folder(str(tmp_path), "other", RECORD, ONE, is_founding=True)
    (tmp_path / "coord/not-a-server").mkdir()
    (tmp_path / "coord/03").mkdir()
    (tmp_path / "coord/3").mkdir()  # without an identity
    found = inspect_node(str(tmp_path), "coord")
    assert (found.record, found.record_damage, found.unreadable) == (RECORD, "", [])
    assert [(h.server_id, h.folder, h.identity) for h in found.folders] == [
        (ONE, str(tmp_path / "coord/1"), first),
        (TWO, str(tmp_path / "coord/2"), second),
    ]
    assert (first.is_founding, second.is_founding, first.incarnation) == (True, False, 0)
    assert second.incarnation > 1_700_000_000  # the clock: beyond that of a disk it replaces
    assert first.disk_uuid != second.disk_uuid
    assert [f.name for f in (tmp_path / "coord").iterdir() if f.suffix == ".tmp"] == []


def test_a_folder_that_comes_later_has_the_member_list_from_the_beginning(tmp_path: Path) -> None:
    """Not a founding one; once it is formatted the list is the server's."""
    data = str(tmp_path)
    first = MemberList(Zxid(5), {ONE: FOUNDING_DISK})
    later = MemberList(Zxid(9), {TWO: FOUNDING_DISK})
    prepare_folder(data, "coord", RECORD, ONE, True, members=first)
    prepare_folder(data, "coord", RECORD, TWO, False, members=first)
    prepare_folder(data, "coord", RECORD, TWO, False, members=later)
    found = {each.server_id: each.members for each in inspect_node(data, "coord").folders}
    assert found == {ONE: None, TWO: StoredMembers(first)}
    folder = server_folder(data, "coord", TWO)
    (folder / "members.json").unlink()
    prepare_folder(data, "coord", RECORD, TWO, False, members=later)
    assert read_members(folder) is None
    # Another launch, which knew a newer list, was interrupted before it formatted the folder.
    folder = server_folder(data, "coord", ServerId(3))
    folder.mkdir()
    write_members(folder, StoredMembers(later))
    prepare_folder(data, "coord", RECORD, ServerId(3), False, members=first)
    assert read_members(folder) == StoredMembers(later)


def test_the_first_of_two_formats_decides(tmp_path: Path) -> None:
    first = prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    late = EnsembleRecord("another uuid", 3)
    assert prepare_folder(str(tmp_path), "coord", late, ONE, is_founding=True) == first
    assert inspect_node(str(tmp_path), "coord").record == RECORD


def test_many_formats_at_once_agree(tmp_path: Path) -> None:
    def prepare(number: int) -> DiskIdentity:
        record = EnsembleRecord(f"uuid {number}", 3)
        return prepare_folder(str(tmp_path), "coord", record, ONE, is_founding=True)

    with ThreadPoolExecutor(8) as threads:
        identities = list(threads.map(prepare, range(8)))
    assert identities == identities[:1] * 8
    record = inspect_node(str(tmp_path), "coord").record
    assert record == EnsembleRecord(identities[0].owner.ensemble_uuid, 3)


def test_a_home_folder_is_that_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    prepare_folder("~/data", "coord", RECORD, ONE, is_founding=True)
    assert server_folder("~/data", "coord", ONE) == tmp_path / "data/coord/1"
    assert read_identity(tmp_path / "data/coord/1") is not None


def test_damage_is_reported_beside_whole_folders(tmp_path: Path) -> None:
    first = prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    prepare_folder(str(tmp_path), "coord", RECORD, TWO, is_founding=True)
    (tmp_path / "coord" / RECORD_FILE).write_text("{")
    (tmp_path / "coord/2/identity").write_text("{")
    found = inspect_node(str(tmp_path), "coord")
    assert found.record is None
    assert f"{RECORD_FILE} is damaged" in found.record_damage
    assert [holding.identity for holding in found.folders] == [first, None]
    assert "identity is damaged" in found.folders[1].damage


def test_a_damaged_record_is_rewritten(tmp_path: Path) -> None:
    prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    record = tmp_path / "coord" / RECORD_FILE
    for content in (b"", b"{", b"\xff", record.read_bytes()[:-5]):
        record.write_bytes(content)
        write_record(str(tmp_path), "coord", RECORD)
        assert inspect_node(str(tmp_path), "coord").record == RECORD
        record.write_bytes(content)
        prepare_folder(str(tmp_path), "coord", RECORD, TWO, is_founding=False)
        assert inspect_node(str(tmp_path), "coord").record == RECORD
    record.unlink()
    record.mkdir()
    assert "Is a directory" in inspect_node(str(tmp_path), "coord").record_damage


def a_file(folder: Path) -> None:
    folder.write_text("not a folder")


def a_loop(folder: Path) -> None:
    folder.symlink_to(folder)


def a_dangling_link(folder: Path) -> None:
    folder.symlink_to("/nowhere/to/be/found")


def an_identity_that_is_a_folder(folder: Path) -> None:
    (folder / "identity").mkdir(parents=True)


def another_version(folder: Path) -> None:
    folder.mkdir()
    (folder / "identity").write_text('{"format_version": 1}')


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (a_file, "Not a directory"),
        (a_loop, "Too many levels of symbolic links"),
        (a_dangling_link, "2 is a link to /nowhere/to/be/found, which is not there"),
        (an_identity_that_is_a_folder, "identity: Is a directory"),
        (another_version, "has version 1"),
    ],
)
def test_one_bad_folder_hides_no_other(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    first = prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    make(tmp_path / "coord/2")
    found = inspect_node(str(tmp_path), "coord")
    assert (found.record, [holding.identity for holding in found.folders]) == (RECORD, [first])
    (unreadable,) = found.unreadable
    assert unreadable.server_id == TWO
    assert str(tmp_path / "coord/2") in unreadable.reason
    assert reason in unreadable.reason


@pytest.mark.parametrize("make", [a_file, a_loop, a_dangling_link])
def test_a_bad_folder_of_the_ensemble_is_an_error(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "coord")
    with pytest.raises(StorageError, match=str(tmp_path / "coord")):
        inspect_node(str(tmp_path), "coord")
    make(tmp_path / "data")
    with pytest.raises(StorageError, match=str(tmp_path / "data")):
        inspect_node(str(tmp_path / "data"), "coord")


_AS_NOBODY = """
import os, sys
from raykeeper.clusters.node_discovery import inspect_node
if os.geteuid() == 0:  # who may read everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
found = inspect_node(sys.argv[1], "coord")
print([holding.server_id for holding in found.folders], found.unreadable, found.record_damage)
"""


def test_a_folder_without_permission_hides_no_other() -> None:
    # Not in pytest's folder, into which nobody else may look.
    with tempfile.TemporaryDirectory(prefix="rk") as data_dir:
        for server in (ONE, TWO):
            prepare_folder(data_dir, "coord", RECORD, server, is_founding=True)
        home = Path(data_dir) / "coord"
        Path(data_dir).chmod(0o755)
        (home / "2").chmod(0)
        (home / RECORD_FILE).chmod(0)
        command = [sys.executable, "-c", _AS_NOBODY, data_dir]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        (home / "2").chmod(0o755)
    reason = f"{home / '2/identity'}: Permission denied"
    told = [UnreadableFolder(TWO, reason)]
    damage = f"{home / RECORD_FILE}: Permission denied"
    assert done.stdout == f"[1] {told} {damage}\n", done.stderr


def test_an_unsupported_system_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fdatasync")
    with pytest.raises(StorageError, match=r"a server needs Linux: .* has no fdatasync"):
        prepare_folder(str(tmp_path), "app", RECORD, ONE, is_founding=True)
    assert list(tmp_path.iterdir()) == []


def test_data_without_an_identity_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "coord/1"
    prepare_folder(str(tmp_path), "coord", RECORD, ONE, is_founding=True)
    (folder / "identity").unlink()
    (folder / "precious").write_text("data")
    with pytest.raises(StorageError):
        prepare_folder(str(tmp_path / "coord/1/precious"), "coord", RECORD, ONE, is_founding=True)
    assert (folder / "precious").read_text() == "data"


def test_a_folder_of_an_ended_history_makes_way(tmp_path: Path) -> None:
    """Its node was away during the recovery; now the server gets a new folder there."""
    data = str(tmp_path)
    old = prepare_folder(data, "coord", EnsembleRecord("old", 3), ONE, is_founding=True)
    new = prepare_folder(data, "coord", RECORD, ONE, False, ["older", "old"])
    assert new.disk_uuid != old.disk_uuid and not new.is_founding
    assert (new.owner.ensemble_uuid, new.supersedes) == ("uuid", ["older", "old"])
    assert inspect_node(data, "coord").record == RECORD
    (aside,) = (tmp_path / "coord").glob(f"1{SUPERSEDED_MARK}*")
    assert read_identity(aside) == old
    # Its own folder stays, and so does one that nobody can judge.
    assert prepare_folder(data, "coord", RECORD, ONE, False, ["older", "old"]) == new
    (tmp_path / "coord/1/identity").write_bytes(b"damaged")
    assert set_superseded_aside(tmp_path / "coord/1", ["old"]) is None
    assert set_superseded_aside(tmp_path / "coord/9", ["old"]) is None


def test_a_server_in_a_folder_of_an_ended_history_is_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raykeeper.clusters.node_discovery._FORMAT_TIMEOUT_S", 0.05)
    prepare_folder(str(tmp_path), "coord", EnsembleRecord("old", 3), ONE, is_founding=True)
    lock = lock_folder(OS_FILESYSTEM, tmp_path / "coord/1")
    with pytest.raises(FolderInUse):
        prepare_folder(str(tmp_path), "coord", RECORD, ONE, False, ["old"])
    OS_FILESYSTEM.close(lock)
    prepare_folder(str(tmp_path), "coord", RECORD, ONE, False, ["old"])


ALIVE = ["abc123" + "0" * 50, "abd456" + "0" * 50]


@pytest.mark.parametrize(("beginning", "chosen"), [("abc", 0), ("abd4", 1), (ALIVE[0], 0)])
def test_the_beginning_of_an_id_names_a_node(beginning: str, chosen: int) -> None:
    assert choose_node(beginning, ALIVE) == (ALIVE[chosen], "")


@pytest.mark.parametrize(
    ("beginning", "problem"),
    [
        ("ab", "2 live Ray nodes have an id that begins with 'ab'; there are abc12300, abd45600"),
        ("x", "no live Ray node has an id that begins with 'x'; there are abc12300, abd45600"),
        ("", "no live Ray node has an id that begins with ''; there are abc12300, abd45600"),
    ],
)
def test_it_must_be_one_live_node(beginning: str, problem: str) -> None:
    assert choose_node(beginning, ALIVE) == ("", problem)
