"""Outstanding: numbers, order and bounds, against a naive list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.client.core.limits import ClientLimits
from raykeeper.client.core.outstanding import OutstandingRequests, Query
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    EmptyReply,
    ErrorReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    MultiReadReply,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    CloseSession,
    CountDescendants,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    MultiRead,
    ReadData,
    ReadStat,
    SetData,
    Sync,
    WhoAmI,
    Write,
)
from tests.unit.client.wire import STAT

BOUND = 3
ACTIONS = st.lists(
    st.sampled_from(["write", "sync", "send", "answer", "lose", 0, 1, 2, 9]), max_size=60
)


@given(ACTIONS)
def test_requests_leave_in_order_under_any_actions(actions: list[str | int]) -> None:
    """A number is a window that the server tells."""
    limits = ClientLimits(outstanding_max=BOUND)
    outstanding = OutstandingRequests(limits)
    waiting: list[Any] = []  # idents, oldest first; a write's is negative
    numbers = xids = on_wire = 0
    window = BOUND
    for action in actions:
        if isinstance(action, int):
            outstanding.set_window(action)
            window = max(1, min(action, BOUND))
        elif action == "write":
            numbers += 1
            waiting.append(-numbers)
            outstanding.add(SetData("/a", b"", -1), numbers, Millis(0))
        elif action == "sync":
            xids += 1
            waiting.append(xids)
            outstanding.add(Query(Sync, "/"), xids, Millis(0))
        elif action == "send":
            batch = outstanding.take_batch()
            sent = [-r.number if isinstance(r, Write) else r.xid for r in batch]
            assert sent == waiting[on_wire : on_wire + len(sent)]
            before, on_wire = on_wire, on_wire + len(sent)
            assert on_wire == max(before, min(window, len(waiting)))
        elif action == "lose":
            outstanding.requeue()
            on_wire = 0
        elif on_wire:
            ident = waiting.pop(0)
            on_wire -= 1
            reply = (
                WriteReply(-ident, Zxid(1), 0, "", None)
                if ident < 0
                else EmptyReply(ident, Zxid(1))
            )
            taken = outstanding.take_answered(reply)
            assert taken is not None
            assert taken.number_or_xid == abs(ident)
        else:
            assert outstanding.take_answered(EmptyReply(1, Zxid(1))) is None
        assert outstanding.acked == numbers - sum(ident < 0 for ident in waiting)
        assert outstanding.has_queued() == (len(waiting) > on_wire)
    assert [each.number_or_xid for each in outstanding.take_all()] == [
        abs(ident) for ident in waiting
    ]


def test_the_bytes_on_the_wire_are_bounded_in_proportion_to_the_window() -> None:
    """So that all clients of a server together have no more under way than one alone may."""
    outstanding = OutstandingRequests(
        ClientLimits(outstanding_max=10, outstanding_bytes_max=10_000)
    )
    for at in range(20):
        outstanding.add(SetData("/a", bytes(900), -1), at, Millis(0))
    outstanding.set_window(5)
    assert len(outstanding.take_batch()) == 5
    outstanding.requeue()
    outstanding.set_window(3)
    assert len(outstanding.take_batch()) == 3
    outstanding.requeue()
    outstanding.add(SetData("/a", bytes(9_000), -1), 20, Millis(0))
    outstanding.set_window(0)
    assert len(outstanding.take_batch()) == 1
    assert outstanding.take_batch() == []


def page(xid: int, names: list[str], *, more: bool) -> GetChildrenReply:
    return GetChildrenReply(xid, Zxid(7), names, STAT, more)


def test_the_pages_of_a_list_are_one_reply() -> None:
    outstanding = OutstandingRequests(ClientLimits())
    for _ in range(2):
        outstanding.add(Query(GetChildren, "/"), None, Millis(0))
    outstanding.take_batch()
    for names in (["b", "a"], [], ["d"]):
        assert outstanding.take_answered(page(1, names, more=True)) is not None
        assert outstanding.is_paging
    last = page(1, ["c"], more=False)
    assert outstanding.take_answered(page(2, ["x"], more=False)) is None
    taken = outstanding.take_answered(last)
    assert taken is not None and taken.number_or_xid == 1 and not outstanding.is_paging
    assert last.children == ["b", "a", "d", "c"]
    other = page(2, ["e"], more=False)
    assert outstanding.take_answered(other) is not None
    assert other.children == ["e"]


def test_paths_in_pages_are_sorted() -> None:
    outstanding = OutstandingRequests(ClientLimits())
    outstanding.add(GetEphemerals(0, "/"), None, Millis(0))
    outstanding.take_batch()
    assert outstanding.take_answered(GetEphemeralsReply(1, Zxid(1), ["/c", "/a"], True)) is not None
    last = GetEphemeralsReply(1, Zxid(1), ["/b"])
    assert outstanding.take_answered(last) is not None
    assert last.paths == ["/a", "/b", "/c"]


def test_pages_of_a_lost_connection_are_forgotten() -> None:
    outstanding = OutstandingRequests(ClientLimits())
    outstanding.add(Query(GetChildren, "/"), None, Millis(0))
    outstanding.take_batch()
    assert outstanding.take_answered(page(1, ["old"], more=True)) is not None
    outstanding.requeue()
    assert not outstanding.is_paging
    outstanding.take_batch()
    assert outstanding.take_answered(page(1, ["a"], more=True)) is not None
    last = page(1, ["b"], more=False)
    assert outstanding.take_answered(last) is not None
    assert last.children == ["a", "b"]


def test_timeouts_are_reported_once_and_in_order() -> None:
    outstanding = OutstandingRequests(
        ClientLimits(request_timeout_ms=Millis(100), outstanding_max=2)
    )
    for at in (0, 10, 10, 50):
        outstanding.add(Query(Sync, "/"), at, Millis(at))
    outstanding.take_batch()
    assert outstanding.times_out_at() == 100
    assert outstanding.take_timed_out(Millis(99)) == []
    assert [late.submitted_at for late in outstanding.take_timed_out(Millis(110))] == [0, 10, 10]
    assert outstanding.times_out_at() == 150
    # An answer to one of them does not make the next one look late.
    assert outstanding.take_answered(EmptyReply(1, Zxid(1))) is not None
    assert outstanding.take_timed_out(Millis(149)) == []
    assert [late.submitted_at for late in outstanding.take_timed_out(Millis(150))] == [50]
    assert outstanding.times_out_at() is None


def test_a_refused_write_that_timed_out_does_not_make_the_next_one_look_late() -> None:
    outstanding = OutstandingRequests(ClientLimits(request_timeout_ms=Millis(100)))
    outstanding.is_read_only = True
    for at, new in ((0, SetData("/a", b"", -1)), (50, Query(Sync, "/"))):
        outstanding.add(new, at, Millis(at))
    assert [late.submitted_at for late in outstanding.take_timed_out(Millis(100))] == [0]
    assert outstanding.take_refused() is not None
    assert outstanding.times_out_at() == 150
    assert [late.submitted_at for late in outstanding.take_timed_out(Millis(150))] == [50]


def test_a_write_has_left_once_it_was_on_any_wire() -> None:
    outstanding = OutstandingRequests(ClientLimits(outstanding_max=1))
    for _ in range(2):
        outstanding.add(CloseSession(), None, Millis(0))
    outstanding.take_batch()
    outstanding.requeue()
    assert [outstanding.may_have_reached_server(each) for each in outstanding.take_all()] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("ask", "sent", "reply"),
    [
        (GetAcls(0, "/a"), GetAcls(1, "/a"), GetAclsReply(1, Zxid(1), (), STAT)),
        (WhoAmI(0), WhoAmI(1), WhoAmIReply(1, Zxid(1), ())),
        (GetEphemerals(0, "/a"), GetEphemerals(1, "/a"), GetEphemeralsReply(1, Zxid(1), [])),
        (
            CountDescendants(0, "/a"),
            CountDescendants(1, "/a"),
            CountDescendantsReply(1, Zxid(1), 0),
        ),
        (
            MultiRead(0, [ReadData("/a"), ReadStat("/b")]),
            MultiRead(1, [ReadData("/a"), ReadStat("/b")]),
            MultiReadReply(1, Zxid(1), []),
        ),
        (
            Query(GetData, "/a", linearizable=True),
            GetData(1, "/a", False, True),
            GetDataReply(1, Zxid(1), b"", STAT),
        ),
    ],
)  # fmt: skip
def test_each_kind_of_read_takes_its_reply_alone(ask: Any, sent: Any, reply: Any) -> None:
    for answer in (reply, ErrorReply(1, Zxid(1), -101)):
        outstanding = OutstandingRequests(ClientLimits())
        outstanding.add(ask, "token", Millis(0))
        assert outstanding.take_batch() == [sent]
        assert outstanding.take_answered(EmptyReply(1, Zxid(1))) is None
        assert (
            outstanding.take_answered(ErrorReply(1, Zxid(1), 0)) is None
        )  # a failure without a code
        waiting = outstanding.take_answered(answer)
        assert waiting is not None and waiting.token == "token"
        assert waiting.size > len(waiting.path)


def test_writes_continue_the_numbers_of_another_client() -> None:
    outstanding = OutstandingRequests(ClientLimits())
    outstanding.continue_numbers_after(7)
    outstanding.add(CloseSession(), "token", Millis(0))
    (sent,) = outstanding.take_batch()
    assert isinstance(sent, Write) and (sent.number, sent.acked) == (8, 7)
