"""Reads: answered by the server the client is connected to, from its own state.

An answer and the watch that goes with it are made in one go, before another transaction is
applied, so no change falls between them. Who may read is said by the identities of the session,
which are part of the same state.

ZooKeeper: `FinalRequestProcessor` (getData, exists, getChildren, getACL, multiRead, whoAmI,
getEphemerals, getAllChildrenNumber). `listquota` of its command line.
"""

from raykeeper.znodes.acl import Identities, Permission, allows, masked
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import fault_in
from raykeeper.znodes.quotas import limits_path
from raykeeper.znodes.replies import (
    AclsRead,
    ChildrenRead,
    CountRead,
    DataRead,
    IdentitiesRead,
    Item,
    PathsRead,
    QuotaRead,
    ReadFailed,
    ResultsRead,
    StatRead,
)
from raykeeper.znodes.requests import (
    CountDescendants,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    GetQuota,
    Inquiry,
    MultiRead,
    Read,
    ReadChildren,
    ReadData,
    ReadStat,
    WhoAmI,
)
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import Znode, stat_of
from raykeeper.znodes.txns import OpChildren, OpFailed, OpResult, OpStat, OpValue
from raykeeper.znodes.watches import WatchTable


def answer(state: State, identities: Identities, request: Read) -> Item:
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
    if znode.traits is not None and not may(znode, identities, Permission.READ):
        return ReadFailed(request.xid, state.zxid, Code.NO_AUTH)
    match request:
        case GetData():
            return DataRead(request.xid, state.zxid, znode.value, stat_of(znode))
        case Exists():
            return StatRead(request.xid, state.zxid, stat_of(znode))
        case _:
            _children: GetChildren = request
            return ChildrenRead(request.xid, state.zxid, _names(path, znode), stat_of(znode))


def inquire(state: State, session: Session, request: Inquiry) -> Item:
    """The reply to a read that is not one of the three everybody uses all the time."""
    xid, zxid = request.xid, state.zxid
    match request:
        case WhoAmI():
            return IdentitiesRead(xid, zxid, session.identities)
        case MultiRead():
            identities = session.identities
            return ResultsRead(xid, zxid, [_result(state, identities, op) for op in request.ops])
        case GetEphemerals():
            owned = state.tree.ephemerals.get(session.session_id, ())
            paths = sorted(path for path in owned if path.startswith(request.path))
            return PathsRead(xid, zxid, paths)
        case GetQuota():
            return _quota(state, session.identities, request)
        case _:
            return _about(state, session.identities, request)


def _about(state: State, identities: Identities, request: GetAcls | CountDescendants) -> Item:
    xid, zxid, path = request.xid, state.zxid, request.path
    znode = state.tree.znodes.get(path)
    if znode is None:
        code = Code.NO_NODE if fault_in(path) is None else Code.BAD_ARGUMENTS
        return ReadFailed(xid, zxid, code)
    if type(request) is CountDescendants:
        if not may(znode, identities, Permission.READ):
            return ReadFailed(xid, zxid, Code.NO_AUTH)
        below = path if path == "/" else path + "/"
        count = sum(each.startswith(below) for each in state.tree.znodes)
        return CountRead(xid, zxid, count - (path == "/"))
    if not may(znode, identities, Permission.READ | Permission.ADMIN):
        return ReadFailed(xid, zxid, Code.NO_AUTH)
    acls = None if znode.traits is None else znode.traits.acls
    return AclsRead(xid, zxid, masked(acls, identities), stat_of(znode))


def _quota(state: State, identities: Identities, request: GetQuota) -> Item:
    """As a read of the znode that keeps it: whoever may read that may know this."""
    xid, zxid, path = request.xid, state.zxid, request.path
    quotas = state.tree.quotas
    limits = quotas.limits.get(path)
    if limits is None:
        code = Code.NO_NODE if fault_in(path) is None else Code.BAD_ARGUMENTS
        return ReadFailed(xid, zxid, code)
    if not may(state.tree.znodes[limits_path(path)], identities, Permission.READ):
        return ReadFailed(xid, zxid, Code.NO_AUTH)
    usage = quotas.usage_of(path)
    return QuotaRead(xid, zxid, limits, usage.znodes, usage.bytes)


def _result(
    state: State, identities: Identities, op: ReadData | ReadStat | ReadChildren
) -> OpResult:
    path = op.path
    znode = state.tree.znodes.get(path)
    if znode is None:
        if fault_in(path) is not None:
            return OpFailed(Code.BAD_ARGUMENTS)
        return OpStat(None) if type(op) is ReadStat else OpFailed(Code.NO_NODE)
    if not may(znode, identities, Permission.READ):
        return OpFailed(Code.NO_AUTH)
    match op:
        case ReadData():
            return OpValue(znode.value, stat_of(znode))
        case ReadStat():
            return OpStat(stat_of(znode))
        case _:
            return OpChildren(_names(path, znode), stat_of(znode))


def may(znode: Znode, identities: Identities, permission: int) -> bool:
    """Whether the ACL of a znode grants a permission."""
    traits = znode.traits
    return traits is None or allows(traits.acls, identities, permission)


def _names(path: str, znode: Znode) -> list[str]:
    start = 1 if path == "/" else len(path) + 1
    return [child[start:] for child in znode.children or ()]


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
