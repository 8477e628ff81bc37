"""Checks of ACLs, expiring znodes, quotas and auxiliary reads: errors name the promise."""

from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.client.core.outstanding import NewRequest, Query
from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.znodes.acl import Acl, Identity, digest_id
from raykeeper.znodes.errors import Code, NoAuthError, NoNodeError
from raykeeper.znodes.quotas import QuotaLimits, format_limits
from raykeeper.znodes.replies import (
    AuxReply,
    CountDescendantsReply,
    GetAclsReply,
    GetDataReply,
    GetEphemeralsReply,
    GetQuotaReply,
    MultiReadReply,
    WhoAmIReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    CountDescendants,
    Create,
    CreateMode,
    Delete,
    GetAcls,
    GetData,
    GetEphemerals,
    GetQuota,
    MultiRead,
    ReadChildren,
    ReadData,
    SessionId,
    SetAcls,
    SetData,
    WhoAmI,
    WriteOp,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    OpChildren,
    OpFailed,
    OpValue,
    Txn,
)
from tests.simulation.checks import acls, answers, aux_reads, execution, expiring_znodes, quotas
from tests.simulation.checks.session_view import PendingRequest, SessionView
from tests.simulation.checks.test_clients import OTHER, SESSION, Client, Core, client, opened, z
from tests.simulation.checks.truth import Truth
from tests.simulation.requests.acls import ALICE, SUPER

ALL_OF_ALICE = [Acl(31, "digest", ALICE)]
SECRET = Create("/a", b"0", 0, ALL_OF_ALICE)
PROOF = AddAuth("digest", b"alice:a")


def act(truth: Truth, zxid: Zxid, session_id: SessionId, op: WriteOp, time_ms: int = 0) -> Any:
    """Return what `op` becomes, and apply it to the truth."""
    change = execution.execute(truth, zxid, Millis(time_ms), session_id, op)
    truth.apply(zxid, Txn(session_id, 1, 0, Millis(time_ms), change))
    return change


def world(*ops: WriteOp, by: SessionId = SESSION) -> Truth:
    """Return the truth with two sessions, and the writes of one from 1:3 on."""
    truth = Truth()
    truth.apply(z(1), opened(SESSION))
    truth.apply(z(2), opened(OTHER, b"o" * 16))
    for counter, op in enumerate(ops, 3):
        act(truth, z(counter), by, op)
    return truth


@pytest.mark.parametrize(
    ("before", "op", "code"),
    [
        ([SECRET], SetData("/a", b"1", -1), Code.NO_AUTH),
        ([SECRET], SetAcls("/a", [Acl(31, *("world", "anyone"))], -1), Code.NO_AUTH),
        ([SECRET], Create("/a/x", b"", 0), Code.NO_AUTH),
        ([SECRET, PROOF, Create("/a/x", b"", 0)], Delete("/a/x", -1), Code.OK),
        ([SECRET, PROOF], SetData("/a", b"1", -1), Code.OK),
        ([SECRET, AddAuth("digest", SUPER)], SetData("/a", b"1", -1), Code.OK),
        ([SECRET, AddAuth("digest", b"alice:b")], SetData("/a", b"1", -1), Code.NO_AUTH),
        ([], Create("/b", b"", 0, [Acl(31, "auth", "")]), Code.INVALID_ACL),
        ([PROOF], Create("/b", b"", 0, [Acl(31, "auth", "")]), Code.OK),
        ([], Create("/b", b"", 0, []), Code.INVALID_ACL),
        ([], AddAuth("scrypt", b"nobody"), Code.AUTH_FAILED),
        ([], AddAuth("digest", b"nobody"), Code.OK),
        ([SECRET, PROOF], SetAcls("/a", ALL_OF_ALICE, 1), Code.BAD_VERSION),
        ([SECRET, PROOF], SetAcls("/a", ALL_OF_ALICE, 0), Code.OK),
    ],
)
def test_acls_decide_about_writes(before: list[WriteOp], op: WriteOp, code: Code) -> None:
    truth = world(*before)
    change = act(truth, z(20), SESSION, op)
    assert getattr(change, "code", 0) == code


def test_acls_are_stored_and_shown_as_zookeeper_does() -> None:
    truth = world(PROOF, AddAuth("scrypt", b"carol:" + bytes(32)))
    who = truth.known_as(SESSION, z(9))
    assert [each.scheme for each in who] == ["digest", "scrypt"]
    kept = acls.as_kept([Acl(1, "auth", ""), Acl(1, "digest", ALICE)], who)
    assert isinstance(kept, tuple) and len(kept) == 2
    assert acls.as_shown(kept, who)[0].id == "alice:x"  # without ADMIN
    owned = acls.as_kept(ALL_OF_ALICE, who)
    assert isinstance(owned, tuple) and acls.as_shown(owned, who) == owned
    assert acls.as_shown(None, ()) == (acls.EVERYBODY,)
    assert acls.as_kept([acls.EVERYBODY], ()) is None
    assert who[0] == Identity("digest", digest_id("alice", "a"))


def stat(truth: Truth, path: str, counter: int = 9) -> Stat:
    was = truth.at(path, z(counter))
    assert was is not None
    return was.stat


def reads(truth: Truth, *, seen: SessionView) -> None:
    query = Query(GetData, "/a")
    answers.reads_are_true(truth, seen, query, GetDataReply(1, z(4), b"0", stat(truth, "/a")))


def test_reads_of_protected_znodes_are_checked() -> None:
    reads(world(PROOF, SECRET), seen=client())
    with pytest.raises(AssertionError, match=r"^Access: "):
        reads(world(SECRET, Create("/b", b"", 0)), seen=client())
    truth = world(SECRET, PROOF)  # it may read from 1:4 on
    asked = PendingRequest(Query(GetData, "/a"), 0, z(1))
    answers.missing_is_true(truth, client(zxid=z(3)), asked, NoAuthError("/a"))
    for broken in (client(zxid=z(4)), client(zxid=z(3))):
        error = NoAuthError("/a") if broken.zxid == z(4) else NoNodeError("/a")
        with pytest.raises(AssertionError, match=r"^Truth: "):
            answers.missing_is_true(truth, broken, asked, error)
    strong = PendingRequest(Query(GetData, "/a", linearizable=True), 0, z(4))
    with pytest.raises(AssertionError, match=r"^Truth: "):
        answers.missing_is_true(truth, client(zxid=z(3)), strong, NoAuthError("/a"))


# Auxiliary reads: /a of alice with a child, /e an ephemeral.

FULL = world(
    PROOF, Create("/a", b"0", 0), Create("/a/x", b"1", 0), Create("/e", b"", 1),
    SetAcls("/a", ALL_OF_ALICE, -1),
)  # fmt: skip
MASKED = (Acl(31, "digest", "alice:x"),)
READS = MultiRead(0, [ReadData("/a/x"), ReadChildren("/a"), ReadData("/none")])
VALUE, NAMES = OpValue(b"1", stat(FULL, "/a/x")), OpChildren(["x"], stat(FULL, "/a"))

RIGHT: list[tuple[NewRequest, AuxReply]] = [
    (GetAcls(0, "/a"), GetAclsReply(1, z(7), tuple(ALL_OF_ALICE), stat(FULL, "/a"))),
    (WhoAmI(0), WhoAmIReply(1, z(7), (Identity("digest", ALICE),))),
    (GetEphemerals(0, "/"), GetEphemeralsReply(1, z(7), ["/e"])),
    (GetEphemerals(0, "/a"), GetEphemeralsReply(1, z(7), [])),
    (CountDescendants(0, "/"), CountDescendantsReply(1, z(7), 6)),
    (CountDescendants(0, "/a"), CountDescendantsReply(1, z(7), 1)),
    *((CountDescendants(0, "/"), CountDescendantsReply(1, z(4), n, z(7))) for n in (5, 6)),
    (READS, MultiReadReply(1, z(7), [VALUE, NAMES, OpFailed(Code.NO_NODE)])),
]
WRONG: list[tuple[NewRequest, AuxReply]] = [
    (GetAcls(0, "/a"), GetAclsReply(1, z(7), MASKED, stat(FULL, "/a"))),
    (GetAcls(0, "/none"), GetAclsReply(1, z(7), MASKED, stat(FULL, "/a"))),
    (WhoAmI(0), WhoAmIReply(1, z(7), ())),
    (WhoAmI(0), WhoAmIReply(1, z(2), (Identity("digest", ALICE),))),
    (GetEphemerals(0, "/"), GetEphemeralsReply(1, z(7), [])),
    (GetEphemerals(0, "/"), GetEphemeralsReply(1, z(5), ["/e"])),
    (CountDescendants(0, "/a"), CountDescendantsReply(1, z(7), 2)),
    *((CountDescendants(0, "/"), CountDescendantsReply(1, z(4), n, z(7))) for n in (3, 7)),
    (READS, MultiReadReply(1, z(4), [VALUE, NAMES, OpFailed(Code.NO_NODE)])),
    (READS, MultiReadReply(1, z(7), [VALUE, NAMES, OpFailed(Code.NO_AUTH)])),
    (READS, MultiReadReply(1, z(7), [VALUE, OpChildren([], NAMES.stat), OpFailed(Code.NO_NODE)])),
]


@pytest.mark.parametrize(("ask", "answer"), RIGHT)
def test_correct_aux_reads_pass(ask: NewRequest, answer: AuxReply) -> None:
    aux_reads.aux_reads_are_true(FULL, client(), ask, answer)


@pytest.mark.parametrize(("ask", "answer"), WRONG)
def test_wrong_aux_reads_are_named(ask: NewRequest, answer: AuxReply) -> None:
    with pytest.raises(AssertionError, match=r"^Truth: "):
        aux_reads.aux_reads_are_true(FULL, client(), ask, answer)


def test_a_client_without_read_permission_learns_nothing() -> None:
    other = client(session_id=OTHER)
    results = MultiReadReply(1, z(7), [OpFailed(Code.NO_AUTH)])
    ask = MultiRead(0, [ReadData("/a")])
    aux_reads.aux_reads_are_true(FULL, other, ask, results)
    aux_reads.refusals_are_true(FULL, other, GetAcls(0, "/a"), NoAuthError("/a"))
    answer: AuxReply
    for wrong, answer in (
        (GetAcls(0, "/a"), GetAclsReply(1, z(7), MASKED, stat(FULL, "/a"))),
        (CountDescendants(0, "/a"), CountDescendantsReply(1, z(7), 1)),
    ):
        with pytest.raises(AssertionError, match=r"^Truth: "):
            aux_reads.aux_reads_are_true(FULL, other, wrong, answer)
    with pytest.raises(AssertionError, match=r"^Truth: "):
        aux_reads.refusals_are_true(FULL, client(), GetAcls(0, "/a"), NoAuthError("/a"))


# Quotas: at most three znodes and five bytes at /q.

LIMITS = format_limits(QuotaLimits(hard_znodes=3, hard_bytes=5))
QUOTA = "/zookeeper/quota/q"


def limited(*ops: WriteOp) -> Truth:
    made = (Create(QUOTA, b"", 0), Create(f"{QUOTA}/zookeeper_limits", LIMITS, 0))
    return world(*made, Create("/q", b"12", 0), *ops)


@pytest.mark.parametrize(
    ("truth", "op", "code"),
    [
        (limited(), Create("/q/a", b"123", 0), Code.OK),
        (limited(), Create("/q/a", b"1234", 0), Code.QUOTA_EXCEEDED),
        (limited(), Create("/qa", b"1234", 0), Code.OK),
        (limited(*[Create("/q/s-", b"", 2)] * 2), Create("/q/s-", b"", 2), Code.QUOTA_EXCEEDED),
        (limited(), SetData("/q", b"12345", -1), Code.OK),
        (limited(), SetData("/q", b"123456", -1), Code.QUOTA_EXCEEDED),
        (limited(), Create("/zookeeper/quota/q/zookeeper_limits", b"x", 0), Code.BAD_ARGUMENTS),
    ],
)
def test_no_quota_is_exceeded(truth: Truth, op: WriteOp, code: Code) -> None:
    change = execution.execute(truth, z(20), Millis(0), SESSION, op)
    assert getattr(change, "code", 0) == code
    assert quotas.usage(truth.znodes, "/none") == (0, 0)


def test_a_quota_and_its_usage_are_checked() -> None:
    truth = limited(Create("/q/a", b"123", 0))
    ask, told = GetQuota(0, "/q"), QuotaLimits(hard_znodes=3, hard_bytes=5)
    aux_reads.aux_reads_are_true(truth, client(), ask, GetQuotaReply(1, z(6), told, 2, 5))
    aux_reads.aux_reads_are_true(truth, client(), ask, GetQuotaReply(1, z(5), told, 1, 2))
    wrong = [
        GetQuotaReply(1, z(6), told, 1, 5),
        GetQuotaReply(1, z(6), told, 2, 4),
        GetQuotaReply(1, z(3), told, 0, 0),
        GetQuotaReply(1, z(6), QuotaLimits(), 2, 5),
    ]
    for answer in wrong:
        with pytest.raises(AssertionError, match=r"^Truth: "):
            aux_reads.aux_reads_are_true(truth, client(), ask, answer)
    aux_reads.refusals_are_true(truth, client(zxid=z(3)), ask, NoNodeError("/q"))
    with pytest.raises(AssertionError, match=r"^Truth: "):
        aux_reads.refusals_are_true(truth, client(zxid=z(4)), ask, NoNodeError("/q"))


def test_a_server_without_a_leader_knows_the_identities_of_its_state() -> None:
    truth = world(PROOF)
    local = client(is_read_only=True)
    assert local.known_as(truth, z(3)) == (Identity("digest", ALICE),)
    assert local.known_as(truth, z(0)) == ()  # the session was not open yet
    assert client(is_read_only=True, client=Client(Core(SessionId(0)))).known_as(truth, z(3)) == ()


# Expiring znodes: /t lives for a second, /c is a container, which had a child in 1:5.

TTL = Create("/t", b"", CreateMode.TTL, None, 1_000)
CONTAINER, CHILD = Create("/c", b"", CreateMode.CONTAINER), Create("/c/x", b"", 0)


class Life:
    """The truth of a sequence of changes, with the ends of expiring znodes."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.endings = expiring_znodes.ExpiringZnodes(self.truth)
        self._zxid = z(0)
        self.at(0, CreateSessionTxn(SESSION, b"p" * 16, Millis(1), ServerId(1), 1))

    def at(self, now: int, change: Any, epoch: int = 1) -> "Life":
        """Deliver a change at a moment of true time, which all clocks show, too."""
        self._zxid = max(Zxid(self._zxid + 1), make_zxid(Epoch(epoch), 1))
        number = 0
        if isinstance(change, WriteOp):
            number = 1
            change = execution.execute(self.truth, self._zxid, Millis(now), SESSION, change)
            assert not isinstance(change, ErrorTxn), change
        self.endings.begins(self._zxid)
        if not number and isinstance(change, DeleteTxn):
            self.endings.only_what_is_due_ends(self._zxid, change, now)
        session_id = SESSION if number else SessionId(0)
        self.truth.apply(self._zxid, Txn(session_id, number, 0, Millis(now), change))
        self.endings.applied(change, now)
        return self

    def leads(self, now: int, epoch: int, grace_ms: int = 0) -> "Life":
        self.endings.established(Epoch(epoch), now, grace_ms)
        return self


def test_a_due_znode_expires() -> None:
    assert Life().at(1, TTL).at(1_001, DeleteTxn("/t")).endings.are_all_gone()
    gone = Life().at(1, CONTAINER).at(2, CHILD).at(3, Delete("/c/x", -1)).at(4, DeleteTxn("/c"))
    assert gone.endings.are_all_gone()
    # The time before the epoch counts by the times of transactions.
    later = Life().at(1, TTL).at(601, CONTAINER).leads(5_000, 2)
    assert not later.endings.are_all_gone()
    assert later.at(5_400, DeleteTxn("/t"), 2).endings.are_all_gone()


def emptied(kind: Create, grace_ms: int) -> Life:
    """A znode whose only child was deleted at 500, under a leader with a grace."""
    child = f"{kind.path}/x"
    begun = Life().leads(0, 1, grace_ms)
    return begun.at(1, kind).at(2, Create(child, b"", 0)).at(500, Delete(child, -1))


def test_an_emptied_znode_stays_for_the_grace() -> None:
    emptied(CONTAINER, 300).at(800, DeleteTxn("/c"))
    emptied(CONTAINER, 300).leads(700, 2, 100).at(800, DeleteTxn("/c"), 2)
    emptied(TTL, 9_000).at(1_500, DeleteTxn("/t"))  # no longer than its TTL


ENDINGS: list[Callable[[], object]] = [
    lambda: emptied(CONTAINER, 300).at(750, DeleteTxn("/c")),
    lambda: emptied(CONTAINER, 300).leads(700, 2, 300).at(900, DeleteTxn("/c"), 2),
    lambda: emptied(TTL, 9_000).at(1_400, DeleteTxn("/t")),
    lambda: Life().at(1, TTL).at(900, DeleteTxn("/t")),
    lambda: Life().at(1, TTL).at(900, SetData("/t", b"", -1)).at(1_200, DeleteTxn("/t")),
    lambda: Life().at(1, TTL).at(2, Create("/t/x", b"", 0)).at(1_200, DeleteTxn("/t")),
    lambda: Life().at(1, TTL).at(601, CONTAINER).leads(5_000, 2).at(5_300, DeleteTxn("/t"), 2),
    lambda: Life().at(1, CONTAINER).at(9_000, DeleteTxn("/c")),
    lambda: Life().at(1, CONTAINER).at(2, CHILD).at(9_000, DeleteTxn("/c")),
    lambda: Life().at(1, Create("/p", b"", 0)).at(9_000, DeleteTxn("/p")),
    lambda: Life().at(1, DeleteTxn("/none")),
]


def calm(since: int, grace_ms: int = 0) -> Life:
    life = Life().leads(0, 1, grace_ms)
    life.endings.calm_since = since
    return life


def test_in_a_quiet_world_znodes_expire_within_a_second() -> None:
    calm(0).at(1, TTL).at(2_000, DeleteTxn("/t"))
    calm(5_000).at(1, TTL).at(6_000, DeleteTxn("/t"))
    calm(0).at(1, TTL).leads(5_000, 2).at(6_000, DeleteTxn("/t"), 2)
    calm(0).at(1, TTL).at(2, Create("/t/x", b"", 0)).at(5_000, Delete("/t/x", -1)).at(
        6_000, DeleteTxn("/t")
    )
    of_session = CloseSessionTxn(SESSION, ["/c/x"])
    calm(0).at(1, CONTAINER).at(2, Create("/c/x", b"", CreateMode.EPHEMERAL)).at(
        5_000, of_session
    ).at(6_000, DeleteTxn("/c"))


LATE: list[Callable[[], object]] = [
    lambda: calm(0, 300).at(1, CONTAINER).at(2, CHILD).at(3, Delete("/c/x", -1)).at(
        1_400, DeleteTxn("/c")),
    lambda: calm(0).at(1, TTL).at(2_100, DeleteTxn("/t")),
    lambda: calm(5_000).at(1, TTL).at(6_001, DeleteTxn("/t")),
    lambda: calm(0).at(1, TTL).leads(5_000, 2).at(7_100, DeleteTxn("/t"), 2),
    lambda: calm(0).at(1, CONTAINER).at(2, CHILD).at(3, Delete("/c/x", -1)).at(
        1_004, DeleteTxn("/c")),
]  # fmt: skip


@pytest.mark.parametrize("ends", LATE)
def test_a_late_expiry_is_named(ends: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=r"^Endings: .* too late$"):
        ends()


@pytest.mark.parametrize("ends", ENDINGS)
def test_an_early_expiry_is_named(ends: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=r"^Endings: "):
        ends()


def test_a_znode_that_never_expires_is_named() -> None:
    assert not Life().at(1, TTL).at(2_000, CONTAINER).endings.are_all_gone()
    assert Life().at(1, CONTAINER).endings.are_all_gone()  # it never had a child
    assert Life().at(1, TTL).at(2, Create("/t/x", b"", 0)).endings.are_all_gone()
    made = CreateTxn("/t", b"", SessionId(0), 1, None, 1_000)
    assert not Life().at(1, made).endings.are_all_gone()
