"""Many calls of clients, with a bound on how many are under way."""

import asyncio
from functools import partial

from raykeeper.bench.loads.raykeeper_clients import gather_bounded


async def test_calls_wait_for_a_slot_and_results_keep_their_order() -> None:
    ends = [asyncio.get_running_loop().create_future() for _ in range(3)]
    begun: list[int] = []

    async def call(number: int) -> int:
        begun.append(number)
        await ends[number]
        return number

    gathering = asyncio.ensure_future(gather_bounded([partial(call, i) for i in range(3)], 2))
    while len(begun) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert begun == [0, 1]
    ends[1].set_result(None)
    ends[2].set_result(None)
    while len(begun) < 3:
        await asyncio.sleep(0)
    ends[0].set_result(None)
    assert await gathering == [0, 1, 2]
