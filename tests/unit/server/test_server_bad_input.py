"""Any malformed request gets ZooKeeper's error code and has no other effect.

Each operation with each wrong argument is sent raw to a follower of a real leader. Afterwards all
znodes are as they were on both servers, and the same connection does its next write.
"""

from typing import Any

import msgspec
import pytest

from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.ids import DiskId, Millis, ServerId, Zxid
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import PATH_CHARS_MAX
from raykeeper.znodes.quotas import limits_path
from raykeeper.znodes.replies import ErrorReply, MultiReadReply, WriteReply
from raykeeper.znodes.requests import (
    AddAuth,
    AddWatch,
    Check,
    Compare,
    CompareField,
    CountDescendants,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetQuota,
    Multi,
    MultiRead,
    PersistentWatch,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    RemoveWatches,
    Request,
    SessionId,
    SetAcls,
    SetData,
    SetWatches,
    TxnOp,
    WatchKind,
    WatchMode,
    Write,
    WriteOp,
    encode_op,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiTxn,
    OpFailed,
    RaiseLevelTxn,
    ReconfigErrorTxn,
    ReplaceVoterTxn,
    SetAclTxn,
    SetDataTxn,
    SetIdentitiesTxn,
)
from raykeeper.znodes.znode import TTL_MS_MAX
from tests.harness.pure_servers import Caller, PureServers

BAD, MALFORMED = Code.BAD_ARGUMENTS, Code.MARSHALLING_ERROR
NO_NODE, NO_AUTH, BAD_VERSION = Code.NO_NODE, Code.NO_AUTH, Code.BAD_VERSION
LONG = "/" + "x" * PATH_CHARS_MAX
LARGE = bytes((1 << 20) + 1)
WIDE = 1 << 40  # not a 32-bit version

# No znode can have such a path.
BAD_PATHS = ["", "a", "a/b", "//", "//a", "/a/", "/a//b", "/a/.", "/..", "/./a", "/a\0", LONG]
BAD_NAMES = ["", "a", "//", "//a", "/a/", "/a/.", "/..", "/a/x\0", "/\x7f", "/\ue000", LONG]
BAD_ACLS = [
    [],
    [Acl(32, "world", "anyone")],
    [Acl(-1, "world", "anyone")],
    [Acl(1, "world", "")],
    [Acl(1, "nobody", "x")],
    [Acl(1, "digest", "no colon")],
    [Acl(1, "digest", "x:" + "y" * 600)],
    [Acl(1, "ip", "no address")],
    [Acl(1, "auth", "")],  # the session has no identity
    [Acl(1, "ip", f"10.0.0.{n}") for n in range(65)],
]


def plain(path: str, value: bytes = b"", flags: int = 0, **more: Any) -> Create:
    return Create(path, value, flags, **more)


def several(*ops: TxnOp) -> Multi:
    return Multi([], list(ops), [])


def when(path: str, field: CompareField, operand: int | bytes) -> Multi:
    then: list[TxnOp] = [plain("/never")]
    return Multi([Compare(path, field, Relation.EQUAL, operand)], then, list(then))


WRITES: list[tuple[WriteOp, Code]] = [
    *((plain(path), BAD) for path in BAD_NAMES),
    *((plain("/x", flags=flags), BAD) for flags in (-1, 7, 1 << 62, CreateMode.TTL)),
    *((plain("/x", flags=flags, ttl_ms=1), BAD) for flags in range(5)),
    *((plain("/x", flags=5, ttl_ms=ttl), BAD) for ttl in (-1, 0, TTL_MS_MAX + 1, 1 << 62)),
    *((plain("/x", acls=acls), Code.INVALID_ACL) for acls in BAD_ACLS),
    (plain("/x", LARGE), BAD),
    (plain("/none/x"), NO_NODE),
    (plain("/a//b"), NO_NODE),  # ZooKeeper, too, looks for the parent first
    (plain("a/b"), NO_NODE),
    (plain("/"), Code.NODE_EXISTS),
    (plain("/a"), Code.NODE_EXISTS),
    (plain("/zookeeper/quota"), Code.NODE_EXISTS),
    (plain("/e/x"), Code.NO_CHILDREN_FOR_EPHEMERALS),
    (plain("/sealed/x"), NO_AUTH),
    (plain("/zookeeper/config/x"), NO_AUTH),
    (plain("/full/x"), Code.QUOTA_EXCEEDED),
    (plain(limits_path("/a"), b"nonsense"), BAD),
    (plain("/zookeeper/quota/zookeeper_limits", b"count=1"), BAD),
    # Delete.
    # As in ZooKeeper, a path that no znode has is all that is wrong with most of these.
    *((Delete(path, -1), BAD if path in ("", "a", "/a\0") else NO_NODE) for path in BAD_PATHS),
    *((Delete(path, -1), BAD) for path in ("/", "/zookeeper", "/zookeeper/quota")),
    (Delete("/zookeeper/config", -1), BAD),
    (Delete("/none", -1), NO_NODE),
    (Delete("/none/x", -1), NO_NODE),
    (Delete("/a", -1), Code.NOT_EMPTY),
    *((Delete("/a/b", version), BAD_VERSION) for version in (1, -2, WIDE, -WIDE)),
    (Delete("/sealed/in", -1), NO_AUTH),
    # SetData.
    *((SetData(path, b"", -1), BAD) for path in BAD_PATHS),
    *((SetData("/a", b"", version), BAD_VERSION) for version in (1, -2, WIDE, -WIDE)),
    (SetData("/a", LARGE, -1), BAD),
    (SetData("/none", b"", -1), NO_NODE),
    (SetData("/sealed", b"", -1), NO_AUTH),
    (SetData("/zookeeper/config", b"", -1), NO_AUTH),
    (SetData("/full", b"123", -1), Code.QUOTA_EXCEEDED),
    (SetData(limits_path("/full"), b"nonsense", -1), BAD),
    # SetAcls.
    *((SetAcls(path, [Acl(31, "world", "anyone")], -1), BAD) for path in BAD_PATHS),
    *((SetAcls("/a", acls, -1), Code.INVALID_ACL) for acls in BAD_ACLS),
    *((SetAcls("/a", [Acl(1, "ip", "::1")], version), BAD_VERSION) for version in (1, -2, WIDE)),
    (SetAcls("/none", [Acl(1, "ip", "::1")], -1), NO_NODE),
    (SetAcls("/sealed", [Acl(31, "world", "anyone")], -1), NO_AUTH),
    # AddAuth.
    *(
        (AddAuth(*each), Code.AUTH_FAILED)
        for each in (
            *(("digest", b"u" * 200 + b":x"), ("digest", b"u" * 200), ("scrypt", b"u:short")),
            *(("scrypt", b""), ("scrypt", b"no colon"), ("scrypt", b"\xff:" + bytes(32))),
            *(("ip", b"127.0.0.1:1"), ("super", b":"), ("world", b"anyone:"), ("", b":")),
        )
    ),
    # Multis: one for each reason to fail; the first failure counts.
    (several(plain("/x"), plain("/x")), Code.NODE_EXISTS),
    (several(plain("/x"), Delete("/a", -1)), Code.NOT_EMPTY),
    (several(plain("/x"), SetData("/a", b"", 7)), BAD_VERSION),
    (several(plain("/x"), plain("/full/x")), Code.QUOTA_EXCEEDED),
    (several(plain("/x"), Delete("/x", -1), Delete("/x", -1)), NO_NODE),
    *((several(plain("/x"), Check(path, -1)), BAD) for path in BAD_PATHS),
    (several(plain("/x"), Check("/a", 7)), BAD_VERSION),
    (several(plain("/x"), Check("/sealed", -1)), NO_AUTH),
    *((several(plain("/x"), ReadData(path)), BAD) for path in BAD_PATHS),
    *((several(plain("/x"), ReadStat(path)), BAD) for path in BAD_PATHS),
    *((several(plain("/x"), ReadChildren(path)), BAD) for path in BAD_PATHS),
    (several(plain("/x"), ReadData("/sealed")), NO_AUTH),
    (several(plain("/x"), ReadChildren("/none")), NO_NODE),
    (several(*[plain("/x")] * 32_768), BAD),
    (Multi([Compare("/a", *(CompareField.VERSION, Relation.LESS, 1))] * 32_768, [], []), BAD),
    *((when(path, CompareField.EXISTS, 0), BAD) for path in BAD_PATHS),
    (when("/a", CompareField.VALUE, 1), BAD),
    (when("/a", CompareField.VERSION, b"1"), BAD),
    (when("/sealed", CompareField.VERSION, 0), NO_AUTH),
]

# Malformed operations that no client API can produce.
STAT = Stat(*[0] * 11)  # type: ignore[arg-type]
SESSION = SessionId(7)
INTERNAL: list[tuple[Any, Code]] = [
    (ReplaceVoterTxn(ServerId(1), DiskId("other")), Code.UNIMPLEMENTED),
    (RaiseLevelTxn(FeatureLevel(2)), Code.UNIMPLEMENTED),
    (SetIdentitiesTxn(()), Code.UNIMPLEMENTED),
    (SetAclTxn("/a", None, STAT), Code.UNIMPLEMENTED),
    (ErrorTxn(0), Code.UNIMPLEMENTED),
    (ReconfigErrorTxn(0, ""), Code.UNIMPLEMENTED),
    (Check("/a", -1), Code.UNIMPLEMENTED),  # alone, as since ZooKeeper 3.9.3
    (ReadData("/a"), Code.UNIMPLEMENTED),
    (ReadStat("/a"), Code.UNIMPLEMENTED),
    (ReadChildren("/a"), Code.UNIMPLEMENTED),
    # Operations whose tags are also those of requests are malformed requests.
    (DeleteTxn("/a/b"), MALFORMED),
    (MultiErrorTxn(True, 0, 0, 0), MALFORMED),
    (SetDataTxn("/a", b"", STAT), MALFORMED),
    (CreateSessionErrorTxn(ServerId(1), 1, 0), MALFORMED),
    (CloseSessionTxn(SESSION, ["/e"]), MALFORMED),
    (MultiTxn(True, [], []), MALFORMED),
    # A creation whose owner is another session has invalid flags.
    ([1, "/x", b"", 1 << 40], BAD),
]
RAW: list[tuple[bytes, Code]] = [
    *((encode_op(op), code) for op, code in INTERNAL),
    *((msgspec.msgpack.encode([tag]), Code.UNIMPLEMENTED) for tag in (0, 13, 127)),
    *((msgspec.msgpack.encode([tag]), MALFORMED) for tag in (1, 2, 3, 5, 6, 11, 128, -1)),
    *((msgspec.msgpack.encode(value), MALFORMED) for value in (None, 1, "x", b"", {}, [], ["x"])),
    (msgspec.msgpack.encode([1, 5, b"", 0]), MALFORMED),
    (msgspec.msgpack.encode([1, b"/x", b"", 0]), MALFORMED),
    (msgspec.msgpack.encode([1, "/x", "text", 0]), MALFORMED),
    (msgspec.msgpack.encode([1, "/x", b"", "0"]), MALFORMED),
    (msgspec.msgpack.encode([1, "/x", b"", 0, "acls"]), MALFORMED),
    (msgspec.msgpack.encode([1, "/x", b"", 0, [[1, "ip"]]]), MALFORMED),
    (msgspec.msgpack.encode([2, "/a", 1.5]), MALFORMED),
    (msgspec.msgpack.encode([3, "/a", b"", None]), MALFORMED),
    (msgspec.msgpack.encode([5, "/a", None, -1]), MALFORMED),
    (msgspec.msgpack.encode([6, "digest", 1]), MALFORMED),
    (msgspec.msgpack.encode([11, [], [[4]], []]), MALFORMED),  # CloseSession is not allowed in it
    (msgspec.msgpack.encode([11, [], [[11, [], [], []]], []]), MALFORMED),
    (msgspec.msgpack.encode([11, [["/a", 9, 1, 0]], [], []]), MALFORMED),
    (msgspec.msgpack.encode([11, [["/a", 1, 9, 0]], [], []]), MALFORMED),
    (b"", MALFORMED),
    (b"\x91", MALFORMED),
    (b"\xc1", MALFORMED),
    (b"\x94\x01\xa2/\xff\xc4\x00\x00", MALFORMED),  # a path that is not UTF-8
    (b"\x94\x01\xa4/\xed\xa0\x80\xc4\x00\x00", MALFORMED),  # half of a surrogate pair
    (b"\x91" * 100_000, MALFORMED),
    (encode_op(plain("/x")) + b"\x00", MALFORMED),
    (encode_op(plain("/x"))[:-1], MALFORMED),
]


@pytest.fixture(scope="module")
def caller() -> Caller:
    """Return a client of a follower. No test changes anything, so one is enough."""
    servers = PureServers(2)
    caller = servers[1].caller()
    done = caller.ask(
        caller.create("/a", b"1"),
        caller.create("/a/b"),
        caller.create("/alive"),
        caller.create("/e", b"", CreateMode.EPHEMERAL),
        caller.create("/full", b"12"),
        caller.create("/zookeeper/quota/a"),
        caller.create("/zookeeper/quota/full"),
        caller.create(limits_path("/full"), b"countHardLimit=1,byteHardLimit=2"),
        caller.create("/sealed"),
        caller.create("/sealed/in"),
        caller.write(SetAcls("/sealed", [Acl(31, "digest", "somebody:else")], -1)),
    )
    assert [item.code for item in done if isinstance(item, WriteReply)] == [Code.OK] * 11
    return caller


def contents(caller: Caller) -> list[object]:
    """Return everything that a refused write must not change, on both servers, but its outcome."""
    assert caller.host.ensemble is not None
    found: list[object] = []
    for host in caller.host.ensemble.hosts.values():
        state = host.server.state
        identities = [session.identities for session in state.sessions.by_id.values()]
        usage = {path: state.tree.quotas.usage_of(path) for path in state.tree.quotas.limits}
        found.append((state.tree.digest, state.tree.znodes.keys(), dict(state.voters), usage))
        found.append((list(state.sessions.by_id), identities, dict(state.tree.expiring_paths)))
    return msgspec.to_builtins(found, builtin_types=(bytes,), enc_hook=list)  # type: ignore[no-any-return]


def code_of(caller: Caller, op: bytes) -> int:
    caller.number += 1
    (item,) = caller.ask(Write(caller.number, caller.number - 1, op))
    assert isinstance(item, WriteReply), item
    assert (item.path, item.stat) == ("", None)
    return item.code


def check_alive(caller: Caller) -> None:
    items = caller.ask(caller.set("/alive", b"x"), caller.exists("/"))
    assert isinstance(items[0], WriteReply) and items[0].code == Code.OK
    assert len(items) == 2 and caller.ended is None


def check_write(caller: Caller, op: bytes, code: Code) -> None:
    before = contents(caller)
    assert Code(code_of(caller, op)) is code
    assert contents(caller) == before
    check_alive(caller)


def shown(value: object) -> str:
    return ascii(value)[:90]


@pytest.mark.parametrize(("op", "code"), WRITES, ids=[shown(op) for op, _ in WRITES])
def test_a_wrong_write_is_refused_without_effect(caller: Caller, op: WriteOp, code: Code) -> None:
    check_write(caller, encode_op(op), code)


@pytest.mark.parametrize(("op", "code"), RAW, ids=[shown(op) for op, _ in RAW])
def test_an_operation_that_is_not_a_write_is_refused_without_effect(
    caller: Caller, op: bytes, code: Code
) -> None:
    check_write(caller, op, code)


def test_a_write_opens_no_session_and_closes_only_its_own(caller: Caller) -> None:
    """The tag of CreateSessionTxn is that of CloseSession, which closes the client's own."""
    assert caller.host.ensemble is not None
    other = caller.host.ensemble[2].caller(9)
    opened = CreateSessionTxn(caller.session_id, bytes(16), Millis(1), ServerId(1), 1)
    other.ask(Write(1, 0, encode_op(opened)))  # type: ignore[arg-type]
    sessions = caller.host.server.state.sessions.by_id
    assert other.session_id not in sessions and caller.session_id in sessions
    check_alive(caller)


# Reads. They are not replicated, so they must not even use up a zxid.

READS = [GetData, Exists, GetChildren]
ABOUT = [GetAcls, CountDescendants, GetQuota]


def reads(path: str) -> list[Any]:
    return [*(kind(1, path, True) for kind in READS), *(kind(1, path) for kind in ABOUT)]


WRONG_READS = [
    *((request, BAD) for path in BAD_PATHS for request in reads(path)),
    *((request, NO_NODE) for request in reads("/none") if not isinstance(request, Exists)),
    (GetQuota(1, "/a"), NO_NODE),
    *((kind(1, "/sealed", False), NO_AUTH) for kind in READS),
    *((kind(1, "/sealed"), NO_AUTH) for kind in (GetAcls, CountDescendants)),
    *((AddWatch(1, path, mode), BAD) for path in BAD_PATHS for mode in WatchMode),
    *((AddWatch(1, "/a", mode), BAD) for mode in (-1, 2, 1 << 62)),
    *((RemoveWatches(1, path, [WatchKind.ANY]), BAD) for path in BAD_PATHS),
    *((RemoveWatches(1, "/a", [2, kind]), BAD) for kind in (-1, 0, 6, 1 << 62)),
    *(
        (RemoveWatches(1, path, [kind]), Code.NO_WATCHER)
        for path in ("/a", "/none")
        for kind in WatchKind
    ),
]


def digests(caller: Caller) -> list[int]:
    assert caller.host.ensemble is not None
    return [host.server.state.digest() for host in caller.host.ensemble.hosts.values()]


@pytest.mark.parametrize(
    ("request_", "code"), WRONG_READS, ids=[shown(request) for request, _ in WRONG_READS]
)
def test_a_wrong_read_is_refused(caller: Caller, request_: Request, code: Code) -> None:
    before, watches = digests(caller), caller.host.server.stats().watches
    zxid = caller.host.server.state.zxid
    assert caller.ask(request_) == [ErrorReply(1, zxid, code)]
    assert digests(caller) == before and caller.host.server.stats().watches == watches
    check_alive(caller)


@pytest.mark.parametrize("path", BAD_PATHS, ids=shown)
def test_each_of_several_reads_has_its_error(caller: Caller, path: str) -> None:
    before = digests(caller)
    ops = [ReadData(path), ReadStat(path), ReadChildren(path), ReadData("/none")]
    (item,) = caller.ask(MultiRead(1, [*ops, ReadData("/sealed")]))
    assert isinstance(item, MultiReadReply)
    assert item.results == [OpFailed(code) for code in (BAD, BAD, BAD, NO_NODE, NO_AUTH)]
    assert digests(caller) == before
    check_alive(caller)


# Malformed frames cannot be answered, so the link is closed, and the session lives.

FRAMES = [
    *(msgspec.msgpack.encode([2, 1, [[tag, 1, "/a"]]]) for tag in (0, 99, -1, 128)),
    msgspec.msgpack.encode([2, 1, [[1, 1, 0, "no bytes"]]]),
    msgspec.msgpack.encode([2, 1, [[2, "xid", "/a", False]]]),
    msgspec.msgpack.encode([2, 1, [[2, 1, "/a", 1]]]),
    msgspec.msgpack.encode([2, 1, [[2, 1 << 63, None, False]]]),
    msgspec.msgpack.encode([2, 1, [[7, 1, "/a"], [7]]]),
    *(msgspec.msgpack.encode(value) for value in (None, 1, [], [2], [3, 1, []], {"a": 1})),
    *(b"", b"\xc1", b"\x93\x02", b"\x91" * 100_000),
]


@pytest.mark.parametrize("data", FRAMES, ids=shown)
def test_an_invalid_request_ends_only_its_link(data: bytes) -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    caller.ask(caller.create("/e", b"", CreateMode.EPHEMERAL))
    before = digests(caller)
    caller.raw(data)
    assert caller.ended == Code.CONNECTION_LOSS
    assert digests(caller) == before
    again = Caller(servers[2], 5)
    again.take_up(caller)
    assert again.session_id == caller.session_id
    (item,) = again.ask(again.delete("/e"))
    assert isinstance(item, WriteReply) and item.code == Code.OK


def test_an_invalid_set_watches_is_refused() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    caller.ask(caller.create("/a"), caller.create("/alive"))
    before = digests(caller)
    lasting = [PersistentWatch(path, mode) for path in (*BAD_PATHS, "/a") for mode in (0, 1, 2, -1)]
    caller.ask(SetWatches(1, Zxid(0), BAD_PATHS, BAD_PATHS, BAD_PATHS, lasting))
    assert digests(caller) == before
    caller.ask(caller.set("/a", b"1"), caller.create("/a/b"), caller.delete("/a/b"))
    check_alive(caller)
