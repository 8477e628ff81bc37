"""Transactions of several operations: all or nothing, one zxid, conditions and two branches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.znodes.acl import Acl
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import CACHED_RESULTS_BYTES_MAX, Limits
from raykeeper.znodes.multi_preparer import OP_BYTES
from raykeeper.znodes.prep_request_processor import PrepRequestProcessor
from raykeeper.znodes.reads import reply_to_aux_read
from raykeeper.znodes.refusals import refused, refused_multi
from raykeeper.znodes.replies import MultiReadReply
from raykeeper.znodes.requests import (
    AddAuth,
    Check,
    CloseSession,
    Compare,
    CompareField,
    Create,
    CreateMode,
    Delete,
    Multi,
    MultiRead,
    ReadChildren,
    ReadData,
    ReadStat,
    Relation,
    SessionId,
    SetAcls,
    SetData,
    TxnOp,
    encode_op,
)
from raykeeper.znodes.snapshot import SnapshotLoader, SnapshotWalk
from raykeeper.znodes.state import State, outcome_of
from raykeeper.znodes.txns import (
    CloseReason,
    CloseSessionTxn,
    CreateTxn,
    DeleteTxn,
    MultiErrorTxn,
    MultiTxn,
    OpChildren,
    OpDone,
    OpFailed,
    OpStat,
    OpValue,
    SetDataTxn,
    TxnBody,
    decode_txn,
)
from raykeeper.znodes.znode import stat_of
from tests.unit.znodes.one_leader import OneLeader

EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.SEQUENTIAL


def multi(*ops: TxnOp) -> Multi:
    return Multi([], list(ops), [])


def begun(limits: Limits | None = None) -> tuple[OneLeader, SessionId]:
    """A tree with /a (value "v", version 1) and its child /a/b."""
    leader = OneLeader(limits)
    session = leader.open()
    leader.create(session, "/a", b"")
    leader.create(session, "/a/b", b"w")
    leader.set(session, "/a", b"v")
    return leader, session


def several(change: TxnBody) -> MultiTxn:
    assert isinstance(change, MultiTxn), change
    return change


def told(leader: OneLeader, session: SessionId) -> object:
    """What the client of the last write is told."""
    held = leader.state.sessions.by_id[session].reply_cache
    return list(held.values())[-1].results


def test_each_operation_sees_the_effects_of_earlier_ones() -> None:
    leader, session = begun()
    change = leader.do(
        session,
        multi(
            Create("/x", b"1", 0),
            SetData("/x", b"2", 0),
            Check("/x", 1),
            Create("/x/y-", b"", SEQUENTIAL),
            Create("/x/y-", b"", SEQUENTIAL | EPHEMERAL),
            Delete("/x/y-0000000000", 0),
            Delete("/a/b", -1),
            Delete("/a", 1),
            Create("/a", b"new", 0),
        ),
    )
    zxid = leader.zxid
    znodes = leader.state.tree.znodes
    assert [type(each) for each in several(change).changes] == [
        *(CreateTxn, SetDataTxn, CreateTxn, CreateTxn, DeleteTxn, DeleteTxn, DeleteTxn, CreateTxn)
    ]
    assert (znodes["/x"].value, znodes["/x"].version) == (b"2", 1)
    assert (znodes["/x"].czxid, znodes["/x"].mzxid, znodes["/x"].pzxid) == (zxid, zxid, zxid)
    assert sorted(znodes) == [
        *("/", "/a", "/x", "/x/y-0000000001"),
        *("/zookeeper", "/zookeeper/config", "/zookeeper/quota"),
    ]
    assert (znodes["/a"].value, znodes["/a"].version, znodes["/a"].child_create_count) == (
        b"new",
        0,
        0,
    )
    assert leader.state.tree.ephemerals == {session: {"/x/y-0000000001": None}}


def test_the_reply_has_the_result_of_each_operation() -> None:
    leader, session = begun()
    leader.do(
        session, multi(Create("/x-", b"", SEQUENTIAL), SetData("/a", b"", -1), Check("/a", 2))
    )
    znodes = leader.state.tree.znodes
    results = told(leader, session)
    assert results == several_results(
        OpDone("/x-0000000001", stat_of(znodes["/x-0000000001"])),
        OpDone("", stat_of(znodes["/a"])),
        OpDone("", None),
    )


def several_results(*results: object) -> object:
    from raykeeper.znodes.txns import MultiResults

    return MultiResults(True, list(results))  # type: ignore[arg-type]


FAILURES: list[tuple[list[TxnOp], int, Code]] = [
    ([Create("/x", b"", 0), Create("/a", b"", 0)], 1, Code.NODE_EXISTS),
    ([Create("/x", b"", 0), Create("/x", b"", 0)], 1, Code.NODE_EXISTS),
    ([Delete("/a/b", -1), Check("/a/b", -1), Delete("/a", -1)], 1, Code.NO_NODE),
    ([SetData("/a", b"", 1), SetData("/a", b"", 1)], 1, Code.BAD_VERSION),
    ([Delete("/a", -1)], 0, Code.NOT_EMPTY),
    ([Check("/a", 0)], 0, Code.BAD_VERSION),
    ([Check("no slash", 0)], 0, Code.BAD_ARGUMENTS),
    ([Create("/a/c", b"", SEQUENTIAL), ReadData("/none")], 1, Code.NO_NODE),
    (
        [Create("/a/c", b"", EPHEMERAL), Create("/a/c/d", b"", 0)],
        1,
        Code.NO_CHILDREN_FOR_EPHEMERALS,
    ),
    ([SetData("/zookeeper/config", b"", -1)], 0, Code.NO_AUTH),
    ([ReadStat("/a/")], 0, Code.BAD_ARGUMENTS),
]


@pytest.mark.parametrize("applied", [True, False], ids=["tree", "future"])
@pytest.mark.parametrize(("ops", "failed", "code"), FAILURES)
def test_the_first_failure_undoes_everything(
    ops: list[TxnOp], failed: int, code: Code, applied: bool
) -> None:
    leader, session = begun()
    leader.prepare(session, Create("/a/last", b"", SEQUENTIAL))
    if applied:
        leader.apply()
    change = leader.prepare(session, multi(*ops))
    why = refused(code, ops[failed])
    assert change == MultiErrorTxn(True, code, failed, len(ops), why.op, why.path)
    # The next number under the parent is what it would have been (ZOOKEEPER-1624).
    created = leader.prepare(session, Create("/a/c", b"", SEQUENTIAL))
    assert isinstance(created, CreateTxn) and created.path == "/a/c0000000002"
    closed = leader.prepare(session, CloseSession())
    assert closed == CloseSessionTxn(session, [], CloseReason.BY_CLIENT)
    leader.apply()
    assert len(leader.preparation._tree) == 0


def test_a_failure_is_reported_as_zookeeper_does() -> None:
    leader, session = begun()
    ops = [Create("/x", b"", 0), Create("/a", b"", 0), Create("/y", b"", 0), Check("/a", 9)]
    leader.do(session, multi(*ops))
    codes = [Code.OK, Code.NODE_EXISTS, Code.RUNTIME_INCONSISTENCY, Code.RUNTIME_INCONSISTENCY]
    assert told(leader, session) == several_results(*(OpFailed(code) for code in codes))
    outcome = leader.state.sessions.by_id[session].reply_cache[4]
    assert (outcome.code, outcome.zxid) == (Code.NODE_EXISTS, leader.zxid)


def test_closing_a_session_deletes_an_outstanding_ephemeral() -> None:
    leader, session = begun()
    leader.prepare(session, Create("/e", b"", EPHEMERAL))
    leader.prepare(session, multi(Delete("/e", -1), Create("/e", b"", 0)))
    assert leader.prepare(session, CloseSession()) == CloseSessionTxn(
        session, [], CloseReason.BY_CLIENT
    )


def test_an_empty_transaction_succeeds() -> None:
    leader, session = begun()
    assert leader.do(session, multi()) == MultiTxn(True, [], [])


COMPARES: list[tuple[str, CompareField, int | bytes, list[bool]]] = [
    # Equal, not equal, less, greater.
    ("/a", CompareField.VERSION, 1, [True, False, False, False]),
    ("/a", CompareField.VERSION, 0, [False, True, False, True]),
    ("/a", CompareField.VERSION, 2, [False, True, True, False]),
    ("/a", CompareField.VALUE, b"v", [True, False, False, False]),
    ("/a", CompareField.VALUE, b"z", [False, True, True, False]),
    ("/a", CompareField.VALUE, b"", [False, True, False, True]),
    ("/a", CompareField.EXISTS, 1, [True, False, False, False]),
    ("/none", CompareField.EXISTS, 0, [True, False, False, False]),
    ("/none", CompareField.EXISTS, 1, [False, True, True, False]),
    ("/a", CompareField.NUM_CHILDREN, 1, [True, False, False, False]),
    ("/a", CompareField.NUM_CHILDREN, 0, [False, True, False, True]),
    ("/a", CompareField.NUM_CHILDREN, 2, [False, True, True, False]),
    # Of what is not there nothing holds.
    ("/none", CompareField.VERSION, 1, [False, False, False, False]),
    ("/none", CompareField.VALUE, b"v", [False, False, False, False]),
    ("/none", CompareField.NUM_CHILDREN, 1, [False, False, False, False]),
]


@pytest.mark.parametrize(("path", "field", "operand", "holds"), COMPARES)
def test_each_condition_is_checked(
    path: str, field: CompareField, operand: int | bytes, holds: list[bool]
) -> None:
    leader, session = begun()
    for relation, held in zip(Relation, holds, strict=True):
        compare = Compare(path, field, relation, operand)
        change = leader.prepare(session, Multi([compare], [], []))
        assert several(change).is_then is held, relation


@pytest.mark.parametrize("field", [CompareField.CZXID, CompareField.MZXID])
def test_conditions_on_zxids_are_checked(field: CompareField) -> None:
    leader, session = begun()
    znode = leader.state.tree.znodes["/a"]
    right = znode.czxid if field is CompareField.CZXID else znode.mzxid
    for zxid, relation in ((right, "EQUAL"), (right + 1, "LESS"), (right - 1, "GREATER")):
        compare = Compare("/a", field, Relation[relation], zxid)
        assert several(leader.prepare(session, Multi([compare], [], []))).is_then


def test_a_condition_on_children_counts_outstanding_children() -> None:
    leader, session = begun()
    bound = Compare("/a", CompareField.NUM_CHILDREN, Relation.LESS, 3)
    place = Create("/a/s-", b"", SEQUENTIAL)
    taken = [leader.prepare(session, Multi([bound], [place], [])) for _ in range(4)]
    assert [several(change).is_then for change in taken] == [True, True, False, False]
    leader.prepare(session, Delete("/a/b", -1))
    assert several(leader.prepare(session, Multi([bound], [place], []))).is_then
    leader.apply()
    full = leader.prepare(session, Multi([bound], [place], []))
    assert not several(full).is_then


def test_unless_all_conditions_hold_the_other_branch_is_taken() -> None:
    leader, session = begun()
    good = Compare("/a", CompareField.VERSION, Relation.EQUAL, 1)
    bad = Compare("/a", CompareField.VERSION, Relation.EQUAL, 7)
    then: list[TxnOp] = [Create("/then", b"", 0)]
    otherwise: list[TxnOp] = [ReadData("/a"), ReadStat("/then"), ReadChildren("/a")]
    leader.prepare(session, Multi([good, bad], then, otherwise))
    leader.prepare(session, Multi([good, good], then, otherwise))
    leader.apply()
    outcomes = leader.state.sessions.by_id[session].reply_cache
    stat = stat_of(leader.state.tree.znodes["/a"])
    first, second = (outcomes[number].results for number in (4, 5))
    assert first is not None and second is not None
    assert (first.is_then, second.is_then) == (False, True)
    assert first.results == [OpValue(b"v", stat), OpStat(None), OpChildren(["b"], stat)]
    assert "/then" in leader.state.tree.znodes


def test_a_failing_branch_is_named() -> None:
    leader, session = begun()
    bad = Compare("/a", CompareField.VERSION, Relation.EQUAL, 7)
    change = leader.prepare(session, Multi([bad], [], [Check("/none", 0)]))
    assert change == MultiErrorTxn(False, Code.NO_NODE, 0, 1, 7, "/none")


@pytest.mark.parametrize(
    ("compare", "code"),
    [
        (Compare("/a", CompareField.VALUE, Relation.EQUAL, 1), Code.BAD_ARGUMENTS),
        (Compare("/a", CompareField.VERSION, Relation.EQUAL, b"1"), Code.BAD_ARGUMENTS),
        (Compare("/a/", CompareField.EXISTS, Relation.EQUAL, 0), Code.BAD_ARGUMENTS),
        (Compare("/secret", CompareField.VALUE, Relation.EQUAL, b""), Code.NO_AUTH),
    ],
)
def test_an_invalid_condition_is_refused(compare: Compare, code: Code) -> None:
    leader, session = begun()
    leader.do(session, AddAuth("digest", b"ann:pw"))
    leader.do(session, Create("/secret", b"", 0, [Acl(31, "auth", "")]))
    other = leader.open(2)
    assert leader.do(other, Multi([compare], [], [])) == refused_multi(code, compare.path)


def test_null_data_is_an_empty_value_to_a_condition() -> None:
    leader, session = begun()
    leader.do(session, SetData("/a", None, -1))
    compare = Compare("/a", CompareField.VALUE, Relation.EQUAL, b"")
    change = leader.do(session, Multi([compare], [ReadData("/a")], []))
    assert isinstance(change, MultiTxn) and change.is_then
    (read,) = change.results
    assert isinstance(read, OpValue) and (read.value, read.stat.data_length) == (None, 0)


def test_reads_in_a_branch_need_permission() -> None:
    leader, session = begun()
    leader.do(session, AddAuth("digest", b"ann:pw"))
    leader.do(session, SetAcls("/a", [Acl(31, "auth", "")], -1))
    other = leader.open(2)
    for op in (ReadData("/a"), ReadStat("/a"), ReadChildren("/a"), Check("/a", -1)):
        why = refused(Code.NO_AUTH, op)
        assert leader.do(other, multi(op)) == MultiErrorTxn(True, why.code, 0, 1, why.op, "/a")
        assert isinstance(leader.do(session, multi(op)), MultiTxn)


def test_a_list_contains_outstanding_children() -> None:
    leader, session = begun()
    leader.prepare(session, Create("/a/c", b"", 0))
    leader.prepare(session, Delete("/a/b", -1))
    change = leader.prepare(
        session, multi(Create("/a/d", b"", 0), Create("/a/d/x", b"", 0), ReadChildren("/a"))
    )
    last = several(change).results[-1]
    assert isinstance(last, OpChildren)
    assert (sorted(last.names), last.stat.num_children) == (["c", "d"], 2)


def test_reads_of_one_transaction_that_do_not_fit_are_refused() -> None:
    leader, session = begun(Limits(value_bytes_max=8 << 20))
    leader.set(session, "/a", bytes(3 << 20))
    version = leader.state.tree.znodes["/a/b"].version
    read, write = ReadData("/a"), SetData("/a/b", bytes(3 << 20), -1)
    assert leader.do(session, multi(write, read, read)) == refused_multi(Code.THROTTLED_OP)
    assert leader.state.tree.znodes["/a/b"].version == version
    assert isinstance(leader.do(session, multi(write, read, write)), MultiTxn)


def test_results_that_do_not_fit_are_refused_until_others_are_acknowledged() -> None:
    leader, session = begun(Limits(value_bytes_max=8 << 20))
    leader.set(session, "/a", bytes(3 << 20))
    read = multi(SetData("/a/b", b"", -1), ReadData("/a"))
    before = leader.preparation.last_number(session)
    assert before is not None
    for _ in range(CACHED_RESULTS_BYTES_MAX // (3 << 20)):
        assert isinstance(leader.do(session, read), MultiTxn)
    version = leader.state.tree.znodes["/a/b"].version
    assert leader.do(session, read) == refused_multi(Code.THROTTLED_OP)
    assert leader.state.tree.znodes["/a/b"].version == version
    leader.preparation = PrepRequestProcessor(
        leader.state, Limits()
    )  # a new leader knows what is held
    assert leader.do(session, read) == refused_multi(Code.THROTTLED_OP)
    assert isinstance(leader.do(session, read, acked=before + 1), MultiTxn)
    assert leader.do(session, read) == refused_multi(Code.THROTTLED_OP)


def test_results_of_writes_count() -> None:
    leader, session = begun()
    create = [[Create(f"/{n:{fill}>8000}", b"", 0) for n in range(1_000)] for fill in "xyz"]
    for some in create[: CACHED_RESULTS_BYTES_MAX // (8_000 * 1_000)]:
        assert isinstance(leader.do(session, multi(*some)), MultiTxn)
    before = leader.state.tree.digest
    assert leader.do(session, multi(*create[-1])) == refused_multi(Code.THROTTLED_OP)
    assert leader.state.tree.digest == before


def test_aborted_results_count() -> None:
    limits = Limits(value_bytes_max=8 << 20, transaction_ops_max=100_000)
    leader, session = begun(limits)
    leader.set(session, "/a", bytes(3 << 20))
    for _ in range(CACHED_RESULTS_BYTES_MAX // (3 << 20)):
        assert isinstance(leader.do(session, multi(ReadData("/a"))), MultiTxn)
    aborted = multi(Check("/none", -1), *[Check("/a", -1)] * 99_999)
    room = CACHED_RESULTS_BYTES_MAX % (3 << 20)
    for _ in range(room // (100_000 * OP_BYTES)):
        assert isinstance(leader.do(session, aborted), MultiErrorTxn)
    assert leader.do(session, aborted) == refused_multi(Code.THROTTLED_OP)
    leader.preparation = PrepRequestProcessor(leader.state, limits)
    assert leader.do(session, aborted) == refused_multi(Code.THROTTLED_OP)


def test_a_transaction_is_bounded_in_bytes() -> None:
    op = multi(Create("/x", bytes(100), 0), Create("/y", bytes(100), 0))
    size = len(encode_op(op))
    for most, code in ((size, Code.OK), (size - 1, Code.BAD_ARGUMENTS)):
        leader, session = begun(Limits(transaction_bytes_max=most))
        change = leader.do(session, op)
        assert change == refused_multi(code) if code else isinstance(change, MultiTxn)


def test_a_transaction_is_bounded_in_operations() -> None:
    leader, session = begun(Limits(transaction_ops_max=2, request_bytes_max=1))
    check = Check("/a", -1)
    compare = Compare("/a", CompareField.EXISTS, Relation.EQUAL, 1)
    assert isinstance(leader.do(session, Multi([compare] * 2, [check] * 2, [])), MultiTxn)
    for wrong in (
        Multi([compare] * 3, [], []),
        Multi([], [check] * 3, []),
        Multi([], [], [check] * 3),
    ):
        assert leader.do(session, wrong) == refused_multi(Code.BAD_ARGUMENTS)


def test_several_reads_see_one_state() -> None:
    leader, session = begun()
    state = leader.state
    record = state.sessions.by_id[session]
    ops = [
        ReadData("/a"),
        ReadData("/none"),
        ReadStat("/none"),
        ReadChildren("/a/"),
        ReadChildren("/a"),
    ]
    stat = stat_of(state.tree.znodes["/a"])
    assert reply_to_aux_read(state, record, MultiRead(9, ops)) == MultiReadReply(
        9,
        state.zxid,
        [
            OpValue(b"v", stat),
            OpFailed(Code.NO_NODE),
            OpStat(None),
            OpFailed(Code.BAD_ARGUMENTS),
            OpChildren(["b"], stat),
        ],
    )


PATHS = ["/a", "/b", "/a/x", "/a/y", "/b/x"]
OPS: st.SearchStrategy[TxnOp] = st.one_of(
    st.builds(Create, st.sampled_from(PATHS), st.binary(max_size=2), st.sampled_from([0, 0, 1, 2])),
    st.builds(Delete, st.sampled_from(PATHS), st.just(-1)),
    st.builds(SetData, st.sampled_from(PATHS), st.binary(max_size=2), st.just(-1)),
)


STEPS = st.tuples(st.booleans(), st.lists(OPS, max_size=3))


@given(st.lists(STEPS, max_size=16), st.integers(0, 12), st.integers(1, 3))
def test_a_replay_over_a_fuzzy_snapshot_ends_in_the_same_state(
    history: list[tuple[bool, list[TxnOp]]], begin: int, chunks_each: int
) -> None:
    leader = OneLeader()
    session = leader.open()
    fuzzy, loader = None, SnapshotLoader()
    since = leader.state.zxid
    for place, (is_one, ops) in enumerate(history):
        if place == begin:
            fuzzy, since = SnapshotWalk(leader.state, 1), leader.state.zxid
        for op in [multi(*ops)] if is_one else ops:
            leader.prepare(session, op)
        leader.apply()
        for _ in range(chunks_each if fuzzy is not None else 0):
            if fuzzy is not None and (chunk := fuzzy.next_chunk()) is not None:
                loader.load(chunk)
    if fuzzy is None:
        return
    while (chunk := fuzzy.next_chunk()) is not None:
        loader.load(chunk)
    loaded: State = loader.finish(since, leader.state.zxid)
    for zxid, data in leader.log:
        if zxid > since:
            loaded.apply(zxid, data)
            assert outcome_of(zxid, decode_txn(data)).zxid == zxid
    assert loaded.digest() == leader.state.digest()
    assert loaded.tree.znodes.keys() == leader.state.tree.znodes.keys()
    assert loaded.tree.ephemerals == leader.state.tree.ephemerals
