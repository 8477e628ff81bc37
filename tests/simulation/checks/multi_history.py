"""The evidence in a multi's answer for the linearizability check.

A multi that was done counts as its operations in one step, after the conditions of `then` on values
and existence. An aborted one tells why an operation failed, if the operations before it in the same
branch did not change what that operation depends on.
"""

from raykeeper.chaos.checks.history import Call, MultiCall, Ok, Read, ReadKind, Refused, Result
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import (
    Check,
    Compare,
    CompareField,
    Create,
    Delete,
    Multi,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    TxnOp,
)
from raykeeper.znodes.txns import MultiResults, OpDone, OpFailed, OpResult, OpStat, OpValue
from tests.simulation.checks.truth import parent

Part = tuple[Create | SetData | Delete | Read, Ok]


def said_by(ask: Multi, code: int, results: MultiResults | None) -> tuple[Call, Result] | None:
    """Return a call and its result with the same evidence; None if there is none."""
    if results is None:  # refused before any operation was examined
        return None
    ops = ask.then if results.is_then else ask.otherwise
    if code:
        return _said_by_failure(ops, code, results.results)
    parts: list[Part] = []
    if results.is_then:
        parts += [part for compare in ask.compares for part in _of_compare(compare)]
    for op, result in zip(ops, results.results, strict=True):
        parts += _of(op, result)
    return MultiCall([call for call, _ in parts]), Ok(parts=[said for _, said in parts])


def _said_by_failure(
    ops: list[TxnOp], code: int, results: list[OpResult]
) -> tuple[Call, Result] | None:
    codes = [each.code for each in results if isinstance(each, OpFailed)]
    place = next(place for place, each in enumerate(codes) if each)
    op = ops[place]
    near = {op.path, parent(op.path)}
    is_untouched = not any(each.path in near or parent(each.path) in near for each in ops[:place])
    if is_untouched and isinstance(op, Create | SetData | Delete):
        return op, Refused(code)
    if is_untouched and isinstance(op, ReadData) and code == Code.NO_NODE:
        return Read(op.path, ReadKind.GET, is_synced=True), Refused(code)
    return None


def _of_compare(compare: Compare) -> list[Part]:
    if compare.relation is not Relation.EQUAL:
        return []
    if compare.field is CompareField.VALUE:
        assert isinstance(compare.operand, bytes)
        read = Read(compare.path, ReadKind.GET, is_synced=True)
        return [(read, Ok(value=compare.operand))]
    if compare.field is CompareField.EXISTS:
        kind = ReadKind.GET if compare.operand else ReadKind.EXISTS
        return [(Read(compare.path, kind, is_synced=True), Ok())]
    return []


def _of(op: TxnOp, result: OpResult) -> list[Part]:
    if isinstance(op, Create | SetData | Delete):
        assert isinstance(result, OpDone), result
        return [(op, Ok(path=result.path, stat=result.stat))]
    if isinstance(result, OpValue):
        read = Read(op.path, ReadKind.GET, is_synced=True)
        return [(read, Ok(value=result.value or b"", stat=result.stat))]
    if isinstance(op, ReadStat):
        assert isinstance(result, OpStat), result
        return [(Read(op.path, ReadKind.EXISTS, is_synced=True), Ok(stat=result.stat))]
    if isinstance(op, Check):
        return [(Read(op.path, ReadKind.GET, is_synced=True), Ok())]
    return []
