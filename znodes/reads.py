"""Reads: answered by the server the client is connected to, from its own state.

An answer and the watch that goes with it are made in one go, before another transaction is
applied, so no change falls between them. The identities of the session decide what it may read;
they are part of the same state.

ZooKeeper: `FinalRequestProcessor` (getData, exists, getChildren, getACL, multiRead, whoAmI,
getEphemerals, getAllChildrenNumber). `listquota` of its command line.
"""

from raykeeper.znodes.acl import Identities, Permission, mask_hashes
from raykeeper.znodes.children import SHARDED_FROM
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import RESULTS_BYTES_MAX
from raykeeper.znodes.pages import (
    PAGE_CHARS,
    PAGE_NAMES,
    ChildrenPages,
    DescendantCount,
    PagedReply,
    PathsPages,
)
from raykeeper.znodes.paths import path_fault
from raykeeper.znodes.quotas import limits_path
from raykeeper.znodes.replies import (
    ErrorReply,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    GetQuotaReply,
    Item,
    MultiReadReply,
    WhoAmIReply,
)
from raykeeper.znodes.requests import (
    AuxRead,
    CountDescendants,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    GetQuota,
    MultiRead,
    Read,
    ReadChildren,
    ReadData,
    ReadStat,
    WhoAmI,
)
from raykeeper.znodes.sessions import Session
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import OpChildren, OpFailed, OpResult, OpStat, OpValue
from raykeeper.znodes.watches import WatchTable
from raykeeper.znodes.znode import Znode, is_allowed, stat_of


def reply_to_read(
    state: State, identities: Identities, request: Read, page: int = PAGE_NAMES
) -> Item | ChildrenPages:
    """Return the reply to a read, tagged with the last transaction applied.

    A listing of more than `page` names comes in pages.
    """
    path = request.path
    znode = state.tree.znodes.get(path)
    if znode is None:
        # A malformed path never has a znode, so only here its form is looked at.
        if path_fault(path) is not None:
            return ErrorReply(request.xid, state.zxid, Code.BAD_ARGUMENTS)
        if type(request) is Exists:
            return ExistsReply(request.xid, state.zxid, None)
        return ErrorReply(request.xid, state.zxid, Code.NO_NODE)
    if znode.attributes is not None and not is_allowed(
        znode.attributes, identities, Permission.READ
    ):
        return ErrorReply(request.xid, state.zxid, Code.NO_AUTH)
    match request:
        case GetData():
            return GetDataReply(request.xid, state.zxid, znode.value, stat_of(znode))
        case Exists():
            return ExistsReply(request.xid, state.zxid, stat_of(znode))
        case _:
            return _listing(state, znode, request, page)


def _listing(
    state: State, znode: Znode, request: GetChildren, page: int
) -> GetChildrenReply | ChildrenPages:
    xid, zxid, path, stat = request.xid, state.zxid, request.path, stat_of(znode)
    if stat.num_children <= page:
        names = _names(path, znode)
        if sum(map(len, names)) <= PAGE_CHARS:
            return GetChildrenReply(xid, zxid, names, stat)
    return ChildrenPages(xid, zxid, stat, znode.children, _name_start(path), page)


def reply_to_aux_read(
    state: State, session: Session, request: AuxRead, page: int = PAGE_NAMES
) -> Item | PagedReply:
    """Return the reply to one of the rarer reads.

    A reply of more than `page` names or znodes is not made at once.
    """
    xid, zxid = request.xid, state.zxid
    match request:
        case WhoAmI():
            return WhoAmIReply(xid, zxid, session.identities)
        case MultiRead():
            return MultiReadReply(xid, zxid, _results(state, session.identities, request.ops))
        case GetEphemerals():
            owned = state.tree.ephemerals.get(session.session_id, {})
            if len(owned) <= page:
                paths = [path for path in owned if path.startswith(request.path)]
                if sum(map(len, paths)) <= PAGE_CHARS:
                    return GetEphemeralsReply(xid, zxid, paths)
            return PathsPages(xid, zxid, owned, request.path, page)
        case GetQuota():
            return _quota(state, session.identities, request)
        case _:
            return _about(state, session.identities, request, page)


def _about(
    state: State, identities: Identities, request: GetAcls | CountDescendants, page: int
) -> Item | DescendantCount:
    xid, zxid, path = request.xid, state.zxid, request.path
    znode = state.tree.znodes.get(path)
    if znode is None:
        code = Code.NO_NODE if path_fault(path) is None else Code.BAD_ARGUMENTS
        return ErrorReply(xid, zxid, code)
    if type(request) is CountDescendants:
        if not is_allowed(znode.attributes, identities, Permission.READ):
            return ErrorReply(xid, zxid, Code.NO_AUTH)
        count = DescendantCount(xid, zxid, znode.children, page)
        return count.next(state) or count
    if not is_allowed(znode.attributes, identities, Permission.READ | Permission.ADMIN):
        return ErrorReply(xid, zxid, Code.NO_AUTH)
    acls = None if znode.attributes is None else znode.attributes.acls
    return GetAclsReply(xid, zxid, mask_hashes(acls, identities), stat_of(znode))


def _quota(state: State, identities: Identities, request: GetQuota) -> Item:
    """Reply to GetQuota. Requires READ on the quota's znode."""
    xid, zxid, path = request.xid, state.zxid, request.path
    quotas = state.tree.quotas
    limits = quotas.limits.get(path)
    if limits is None:
        code = Code.NO_NODE if path_fault(path) is None else Code.BAD_ARGUMENTS
        return ErrorReply(xid, zxid, code)
    if not is_allowed(state.tree.znodes[limits_path(path)].attributes, identities, Permission.READ):
        return ErrorReply(xid, zxid, Code.NO_AUTH)
    usage = quotas.usage_of(path)
    return GetQuotaReply(xid, zxid, limits, usage.znodes, usage.bytes)


def _results(
    state: State, identities: Identities, ops: list[ReadData | ReadStat | ReadChildren]
) -> list[OpResult]:
    """Return the result of each read; those that do not fit into the reply fail with THROTTLED_OP.

    Each can be read by a request of its own.
    """
    room = RESULTS_BYTES_MAX
    results: list[OpResult] = []
    for op in ops:
        result: OpResult = OpFailed(Code.THROTTLED_OP)
        if room >= 0:
            answered = _result(state, identities, op)
            if type(answered) is OpValue:
                room -= len(answered.value)
            elif type(answered) is OpChildren:
                room -= sum(map(len, answered.names))
            if room >= 0:
                result = answered
        results.append(result)
    return results


def _result(
    state: State, identities: Identities, op: ReadData | ReadStat | ReadChildren
) -> OpResult:
    path = op.path
    znode = state.tree.znodes.get(path)
    if znode is None:
        if path_fault(path) is not None:
            return OpFailed(Code.BAD_ARGUMENTS)
        return OpStat(None) if type(op) is ReadStat else OpFailed(Code.NO_NODE)
    if not is_allowed(znode.attributes, identities, Permission.READ):
        return OpFailed(Code.NO_AUTH)
    match op:
        case ReadData():
            return OpValue(znode.value, stat_of(znode))
        case ReadStat():
            return OpStat(stat_of(znode))
        case _:
            if znode.children is not None and len(znode.children) > SHARDED_FROM:
                return OpFailed(Code.THROTTLED_OP)
            return OpChildren(_names(path, znode), stat_of(znode))


def _names(path: str, znode: Znode) -> list[str]:
    start = _name_start(path)
    return [child[start:] for child in znode.children or ()]


def _name_start(path: str) -> int:
    return 1 if path == "/" else len(path) + 1


def set_watch_of_read(
    watches: WatchTable, connection: int, request: Read, item: Item | ChildrenPages
) -> None:
    """Set the watch of a read that asked for one; `item` is its answer.

    Exists is watched whether the znode is there or not, the others only when it is.
    """
    if type(item) is ErrorReply:
        return
    if type(request) is GetChildren:
        watches.add_child(request.path, connection)
    else:
        exists = type(item) is not ExistsReply or item.stat is not None
        watches.add_data(request.path, connection, exists=exists)
