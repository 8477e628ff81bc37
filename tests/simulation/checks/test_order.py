"""The recorded history of a run has one order, and only the actual outcomes explain it."""

import pytest

from raykeeper.chaos.checks.history import Call, Ok, Operation, Read, ReadKind, Result
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import (
    Compare,
    CompareField,
    Multi,
    ReadData,
    ReadStat,
    Relation,
    SetData,
    TxnOp,
)
from raykeeper.znodes.txns import MultiResults, OpDone, OpFailed, OpStat, OpValue
from tests.simulation.checks import multi_history
from tests.simulation.checks.history_recorder import history_keeps_its_promises
from tests.simulation.checks.session_view import PendingRequest, SessionView, Told
from tests.simulation.checks.test_clients import FIRST, MADE, SECOND, client, told, z


def nothing(_seen: SessionView, _number: int) -> Told | None:
    """Say that no write was done."""
    return None


def the_first(_seen: SessionView, number: int) -> Told | None:
    """Say that only the first write was done."""
    return told(3) if number == 1 else None


def run(*operations: tuple[Call, int, int, Result]) -> SessionView:
    seen = client()
    for number, (call, called, returned, result) in enumerate(operations, 1):
        seen.operations.append(Operation("c1", 1, number, called, call, returned, result))
    return seen


def test_the_whole_order_is_checked() -> None:
    get = Read("/a", ReadKind.GET, is_synced=True)
    made = (MADE, 1, 2, Ok(path="/a"))
    right = run(made, (get, 3, 4, Ok(value=b"0", stat=FIRST.stat)))
    assert history_keeps_its_promises([right], nothing).steps == 2
    wrong = run(made, (get, 3, 4, Ok(value=b"1", stat=FIRST.stat)))
    with pytest.raises(AssertionError, match=r"^Linearizability: /a: no order explains"):
        history_keeps_its_promises([wrong], nothing)


def test_an_unanswered_request_is_checked_by_its_outcome() -> None:
    get = Read("/a", ReadKind.GET, is_synced=True)
    seen = run((get, 3, 4, Ok(value=b"0", stat=FIRST.stat)))
    for number in (1, 2):
        lost = Operation("c2", 1, number, number, MADE)
        other = client(name="c2", operations=[lost])
        other.done_at.extend([2, 2])
        other.unknown.append(PendingRequest(MADE, number, z(1), operation=lost))
        if number == 1:
            history_keeps_its_promises([seen, other], the_first)
        else:  # it had no effect
            with pytest.raises(AssertionError, match=r"^Linearizability: "):
                history_keeps_its_promises([seen, other], the_first)


def test_the_reply_of_a_multi_is_part_of_the_order() -> None:
    """A committed multi is one step; an aborted one tells which condition failed."""
    ops: list[TxnOp] = [SetData("/a", b"1", 0), ReadData("/a")]
    set_at = OpDone("", SECOND.stat)
    compare = Compare("/a", CompareField.VALUE, Relation.EQUAL, b"0")
    ask = Multi([compare], ops, [ReadStat("/a")])
    right = MultiResults(True, [set_at, OpValue(b"1", SECOND.stat)])
    made = (MADE, 1, 2, Ok(path="/a"))
    said = multi_history.said_by(ask, 0, right)
    assert said is not None
    both = run(made, (said[0], 3, 4, said[1]))
    history_keeps_its_promises([both], nothing)
    wrong: list[tuple[int, MultiResults]] = [
        (0, MultiResults(True, [set_at, OpValue(b"0", SECOND.stat)])),
        (0, MultiResults(False, [OpStat(None)])),
        (Code.NO_NODE, MultiResults(True, [OpFailed(Code.NO_NODE), OpFailed(-2)])),
        (Code.NO_NODE, MultiResults(True, [OpFailed(0), OpFailed(Code.NO_NODE)])),
    ]
    for code, results in wrong[:3]:
        said = multi_history.said_by(ask, code, results)
        assert said is not None
        with pytest.raises(AssertionError, match=r"^Linearizability: "):
            history_keeps_its_promises([run(made, (said[0], 3, 4, said[1]))], nothing)
    # The checker does not know what another operation of the same branch would have left.
    assert multi_history.said_by(ask, *wrong[3]) is None
    assert multi_history.said_by(ask, Code.NO_AUTH, None) is None
