"""What a folder holds: each file, what is damaged, and what is no damage."""

import json
import re
import zlib
from collections.abc import Callable

import pytest

from raykeeper.actors.disk.epochs import EPOCHS_FILE, Epochs, make_epochs
from raykeeper.actors.disk.folder_lock import LOCK_FILE
from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.actors.disk.identity import IDENTITY_FILE, read_identity, write_identity
from raykeeper.actors.disk.members_file import MEMBERS_FILE, StoredMembers, write_members
from raykeeper.actors.disk.repair import DAMAGED_FOLDER, with_repair
from raykeeper.actors.disk.spare_segment import SPARE_FILE
from raykeeper.actors.disk.storage import DEFAULT_LIMITS, Storage
from raykeeper.actors.disk.storage_errors import UnknownVersion
from raykeeper.commands.inspection.folder_contents import (
    contents_document,
    read_contents,
    show_contents,
)
from raykeeper.zab.effects import Append
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, Epoch, ServerId
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.requests import Create, SetData
from tests.contract.faulty_files import FaultyFiles
from tests.contract.server_folders import ServerFolder
from tests.contract.stores import FOLDER
from tests.model.histories import START, Command, written
from tests.unit.commands.printed import printed
from tests.unit.znodes.one_leader import OneLeader
from tests.unit.znodes.one_leader import zxid_at as z

COMMANDS: list[Command] = [
    *START,
    *(("write", 0, SetData("/a", b"v" * 60, -1)) for _ in range(6)),
    ("replace", 1, "d2"),
    *(("write", 0, SetData("/a", b"v" * 60, -1)) for _ in range(5)),
    ("replace", 0, "d1"),
    ("write", 0, Create("/b/1", b"", 0)),
]
LOG = written(COMMANDS).log
IDENTITY = {
    "ensemble": "coord",
    "ensemble_uuid": "8c1f",
    "server_id": 1,
    "disk": "disk-1",
    "is_founding": True,
    "incarnation": 1,
    "level": 1,
    "reset_reason": None,
    "repair": None,
}
EPOCHS = {
    "accepted": 1,
    "current": 1,
    "is_uncertain": False,
    "initial": "0:0",
    "good_copies": 2,
}


def grown() -> ServerFolder:
    """Snapshots as of 1:6 and 1:14; segments from 1:1, 1:8 and 1:14 on; it ends with 1:19."""
    server = ServerFolder()
    server.append(LOG[:6])
    server.snapshot()
    server.append(LOG[6:14])
    server.snapshot()
    server.append(LOG[14:], uncommitted=1)
    return server


def files_of(server: ServerFolder) -> FaultyFiles:
    assert isinstance(server.files, FaultyFiles)
    return server.files


def test_a_whole_folder_is_told_beside_its_server() -> None:
    server = grown()
    operations = files_of(server).operations
    contents = read_contents(server.reader())
    assert (contents.problems, contents.notes) == ([], [])
    assert contents_document(contents) == {
        "folder": "/data/coord/1",
        "identity": IDENTITY,
        "holder": contents.holder,
        "epochs": EPOCHS,
        "has_vote": True,
        "voters": {"2": "d2"},
        "last": "1:19",
        "committed": "1:17",
        "generation": "generation-1",
        "snapshots": [
            {
                "file": path.name,
                "bytes": len(files_of(server).content(path)),
                "zxid": zxid,
                "consistent_at": zxid,
                "problem": None,
            }
            for path, zxid in zip(server.snapshots(), ["1:6", "1:14"], strict=True)
        ],
        "segments": [
            {
                "file": each.file,
                "bytes": 1024,
                "used_bytes": each.used,
                "first": first,
                "last": last,
                "transactions": count,
                "is_torn": False,
                "problem": None,
            }
            for each, first, last, count in zip(
                contents.segments,
                ["1:1", "1:8", "1:14"],
                ["1:7", "1:13", "1:19"],
                [7, 6, 6],
                strict=True,
            )
        ],
        "others": {"spare": "the next segment of the log, allocated"},
        "problems": [],
        "notes": [],
    }
    assert contents.holder is not None and contents.holder.startswith("process ")
    assert all(0 < each.used <= each.size for each in contents.segments)
    assert files_of(server).operations == operations


def test_a_folder_without_the_name_of_a_holder_is_told() -> None:
    server = ServerFolder()
    files = server.at_rest()
    files.lose(FOLDER / LOCK_FILE)
    contents = read_contents(FolderReader(FOLDER, files))
    assert (contents.holder, contents.problems) == (None, [])
    shown = printed(lambda console: show_contents(console, contents))
    assert "incarnation 1, last opened by a process that left no name\n" in shown


def test_an_uncommitted_transaction_moves_no_vote() -> None:
    """The vote of server 1 moves to another disk with 1:18, which may be cut again."""
    server = grown()
    assert (b"d1" in LOG[17][1], b"d2" in LOG[11][1]) == (True, True)
    contents = read_contents(server.reader())
    assert (contents.committed, contents.voters) == (z(17), {ServerId(2): "d2"})
    server.storage.perform([Append(z(20), [LOG[5][1]], z(19))])
    contents = read_contents(server.reader())
    assert (contents.committed, contents.voters) == (z(19), {ServerId(1): "d1", ServerId(2): "d2"})
    assert contents.has_vote is False


def test_an_empty_folder_is_told() -> None:
    contents = read_contents(ServerFolder().reader())
    assert (contents.problems, contents.notes, contents.last) == ([], [], 0)
    assert contents.has_vote is True


Change = Callable[[FaultyFiles, ServerFolder], object]


def flip(part: str, number: int, offset: int) -> Change:
    """Damage one byte of a segment or snapshot."""
    return lambda files, server: files.flip(getattr(server, part)()[number], offset)


def tear_end(files: FaultyFiles, server: ServerFolder) -> None:
    """Damage the last batch, which nothing says was forced."""
    last = server.segments()[-1]
    files.flip(last, len(bytes(files.content(last)).rstrip(b"\0")) - 3)


def make(name: str) -> Change:
    return lambda files, _server: files.close(files.create(FOLDER / name))


def members(removed: str) -> Change:
    stored = StoredMembers(MemberList(z(1), {ServerId(1): FOUNDING_DISK}), removed)
    return lambda files, _server: write_members(FOLDER, stored, files)


def repairing(files: FaultyFiles, _server: ServerFolder) -> None:
    identity = read_identity(FOLDER, files)
    assert identity is not None
    write_identity(files, FOLDER, with_repair(files, FOLDER, identity, "its tree differs"))


def moved_ahead(files: FaultyFiles, _server: ServerFolder) -> None:
    """The file of the promises is one of an earlier time."""
    make_epochs(files, FOLDER, Epochs(Epoch(0), Epoch(0)))


def spare_is_last_segment(files: FaultyFiles, server: ServerFolder) -> None:
    files.rename(server.segments()[-1], FOLDER / SPARE_FILE)


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        (flip("segments", 0, 100), [r"log\.0+40000000001 is damaged after 0:0; .* up to 1:7"]),
        (flip("segments", 1, 3), [r"header of .*log\.0+40000000008 is damaged"]),
        (flip("segments", 2, 100), [r"log\.0+4000000000e is damaged at byte 44, after 1:13"]),
        (flip("snapshots", 0, 70), [r"chunk 1 of .*snapshot\.0+40000000006 is damaged"]),
        (flip("snapshots", 1, 3), [r"the header of .*snapshot\.0+4000000000e is damaged"]),
        (lambda files, _: files.flip(FOLDER / IDENTITY_FILE, 40), ["identity is damaged"]),
        (lambda files, _: files.lose(FOLDER / IDENTITY_FILE), ["identity is missing"]),
        (lambda files, _: files.flip(FOLDER / EPOCHS_FILE, 20), ["one of the two copies"]),
        (lambda files, _: files.lose(FOLDER / EPOCHS_FILE), ["epochs is missing"]),
        (lambda files, server: files.lose(server.segments()[1]), ["after 1:7; .* up to 1:13"]),
        (spare_is_last_segment, [r"log\.0+4000000000e is missing: .*spare is that segment"]),
        (moved_ahead, ["the log reaches 1:19, but only epoch 0 was accepted"]),
        (
            lambda files, server: [files.lose(each) for each in server.segments()[1:]],
            ["the log ends at 1:7, the snapshot needs it up to 1:14"],
        ),
        (
            lambda files, server: [files.lose(each) for each in server.segments()[:2]]
            + [files.lose(server.snapshots()[1])],
            ["the log begins after 1:13; what follows 1:6 is missing"],
        ),
        (make("generation-1/log.x"), [r"log\.x is not log\.<zxid>"]),
        (make("generation-1/snapshot.x"), [r"snapshot\.x is not snapshot\.<zxid>"]),
        (lambda files, _: files.make_folder(FOLDER / "generation-2"), ["generation-2 is gone"]),
    ],
)  # fmt: skip
def test_damage_is_told(change: Change, problems: list[str]) -> None:
    server = grown()
    files = server.at_rest()
    change(files, server)
    contents = read_contents(FolderReader(FOLDER, files))
    assert len(contents.problems) == len(problems), contents.problems
    for text, problem in zip(problems, contents.problems, strict=True):
        assert re.search(text, problem), problem
    document = contents_document(contents)
    assert json.loads(json.dumps(document))["problems"] == contents.problems
    shown = printed(lambda console: show_contents(console, contents))
    assert all(f"damaged: {problem}\n" in shown for problem in contents.problems)


@pytest.mark.parametrize(
    ("change", "note", "others"),
    [
        (tear_end, "ends with a batch that is not whole", {}),
        (repairing, "counts no more, the next start repairs it: its tree differs", {}),
        (
            lambda files, _: make_epochs(files, FOLDER, Epochs(Epoch(1), Epoch(1), True)),
            "the end of the log was torn",
            {},
        ),
        (
            lambda files, server: files.lose(server.segments()[0]),
            r"begins after 1:7, so snapshot\.0+40000000006 is of no use",
            {},
        ),
        (make("received.tmp"), "", {"received.tmp": "in the making; removed at the next start"}),
        (make("notes"), "", {"notes": "not of this program"}),
        (members(""), "", {MEMBERS_FILE: "a copy of the member list, for launches"}),
        (
            members("left the ensemble"),
            "the server left the ensemble",
            {MEMBERS_FILE: "a copy of the member list, for launches"},
        ),
        (
            make(DAMAGED_FOLDER),
            "",
            {"damaged": "set aside by a repair; removed when the vote is back"},
        ),
        (
            lambda files, _: files.make_folder(FOLDER / "generation-0"),
            "",
            {"generation-0": "older generation; removed at the next start"},
        ),
    ],
)
def test_what_a_start_takes_as_it_is_is_no_damage(
    change: Change, note: str, others: dict[str, str]
) -> None:
    server = grown()
    files = server.at_rest()
    change(files, server)
    contents = read_contents(FolderReader(FOLDER, files))
    assert contents.problems == []
    assert len(contents.notes) == bool(note)
    assert re.search(note, "".join(contents.notes)), contents.notes
    assert {name: what for name, what in contents.others.items() if name != "spare"} == others
    shown = printed(lambda console: show_contents(console, contents))
    assert all(f"note: {each}\n" in shown for each in contents.notes)
    assert all(f"{name}: {what}\n" in shown for name, what in others.items())


def test_a_damaged_copy_of_the_member_list_is_told() -> None:
    server = grown()
    files = server.at_rest()
    members("")(files, server)
    files.flip(FOLDER / MEMBERS_FILE, 30)
    contents = read_contents(FolderReader(FOLDER, files))
    assert [f"{FOLDER / MEMBERS_FILE} is damaged" in each for each in contents.problems] == [True]


def test_no_character_of_a_file_name_is_obeyed() -> None:
    server = grown()
    files = server.at_rest()
    make("\x1b[2J\u202e")(files, server)
    make("log.\x1b[31m")(files, server)
    contents = read_contents(FolderReader(FOLDER, files))
    assert contents.others["\x1b[2J\u202e"] == "not of this program"
    shown = printed(lambda console: show_contents(console, contents))
    assert "\\x1b[2J\\u202e: not of this program\n" in shown
    assert "\x1b" not in shown and "\u202e" not in shown


def test_a_file_of_another_version_is_refused() -> None:
    server = grown()
    files = server.at_rest()
    content = files.content(server.snapshots()[0])
    content[8:12] = (9).to_bytes(4, "little")
    content[20:24] = zlib.crc32(content[:20]).to_bytes(4, "little")
    with pytest.raises(UnknownVersion, match=r"snapshot\.\w+ has version 9; this program reads 1"):
        read_contents(FolderReader(FOLDER, files))


def test_a_record_that_is_no_transaction_is_told() -> None:
    server = ServerFolder()
    server.append(LOG[:6])
    server.storage.perform([Append(z(7), [b"\xc1"], z(6))])
    (problem,) = read_contents(server.reader()).problems
    assert re.search(r"log\.\w+: 1:7 is no transaction: ", problem)


def test_the_table_names_every_file() -> None:
    server = grown()
    files = server.at_rest()
    tear_end(files, server)
    files.flip(server.segments()[0], 100)
    files.flip(server.snapshots()[0], 70)
    contents = read_contents(FolderReader(FOLDER, files))
    lines = printed(lambda console: show_contents(console, contents)).splitlines()
    assert lines[0] == "/data/coord/1: server 1 of ensemble 'coord' (8c1f)"
    assert lines[1] == "founding disk disk-1: the vote of the server rests on it"
    assert "accepted epoch 1, current epoch 1, 2 of 2 copies good" in lines
    assert "the vote of server 2 rests on disk d2" in lines
    rows = [line.split() for line in lines if re.match(r"(log|snapshot)\.0", line)]
    names = [path.name for path in (*server.snapshots(), *server.segments())]
    assert [row[0] for row in rows] == names
    assert [row[1:4] for row in rows] == [
        ["1:6", "bad", rows[0][3]],
        ["1:14", "1:14", "good"],
        ["1:1", "bad", "1024"],
        ["1:8", "1:13", "good"],
        ["1:14", "1:18", "torn"],
    ]


def test_what_a_repair_has_set_aside_can_be_looked_at() -> None:
    server = grown()
    files = server.at_rest()
    identity = read_identity(FOLDER, files)
    assert identity is not None
    storage = Storage.open(FOLDER, identity.owner, DEFAULT_LIMITS, files)
    storage.repair("a person wants to know")
    storage.close()
    contents = read_contents(FolderReader(FOLDER / DAMAGED_FOLDER, files))
    assert contents.problems == [
        "/data/coord/1/damaged/identity is missing, but "
        "/data/coord/1/damaged holds a log or a snapshot"
    ]
    assert (contents.last, len(contents.snapshots), len(contents.segments)) == (z(19), 2, 3)
    assert contents.identity is None and contents.has_vote is None
    shown = printed(lambda console: show_contents(console, contents))
    assert shown.startswith("/data/coord/1/damaged: its identity cannot be read\n")
    assert json.loads(json.dumps(contents_document(contents)))["identity"] is None


@pytest.mark.parametrize(("voter", "has_vote"), [(1, True), (2, False)])
@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_folder_tells_its_vote_by_a_changed_member_list(
    voter: int, has_vote: bool, has_snapshot: bool
) -> None:
    leader = OneLeader()
    leader.open()
    leader.prepare_list(
        MemberList(z(2), {ServerId(voter): FOUNDING_DISK, ServerId(4): DiskId("d")})
    )
    leader.prepare_voter(4, "d4")
    server = ServerFolder()
    server.append(leader.log[: 2 if has_snapshot else 3])
    if has_snapshot:
        server.snapshot()
        server.append(leader.log[2:])
    leader.prepare_list(MemberList(z(4), {ServerId(3): FOUNDING_DISK}))
    server.append(leader.log[3:], uncommitted=1)
    contents = read_contents(server.reader())
    assert (contents.problems, contents.has_vote) == ([], has_vote)
    assert contents.voters == {4: "d4"}
