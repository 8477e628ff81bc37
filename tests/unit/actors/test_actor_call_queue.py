"""Companion: pieces in order, one at a time, and what becomes of those that wait."""

import asyncio
from typing import Any

import pytest

from raykeeper.actors.actor_call_queue import ActorCallQueue, first_line


def test_pieces_are_done_in_order_and_one_at_a_time() -> None:
    async def main() -> None:
        begun: list[int] = []
        gates = [asyncio.Event() for _ in range(3)]
        done = asyncio.Event()

        async def work(piece: int) -> None:
            begun.append(piece)
            await gates[piece].wait()
            if piece == 2:
                done.set()

        companion = ActorCallQueue(lambda: None, work)
        for piece in range(3):
            companion.put(piece)
        for piece, gate in enumerate(gates):
            while len(begun) == piece:
                await asyncio.sleep(0)
            assert begun == list(range(piece + 1))
            assert len(companion) == 2 - piece
            gate.set()
        await done.wait()

    asyncio.run(main())


def test_the_actor_is_found_once_until_it_fails() -> None:
    async def main() -> None:
        found: list[object] = []

        def find() -> object:
            found.append(object())
            return found[-1]

        async def work(_piece: Any) -> None: ...

        companion = ActorCallQueue(find, work)
        assert not companion.has_handle
        assert await companion.handle(5) is await companion.handle(5) is found[0]
        assert companion.has_handle
        companion.invalidate_handle()
        assert not companion.has_handle
        assert await companion.handle(5) is found[1]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("gone\nwith a long story"), "gone"),
        (ValueError(""), "ValueError"),
    ],
)
def test_an_error_in_short(error: Exception, text: str) -> None:
    assert first_line(error) == text
