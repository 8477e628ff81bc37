"""The connections to a listener that have no link yet: who is silent, who waits, who has a turn.

    silent      the dialer's first message has not come whole: the connection costs an open file
    waiting     it has come; turns are given in the order of these messages
    its turn    the handshake is under way, and its time limit begins

Invariants: at most `turns_max` handshakes are under way, and at most `waiting_max` connections are
silent or waiting. One more takes the place of the connection that has been silent longest; if none
is silent, it is refused itself. So connections that never speak keep nobody out: a dialer that
speaks is in danger only until its first message arrives.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any


class HandshakeQueue:
    """Gives connections their turns, on the running loop."""

    def __init__(
        self,
        handle: Callable[[socket.socket], Coroutine[Any, Any, None]],
        send_away: Callable[[socket.socket], None],
        on_full: Callable[[], None],
        *,
        first_bytes: int,
        silence_s: float,
        turns_max: int,
        waiting_max: int,
    ) -> None:
        """Run `handle` for a connection at its turn.

        Args:
            handle: Makes the handshake. The connection is its own, but if the task is cancelled.
            send_away: Closes a connection that shall come again.
            on_full: Called before one is sent away for want of room.
            first_bytes: Size of the dialer's first message.
            silence_s: How long it may take until that is there.
            turns_max: How many handshakes may be under way.
            waiting_max: How many connections may be silent or waiting.
        """
        self._handle = handle
        self._send_away = send_away
        self._on_full = on_full
        self._first_bytes = first_bytes
        self._silence_s = silence_s
        self._turns_max = turns_max
        self._waiting_max = waiting_max
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}  # the oldest first
        self._waiting: deque[socket.socket] = deque()
        self._turns: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._silent) + len(self._waiting) + len(self._turns)

    def add(self, connection: socket.socket) -> None:
        """Take a new connection, or refuse one."""
        connection.setblocking(False)
        if self._has_spoken(connection):
            self._queue(connection)
        elif self._make_room():
            # A message that comes in drops wakes the loop once.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, self._first_bytes)
            self._loop.add_reader(connection.fileno(), self._on_spoken, connection)
            end = self._loop.call_later(self._silence_s, self._end_silent, connection)
            self._silent[connection] = end
        else:
            self._send_away(connection)

    def close(self) -> None:
        """Close all connections, and those whose turn it is."""
        for connection in list(self._silent):
            self._forget_silent(connection)
            connection.close()
        while self._waiting:
            self._waiting.popleft().close()
        for turn in self._turns:
            turn.cancel()

    def _has_spoken(self, connection: socket.socket) -> bool:
        """Return whether the first message is there, or nothing more will come."""
        try:
            there = connection.recv(self._first_bytes, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return len(there) in (0, self._first_bytes)

    def _make_room(self) -> bool:
        """Return whether one more may be silent or wait, perhaps in the place of a silent one."""
        if len(self._silent) + len(self._waiting) < self._waiting_max:
            return True
        self._on_full()
        longest = next(iter(self._silent), None)
        if longest is None:
            return False
        self._end_silent(longest)
        return True

    def _queue(self, connection: socket.socket) -> None:
        if len(self._turns) < self._turns_max:
            self._give_turn(connection)
        elif self._make_room():
            self._waiting.append(connection)
        else:
            self._send_away(connection)

    def _give_turn(self, connection: socket.socket) -> None:
        turn = self._loop.create_task(self._handle(connection))
        self._turns.add(turn)
        turn.add_done_callback(partial(self._on_turn_over, connection))

    def _on_turn_over(self, connection: socket.socket, turn: "asyncio.Task[None]") -> None:
        self._turns.discard(turn)
        if turn.cancelled():
            connection.close()  # the task may not even have begun
        if self._waiting:
            self._give_turn(self._waiting.popleft())

    def _on_spoken(self, connection: socket.socket) -> None:
        self._forget_silent(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._queue(connection)

    def _end_silent(self, connection: socket.socket) -> None:
        """Send a silent connection away; its dialer may only be slow."""
        self._forget_silent(connection)
        self._send_away(connection)

    def _forget_silent(self, connection: socket.socket) -> None:
        self._loop.remove_reader(connection.fileno())
        self._silent.pop(connection).cancel()
