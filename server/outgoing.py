"""What leaves for the clients, in order: frames, pages of long answers, and what has to wait.

Whatever is queued in a step leaves in one frame at its end. A client that does not take what it was
sent gets no more than `unsent_bytes_max`; what happens on its connection afterwards waits here as
it is, not yet encoded, and its reads are not answered (`is_full`). When too much waits the
connection ends: the client resumes elsewhere from the last zxid it was told.

ZooKeeper: `NIOServerCnxn.outgoingBuffers`, which have no bound.

Invariants: items leave in the order in which they were queued, so an event stays before any reply
that could show its state, and between two pages of one list nothing else is told; the zxid of a
frame covers no event that is still to come.
"""

from collections import deque
from typing import Final

from raykeeper.server.connection import Connection, Held
from raykeeper.server.effects import SendClient
from raykeeper.server.server_context import ServerContext
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.pages import Lengthy
from raykeeper.znodes.replies import Connected, Item, ServerFrame, encode_server_frame

FRAME_BYTES_MAX: Final = 1 << 20
"""A frame with this much in values and names leaves at once, so that none grows without bound."""
LENGTHY_BYTES: Final = 1 << 20
"""What a long answer that waits counts as: it may keep parts of the tree that are no more."""


class Outgoing:
    """The way out of one server. `window` is what each client may have unanswered.

    `overrun` are the connections that have more waiting than they may; whoever reads it ends them.
    """

    def __init__(self, context: ServerContext) -> None:
        self.window = context.options.requests_max
        self.overrun: list[Connection] = []
        self._context = context
        self._unsent_max = context.options.unsent_bytes_max
        self._dirty: list[Connection] = []
        self._ready: deque[Connection] = deque()  # full ones that can go on

    @property
    def wants_step(self) -> bool:
        """Whether something can leave right now."""
        return bool(self._ready)

    def welcome(
        self, connection: Connection, timeout_ms: Millis, zxid: Zxid, last_number: int
    ) -> None:
        """The connection has its session, or a local one."""
        ensemble = self._context.options.ensemble
        session_id, is_local = connection.session_id, connection.local is not None
        told = session_id, timeout_ms, zxid, last_number, ensemble, is_local, self.window
        self._send(connection, encode_server_frame(Connected(Code.OK, *told)))

    def push(self, connection: Connection, item: Item) -> None:
        """Queue an item for the frame of this step."""
        connection.items.append(item)
        if not connection.is_dirty:
            connection.is_dirty = True
            self._dirty.append(connection)

    def mark(self, connection: Connection) -> None:
        """There is something to tell at the end of this step, if only a heartbeat."""
        if not connection.is_dirty:
            connection.is_dirty = True
            self._dirty.append(connection)

    def begin(self, connection: Connection, answer: Lengthy) -> None:
        """Queue an answer that is given bit by bit; what is pushed afterwards follows it."""
        if connection.items:
            self.flush(connection)
        _wait(connection, answer)
        connection.waiting_bytes += LENGTHY_BYTES
        connection.is_full = True
        self._look_at(connection)

    def flush(self, connection: Connection) -> None:
        """End a frame: it leaves, or waits behind others."""
        items, connection.items = connection.items, []
        size, connection.bytes = connection.bytes, 0
        connection.is_dirty = False
        if connection.is_full:
            if items:
                self._hold(connection, items, size)
        else:
            self._leave(connection, self._context.state.zxid, items)
            connection.is_full = connection.unsent > self._unsent_max

    def flush_all(self) -> None:
        """End of the step."""
        for connection in self._dirty:
            if connection.is_dirty:
                self.flush(connection)
        self._dirty = []

    def sent(self, connection: Connection, size: int) -> None:
        """ClientSent: so much has left."""
        connection.unsent -= size
        if connection.is_full:
            self._look_at(connection)

    def advance(self) -> list[Connection]:
        """Let go on what can, up to one page; returns those with nothing waiting any more."""
        caught_up: list[Connection] = []
        is_paged = False
        while self._ready and not is_paged:
            connection = self._ready.popleft()
            connection.is_ready = False
            waiting = connection.waiting
            while waiting and not is_paged and connection.unsent <= self._unsent_max:
                head = waiting[0]
                if isinstance(head, Held):
                    waiting.popleft()
                    connection.waiting_items -= len(head.items)
                    connection.waiting_bytes -= head.bytes
                    self._leave(connection, head.zxid, head.items)
                else:
                    is_paged = True
                    if self._go_on(connection, head):
                        waiting.popleft()
            if waiting:
                self._look_at(connection)
            elif connection.is_full and connection.unsent <= self._unsent_max:
                connection.is_full = False
                self.mark(connection)
                caught_up.append(connection)
        return caught_up

    def drop(self, connection: Connection) -> None:
        """The connection is gone."""
        connection.waiting = None
        connection.is_dirty = connection.is_full = False

    def _look_at(self, connection: Connection) -> None:
        if not connection.is_ready and connection.unsent <= self._unsent_max:
            connection.is_ready = True
            self._ready.append(connection)

    def _go_on(self, connection: Connection, answer: Lengthy) -> bool:
        """Whether that was the last of it."""
        item = answer.next(self._context.state)
        if item is not None:
            self._leave(connection, answer.zxid, [item])
        if answer.is_over:
            connection.waiting_bytes -= LENGTHY_BYTES
        return answer.is_over

    def _leave(self, connection: Connection, zxid: Zxid, items: list[Item]) -> None:
        frame = ServerFrame(connection.confirmed, zxid, items, self.window)
        self._send(connection, encode_server_frame(frame))

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.unsent += len(data)
        self._context.out.append(SendClient(connection.number, data))

    def _hold(self, connection: Connection, items: list[Item], size: int) -> None:
        zxid, waiting = self._context.state.zxid, connection.waiting
        last = waiting[-1] if waiting else None
        if isinstance(last, Held) and last.bytes + size <= FRAME_BYTES_MAX:
            last.zxid = zxid
            last.items += items
            last.bytes += size
        else:
            _wait(connection, Held(zxid, items, size))
        connection.waiting_items += len(items)
        connection.waiting_bytes += size
        options = self._context.options
        if (
            connection.waiting_items > options.waiting_items_max
            or connection.waiting_bytes > options.waiting_bytes_max
        ):
            self.overrun.append(connection)


def _wait(connection: Connection, what: Held | Lengthy) -> None:
    if connection.waiting is None:
        connection.waiting = deque()
    connection.waiting.append(what)
