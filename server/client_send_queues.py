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

from raykeeper.server.connection import Connection, QueuedFrame
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import SendClient
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.pages import PagedReply
from raykeeper.znodes.replies import ConnectReply, Item, ServerFrame, encode_server_frame

FRAME_BYTES_MAX: Final = 1 << 20
"""A frame with this much in values and names leaves at once, so that none grows without bound."""
PAGED_REPLY_BYTES: Final = 1 << 20
"""What a long answer that waits counts as: it may keep parts of the tree that are no more."""


class ClientSendQueues:
    """The way out of one server. `window` is what each client may have unanswered.

    `overrun_connections` are the connections that have more waiting than they may; whoever reads it
    ends them.
    """

    def __init__(self, context: ServerContext) -> None:
        self.window = context.options.outstanding_requests_max
        self.overrun_connections: list[Connection] = []
        self._context = context
        self._unsent_max = context.options.unsent_bytes_max
        self._dirty: list[Connection] = []
        self._ready: deque[Connection] = deque()  # full ones that can go on

    @property
    def has_work(self) -> bool:
        """Whether something can leave right now."""
        return bool(self._ready)

    def send_connect_reply(
        self, connection: Connection, timeout_ms: Millis, zxid: Zxid, last_number: int
    ) -> None:
        """The connection has its session, or a local one."""
        ensemble = self._context.options.ensemble
        session_id, is_local = connection.session_id, connection.local_session is not None
        told = session_id, timeout_ms, zxid, last_number, ensemble, is_local, self.window
        self._send(connection, encode_server_frame(ConnectReply(Code.OK, *told)))

    def push(self, connection: Connection, item: Item) -> None:
        """Queue an item for the frame of this step."""
        connection.frame_items.append(item)
        if not connection.is_dirty:
            connection.is_dirty = True
            self._dirty.append(connection)

    def schedule_flush(self, connection: Connection) -> None:
        """There is something to tell at the end of this step, if only a heartbeat."""
        if not connection.is_dirty:
            connection.is_dirty = True
            self._dirty.append(connection)

    def start_paged(self, connection: Connection, answer: PagedReply) -> None:
        """Queue an answer that is given bit by bit; what is pushed afterwards follows it."""
        if connection.frame_items:
            self.flush(connection)
        _enqueue(connection, answer)
        connection.queued_bytes += PAGED_REPLY_BYTES
        connection.is_full = True
        self._schedule_if_sendable(connection)

    def flush(self, connection: Connection) -> None:
        """End a frame: it leaves, or waits behind others."""
        items, connection.frame_items = connection.frame_items, []
        size, connection.frame_bytes = connection.frame_bytes, 0
        connection.is_dirty = False
        if connection.is_full:
            if items:
                self._queue_frame(connection, items, size)
        else:
            self._send_frame(connection, self._context.state.zxid, items)
            connection.is_full = connection.unsent_bytes > self._unsent_max

    def flush_all(self) -> None:
        """End of the step."""
        for connection in self._dirty:
            if connection.is_dirty:
                self.flush(connection)
        self._dirty = []

    def on_bytes_sent(self, connection: Connection, size: int) -> None:
        """ClientBytesSent: so much has left."""
        connection.unsent_bytes -= size
        if connection.is_full:
            self._schedule_if_sendable(connection)

    def send_queued(self) -> list[Connection]:
        """Let go on what can, up to one page; returns those with nothing waiting any more."""
        caught_up: list[Connection] = []
        is_paged = False
        while self._ready and not is_paged:
            connection = self._ready.popleft()
            connection.is_ready = False
            waiting = connection.queued_frames
            while waiting and not is_paged and connection.unsent_bytes <= self._unsent_max:
                head = waiting[0]
                if isinstance(head, QueuedFrame):
                    waiting.popleft()
                    connection.queued_items -= len(head.items)
                    connection.queued_bytes -= head.bytes
                    self._send_frame(connection, head.zxid, head.items)
                else:
                    is_paged = True
                    if self._send_page(connection, head):
                        waiting.popleft()
            if waiting:
                self._schedule_if_sendable(connection)
            elif connection.is_full and connection.unsent_bytes <= self._unsent_max:
                connection.is_full = False
                self.schedule_flush(connection)
                caught_up.append(connection)
        return caught_up

    def drop(self, connection: Connection) -> None:
        """The connection is gone."""
        connection.queued_frames = None
        connection.is_dirty = connection.is_full = False

    def _schedule_if_sendable(self, connection: Connection) -> None:
        if not connection.is_ready and connection.unsent_bytes <= self._unsent_max:
            connection.is_ready = True
            self._ready.append(connection)

    def _send_page(self, connection: Connection, answer: PagedReply) -> bool:
        """Whether that was the last of it."""
        item = answer.next(self._context.state)
        if item is not None:
            self._send_frame(connection, answer.zxid, [item])
        if answer.is_over:
            connection.queued_bytes -= PAGED_REPLY_BYTES
        return answer.is_over

    def _send_frame(self, connection: Connection, zxid: Zxid, items: list[Item]) -> None:
        frame = ServerFrame(connection.confirmed_heartbeat, zxid, items, self.window)
        self._send(connection, encode_server_frame(frame))

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.unsent_bytes += len(data)
        self._context.out.append(SendClient(connection.number, data))

    def _queue_frame(self, connection: Connection, items: list[Item], size: int) -> None:
        zxid, waiting = self._context.state.zxid, connection.queued_frames
        last = waiting[-1] if waiting else None
        if isinstance(last, QueuedFrame) and last.bytes + size <= FRAME_BYTES_MAX:
            last.zxid = zxid
            last.items += items
            last.bytes += size
        else:
            _enqueue(connection, QueuedFrame(zxid, items, size))
        connection.queued_items += len(items)
        connection.queued_bytes += size
        options = self._context.options
        if (
            connection.queued_items > options.queued_items_max
            or connection.queued_bytes > options.queued_bytes_max
        ):
            self.overrun_connections.append(connection)


def _enqueue(connection: Connection, what: QueuedFrame | PagedReply) -> None:
    if connection.queued_frames is None:
        connection.queued_frames = deque()
    connection.queued_frames.append(what)
