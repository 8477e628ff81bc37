"""SnapshotWalk and SnapshotLoader: slices, what a walk misses, and everything malformed."""

import msgspec
import pytest

from raykeeper.zab.feature_levels import (
    LEVEL_MAX,
    LEVEL_MIN,
    LEVEL_OF_ACL_SALTS,
    FeatureLevel,
)
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.requests import Create, CreateMode, Delete, SessionId
from raykeeper.znodes.sessions import SessionRecord
from raykeeper.znodes.snapshot import (
    SNAPSHOT_FORMATS,
    VISITS_MAX,
    AclSaltRecord,
    MembersRecord,
    Record,
    SnapshotFormatError,
    SnapshotHeader,
    SnapshotLoader,
    SnapshotTrailer,
    SnapshotWalk,
    VoterRecord,
    ZnodeRecord,
    level_of,
    records_in,
    time_in,
)
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import RaiseLevelTxn, Txn, encode_txn
from tests.unit.znodes.one_leader import OneLeader, zxid_at

LATEST = max(SNAPSHOT_FORMATS.values())
HEADER = SnapshotHeader(SNAPSHOT_FORMATS[LEVEL_MIN], Millis(5))
decode = msgspec.msgpack.Decoder(list[Record]).decode


def chunk(*records: Record) -> bytes:
    return msgspec.msgpack.encode(records)


def znode(path: str, number: int = 1) -> ZnodeRecord:
    zxid = Zxid(number)
    return ZnodeRecord(path, b"", zxid, zxid, Millis(0), Millis(0), 0, SessionId(0), 0, zxid)


def session(number: int = 1) -> SessionRecord:
    return SessionRecord(SessionId(number), bytes([number]) * 16, Millis(9), Zxid(1), 0, 0, {})


SYSTEM_ZNODES = [
    znode(path) for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")
]


def walked(state: State, chunk_bytes: int = 64 << 10) -> list[bytes]:
    walk = SnapshotWalk(state, chunk_bytes)
    chunks = []
    while (data := walk.next_chunk()) is not None:
        chunks.append(data)
    assert walk.next_chunk() is None
    return chunks


def loaded(chunks: list[bytes], zxid: Zxid, consistent_at: Zxid) -> State:
    loader = SnapshotLoader()
    for data in chunks:
        loader.load(data)
    return loader.finish(zxid, consistent_at)


def grown() -> OneLeader:
    leader = OneLeader()
    one, _, _ = (leader.open(n) for n in range(3))
    for number in range(20):
        leader.create(one, f"/a{number}", b"x" * number)
        leader.create(one, f"/a{number}/e", b"y", CreateMode.EPHEMERAL)
    leader.wall_ms = Millis(leader.wall_ms + 1)
    leader.set(one, "/a3", b"new")
    leader.delete(one, "/a7/e")
    leader.delete(one, "/a7/missing")
    leader.prepare_voter(3, "d3")
    leader.prepare_voter(1, "d1")
    leader.apply()
    return leader


@pytest.mark.parametrize("chunk_bytes", [1, 500, 64 << 10])
def test_a_state_survives_a_snapshot(chunk_bytes: int) -> None:
    state = grown().state
    again = loaded(walked(state, chunk_bytes), state.zxid, state.zxid)
    assert again.digest() == state.digest()
    assert again.zxid == again.consistent_at == state.zxid
    assert again.time_ms == state.time_ms
    assert again.tree.ephemerals == state.tree.ephemerals
    assert {p: (z.children or None) for p, z in again.tree.znodes.items()} == {
        p: (z.children or None) for p, z in state.tree.znodes.items()
    }
    assert again.sessions.by_id.keys() == state.sessions.by_id.keys()
    assert again.voters == state.voters == {3: "d3", 1: "d1"}
    assert again.sessions.get(SessionId(0)) is None


@pytest.mark.parametrize(("value", "golden"), [(b"v", "c4 01 76"), (b"", "c4 00"), (None, "c0")])
def test_the_bytes_of_a_znode_are_fixed(value: bytes | None, golden: str) -> None:
    """Nil where else bytes stand: without null data a snapshot is what every version reads."""
    leader = OneLeader()
    leader.do(leader.open(), Create("/a", value, 0))
    number = f"cf {leader.zxid:016x}"
    record = f"9c 03 a2 2f61 {golden} {number} {number} cd 03e8 cd 03e8 00 00 00 {number} c0"
    chunks = walked(leader.state)
    assert bytes.fromhex(record) in chunks[-1]
    again = loaded(chunks, leader.zxid, leader.zxid)
    assert again.tree.znodes["/a"].value == value
    assert again.digest() == leader.state.digest()


def test_equal_numbers_share_one_object() -> None:
    state = grown().state
    again = loaded(walked(state), state.zxid, state.zxid)
    one, other = again.tree.znodes["/a1/e"], again.tree.znodes["/a2/e"]
    assert one.czxid is one.mzxid is one.pzxid
    assert one.ctime is one.mtime is other.ctime


def test_a_chunk_is_bounded_in_bytes_and_in_znodes_visited() -> None:
    leader = OneLeader()
    one = leader.open()
    for number in range(VISITS_MAX):
        leader.prepare(one, Create(f"/{number}", b"x" * 100, 0))
    leader.apply()
    by_bytes = [decode(data) for data in walked(leader.state, 1_000)]
    assert max(map(len, by_bytes[1:-1])) < 10
    by_visits = walked(leader.state, 1 << 30)
    assert [len(decode(data)) for data in by_visits[2:]] == [VISITS_MAX, 4 + 1]
    walk = SnapshotWalk(leader.state, 1 << 30)
    for _ in range(3):
        walk.next_chunk()
    for number in range(VISITS_MAX):
        leader.prepare(one, Delete(f"/{number}", -1))
    leader.apply()
    rest = []
    while (data := walk.next_chunk()) is not None:
        rest.append(decode(data))
    assert [type(record) for record in rest[-1]] == [SnapshotTrailer]


def test_parents_come_first_and_sessions_before_all_and_voters_before_them() -> None:
    records = [record for data in walked(grown().state, 1) for record in decode(data)]
    kinds = [type(record) for record in records]
    assert kinds[0] is SnapshotHeader
    assert records[1:3] == [
        VoterRecord(ServerId(3), DiskId("d3")),
        VoterRecord(ServerId(1), DiskId("d1")),
    ]
    assert kinds[3:6] == [SessionRecord] * 3
    assert kinds.count(VoterRecord) == 2
    assert kinds[-1] is SnapshotTrailer
    paths = [record.path for record in records if isinstance(record, ZnodeRecord)]
    assert all(
        (path.rpartition("/")[0] or "/") in paths[: position + 1]
        for position, path in enumerate(paths)
    )


def test_elements_deleted_during_the_walk_are_not_written() -> None:
    leader = grown()
    walk = SnapshotWalk(leader.state, 1)
    chunks = [walk.next_chunk()]
    gone = min(leader.state.sessions.by_id)
    leader.prepare_expiry(gone)
    leader.apply()
    while chunks[-1] is not None:
        chunks.append(walk.next_chunk())
    records = [record for data in chunks if data is not None for record in decode(data)]
    assert len([record for record in records if isinstance(record, SessionRecord)]) == 2
    assert [r for r in records if isinstance(r, ZnodeRecord) and r.ephemeral_owner == gone] == []
    trailer = records[-1]
    assert isinstance(trailer, SnapshotTrailer)
    assert trailer == SnapshotTrailer(2, len(leader.state.tree.znodes))


def test_a_voter_replaced_during_the_walk_is_that_of_the_replay() -> None:
    leader = grown()
    z0 = leader.state.zxid
    walk = SnapshotWalk(leader.state, 1)
    chunks = [walk.next_chunk(), walk.next_chunk()]  # the header, the voters of then
    for server_id, disk in ((3, "d4"), (2, "d2")):
        leader.prepare_voter(server_id, disk)
    leader.apply()
    while chunks[-1] is not None:
        chunks.append(walk.next_chunk())
    again = loaded([data for data in chunks if data is not None], z0, leader.state.zxid)
    assert again.voters == {3: "d3", 1: "d1"}
    for zxid, data in leader.log[-2:]:
        again.apply(zxid, data)
    assert again.voters == leader.state.voters == {3: "d4", 1: "d1", 2: "d2"}
    assert again.digest() == leader.state.digest()


def test_without_replaced_voters_there_is_no_record_of_them() -> None:
    leader = OneLeader()
    leader.open()
    records = [record for data in walked(leader.state) for record in decode(data)]
    assert VoterRecord not in [type(record) for record in records]


MEMBERS = MemberList(zxid_at(1), {ServerId(1): FOUNDING_DISK, ServerId(4): DiskId("d4")})


def test_a_member_list_is_written_as_of_the_beginning_of_the_walk() -> None:
    leader = grown()
    leader.prepare_list(MEMBERS)
    leader.apply()
    said, z0 = MEMBERS.version, leader.state.zxid
    walk = SnapshotWalk(leader.state, 1)
    chunks = [walk.next_chunk()]
    later = MEMBERS.with_disk(ServerId(1), DiskId("d1"), zxid_at(len(leader.log) + 1))
    leader.prepare_list(later)
    leader.prepare_voter(4, "d5")
    leader.apply()
    while chunks[-1] is not None:
        chunks.append(walk.next_chunk())
    records = [record for data in chunks if data is not None for record in decode(data)]
    assert isinstance(records[0], SnapshotHeader)
    assert records[1] == MembersRecord(MEMBERS, said)
    again = loaded([data for data in chunks if data is not None], z0, leader.state.zxid)
    assert (again.members, again.voters) == (MEMBERS, {4: "d4"})
    assert again.members_said == said and again.is_list_said_again
    for zxid, data in leader.log[-2:]:
        again.apply(zxid, data)
    last = MemberList(leader.state.zxid, {ServerId(1): DiskId("d1"), ServerId(4): DiskId("d5")})
    assert again.members == leader.state.members == last
    assert again.digest() == leader.state.digest()


def test_votes_that_moved_have_a_version_that_no_other_list_exceeds() -> None:
    """Format 3 does not say when they moved."""
    leader = grown()
    upto = Zxid(leader.state.zxid + 5)
    again = loaded(walked(leader.state), leader.state.zxid, upto)
    founding = MemberList(ZERO, dict.fromkeys((ServerId(1), ServerId(3)), FOUNDING_DISK))
    moved = {ServerId(1): DiskId("d1"), ServerId(3): DiskId("d3")}
    assert again.member_list(founding) == MemberList(upto, moved)
    assert leader.state.member_list(founding).version <= leader.state.zxid
    assert OneLeader().state.member_list(founding) is founding


GOOD = [
    chunk(HEADER),
    chunk(session(), *SYSTEM_ZNODES),
    chunk(znode("/a")),
    chunk(SnapshotTrailer(1, 5)),
]


def test_a_snapshot_made_by_hand_is_accepted() -> None:
    assert "/a" in loaded(GOOD, Zxid(1), Zxid(2)).tree.znodes
    assert "/a" in loaded([GOOD[0], chunk(), *GOOD[1:]], Zxid(1), Zxid(1)).tree.znodes


LATER = msgspec.msgpack.encode([(1, LATEST + 1, 5, 3, "a field of later")])


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        # The header is alone, first, and of a format we know.
        ([LATER], f"format {LATEST + 1}, and this program reads 3 and 4"),
        ([chunk()], "the first chunk must be the header alone"),
        ([chunk(HEADER, HEADER)], "the first chunk must be the header alone"),
        (GOOD[1:2], "malformed record"),
        ([GOOD[0], GOOD[0]], "malformed record"),
        # Bytes that are no records.
        ([b""], "malformed record"),
        ([GOOD[0], b"\xc1"], "malformed record"),
        ([GOOD[0], GOOD[1][:-1]], "malformed record"),
        ([GOOD[0], msgspec.msgpack.encode([(3, "/", "text")])], "malformed record"),
        ([GOOD[0], chunk(znode("/", 1 << 63))], "malformed record"),
        ([GOOD[0], msgspec.msgpack.encode([(5, 1, None)])], "malformed record"),
        ([GOOD[0], chunk(znode("/~")).replace(b"~", b"\xff")], "malformed record"),  # no UTF-8
        # Records that contradict each other.
        ([*GOOD[:2], chunk(session(0))], "a session without an id"),
        ([*GOOD[:2], chunk(znode("b"))], "'b' is not the path of a znode"),
        ([*GOOD[:2], chunk(session())], "session 0x1 comes twice"),
        ([*GOOD[:3], GOOD[2]], "znode /a comes twice"),
        ([*GOOD[:2], chunk(znode("/b/c"))], "znode /b/c comes before its parent"),
        ([GOOD[0], chunk(znode("/a"))], "znode /a comes before its parent"),
        ([GOOD[0], chunk(SYSTEM_ZNODES[0], SnapshotTrailer(0, 1))], "znode /zookeeper is missing"),
        ([GOOD[0], chunk(AclSaltRecord("8c1f"))], "a salt at feature level 1"),
        ([*GOOD[:2], GOOD[3]], r"\(1, 4\) sessions and znodes, expected \(1, 5\)"),
        ([*GOOD, chunk(znode("/b"))], "a record after the last one"),
        ([*GOOD[:3], chunk(SnapshotTrailer(1, 5), session(2))], "a record after the last one"),
    ],
)
def test_a_malformed_snapshot_is_refused(chunks: list[bytes], reason: str) -> None:
    loader = SnapshotLoader()
    for data in chunks[:-1]:
        loader.load(data)
    with pytest.raises(SnapshotFormatError, match=reason):
        loader.load(chunks[-1])


@pytest.mark.parametrize("count", range(len(GOOD)))
def test_an_incomplete_snapshot_gives_no_state(count: int) -> None:
    with pytest.raises(SnapshotFormatError, match="not complete"):
        loaded(GOOD[:count], Zxid(1), Zxid(1))


def test_records_are_read_one_after_the_other() -> None:
    chunks = walked(OneLeader().state, chunk_bytes=1)
    expected = [record for data in chunks for record in decode(data)]
    assert list(records_in(chunks)) == expected
    assert type(expected[0]) is SnapshotHeader and type(expected[-1]) is SnapshotTrailer


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([], "not complete"),
        ([chunk(HEADER)], "not complete"),
        ([chunk(HEADER, SnapshotTrailer(0, 0))], "malformed"),
        ([chunk(HEADER), b"\xc1"], "malformed"),
        ([chunk(HEADER), chunk(HEADER)], "malformed"),
        ([b"", chunk(SnapshotTrailer(0, 0))], "malformed"),
        ([chunk()], "header alone"),
        (
            [chunk(SnapshotHeader(LATEST, Millis(0), FeatureLevel(LEVEL_MAX + 1)))],
            "requires feature level 3, and this program knows 1 to 2",
        ),
        ([chunk(SnapshotHeader(9, Millis(0)))], "format 9, and this program reads 3 and 4"),
    ],
)
def test_records_of_what_is_no_snapshot_are_refused(chunks: list[bytes], text: str) -> None:
    with pytest.raises(SnapshotFormatError, match=text):
        list(records_in(chunks))


def test_the_level_decides_the_format() -> None:
    """Before it is raised a program that knows no levels reads the snapshot as its own."""
    state = State()
    old = msgspec.msgpack.decode(SnapshotWalk(state).next_chunk() or b"")
    assert old == [[1, 3, 0, 1]]
    state.apply(Zxid(1), encode_txn(Txn(SessionId(0), 0, 0, Millis(7), RaiseLevelTxn(LEVEL_MAX))))
    walk = SnapshotWalk(state)
    chunks = list(iter(walk.next_chunk, None))
    assert msgspec.msgpack.decode(chunks[0]) == [[1, 4, 7, 2]]
    loader = SnapshotLoader()
    for each in chunks:
        loader.load(each)
    loaded = loader.finish(Zxid(1), Zxid(1))
    assert (loaded.level, loaded.digest()) == (LEVEL_MAX, state.digest())
    # What the program before wrote: a header of two fields.
    loader, rest = SnapshotLoader(), list(iter(SnapshotWalk(State()).next_chunk, None))[1:]
    for each in [msgspec.msgpack.encode([[1, 3, 9]]), *rest]:
        loader.load(each)
    assert loader.finish(Zxid(1), Zxid(1)).level == LEVEL_MIN


def test_a_salt_comes_before_all_else() -> None:
    state = State()
    state.voters[ServerId(1)] = DiskId("d1")
    unsalted = walked(state)
    state.acl_salt = "8c1f"
    with pytest.raises(AssertionError):  # a program of before would pass over it
        walked(state)
    state.level = LEVEL_OF_ACL_SALTS
    chunks = walked(state)
    assert msgspec.msgpack.decode(chunks[1])[:2] == [[7, "8c1f"], [5, 1, "d1"]]
    again = loaded(chunks, Zxid(1), Zxid(1))
    assert (again.acl_salt, again.voters) == ("8c1f", {1: "d1"})
    assert loaded(unsalted, Zxid(1), Zxid(1)).acl_salt == ""


def test_the_first_chunk_tells_the_level() -> None:
    state = State()
    state.level = LEVEL_MAX
    assert level_of(SnapshotWalk(state).next_chunk() or b"") == LEVEL_MAX
    assert level_of(chunk(HEADER)) == LEVEL_MIN
    for bad, text in ((b"\xc1", "malformed record"), (LATER, f"format {LATEST + 1}")):
        with pytest.raises(SnapshotFormatError, match=text):
            level_of(bad)


def test_the_first_chunk_tells_the_time() -> None:
    assert time_in(chunk(HEADER)) == 5
    for data in (b"", b"\xc1", chunk(), chunk(znode("/"))):
        with pytest.raises(SnapshotFormatError):
            time_in(data)
    with pytest.raises(SnapshotFormatError, match="this program reads"):
        time_in(chunk(SnapshotHeader(LATEST + 1, Millis(5))))
