"""`dump`: every record once, in order, without secrets, and in little memory."""

import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.actors.disk.snapshot_files import SnapshotWriter
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError
from raykeeper.commands.inspection.dump import dump_file, dump_folder, dump_snapshot
from raykeeper.commands.inspection.folder_contents import read_contents
from raykeeper.commands.output import Document
from raykeeper.zab.effects import Append
from raykeeper.zab.feature_levels import LEVEL_OF_ACL_SALTS
from raykeeper.zab.ids import ZERO, ZXID_MAX, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import Acl, Permission, digest_id
from raykeeper.znodes.requests import AddAuth, Create, CreateMode, SetAcls, SetData
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotWalk
from tests.contract.server_folders import ServerFolder, UnforcedFiles
from tests.contract.stores import FOLDER
from tests.unit.znodes.one_leader import OneLeader
from tests.unit.znodes.one_leader import zxid_at as z

SECRET = digest_id("alice", "password")


def leader() -> OneLeader:
    """A session with an identity, an ephemeral, a restricted znode, a voter on a new disk."""
    one = OneLeader()
    session = one.open(1, "10.0.0.9")
    one.do(session, AddAuth("digest", b"alice:password"))
    one.create(session, "/a", b"abc")
    one.create(session, "/a/e", b"\xff", CreateMode.EPHEMERAL)
    one.do(session, SetAcls("/a", (Acl(Permission.ALL, "digest", SECRET),), 0))
    one.prepare_voter(2, "d2")
    one.wall_ms = Millis(2_500)
    one.do(session, SetData("/a", b"x" * 400, -1))
    one.do(session, SetData("/nowhere", b"", -1))
    return one


def grown() -> ServerFolder:
    server = ServerFolder()
    log = leader().log
    server.append(log[:6])
    server.snapshot()
    server.append(log[6:])
    return server


def dumped(reader: FolderReader, **options: Any) -> list[dict[str, Any]]:
    found: list[Document] = []
    wanted: dict[str, Any] = {"snapshot": True, "log": True, "after": ZERO, "upto": Zxid(ZXID_MAX)}
    dump_folder(reader, found.append, **(wanted | options))
    assert SECRET.partition(":")[2] not in json.dumps(found)
    return [dict(each) for each in found]


def test_a_folder_is_dumped() -> None:
    found = dumped(grown().reader())
    snapshot, log = dumped(grown().reader(), log=False), dumped(grown().reader(), snapshot=False)
    assert found == snapshot + log
    assert snapshot[0] == {
        "kind": "snapshot",
        "file": f"snapshot.{z(6):016x}",
        "zxid": "1:6",
        "consistent_at": "1:6",
        "format": 3,
        "time": "1970-01-01T00:00:01.000+00:00",
    }
    assert [each["kind"] for each in snapshot[1:]] == ["voter", "session", *["znode"] * 6, "end"]
    assert snapshot[1] == {"kind": "voter", "server_id": 2, "disk": "d2"}
    assert snapshot[2] == {
        "kind": "session",
        "session": f"{z(1):#x}",
        "timeout_ms": 5_000,
        "owner_zxid": "1:1",
        "host": "10.0.0.9",
        "server_id": 1,
        "identities": [{"scheme": "digest", "id": "alice"}],
        "last_number": 4,
        "acked": 0,
        "outcomes": 4,
    }
    znodes = {each["path"]: each for each in snapshot if each["kind"] == "znode"}
    assert znodes["/a"] == {
        "kind": "znode",
        "path": "/a",
        "value": "abc",
        "value_base64": None,
        "czxid": "1:3",
        "mzxid": "1:3",
        "pzxid": "1:4",
        "ctime": "1970-01-01T00:00:01.000+00:00",
        "mtime": "1970-01-01T00:00:01.000+00:00",
        "version": 0,
        "aversion": 1,
        "ephemeral_owner": None,
        "children_created": 1,
        "container": False,
        "ttl_ms": None,
        "acls": [{"permissions": 31, "scheme": "digest", "id": "alice"}],
    }
    assert znodes["/a/e"]["value_base64"] == "/w=="
    assert znodes["/a/e"]["ephemeral_owner"] == f"{z(1):#x}"
    assert snapshot[-1] == {"kind": "end", "sessions": 1, "znodes": 6}
    assert log.pop(0) == {"kind": "log", "after": "0:0", "upto": "1:8", "committed": "1:7"}
    assert [each["zxid"] for each in log] == [f"1:{n}" for n in range(1, 9)]
    assert [each["is_committed"] for each in log] == [True] * 7 + [False]
    assert log[6]["changes"][0]["value"] == "x" * 400
    assert (log[7]["type"], log[7]["error"], log[7]["acked"]) == ("error", "NO_NODE", None)


def test_the_salt_of_a_restored_ensemble_is_dumped() -> None:
    server = grown()
    server.state.acl_salt, server.state.level = "8c1f", LEVEL_OF_ACL_SALTS
    server.snapshot()
    found = dumped(server.reader(), log=False)
    assert found[1:3] == [
        {"kind": "acl_salt", "salt": "8c1f"},
        {"kind": "voter", "server_id": 2, "disk": "d2"},
    ]
    assert read_contents(server.reader()).voters == {2: "d2"}


def test_a_part_of_the_log_is_dumped() -> None:
    _, *found = dumped(grown().reader(), snapshot=False, after=z(2), upto=z(5))
    assert [each["zxid"] for each in found] == ["1:3", "1:4", "1:5"]


def test_what_may_be_cut_again_is_marked() -> None:
    server = ServerFolder()
    server.append(leader().log, uncommitted=3)
    _, *found = dumped(server.reader())
    assert [each["is_committed"] for each in found] == [True] * 4 + [False] * 4


def test_a_folder_without_a_snapshot_says_so() -> None:
    server = ServerFolder()
    server.append(leader().log)
    assert len(dumped(server.reader())) == 1 + 8
    with pytest.raises(StorageError, match="/data/coord/1 has no good snapshot; expected one"):
        dumped(server.reader(), log=False)


def test_what_is_valid_is_dumped_before_damage_is_told() -> None:
    server = grown()
    files = server.at_rest()
    files.flip(server.segments()[0], 600)
    found: list[Document] = []
    with pytest.raises(CorruptRecord, match="damaged"):
        dump_folder(
            FolderReader(FOLDER, files),
            found.append,
            snapshot=False,
            log=True,
            after=ZERO,
            upto=z(9),
        )
    whole = [f"1:{n}" for n in range(1, 9)]
    told = [each["zxid"] for each in found[1:]]
    assert 0 < len(told) < len(whole)
    assert told == [zxid for zxid in whole if zxid in told]


def test_a_record_that_is_no_transaction_ends_its_segment_only() -> None:
    server = ServerFolder()
    server.storage.perform([Append(z(1), [b"\xc1"], ZERO)])
    with pytest.raises(CorruptRecord, match=r"log\.\w+: 1:1 is no transaction"):
        dumped(server.reader())


def test_a_snapshot_is_dumped_wherever_it_is(tmp_path: Path) -> None:
    server = ServerFolder(tmp_path / "coord" / "1", UnforcedFiles())
    server.append(leader().log[:6])
    server.snapshot()
    (path,) = server.snapshots()
    moved = path.rename(tmp_path / "copy")
    found: list[Document] = []
    dump_file(moved, found.append)
    assert (found[0]["file"], found[-1]["kind"], len(found)) == ("copy", "end", 10)
    server.storage.close()


@pytest.mark.parametrize("content", [b"", b"text", bytes(100), b"RKSNAPSH" + bytes(100)])
def test_a_file_that_is_no_snapshot_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CorruptRecord, match=r"header of .*file is damaged; expected a data folder"):
        dump_file(path, lambda _: pytest.fail("told"))


def test_a_snapshot_of_another_format_names_both(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    writer = SnapshotWriter(path, z(1))
    writer.write(b"\x91\x93\x01\x09\x00")  # [[1, 9, 0]]: the header of format 9
    writer.finish(z(1))
    with pytest.raises(SnapshotFormatError, match=r"/snapshot: format 9, .* reads 3 and 4"):
        dump_snapshot(path, lambda _: None)


def test_a_chunk_is_in_memory_at_a_time(tmp_path: Path) -> None:
    one = OneLeader()
    session = one.open()
    one.create(session, "/a")
    for number in range(2_000):
        one.prepare(session, Create(f"/a/{number}", bytes(500), 0), acked=one.zxid)
    one.apply()
    path = tmp_path / "snapshot"
    writer, walk = SnapshotWriter(path, one.zxid), SnapshotWalk(one.state)
    while (chunk := walk.next_chunk()) is not None:
        writer.write(chunk)
    writer.finish(one.zxid)
    del one, walk
    size, count = path.stat().st_size, 0

    def tell(_document: Document) -> None:
        nonlocal count
        count += 1

    tracemalloc.start()
    try:
        dump_snapshot(path, tell)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 2_000 + 5 + 3
    assert peak < size / 2, (peak, size)


def test_a_value_of_a_mebibyte_of_binary_comes_back_whole() -> None:
    value = bytes(range(256)) * 4096
    one = OneLeader()
    one.create(one.open(1), "/large", value)
    server = ServerFolder(limits=StorageLimits(segment_bytes=4 << 20))
    server.append(one.log)
    server.snapshot()
    in_snapshot, in_log = (
        each
        for record in dumped(server.reader())
        for each in (record, *record.get("changes", ()))
        if each.get("path") == "/large"
    )
    for each in (in_snapshot, in_log):
        assert each["value"] is None
        assert base64.b64decode(each["value_base64"]) == value


def test_a_member_list_is_dumped() -> None:
    one = leader()
    one.prepare_list(MemberList(z(len(one.log) + 1), {ServerId(4): DiskId("d4")}, (ServerId(5),)))
    server = ServerFolder()
    server.append(one.log)
    server.snapshot()
    found = dumped(server.reader(), log=False)
    version = f"1:{len(one.log)}"
    assert found[1] == {
        "kind": "members",
        "version": version,
        "voters": {"4": "d4"},
        "observers": [5],
    }
