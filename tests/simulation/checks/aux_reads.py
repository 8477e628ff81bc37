"""Checks of replies to auxiliary reads: the truth as of the zxid they name."""

from msgspec.structs import replace

from raykeeper.client.core.outstanding import NewRequest
from raykeeper.zab.ids import Zxid, format_zxid
from raykeeper.znodes.acl import Identities
from raykeeper.znodes.errors import Code, KeeperError
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.replies import (
    AuxReply,
    CountDescendantsReply,
    GetAclsReply,
    GetEphemeralsReply,
    GetQuotaReply,
    MultiReadReply,
    WhoAmIReply,
)
from raykeeper.znodes.requests import (
    CountDescendants,
    GetAcls,
    GetEphemerals,
    GetQuota,
    MultiRead,
    ReadChildren,
    ReadData,
    ReadStat,
    WhoAmI,
)
from raykeeper.znodes.txns import OpChildren, OpFailed, OpResult, OpStat, OpValue
from tests.simulation.checks import acls, quotas
from tests.simulation.checks.acls import may
from tests.simulation.checks.multi_execution import sorted_names
from tests.simulation.checks.session_view import SessionView
from tests.simulation.checks.truth import Truth, name, parent


def aux_reads_are_true(truth: Truth, seen: SessionView, ask: NewRequest, answer: AuxReply) -> None:
    """Check that a reply shows exactly what the session may know of the state as of its zxid."""
    zxid = answer.zxid
    who = seen.known_as(truth, zxid)
    due: object
    told: object
    match answer:
        case GetAclsReply():
            assert isinstance(ask, GetAcls), ask
            was = truth.at(ask.path, zxid)
            told, due = (answer.acls, answer.stat, answer.ttl_ms), None
            if was is not None and may(was.acls, who, acls.READ | acls.ADMIN):
                due = (acls.as_shown(was.acls, who), was.stat, was.ttl_ms)
        case WhoAmIReply():
            assert isinstance(ask, WhoAmI), ask
            told, due = answer.identities, who
        case GetEphemeralsReply():
            assert isinstance(ask, GetEphemerals), ask
            told, due = answer.paths, _ephemerals(truth, seen, ask.path, zxid)
        case CountDescendantsReply():
            assert isinstance(ask, CountDescendants), ask
            told, due = answer.count, _count(truth, ask.path, who, zxid)
            if seen.speaks_jute:  # which is not told how long the count took
                answer = replace(answer, until=truth.zxid)
            if answer.until and due is not None:
                due = _nearest(truth, ask.path, answer)
        case MultiReadReply():
            assert isinstance(ask, MultiRead), ask
            told = [sorted_names(result) for result in answer.results]
            due = [_result(truth, who, op, zxid) for op in ask.ops]
            if seen.speaks_jute:  # whose lists come without a Stat
                due = [
                    OpChildren(each.names, None) if isinstance(each, OpChildren) else each
                    for each in due
                ]
        case GetQuotaReply():
            assert isinstance(ask, GetQuota), ask
            told = (answer.limits, (answer.znodes, answer.bytes))
            due = _quota(truth, ask.path, who, zxid)
    assert told == due, f"Truth: {seen} asks {ask} as of {format_zxid(zxid)}: {told}, not {due}"


def refusals_are_true(
    truth: Truth, seen: SessionView, ask: GetAcls | CountDescendants | GetQuota, error: KeeperError
) -> None:
    """Check a failed read: at some moment since the state seen, its znode was missing or hidden."""
    permission = acls.READ | acls.ADMIN if isinstance(ask, GetAcls) else acls.READ
    path = quotas.limits_path(ask.path) if isinstance(ask, GetQuota) else ask.path
    assert is_ever_refused(truth, seen, path, error.code, seen.zxid, permission), (
        f"Truth: {seen} is refused {ask} with {error!r}"
    )


def is_ever_refused(
    truth: Truth, seen: SessionView, path: str, code: int, since: Zxid, permission: int = acls.READ
) -> bool:
    """Return whether a read of `path` could fail with `code` as of `since` or later."""
    for zxid, was in truth.between(path, since, truth.zxid):
        who = seen.known_as(truth, zxid)
        reason = Code.NO_NODE if was is None else Code.NO_AUTH
        if reason == code and (was is None or not may(was.acls, who, permission)):
            return True
    return False


def _ephemerals(truth: Truth, seen: SessionView, prefix: str, zxid: Zxid) -> list[str]:
    if seen.is_read_only:
        return []  # a read-only session, which one server knows alone, has no identities
    return sorted(
        path
        for path, was in truth.all_at(zxid)
        if was.stat.ephemeral_owner == seen.session_id and path.startswith(prefix)
    )


def _count(truth: Truth, path: str, who: Identities, zxid: Zxid) -> int | None:
    was = truth.at(path, zxid)
    if was is None or not may(was.acls, who, acls.READ):
        return None
    below = path.rstrip("/") + "/"
    return sum(each.startswith(below) and each != "/" for each, _ in truth.all_at(zxid))


def _nearest(truth: Truth, path: str, answer: CountDescendantsReply) -> int:
    """Return the possible count that is nearest to the answer of a count that took some time.

    Znodes that lived for the whole time count; znodes that lived for a part of it may count.
    """
    below = path.rstrip("/") + "/"
    least = most = 0
    for each in truth.paths():
        if each.startswith(below) and each != "/":
            lived = [was is not None for _, was in truth.between(each, answer.zxid, answer.until)]
            least += all(lived)
            most += any(lived)
    return min(max(answer.count, least), most)


def _quota(
    truth: Truth, path: str, who: Identities, zxid: Zxid
) -> tuple[QuotaLimits, tuple[int, int]] | None:
    kept = truth.at(quotas.limits_path(path), zxid)
    if kept is None or not may(kept.acls, who, acls.READ):
        return None
    return quotas.limits_in(kept.value or b""), quotas.usage(dict(truth.all_at(zxid)), path)


def _result(
    truth: Truth, who: Identities, op: ReadData | ReadStat | ReadChildren, zxid: Zxid
) -> OpResult:
    was = truth.at(op.path, zxid)
    if was is None:
        return OpStat(None) if isinstance(op, ReadStat) else OpFailed(Code.NO_NODE)
    if not may(was.acls, who, acls.READ):
        return OpFailed(Code.NO_AUTH)
    if isinstance(op, ReadStat):
        return OpStat(was.stat)
    if isinstance(op, ReadData):
        return OpValue(was.value, was.stat)
    names = [name(path) for path, _ in truth.all_at(zxid) if parent(path) == op.path != path]
    return OpChildren(sorted(names), was.stat)
