"""The preparation of a multi: all its operations or none, at one zxid, in one of two branches.

Each operation is prepared against the results of those before it, in a draft of the outstanding
changes. The first that fails ends the multi and rolls the draft back. Reads are answered from the
same draft: their results are part of the transaction, so a repeated multi gets the very same.

ZooKeeper: `MultiOperationRecord`, `PrepRequestProcessor.pRequest` (multi). Conditions with two
branches: etcd's `Txn`.
"""

from collections.abc import Callable
from typing import Final

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Identities, Permission
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import RESULTS_BYTES_MAX
from raykeeper.znodes.op_preparer import OpPreparer, stat_of_record
from raykeeper.znodes.outstanding_changes import ChangeRecord, OutstandingChanges
from raykeeper.znodes.paths import path_fault
from raykeeper.znodes.reads import result_of_read
from raykeeper.znodes.refusals import refused, refused_multi
from raykeeper.znodes.requests import (
    Check,
    Compare,
    CompareField,
    Create,
    Delete,
    Multi,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    SessionId,
    SetData,
    TxnOp,
)
from raykeeper.znodes.txns import (
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiTxn,
    OpChildren,
    OpDone,
    OpFailed,
    OpResult,
    OpStat,
    OpValue,
    SetDataTxn,
    stat_of_created,
)
from raykeeper.znodes.znode import is_allowed

OP_BYTES: Final = 8
"""The least that the result of any operation takes."""
_STAT_BYTES: Final = 100

_HOLDS: dict[Relation, Callable[[object, object], bool]] = {
    Relation.EQUAL: lambda one, other: one == other,
    Relation.NOT_EQUAL: lambda one, other: one != other,
    Relation.LESS: lambda one, other: one < other,  # type: ignore[operator]
    Relation.GREATER: lambda one, other: one > other,  # type: ignore[operator]
}


class MultiPreparer:
    """Prepares transactions of several operations."""

    def __init__(self, tree: OutstandingChanges, operations: OpPreparer) -> None:
        self._tree = tree
        self._operations = operations

    def prepare(
        self,
        zxid: Zxid,
        time_ms: Millis,
        session_id: SessionId,
        identities: Identities,
        op: Multi,
        bytes_room: int,
    ) -> MultiTxn | MultiErrorTxn | ErrorTxn:
        """Prepare a multi whose results take at most `bytes_room`, those of reads less."""
        is_then = True
        for compare in op.compares:
            holds = self._holds(identities, compare)
            if isinstance(holds, ErrorTxn):
                return holds
            is_then = is_then and holds
        ops = op.then if is_then else op.otherwise
        changes: list[CreateTxn | DeleteTxn | SetDataTxn] = []
        results: list[OpResult] = []
        reads_room = RESULTS_BYTES_MAX
        if OP_BYTES * len(ops) > bytes_room:  # as a MultiErrorTxn it would take no less
            return refused_multi(Code.THROTTLED_OP)
        self._tree.begin()
        for place, each in enumerate(ops):
            done = self._one(zxid, time_ms, session_id, identities, each)
            if isinstance(done, ErrorTxn):
                self._tree.rollback()
                return MultiErrorTxn(is_then, done.code, place, len(ops), done.op, done.path)
            change, result = done
            size = _size_of(result)
            bytes_room -= size
            if change is not None:
                changes.append(change)
            else:
                reads_room -= size
            if bytes_room < 0 or reads_room < 0:
                self._tree.rollback()
                return refused_multi(Code.THROTTLED_OP)
            results.append(result)
        self._tree.commit(zxid)
        return MultiTxn(is_then, changes, results)

    def _one(
        self,
        zxid: Zxid,
        time_ms: Millis,
        session_id: SessionId,
        identities: Identities,
        op: TxnOp,
    ) -> tuple[CreateTxn | DeleteTxn | SetDataTxn | None, OpResult] | ErrorTxn:
        operations = self._operations
        change: CreateTxn | DeleteTxn | SetDataTxn | ErrorTxn
        match op:
            case Create():
                change = operations.create(zxid, time_ms, session_id, identities, op)
                if isinstance(change, ErrorTxn):
                    return change
                return change, OpDone(change.path, stat_of_created(zxid, time_ms, change))
            case SetData():
                change = operations.set_data(zxid, time_ms, identities, op)
                if isinstance(change, ErrorTxn):
                    return change
                return change, OpDone("", change.stat)
            case Delete():
                change = operations.delete(zxid, identities, op)
                return change if isinstance(change, ErrorTxn) else (change, OpDone("", None))
            case Check():
                refused = operations.check(identities, op)
                return (None, OpDone("", None)) if refused is None else refused
            case _:
                _read: ReadData | ReadStat | ReadChildren = op
                return self._read(identities, op)

    def _read(
        self, identities: Identities, op: ReadData | ReadStat | ReadChildren
    ) -> tuple[None, OpResult] | ErrorTxn:
        record = self._tree.find(op.path)
        result = result_of_read(op, identities, record, stat_of_record, self._tree.names_of)
        return refused(Code(result.code), op) if type(result) is OpFailed else (None, result)

    def _holds(self, identities: Identities, compare: Compare) -> bool | ErrorTxn:
        field, operand = compare.field, compare.operand
        if (type(operand) is bytes) is not (field is CompareField.VALUE):
            return refused_multi(Code.BAD_ARGUMENTS, compare.path)
        record = self._tree.find(compare.path)
        if record is None and path_fault(compare.path) is not None:
            return refused_multi(Code.BAD_ARGUMENTS, compare.path)
        if record is not None and not is_allowed(record.attributes, identities, Permission.READ):
            return refused_multi(Code.NO_AUTH, compare.path)
        if field is CompareField.EXISTS:
            return _HOLDS[compare.relation](int(record is not None), operand)
        return record is not None and _HOLDS[compare.relation](_field(record, field), operand)


def _field(record: ChangeRecord, field: CompareField) -> int | bytes:
    match field:
        case CompareField.VERSION:
            return record.version
        case CompareField.MZXID:
            return record.mzxid
        case CompareField.CZXID:
            return record.czxid
        case CompareField.NUM_CHILDREN:
            return record.num_children
        case _:
            return record.value or b""


def _size_of(result: OpResult) -> int:
    """Return roughly what an encoded result takes."""
    match result:
        case OpDone():
            return len(result.path) + (OP_BYTES if result.stat is None else _STAT_BYTES)
        case OpValue():
            return len(result.value or b"") + _STAT_BYTES
        case OpChildren():
            return sum(map(len, result.names)) + OP_BYTES * len(result.names) + _STAT_BYTES
        case OpStat():
            return _STAT_BYTES
        case _:
            return OP_BYTES


def results_bytes(results: list[OpResult]) -> int:
    """Return what the results of a transaction take."""
    return sum(map(_size_of, results))
