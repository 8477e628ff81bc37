"""The transaction that a request must become, given the truth before it.

ZooKeeper's order of checks, implemented a second time, apart from `znodes/op_preparer.py`. Paths,
values and flags are those of the simulated workload: all well-formed and small.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.zab.ids import Millis, Zxid, format_zxid
from raykeeper.znodes.acl import Identities
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import (
    ANY_VERSION,
    AddAuth,
    Check,
    Create,
    CreateMode,
    Delete,
    Multi,
    Reconfig,
    SessionId,
    SetAcls,
    SetData,
    TxnOp,
    WriteOp,
)
from raykeeper.znodes.txns import (
    CloseReason,
    CloseSessionTxn,
    CreateSessionErrorTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    RaiseLevelTxn,
    ReconfigTxn,
    ReplaceVoterTxn,
    SetAclTxn,
    SetDataTxn,
    SetIdentitiesTxn,
    SuspectSessionTxn,
    Txn,
    TxnBody,
)
from tests.simulation.checks import acls as acl_rules
from tests.simulation.checks import members, multi_execution, quotas
from tests.simulation.checks.truth import FIXED, TrueSession, TrueZnode, Truth, parent
from tests.simulation.requests.acls import SUPER

_LEADERS_OWN = (
    CreateSessionTxn,
    CreateSessionErrorTxn,
    CloseSessionTxn,
    ReplaceVoterTxn,
    ReconfigTxn,
    RaiseLevelTxn,
    DeleteTxn,
    SuspectSessionTxn,
)
EPHEMERAL: Final = (1, 3)
SEQUENTIAL: Final = (2, 3, 6)
CONTAINER: Final = -1
"""As a lifetime."""


class Act(Struct, frozen=True):
    """The session that acts, the zxid of its transaction, and the time."""

    zxid: Zxid
    time_ms: Millis
    session_id: SessionId
    who: Identities


def execute(
    truth: Truth, zxid: Zxid, time_ms: Millis, session_id: SessionId, op: WriteOp
) -> TxnBody:
    """Return the transaction that `op` becomes as the next one."""
    due = _execute(truth, zxid, time_ms, session_id, op)
    is_named = not isinstance(due, ErrorTxn) or due.op
    return due if is_named else ErrorTxn(due.code, *named(op))


def named(op: WriteOp | TxnOp) -> tuple[int, str]:
    """Return how an error transaction names what it refuses: the request's tag and its path."""
    return int(str(op.__struct_config__.tag)), getattr(op, "path", "")


def _execute(
    truth: Truth, zxid: Zxid, time_ms: Millis, session_id: SessionId, op: WriteOp
) -> TxnBody:
    session = truth.sessions[session_id]
    act = Act(zxid, time_ms, session_id, session.known_as(zxid))
    if isinstance(op, Create | SetData | Delete):
        return execute_one(truth.znodes, act, op)
    if isinstance(op, Multi):
        return multi_execution.execute(truth.znodes, act, op)
    if isinstance(op, SetAcls):
        return _set_acls(truth.znodes, act, op)
    if isinstance(op, AddAuth):
        return _identify(act, op)
    return CloseSessionTxn(session_id, sorted(session.ephemerals), CloseReason.BY_CLIENT)


def execute_one(
    znodes: dict[str, TrueZnode], act: Act, op: Create | SetData | Delete
) -> CreateTxn | SetDataTxn | DeleteTxn | ErrorTxn:
    """Return what one operation does to these znodes, without changing them."""
    if isinstance(op, Create):
        return _create(znodes, act, op)
    if isinstance(op, SetData):
        return _set(znodes, act, op)
    return _delete(znodes, act, op)


def refusals_are_justified(truth: Truth, zxid: Zxid, txn: Txn, op: WriteOp) -> None:
    """Check that a committed write is exactly what its request demands after its predecessors."""
    if isinstance(op, Reconfig):
        session = truth.sessions[txn.session_id]
        members.step_is_justified(truth, zxid, txn, op, session.known_as(zxid))
        return
    due = execute(truth, zxid, txn.time_ms, txn.session_id, op)
    change = txn.body
    if isinstance(change, CloseSessionTxn):
        change = CloseSessionTxn(change.session_id, sorted(change.ephemerals), change.reason)
    elif isinstance(change, MultiTxn):
        change = multi_execution.in_order(change)
    assert change == due, f"Execution: {op} became {change} in {format_zxid(zxid)}, not {due}"


def is_the_leaders_own(truth: Truth, zxid: Zxid, txn: Txn) -> None:
    """Check that without a numbered write only sessions, votes and expiring znodes change.

    And the member list: by a step of an operator, or it is said again as it is.
    """
    if isinstance(txn.body, ReconfigTxn) and txn.body.config is not None:
        members.is_an_operators_step(truth, zxid, txn.body)
    elif isinstance(txn.body, ReconfigTxn):
        members.is_said_again(truth, txn.body)
    assert isinstance(txn.body, _LEADERS_OWN) and not txn.session_id, (
        f"Execution: nobody asked for {txn}"
    )


def times_never_go_back(truth: Truth, txn: Txn) -> None:
    """Check that the time of a transaction is not before that of its predecessor."""
    assert txn.time_ms >= truth.time_ms, f"Execution: {txn.time_ms} after {truth.time_ms}"


def ephemerals_end_with_their_session(session: TrueSession, change: CloseSessionTxn) -> None:
    """Check that a session's end deletes exactly the ephemerals that it has."""
    assert session.ephemerals == set(change.ephemerals), (
        f"Ephemerals: {sorted(session.ephemerals)} of a session, {change.ephemerals} are deleted"
    )
    assert len(set(change.ephemerals)) == len(change.ephemerals), "Ephemerals: deleted twice"


def refused(code: Code) -> ErrorTxn:
    """Return the transaction of a write that has no effect."""
    return ErrorTxn(code.value)


def _create(znodes: dict[str, TrueZnode], act: Act, op: Create) -> CreateTxn | ErrorTxn:
    acls = acl_rules.as_kept(op.acls, act.who)
    if isinstance(acls, Code):
        return refused(acls)
    above = znodes.get(parent(op.path))
    if above is None:
        return refused(Code.NO_NODE)
    if not acl_rules.may(above.acls, act.who, acl_rules.CREATE):
        return refused(Code.NO_AUTH)
    path = op.path
    if op.flags in SEQUENTIAL:
        path += str(above.creates).zfill(10)
    if not quotas.is_acceptable(path, op.value or b""):
        return refused(Code.BAD_ARGUMENTS)
    if path in znodes:
        return refused(Code.NODE_EXISTS)
    if above.owner:
        return refused(Code.NO_CHILDREN_FOR_EPHEMERALS)
    if quotas.are_exceeded(znodes, path, 1, len(op.value or b"")):
        return refused(Code.QUOTA_EXCEEDED)
    owner = act.session_id if op.flags in EPHEMERAL else SessionId(0)
    ttl_ms = CONTAINER if op.flags == CreateMode.CONTAINER else op.ttl_ms
    return CreateTxn(path, op.value, owner, above.creates + 1, acls, ttl_ms)


def _set(znodes: dict[str, TrueZnode], act: Act, op: SetData) -> SetDataTxn | ErrorTxn:
    znode = znodes.get(op.path)
    if znode is None:
        return refused(Code.NO_NODE)
    if not acl_rules.may(znode.acls, act.who, acl_rules.WRITE):
        return refused(Code.NO_AUTH)
    if not quotas.is_acceptable(op.path, op.value or b""):
        return refused(Code.BAD_ARGUMENTS)
    if quotas.are_exceeded(znodes, op.path, 0, len(op.value or b"") - len(znode.value or b"")):
        return refused(Code.QUOTA_EXCEEDED)
    if op.version not in (ANY_VERSION, znode.version):
        return refused(Code.BAD_VERSION)
    after = replace(
        znode, value=op.value, mzxid=act.zxid, mtime=act.time_ms, version=znode.version + 1
    )
    return SetDataTxn(op.path, op.value, after.stat())


def _delete(znodes: dict[str, TrueZnode], act: Act, op: Delete) -> DeleteTxn | ErrorTxn:
    if op.path in FIXED:
        return refused(Code.BAD_ARGUMENTS)
    above = znodes.get(parent(op.path))
    if above is None:
        return refused(Code.NO_NODE)
    if not acl_rules.may(above.acls, act.who, acl_rules.DELETE):
        return refused(Code.NO_AUTH)
    znode = znodes.get(op.path)
    if znode is None:
        return refused(Code.NO_NODE)
    if op.version not in (ANY_VERSION, znode.version):
        return refused(Code.BAD_VERSION)
    if znode.children:
        return refused(Code.NOT_EMPTY)
    return DeleteTxn(op.path)


def check(znodes: dict[str, TrueZnode], act: Act, op: Check) -> ErrorTxn | None:
    """Return why the condition does not hold, None if it does."""
    znode = znodes.get(op.path)
    if znode is None:
        return refused(Code.NO_NODE)
    if not acl_rules.may(znode.acls, act.who, acl_rules.READ):
        return refused(Code.NO_AUTH)
    return None if op.version in (ANY_VERSION, znode.version) else refused(Code.BAD_VERSION)


def _set_acls(znodes: dict[str, TrueZnode], act: Act, op: SetAcls) -> SetAclTxn | ErrorTxn:
    acls = acl_rules.as_kept(op.acls, act.who)
    if isinstance(acls, Code):
        return refused(acls)
    znode = znodes.get(op.path)
    if znode is None:
        return refused(Code.NO_NODE)
    if not acl_rules.may(znode.acls, act.who, acl_rules.ADMIN):
        return refused(Code.NO_AUTH)
    if op.version not in (ANY_VERSION, znode.aversion):
        return refused(Code.BAD_VERSION)
    return SetAclTxn(op.path, acls, replace(znode, aversion=znode.aversion + 1).stat())


def _identify(act: Act, op: AddAuth) -> SetIdentitiesTxn | ErrorTxn:
    identity = acl_rules.proved_by(op.scheme, op.credential)
    if identity is None:
        return refused(Code.AUTH_FAILED)
    who = (*act.who, identity)
    if op.credential == SUPER:
        who = (*who, acl_rules.SUPER)
    return SetIdentitiesTxn(tuple(dict.fromkeys(who)))
