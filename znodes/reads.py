"""Reads: answered by the server the client is connected to, from its own state.

An answer and the watch that goes with it are made in one go, before another transaction is
applied, so no change falls between them.

ZooKeeper: `FinalRequestProcessor` (getData, exists, getChildren).
"""

from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import fault_in
from raykeeper.znodes.replies import ChildrenRead, DataRead, Item, ReadFailed, StatRead
from raykeeper.znodes.requests import Exists, GetChildren, GetData, Read
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import stat_of
from raykeeper.znodes.watches import WatchTable


def answer(state: State, request: Read) -> Item:
    """The reply to a read, tagged with the last transaction applied."""
    path = request.path
    znode = state.tree.znodes.get(path)
    if znode is None:
        # A malformed path never has a znode, so only here its form is looked at.
        if fault_in(path) is not None:
            return ReadFailed(request.xid, state.zxid, Code.BAD_ARGUMENTS)
        if type(request) is Exists:
            return StatRead(request.xid, state.zxid, None)
        return ReadFailed(request.xid, state.zxid, Code.NO_NODE)
    match request:
        case GetData():
            return DataRead(request.xid, state.zxid, znode.value, stat_of(znode))
        case Exists():
            return StatRead(request.xid, state.zxid, stat_of(znode))
        case _:
            _children: GetChildren = request
            start = 1 if path == "/" else len(path) + 1
            names = [child[start:] for child in znode.children or ()]
            return ChildrenRead(request.xid, state.zxid, names, stat_of(znode))


def set_watch(watches: WatchTable, connection: int, request: Read, item: Item) -> None:
    """Set the watch of a read that asked for one; `item` is its answer.

    Exists is watched whether the znode is there or not, the others only when it is.
    """
    if type(item) is ReadFailed:
        return
    if type(request) is GetChildren:
        watches.add_child(request.path, connection)
    else:
        exists = type(item) is not StatRead or item.stat is not None
        watches.add_data(request.path, connection, exists=exists)
