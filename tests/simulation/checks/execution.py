"""What a request must become: the one transaction that the truth before it allows.

ZooKeeper's order of checks, written down apart from `znodes/preparation.py`. Paths, values and
flags are those of the simulated workload: all well-formed and small.
"""

from raykeeper.zab.ids import Millis, Zxid, show_zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Create,
    CreateMode,
    Delete,
    SessionId,
    SetData,
    WriteOp,
)
from raykeeper.znodes.txns import (
    Change,
    Created,
    DataSet,
    Deleted,
    OpenRefused,
    Refused,
    SessionClosed,
    SessionOpened,
    Txn,
    VoterReplaced,
)
from tests.simulation.checks.truth import FIXED, TrueSession, TrueZnode, Truth, parent

_LEADERS_OWN = (SessionOpened, OpenRefused, SessionClosed, VoterReplaced)


def execute(
    truth: Truth, zxid: Zxid, time_ms: Millis, session_id: SessionId, op: WriteOp
) -> Change:
    """What `op` does as the next transaction."""
    if isinstance(op, Create):
        return _create(truth, session_id, op)
    if isinstance(op, SetData):
        return _set(truth, zxid, time_ms, op)
    if isinstance(op, Delete):
        return _delete(truth, op)
    return SessionClosed(session_id, sorted(truth.sessions[session_id].ephemerals))


def refusals_are_justified(truth: Truth, zxid: Zxid, txn: Txn, op: WriteOp) -> None:
    """A committed write is what its request demands after the transactions before it, no other."""
    due = execute(truth, zxid, txn.time_ms, txn.session_id, op)
    change = txn.change
    if isinstance(change, SessionClosed):
        change = SessionClosed(change.session_id, sorted(change.ephemerals))
    assert change == due, f"Execution: {op} became {change} in {show_zxid(zxid)}, not {due}"


def is_the_leaders_own(txn: Txn) -> None:
    """Without a numbered write nothing changes but sessions and votes."""
    assert isinstance(txn.change, _LEADERS_OWN) and not txn.session_id, (
        f"Execution: nobody asked for {txn}"
    )


def times_never_go_back(truth: Truth, txn: Txn) -> None:
    """The time of a transaction is never before that of the one before."""
    assert txn.time_ms >= truth.time_ms, f"Execution: {txn.time_ms} after {truth.time_ms}"


def ephemerals_end_with_their_session(session: TrueSession, change: SessionClosed) -> None:
    """A session takes along exactly the ephemerals it has."""
    assert session.ephemerals == set(change.ephemerals), (
        f"Ephemerals: {sorted(session.ephemerals)} of a session, {change.ephemerals} are deleted"
    )
    assert len(set(change.ephemerals)) == len(change.ephemerals), "Ephemerals: deleted twice"


class SequenceNumbers:
    """A number is given once in the life of a parent, and never a smaller one later."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, Zxid], int] = {}

    def given(self, path: str, truth: Truth) -> None:
        """A sequential znode is about to be made at `path`."""
        above = truth.znodes.get(parent(path))
        assert above is not None, f"SequenceNumbers: {path} has no parent"
        key, number = (parent(path), above.czxid), int(path[-10:])
        newest = self._newest.get(key, -1)
        assert number > newest, f"SequenceNumbers: {path} after {newest:010}"
        self._newest[key] = number


def is_sequential(op: WriteOp) -> bool:
    """Whether it is the creation of a sequential znode."""
    return isinstance(op, Create) and bool(op.flags & CreateMode.SEQUENTIAL)


def _refused(code: Code) -> Refused:
    return Refused(code.value)


def _create(truth: Truth, session_id: SessionId, op: Create) -> Change:
    above = truth.znodes.get(parent(op.path))
    if above is None:
        return _refused(Code.NO_NODE)
    path = op.path
    if op.flags & CreateMode.SEQUENTIAL:
        path += str(above.creates).zfill(10)
    if path in truth.znodes:
        return _refused(Code.NODE_EXISTS)
    if above.owner:
        return _refused(Code.NO_CHILDREN_FOR_EPHEMERALS)
    owner = session_id if op.flags & CreateMode.EPHEMERAL else SessionId(0)
    return Created(path, op.value, owner, above.creates + 1)


def _set(truth: Truth, zxid: Zxid, time_ms: Millis, op: SetData) -> Change:
    znode = truth.znodes.get(op.path)
    if znode is None:
        return _refused(Code.NO_NODE)
    if op.version not in (ANY_VERSION, znode.version):
        return _refused(Code.BAD_VERSION)
    after = TrueZnode(
        op.value,
        znode.czxid,
        znode.ctime,
        znode.owner,
        zxid,
        time_ms,
        znode.pzxid,
        znode.version + 1,
        znode.creates,
        znode.children,
    )
    return DataSet(op.path, op.value, after.stat())


def _delete(truth: Truth, op: Delete) -> Change:
    if op.path in FIXED:
        return _refused(Code.BAD_ARGUMENTS)
    znode = truth.znodes.get(op.path)
    if znode is None:
        return _refused(Code.NO_NODE)
    if op.version not in (ANY_VERSION, znode.version):
        return _refused(Code.BAD_VERSION)
    if znode.children:
        return _refused(Code.NOT_EMPTY)
    return Deleted(op.path)
