"""What a transaction of several operations must become: all of a branch, or nothing.

Each operation sees what those before it leave, on copies of the few znodes it can touch.
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
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    Transaction,
    TxnOp,
    WriteOp,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    Aborted,
    Change,
    Created,
    DataSet,
    Deleted,
    OpChildren,
    OpDone,
    OpFailed,
    OpResult,
    OpStat,
    OpValue,
    Refused,
    Results,
    Several,
)
from tests.simulation.checks import access, execution
from tests.simulation.checks.truth import TrueZnode, parent, plant, refill, uproot

if TYPE_CHECKING:
    from tests.simulation.checks.execution import Act

_HOLDS = {
    Relation.EQUAL: eq,
    Relation.NOT_EQUAL: ne,
    Relation.LESS: lt,
    Relation.GREATER: gt,
}
Done = tuple[Created | DataSet | Deleted | None, OpResult]


def execute(znodes: dict[str, TrueZnode], act: "Act", op: Transaction) -> Change:
    """What it does to these znodes, which stay as they are."""
    is_then = True
    for compare in op.compares:
        znode = znodes.get(compare.path)
        if znode is not None and not access.may(znode.acls, act.who, access.READ):
            return execution.refused(Code.NO_AUTH)
        is_then = is_then and _holds(znode, compare)
    ops = op.then if is_then else op.otherwise
    draft = dict(znodes)
    changes: list[Created | Deleted | DataSet] = []
    results: list[OpResult] = []
    for place, each in enumerate(ops):
        for path in (each.path, parent(each.path)):
            if (znode := draft.get(path)) is not None:
                draft[path] = replace(znode, children=set(znode.children))
        done = _one(draft, act, each)
        if isinstance(done, Refused):
            return Aborted(is_then, done.code, place, len(ops))
        change, result = done
        if change is not None:
            changes.append(change)
        results.append(result)
    return Several(is_then, changes, results)


def changes_of(change: Change) -> list[Change]:
    """Each by itself, in their order."""
    return list(change.changes) if isinstance(change, Several) else [change]


def numbered(op: WriteOp, change: Change) -> list[str]:
    """The sequential znodes that are made under parents that were there before."""
    ops = [*op.then, *op.otherwise] if isinstance(op, Transaction) else [op]
    prefixes = {each.path for each in ops if execution.is_sequential(each)}
    changes = changes_of(change)
    renewed = {each.path for each in changes if isinstance(each, Created | Deleted)}
    return [
        each.path
        for each in changes
        if isinstance(each, Created)
        and each.path[:-10] in prefixes
        and parent(each.path) not in renewed
    ]


def told(change: Several | Aborted) -> Results:
    """What the client is told of each operation."""
    if isinstance(change, Several):
        return Results(change.is_then, change.results)
    codes = [0] * change.failed + [change.code] + [-2] * (change.count - change.failed - 1)
    return Results(change.is_then, [OpFailed(code) for code in codes])


def in_order(change: Several) -> Several:
    """The same; names of children have no order."""
    return replace(change, results=[sorted_names(result) for result in change.results])


def sorted_names(result: OpResult) -> OpResult:
    """The same; names of children have no order."""
    if isinstance(result, OpChildren):
        return OpChildren(sorted(result.names), result.stat)
    return result


def read(
    znodes: dict[str, TrueZnode], act: "Act", op: ReadData | ReadStat | ReadChildren
) -> OpResult | Refused:
    """What a read finds among these znodes."""
    znode = znodes.get(op.path)
    if znode is None:
        return OpStat(None) if isinstance(op, ReadStat) else execution.refused(Code.NO_NODE)
    if not access.may(znode.acls, act.who, access.READ):
        return execution.refused(Code.NO_AUTH)
    if isinstance(op, ReadStat):
        return OpStat(znode.stat())
    if isinstance(op, ReadData):
        return OpValue(znode.value, znode.stat())
    return OpChildren(sorted(znode.children), znode.stat())


def _one(draft: dict[str, TrueZnode], act: "Act", op: TxnOp) -> Done | Refused:
    """Do one operation to the draft."""
    if isinstance(op, Check):
        return execution.check(draft, act, op) or (None, OpDone("", None))
    if isinstance(op, ReadData | ReadStat | ReadChildren):
        found = read(draft, act, op)
        return found if isinstance(found, Refused) else (None, found)
    assert isinstance(op, Create | SetData | Delete), op
    change = execution.execute_one(draft, act, op)
    zxid, time_ms = act.zxid, act.time_ms
    match change:
        case Refused():
            return change
        case Created():
            plant(draft, zxid, time_ms, change)
            size = len(change.value)
            stat = Stat(zxid, zxid, time_ms, time_ms, 0, 0, 0, change.owner, size, 0, zxid)
            return change, OpDone(change.path, stat)
        case DataSet():
            refill(draft, zxid, time_ms, change)
            return change, OpDone("", change.stat)
        case _:
            uproot(draft, zxid, change.path)
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
        CompareField.VALUE: znode.value,
        CompareField.NUM_CHILDREN: len(znode.children),
    }[field]
    return bool(holds(value, compare.operand))
