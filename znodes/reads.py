"""Reads: answered by the server the client is connected to, from its own state.

An answer and the watch that goes with it are made in one go, before another transaction is
applied, so no change falls between them. The identities of the session decide what it may read;
they are part of the same state.

ZooKeeper: `FinalRequestProcessor` (getData, exists, getChildren, getACL, multiRead, whoAmI,
getEphemerals, getAllChildrenNumber). `listquota` of its command line.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from raykeeper.znodes.acl import Identities, Permission, mask_hashes
from raykeeper.znodes.children import SHARDED_FROM
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import RESULTS_BYTES_MAX
from raykeeper.znodes.outstanding_changes import ChangeRecord
from raykeeper.znodes.pages import (
    PAGE_CHARS,
    PAGE_NAMES,
    ChildrenPages,
    DescendantCount,
    PagedReply,
    PathsPages,
)
from raykeeper.znodes.paths import missing_code, name_start
from raykeeper.znodes.quotas import format_usage, limits_path
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
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import OpChildren, OpFailed, OpResult, OpStat, OpValue
from raykeeper.znodes.watches import WatchTable
from raykeeper.znodes.znode import Znode, is_allowed, stat_of

Z = TypeVar("Z", Znode, ChangeRecord)

NAME_BYTES: Final = 24
"""What a name in the results of a MultiRead counts besides its characters: many short ones take a
server longer than their characters tell."""


def reply_to_read(
    state: State, identities: Identities, request: Read, page: int = PAGE_NAMES
) -> Item | ChildrenPages:
    """Return the reply to a read, tagged with the last transaction applied.

    A listing of more than `page` names comes in pages.
    """
    path = request.path
    tree = state.tree
    znode = tree.znodes.get(path)
    if znode is None:
        code = missing_code(path)
        if type(request) is Exists and code is Code.NO_NODE:
            return ExistsReply(request.xid, state.zxid, None)
        return ErrorReply(request.xid, state.zxid, code)
    if znode.attributes is not None and not is_allowed(
        znode.attributes, identities, Permission.READ
    ):
        return ErrorReply(request.xid, state.zxid, Code.NO_AUTH)
    if tree.usage_paths and path in tree.usage_paths:
        znode = _with_usage(state, path, znode)
    match request:
        case GetData():
            return GetDataReply(request.xid, state.zxid, znode.value, stat_of(znode))
        case Exists():
            return ExistsReply(request.xid, state.zxid, stat_of(znode))
        case _:
            return _listing(state, znode, request, page)


def readable_stat(state: State, identities: Identities, path: str) -> Stat | None:
    """Return the Stat that `reply_to_read` gives of a znode, None if it refuses the read."""
    znode = state.tree.znodes.get(path)
    if znode is None or (
        znode.attributes is not None
        and not is_allowed(znode.attributes, identities, Permission.READ)
    ):
        return None
    return stat_of(_with_usage(state, path, znode) if path in state.tree.usage_paths else znode)


def _with_usage(state: State, path: str, znode: Znode) -> Znode:
    """Return a znode at the path of a quota's statistics as it is shown: with the usage."""
    quotas = state.tree.quotas
    return replace(znode, value=format_usage(quotas.usage_of(quotas.stats[path])))


def _listing(
    state: State, znode: Znode, request: GetChildren, page: int
) -> GetChildrenReply | ChildrenPages:
    xid, zxid, path, stat = request.xid, state.zxid, request.path, stat_of(znode)
    if stat.num_children <= page:
        names = _names(path, znode)
        if sum(map(len, names)) <= PAGE_CHARS:
            return GetChildrenReply(xid, zxid, names, stat)
    return ChildrenPages(xid, zxid, stat, znode.children, name_start(path), page)


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
        return ErrorReply(xid, zxid, missing_code(path))
    if type(request) is CountDescendants:
        if not is_allowed(znode.attributes, identities, Permission.READ):
            return ErrorReply(xid, zxid, Code.NO_AUTH)
        count = DescendantCount(xid, zxid, znode.children, page)
        return count.next(state) or count
    if not is_allowed(znode.attributes, identities, Permission.READ | Permission.ADMIN):
        return ErrorReply(xid, zxid, Code.NO_AUTH)
    attributes = znode.attributes
    acls, ttl_ms = (None, 0) if attributes is None else (attributes.acls, attributes.ttl_ms)
    return GetAclsReply(xid, zxid, mask_hashes(acls, identities), stat_of(znode), ttl_ms)


def _quota(state: State, identities: Identities, request: GetQuota) -> Item:
    """Reply to GetQuota. Requires READ on the quota's znode."""
    xid, zxid, path = request.xid, state.zxid, request.path
    quotas = state.tree.quotas
    limits = quotas.limits.get(path)
    if limits is None:
        return ErrorReply(xid, zxid, missing_code(path))
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
            znode = state.tree.znodes.get(op.path)
            if znode is not None and op.path in state.tree.usage_paths:
                znode = _with_usage(state, op.path, znode)
            answered = result_of_read(op, identities, znode, stat_of, partial(_names, znode=znode))
            if type(answered) is OpValue:
                room -= len(answered.value or b"")
            elif type(answered) is OpChildren:
                room -= sum(map(len, answered.names)) + NAME_BYTES * len(answered.names)
            if room >= 0:
                result = answered
        results.append(result)
    return results


def result_of_read(
    op: ReadData | ReadStat | ReadChildren,
    identities: Identities,
    znode: Z | None,
    stat: Callable[[Z], Stat],
    names: Callable[[str], list[str]],
) -> OpResult:
    """Return the result of one read of several; `znode` is that at its path, None if missing.

    `stat` returns the Stat of a znode, `names` the names of the children at a path.
    """
    if znode is None:
        code = missing_code(op.path)
        return OpStat(None) if type(op) is ReadStat and code is Code.NO_NODE else OpFailed(code)
    if not is_allowed(znode.attributes, identities, Permission.READ):
        return OpFailed(Code.NO_AUTH)
    found = stat(znode)
    match op:
        case ReadData():
            return OpValue(znode.value, found)
        case ReadStat():
            return OpStat(found)
        case _:
            if found.num_children > SHARDED_FROM:
                return OpFailed(Code.THROTTLED_OP)
            return OpChildren(names(op.path), found)


def _names(path: str, znode: Znode | None) -> list[str]:
    start = name_start(path)
    return [child[start:] for child in (znode.children if znode is not None else None) or ()]


def set_watch_of_read(watches: WatchTable, connection: int, request: Read, item: object) -> None:
    """Set the watch of a read that asked for one; `item` is its answer, in whatever form.

    Exists is watched whether the znode is there or not, the others only when it is.
    """
    if type(item) is ErrorReply:
        return
    if type(request) is GetChildren:
        watches.add_child(request.path, connection)
    else:
        exists = type(item) is not ExistsReply or item.stat is not None
        watches.add_data(request.path, connection, exists=exists)
