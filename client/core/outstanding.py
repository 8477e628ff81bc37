"""Requests that were not answered yet: numbered, sent in order, sent again in the same order.

    queued ──take_batch──> sent ──answered──> gone
       ^                    │
       └───── unsend ───────┘   the connection is lost: everything in its old order

The invariants of this file: writes have contiguous numbers from 1 in the order of submission; what
leaves, on whichever connection, leaves in that order; `acked` moves only by outcomes in order. So
the server can tell a repeated write from a new one, and each takes effect exactly once.

While there is only a server without a leader, a new write gets no number: it is refused in its
place among the other requests and never leaves. Writes from before then stay and wait, and so does
whatever was asked after them.

How many may be on the wire is the server's word (`set_window`); the rest waits here. Their bytes
are bounded in proportion, so that what all clients of a server have under way is bounded too.
"""

from collections import deque
from itertools import count, islice, takewhile

from msgspec import Struct, structs

from raykeeper.client.core.limits import ClientLimits
from raykeeper.zab.ids import Millis
from raykeeper.znodes.replies import (
    AuxReply,
    CountDescendantsReply,
    EmptyReply,
    ErrorReply,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    GetQuotaReply,
    MultiReadReply,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddWatch,
    AuxRead,
    CloseSession,
    CountDescendants,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    GetQuota,
    MultiRead,
    RemoveWatches,
    Request,
    Sync,
    WatchKind,
    WatchMode,
    WhoAmI,
    Write,
    WriteOp,
    encode_op,
)

REQUEST_OVERHEAD_BYTES = 24


class Query(Struct, frozen=True):
    """A read or a sync that has no xid yet. `watcher` is None for no watch."""

    kind: type[GetData] | type[Exists] | type[GetChildren] | type[Sync]
    path: str
    watcher: object | None = None
    linearizable: bool = False


class WatchAddition(Struct, frozen=True):
    """A persistent watch to set, in the name of `watcher`."""

    path: str
    mode: WatchMode
    with_values: bool
    watcher: object


class WatchRemoval(Struct, frozen=True):
    """Watches of a kind to remove: that of one watcher, or of all (None).

    `kinds` are those that nobody else wants, to be removed from the server too.
    """

    path: str
    kind: WatchKind
    watcher: object | None
    kinds: list[int] = []


NewRequest = WriteOp | Query | AuxRead | WatchAddition | WatchRemoval
"""An inquiry gets its xid here too."""
ServerReply = (
    WriteReply | GetDataReply | ExistsReply | GetChildrenReply | EmptyReply | ErrorReply | AuxReply
)

_REPLY_TO: dict[type, type] = {
    GetData: GetDataReply,
    Exists: ExistsReply,
    GetChildren: GetChildrenReply,
    Sync: EmptyReply,
    GetAcls: GetAclsReply,
    WhoAmI: WhoAmIReply,
    GetEphemerals: GetEphemeralsReply,
    CountDescendants: CountDescendantsReply,
    MultiRead: MultiReadReply,
    GetQuota: GetQuotaReply,
}


class RefusedReply:
    """Stands for the kind of answer of a write that is not to be sent."""


def path_of(ask: NewRequest) -> str:
    """The path that a request is about, "" when it is about none or several."""
    return getattr(ask, "path", "")


class PendingRequest(Struct):
    """A request without an answer. `token` is None once the caller was told that it timed out."""

    token: object | None
    submitted_at: Millis
    number_or_xid: int
    """The number of a write, the xid of another request."""
    reply_type: type
    request: object
    """The encoded operation of a write, else the request itself."""
    path: str
    watcher: object | None
    """Of a read; a Watch or Unwatch as a whole."""
    size: int


class OutstandingRequests:
    """The requests of one session that wait for an answer, oldest first."""

    def __init__(self, limits: ClientLimits) -> None:
        self.acked = 0
        """Outcomes of all writes up to this number were received."""
        self.xids = count(1)
        self.is_read_only = False
        """No server with a leader is there: writes neither leave nor get numbers."""
        self.refused_count = 0
        """How many refused writes wait for their turn."""
        self._limits = limits
        self._number = 0  # of the newest write
        self._number_sent = 0  # of the newest write that ever left
        self._sent: deque[PendingRequest] = deque()
        self._queued: deque[PendingRequest] = deque()
        self._bytes_sent = 0
        self._window = limits.outstanding_max
        self._window_bytes = limits.outstanding_bytes_max
        self._pages: list[str] = []
        self.is_paging = False
        """The oldest request on the wire is answered in part."""
        # The timeout is the same for all, so those that timed out are the oldest ones.
        self._timed_out_count = 0

    def add(self, ask: NewRequest, token: object, now: Millis) -> None:
        """Number a request and queue it."""
        if type(ask) is Query:
            kind, path, watcher = ask.kind, ask.path, ask.watcher
            xid = next(self.xids)
            if kind is Sync:
                request: object = Sync(xid, path)
            else:
                request = kind(xid, path, watcher is not None, ask.linearizable)
            size = len(path) + REQUEST_OVERHEAD_BYTES
            waiting = PendingRequest(token, now, xid, _REPLY_TO[kind], request, path, watcher, size)
        elif type(ask) is WatchAddition or type(ask) is WatchRemoval:
            xid, path = next(self.xids), ask.path
            if isinstance(ask, WatchAddition):
                request = AddWatch(xid, path, ask.mode, ask.with_values)
            else:
                request = RemoveWatches(xid, path, ask.kinds)
            size = len(path) + REQUEST_OVERHEAD_BYTES
            waiting = PendingRequest(token, now, xid, EmptyReply, request, path, ask, size)
        elif (answer := _REPLY_TO.get(type(ask))) is not None:
            xid = next(self.xids)
            request = structs.replace(ask, xid=xid)
            path = path_of(ask)
            size = len(path) + REQUEST_OVERHEAD_BYTES
            if type(ask) is MultiRead:
                size += sum(len(op.path) + REQUEST_OVERHEAD_BYTES for op in ask.ops)
            waiting = PendingRequest(token, now, xid, answer, request, path, None, size)
        elif self.is_read_only and type(ask) is not CloseSession:
            self.refused_count += 1
            waiting = PendingRequest(token, now, 0, RefusedReply, None, path_of(ask), None, 0)
        else:
            self._number = number = self._number + 1
            op = encode_op(ask)
            path = path_of(ask)
            size = len(op) + REQUEST_OVERHEAD_BYTES
            waiting = PendingRequest(token, now, number, WriteReply, op, path, None, size)
        self._queued.append(waiting)

    def continue_numbers_after(self, number: int) -> None:
        """Before the first write: the session had writes up to `number`, of another client."""
        assert not self._number, (number, self._number)
        self._number = self._number_sent = self.acked = number

    def set_window(self, window: int) -> None:
        """The server bears so many requests on the wire, at least one."""
        limits = self._limits
        self._window = max(1, min(window, limits.outstanding_max))
        share = limits.outstanding_bytes_max * self._window // limits.outstanding_max
        self._window_bytes = max(1, share)

    def take_batch(self) -> list[Request]:
        """The requests of the next frame; none when nothing waits or too much is on the wire."""
        queued, sent, acked = self._queued, self._sent, self.acked
        batch: list[Request] = []
        size = 0
        slots_left = min(len(queued), self._window - len(sent))
        if self.is_read_only and slots_left > 0:
            may_leave = takewhile(
                lambda each: each.reply_type is not WriteReply, islice(queued, slots_left)
            )
            slots_left = sum(1 for _ in may_leave)
        bytes_left = min(self._limits.frame_bytes, self._window_bytes - self._bytes_sent)
        while slots_left > 0 and size < bytes_left:
            waiting = queued.popleft()
            sent.append(waiting)
            slots_left -= 1
            size += waiting.size
            request = waiting.request
            if waiting.reply_type is WriteReply:
                number = waiting.number_or_xid
                batch.append(Write(number, acked, request))  # type: ignore[arg-type]
                if number > self._number_sent:
                    self._number_sent = number
            elif request is not None:
                batch.append(request)  # type: ignore[arg-type]
        self._bytes_sent += size
        return batch

    def take_answered(self, reply: ServerReply) -> PendingRequest | None:
        """Take the request that `reply` answers: the oldest one on the wire.

        None when it does not answer that one; nothing has changed then. A page of a list is kept
        here and the request stays, as `is_paging` tells; the last page is given all the others.
        """
        sent = self._sent
        if not sent:
            return None
        waiting = sent[0]
        if type(reply) is WriteReply:
            if waiting.reply_type is not WriteReply or reply.number != waiting.number_or_xid:
                return None
            self.acked = reply.number
        else:
            fits = type(reply) is waiting.reply_type
            if not fits and type(reply) is ErrorReply:
                fits = waiting.reply_type is not WriteReply and reply.code != 0
            if not fits or reply.xid != waiting.number_or_xid:
                return None
            if (
                type(reply) is GetChildrenReply or type(reply) is GetEphemeralsReply
            ) and not self._add_page(reply):
                return waiting
        sent.popleft()
        self._bytes_sent -= waiting.size
        if self._timed_out_count:
            self._timed_out_count -= 1
        return waiting

    def take_refused(self) -> PendingRequest | None:
        """Take the refused write whose turn it is: everything before it has been answered."""
        if not self.is_oldest_refused():
            return None
        self.refused_count -= 1
        if self._timed_out_count:
            self._timed_out_count -= 1
        return (self._sent or self._queued).popleft()

    def is_oldest_refused(self) -> bool:
        """Whether there is one."""
        return self.refused_count > 0 and (self._sent or self._queued)[0].reply_type is RefusedReply

    def requeue(self) -> None:
        """The connection is lost; everything will leave again, in the old order."""
        self._pages = []
        self.is_paging = False
        self._queued.extendleft(reversed(self._sent))
        self._sent.clear()
        self._bytes_sent = 0

    def has_queued(self) -> bool:
        """Whether something waits to leave."""
        return bool(self._queued)

    def times_out_at(self) -> Millis | None:
        """When the oldest request that nobody gave up yet times out."""
        oldest = self._oldest()
        if oldest is None:
            return None
        return Millis(oldest.submitted_at + self._limits.request_timeout_ms)

    def take_timed_out(self, now: Millis) -> list[PendingRequest]:
        """Those that have timed out since the last call.

        They stay outstanding, for a number that was given cannot be taken back; the caller tells
        their owners and clears their tokens.
        """
        late: list[PendingRequest] = []
        while True:
            oldest = self._oldest()
            if oldest is None or now < oldest.submitted_at + self._limits.request_timeout_ms:
                return late
            late.append(oldest)
            self._timed_out_count += 1

    def take_all(self) -> list[PendingRequest]:
        """The session is over: everything that waits, oldest first."""
        every = [*self._sent, *self._queued]
        self._sent.clear()
        self._queued.clear()
        self._bytes_sent = self._timed_out_count = self.refused_count = 0
        return every

    def may_have_reached_server(self, waiting: PendingRequest) -> bool:
        """Whether this write may have reached a server on any connection."""
        return waiting.number_or_xid <= self._number_sent

    def _add_page(self, reply: GetChildrenReply | GetEphemeralsReply) -> bool:
        names = reply.children if isinstance(reply, GetChildrenReply) else reply.paths
        was_paging, self.is_paging = self.is_paging, reply.more
        if reply.more:
            self._pages += names
        elif was_paging:
            names[:0] = self._pages
            self._pages = []
        if isinstance(reply, GetEphemeralsReply):
            names.sort()
        return not reply.more

    def _oldest(self) -> PendingRequest | None:
        place, sent = self._timed_out_count, self._sent
        if place < len(sent):
            return sent[place]
        place -= len(sent)
        return self._queued[place] if place < len(self._queued) else None
