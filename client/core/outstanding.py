"""Requests without a reply: numbered, sent in order, and sent again in the same order.

    queued ──take_batch──> sent ──take_answered──> gone
       ^                    │
       └───── requeue ──────┘   the connection is lost: everything in its old order

The invariants of this file: writes have contiguous numbers from 1 in the order of submission; every
connection sends requests in that order; only replies in order advance `acked`. So the server tells
a repeated write from a new one, and each write takes effect exactly once.

On a server without a leader a new write gets no number: it is refused in its place among the other
requests and never sent. Writes from before stay and wait, and so do the requests behind them.

The server says how many requests may be on the wire (`set_window`); the others wait here. Their
bytes are bounded in proportion, which bounds what all clients of a server have outstanding.
"""

from collections import deque
from itertools import count, islice, takewhile

from msgspec import Struct, structs

from raykeeper.client.core.limits import ClientLimits
from raykeeper.zab.ids import Millis
from raykeeper.znodes.paths import CONFIG_PATH
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
    Reconfig,
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
    """A read or a sync without an xid. `watcher` is None for no watch.

    `ignores_chroot`: the path is the server's, whatever the root of the handle is.
    """

    kind: type[GetData] | type[Exists] | type[GetChildren] | type[Sync]
    path: str
    watcher: object | None = None
    linearizable: bool = False
    ignores_chroot: bool = False


class WatchAddition(Struct, frozen=True):
    """A request to set a persistent watch of `watcher`."""

    path: str
    mode: WatchMode
    with_values: bool
    watcher: object


class WatchRemoval(Struct, frozen=True):
    """A request to remove watches of a kind: those of one watcher, or of all (None).

    `kinds` have no other watcher on this path: the server removes its watch too.
    """

    path: str
    kind: WatchKind
    watcher: object | None
    kinds: list[int] = []


NewRequest = WriteOp | Query | AuxRead | WatchAddition | WatchRemoval
"""A request without a number or an xid."""
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
    """The `reply_type` of a refused write, which is never sent."""


def path_of(request: NewRequest) -> str:
    """Return the path of a request, "" if it has none or several."""
    return CONFIG_PATH if type(request) is Reconfig else getattr(request, "path", "")


class PendingRequest(Struct):
    """A request without a reply. `token` is None once its caller was told that it timed out."""

    token: object | None
    submitted_at: Millis
    number_or_xid: int
    """The number of a write, the xid of another request."""
    reply_type: type
    request: object
    """The encoded operation of a write, else the request itself."""
    path: str
    watcher: object | None
    """The watcher of a read; for a WatchAddition or WatchRemoval the request itself."""
    size: int


class OutstandingRequests:
    """The requests of one session without a reply, oldest first."""

    def __init__(self, limits: ClientLimits) -> None:
        self.acked = 0
        """The replies to all writes up to this number were received."""
        self.xids = count(1)
        self.is_read_only = False
        """The server has no leader: writes are neither sent nor numbered."""
        self.refused_count = 0
        """The number of refused writes that wait for their turn."""
        self._limits = limits
        self._number = 0  # of the newest write
        self._number_sent = 0  # of the newest write that was ever sent
        self._sent: deque[PendingRequest] = deque()
        self._queued: deque[PendingRequest] = deque()
        self._bytes_sent = 0
        self._window = limits.outstanding_max
        self._window_bytes = limits.outstanding_bytes_max
        self._pages: list[str] = []
        self.is_paging = False
        """The oldest request on the wire has a part of its reply."""
        # All requests have the same timeout, so the oldest ones have timed out.
        self._timed_out_count = 0

    def add(self, new: NewRequest, token: object, now: Millis) -> None:
        """Number a request and queue it."""
        if type(new) is Query:
            kind, path, watcher = new.kind, new.path, new.watcher
            xid = next(self.xids)
            if kind is Sync:
                request: object = Sync(xid, path)
            else:
                request = kind(xid, path, watcher is not None, new.linearizable)
            size = len(path) + REQUEST_OVERHEAD_BYTES
            waiting = PendingRequest(token, now, xid, _REPLY_TO[kind], request, path, watcher, size)
        elif type(new) is WatchAddition or type(new) is WatchRemoval:
            xid, path = next(self.xids), new.path
            if isinstance(new, WatchAddition):
                request = AddWatch(xid, path, new.mode, new.with_values)
            else:
                request = RemoveWatches(xid, path, new.kinds)
            size = len(path) + REQUEST_OVERHEAD_BYTES
            waiting = PendingRequest(token, now, xid, EmptyReply, request, path, new, size)
        elif (answer := _REPLY_TO.get(type(new))) is not None:
            xid = next(self.xids)
            request = structs.replace(new, xid=xid)
            path = path_of(new)
            size = len(path) + REQUEST_OVERHEAD_BYTES
            if type(new) is MultiRead:
                size += sum(len(op.path) + REQUEST_OVERHEAD_BYTES for op in new.ops)
            waiting = PendingRequest(token, now, xid, answer, request, path, None, size)
        elif self.is_read_only and type(new) is not CloseSession:
            self.refused_count += 1
            waiting = PendingRequest(token, now, 0, RefusedReply, None, path_of(new), None, 0)
        else:
            self._number = number = self._number + 1
            op = encode_op(new)
            path = path_of(new)
            size = len(op) + REQUEST_OVERHEAD_BYTES
            waiting = PendingRequest(token, now, number, WriteReply, op, path, None, size)
        self._queued.append(waiting)

    def continue_numbers_after(self, number: int) -> None:
        """Continue, before the first write, after those of the session's previous client."""
        assert not self._number, (number, self._number)
        self._number = self._number_sent = self.acked = number

    def set_window(self, window: int) -> None:
        """Allow `window` requests on the wire, at least one."""
        limits = self._limits
        self._window = max(1, min(window, limits.outstanding_max))
        share = limits.outstanding_bytes_max * self._window // limits.outstanding_max
        self._window_bytes = max(1, share)

    def take_batch(self) -> list[Request]:
        """Return the requests of the next frame; none if nothing waits or the wire is full."""
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
        """Remove and return the request that `reply` answers: the oldest one on the wire.

        Returns None, and changes nothing, if `reply` does not fit that request. A page of a list is
        kept and the request stays, as `is_paging` tells; the last page gets all the others.
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
        """Remove and return the refused write whose turn it is: nothing before it is unanswered."""
        if not self.is_oldest_refused():
            return None
        self.refused_count -= 1
        if self._timed_out_count:
            self._timed_out_count -= 1
        return (self._sent or self._queued).popleft()

    def is_oldest_refused(self) -> bool:
        """Return whether the oldest request is a refused write."""
        return self.refused_count > 0 and (self._sent or self._queued)[0].reply_type is RefusedReply

    def requeue(self) -> None:
        """The connection is lost: queue what was sent, to be sent again in the old order."""
        self._pages = []
        self.is_paging = False
        self._queued.extendleft(reversed(self._sent))
        self._sent.clear()
        self._bytes_sent = 0

    def has_queued(self) -> bool:
        """Return whether a request waits to be sent."""
        return bool(self._queued)

    def times_out_at(self) -> Millis | None:
        """Return when the next request times out."""
        oldest = self._oldest()
        if oldest is None:
            return None
        return Millis(oldest.submitted_at + self._limits.request_timeout_ms)

    def take_timed_out(self, now: Millis) -> list[PendingRequest]:
        """Return the requests that have timed out since the last call.

        They stay outstanding, because a number that was given cannot be withdrawn; the caller
        fails their tokens and clears them.
        """
        late: list[PendingRequest] = []
        while True:
            oldest = self._oldest()
            if oldest is None or now < oldest.submitted_at + self._limits.request_timeout_ms:
                return late
            late.append(oldest)
            self._timed_out_count += 1

    def take_all(self) -> list[PendingRequest]:
        """Remove and return every request, oldest first: the session is over."""
        every = [*self._sent, *self._queued]
        self._sent.clear()
        self._queued.clear()
        self._bytes_sent = self._timed_out_count = self.refused_count = 0
        return every

    def may_have_reached_server(self, waiting: PendingRequest) -> bool:
        """Return whether any connection has sent this write."""
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
