"""Answers the requests that need only the server's own state: reads and requests about watches.

A reply is computed and its watch is set between the same two transactions.

ZooKeeper: `FinalRequestProcessor`.
"""

from collections.abc import Callable
from typing import Any, get_args

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.client_send_queues import FRAME_BYTES_MAX, ClientSendQueues
from raykeeper.server.connection import (
    CheckWatches,
    Connection,
    LocalRequest,
    RejectedRequest,
)
from raykeeper.server.context import ServerContext
from raykeeper.server.jute_lists import EncodedChildrenReply, JuteChildren
from raykeeper.znodes.acl import Identities
from raykeeper.znodes.change_log import values_size
from raykeeper.znodes.errors import Code
from raykeeper.znodes.multi_preparer import results_bytes
from raykeeper.znodes.pages import ChildrenPages, PagedReply
from raykeeper.znodes.paths import path_fault
from raykeeper.znodes.reads import (
    readable_stat,
    reply_to_aux_read,
    reply_to_read,
    set_watch_of_read,
)
from raykeeper.znodes.replies import (
    EmptyReply,
    ErrorReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    Item,
    MultiReadReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddWatch,
    AuxRead,
    GetChildren,
    Read,
    RemoveWatches,
    SetWatches,
    WatchKind,
    WatchMode,
)
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.watch_replay import WatchReplay

_MODES = frozenset(WatchMode)
_KINDS = frozenset(WatchKind)


class ReadProcessor:
    """Answers reads in the order of the requests; `connection.frame_bytes` counts their size."""

    def __init__(self, context: ServerContext, outgoing: ClientSendQueues) -> None:
        self._context = context
        self._push = outgoing.push
        self._start_paged = outgoing.start_paged
        self._page = context.options.page_names
        self._lists = context.jute_lists
        self._count_error = context.counters.requests.count_local_error
        self.by_type: dict[type, Callable[[Connection, Any], None]] = {
            **dict.fromkeys(get_args(Read), self._read),
            **dict.fromkeys(get_args(AuxRead), self._aux_read),
            SetWatches: self._set_watches,
            AddWatch: lambda by, asked: self._push_reply(by, asked, self._add_watch(by, asked)),
            RemoveWatches: lambda by, asked: self._push_reply(
                by, asked, self._remove_watches(by, asked)
            ),
            CheckWatches: lambda by, asked: self._push_reply(
                by, asked, self._check_watches(by, asked)
            ),
            RejectedRequest: lambda by, asked: self._push_reply(by, asked, asked.reply),
        }

    def process(self, connection: Connection, request: LocalRequest) -> None:
        """Queue the reply from the present state, after the events that must precede it."""
        self.by_type[type(request)](connection, request)

    def _push_reply(self, connection: Connection, request: LocalRequest, item: Item) -> None:
        if isinstance(item, ErrorReply | WriteReply):
            self._count_error(type(request), item.code)
        self._push(connection, item)

    def _read(self, connection: Connection, request: Read) -> None:
        state = self._context.state
        identities = self._session_of(connection).identities
        is_jute = connection.translator is not None
        kept = self._kept_list(request, identities) if is_jute else None
        item = kept or reply_to_read(state, identities, request, self._page)
        if type(item) is GetDataReply:
            connection.frame_bytes += len(item.value or b"")
        elif type(item) is GetChildrenReply:
            connection.frame_bytes += sum(map(len, item.children))
        elif type(item) is EncodedChildrenReply:
            connection.frame_bytes += len(item.encoded.data)
        elif type(item) is ErrorReply:
            self._count_error(type(request), item.code)
        if request.watch:
            if self._is_watch_limit_reached(connection):
                item = ErrorReply(request.xid, state.zxid, Code.BAD_ARGUMENTS)
                self._count_error(type(request), item.code)
            else:
                set_watch_of_read(self._context.watches, connection.number, request, item)
        if type(item) is not ChildrenPages:
            self._push(connection, item)
        elif is_jute:
            self._start_paged(connection, JuteChildren(self._lists, request.path, item))
        else:
            self._start_paged(connection, item)

    def _kept_list(self, request: Read, identities: Identities) -> EncodedChildrenReply | None:
        """Return the reply with a list that is kept and needs no pages, None without one."""
        state, path = self._context.state, request.path
        if type(request) is not GetChildren or path not in self._lists:
            return None
        stat = readable_stat(state, identities, path)
        names = None if stat is None else self._lists.get(path, stat)
        if stat is None or names is None:
            return None
        if names.count > self._page or len(names.data) > FRAME_BYTES_MAX:
            return None  # its turn comes, like that of a list in pages
        return EncodedChildrenReply(request.xid, state.zxid, [], stat, encoded=names)

    def _aux_read(self, connection: Connection, request: AuxRead) -> None:
        session = self._session_of(connection)
        item = reply_to_aux_read(self._context.state, session, request, self._page)
        if isinstance(item, PagedReply):
            self._start_paged(connection, item)
            return
        if isinstance(item, MultiReadReply):
            connection.frame_bytes += results_bytes(item.results)
        elif isinstance(item, GetEphemeralsReply):
            connection.frame_bytes += sum(map(len, item.paths))
        self._push_reply(connection, request, item)

    def _set_watches(self, connection: Connection, request: SetWatches) -> None:
        """Reply with the missed events in the same frame, so that a client has both or neither."""
        context = self._context
        state, setting = context.state, connection.partial_set_watches
        if sum(map(_watch_count, setting)) > context.limits.watches_max:
            context.trace(trace_events.WATCHES_FULL, connection.session_id)
        else:
            setting.append(request)
        done = EmptyReply(request.xid, state.zxid)
        if request.more:
            self._push(connection, done)
            return
        connection.partial_set_watches = []
        identities = self._session_of(connection).identities
        missed = WatchReplay(state, context.change_log, lambda _: identities)
        events = missed.set_watches(context.watches, connection.number, setting)
        connection.frame_bytes += sum(values_size((event.old, event.new)) for event in events)
        for event in events:
            self._push(connection, event)
        self._push(connection, done)

    def _add_watch(self, connection: Connection, request: AddWatch) -> Item:
        context = self._context
        watches, number, path, mode = context.watches, connection.number, request.path, request.mode
        zxid = context.state.zxid
        if path_fault(path) is not None or mode not in _MODES:
            return ErrorReply(request.xid, zxid, Code.BAD_ARGUMENTS)
        if not watches.has_persistent(path, number, mode) and self._is_watch_limit_reached(
            connection
        ):
            return ErrorReply(request.xid, zxid, Code.BAD_ARGUMENTS)
        watches.add_persistent(path, number, mode, with_values=request.with_values)
        return EmptyReply(request.xid, zxid)

    def _remove_watches(self, connection: Connection, request: RemoveWatches) -> Item:
        context = self._context
        zxid = context.state.zxid
        if path_fault(request.path) is not None or not _KINDS.issuperset(request.kinds):
            return ErrorReply(request.xid, zxid, Code.BAD_ARGUMENTS)
        kinds = request.kinds
        if kinds and not context.watches.remove(request.path, connection.number, kinds):
            return ErrorReply(request.xid, zxid, Code.NO_WATCHER)
        return EmptyReply(request.xid, zxid)

    def _check_watches(self, connection: Connection, request: CheckWatches) -> Item:
        context = self._context
        zxid = context.state.zxid
        if not context.watches.has_any(request.path, connection.number, request.kind):
            return ErrorReply(request.xid, zxid, Code.NO_WATCHER)
        return EmptyReply(request.xid, zxid)

    def _session_of(self, connection: Connection) -> Session:
        return connection.local_session or self._context.state.sessions.by_id[connection.session_id]

    def _is_watch_limit_reached(self, connection: Connection) -> bool:
        context = self._context
        if context.watches.count_of(connection.number) < context.limits.watches_max:
            return False
        context.trace(trace_events.WATCHES_FULL, connection.session_id)
        return True


def _watch_count(request: SetWatches) -> int:
    one_shot = len(request.data) + len(request.exist) + len(request.child)
    return max(1, one_shot + len(request.persistent))  # an empty request takes memory as well
