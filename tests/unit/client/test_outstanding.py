"""Outstanding: numbers, order and bounds, against a naive list."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from raykeeper.client.limits import ClientLimits
from raykeeper.client.outstanding import Outstanding, Query
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.replies import Done, Written
from raykeeper.znodes.requests import CloseSession, SetData, Sync, Write

BOUND = 3
ACTIONS = st.lists(st.sampled_from(["write", "sync", "send", "answer", "lose"]), max_size=60)


@given(ACTIONS)
def test_what_leaves_keeps_its_order_whatever_happens(actions: list[str]) -> None:
    limits = ClientLimits(outstanding_max=BOUND)
    outstanding = Outstanding(limits)
    waiting: list[Any] = []  # idents, oldest first; a write's is negative
    numbers = xids = on_wire = 0
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
            batch = outstanding.take_batch()
            sent = [-r.number if isinstance(r, Write) else r.xid for r in batch]
            assert sent == waiting[on_wire : on_wire + len(sent)]
            on_wire += len(sent)
            assert on_wire == min(BOUND, len(waiting))
        elif action == "lose":
            outstanding.unsend()
            on_wire = 0
        elif on_wire:
            ident = waiting.pop(0)
            on_wire -= 1
            reply = Written(-ident, Zxid(1), 0, "", None) if ident < 0 else Done(ident, Zxid(1))
            taken = outstanding.answered(reply)
            assert taken is not None
            assert taken.ident == abs(ident)
        else:
            assert outstanding.answered(Done(1, Zxid(1))) is None
        assert outstanding.acked == numbers - sum(ident < 0 for ident in waiting)
        assert outstanding.has_queued() == (len(waiting) > on_wire)
    assert [each.ident for each in outstanding.take_all()] == [abs(ident) for ident in waiting]


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
