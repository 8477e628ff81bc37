"""HandshakeQueue: whose turn it is, who is sent away, and that all sockets are closed."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from struct import pack
from typing import Any

from raykeeper.links.handshake_queue import HandshakeQueue

FIRST = b"first"


class Place:
    """A queue whose handshakes end when the test says so, and the dialers at the other ends."""

    def __init__(self, turns_max: int, waiting_max: int, silence_s: float = 60.0) -> None:
        self.turns: list[socket.socket] = []
        self.sent_away: list[socket.socket] = []
        self.times_full = 0
        self._changed = asyncio.Event()
        self._over: dict[socket.socket, asyncio.Event] = {}
        self._ends: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.queue = HandshakeQueue(
            self._handle,
            self._send_away,
            self._on_full,
            first_bytes=len(FIRST),
            silence_s=silence_s,
            turns_max=turns_max,
            waiting_max=waiting_max,
        )

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return a dialer's end and the connection that a listener would accept."""
        near = socket.create_connection(self._server.getsockname())
        far, _ = self._server.accept()
        self._ends += [near, far]
        return near, far

    def add(self, said: bytes = b"") -> tuple[socket.socket, socket.socket]:
        """Add a connection whose dialer has said that."""
        near, far = self.pair()
        near.sendall(said)
        self.queue.add(far)
        return near, far

    async def wait_turns(self, count: int) -> None:
        await self._wait(lambda: len(self.turns) >= count)

    async def wait_sent_away(self, count: int) -> None:
        await self._wait(lambda: len(self.sent_away) >= count)

    async def wait_empty(self) -> None:
        await self._wait(lambda: len(self.queue) == 0)

    def finish(self, connection: socket.socket) -> None:
        """End a handshake."""
        self._over[connection].set()

    def close(self) -> None:
        self.queue.close()
        for end in (*self._ends, self._server):
            end.close()

    async def _handle(self, connection: socket.socket) -> None:
        self.turns.append(connection)
        self._changed.set()
        self._over[connection] = asyncio.Event()
        try:
            await self._over[connection].wait()
            connection.close()
        finally:  # the queue knows it one turn of the loop later
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._changed.set)

    def _send_away(self, connection: socket.socket) -> None:
        self.sent_away.append(connection)
        connection.close()
        self._changed.set()

    def _on_full(self) -> None:
        self.times_full += 1

    async def _wait(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def place(**options: Any) -> AsyncIterator[Place]:
    opened = Place(**options)
    try:
        yield opened
    finally:
        opened.close()
        await asyncio.sleep(0)  # the cancelled handshakes


async def test_turns_follow_the_order_of_the_first_messages() -> None:
    async with place(turns_max=1, waiting_max=4) as there:
        _, first = there.add(FIRST)
        near, late = there.add(b"fir")
        _, second = there.add(FIRST)
        near.sendall(b"st")
        await there.wait_turns(1)
        for count, connection in enumerate([first, second, late], 1):
            await there.wait_turns(count)
            there.finish(connection)
        await there.wait_empty()
        assert there.turns == [first, second, late]
        assert (there.sent_away, there.times_full) == ([], 0)


async def test_whoever_is_silent_longest_makes_room() -> None:
    async with place(turns_max=1, waiting_max=2) as there:
        there.add(FIRST)
        (_, oldest), (_, next_one) = there.add(), there.add()
        there.add()
        assert there.sent_away == [oldest]
        there.add(FIRST)
        assert there.sent_away == [oldest, next_one]
        assert there.times_full == 2


async def test_without_a_silent_one_the_newcomer_is_sent_away() -> None:
    async with place(turns_max=1, waiting_max=2) as there:
        for _ in range(3):
            there.add(FIRST)
        newcomers = [there.add(FIRST)[1], there.add()[1]]
        assert there.sent_away == newcomers
        assert there.times_full == 2


async def test_a_silent_one_takes_no_turn_and_is_sent_away_in_time() -> None:
    async with place(turns_max=1, waiting_max=2, silence_s=0.03) as there:
        _, silent = there.add(b"fir")
        await there.wait_sent_away(1)
        assert there.sent_away == [silent]
        assert (there.turns, there.times_full) == ([], 0)


async def test_a_connection_that_ended_has_its_turn_to_find_that_out() -> None:
    async with place(turns_max=4, waiting_max=4) as there:
        near, ended = there.add()
        near.close()
        await there.wait_turns(1)
        near, far = there.pair()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
        near.close()  # a reset
        there.queue.add(far)
        await there.wait_turns(2)
        assert there.turns == [ended, far]


async def test_after_a_turn_every_byte_wakes_the_loop_again() -> None:
    async with place(turns_max=1, waiting_max=1) as there:
        near, far = there.add()
        near.sendall(FIRST)
        await there.wait_turns(1)
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(far, 100) == FIRST
        near.sendall(b"x")
        assert await asyncio.wait_for(loop.sock_recv(far, 1), 10) == b"x"


async def test_to_close_closes_all_connections() -> None:
    async with place(turns_max=2, waiting_max=2) as there:
        connections = [there.add(said)[1] for said in (FIRST, FIRST, FIRST, b"")]
        await there.wait_turns(1)
        late = there.add(b"")[1]
        assert there.sent_away == [connections[3]]
        there.queue.close()
        await there.wait_empty()
        assert all(end.fileno() == -1 for end in (*connections, late))
