"""The tokens of a flow's requests: answers that are late, and writes that are refused for now."""

from contextlib import suppress
from typing import Any

import pytest

from raykeeper.client.flows import Cancelled, Event, Flow, Gather, Wait
from raykeeper.znodes.errors import NotReadOnlyError, OperationTimeoutError, SessionExpiredError
from tests.unit.client.test_flows import DELETE, LIST, Desk, Prize, desk, start

__all__ = ["desk"]


@pytest.mark.parametrize("together", [True, False])
def test_an_answer_that_is_late_ends_the_wait_but_not_the_flow(desk: Desk, together: bool) -> None:
    def flow() -> Flow[Any]:
        yield Gather([LIST]) if together else LIST
        return Prize()

    run, told = start(desk, flow())
    behind = desk.flows.start(flow())  # nobody waits for this one
    for _, token in desk.waiting:
        token.late(OperationTimeoutError())
        token.late(OperationTimeoutError())
    assert told == [OperationTimeoutError]
    assert not run.is_done
    desk.answer()
    desk.answer()
    assert run.is_done
    assert behind.is_done
    assert desk.answer() is DELETE  # the prize is undone
    assert desk.reported == []
    assert told == [OperationTimeoutError]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("is_over", [True, False])
def test_what_cannot_be_given_back_now_is_given_back_later(
    desk: Desk, together: bool, is_over: bool
) -> None:
    def flow(bell: Event) -> Flow[None]:
        with suppress(NotReadOnlyError):  # who waits for it is told
            yield DELETE
        try:
            yield Wait((bell,))
        except Cancelled:
            yield Gather([DELETE]) if together else DELETE
            raise

    run, told = start(desk, flow(Event()))
    desk.answer(error=NotReadOnlyError())
    run.cancel()
    desk.answer(error=NotReadOnlyError())
    assert desk.waiting == []
    assert not run.is_done
    if is_over:
        desk.flows.session_ended(SessionExpiredError())
        desk.answer(error=SessionExpiredError())
    else:
        desk.flows.connected(read_only=True)
        assert desk.waiting == []
        desk.flows.connected(read_only=False)
        desk.answer(error=NotReadOnlyError())  # it was refused before that
        assert desk.answer() is DELETE
    assert run.is_done
    assert (told, desk.reported, desk.flows.is_cleaning_up) == ([], [], False)
