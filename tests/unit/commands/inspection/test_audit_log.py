"""`log`: who changed what, from where, with what outcome; and what is not known."""

import re
from typing import Any

import pytest

from raykeeper.actors.disk.folder_reader import FolderReader
from raykeeper.actors.disk.storage import StorageLimits
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.commands.inspection.audit_log import (
    AuditEntry,
    Client,
    Wanted,
    entry_document,
    entry_line,
    print_log,
    reach_document,
    reach_lines,
)
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.requests import (
    AddAuth,
    CloseSession,
    Connect,
    Create,
    CreateMode,
    SessionId,
    SetData,
)
from tests.contract.server_folders import ServerFolder
from tests.contract.stores import FOLDER
from tests.unit.znodes.one_leader import NO_SESSION, OneLeader, password
from tests.unit.znodes.one_leader import zxid_at as z

ALICE, BOB = SessionId(z(1)), SessionId(z(2))
PROVED = Identity("digest", digest_id("alice", "password"))


def history() -> OneLeader:
    """Alice proves who she is and moves; Bob's session expires with an ephemeral znode."""
    one = OneLeader()

    def at(ms: int) -> None:
        one.wall_ms = Millis(ms)

    assert (one.open(1, "10.0.0.1"), one.open(2, "10.0.0.2")) == (ALICE, BOB)
    one.create(ALICE, "/x", b"abc")
    one.do(ALICE, AddAuth("digest", b"alice:password"))
    at(2_000)
    one.create(BOB, "/x/b", b"", CreateMode.EPHEMERAL)
    one.do(BOB, SetData("/x", b"", 7))
    at(3_000)
    one.prepare_open(Connect(ALICE, password(1), Millis(5_000), Zxid(0)), "10.0.0.3")
    one.apply()
    one.do(ALICE, SetData("/x", b"abcd", 0))
    at(4_000)
    one.prepare_expiry(BOB)
    one.apply()
    one.delete(ALICE, "/x")
    one.create(ALICE, "/xy")
    one.do(ALICE, CloseSession())
    one.prepare_voter(2, "d2")
    return one


LINES = [
    "01.000+00:00  1:1  {A} from 10.0.0.1 at server 1: session opened, timeout 5000 ms",
    "01.000+00:00  1:2  {B} from 10.0.0.2 at server 1: session opened, timeout 5000 ms",
    "01.000+00:00  1:3  {A} from 10.0.0.1 at server 1: create /x (3 bytes)",
    "01.000+00:00  1:4  {A} from 10.0.0.1 at server 1 as digest:alice: "
    "proved digest:alice",
    "02.000+00:00  1:5  {B} from 10.0.0.2 at server 1: create ephemeral /x/b (0 bytes)",
    "02.000+00:00  1:6  {B} from 10.0.0.2 at server 1: "
    "set /x refused: the znode has another version (BAD_VERSION)",
    "03.000+00:00  1:7  {A} from 10.0.0.3 at server 1 as digest:alice: "
    "session taken to another connection, timeout 5000 ms",
    "03.000+00:00  1:8  {A} from 10.0.0.3 at server 1 as digest:alice: "
    "set /x (4 bytes, version 1)",
    "04.000+00:00  1:9  {B} from 10.0.0.2 at server 1: "
    "session expired; delete /x/b",
    "04.000+00:00  1:10  {A} from 10.0.0.3 at server 1 as digest:alice: delete /x",
    "04.000+00:00  1:11  {A} from 10.0.0.3 at server 1 as digest:alice: "
    "create /xy (0 bytes)",
    "04.000+00:00  1:12  {A} from 10.0.0.3 at server 1 as digest:alice: "
    "session closed by its client",
    "04.000+00:00  1:13  the ensemble: the vote of server 2 moved to disk d2 "
    "(not known to be committed)",
]  # fmt: skip
NAMES = {"{A}": "session 0x40000000001", "{B}": "session 0x40000000002"}


def server_with(log: list[tuple[Zxid, bytes]], snapshot_after: int | None = None) -> ServerFolder:
    server = ServerFolder()
    if snapshot_after is not None:
        server.append(log[:snapshot_after])
        server.snapshot()
        log = log[snapshot_after:]
    server.append(log)
    return server


def entries_of(
    reader: FolderReader, wanted: Wanted | None = None, **options: Any
) -> list[AuditEntry]:
    found: list[AuditEntry] = []
    print_log(reader, wanted or Wanted(), found.append, **options)
    return found


def zxids(reader: FolderReader, wanted: Wanted, **options: Any) -> list[int]:
    return [entry.zxid - z(0) for entry in entries_of(reader, wanted, **options)]


def test_everything_is_told() -> None:
    server = server_with(history().log)
    lines = [entry_line(entry) for entry in entries_of(server.reader())]
    expected = "\n".join(f"1970-01-01T00:00:{line}" for line in LINES)
    for short, name in NAMES.items():
        expected = expected.replace(short, name)
    assert lines == expected.split("\n")


def test_an_entry_is_told_as_a_document() -> None:
    entries = entries_of(server_with(history().log).reader())
    documents = [entry_document(entry) for entry in entries]
    assert documents[7] == {
        "zxid": "1:8",
        "time": "1970-01-01T00:00:03.000+00:00",
        "type": "set",
        "session": "0x40000000001",
        "number": 3,
        "code": 0,
        "error": None,
        "changes": [
            {"op": "set", "path": "/x", "value": "abcd", "value_base64": None, "version": 1}
        ],
        "client": {
            "host": "10.0.0.3",
            "server_id": 1,
            "identities": [{"scheme": "digest", "id": "alice"}],
        },
        "is_committed": True,
    }
    assert (documents[12]["client"], documents[12]["is_committed"]) == (None, False)
    assert (documents[5]["code"], documents[5]["error"]) == (-103, "BAD_VERSION")
    assert (documents[5]["op"], documents[5]["path"]) == ("set", "/x")
    assert [documents[n]["reason"] for n in (8, 11)] == ["expired", "client"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(path="/x"), [3, 6, 8, 10]),
        # With the ephemeral that went with its session, and without /xy.
        (Wanted(path="/x", is_recursive=True), [3, 5, 6, 8, 9, 10]),
        (Wanted(path="/", is_recursive=True), [3, 5, 6, 8, 9, 10, 11]),
        (Wanted(path="/"), []),
        (Wanted(path="/x/b"), [5, 9]),
        (Wanted(session=BOB), [2, 5, 6, 9]),
        (Wanted(session=SessionId(77)), []),
        (Wanted(since=Millis(4_000)), [9, 10, 11, 12, 13]),
        (Wanted(until=Millis(2_000)), [1, 2, 3, 4, 5, 6]),
        (Wanted(since=Millis(1_001), until=Millis(2_999)), [5, 6]),
        (Wanted(path="/x", session=ALICE, since=Millis(2_000)), [8, 10]),
    ],
)
def test_only_what_is_asked_for_is_told(wanted: Wanted, found: list[int]) -> None:
    reader = server_with(history().log).reader()
    assert zxids(reader, wanted) == found
    assert zxids(reader, wanted, last=2) == found[-2:]


AT = "1970-01-01T00:00:04.000+00:00"
RANGE = f"of 3 transactions, after 1:10 up to 1:13, from {AT} to {AT}"
BEFORE = "what was before is not in the log of this folder"


@pytest.mark.parametrize(
    ("wanted", "is_conclusive", "lines"),
    [
        (Wanted(path="/xy"), True, [f"1 {RANGE}", BEFORE]),
        # Nothing was found, and it may have been before.
        (
            Wanted(path="/z"),
            False,
            [f"0 {RANGE}", BEFORE, "the snapshot as of 1:11 had no such znode"],
        ),
        (
            Wanted(path="/xy", until=Millis(2_000)),
            False,
            [
                *(f"0 {RANGE}", BEFORE),
                f"the snapshot as of 1:11 had it, created at 1:11 ({AT}), last set at 1:11 ({AT})",
            ],
        ),
        (Wanted(session=SessionId(77)), False, [f"0 {RANGE}", BEFORE]),
        # Of the millisecond of its first transaction others may be missing.
        (Wanted(session=SessionId(77), since=Millis(4_000)), False, [f"0 {RANGE}", BEFORE]),
        (Wanted(path="/z", since=Millis(4_001)), True, [f"0 {RANGE}"]),
    ],
)
def test_what_was_looked_at_is_told(wanted: Wanted, is_conclusive: bool, lines: list[str]) -> None:
    """An answer without entries says whether there are none, or whether nobody knows."""
    reader = server_with(history().log, 11).reader()
    reach = print_log(reader, wanted, lambda _: None)
    assert reach.is_conclusive(wanted) is is_conclusive
    told = list(reach_lines(reach, wanted))
    assert told == lines
    document = reach_document(reach, wanted)
    assert (document["holds_all"], document["found"]) == (BEFORE not in told, reach.found)
    assert (document["before"] is None) == ("snapshot" not in told[-1])


def test_a_log_from_the_founding_on_holds_all() -> None:
    for log, line in (
        (history().log, "0 of 13 transactions, after 0:0 up to 1:13, from 1970"),
        ([], "the log has no transaction; it begins after 0:0"),
    ):
        reach = print_log(server_with(log).reader(), Wanted(path="/z"), lambda _: None)
        (told,) = reach_lines(reach, Wanted(path="/z"))
        assert told.startswith(line) and reach.is_conclusive(Wanted(path="/z"))


@pytest.mark.parametrize("place", range(1, 13))
@pytest.mark.parametrize("is_cut", [False, True])
def test_the_oldest_snapshot_tells_what_the_log_has_no_more(place: int, is_cut: bool) -> None:
    """Also without the first segment; but not if what followed the snapshot is lost with it."""
    log = history().log
    server = server_with(log, place)
    files = server.at_rest()
    everything = {entry.zxid: entry for entry in entries_of(server_with(log).reader())}
    if is_cut and len(server.segments()) > 1:
        files.lose(server.segments()[0])
    reader = FolderReader(FOLDER, files)
    begin = reader.log().begin()
    assert begin is not None
    entries = entries_of(reader)
    assert [entry.zxid for entry in entries] == [zxid for zxid in everything if zxid > begin]
    for entry in entries:
        known, whole = entry.client, everything[entry.zxid].client
        if whole is None or known is None:
            assert known is whole
            continue
        # Nothing else than what is true, and after the snapshot all of it.
        assert known.host in (whole.host, None)
        assert known.server_id in (whole.server_id, None)
        assert known.identities in (whole.identities, None)
        if begin <= z(place) < entry.zxid:
            assert known == whole


def test_behind_a_hole_nothing_is_guessed() -> None:
    """The damaged segment has the move to another host; later writes are not of the old one."""
    server = ServerFolder(limits=StorageLimits(segment_bytes=400))
    server.append(history().log)
    files = server.at_rest()
    index = sum(first <= z(7) for first in server.reader().log().firsts) - 1
    assert 0 < index < len(server.segments()) - 1
    files.flip(server.segments()[index], 60)
    found: list[AuditEntry] = []
    with pytest.raises(CorruptRecord, match="damaged"):
        print_log(FolderReader(FOLDER, files), Wanted(session=ALICE), found.append)
    before = [entry for entry in found if entry.zxid < z(7)]
    behind = [entry for entry in found if entry.zxid > z(7)]
    assert before and {entry.client.host for entry in before if entry.client} == {"10.0.0.1"}
    assert behind and {entry.client for entry in behind} == {Client()}


def test_what_is_not_known_is_said() -> None:
    (entry,) = entries_of(server_with(history().log).reader(), Wanted(path="/x"), last=1)
    for client, who in (
        (Client(), "from an unknown host: delete"),
        (Client(host=""), "session 0x40000000001: delete"),
        (Client("h", ServerId(3), ()), "from h at server 3: delete"),
        (Client("h", None, (PROVED,)), "from h as digest:alice: delete"),
    ):
        entry.client = client
        assert who in entry_line(entry)
    entry.client = Client()
    unknown = {"host": None, "server_id": None, "identities": None}
    assert entry_document(entry)["client"] == unknown


def test_identities_before_the_snapshot_are_not_guessed() -> None:
    """A snapshot tells what a session had proved by then, which may be more than at a write."""
    one = OneLeader()
    one.open(1, "10.0.0.1")
    for n in range(12):
        one.create(ALICE, f"/{n}", bytes(60))
    one.do(ALICE, AddAuth("digest", b"alice:password"))
    found = entries_of(server_with(one.log, len(one.log)).reader())
    assert 1 < len(found) < len(one.log)
    assert [entry.client for entry in found[:-1]] == [Client("10.0.0.1", ServerId(1))] * (
        len(found) - 1
    )
    assert found[-1].client == Client("10.0.0.1", ServerId(1), (PROVED,))


def test_all_that_is_valid_is_told_before_damage() -> None:
    server = server_with(history().log)
    files = server.at_rest()
    first = server.segments()[0]
    files.flip(first, 60)
    found: list[AuditEntry] = []
    with pytest.raises(CorruptRecord, match=re.escape(first.name)):
        print_log(FolderReader(FOLDER, files), Wanted(), found.append)
    assert [entry.zxid for entry in found] == [zxid for zxid, _ in history().log][-len(found) :]


def test_a_new_session_does_not_inherit_the_identities_of_an_older_one() -> None:
    one = OneLeader()
    one.open(1, "10.0.0.1")
    one.do(ALICE, AddAuth("digest", b"alice:password"))
    one.do(ALICE, CloseSession())
    one.prepare_open(Connect(NO_SESSION, password(1), Millis(5_000), Zxid(0)), "10.0.0.2")
    one.apply()
    one.do(SessionId(z(4)), Create("/a", b"", 0))
    clients = [entry.client for entry in entries_of(server_with(one.log).reader())]
    assert clients[2:] == [
        Client("10.0.0.1", ServerId(1), (PROVED,)),
        Client("10.0.0.2", ServerId(1), ()),
        Client("10.0.0.2", ServerId(1), ()),
    ]
