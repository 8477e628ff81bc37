"""AsyncFlowRunner: flows of a blocking client, awaited in any loop."""

import asyncio
from typing import Any

import pytest

from raykeeper.client.async_flow_runner import AsyncFlowRunner
from raykeeper.client.core.flows import Event, Flow, Wait
from raykeeper.client.errors import WaitTimeoutError
from tests.harness.client_stage import ClientStage


def test_several_loops_share_a_session(stage: ClientStage) -> None:
    runner = AsyncFlowRunner(stage.open())
    assert not runner._is_lost()
    assert runner._now() == runner.client._now()

    def answer() -> Flow[int]:
        yield Wait((rung,))
        return 7

    rung = Event()
    rung.set()

    async def main() -> int:
        value: int = await runner._run_flow(answer(), "answer")
        return value

    assert [asyncio.run(main()) for _ in range(2)] == [7, 7]


def test_an_error_is_raised_where_it_is_awaited(stage: ClientStage) -> None:
    def fail() -> Flow[None]:
        yield Wait((rung,))
        raise WaitTimeoutError("of the recipe")

    rung = Event()
    rung.set()

    runner = AsyncFlowRunner(stage.open())

    async def main() -> None:
        with pytest.raises(WaitTimeoutError, match="of the recipe"):
            await runner._run_flow(fail(), "fail")

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_flow(stage: ClientStage) -> None:
    ends: list[str] = []

    def wait() -> Flow[None]:
        try:
            yield Wait((Event(),))
        except Exception as error:
            ends.append(type(error).__name__)
            raise

    runner = AsyncFlowRunner(stage.open())

    async def main() -> None:
        async def run() -> Any:
            return await runner._run_flow(wait(), "wait")

        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ends == ["Cancelled"]
