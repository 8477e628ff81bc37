"""The transaction that a multi must become: all operations of a branch, or none.

Each operation sees the effects of the operations before it, on copies of the few znodes that
it can touch.
"""

from operator import eq, gt, lt, ne
from typing import TYPE_CHECKING

from msgspec.structs import replace

from raykeeper.znodes.errors import Code
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
    SetData,
    TxnOp,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiResults,
    MultiTxn,
    OpChildren,
    OpDone,
    OpFailed,
    OpResult,
    OpStat,
    OpValue,
    SetDataTxn,
    TxnBody,
)
from tests.simulation.checks import acls, execution
from tests.simulation.checks.truth import TrueZnode, create_znode, delete_znode, parent, set_value

if TYPE_CHECKING:
    from tests.simulation.checks.execution import Act

_HOLDS = {
    Relation.EQUAL: eq,
    Relation.NOT_EQUAL: ne,
    Relation.LESS: lt,
    Relation.GREATER: gt,
}
Done = tuple[CreateTxn | SetDataTxn | DeleteTxn | None, OpResult]


def execute(znodes: dict[str, TrueZnode], act: "Act", op: Multi) -> TxnBody:
    """Return what the multi does to these znodes, without changing them."""
    is_then = True
    for compare in op.compares:
        znode = znodes.get(compare.path)
        if znode is not None and not acls.may(znode.acls, act.who, acls.READ):
            return ErrorTxn(Code.NO_AUTH.value, execution.named(op)[0], compare.path)
        is_then = is_then and _holds(znode, compare)
    ops = op.then if is_then else op.otherwise
    draft = dict(znodes)
    changes: list[CreateTxn | DeleteTxn | SetDataTxn] = []
    results: list[OpResult] = []
    for place, each in enumerate(ops):
        for path in (each.path, parent(each.path)):
            if (znode := draft.get(path)) is not None:
                draft[path] = replace(znode, children=set(znode.children))
        done = _one(draft, act, each)
        if isinstance(done, ErrorTxn):
            return MultiErrorTxn(is_then, done.code, place, len(ops), *execution.named(each))
        change, result = done
        if change is not None:
            changes.append(change)
        results.append(result)
    return MultiTxn(is_then, changes, results)


def changes_of(change: TxnBody) -> list[TxnBody]:
    """Return the changes one by one, in their order."""
    return list(change.changes) if isinstance(change, MultiTxn) else [change]


def told(change: MultiTxn | MultiErrorTxn) -> MultiResults:
    """Return the results that the client gets, one for each operation."""
    if isinstance(change, MultiTxn):
        return MultiResults(change.is_then, change.results)
    codes = [0] * change.failed + [change.code] + [-2] * (change.count - change.failed - 1)
    return MultiResults(change.is_then, [OpFailed(code) for code in codes])


def in_order(change: MultiTxn) -> MultiTxn:
    """Return the same transaction with children's names sorted, because they have no order."""
    return replace(change, results=[sorted_names(result) for result in change.results])


def sorted_names(result: OpResult) -> OpResult:
    """Return the same result with children's names sorted, because they have no order."""
    if isinstance(result, OpChildren):
        return OpChildren(sorted(result.names), result.stat)
    return result


def read(
    znodes: dict[str, TrueZnode], act: "Act", op: ReadData | ReadStat | ReadChildren
) -> OpResult | ErrorTxn:
    """Return the result of a read on these znodes."""
    znode = znodes.get(op.path)
    if znode is None:
        return OpStat(None) if isinstance(op, ReadStat) else execution.refused(Code.NO_NODE)
    if not acls.may(znode.acls, act.who, acls.READ):
        return execution.refused(Code.NO_AUTH)
    if isinstance(op, ReadStat):
        return OpStat(znode.stat())
    if isinstance(op, ReadData):
        return OpValue(znode.value, znode.stat())
    return OpChildren(sorted(znode.children), znode.stat())


def _one(draft: dict[str, TrueZnode], act: "Act", op: TxnOp) -> Done | ErrorTxn:
    """Apply one operation to the draft."""
    if isinstance(op, Check):
        return execution.check(draft, act, op) or (None, OpDone("", None))
    if isinstance(op, ReadData | ReadStat | ReadChildren):
        found = read(draft, act, op)
        return found if isinstance(found, ErrorTxn) else (None, found)
    assert isinstance(op, Create | SetData | Delete), op
    change = execution.execute_one(draft, act, op)
    zxid, time_ms = act.zxid, act.time_ms
    match change:
        case ErrorTxn():
            return change
        case CreateTxn():
            create_znode(draft, zxid, time_ms, change)
            size = len(change.value or b"")
            stat = Stat(
                zxid, zxid, time_ms, time_ms, 0, 0, 0, change.ephemeral_owner, size, 0, zxid
            )
            return change, OpDone(change.path, stat)
        case SetDataTxn():
            set_value(draft, zxid, time_ms, change)
            return change, OpDone("", change.stat)
        case _:
            delete_znode(draft, zxid, change.path)
            return change, OpDone("", None)


def _holds(znode: TrueZnode | None, compare: Compare) -> bool:
    field, holds = compare.field, _HOLDS[compare.relation]
    if field is CompareField.EXISTS:
        return bool(holds(int(znode is not None), compare.operand))
    if znode is None:
        return False
    value = {
        CompareField.VERSION: znode.version,
        CompareField.MZXID: znode.mzxid,
        CompareField.CZXID: znode.czxid,
        CompareField.VALUE: znode.value or b"",
        CompareField.NUM_CHILDREN: len(znode.children),
    }[field]
    return bool(holds(value, compare.operand))
