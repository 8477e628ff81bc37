"""What a server answers from its own state: reads, inquiries, watches set again.

An answer and the watch that goes with it are made in one go, between two transactions.

ZooKeeper: `FinalRequestProcessor`.
"""

from raykeeper.actors import server_notes as notes
from raykeeper.actors.connection import Connection, Denied, Local
from raykeeper.actors.server_context import ServerContext
from raykeeper.zab.effects import Note
from raykeeper.znodes.errors import Code
from raykeeper.znodes.reads import answer, inquire, set_watch
from raykeeper.znodes.replies import ChildrenRead, DataRead, Done, Item, ReadFailed
from raykeeper.znodes.requests import Read, SetWatches


class Answers:
    """Answers in the order in which they are asked for; `connection.bytes` counts their size."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def to(self, connection: Connection, request: Local) -> list[Item]:
        """The answer from the present state, after the events that must be told before it."""
        context = self._context
        state = context.state
        if isinstance(request, Read):
            return [self._read(connection, request)]
        if isinstance(request, SetWatches):
            missed = context.watches.rearm(state, connection.number, request)
            return [*missed, Done(request.xid, state.zxid)]
        if isinstance(request, Denied):
            return [request.item]
        session = connection.local or state.sessions.by_id[connection.session_id]
        return [inquire(state, session, request)]

    def _read(self, connection: Connection, request: Read) -> Item:
        context = self._context
        state, number = context.state, connection.number
        session = connection.local or state.sessions.by_id[connection.session_id]
        item = answer(state, session.identities, request)
        if isinstance(item, DataRead):
            connection.bytes += len(item.value)
        elif isinstance(item, ChildrenRead):
            connection.bytes += sum(map(len, item.children))
        if request.watch:
            if context.watches.count_of(number) >= context.limits.watches_max:
                context.out.append(Note(notes.WATCHES_FULL, connection.session_id))
                return ReadFailed(request.xid, state.zxid, Code.BAD_ARGUMENTS)
            set_watch(context.watches, number, request, item)
        return item
