"""PrepRequestProcessor: each error in ZooKeeper's order, each result, the outstanding changes.

The file is long because it has one table of requests: what is refused stands beside what is done.
"""

import msgspec
import pytest

from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.ids import DiskId, Millis, ServerId, Zxid
from raykeeper.znodes.acl import OPEN_ACL, Acl
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.op_preparer import next_version
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.refusals import refused_undecoded
from raykeeper.znodes.requests import (
    AddAuth,
    CloseSession,
    Connect,
    Create,
    CreateMode,
    Delete,
    SessionId,
    SetAcls,
    SetData,
    Write,
    WriteOp,
    encode_op,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CloseReason,
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    RaiseLevelTxn,
    ReplaceVoterTxn,
    SetDataTxn,
    SuspectSessionTxn,
    TxnBody,
    decode_txn,
)
from raykeeper.znodes.znode import stat_of
from tests.unit.znodes.one_leader import NO_SESSION, WALL, OneLeader, password, raw, zxid_at

EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.SEQUENTIAL
LIMITS = Limits(value_bytes_max=10, path_chars_max=64, sessions_max=3)
BAD_ARGUMENTS, NO_NODE, NODE_EXISTS = Code.BAD_ARGUMENTS, Code.NO_NODE, Code.NODE_EXISTS
BAD_VERSION, NOT_EMPTY = Code.BAD_VERSION, Code.NOT_EMPTY
INVALID_ACL, AUTH_FAILED = Code.INVALID_ACL, Code.AUTH_FAILED
NO_CHILDREN = Code.NO_CHILDREN_FOR_EPHEMERALS


def begun(*, applied: bool = True) -> tuple[OneLeader, SessionId]:
    """A tree with /a (children b and c, version 1) and the ephemeral /e, or its future."""
    leader = OneLeader(LIMITS)
    session_id = leader.open()
    for op in (
        Create("/a", b"", 0),
        Create("/a/b", b"", 0),
        Create("/a/c", b"", 0),
        SetData("/a", b"a", 0),
        Create("/e", b"", EPHEMERAL),
    ):
        leader.prepare(session_id, op)
    if applied:
        leader.apply()
    return leader, session_id


REFUSALS: list[tuple[WriteOp, Code]] = [
    # create: flags and size, a slash, the parent, the name, the znode itself, an ephemeral parent.
    (Create("/x", b"", 7), BAD_ARGUMENTS),
    (Create("/x", b"", 0, None, 5), BAD_ARGUMENTS),
    (Create("/x", b"", 4, None, 5), BAD_ARGUMENTS),
    (Create("/x", b"", 5), BAD_ARGUMENTS),
    (Create("/x", b"", 6, None, 1 << 40), BAD_ARGUMENTS),
    (Create("/x", b"", 0, []), INVALID_ACL),
    (Create("/x/y", b"", 0, [Acl(32, "world", "anyone")]), INVALID_ACL),
    (Create("/x", b"", -1), BAD_ARGUMENTS),
    (Create("/x", b"12345678901", 0), BAD_ARGUMENTS),
    (Create("", b"", 0), BAD_ARGUMENTS),
    (Create("x", b"", 0), BAD_ARGUMENTS),
    (Create("//x", b"", 0), BAD_ARGUMENTS),
    (Create("//", b"", 0), BAD_ARGUMENTS),
    (Create("x/y", b"", 0), NO_NODE),
    (Create("/x/y", b"", 0), NO_NODE),
    (Create("/x/.", b"", 0), NO_NODE),
    (Create("/a//y", b"", 0), NO_NODE),
    (Create("/a/", b"", 0), BAD_ARGUMENTS),
    (Create("/a/.", b"", 0), BAD_ARGUMENTS),
    (Create("/a/..", b"", SEQUENTIAL - SEQUENTIAL), BAD_ARGUMENTS),
    (Create("/a/\0", b"", 0), BAD_ARGUMENTS),
    (Create("/a/\U0001f600", b"", 0), BAD_ARGUMENTS),
    (Create("/a/" + "x" * 62, b"", 0), BAD_ARGUMENTS),
    (Create("/a/" + "x" * 52, b"", SEQUENTIAL), BAD_ARGUMENTS),
    (Create("/", b"", 0), NODE_EXISTS),
    (Create("/a", b"", 0), NODE_EXISTS),
    (Create("/a/b", b"", EPHEMERAL), NODE_EXISTS),
    (Create("/e/x", b"", 0), NO_CHILDREN),
    (Create("/e/x", b"", EPHEMERAL | SEQUENTIAL), NO_CHILDREN),
    # delete: what must stay, what is not there, the version, the children.
    (Delete("/", -1), BAD_ARGUMENTS),
    (Delete("/zookeeper", -1), BAD_ARGUMENTS),
    (Delete("/zookeeper/quota", -1), BAD_ARGUMENTS),
    (Delete("/zookeeper/config", 5), BAD_ARGUMENTS),
    (Delete("/x", 5), NO_NODE),
    (Delete("/x/y", -1), NO_NODE),
    (Delete("/a/", -1), NO_NODE),
    (Delete("", -1), BAD_ARGUMENTS),
    (Delete("a/b", -1), NO_NODE),
    (Delete("/a/\0", -1), BAD_ARGUMENTS),
    (Delete("/a", 0), BAD_VERSION),
    (Delete("/a", -2), BAD_VERSION),
    (Delete("/a", 1), NOT_EMPTY),
    (Delete("/a", -1), NOT_EMPTY),
    # setData: what is not there, the size, the version.
    (SetData("/x", b"12345678901", 5), NO_NODE),
    (SetData("x", b"", -1), BAD_ARGUMENTS),
    (SetData("/a", b"12345678901", 5), BAD_ARGUMENTS),
    (SetData("/a", b"", 0), BAD_VERSION),
    (SetData("/a", b"", 2), BAD_VERSION),
    # setACL: the list, what is not there, the version of the ACL.
    (SetAcls("/x", [], -1), INVALID_ACL),
    (SetAcls("/x", list(OPEN_ACL), -1), NO_NODE),
    (SetAcls("x", list(OPEN_ACL), -1), BAD_ARGUMENTS),
    (SetAcls("x", [], -1), BAD_ARGUMENTS),
    (SetAcls("/a", list(OPEN_ACL), 1), BAD_VERSION),
    # addAuth: scheme and credential.
    (AddAuth("world", b"anyone"), AUTH_FAILED),
    (AddAuth("super", b""), AUTH_FAILED),
    (AddAuth("digest", b"a" * 129 + b":x"), AUTH_FAILED),
    (AddAuth("scrypt", b"no colon"), AUTH_FAILED),
    (AddAuth("scrypt", b"u:short"), AUTH_FAILED),
]


@pytest.mark.parametrize("applied", [True, False], ids=["tree", "future"])
@pytest.mark.parametrize(("op", "code"), REFUSALS)
def test_a_refusal_uses_up_the_number(op: WriteOp, code: Code, applied: bool) -> None:
    leader, session_id = begun(applied=applied)
    last = leader.preparation.last_number(session_id)
    assert last is not None
    kept = len(leader.preparation._tree)
    assert leader.prepare(session_id, op) == refused_undecoded(code, encode_op(op))
    assert leader.preparation.last_number(session_id) == last + 1
    assert len(leader.preparation._tree) == kept
    leader.apply()
    session = leader.state.sessions.get(session_id)
    assert session is not None
    assert session.reply_cache[last + 1].code == code


OWN = SessionId(zxid_at(1))
CREATIONS = [
    (Create("/x", b"v", 0), CreateTxn("/x", b"v", NO_SESSION, 3)),
    (Create("/a/d", b"", EPHEMERAL), CreateTxn("/a/d", b"", OWN, 3)),
    (Create("/a/s-", b"", SEQUENTIAL), CreateTxn("/a/s-0000000002", b"", NO_SESSION, 3)),
    # The number alone is a name.
    (Create("/a/", b"", SEQUENTIAL | EPHEMERAL), CreateTxn("/a/0000000002", b"", OWN, 3)),
    (Create("/", b"", SEQUENTIAL), CreateTxn("/0000000002", b"", NO_SESSION, 3)),
    (Create("/a/.", b"", SEQUENTIAL), CreateTxn("/a/.0000000002", b"", NO_SESSION, 3)),
    # At the limits.
    (Create("/a/" + "x" * 61, b"", 0), CreateTxn("/a/" + "x" * 61, b"", NO_SESSION, 3)),
    (Create("/x", b"1234567890", 0), CreateTxn("/x", b"1234567890", NO_SESSION, 3)),
    (Create("/a/名前", b"", 0), CreateTxn("/a/名前", b"", NO_SESSION, 3)),
]  # fmt: skip


@pytest.mark.parametrize("applied", [True, False], ids=["tree", "future"])
@pytest.mark.parametrize(("op", "change"), CREATIONS)
def test_a_create_has_its_transaction_and_reply(
    op: Create, change: CreateTxn, applied: bool
) -> None:
    leader, session_id = begun(applied=applied)
    assert leader.prepare(session_id, op) == change


@pytest.mark.parametrize("applied", [True, False], ids=["tree", "future"])
@pytest.mark.parametrize(("path", "version"), [("/a/b", 0), ("/a/b", -1), ("/e", -1)])
def test_a_delete_has_its_transaction_and_reply(path: str, version: int, applied: bool) -> None:
    leader, session_id = begun(applied=applied)
    assert leader.prepare(session_id, Delete(path, version)) == DeleteTxn(path)
    assert leader.prepare(session_id, Delete(path, version)) == ErrorTxn(NO_NODE, 2, path)
    leader.apply()
    assert leader.state.tree.get(path) is None


@pytest.mark.parametrize("applied", [True, False], ids=["tree", "future"])
@pytest.mark.parametrize("version", [1, -1])
def test_a_set_returns_the_stat_that_the_tree_will_show(version: int, applied: bool) -> None:
    leader, session_id = begun(applied=applied)
    leader.wall_ms = Millis(2_000)
    change = leader.prepare(session_id, SetData("/a", b"xyz", version))
    stat = Stat(zxid_at(2), zxid_at(7), WALL, Millis(2_000), 2, 2, 0, 0, 3, 2, zxid_at(4))
    assert change == SetDataTxn("/a", b"xyz", stat)
    leader.apply()
    znode = leader.state.tree.get("/a")
    assert znode is not None
    assert stat_of(znode) == stat


def test_an_operation_sees_outstanding_changes() -> None:
    """Conditions are checked against the future, not against what is applied."""
    leader, session_id = begun()
    zxid = zxid_at(7)
    steps: list[tuple[WriteOp, type[TxnBody]]] = [
        (SetData("/a", b"1", 1), SetDataTxn),
        (SetData("/a", b"2", 1), ErrorTxn),
        (SetData("/a", b"2", 2), SetDataTxn),
        (Create("/a/b/c", b"", 0), CreateTxn),
        (Delete("/a/b", -1), ErrorTxn),
        (Delete("/a/b/c", -1), DeleteTxn),
        (Delete("/a/b", -1), DeleteTxn),
        (Create("/a/b/c", b"", 0), ErrorTxn),
        (Create("/a/b", b"", 0), CreateTxn),
        (SetData("/a/b", b"", 0), SetDataTxn),
    ]
    for op, expected in steps:
        assert type(leader.prepare(session_id, op)) is expected, op
    znode = leader.state.tree.get("/a/b")
    assert znode is not None
    assert znode.czxid < zxid
    leader.apply()
    assert znode is not leader.state.tree.get("/a/b")


def test_sequence_numbers_count_every_creation_and_never_repeat() -> None:
    leader, session_id = begun()
    names = []
    for _ in range(3):
        change = leader.prepare(session_id, Create("/a/s-", b"", SEQUENTIAL))
        assert isinstance(change, CreateTxn)
        names.append(change.path)
        leader.prepare(session_id, Delete(change.path, -1))
        leader.prepare(session_id, Create(f"/a/plain{len(names)}", b"", 0))
    assert names == ["/a/s-0000000002", "/a/s-0000000004", "/a/s-0000000006"]


def test_a_sequence_goes_on_beyond_its_ten_digits() -> None:
    """ZooKeeper goes negative after 2147483647, and would repeat itself."""
    leader, session_id = begun()
    znode = leader.state.tree.get("/a")
    assert znode is not None
    znode.child_create_count = 9_999_999_999
    change = leader.prepare(session_id, Create("/a/s-", b"", SEQUENTIAL))
    assert change == CreateTxn("/a/s-9999999999", b"", NO_SESSION, 10_000_000_000)
    assert isinstance(change := leader.prepare(session_id, Create("/a/s-", b"", 2)), CreateTxn)
    assert change.path == "/a/s-10000000000"


@pytest.mark.parametrize(
    ("version", "following"),
    [(0, 1), (0x7FFF_FFFF, -0x8000_0000), (-0x8000_0000, -0x7FFF_FFFF), (-2, 0)],
)
def test_a_version_wraps_and_is_never_any_version(version: int, following: int) -> None:
    assert next_version(version) == following


def test_time_never_goes_back() -> None:
    leader, session_id = begun()
    times = []
    for wall_ms in (5_000, 3_000, 5_001):
        leader.wall_ms = Millis(wall_ms)
        leader.prepare(session_id, SetData("/a", b"", -1))
        times.append(decode_txn(leader.log[-1][1]).time_ms)
    assert times == [5_000, 5_000, 5_001]


@pytest.mark.parametrize(
    "op",
    [
        b"",
        b"\xc1",
        b"\x92\x03\x00",
        encode_op(SetData("/a", b"", -1))[:-1],
        encode_op(Write(1, 0, raw(CloseSession()))),
        msgspec.msgpack.encode((3, "/a", "text", -1)),
        msgspec.msgpack.encode((3, "/a", b"", "x")),
    ],
)
def test_an_operation_that_cannot_be_decoded_is_refused(op: bytes) -> None:
    leader, session_id = begun()
    change = leader.prepare_write(session_id, Write(6, 0, op))
    assert change == ErrorTxn(Code.MARSHALLING_ERROR)
    assert leader.preparation.last_number(session_id) == 6


@pytest.mark.parametrize(("claimed", "acked"), [(0, 0), (5, 5), (6, 5), (1 << 63, 5)])
def test_an_outstanding_write_has_no_outcome_yet(claimed: int, acked: int) -> None:
    leader, session_id = begun()
    leader.prepare_write(session_id, Write(6, claimed, raw(SetData("/a", b"", -1))))
    assert decode_txn(leader.log[-1][1]).acked == acked
    leader.apply()


def test_a_gap_in_the_numbers_is_a_bug_of_the_caller() -> None:
    leader, session_id = begun()
    with pytest.raises(AssertionError):
        leader.prepare_write(session_id, Write(8, 0, raw(CloseSession())))


# Sessions.


def connect(
    session_id: int = 0, secret: bytes = password(5), timeout_ms: int = 5_000, attempt: int = 0
) -> Connect:  # fmt: skip
    return Connect(SessionId(session_id), secret, Millis(timeout_ms), Zxid(0), attempt)


def opened(leader: OneLeader, request: Connect) -> CreateSessionTxn | CreateSessionErrorTxn:
    change = leader.prepare_open(request)
    assert isinstance(change, CreateSessionTxn | CreateSessionErrorTxn)
    return change


@pytest.mark.parametrize(
    ("wished", "granted"), [(0, 2_000), (1_999, 2_000), (2_000, 2_000), (60_001, 60_000)]
)
def test_a_new_session_has_its_zxid_for_its_id(wished: int, granted: int) -> None:
    leader = OneLeader(LIMITS)
    change = opened(leader, connect(timeout_ms=wished))
    assert change == CreateSessionTxn(OWN, password(5), Millis(granted), 1, 7)  # type: ignore[arg-type]
    assert leader.preparation.owner_zxid_of(OWN) == zxid_at(1)
    assert leader.preparation.last_number(OWN) == 0
    assert leader.preparation.owner_zxid_of(SessionId(99)) is None
    assert leader.preparation.last_number(SessionId(99)) is None


@pytest.mark.parametrize("applied", [True, False], ids=["tree", "future"])
@pytest.mark.parametrize("session_id", [OWN, 0], ids=["known", "repeated"])
def test_a_session_is_reopened_by_id_or_by_its_password(session_id: int, applied: bool) -> None:
    leader = OneLeader(LIMITS)
    opened(leader, connect())
    if applied:
        leader.apply()
        # A new epoch knows only what is in the state.
        leader.preparation = type(leader.preparation)(leader.state, LIMITS)
    change = opened(leader, connect(session_id, timeout_ms=9_000))
    assert change == CreateSessionTxn(OWN, password(5), Millis(9_000), 1, 7)  # type: ignore[arg-type]
    assert leader.preparation.owner_zxid_of(OWN) == zxid_at(2)
    leader.apply()
    session = leader.state.sessions.get(OWN)
    assert session is not None
    assert session.owner_zxid == zxid_at(2)
    assert len(leader.state.sessions.by_id) == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (connect(99), Code.SESSION_EXPIRED),
        (connect(OWN, password(6)), Code.AUTH_FAILED),
        (connect(OWN, b""), Code.AUTH_FAILED),
        (connect(0, b"short"), Code.AUTH_FAILED),
        (connect(0, b"x" * 17), Code.AUTH_FAILED),
    ],
)
def test_an_invalid_opening_is_refused(request_: Connect, code: Code) -> None:
    leader = OneLeader(LIMITS)
    opened(leader, connect())
    change = opened(leader, request_)
    assert isinstance(change, CreateSessionErrorTxn)
    assert (change.server_id, change.connection, change.code) == (1, 7, code)
    assert leader.preparation.owner_zxid_of(OWN) == zxid_at(1)


@pytest.mark.parametrize("epoch", ["same", "next"])
@pytest.mark.parametrize("session_id", [OWN, 0], ids=["known", "repeated"])
def test_a_session_does_not_go_back_to_an_earlier_connection(session_id: int, epoch: str) -> None:
    leader = OneLeader(LIMITS)
    opened(leader, connect(attempt=2))
    opened(leader, connect(OWN, attempt=5))
    if epoch == "next":
        leader.apply()
        leader.preparation = type(leader.preparation)(leader.state, LIMITS)
    for attempt in (0, 2, 4):
        change = opened(leader, connect(session_id, attempt=attempt))
        assert change == CreateSessionErrorTxn(ServerId(1), 7, Code.SESSION_MOVED)
    assert leader.preparation.owner_zxid_of(OWN) == zxid_at(2)
    for attempt in (5, 6):  # the same one again, forwarded in two epochs; the next one
        change = opened(leader, connect(session_id, attempt=attempt))
        assert isinstance(change, CreateSessionTxn) and change.attempt == attempt
    leader.apply()
    assert leader.state.sessions.by_id[OWN].attempt == 6


@pytest.mark.parametrize("epoch", ["same", "next"])
def test_taking_over_a_session_fences_its_former_client(epoch: str) -> None:
    leader = OneLeader(LIMITS)
    opened(leader, connect(attempt=2))
    other = opened(leader, connect(secret=password(6)))
    assert isinstance(other, CreateSessionTxn)
    taking = Connect(OWN, password(5), Millis(5_000), Zxid(0), 1, password(7))

    def next_epoch() -> None:
        if epoch == "next":
            leader.apply()
            leader.preparation = type(leader.preparation)(leader.state, LIMITS)

    def refusal(request: Connect) -> int:
        change = opened(leader, request)
        assert isinstance(change, CreateSessionErrorTxn)
        return change.code

    next_epoch()
    in_use = msgspec.structs.replace(taking, new_password=password(6))
    assert refusal(in_use) == Code.AUTH_FAILED
    taken = opened(leader, taking)
    assert isinstance(taken, CreateSessionTxn)
    assert (taken.session_id, taken.password, taken.attempt) == (OWN, password(7), 1)
    next_epoch()
    assert refusal(connect(OWN, attempt=3)) == Code.AUTH_FAILED
    # Its answer was lost; then the new client went on, and a third one comes with the old password.
    assert isinstance(opened(leader, taking), CreateSessionTxn)
    later = connect(OWN, password(7), attempt=2)
    assert isinstance(opened(leader, later), CreateSessionTxn)
    next_epoch()
    assert refusal(taking) == Code.SESSION_MOVED
    third = msgspec.structs.replace(taking, new_password=password(8), attempt=9)
    assert refusal(third) == Code.AUTH_FAILED
    leader.apply()
    assert leader.state.sessions.with_password(password(7)) == OWN
    assert leader.state.sessions.with_password(password(5)) is None


def test_sessions_are_bounded_and_a_closed_one_frees_its_place() -> None:
    leader = OneLeader(LIMITS)
    sessions = [leader.open(n) for n in range(LIMITS.sessions_max)]
    refused = opened(leader, connect(0, password(9)))
    assert isinstance(refused, CreateSessionErrorTxn)
    assert (refused.code, refused.sessions_max) == (Code.CONNECTION_LOSS, LIMITS.sessions_max)
    assert isinstance(opened(leader, connect(sessions[0], password(0))), CreateSessionTxn)
    leader.prepare_expiry(sessions[0])
    assert isinstance(opened(leader, connect(0, password(9))), CreateSessionTxn)


ENDS = [
    (lambda leader, session_id: leader.prepare(session_id, CloseSession()), CloseReason.BY_CLIENT),
    (lambda leader, session_id: leader.prepare_expiry(session_id), CloseReason.EXPIRED),
]


@pytest.mark.parametrize(("end", "reason"), ENDS)
def test_the_end_of_a_session_takes_its_ephemerals_with_it(end, reason) -> None:  # type: ignore[no-untyped-def]
    leader, session_id = begun()
    other = leader.open(2)
    leader.prepare(session_id, Create("/a/e", b"", EPHEMERAL))
    leader.prepare(session_id, Create("/f", b"", EPHEMERAL))
    leader.prepare(session_id, Delete("/f", -1))
    leader.prepare(other, Create("/f", b"", EPHEMERAL))
    assert end(leader, session_id) == CloseSessionTxn(session_id, ["/a/e", "/e"], reason)
    # From here on it writes no more, though nothing of it is applied yet.
    assert leader.preparation.last_number(session_id) is None
    assert leader.preparation.owner_zxid_of(session_id) is None
    expired = ErrorTxn(Code.SESSION_EXPIRED, 1, "/x")
    assert leader.prepare(session_id, Create("/x", b"", EPHEMERAL)) == expired
    assert leader.prepare_expiry(session_id) is None
    refused = opened(leader, connect(session_id, password(1)))
    assert isinstance(refused, CreateSessionErrorTxn)
    assert refused.code == Code.SESSION_EXPIRED
    # Its ephemerals are gone for the others too.
    assert leader.prepare(other, Delete("/e", -1)) == ErrorTxn(NO_NODE, 2, "/e")
    assert leader.prepare(other, Delete("/a/c", -1)) == DeleteTxn("/a/c")
    # The same password now opens another session.
    assert isinstance(again := opened(leader, connect(0, password(1))), CreateSessionTxn)
    assert again.session_id != session_id
    leader.apply()
    assert sorted(leader.state.tree.ephemerals) == [other]
    assert leader.state.sessions.get(session_id) is None
    assert leader.state.sessions.with_password(password(1)) == again.session_id
    assert leader.prepare(session_id, Create("/x", b"", 0)) == expired


def test_a_session_is_heard_again_once_the_end_of_its_suspicion_is_applied() -> None:
    leader, seen = OneLeader(), []
    session_id = leader.open()

    def look() -> None:
        is_suspected = leader.preparation.is_suspected(session_id)
        seen.append((is_suspected, leader.preparation.is_heard(session_id)))

    for is_suspected in (True, False):
        look()
        change = leader.prepare_suspect(session_id, is_suspected=is_suspected)
        assert change == SuspectSessionTxn(session_id, is_suspected)
        look()
        leader.apply()
        assert leader.state.sessions.by_id[session_id].is_suspected is is_suspected
        next_leader = PrepRequestProcessor(leader.state, leader.limits)
        assert next_leader.is_suspected(session_id) is is_suspected
        assert next_leader.is_heard(session_id) is not is_suspected
    look()
    assert seen == [(False, True), (True, False), (True, False), (False, False), (False, True)]


def test_the_raise_of_a_level_is_a_transaction_without_a_session() -> None:
    leader, _ = begun(applied=False)
    assert leader.prepare_level(2) == RaiseLevelTxn(FeatureLevel(2))
    assert decode_txn(leader.log[-1][1]).session_id == 0
    assert leader.state.level == 1
    leader.apply()
    assert leader.state.level == 2


def test_a_new_disk_of_a_voter_is_a_transaction_without_a_session() -> None:
    leader, session_id = begun(applied=False)
    before = leader.preparation.outstanding
    assert leader.prepare_voter(2, "d1") == ReplaceVoterTxn(ServerId(2), DiskId("d1"))
    assert leader.preparation.outstanding == before + 1
    txn = decode_txn(leader.log[-1][1])
    assert (txn.session_id, txn.number, txn.acked) == (0, 0, 0)
    # It has its place among the others, also in time.
    leader.wall_ms = Millis(leader.wall_ms - 500)
    leader.prepare_voter(2, "d2")
    assert decode_txn(leader.log[-1][1]).time_ms == txn.time_ms
    leader.prepare(session_id, Create("/after", b"", 0))
    leader.apply()
    assert leader.state.voters == {2: "d2"}
    assert leader.state.tree.get("/after") is not None


def test_outstanding_counts_the_transactions_that_are_not_applied() -> None:
    leader, session_id = begun(applied=False)
    assert leader.preparation.outstanding == 5
    leader.apply(2)
    assert leader.preparation.outstanding == 3
    assert len(leader.preparation._tree) > 0
    leader.apply()
    assert leader.preparation.outstanding == 0
    assert len(leader.preparation._tree) == 0
    leader.preparation.applied(leader.zxid)
    assert leader.preparation.last_number(session_id) == 5
