"""FencedResource: which tokens pass, are refused or wait. The durable one: tests/recipes."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from raykeeper.client.errors import BadArgumentsError, StaleTokenError
from raykeeper.client.fencing import FencedResource


@pytest.mark.parametrize(
    "steps",
    [
        # (token, is it shared, does it pass)
        [(5, False, True), (5, False, True), (4, False, False), (6, False, True)],
        [(6, False, True), (5, False, False)],
        # Concurrent shared holders do not refuse each other.
        [(5, True, True), (7, True, True), (5, True, True), (6, True, True)],
        # A writer is later than readers before it, so older readers are refused.
        [(5, True, True), (7, True, True), (6, False, False), (8, False, True), (7, True, False)],
        # A reader is later than the writer before it, so that writer is refused.
        [(5, False, True), (6, True, True), (5, False, False), (6, True, True)],
        # A refused token changes nothing.
        [(9, False, True), (3, True, False), (9, False, True), (9, True, True)],
    ],
)  # fmt: skip
def test_only_the_newest_token_passes(steps: list[tuple[int, bool, bool]]) -> None:
    guard = FencedResource("the disk")
    for token, shared, passes in steps:
        if passes:
            guard.check(token, shared=shared)
            assert guard.newest >= token
        else:
            with pytest.raises(StaleTokenError, match=f"the disk refuses token {token}"):
                guard.check(token, shared=shared)


@pytest.mark.parametrize("token", [0, -1, True, None, "7", 7.0])
def test_an_invalid_token_is_refused(token: int) -> None:
    guard = FencedResource()
    with pytest.raises(BadArgumentsError, match="positive number"):
        guard.check(token)
    assert guard.newest == 0


def test_a_use_blocks_later_holders_until_it_ends() -> None:
    guard = FencedResource()
    written: list[int] = []
    waits = threading.Event()

    def later() -> None:
        waits.set()
        with guard.use(2):
            written.append(2)

    with ThreadPoolExecutor(1) as pool:
        with guard.use(1):
            done = pool.submit(later)
            assert waits.wait(10)
            assert guard.newest == 1
            written.append(1)
        done.result(10)
    assert written == [1, 2]
    with pytest.raises(StaleTokenError), guard.use(1):
        written.append(1)
    with guard.use(3):  # a refused token keeps no other one out
        written.append(3)
    assert written == [1, 2, 3]


def test_tasks_wait_for_each_other() -> None:
    guard = FencedResource()
    written: list[int] = []

    async def write(token: int) -> None:
        async with guard.use(token):
            await asyncio.sleep(0)
            written.append(token)

    async def go() -> None:
        await asyncio.gather(write(1), write(3), write(2), return_exceptions=True)
        with pytest.raises(StaleTokenError):
            await write(2)
        with pytest.raises(ZeroDivisionError):
            async with guard.use(4):
                _ = 1 / 0
        await write(5)

    asyncio.run(go())
    assert written == [1, 3, 5]
