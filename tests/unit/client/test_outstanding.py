"""Outstanding: numbers, order and bounds, against a naive list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raykeeper.client.limits import ClientLimits
from raykeeper.client.outstanding import Outstanding, Query
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import (
    AclsRead,
    CountRead,
    DataRead,
    Done,
    IdentitiesRead,
    PathsRead,
    ReadFailed,
    ResultsRead,
    Written,
)
from raykeeper.znodes.requests import (
    CloseSession,
    CountDescendants,
    GetAcls,
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
ACTIONS = st.lists(st.sampled_from(["write", "sync", "send", "answer", "lose"]), max_size=60)


@given(ACTIONS)
def test_what_leaves_keeps_its_order_whatever_happens(actions: list[str]) -> None:
    limits = ClientLimits(outstanding_max=BOUND)
    outstanding = Outstanding(limits)
    waiting: list[Any] = []  # idents, oldest first; a write's is negative
    numbers = xids = on_wire = answered = fruitless = 0
    window = BOUND
    for action in actions:
        if action == "write":
            numbers += 1
            waiting.append(-numbers)
            outstanding.add(SetData("/a", b"", -1), numbers, Millis(0))
        elif action == "sync":
            xids += 1
            waiting.append(xids)
            outstanding.add(Query(Sync, "/"), xids, Millis(0))
        elif action == "send":
            if window < BOUND and answered >= window:
                window, answered = window + 1, 0
            batch = outstanding.take_batch()
            sent = [-r.number if isinstance(r, Write) else r.xid for r in batch]
            assert sent == waiting[on_wire : on_wire + len(sent)]
            on_wire += len(sent)
            assert on_wire == min(window, len(waiting))
        elif action == "lose":
            outstanding.unsend()
            fruitless = 0 if answered else fruitless + (on_wire > 0)
            if fruitless > 1 and on_wire:
                window = max(on_wire // 2, 1)
            on_wire = answered = 0
        elif on_wire:
            ident = waiting.pop(0)
            on_wire -= 1
            reply = Written(-ident, Zxid(1), 0, "", None) if ident < 0 else Done(ident, Zxid(1))
            taken = outstanding.answered(reply)
            answered += 1
            assert taken is not None
            assert taken.ident == abs(ident)
        else:
            assert outstanding.answered(Done(1, Zxid(1))) is None
        assert outstanding.acked == numbers - sum(ident < 0 for ident in waiting)
        assert outstanding.has_queued() == (len(waiting) > on_wire)
    assert [each.ident for each in outstanding.take_all()] == [abs(ident) for ident in waiting]


def test_answers_that_break_every_link_come_in_the_end() -> None:
    """The link bears 8 of these answers at once; with 20 it breaks before one has arrived."""
    outstanding = Outstanding(ClientLimits())
    for at in range(20):
        outstanding.add(Query(Sync, "/"), at, Millis(0))
    answered: list[Any] = []
    losses = 0
    while len(answered) < 20:
        xids = [request.xid for request in outstanding.take_batch() if isinstance(request, Sync)]
        if len(xids) > 8:
            outstanding.unsend()
            losses += 1
            continue
        for xid in xids:
            waiting = outstanding.answered(Done(xid, Zxid(1)))
            assert waiting is not None
            answered.append(waiting.token)
    assert (answered, losses) == (list(range(20)), 3)


def test_timeouts_are_told_once_and_in_order() -> None:
    outstanding = Outstanding(ClientLimits(request_timeout_ms=Millis(100), outstanding_max=2))
    for at in (0, 10, 10, 50):
        outstanding.add(Query(Sync, "/"), at, Millis(at))
    outstanding.take_batch()
    assert outstanding.times_out_at() == 100
    assert outstanding.take_timed_out(Millis(99)) == []
    assert [late.since for late in outstanding.take_timed_out(Millis(110))] == [0, 10, 10]
    assert outstanding.times_out_at() == 150
    # An answer to one of them does not make the next one look late.
    assert outstanding.answered(Done(1, Zxid(1))) is not None
    assert outstanding.take_timed_out(Millis(149)) == []
    assert [late.since for late in outstanding.take_timed_out(Millis(150))] == [50]
    assert outstanding.times_out_at() is None


def test_a_write_has_left_once_it_was_on_any_wire() -> None:
    outstanding = Outstanding(ClientLimits(outstanding_max=1))
    for _ in range(2):
        outstanding.add(CloseSession(), None, Millis(0))
    outstanding.take_batch()
    outstanding.unsend()
    assert [outstanding.ever_left(each) for each in outstanding.take_all()] == [True, False]


@pytest.mark.parametrize(
    ("ask", "sent", "reply"),
    [
        (GetAcls(0, "/a"), GetAcls(1, "/a"), AclsRead(1, Zxid(1), (), STAT)),
        (WhoAmI(0), WhoAmI(1), IdentitiesRead(1, Zxid(1), ())),
        (GetEphemerals(0, "/a"), GetEphemerals(1, "/a"), PathsRead(1, Zxid(1), [])),
        (CountDescendants(0, "/a"), CountDescendants(1, "/a"), CountRead(1, Zxid(1), 0)),
        (
            MultiRead(0, [ReadData("/a"), ReadStat("/b")]),
            MultiRead(1, [ReadData("/a"), ReadStat("/b")]),
            ResultsRead(1, Zxid(1), []),
        ),
        (
            Query(GetData, "/a", linearizable=True),
            GetData(1, "/a", False, True),
            DataRead(1, Zxid(1), b"", STAT),
        ),
    ],
)  # fmt: skip
def test_each_kind_of_read(ask: Any, sent: Any, reply: Any) -> None:
    for answer in (reply, ReadFailed(1, Zxid(1), -101)):
        outstanding = Outstanding(ClientLimits())
        outstanding.add(ask, "token", Millis(0))
        assert outstanding.take_batch() == [sent]
        assert outstanding.answered(Done(1, Zxid(1))) is None
        waiting = outstanding.answered(answer)
        assert waiting is not None and waiting.token == "token"
        assert waiting.size > len(waiting.path)


def test_writes_go_on_after_those_of_another_client() -> None:
    outstanding = Outstanding(ClientLimits())
    outstanding.go_on_after(7)
    outstanding.add(CloseSession(), "token", Millis(0))
    (sent,) = outstanding.take_batch()
    assert isinstance(sent, Write) and (sent.number, sent.acked) == (8, 7)
