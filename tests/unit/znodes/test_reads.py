"""Reads: the answer to each, and the watch each sets."""

import pytest

from raykeeper.znodes.acl import Acl, Identity
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import RESULTS_BYTES_MAX
from raykeeper.znodes.reads import (
    NAME_BYTES,
    readable_stat,
    reply_to_aux_read,
    reply_to_read,
    set_watch_of_read,
)
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    ErrorReply,
    EventType,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    Item,
    MultiReadReply,
    WhoAmIReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    AuxRead,
    CountDescendants,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    MultiRead,
    Read,
    ReadChildren,
    ReadData,
    ReadStat,
    SetData,
    WhoAmI,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import OpChildren, OpFailed, OpStat, OpValue
from raykeeper.znodes.watches import WatchTable
from raykeeper.znodes.znode import CONTAINER, stat_of
from tests.unit.znodes.one_leader import OneLeader

XID, CONNECTION = 5, 9


def leader_with_znodes() -> OneLeader:
    leader = OneLeader()
    session = leader.open()
    for path in ("/a", "/a/b", "/a/c"):
        leader.create(session, path, path.encode())
    return leader


LEADER = leader_with_znodes()
STATE = LEADER.state
ZXID = LEADER.zxid


def stat(path: str) -> Stat:
    znode = STATE.tree.get(path)
    assert znode is not None
    return stat_of(znode)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (GetData(XID, "/a", False), GetDataReply(XID, ZXID, b"/a", stat("/a"))),
        (Exists(XID, "/a", False), ExistsReply(XID, ZXID, stat("/a"))),
        (GetChildren(XID, "/a", False), GetChildrenReply(XID, ZXID, ["b", "c"], stat("/a"))),
        (GetChildren(XID, "/", False), GetChildrenReply(XID, ZXID, ["zookeeper", "a"], stat("/"))),
        (GetChildren(XID, "/a/b", False), GetChildrenReply(XID, ZXID, [], stat("/a/b"))),
        # Missing is an answer to exists, an error to the others.
        (Exists(XID, "/x", False), ExistsReply(XID, ZXID, None)),
        (GetData(XID, "/x", False), ErrorReply(XID, ZXID, Code.NO_NODE)),
        (GetChildren(XID, "/x", False), ErrorReply(XID, ZXID, Code.NO_NODE)),
        # A malformed path is neither there nor missing.
        (Exists(XID, "x", True), ErrorReply(XID, ZXID, Code.BAD_ARGUMENTS)),
        (GetData(XID, "/a/", True), ErrorReply(XID, ZXID, Code.BAD_ARGUMENTS)),
        (GetChildren(XID, "", True), ErrorReply(XID, ZXID, Code.BAD_ARGUMENTS)),
    ],
)
def test_each_read_has_its_reply(request_: Read, expected: Item) -> None:
    assert reply_to_read(STATE, (), request_) == expected


def test_the_stat_of_a_read_is_shown_to_those_who_may_read() -> None:
    leader = leader_with_znodes()
    session = leader.open()
    leader.do(session, Create("/mine", b"", 0, [Acl(31, "digest", "ann:secret")]))
    stats = "/zookeeper/quota/a/zookeeper_stats"
    leader.create(session, "/zookeeper/quota/a")
    leader.create(session, "/zookeeper/quota/a/zookeeper_limits", b"count=9,bytes=-1")
    leader.create(session, stats)
    ann = (Identity("digest", "ann:secret"),)
    assert readable_stat(leader.state, (), "/mine") is None
    assert readable_stat(leader.state, (), "/x") is None
    for identities, path in (((), "/a"), (ann, "/mine"), ((), stats)):
        answer = reply_to_read(leader.state, identities, Exists(XID, path, False))
        assert isinstance(answer, ExistsReply) and answer.stat is not None
        assert readable_stat(leader.state, identities, path) == answer.stat
    assert stats in leader.state.tree.usage_paths


CREATE, SET = (
    (Create("/x", b"", 0), EventType.CREATED),
    (SetData("/a/b", b"", -1), EventType.CHANGED),
)
DELETE = (Delete("/a/b", -1), EventType.DELETED)
CHILD = (Create("/a/b/new", b"", 0), EventType.CHILD)


@pytest.mark.parametrize(
    ("request_", "fires", "silent"),
    [
        (GetData(XID, "/a/b", True), [SET, DELETE], [CHILD]),
        (Exists(XID, "/a/b", True), [SET, DELETE], [CHILD]),
        (GetChildren(XID, "/a/b", True), [CHILD, DELETE], [SET]),
        (Exists(XID, "/x", True), [CREATE], []),
        (GetData(XID, "/x", True), [], [CREATE]),
        (GetChildren(XID, "/x", True), [], [CREATE]),
        (Exists(XID, "x", True), [], [CREATE]),
    ],
)
def test_each_read_sets_its_watch(
    request_: Read,
    fires: list[tuple[Create | Delete | SetData, EventType]],
    silent: list[tuple[Create | Delete | SetData, EventType]],
) -> None:
    for op, kind in fires + silent:
        leader, watches = leader_with_znodes(), WatchTable()
        set_watch_of_read(watches, CONNECTION, request_, reply_to_read(leader.state, (), request_))
        leader.do(leader.open(2), op)
        fired = watches.trigger(leader.changes[-1], lambda _: (), {})
        kinds = [event.kind for _, event in fired]
        assert kinds == ([kind] if (op, kind) in fires else [])


class TestAuxReads:
    """What is asked now and then."""

    def ask(self, request: AuxRead) -> Item:
        leader = OneLeader()
        session = leader.open(1, "10.0.0.1")
        other = leader.open(2)
        leader.create(session, "/a", b"v")
        for path in ("/a/e", "/e"):
            leader.create(session, path, b"", CreateMode.EPHEMERAL)
        leader.create(other, "/a/f", b"", CreateMode.EPHEMERAL)
        self.state = leader.state
        return reply_to_aux_read(leader.state, leader.state.sessions.by_id[session], request)

    def test_ephemerals_lists_the_clients_own(self) -> None:
        for prefix, paths in (("/", ["/a/e", "/e"]), ("/a", ["/a/e"]), ("/x", [])):
            item = self.ask(GetEphemerals(1, prefix))
            assert item == GetEphemeralsReply(1, self.state.zxid, paths)

    @pytest.mark.parametrize(
        ("path", "count"), [("/", 7), ("/a", 2), ("/a/e", 0), ("/zookeeper", 2)]
    )
    def test_descendants_are_counted(self, path: str, count: int) -> None:
        assert self.ask(CountDescendants(1, path)) == CountDescendantsReply(
            1, self.state.zxid, count
        )

    @pytest.mark.parametrize(("path", "code"), [("/none", Code.NO_NODE), ("a", Code.BAD_ARGUMENTS)])
    def test_a_missing_znode_is_an_error(self, path: str, code: Code) -> None:
        for request in (CountDescendants(1, path), GetAcls(1, path)):
            assert self.ask(request) == ErrorReply(1, self.state.zxid, code)

    def test_the_identities_are_listed(self) -> None:
        identities = (Identity("ip", "10.0.0.1"),)
        assert self.ask(WhoAmI(1)) == WhoAmIReply(1, self.state.zxid, identities)

    def test_each_of_several_reads_has_its_own_outcome(self) -> None:
        ops = [ReadData("/a"), ReadStat("/a"), ReadStat("/x"), ReadData("/x"), ReadData("x")]
        item = self.ask(MultiRead(1, [*ops, ReadChildren("/a"), ReadData("/zookeeper/config")]))
        assert isinstance(item, MultiReadReply)
        assert [type(result) for result in item.results] == [
            *(OpValue, OpStat, OpStat, OpFailed, OpFailed, OpChildren, OpValue)
        ]

    def test_among_several_reads_those_that_do_not_fit_fail(self) -> None:
        leader = OneLeader()
        session = leader.open()
        leader.create(session, "/big", bytes(RESULTS_BYTES_MAX // 4))
        leader.create(session, "/a", b"1")
        ops = [*[ReadData("/big")] * 5, ReadData("/a"), ReadData("/none")]
        item = reply_to_aux_read(
            leader.state, leader.state.sessions.by_id[session], MultiRead(1, ops)
        )
        assert isinstance(item, MultiReadReply)
        assert [type(result) for result in item.results[:4]] == [OpValue] * 4
        assert item.results[4:] == [OpFailed(Code.THROTTLED_OP)] * 3

    def test_a_name_in_several_reads_counts_more_than_its_characters(self) -> None:
        leader = OneLeader()
        session = leader.open()
        leader.create(session, "/p", b"")
        for number in range(100):
            leader.create(session, f"/p/{chr(0x100 + number)}", b"")
        each = 100 * (1 + NAME_BYTES)
        fit = RESULTS_BYTES_MAX // each
        item = reply_to_aux_read(
            leader.state,
            leader.state.sessions.by_id[session],
            MultiRead(1, [ReadChildren("/p")] * (fit + 1)),
        )
        assert isinstance(item, MultiReadReply)
        assert {type(result) for result in item.results[:fit]} == {OpChildren}
        assert item.results[fit:] == [OpFailed(Code.THROTTLED_OP)]

    def test_a_read_without_permission_fails(self) -> None:
        leader = OneLeader()
        session, other = leader.open(1), leader.open(2)
        leader.do(session, AddAuth("digest", b"ann:pw"))
        leader.do(session, Create("/a", b"", 0, [Acl(31, "auth", "")]))
        state = leader.state
        other_session = state.sessions.by_id[other]
        for request in (CountDescendants(1, "/a"), GetAcls(1, "/a")):
            assert reply_to_aux_read(state, other_session, request) == ErrorReply(
                1, state.zxid, Code.NO_AUTH
            )
        item = reply_to_aux_read(state, other_session, MultiRead(1, [ReadStat("/a")]))
        assert item == MultiReadReply(1, state.zxid, [OpFailed(Code.NO_AUTH)])


def test_the_read_of_an_acl_tells_the_kind_of_the_znode() -> None:
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/plain")
    for path, flags, ttl_ms in (("/box", CreateMode.CONTAINER, 0), ("/ttl", CreateMode.TTL, 1500)):
        leader.do(session, Create(path, b"", flags, None, ttl_ms))
    kinds = {}
    for path in ("/plain", "/box", "/ttl"):
        item = reply_to_aux_read(
            leader.state, leader.state.sessions.by_id[session], GetAcls(1, path)
        )
        assert isinstance(item, GetAclsReply)
        kinds[path] = item.ttl_ms
    assert kinds == {"/plain": 0, "/box": CONTAINER, "/ttl": 1500}
