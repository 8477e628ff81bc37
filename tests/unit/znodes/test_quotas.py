"""Quotas of subtrees: their text, what they refuse, and usage that is always the true one."""

import pytest
from msgspec import structs

from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.errors import Code
from raykeeper.znodes.quotas import (
    SOFT_LIMIT_NOTICE_MS,
    QuotaLimits,
    SoftLimitExceeded,
    format_limits,
    limits_path,
    parse_limits,
    quota_subtree,
    stats_path,
)
from raykeeper.znodes.reads import reply_to_aux_read, reply_to_read
from raykeeper.znodes.replies import (
    ErrorReply,
    ExistsReply,
    GetDataReply,
    GetQuotaReply,
    Item,
    MultiReadReply,
)
from raykeeper.znodes.requests import (
    CloseSession,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetData,
    GetQuota,
    Multi,
    MultiRead,
    ReadData,
    SetAcls,
    SetData,
    TxnOp,
    WriteOp,
)
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.txns import (
    CreateTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiTxn,
    OpValue,
    SetDataTxn,
    TxnBody,
)
from tests.unit.znodes.one_leader import OneLeader

TEXTS = {
    b"": QuotaLimits(),
    b"count=5": QuotaLimits(znodes=5),
    b"count=5,bytes=100": QuotaLimits(5, 100),
    b"bytes=0,count=-1": QuotaLimits(-1, 0),
    b"count=5,bytes=100=;byteHardLimit=200;countHardLimit=9": QuotaLimits(5, 100, 9, 200),
    b"count=,bytes==;countHardLimit=9": QuotaLimits(hard_znodes=9),
}
MALFORMED = [
    *(b"5", b"count", b"count=x", b"count=-2", b"count=5,count=5", b"other=1", b"count=5,"),
    *(b"count=1.5", b"count= 5", b"count=5===", b"=5", b",", b"\xff", b"count=1234567890123456789"),
    "count=٣".encode(),
    # ZooKeeper 3.8.0 takes any value. Of these it makes limits; with `garbage` and most of those
    # above it answers MarshallingError to each change of the subtree.
    *(b"other=1,countHardLimit=3", b"countHardLimit=3,countHardLimit=9", b"countHardLimit=3=more"),
    *(b"countHardLimit=+3", b"countHardLimit=3,", b"countHardLimit=-5", b"garbage"),
]
A = limits_path("/a")


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_a_quota_is_parsed(text: bytes) -> None:
    assert parse_limits(text) == TEXTS[text]
    assert parse_limits(format_limits(TEXTS[text])) == TEXTS[text]


def test_a_quota_is_written_as_zookeeper_writes_it() -> None:
    text = b"count=5,bytes=100=;byteHardLimit=200;countHardLimit=9"
    assert format_limits(QuotaLimits(5, 100, 9, 200)) == text


@pytest.mark.parametrize(
    ("path", "subtree"),
    [
        ("/zookeeper/quota/a/zookeeper_limits", "/a"),
        ("/zookeeper/quota/a/b/zookeeper_limits", "/a/b"),
        ("/zookeeper/quota/zookeeper_limits/zookeeper_limits", "/zookeeper_limits"),
        ("/zookeeper/quota/zookeeper_limits", None),
        ("/zookeeper/quota/zookeeper/zookeeper_limits", None),
        ("/zookeeper/quota/zookeeper/quota/zookeeper_limits", None),
        ("/zookeeper/quota/zookeepers/zookeeper_limits", "/zookeepers"),
        ("/zookeeper/quota/a/zookeeper_stats", None),
        ("/zookeeper/quota/a", None),
        ("/a/zookeeper_limits", None),
    ],
)
def test_a_quota_znode_names_the_subtree_it_limits(path: str, subtree: str | None) -> None:
    assert quota_subtree(path) == subtree
    assert subtree is None or limits_path(subtree) == path


class Limited(OneLeader):
    """A session and the znodes /a and /b, on which quotas are set."""

    def __init__(self) -> None:
        super().__init__()
        self.session_id = self.open()
        for path in ("/a", "/b"):
            self.create(self.session_id, path)

    def limit(self, path: str, **limits: int) -> None:
        """Leave it outstanding: it holds for what is prepared next."""
        at = limits_path(path)
        text = format_limits(QuotaLimits(**limits))
        for cut in (n for n, char in enumerate(at) if char == "/" and n > len("/zookeeper")):
            self.prepare(self.session_id, Create(at[:cut], b"", 0))
        change = self.prepare(self.session_id, Create(at, text, 0))
        if isinstance(change, ErrorTxn) and change.code == Code.NODE_EXISTS:
            change = self.prepare(self.session_id, SetData(at, text, -1))
        assert isinstance(change, CreateTxn | SetDataTxn), change

    def try_(self, op: WriteOp) -> TxnBody:
        return self.prepare(self.session_id, op)

    def code(self, op: WriteOp) -> int:
        change = self.try_(op)
        return change.code if isinstance(change, ErrorTxn | MultiErrorTxn) else Code.OK

    def ask(self, path: str) -> Item:
        session = self.state.sessions.by_id[self.session_id]
        return reply_to_aux_read(self.state, session, GetQuota(1, path))

    def usage(self, path: str) -> tuple[int, int]:
        item = self.ask(path)
        assert isinstance(item, GetQuotaReply), item
        assert (item.znodes, item.bytes) == brute_force(self.state, path)
        return item.znodes, item.bytes


def brute_force(state: State, path: str) -> tuple[int, int]:
    values = [
        znode.value or b""
        for each, znode in state.tree.znodes.items()
        if each == path or each.startswith(path + "/")
    ]
    return len(values), sum(map(len, values))


@pytest.fixture
def leader() -> Limited:
    return Limited()


# Hard limits.


def test_pipelined_creations_do_not_overshoot(leader: Limited) -> None:
    """ZooKeeper 3.8 lets 55 of 300 through with a limit of 5."""
    leader.limit("/a", hard_znodes=5)
    codes = [leader.code(Create("/a/n", b"", CreateMode.SEQUENTIAL)) for _ in range(300)]
    assert codes == [Code.OK] * 4 + [Code.QUOTA_EXCEEDED] * 296  # /a itself counts
    leader.apply()
    assert leader.usage("/a") == (5, 0)


def test_pipelined_values_do_not_overshoot(leader: Limited) -> None:
    leader.limit("/a", hard_bytes=10)
    assert leader.code(Create("/a/x", b"12345678901", 0)) == Code.QUOTA_EXCEEDED
    assert leader.code(Create("/a/x", b"123456", 0)) == Code.OK
    assert leader.code(SetData("/a", b"12345", -1)) == Code.QUOTA_EXCEEDED
    assert leader.code(SetData("/a", b"1234", -1)) == Code.OK
    assert leader.code(SetData("/a/x", b"1234567", -1)) == Code.QUOTA_EXCEEDED
    assert leader.code(SetData("/a/x", b"12345", -1)) == Code.OK
    assert leader.code(SetData("/a", b"12345", -1)) == Code.OK
    assert leader.code(Create("/a/y", b"", 0)) == Code.OK  # names do not count
    leader.apply()
    assert leader.usage("/a") == (3, 10)


def test_a_deletion_frees_its_usage_at_once(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=2)
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    assert leader.code(Create("/a/y", b"", 0)) == Code.QUOTA_EXCEEDED
    assert leader.code(Delete("/a/x", -1)) == Code.OK
    assert leader.code(Create("/a/y", b"", 0)) == Code.OK


def test_the_end_of_a_session_frees_its_usage(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=2)
    other = leader.open(2)
    assert isinstance(leader.prepare(other, Create("/a/e", b"", CreateMode.EPHEMERAL)), CreateTxn)
    assert leader.code(Create("/a/y", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.prepare(other, CloseSession())
    assert leader.code(Create("/a/y", b"", 0)) == Code.OK


def test_every_quota_above_counts(leader: Limited) -> None:
    """In ZooKeeper only the nearest one does."""
    leader.limit("/a", hard_znodes=3)
    leader.limit("/a/b", hard_znodes=100)
    codes = [leader.code(Create(path, b"", 0)) for path in ("/a/b", "/a/b/1", "/a/b/2")]
    assert codes == [Code.OK, Code.OK, Code.QUOTA_EXCEEDED]
    assert leader.code(Create("/b/1", b"", 0)) == Code.OK


def test_a_znode_that_begins_alike_is_not_counted(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=1)
    assert leader.code(Create("/ab", b"", 0)) == Code.OK


def test_a_quota_may_precede_its_subtree(leader: Limited) -> None:
    leader.limit("/c", hard_znodes=1)
    leader.apply()
    assert leader.usage("/c") == (0, 0)
    assert leader.code(Create("/c", b"", 0)) == Code.OK
    assert leader.code(Create("/c/x", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.apply()
    assert leader.usage("/c") == (1, 0)


def test_a_subtree_above_its_quota_may_only_shrink(leader: Limited) -> None:
    for name in "xyz":
        leader.create(leader.session_id, f"/a/{name}", b"123")
    leader.limit("/a", hard_znodes=2, hard_bytes=1)
    assert leader.code(Create("/a/w", b"", 0)) == Code.QUOTA_EXCEEDED
    assert leader.code(SetData("/a/x", b"1234", -1)) == Code.QUOTA_EXCEEDED
    assert leader.code(SetData("/a/x", b"12", -1)) == Code.OK
    assert leader.code(SetData("/a/x", b"ab", -1)) == Code.OK
    assert leader.code(Delete("/a/y", -1)) == Code.OK


def test_outstanding_znodes_count_when_a_quota_is_set(leader: Limited) -> None:
    leader.create(leader.session_id, "/a/old", b"old")
    leader.create(leader.session_id, "/a/gone", b"gone")
    leader.prepare(leader.session_id, Create("/a/x", b"12", 0))
    leader.prepare(leader.session_id, Create("/a/brief", b"12", 0))
    leader.prepare(leader.session_id, Delete("/a/brief", -1))
    leader.prepare(leader.session_id, Delete("/a/gone", -1))
    leader.prepare(leader.session_id, SetData("/a/old", b"longer", -1))
    leader.limit("/a", hard_znodes=4, hard_bytes=9)
    assert leader.code(Create("/a/y", b"ab", 0)) == Code.QUOTA_EXCEEDED
    assert leader.code(Create("/a/y", b"a", 0)) == Code.OK
    assert leader.code(Create("/a/z", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.apply()
    assert leader.usage("/a") == (4, 9)


def test_limits_change_and_end_with_their_znode(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=1)
    assert leader.code(Create("/a/x", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.limit("/a", hard_znodes=2)
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    assert leader.code(Create("/a/y", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.try_(Delete(A, -1))
    assert leader.code(Create("/a/y", b"", 0)) == Code.OK
    leader.limit("/a", hard_znodes=4)
    assert leader.code(Create("/a/z", b"", 0)) == Code.OK
    assert leader.code(Create("/a/w", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.apply()
    assert leader.usage("/a") == (4, 0)


def test_the_order_of_the_checks(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=1, hard_bytes=0)
    assert leader.code(Create("/a", b"", 0)) == Code.NODE_EXISTS
    assert leader.code(SetData("/a", b"1", 7)) == Code.QUOTA_EXCEEDED
    assert leader.code(SetData("/a", b"", 7)) == Code.BAD_VERSION


# Transactions.


def several(*ops: TxnOp) -> Multi:
    return Multi([], list(ops), [])


def test_creations_of_one_transaction_count_together(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=3)
    three = several(*(Create(f"/a/{name}", b"", 0) for name in "xyz"))
    change = leader.try_(three)
    assert isinstance(change, MultiErrorTxn)
    assert (change.code, change.failed) == (Code.QUOTA_EXCEEDED, 2)
    swap = several(*three.then[:2], Delete("/a/x", -1), three.then[2])
    assert isinstance(leader.try_(swap), MultiTxn)
    assert leader.code(Create("/a/w", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.apply()
    assert leader.usage("/a") == (3, 0)


def test_an_aborted_transaction_uses_nothing(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=3, znodes=1)
    for _ in range(3):
        aborted = leader.try_(several(Create("/a/x", b"", 0), Delete("/none", -1)))
        assert isinstance(aborted, MultiErrorTxn)
    assert leader.preparation.soft_quotas_exceeded() == []
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    assert leader.code(Create("/a/y", b"", 0)) == Code.OK
    assert leader.code(Create("/a/z", b"", 0)) == Code.QUOTA_EXCEEDED
    assert len(leader.preparation.soft_quotas_exceeded()) == 1


def test_an_aborted_transaction_leaves_the_limits(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=2)
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    text = format_limits(QuotaLimits(hard_znodes=9))
    for change in (
        (SetData(A, text, -1),),
        (Delete(A, -1),),
        (Delete(A, -1), Create(A, text, 0), Create("/a/y", b"", 0)),
    ):
        assert isinstance(leader.try_(several(*change, Delete("/none", -1))), MultiErrorTxn)
        assert leader.code(Create("/a/y", b"", 0)) == Code.QUOTA_EXCEEDED
    made = (Create(limits_path("/b"), text, 0), Create("/zookeeper/quota/b", b"", 0))
    assert isinstance(
        leader.try_(several(made[1], made[0], Create("/b/x", b"", 0), Delete("/none", -1))),
        MultiErrorTxn,
    )
    assert isinstance(leader.try_(several(made[1], made[0], Create("/b/x", b"", 0))), MultiTxn)
    leader.apply()
    assert leader.usage("/b") == (2, 0)


def test_an_aborted_transaction_has_not_counted_for_the_next_quota(leader: Limited) -> None:
    assert leader.code(Create("/zookeeper/quota/a", b"", 0)) == Code.OK
    made = Create(A, format_limits(QuotaLimits(hard_znodes=2)), 0)
    aborted = several(made, Create("/a/x", b"", 0), Delete("/none", -1))
    assert isinstance(leader.try_(aborted), MultiErrorTxn)
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    assert leader.code(made) == Code.OK
    assert leader.code(Create("/a/y", b"", 0)) == Code.QUOTA_EXCEEDED


@pytest.mark.parametrize("last", [Delete("/none", -1), Create("/a/y", b"", 0)])
def test_a_trace_event_is_dropped_with_its_quota(leader: Limited, last: TxnOp) -> None:
    leader.limit("/a", znodes=1)
    change = leader.try_(several(Create("/a/x", b"", 0), Delete(A, -1), last))
    is_done = isinstance(change, MultiTxn)
    assert leader.preparation.soft_quotas_exceeded() == [SoftLimitExceeded("/a", 2, 0)] * is_done
    leader.limit("/a", znodes=1)
    assert leader.code(Create("/a/z", b"", 0)) == Code.OK
    assert len(leader.preparation.soft_quotas_exceeded()) == 1


# Malformed quotas.


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_refused(leader: Limited, text: bytes) -> None:
    assert parse_limits(text) is None
    leader.try_(Create("/zookeeper/quota/a", b"", 0))
    assert leader.code(Create(A, text, 0)) == Code.BAD_ARGUMENTS
    leader.limit("/a", hard_znodes=1)
    assert leader.code(SetData(A, text, -1)) == Code.BAD_ARGUMENTS
    assert leader.code(Create("/a/x", b"", 0)) == Code.QUOTA_EXCEEDED


def test_the_root_and_the_zookeeper_subtree_have_no_quota(leader: Limited) -> None:
    assert leader.code(Create("/zookeeper/quota/zookeeper_limits", b"", 0)) == Code.BAD_ARGUMENTS
    assert leader.code(Create("/zookeeper/quota/zookeeper", b"", 0)) == Code.OK
    path = limits_path("/zookeeper")
    assert leader.code(Create(path, b"count=1", 0)) == Code.BAD_ARGUMENTS


@pytest.mark.parametrize("stats", [b"garbage", b"", b"count=-50,bytes=-50", b"count=100,bytes=0"])
def test_other_znodes_below_zookeeper_quota_hold_any_value(leader: Limited, stats: bytes) -> None:
    """In ZooKeeper 3.8.0 numbers there change what is refused; after `garbage` the next creation or
    deletion in the subtree ends the server, and whatever replays its log.
    """
    leader.limit("/a", hard_znodes=3)
    path = "/zookeeper/quota/a/zookeeper_stats"
    assert leader.code(Create(path, b"count=1,bytes=0", 0)) == Code.OK
    assert leader.code(SetData(path, stats, -1)) == Code.OK
    assert leader.code(SetData("/zookeeper/quota/a", stats, -1)) == Code.OK
    codes = [leader.code(Create(f"/a/{name}", b"", 0)) for name in "xyz"]
    assert codes == [Code.OK, Code.OK, Code.QUOTA_EXCEEDED]
    assert leader.code(Delete("/a/x", -1)) == Code.OK
    leader.apply()
    assert leader.usage("/a") == (2, 0)
    assert leader.state.tree.znodes[path].value == stats


def test_a_quota_is_kept_in_an_ordinary_znode(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=2)
    for child in (
        f"{A}/child",
        f"{A}/zookeeper_limits",
    ):  # the second one limits /a/zookeeper_limits
        assert leader.code(Create(child, b"count=1", 0)) == Code.OK
        assert leader.code(Delete(A, -1)) == Code.NOT_EMPTY
        assert leader.code(Delete("/zookeeper/quota/a", -1)) == Code.NOT_EMPTY
        assert leader.code(Delete(child, -1)) == Code.OK
    assert leader.code(Create(A, b"", CreateMode.SEQUENTIAL)) == Code.OK
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    assert leader.code(Create("/a/y", b"", 0)) == Code.QUOTA_EXCEEDED


def test_a_quota_ends_with_the_session_that_made_it(leader: Limited) -> None:
    other = leader.open(2)
    assert leader.code(Create("/zookeeper/quota/a", b"", 0)) == Code.OK
    ephemeral = Create(A, b"countHardLimit=1", CreateMode.EPHEMERAL)
    assert isinstance(leader.prepare(other, ephemeral), CreateTxn)
    assert leader.code(Create("/a/x", b"", 0)) == Code.QUOTA_EXCEEDED
    leader.prepare(other, CloseSession())
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    leader.apply()
    assert leader.ask("/a") == ErrorReply(1, leader.state.zxid, Code.NO_NODE)


# Soft limits.


def test_soft_limits_are_noted_once_a_minute(leader: Limited) -> None:
    leader.limit("/a", znodes=1, bytes=2)
    leader.limit("/b", bytes=0)
    take = leader.preparation.soft_quotas_exceeded
    assert leader.code(SetData("/a", b"12", -1)) == Code.OK
    assert take() == []
    assert leader.code(Create("/a/x", b"", 0)) == Code.OK
    assert leader.code(SetData("/a", b"123", -1)) == Code.OK
    assert leader.code(SetData("/b", b"1", -1)) == Code.OK
    assert take() == [SoftLimitExceeded("/a", 2, 2), SoftLimitExceeded("/b", 1, 1)]
    leader.wall_ms = Millis(leader.wall_ms + SOFT_LIMIT_NOTICE_MS)
    assert leader.code(SetData("/a", b"1", -1)) == Code.OK  # shrinks
    assert take() == []
    assert leader.code(SetData("/a", b"1234", -1)) == Code.OK
    assert take() == [SoftLimitExceeded("/a", 2, 4)]


# Aux reads.


def test_aux_reads_report_quotas_and_usage(leader: Limited) -> None:
    leader.limit("/a", znodes=3, hard_bytes=7)
    leader.try_(Create("/a/x", b"12", 0))
    leader.apply()
    limits = QuotaLimits(znodes=3, hard_bytes=7)
    assert leader.ask("/a") == GetQuotaReply(1, leader.state.zxid, limits, 2, 2)
    leader.try_(Create("/a/x/y", b"3", 0))
    leader.try_(Create("/b/x", b"45", 0))
    leader.apply()
    assert leader.usage("/a") == (3, 3), "counted once, and kept from then on"
    assert leader.ask("/b") == ErrorReply(1, leader.state.zxid, Code.NO_NODE)
    assert leader.ask("b") == ErrorReply(1, leader.state.zxid, Code.BAD_ARGUMENTS)
    hidden = [Acl(31, "digest", "somebody:x")]
    assert leader.code(SetAcls(A, hidden, -1)) == Code.OK
    leader.apply()
    assert leader.ask("/a") == ErrorReply(1, leader.state.zxid, Code.NO_AUTH)
    leader.try_(Delete(A, -1))
    leader.apply()
    assert leader.ask("/a") == ErrorReply(1, leader.state.zxid, Code.NO_NODE)


def test_the_statistics_show_the_usage_as_long_as_there_are_limits(leader: Limited) -> None:
    stats = stats_path("/a")
    leader.limit("/a", hard_znodes=9)
    leader.try_(Create(stats, b"count=0,bytes=0", 0))
    leader.try_(Create("/a/x", b"123", 0))
    leader.apply()

    def shown() -> bytes | None:
        state = leader.state
        read = reply_to_read(state, (), GetData(1, stats, False))
        found = reply_to_read(state, (), Exists(1, stats, False))
        several = reply_to_aux_read(
            state, state.sessions.by_id[leader.session_id], MultiRead(1, [ReadData(stats)])
        )
        assert isinstance(read, GetDataReply) and isinstance(found, ExistsReply)
        assert isinstance(several, MultiReadReply)
        assert several.results == [OpValue(read.value, read.stat)]
        assert found.stat == read.stat and read.stat.data_length == len(read.value or b"")
        return read.value

    digest = leader.state.digest()
    assert shown() == b"count=2,bytes=3"
    assert leader.state.digest() == digest, "it is shown and not written"
    leader.try_(Create("/a/y", b"45", 0))
    leader.try_(SetData(stats, b"anything", -1))
    leader.apply()
    assert shown() == b"count=3,bytes=5"
    leader.try_(Delete(A, -1))
    leader.apply()
    assert shown() == b"anything", "there is no quota any more"
    assert leader.state.tree.quotas.stats == {}


def test_a_snapshot_brings_its_quotas(leader: Limited) -> None:
    leader.limit("/a", hard_znodes=3)
    leader.apply()
    before, after = leader.state.tree, Tree()
    after.add_all(
        (path, structs.replace(znode, digest_hash=0, children=None))
        for path, znode in before.znodes.items()
    )
    assert after.quotas.limits == before.quotas.limits == {"/a": QuotaLimits(hard_znodes=3)}
