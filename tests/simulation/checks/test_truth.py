"""The truth compared with the naive keeper, and the transaction that a request must become."""

from collections.abc import Callable
from random import Random

import pytest

from raykeeper.zab.ids import Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import (
    Check,
    CloseSession,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    Multi,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    SessionId,
    SetData,
    TxnOp,
    WriteOp,
)
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiResults,
    MultiTxn,
    OpDone,
    OpFailed,
    OpStat,
    OpValue,
    SetDataTxn,
    Txn,
    TxnBody,
)
from tests.model.naive_keeper import NaiveKeeper
from tests.simulation.checks import execution, multi_execution
from tests.simulation.checks.truth import Truth

PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/x"]


def z(counter: int) -> Zxid:
    return make_zxid(Epoch(1), counter)


def opened(counter: int) -> Txn:
    change = CreateSessionTxn(SessionId(z(counter)), b"p" * 16, Millis(1), ServerId(1), 1)
    return Txn(SessionId(0), 0, 0, Millis(counter), change)


def begin(*ops: WriteOp) -> tuple[Truth, Zxid]:
    """Return a session and its writes, as they must become, and the zxid after them."""
    truth = Truth()
    truth.apply(z(1), opened(1))
    for number, op in enumerate(ops, 1):
        zxid = z(number + 1)
        change = execution.execute(truth, zxid, Millis(number), SessionId(z(1)), op)
        truth.apply(zxid, Txn(SessionId(z(1)), number, 0, Millis(number), change))
    return truth, z(len(ops) + 2)


def draw(random: Random, count: int) -> WriteOp:
    path, version = random.choice(PATHS), random.choice([-1, 0, 1])
    flags = random.choice([0, 0, CreateMode.EPHEMERAL, CreateMode.SEQUENTIAL])
    value = b"%d" % count
    return random.choice(
        [Create(path, value, flags), SetData(path, value, version), Delete(path, version)]
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_truth_equals_the_naive_keeper(seed: int) -> None:
    random, keeper, truth = Random(seed), NaiveKeeper(), Truth()
    session_id = SessionId(z(1))
    truth.apply(z(1), opened(1))
    keeper.open(z(1), session_id, 1)
    for number in range(1, 80):
        zxid, time_ms, op = z(number + 1), Millis(number), draw(random, number)
        change = execution.execute(truth, zxid, time_ms, session_id, op)
        expected = keeper.write(zxid, time_ms, session_id, number, 0, op)
        assert getattr(change, "code", 0) == expected.code
        truth.apply(zxid, Txn(session_id, number, 0, time_ms, change))
        assert truth.znodes.keys() == keeper.nodes.keys()
        for path in truth.znodes:
            was = truth.at(path, zxid)
            assert was is not None
            assert was.value == keeper.nodes[path].value
            fields = [getattr(was.stat, name) for name in was.stat.__struct_fields__]
            assert fields == list(keeper.stat(path)) or path in ("/", "/zookeeper"), path
    closed = execution.execute(truth, z(90), Millis(90), session_id, CloseSession())
    assert isinstance(closed, CloseSessionTxn)
    assert closed.ephemerals == keeper.close(z(90), session_id)


def test_the_truth_knows_the_past() -> None:
    truth, _ = begin(Create("/a", b"0", 0), SetData("/a", b"1", -1), Delete("/a", -1))
    assert truth.at("/a", z(1)) is None
    made, changed = truth.at("/a", z(2)), truth.at("/a", z(3))
    assert made is not None and made.value == b"0"
    assert changed is not None and (changed.value, changed.stat.version) == (b"1", 1)
    assert truth.at("/a", z(4)) is None
    assert not truth.is_ever_missing("/a", z(2), z(3))
    assert truth.is_ever_missing("/a", z(2), z(4)) and truth.is_ever_missing("/a", z(1), z(2))
    root = truth.at("/", z(2))
    assert root is not None and root.stat.pzxid == z(2)


def test_the_truth_knows_the_events_of_watches() -> None:
    truth, _ = begin(
        Create("/a", b"", 0), Create("/a/x", b"", 0), SetData("/a", b"", -1), Delete("/a/x", -1)
    )
    (data,) = truth.triggers("/a", is_child=False, after=z(2))
    (child,) = truth.triggers("/a", is_child=True, after=z(3), upto=z(5))
    assert (data.zxid, data.kind) == (z(4), EventType.CHANGED)
    assert (child.zxid, child.kind) == (z(5), EventType.CHILD)
    assert truth.triggers("/a", is_child=True, after=z(5)) == []
    assert truth.triggers("/none", is_child=True, after=z(0)) == []
    (gone,) = truth.triggers("/a/x", is_child=False, after=z(4))
    assert (gone.kind, gone.old, gone.new) == (EventType.DELETED, truth.at("/a/x", z(4)), None)


def multi(*ops: TxnOp) -> Multi:
    return Multi([], list(ops), [])


A, EPHEMERAL = Create("/a", b"0", 0), Create("/a", b"0", CreateMode.EPHEMERAL)
MADE = CreateTxn("/a", b"0", SessionId(0), 1)

WRONG: list[tuple[list[WriteOp], WriteOp, TxnBody]] = [
    # An error without a reason, and a reason without an error.
    ([], A, ErrorTxn(Code.NODE_EXISTS, 1, "/a")),
    ([A], A, CreateTxn("/a", b"0", SessionId(0), 2)),
    ([], Create("/a/x", b"", 0), CreateTxn("/a/x", b"", SessionId(0), 1)),
    ([EPHEMERAL], Create("/a/x", b"", 0), CreateTxn("/a/x", b"", SessionId(0), 1)),
    ([A, Create("/a/x", b"", 0)], Delete("/a", -1), DeleteTxn("/a")),
    ([A], Delete("/a", 1), DeleteTxn("/a")),
    ([A], Delete("/a", 0), ErrorTxn(Code.BAD_VERSION, 2, "/a")),
    ([A], SetData("/a", b"", 3), ErrorTxn(Code.NO_NODE, 3, "/a")),
    # Another request or path than that of the refused one.
    ([A], SetData("/a", b"", 3), ErrorTxn(Code.BAD_VERSION, 2, "/a")),
    ([A], SetData("/a", b"", 3), ErrorTxn(Code.BAD_VERSION, 3, "/b")),
    # Another path, value, owner, counter, or znode.
    ([], A, CreateTxn("/b", b"0", SessionId(0), 1)),
    ([], A, CreateTxn("/a", b"1", SessionId(0), 1)),
    ([], A, CreateTxn("/a", b"0", SessionId(z(1)), 1)),
    ([], A, CreateTxn("/a", b"0", SessionId(0), 2)),
    ([], EPHEMERAL, MADE),
    ([A], Delete("/a", -1), DeleteTxn("/b")),
    ([], Create("/s-", b"", 2), CreateTxn("/s-0000000001", b"", SessionId(0), 1)),
    # The end of a session deletes all its ephemerals and nothing else.
    ([EPHEMERAL], CloseSession(), CloseSessionTxn(SessionId(z(1)), [], 1)),
    ([A], CloseSession(), CloseSessionTxn(SessionId(z(1)), ["/a"], 1)),
    ([A], CloseSession(), CloseSessionTxn(SessionId(z(1)), [], 2)),
    # Multis: only one operation done, more than none, another branch, another failure.
    ([], multi(A, Delete("/b", -1)), MultiTxn(True, [MADE], [OpDone("/a", None)])),
    ([], multi(A, Delete("/b", -1)), MultiErrorTxn(True, Code.NO_NODE, 0, 2, 1, "/a")),
    ([], multi(A, Delete("/b", -1)), MultiErrorTxn(True, Code.NODE_EXISTS, 1, 2, 2, "/b")),
    ([], multi(Check("/a", -1)), MultiTxn(True, [], [OpDone("", None)])),
    ([A], multi(ReadStat("/a")), MultiTxn(True, [], [OpStat(None)])),
    ([A], multi(ReadStat("/a")), MultiTxn(False, [], [])),
    ([A], multi(Delete("/a", -1), A), MultiTxn(True, [DeleteTxn("/a")], [OpDone("", None)])),
]


@pytest.mark.parametrize(("ops", "op", "became"), WRONG)
def test_a_write_that_became_another_transaction_is_named(
    ops: list[WriteOp], op: WriteOp, became: TxnBody
) -> None:
    truth, zxid = begin(*ops)
    due = execution.execute(truth, zxid, Millis(50), SessionId(z(1)), op)
    right = Txn(SessionId(z(1)), len(ops) + 1, 0, Millis(50), due)
    execution.refusals_are_justified(truth, zxid, right, op)
    wrong = Txn(SessionId(z(1)), len(ops) + 1, 0, Millis(50), became)
    with pytest.raises(AssertionError, match=r"^Execution: "):
        execution.refusals_are_justified(truth, zxid, wrong, op)


def done(op: Multi, *before: WriteOp) -> MultiTxn | MultiErrorTxn:
    truth, zxid = begin(*before)
    change = execution.execute(truth, zxid, Millis(50), SessionId(z(1)), op)
    assert isinstance(change, MultiTxn | MultiErrorTxn)
    return change


def test_each_operation_of_a_multi_sees_the_effects_of_earlier_ones() -> None:
    visits = multi(A, SetData("/a", b"1", 0), ReadData("/a"), Delete("/a", 1), ReadStat("/a"))
    change = done(visits)
    assert isinstance(change, MultiTxn)
    assert [type(each) for each in change.changes] == [CreateTxn, SetDataTxn, DeleteTxn]
    value = change.results[2]
    assert isinstance(value, OpValue)
    assert (value.value, value.stat.version, value.stat.czxid) == (b"1", 1, z(2))
    assert change.results[4] == OpStat(None)
    truth, zxid = begin()
    truth.apply(zxid, Txn(SessionId(z(1)), 1, 0, Millis(50), change))
    root = truth.at("/", zxid)
    assert truth.at("/a", zxid) is None
    assert root is not None and (root.stat.num_children, root.stat.cversion) == (1, 1)


def test_an_aborted_multi_reports_each_operation() -> None:
    change = done(multi(A, Check("/a", 7), ReadChildren("/")))
    assert change == MultiErrorTxn(True, Code.BAD_VERSION, 1, 3, 7, "/a")
    assert multi_execution.told(change) == MultiResults(
        True, [OpFailed(0), OpFailed(Code.BAD_VERSION), OpFailed(-2)]
    )


@pytest.mark.parametrize(
    ("compare", "is_then"),
    [
        (Compare("/a", CompareField.VERSION, Relation.EQUAL, 0), True),
        (Compare("/a", CompareField.VERSION, Relation.GREATER, 0), False),
        (Compare("/a", CompareField.VALUE, Relation.NOT_EQUAL, b"1"), True),
        (Compare("/a", CompareField.VALUE, Relation.LESS, b"0"), False),
        (Compare("/a", CompareField.CZXID, Relation.EQUAL, z(2)), True),
        (Compare("/a", CompareField.MZXID, Relation.LESS, z(2)), False),
        (Compare("/a", CompareField.EXISTS, Relation.EQUAL, 1), True),
        (Compare("/b", CompareField.EXISTS, Relation.EQUAL, 0), True),
        (Compare("/b", CompareField.VERSION, Relation.NOT_EQUAL, 0), False),
        (Compare("/", CompareField.NUM_CHILDREN, Relation.EQUAL, 2), True),
        (Compare("/a", CompareField.NUM_CHILDREN, Relation.LESS, 0), False),
    ],
)
def test_conditions_choose_the_branch(compare: Compare, is_then: bool) -> None:
    change = done(Multi([compare], [ReadStat("/a")], [ReadData("/b")]), A)
    assert change.is_then == is_then
    assert isinstance(change, MultiTxn if is_then else MultiErrorTxn)


def test_a_set_returns_the_whole_stat() -> None:
    truth, zxid = begin(A)
    op = SetData("/a", b"11", 0)
    due = execution.execute(truth, zxid, Millis(50), SessionId(z(1)), op)
    assert isinstance(due, SetDataTxn)
    for field in due.stat.__struct_fields__:
        fields = {n: getattr(due.stat, n) for n in due.stat.__struct_fields__}
        fields[field] += 1
        wrong = Txn(
            SessionId(z(1)), 2, 0, Millis(50), SetDataTxn("/a", b"11", type(due.stat)(**fields))
        )
        with pytest.raises(AssertionError, match=r"^Execution: "):
            execution.refusals_are_justified(truth, zxid, wrong, op)


def _session(truth: Truth) -> SessionId:
    return next(iter(truth.sessions))


def _ends_with(ephemerals: list[str]) -> None:
    truth, _ = begin(EPHEMERAL)
    session = truth.sessions[_session(truth)]
    execution.ephemerals_end_with_their_session(
        session, CloseSessionTxn(SessionId(z(1)), ephemerals)
    )


BROKEN: list[tuple[str, Callable[[], object]]] = [
    ("Ephemerals", lambda: _ends_with([])),
    ("Ephemerals", lambda: _ends_with(["/a", "/b"])),
    ("Ephemerals", lambda: _ends_with(["/a", "/a"])),
    (
        "Execution",
        lambda: execution.is_the_leaders_own(
            Truth(), Zxid(1), Txn(SessionId(0), 0, 0, Millis(0), MADE)
        ),
    ),
    (
        "Execution",
        lambda: execution.times_never_go_back(
            begin(A, A, A)[0], Txn(SessionId(0), 0, 0, Millis(2), MADE)
        ),
    ),
]


@pytest.mark.parametrize(("name", "breaks"), BROKEN)
def test_a_broken_promise_is_named(name: str, breaks: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=f"^{name}: "):
        breaks()


def test_kept_promises_pass() -> None:
    _ends_with(["/a"])
    execution.is_the_leaders_own(Truth(), Zxid(1), opened(1))
    execution.times_never_go_back(begin(A)[0], opened(1))
