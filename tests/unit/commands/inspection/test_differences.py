"""`diff`: exactly the elements that differ, between folders at one zxid and between snapshots."""

import json
from pathlib import Path

import pytest

from raykeeper.actors.disk.snapshot_files import SnapshotChunks
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError
from raykeeper.commands.inspection.differences import (
    compare,
    difference_document,
    difference_line,
    differences,
    find_sides,
    summary_line,
)
from raykeeper.zab.effects import Append, SaveEpochs
from raykeeper.zab.ids import DiskId, Epoch, ServerId, Zxid, make_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Acl, Permission
from raykeeper.znodes.requests import AddAuth, Create, SetAcls, SetData
from raykeeper.znodes.snapshot import ZnodeRecord, records_in
from tests.contract.server_folders import Entry, ServerFolder, UnforcedFiles
from tests.unit.znodes.one_leader import OneLeader, zxid_at

SUMMARY = "only in a: 2, only in b: 2, not the same: 5; a at 1:17, b at 1:17"
NAMES = ("- /only-a", "- voter 3", "+ /9", "+ /only-b", "! /", "! /3", "! /4", "! voter 2")
COMMON = 12
"""Transactions of both histories, before they part."""


def history(*, is_other: bool = False) -> list[Entry]:
    """Two histories that are the same up to `COMMON`."""
    one = OneLeader()
    session = one.open(1, "10.0.0.9")
    one.open(2)
    for number in range(COMMON - 2):
        one.create(session, f"/{number}", b"abc")
    if is_other:
        one.do(session, SetData("/3", b"abcd", -1))
        one.do(session, SetAcls("/4", (Acl(Permission.READ, "world", "anyone"),), 0))
        one.do(session, AddAuth("digest", b"alice:password"))
        one.create(session, "/only-b")
        one.prepare_voter(2, "d2")
    else:
        one.delete(session, "/9")
        one.create(session, "/only-a")
        one.prepare_voter(2, "d1")
        one.prepare_voter(3, "d3")
        one.do(session, Create("/only-a", b"", 0))
    one.set(session, "/0", b"the last one is not known to be committed")
    return one.log


def server_at(folder: Path, log: list[Entry], snapshot_after: int | None = None) -> ServerFolder:
    server = ServerFolder(folder, UnforcedFiles())
    if snapshot_after is None:
        server.append(log)
    else:
        server.append(log[:snapshot_after])
        server.snapshot()
        server.append(log[snapshot_after:])
    return server


def compared(a: Path, b: Path, temporary: Path, part_bytes: int = 32 << 20) -> list[str]:
    temporary.mkdir(exist_ok=True)
    for old in temporary.iterdir():
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    lines: list[str] = []
    sides = find_sides(a, b, temporary)
    summary = compare(*sides, lambda each: lines.append(difference_line(each)), part_bytes)
    assert summary["is_same"] is (lines == [])
    assert summary["only_a"] + summary["only_b"] + summary["differing"] == len(lines)
    return [*lines, summary_line(summary)]


def test_folders_of_one_history_are_the_same_wherever_their_snapshots_are(tmp_path: Path) -> None:
    log = history()
    places = [None, 1, 5, len(log)]
    for number, place in enumerate(places):
        server_at(tmp_path / str(number), log, place)
    for number in range(len(places)):
        told = compared(tmp_path / "0", tmp_path / str(number), tmp_path / "temporary")
        zxid = "1:18" if number == 3 else "1:17"  # a snapshot says that the last one is committed
        assert told == [f"the same: a at {zxid}, b at {zxid}"]


def test_folders_are_compared_where_both_are_committed(tmp_path: Path) -> None:
    """One server has not logged yet what the other one has."""
    log = history()
    server_at(tmp_path / "a", log)
    server_at(tmp_path / "b", log[:9], 3)
    told = compared(tmp_path / "a", tmp_path / "b", tmp_path / "temporary")
    assert told == ["the same: a at 1:9, b at 1:9"]


def test_a_folder_in_which_nothing_is_written_yet_is_compared(tmp_path: Path) -> None:
    server_at(tmp_path / "a", history())
    server_at(tmp_path / "b", [])
    told = compared(tmp_path / "a", tmp_path / "b", tmp_path / "temporary")
    assert told == ["the same: a at 0:0, b at 0:0"]


def test_an_end_of_an_earlier_epoch_counts_only_if_it_is_known_to_be_committed(
    tmp_path: Path,
) -> None:
    """The last transaction of b was never committed: a leader of the next epoch did without it."""
    log = history()
    a = server_at(tmp_path / "a", log[:8])
    server_at(tmp_path / "b", log[:9])
    a.storage.perform([SaveEpochs(Epoch(2), Epoch(2))])
    second = make_zxid(Epoch(2), 1)
    for zxid in (second, Zxid(second + 1)):
        a.storage.perform(
            [Append(zxid, [log[9][1]], Zxid(zxid - 1) if zxid > second else log[7][0])]
        )
    told = compared(tmp_path / "a", tmp_path / "b", tmp_path / "temporary")
    assert told == ["the same: a at 1:8, b at 1:8"]


def test_every_difference_is_told(tmp_path: Path) -> None:
    server_at(tmp_path / "a", history(), 14)
    server_at(tmp_path / "b", history(is_other=True))
    *lines, summary = compared(tmp_path / "a", tmp_path / "b", tmp_path / "temporary")
    assert summary == SUMMARY
    found = {line.partition(":")[0]: line for line in lines}
    session = f"{zxid_at(1):#x}"
    assert sorted(found) == sorted([*NAMES, f"! session {session}"])
    assert found["! /3"] == (
        "! /3: value 3 bytes, crc32 0x352441c2 / 4 bytes, crc32 0xed82cd11; "
        "mzxid 1:6 / 1:13; version 0 / 1"
    )
    assert "'id': 'anyone'}], 'aversion': 0" in found["! /4"] and "'aversion': 1" in found["! /4"]
    assert found["! voter 2"] == "! voter 2: disk d1 / d2"
    assert "auth_ids [] / [{'scheme': 'digest', 'id': 'alice'}]" in found[f"! session {session}"]
    assert "password" not in "".join(lines)


@pytest.mark.parametrize("part_bytes", [1, 100, 500, 1 << 20])
def test_parts_find_what_the_whole_finds(tmp_path: Path, part_bytes: int) -> None:
    server_at(tmp_path / "a", history(), 14)
    server_at(tmp_path / "b", history(is_other=True))
    a, b = tmp_path / "a", tmp_path / "b"
    whole = compared(a, b, tmp_path / "temporary")
    parts = compared(a, b, tmp_path / "temporary", part_bytes)
    assert sorted(parts) == sorted(whole)


def test_snapshots_are_compared_as_they_were_written(tmp_path: Path) -> None:
    one = server_at(tmp_path / "a", history(), 8)
    other = server_at(tmp_path / "b", history(), 10)
    (a,), (b,) = one.snapshots(), other.snapshots()
    told = compared(a, b, tmp_path / "temporary")
    assert [line for line in told if line.startswith("+")] == ["+ /6", "+ /7"]
    assert told[-1] == "only in a: 0, only in b: 2, not the same: 2; a at 1:8, b at 1:10"
    assert compared(a, a, tmp_path / "temporary") == ["the same: a at 1:8, b at 1:8"]
    mixed = compared(a, tmp_path / "b", tmp_path / "temporary")
    assert mixed[-1].endswith("a at 1:8, b at 1:17")


def test_a_difference_is_told_as_a_document(tmp_path: Path) -> None:
    server_at(tmp_path / "a", history())
    server_at(tmp_path / "b", history(is_other=True))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    sides = find_sides(tmp_path / "a", tmp_path / "b", temporary)
    documents = [difference_document(each) for each in differences(sides[0].file, sides[1].file)]
    assert json.loads(json.dumps(documents)) == documents
    only = {"kind": "znode", "path": "/only-a", "only": "a", "fields": {}}
    assert only in documents
    (changed,) = [each for each in documents if each.get("path") == "/3"]
    assert changed["fields"]["version"] == [0, 1]
    assert changed["fields"]["mzxid"] == ["1:6", "1:13"]


def test_folders_without_a_common_moment_are_refused(tmp_path: Path) -> None:
    log = history()
    server = server_at(tmp_path / "a", log, 12)
    for path in server.segments()[:-1]:
        path.unlink()
    server_at(tmp_path / "b", log[:5])
    with pytest.raises(StorageError, match=r"/a has the state from 1:12 on, and not at 1:5"):
        find_sides(tmp_path / "a", tmp_path / "b", tmp_path)


@pytest.mark.parametrize("name", ["missing", "a/1/generation-1/snapshot"])
def test_what_cannot_be_compared_is_told(tmp_path: Path, name: str) -> None:
    server = server_at(tmp_path / "a", history(), 8)
    if name != "missing":
        (path,) = server.snapshots()
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptRecord, match="has no footer"):
            find_sides(tmp_path / "a", path, tmp_path)
    else:
        with pytest.raises(StorageError, match="missing does not exist; expected the data folder"):
            find_sides(tmp_path / "a", tmp_path / name, tmp_path)


def test_nothing_is_written_into_the_folders(tmp_path: Path) -> None:
    server_at(tmp_path / "a", history(), 8)
    (tmp_path / "temporary").mkdir()

    def everything() -> dict[Path, tuple[int, bytes]]:
        files = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = everything()
    sides = find_sides(tmp_path / "a", tmp_path / "a", tmp_path / "temporary")
    assert everything() == before
    assert sides[0].file.is_relative_to(tmp_path / "temporary")
    records = [
        each for each in records_in(SnapshotChunks(sides[0].file)) if type(each) is ZnodeRecord
    ]
    assert len(records) == 4 + COMMON - 2


def test_a_difference_of_the_member_lists_is_told(tmp_path: Path) -> None:
    for name, disk in (("a", "d4"), ("b", "d5")):
        one = OneLeader()
        session = one.open()
        one.prepare_list(MemberList(zxid_at(2), {ServerId(4): DiskId(disk)}))
        one.create(session, "/not-known-to-be-committed")
        server_at(tmp_path / name, one.log)
    line, _ = compared(tmp_path / "a", tmp_path / "b", tmp_path / "temporary")
    shown = [
        f"{{'version': '1:2', 'voters': {{'4': '{disk}'}}, 'observers': []}}"
        for disk in ("d4", "d5")
    ]
    assert line == f"! member list: members {shown[0]} / {shown[1]}"
