"""Calls of operators: each waits for the answer with its number, or for the end of the server."""

import asyncio

from raykeeper.actors.operator_requests import OperatorRequests
from raykeeper.actors.replica_status import ReconfigOutcome, TransferOutcome
from raykeeper.server.effects import (
    ReconfigAnswered,
    ReconfigResult,
    TransferAnswered,
    TransferResult,
)
from raykeeper.server.events import Event, ReconfigRequested, TransferRequested
from raykeeper.zab.ids import ServerId, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import Reconfig

S2, OP = ServerId(2), Reconfig(4, 0, True)


class Operators:
    """Calls, and the events that they become."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.requests = OperatorRequests(self.events.append)

    def answer(self, effect: TransferAnswered | ReconfigAnswered) -> None:
        self.requests.handlers()[type(effect)](effect)


async def begun(*calls: "asyncio.Task[object]") -> None:
    await asyncio.sleep(0)
    assert not any(call.done() for call in calls)


async def test_each_call_gets_the_answer_with_its_number() -> None:
    made = Operators()
    calls = [asyncio.create_task(made.requests.reconfig(OP)) for _ in range(2)]
    await begun(*calls)
    assert made.events == [ReconfigRequested(1, OP), ReconfigRequested(2, OP)]
    made.answer(ReconfigAnswered(2, ReconfigResult(Code.RECONFIG_IN_PROGRESS, "another", Zxid(0))))
    made.answer(ReconfigAnswered(1, ReconfigResult(Code.OK, "", Zxid(7))))
    assert [await call for call in calls] == [
        ReconfigOutcome(0, "", Zxid(7)),
        ReconfigOutcome(-14, "another"),
    ]


async def test_a_transfer_and_a_step_may_wait_together() -> None:
    made = Operators()
    transfer = asyncio.create_task(made.requests.transfer_leadership(S2, 10, 20))
    step = asyncio.create_task(made.requests.reconfig(OP))
    await begun(transfer, step)
    assert made.events == [TransferRequested(1, S2, 10, 20), ReconfigRequested(2, OP)]
    made.answer(TransferAnswered(1, TransferResult(S2, True)))
    assert await transfer == TransferOutcome(S2, True)
    made.requests.end()
    assert await step == ReconfigOutcome(Code.CONNECTION_LOSS, "the server was stopped")


async def test_callers_that_gave_up_are_passed_over() -> None:
    made = Operators()
    calls: list[asyncio.Task[object]] = [
        asyncio.create_task(made.requests.transfer_leadership(None, 10, 20)),
        asyncio.create_task(made.requests.reconfig(OP)),
        asyncio.create_task(made.requests.reconfig(OP)),
    ]
    await begun(*calls)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    made.answer(ReconfigAnswered(2, ReconfigResult(Code.OK, "", Zxid(7))))
    made.requests.end()
    assert all(call.cancelled() for call in calls)
