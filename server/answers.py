"""What a server answers from its own state: reads, inquiries, requests about watches.

An answer and the watch that goes with it are made in one go, between two transactions.

ZooKeeper: `FinalRequestProcessor`.
"""

from collections.abc import Callable
from typing import Any, get_args

from raykeeper.server import server_notes as notes
from raykeeper.server.connection import Connection, Denied, Local
from raykeeper.server.outgoing import Outgoing
from raykeeper.server.server_context import ServerContext
from raykeeper.zab.effects import Note
from raykeeper.znodes.errors import Code
from raykeeper.znodes.happenings import size_of
from raykeeper.znodes.missed import Missed
from raykeeper.znodes.pages import ChildrenPages, Lengthy
from raykeeper.znodes.paths import fault_in
from raykeeper.znodes.reads import answer, inquire, set_watch
from raykeeper.znodes.replies import (
    ChildrenRead,
    DataRead,
    Done,
    Item,
    PathsRead,
    ReadFailed,
    ResultsRead,
)
from raykeeper.znodes.requests import (
    AddWatch,
    Inquiry,
    Read,
    RemoveWatches,
    SetWatches,
    WatchKind,
    WatchMode,
)
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.transactions import results_bytes

_MODES = frozenset(WatchMode)
_KINDS = frozenset(WatchKind)


class Answers:
    """Answers in the order in which they are asked for; `connection.bytes` counts their size."""

    def __init__(self, context: ServerContext, outgoing: Outgoing) -> None:
        self._context = context
        self._push = outgoing.push
        self._begin = outgoing.begin
        self._page = context.options.page_names
        self._by_type: dict[type, Callable[[Connection, Any], None]] = {
            **dict.fromkeys(get_args(Read), self._read),
            **dict.fromkeys(get_args(Inquiry), self._inquire),
            SetWatches: self._set_again,
            AddWatch: lambda *asked: self._push(asked[0], self._add_watch(*asked)),
            RemoveWatches: lambda *asked: self._push(asked[0], self._remove_watches(*asked)),
            Denied: lambda connection, request: self._push(connection, request.item),
        }

    def to(self, connection: Connection, request: Local) -> None:
        """Queue the answer from the present state, after the events that must be told before it."""
        self._by_type[type(request)](connection, request)

    def _read(self, connection: Connection, request: Read) -> None:
        state = self._context.state
        item = answer(state, self._session_of(connection).identities, request, self._page)
        if type(item) is DataRead:
            connection.bytes += len(item.value)
        elif type(item) is ChildrenRead:
            connection.bytes += sum(map(len, item.children))
        if request.watch:
            if self._is_full(connection):
                item = ReadFailed(request.xid, state.zxid, Code.BAD_ARGUMENTS)
            else:
                set_watch(self._context.watches, connection.number, request, item)
        if type(item) is ChildrenPages:
            self._begin(connection, item)
        else:
            self._push(connection, item)

    def _inquire(self, connection: Connection, request: Inquiry) -> None:
        session = self._session_of(connection)
        item = inquire(self._context.state, session, request, self._page)
        if isinstance(item, Lengthy):
            self._begin(connection, item)
            return
        if isinstance(item, ResultsRead):
            connection.bytes += results_bytes(item.results)
        elif isinstance(item, PathsRead):
            connection.bytes += sum(map(len, item.paths))
        self._push(connection, item)

    def _set_again(self, connection: Connection, request: SetWatches) -> None:
        """What was missed and the answer stand in one frame: a client has both or neither."""
        context = self._context
        state, setting = context.state, connection.setting
        if sum(map(_count_in, setting)) > context.limits.watches_max:
            context.out.append(Note(notes.WATCHES_FULL, connection.session_id))
        else:
            setting.append(request)
        done = Done(request.xid, state.zxid)
        if request.more:
            self._push(connection, done)
            return
        connection.setting = []
        identities = self._session_of(connection).identities
        missed = Missed(state, context.history, lambda _: identities)
        events = missed.set_again(context.watches, connection.number, setting)
        connection.bytes += sum(size_of((event.old, event.new)) for event in events)
        for event in events:
            self._push(connection, event)
        self._push(connection, done)

    def _add_watch(self, connection: Connection, request: AddWatch) -> Item:
        context = self._context
        watches, number, path, mode = context.watches, connection.number, request.path, request.mode
        zxid = context.state.zxid
        if fault_in(path) is not None or mode not in _MODES:
            return ReadFailed(request.xid, zxid, Code.BAD_ARGUMENTS)
        if not watches.has_lasting(path, number, mode) and self._is_full(connection):
            return ReadFailed(request.xid, zxid, Code.BAD_ARGUMENTS)
        watches.add_lasting(path, number, mode, with_values=request.with_values)
        return Done(request.xid, zxid)

    def _remove_watches(self, connection: Connection, request: RemoveWatches) -> Item:
        context = self._context
        zxid = context.state.zxid
        if fault_in(request.path) is not None or not _KINDS.issuperset(request.kinds):
            return ReadFailed(request.xid, zxid, Code.BAD_ARGUMENTS)
        kinds = request.kinds
        if kinds and not context.watches.remove(request.path, connection.number, kinds):
            return ReadFailed(request.xid, zxid, Code.NO_WATCHER)
        return Done(request.xid, zxid)

    def _session_of(self, connection: Connection) -> Session:
        return connection.local or self._context.state.sessions.by_id[connection.session_id]

    def _is_full(self, connection: Connection) -> bool:
        context = self._context
        if context.watches.count_of(connection.number) < context.limits.watches_max:
            return False
        context.out.append(Note(notes.WATCHES_FULL, connection.session_id))
        return True


def _count_in(request: SetWatches) -> int:
    one_shot = len(request.data) + len(request.exist) + len(request.child)
    return max(1, one_shot + len(request.lasting))  # an empty one is not free either
