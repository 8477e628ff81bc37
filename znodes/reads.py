"""Reads: answered by the server the client is connected to, from its own state.

An answer and the watch that goes with it are made in one go, before another transaction is
applied, so no change falls between them.

ZooKeeper: `FinalRequestProcessor` (getData, exists, getChildren).
"""

from typing import assert_never

from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import fault_in
from raykeeper.znodes.replies import ChildrenRead, DataRead, Item, ReadFailed, StatRead
from raykeeper.znodes.requests import Exists, GetChildren, GetData, Read
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import stat_of
from raykeeper.znodes.watches import WatchTable


def answer(state: State, request: Read, watches: WatchTable, connection: int) -> Item:
    """The reply to a read, tagged with the last transaction applied; sets the watch it asks for.

    `exists` is watched whether the znode is there or not, the others only when it is. A read whose
    watch cannot be set, because the connection has too many, fails with SYSTEM_ERROR.
    """
    path = request.path
    if request.watch and watches.is_full(connection):
        return ReadFailed(request.xid, state.zxid, Code.SYSTEM_ERROR)
    znode = state.tree.znodes.get(path)
    if znode is None:
        # A malformed path never has a znode, so its form is looked at only here.
        if fault_in(path) is not None:
            return ReadFailed(request.xid, state.zxid, Code.BAD_ARGUMENTS)
        if type(request) is not Exists:
            return ReadFailed(request.xid, state.zxid, Code.NO_NODE)
        if request.watch:
            watches.add_data(path, connection, exists=False)
        return StatRead(request.xid, state.zxid, None)
    match request:
        case GetData():
            if request.watch:
                watches.add_data(path, connection)
            return DataRead(request.xid, state.zxid, znode.value, stat_of(znode))
        case Exists():
            if request.watch:
                watches.add_data(path, connection)
            return StatRead(request.xid, state.zxid, stat_of(znode))
        case GetChildren():
            if request.watch:
                watches.add_child(path, connection)
            start = 1 if path == "/" else len(path) + 1
            names = [child[start:] for child in znode.children or ()]
            return ChildrenRead(request.xid, state.zxid, names, stat_of(znode))
        case _:
            assert_never(request)
