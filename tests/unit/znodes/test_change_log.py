"""History: what is kept of it within its bounds, and how far back it can be trusted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.zab.ids import Zxid
from raykeeper.znodes.change_log import (
    CHANGE_OVERHEAD_BYTES,
    CHANGED,
    SEGMENT_MAX,
    SEGMENTS_MIN,
    ChangeLog,
    EventContents,
    ZnodeChange,
)
from raykeeper.znodes.requests import Create, Delete, Multi, SetData
from tests.unit.znodes.one_leader import OneLeader

SIZE = CHANGE_OVERHEAD_BYTES + len("/a")
TXN_MAX = 9


def changes(count: int) -> tuple[OneLeader, list[list[ZnodeChange]]]:
    """Of one znode each."""
    leader = OneLeader()
    session = leader.open()
    leader.create(session, "/a")
    leader.changes.clear()
    for _ in range(count):
        leader.set(session, "/a", b"value")
    return leader, leader.changes


def zxids(txns: list[list[ZnodeChange]] | None) -> list[Zxid] | None:
    return None if txns is None else [txn[0].zxid for txn in txns]


@pytest.mark.parametrize(("count_max", "bytes_max"), [(3, 1 << 30), (100, 4 * SIZE - 1)])
def test_the_log_keeps_the_newest_changes_and_knows_its_start(
    count_max: int, bytes_max: int
) -> None:
    _, transactions = changes(5)
    first = transactions[0][0].zxid
    history = ChangeLog(Zxid(first - 1), count_max, bytes_max)
    for each in transactions:
        history.pending += each
        history.keep_pending()
    assert (len(history), history.bytes, history.floor) == (3, 3 * SIZE, first + 1)
    assert history.changes_after(first, {"/a"}, ()) is None
    assert zxids(history.changes_after(Zxid(first + 1), {"/a"}, ())) == [
        first + 2,
        first + 3,
        first + 4,
    ]
    assert history.changes_after(Zxid(first + 4), {"/a"}, ()) == []


def test_a_transaction_beyond_the_bounds_is_not_kept() -> None:
    leader = OneLeader()
    session = leader.open()
    before = leader.zxid
    leader.do(session, Multi([], [Create(f"/{name}", b"", 0) for name in "abc"], []))
    history = ChangeLog(Zxid(0), 2, 1 << 30)
    history.pending += leader.changes[-1]
    history.keep_pending()
    assert (len(history), history.bytes, history.floor) == (0, 0, leader.zxid)
    assert history.changes_after(before, {"/b", "/c"}, ()) is None
    assert history.changes_after(leader.zxid, {"/b", "/c"}, ()) == []


@given(
    st.lists(st.lists(st.integers(1, TXN_MAX), max_size=40), max_size=60),
    st.integers(0, 400),
    st.integers(0, 400 * SIZE),
)
def test_changes_are_forgotten_in_segments_of_whole_transactions(
    settled: list[list[int]], count_max: int, bytes_max: int
) -> None:
    """Each number is of a transaction, how much it does."""
    history = ChangeLog(Zxid(0), count_max, bytes_max)
    zxids_of: list[int] = []
    zxid = 0
    for sizes in settled:
        for size in sizes:
            zxid += 1
            zxids_of += [zxid] * size
            history.pending += [ZnodeChange(CHANGED, Zxid(zxid), "/a", None) for _ in range(size)]
        history.keep_pending()
        assert len(history) <= count_max and history.bytes == len(history) * SIZE <= bytes_max
        assert len(history) == sum(zxid > history.floor for zxid in zxids_of)
        kept_max = min(count_max, bytes_max // SIZE)
        run = kept_max // SEGMENTS_MIN
        assert len(history) >= min(len(zxids_of), kept_max - 3 * run - 2 * TXN_MAX)
    txns = history.changes_after(history.floor, {"/a"}, ())
    assert txns is not None
    assert [each.zxid for txn in txns for each in txn] == [z for z in zxids_of if z > history.floor]
    assert history.floor == 0 or history.changes_after(Zxid(history.floor - 1), {"/a"}, ()) is None


def test_a_long_replay_is_kept_up_to_the_bound() -> None:
    history = ChangeLog(Zxid(0), 50_000, 1 << 30)
    history.pending += [ZnodeChange(CHANGED, Zxid(zxid), "/a", None) for zxid in range(1, 60_001)]
    history.keep_pending()
    assert 50_000 - 3 * SEGMENT_MAX < len(history) <= 50_000
    assert history.floor == 60_000 - len(history)


def test_values_are_given_once_and_not_kept() -> None:
    leader = OneLeader()
    session = leader.open()
    for op in (Create("/a", b"1", 0), SetData("/a", b"2", -1), Delete("/a", -1)):
        leader.do(session, op)
    history = ChangeLog(Zxid(0), 10, 1 << 30)
    for of_txn in leader.changes:
        history.pending += of_txn
    told = [(each.old and each.old.value, each.new and each.new.value) for each in history.pending]
    assert told == [(None, b"1"), (b"1", b"2"), (b"2", None)]
    every = list(history.pending)
    history.keep_pending()
    assert [(each.old, each.new) for each in every] == [(None, None)] * 3


def test_null_data_is_an_empty_value_in_an_event() -> None:
    leader = OneLeader()
    session = leader.open()
    for op in (Create("/a", None, 0), SetData("/a", None, -1), Delete("/a", -1)):
        leader.do(session, op)
    told = [(each.old and each.old.value, each.new and each.new.value) for [each] in leader.changes]
    assert told == [(None, b""), (b"", b""), (b"", None)]
    leader.create(session, "/b")
    leader.do(session, SetData("/b", None, -1))
    ((change,),) = leader.changes[-1:]
    change.new = None  # as in the log, from which missed events are told
    missed = EventContents([change], leader.state.tree.znodes).before_and_after(change)[1]
    assert missed is not None and missed.value == b"", "None would be a value that is too long"


def test_values_are_built_only_for_watches_with_values() -> None:
    leader = OneLeader()
    leader.state.tree.value_watches = ()
    session = leader.open()
    for op in (Create("/a", b"1", 0), SetData("/a", b"2", -1), Delete("/a", -1)):
        leader.do(session, op)
    (made,), (changed,), (gone,) = leader.changes
    assert [(each.old, each.new) for each in (made, changed, gone)] == [(None, None)] * 3


def test_pending_changes_are_found_too() -> None:
    leader, transactions = changes(1)
    history = ChangeLog(Zxid(leader.zxid - 1), 10, 1 << 30)
    history.pending += transactions[0]
    assert zxids(history.changes_after(Zxid(leader.zxid - 1), {"/a"}, ())) == [leader.zxid]
    assert history.pending == []


def test_the_log_restarts_at_the_given_zxid() -> None:
    leader, transactions = changes(2)
    history = ChangeLog(Zxid(0), 10, 1 << 30)
    for each in transactions:
        history.pending += each
        history.keep_pending()
    history.pending += transactions[0]
    history.reset(leader.zxid)
    assert (len(history), history.bytes, history.floor) == (0, 0, leader.zxid)
    assert history.changes_after(Zxid(leader.zxid - 1), {"/a"}, ()) is None
    assert history.changes_after(leader.zxid, {"/a"}, ()) == []


def test_transactions_and_their_changes_come_in_order() -> None:
    leader = OneLeader()
    session = leader.open()
    for names in ("ab", "c", "de"):
        leader.do(session, Multi([], [Create(f"/{name}", b"", 0) for name in names], []))
    history = ChangeLog(Zxid(0), 10, 1 << 30)
    for of_txn in leader.changes:
        history.pending += of_txn
    txns = history.changes_after(Zxid(0), (), ("/",))
    assert txns is not None
    assert [[each.path for each in txn] for txn in txns] == [["/a", "/b"], ["/c"], ["/d", "/e"]]


@pytest.mark.parametrize(
    ("paths", "below", "told"),
    [
        ({"/a"}, (), ["/a", "/a/b", "/a", "/a/b"]),  # and its children, but for their values
        ({"/a/b"}, (), ["/a/b", "/a/b", "/a/b"]),
        ({"/"}, (), ["/a", "/ab"]),
        ({"/x"}, (), []),
        (set(), ("/a/",), ["/a/b", "/a/b", "/a/b"]),
        (set(), ("/",), ["/a", "/a/b", "/ab", "/a", "/a/b", "/a/b"]),
    ],
)
def test_changes_of_unwatched_znodes_are_skipped(
    paths: set[str], below: tuple[str, ...], told: list[str]
) -> None:
    leader = OneLeader()
    session = leader.open()
    history = ChangeLog(Zxid(0), 100, 1 << 30)
    for op in (
        Create("/a", b"", 0), Create("/a/b", b"", 0), Create("/ab", b"", 0),
        SetData("/a", b"", -1), SetData("/a/b", b"", -1), Delete("/a/b", -1),
    ):  # fmt: skip
        leader.do(session, op)
    for of_txn in leader.changes:
        history.pending += of_txn
    txns = history.changes_after(Zxid(0), paths, below)
    assert txns is not None
    assert [each.path for txn in txns for each in txn] == told
