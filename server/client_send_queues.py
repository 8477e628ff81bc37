"""The queues of frames to the clients, with the pages of long replies.

Everything queued in a step leaves in one frame at its end, with two exceptions: of the clients that
only get watch events, `NOTIFIED_PER_STEP` are sent theirs in one step, and `CONFIRMED_PER_STEP` of
those that only learn that a heartbeat was confirmed; the others in the next steps. So a change that
thousands watch, and the confirmations of what they send then, do not hold up the answers and
proposals of all others. A client that stops reading is sent nothing beyond `unsent_bytes_max`, one
of ZooKeeper's nothing beyond `JUTE_UNSENT_BYTES`. Later items wait here, not yet encoded, and the
reads of this client wait as well (`SendState`). When too much waits, the connection is closed, and
the client resumes elsewhere from the last zxid it was told.

| state | turns to | when |
|---|---|---|
| OPEN | BLOCKED | too much is on its way, or a client of ZooKeeper has no recent heartbeat |
| OPEN | BLOCKED | `JuteBuffers` are full, for a client of ZooKeeper, until the step ends |
| OPEN | SENDABLE | a paged reply starts, and not too much is on its way |
| BLOCKED | SENDABLE | the client took enough, and has a recent heartbeat |
| SENDABLE | BLOCKED | a frame or page left, others wait, and too much is on its way |
| SENDABLE | OPEN | nothing waits any more |
| any | OPEN | the connection is closed; nothing is sent on it any more |

ZooKeeper: `NIOServerCnxn.outgoingBuffers`, which have no bound.

Invariants: items leave in the order in which they were queued, so an event stays before any reply
that could show its state, and no other item leaves between two pages of one list; the zxid of a
frame covers no event that leaves after it.
"""

from collections import deque
from itertools import islice
from typing import Final

from raykeeper.server.connection import Connection, LongReply, Phase, QueuedFrame, SendState
from raykeeper.server.context import ServerContext
from raykeeper.server.effects import SendClient
from raykeeper.server.jute_lists import JuteChildren
from raykeeper.server.request_counts import CONNECT
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    Item,
    ServerFrame,
    WatcherEvent,
    encode_server_frame,
)

JUTE_UNSENT_BYTES: Final = 256 << 10
"""While so much is on its way to a client of ZooKeeper nothing more is encoded for it: lists that
nobody reads would cost the others time."""
FRAME_BYTES_MAX: Final = 1 << 20
"""A frame with so many bytes of values and names leaves at once, which bounds every frame."""
NOTIFIED_PER_STEP: Final = 12
"""Clients that are sent watch events alone in one step; most of them soon send a read."""
CONFIRMED_PER_STEP: Final = 25
"""Clients that are sent a confirmed heartbeat alone in one step: 0.3 ms of the shell."""
PAGED_REPLY_BYTES: Final = 1 << 20
"""The bytes that a waiting paged reply counts as: it may keep deleted parts of the tree alive."""


class ClientSendQueues:
    """The queues of one server.

    `window` is how many unanswered requests each client may have, `return_spread_ms` over how long
    the clients spread their return to other servers if this one is lost.
    `overrun_connections` are the connections with more waiting than allowed; the owner closes them.
    """

    def __init__(self, context: ServerContext) -> None:
        self.window = context.options.outstanding_requests_max
        self.return_spread_ms = Millis(0)
        self.overrun_connections: list[Connection] = []
        self._context = context
        self._members = context.peer.settings.members
        self._unsent_max = context.options.unsent_bytes_max
        self._scheduled: dict[Connection, None] = {}  # to be flushed at the end of the step
        self._notified: dict[Connection, None] = {}  # with events alone, to be flushed some a step
        self._confirmed: dict[Connection, None] = {}  # perhaps without items, some a step too
        self._sendable: deque[Connection] = deque()  # in SENDABLE, or closed since
        self._held: list[Connection] = []  # BLOCKED until the end of the step, or closed since

    @property
    def has_work(self) -> bool:
        """Whether a frame that waited can leave right now."""
        return bool(self._sendable or self._notified or self._confirmed)

    def send_connect_reply(
        self, connection: Connection, timeout_ms: Millis, zxid: Zxid, last_number: int
    ) -> None:
        """Tell a client that it has a session, or a local one in read-only mode."""
        own_uuid = self._context.options.ensemble
        salt = self._context.state.acl_salt or own_uuid
        session_id, is_local = connection.session_id, connection.phase is Phase.READ_ONLY
        told = session_id, timeout_ms, zxid, last_number, salt, is_local, self.window
        connection.packets_sent += 1
        self._context.counters.requests.count(CONNECT, Code.OK)
        members = self._members.newest
        connection.members_version = members.version
        reply = ConnectReply(
            *(Code.OK, *told),
            return_spread_ms=self.return_spread_ms,
            members=members,
            own_uuid="" if own_uuid == salt else own_uuid,
        )
        self.send(connection, reply)

    def send(self, connection: Connection, frame: ConnectReply | ServerFrame | CloseFrame) -> None:
        """Send a frame right now, in the client's own protocol."""
        translator = connection.translator
        data = encode_server_frame(frame) if translator is None else translator.encode(frame)
        if data:
            connection.unsent_bytes += len(data)
            self._context.out.append(SendClient(connection.number, data))
        if translator is not None:
            translator.note_kept()

    def push(self, connection: Connection, item: Item) -> None:
        """Queue an item for the frame of this step."""
        items = connection.frame_items
        if not items or self._notified:  # its items so far may be events that wait for their turn
            self._scheduled[connection] = None
        items.append(item)

    def push_event(self, connection: Connection, event: WatcherEvent) -> None:
        """Queue an event. It leaves with the next reply, or soon: before what is queued later."""
        connection.frame_items.append(event)
        self._notified[connection] = None

    def schedule_flush(self, connection: Connection) -> None:
        """Send a frame at the end of this step, if only to confirm a heartbeat."""
        self._scheduled[connection] = None

    def start_paged(self, connection: Connection, answer: LongReply) -> None:
        """Queue a reply that is sent page by page; items pushed later follow it."""
        if connection.frame_items:
            self.flush(connection)
        _enqueue(connection, answer)
        connection.queued_bytes += PAGED_REPLY_BYTES
        if connection.send_state is SendState.OPEN:
            connection.send_state = SendState.BLOCKED
        self._schedule_if_sendable(connection)

    def flush(self, connection: Connection) -> None:
        """End a frame: send it, or queue it behind others."""
        items, connection.frame_items = connection.frame_items, []
        size, connection.frame_bytes = connection.frame_bytes, 0
        self._forget_flush(connection)
        translator = connection.translator
        if translator is not None and not translator.may_send():
            if items and connection.send_state is SendState.OPEN:
                connection.send_state = SendState.BLOCKED
            elif not items:
                return  # a heartbeat that was confirmed too late
        elif (
            translator is not None
            and items
            and connection.send_state is SendState.OPEN
            and self._context.jute_buffers.is_full
        ):
            connection.send_state = SendState.BLOCKED
            self._held.append(connection)
        if connection.send_state is not SendState.OPEN:
            if items:
                self._queue_frame(connection, items, size)
            return
        self._send_frame(connection, self._context.state.zxid, items)
        if not self._has_room(connection):
            connection.send_state = SendState.BLOCKED

    def flush_if_scheduled(self, connection: Connection) -> None:
        """Send now what would leave at the end of the step."""
        if connection in self._scheduled or connection in self._notified:
            self.flush(connection)

    def flush_all(self) -> None:
        """Send what was queued in this step, and some of the events and confirmations that wait."""
        if self._scheduled:
            for connection in list(self._scheduled):
                self.flush(connection)
        if self._notified:
            for connection in list(islice(self._notified, NOTIFIED_PER_STEP)):
                self.flush(connection)
        if self._confirmed:
            for connection in list(islice(self._confirmed, CONFIRMED_PER_STEP)):
                self.flush(connection)

    def on_bytes_sent(self, connection: Connection, size: int) -> None:
        """Count `size` bytes that have left."""
        connection.unsent_bytes -= size
        if connection.translator is not None:
            connection.translator.note_kept()
        self._schedule_if_sendable(connection)

    def on_heartbeat_confirmed(self, connection: Connection) -> None:
        """Send a frame that says so soon, and what waited for the heartbeat."""
        self._confirmed[connection] = None
        if connection.translator is not None:
            self._schedule_if_sendable(connection)

    def send_queued(self) -> list[Connection]:
        """Send what waits and may leave, up to one page; return the connections that caught up."""
        caught_up: list[Connection] = []
        is_paged = False
        buffers = self._context.jute_buffers
        while self._sendable and not is_paged and not buffers.is_full:
            connection = self._sendable.popleft()
            if connection.send_state is not SendState.SENDABLE:
                continue  # closed
            connection.send_state = SendState.BLOCKED  # it has left the line
            waiting = connection.queued_frames
            while waiting and not is_paged and self._has_room(connection) and not buffers.is_full:
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
            if waiting or not self._has_room(connection):
                self._schedule_if_sendable(connection)
            else:
                connection.send_state = SendState.OPEN
                self.schedule_flush(connection)
                caught_up.append(connection)
        return caught_up

    def release_held(self) -> None:
        """Let those go on that waited for the buffers of all, which are not full any more."""
        held, self._held = self._held, []
        for connection in held:
            if connection.send_state is SendState.BLOCKED:  # not closed
                self._schedule_if_sendable(connection)

    def drop(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        connection.queued_frames = None
        connection.send_state = SendState.OPEN
        self._forget_flush(connection)

    def _forget_flush(self, connection: Connection) -> None:
        self._scheduled.pop(connection, None)
        if self._notified:
            self._notified.pop(connection, None)
        if self._confirmed:
            self._confirmed.pop(connection, None)

    def _schedule_if_sendable(self, connection: Connection) -> None:
        """Put a blocked connection in the line if its next frame may leave."""
        translator = connection.translator
        if translator is not None and not translator.may_send():
            return
        if connection.send_state is SendState.BLOCKED and self._has_room(connection):
            connection.send_state = SendState.SENDABLE
            self._sendable.append(connection)

    def _has_room(self, connection: Connection) -> bool:
        """Return whether not too much is on its way to the client."""
        unsent = connection.unsent_bytes
        if unsent > JUTE_UNSENT_BYTES and connection.translator is not None:
            return False
        return unsent <= self._unsent_max

    def _send_page(self, connection: Connection, answer: LongReply) -> bool:
        """Send the next page; return whether it was the last."""
        item = answer.next(self._context.state)
        if connection.translator is not None and isinstance(answer, JuteChildren):
            connection.translator.note_list(answer.bytes)
        if item is not None:
            self._send_frame(connection, answer.zxid, [item])
        if answer.is_over:
            connection.queued_bytes -= PAGED_REPLY_BYTES
        return answer.is_over

    def _send_frame(self, connection: Connection, zxid: Zxid, items: list[Item]) -> None:
        heartbeat, window = connection.confirmed_heartbeat, self.window
        members = None
        # A translator counts the frames that it makes of this one, and its protocol has no lists.
        if connection.translator is None:
            connection.packets_sent += len(items) or 1
            if self._members.newest.version > connection.members_version:
                members = self._members.newest
                connection.members_version = members.version
        spread_ms = self.return_spread_ms
        self.send(connection, ServerFrame(heartbeat, zxid, items, window, spread_ms, members))

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


def _enqueue(connection: Connection, what: QueuedFrame | LongReply) -> None:
    if connection.queued_frames is None:
        connection.queued_frames = deque()
    connection.queued_frames.append(what)
