"""A server that is drained: it takes no clients, and moves those it has to the other servers.

A drain lasts until it is ended or the process is. The server goes on to vote, and to serve a client
until it moves it. To move a client is to close its connection: its session lives, and the client
goes to the next server at once. Moves are paced, because each costs the other servers a
transaction.

A native client sends its unanswered requests again, so it may be moved at any time. One of
ZooKeeper's gets an error for each of them, so the server waits until the client has sent nothing
for `QUIET_MS` and waits for nothing, but no longer than the drain allows.

Invariant: while the drain lasts, every connection is of those that were there when it began.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.client_send_queues import ClientSendQueues
from raykeeper.server.connection import Connection, Phase, SendState
from raykeeper.server.context import ServerContext
from raykeeper.server.events import DrainRequested
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import Code

REFUSAL: Final = "it is drained: it takes no clients until the drain is ended"
QUIET_MS: Final = Millis(10)
"""A client of ZooKeeper that has sent nothing for so long is taken to be between two requests."""
BURST_MS: Final = Millis(100)
"""After a pause of the process no more clients are moved at once than are due in this time."""
LOOKED_AT: Final = 500
"""So many clients one step looks at, to find those that can be moved."""
_MILLI: Final = 1_000


class ClientDrain:
    """The drain of one server, if there is one."""

    def __init__(
        self,
        context: ServerContext,
        connections: Mapping[int, Connection],
        send_queues: ClientSendQueues,
        close: Callable[[Connection, Code], None],
    ) -> None:
        """`connections` are all of this server, by number; `close` closes one of them."""
        self.is_draining = False
        self.deadline: Millis | None = None
        """When to call `move_due`; None if never."""
        self._context = context
        self._connections = connections
        self._send_queues = send_queues
        self._close = close
        self._waiting: deque[int] = deque()  # numbers of connections, some closed since
        self._clients_per_s = 0
        self._credit = 0  # thousandths of a client that may be moved now
        self._credited_at = self._patient_until = Millis(0)

    @property
    def clients_to_move(self) -> int | None:
        """How many clients are still to be moved; None if the server is not drained."""
        return len(self._connections) if self.is_draining else None

    def begin(self, event: DrainRequested) -> None:
        """Take no more clients, and move those that are there; a drain under way goes on so."""
        now = self._context.now.mono
        self.is_draining = True
        self._clients_per_s = event.clients_per_s
        self._patient_until = Millis(now + event.patience_ms)
        self._waiting = deque(self._connections)
        self._credit, self._credited_at = _MILLI, now
        self.deadline = now
        self._context.trace(trace_events.DRAIN_BEGUN, (len(self._waiting), event.clients_per_s))

    def end(self) -> None:
        """Take clients again; those that were moved stay where they are."""
        if self.is_draining:
            self.is_draining, self.deadline = False, None
            self._waiting.clear()
            self._context.trace(trace_events.DRAIN_ENDED)

    def move_due(self) -> None:
        """Move the clients whose turn has come."""
        now = self._context.now.mono
        if self.deadline is None or now < self.deadline:
            return
        rate = self._clients_per_s
        due = (now - self._credited_at) * rate
        self._credit = min(self._credit + due, max(_MILLI, BURST_MS * rate))
        self._credited_at = now
        for _ in range(min(len(self._waiting), LOOKED_AT)):
            if self._credit < _MILLI:
                break
            number = self._waiting.popleft()
            connection = self._connections.get(number)
            if connection is None:
                continue  # it has left by itself
            if self._may_move(connection):
                self._credit -= _MILLI
                self._move(connection)
            else:
                self._waiting.append(number)
        if not self._waiting:
            self.deadline = None
            self._context.trace(trace_events.DRAIN_DONE)
        elif self._credit < _MILLI:
            self.deadline = Millis(now + -((self._credit - _MILLI) // rate))
        else:
            self.deadline = Millis(now + QUIET_MS)  # those looked at are busy

    def _may_move(self, connection: Connection) -> bool:
        translator = connection.translator
        if translator is None or self._context.now.mono >= self._patient_until:
            return True
        return (
            connection.phase is not Phase.CONNECTING
            and not connection.requests
            and not connection.frame_items
            and connection.send_state is SendState.OPEN
            and translator.is_quiet(QUIET_MS)
        )

    def _move(self, connection: Connection) -> None:
        if connection.phase is not Phase.CONNECTING:
            # The others move in their own turn, so this one need not wait for them.
            self._send_queues.return_spread_ms = Millis(0)  # set anew as the connection is removed
            self._send_queues.schedule_flush(connection)
        self._close(connection, Code.CONNECTION_LOSS)
