"""The requests of ZooKeeper's clients as those of this server: records in, structs out.

A request that this server does not do gets ZooKeeper's own error in its place in the order.

ZooKeeper: `ZooKeeperServer.processPacket`, `PrepRequestProcessor`, `FinalRequestProcessor`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from raykeeper.jute.fields import Record
from raykeeper.jute.multi import MultiRequest, Operation
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    AddWatchRequest,
    CheckVersionRequest,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    PathRequest,
    PathWatchRequest,
    SetACLRequest,
    SetDataRequest,
    SetWatches,
    SetWatches2,
    WatchesRequest,
)
from raykeeper.server.connection import CheckWatches
from raykeeper.zab.ids import Zxid
from raykeeper.znodes import requests as native
from raykeeper.znodes.acl import OPEN_ACL, Acl
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import WatchMode

LocalOrRead = native.Read | native.AuxRead | native.WatchRequest | native.Sync | CheckWatches

WITH_ACLS: Final = frozenset((native.Create, native.SetAcls, native.Multi))
"""Writes that may have an ACL."""
_OPEN: Final = list(OPEN_ACL)
_MODES: Final = range(native.CreateMode.LAST + 1)
_TTL_MODES: Final = (native.CreateMode.TTL, native.CreateMode.TTL_SEQUENTIAL)
_NO_MODE: Final = -1
_WATCH_MODES: Final = frozenset(WatchMode)
_WATCH_KINDS: Final = frozenset(native.WatchKind)


def write_op(opcode: int, body: Record) -> native.WriteOp | Code | None:
    """Return the write of a request, or the code of its error; None if it is no write."""
    build = _WRITES.get(opcode)
    return None if build is None else build(body)


def read_request(opcode: int, xid: int, body: Record) -> LocalOrRead | Code | None:
    """Return the read or watch request, or the code of its error; None if it is neither."""
    build = _READS.get(opcode)
    return None if build is None else build(xid, body)


def reply_detail(body: Record) -> list[int] | str | None:
    """Return what the reply needs of a request: the path, or the opcodes of its operations."""
    if type(body) is MultiRequest:
        return [_result_opcode(op) for op in body.ops]
    path: str | None = getattr(body, "path", None)
    return path


def entries_above(op: native.WriteOp, most: int) -> int:
    """Return how many entries an ACL of a write has, if it has more than `most`, else 0."""
    for each in op.then if isinstance(op, native.Multi) else (op,):
        acls = each.acls if isinstance(each, native.Create | native.SetAcls) else None
        if acls is not None and len(acls) > most and (entries := len(set(acls))) > most:
            return entries
    return 0


def _result_opcode(op: Operation) -> int:
    """Return the opcode whose result answers an operation; a creation's depends on its flags too.

    ZooKeeper: `Op.create`, of which `MultiOperationRecord` makes one of each creation.
    """
    if not isinstance(op.body, CreateRequest | CreateTTLRequest):
        return op.type
    if op.body.flags == native.CreateMode.CONTAINER:
        return OpCode.CREATE_CONTAINER
    if op.type == OpCode.CREATE_TTL and op.body.flags not in _TTL_MODES:
        return OpCode.CREATE
    return op.type


def _acls(acls: list[Acl] | None) -> list[Acl] | None:
    return None if acls == _OPEN else acls or []


def _create(body: CreateRequest) -> native.Create:
    """Return a creation. ZooKeeper makes containers by another opcode, not by these flags."""
    is_container = body.flags == native.CreateMode.CONTAINER
    return _create_as(native.CreateMode.PERSISTENT if is_container else body.flags, body)


def _create_container(body: CreateRequest) -> native.Create:
    """Return the creation of a container; one that is also something else has no mode here."""
    is_container = body.flags in (native.CreateMode.PERSISTENT, native.CreateMode.CONTAINER)
    return _create_as(native.CreateMode.CONTAINER if is_container else _NO_MODE, body)


def _create_as(flags: int, body: CreateRequest | CreateTTLRequest) -> native.Create:
    return native.Create(body.path, body.data, flags, _acls(body.acl))


def _create_ttl(body: CreateTTLRequest) -> native.Create:
    ttl_ms = body.ttl or -1  # to ZooKeeper 0 is a wrong TTL, here it is none
    return native.Create(body.path, body.data, body.flags, _acls(body.acl), ttl_ms)


def _create_operation(body: CreateRequest) -> native.Create | None:
    """Return a creation in a multi, None if ZooKeeper cannot read it: then no operation is done."""
    if body.acl is None or body.flags in _TTL_MODES or body.flags not in _MODES:
        return None
    return _create_as(body.flags, body)


def _create_container_operation(body: CreateRequest) -> native.Create | None:
    return None if _create_operation(body) is None else _create_container(body)


def _create_ttl_operation(body: CreateTTLRequest) -> native.Create:
    """Return a creation in a multi. Without a mode that has a TTL it is one like the others."""
    return _create_ttl(body) if body.flags in _TTL_MODES else _create_as(body.flags, body)


def _delete(body: DeleteRequest) -> native.Delete:
    return native.Delete(body.path, body.version)


def _set_data(body: SetDataRequest) -> native.SetData:
    return native.SetData(body.path, body.data, body.version)


def _set_acl(body: SetACLRequest) -> native.SetAcls:
    return native.SetAcls(body.path, body.acl or [], body.version)


def _check(body: CheckVersionRequest) -> native.Check:
    return native.Check(body.path, body.version)


_OPERATIONS: Final[Mapping[int, Callable[[Any], native.TxnOp | None]]] = {
    OpCode.CREATE: _create_operation,
    OpCode.CREATE2: _create_operation,
    OpCode.CREATE_CONTAINER: _create_container_operation,
    OpCode.CREATE_TTL: _create_ttl_operation,
    OpCode.DELETE: _delete,
    OpCode.SET_DATA: _set_data,
    OpCode.CHECK: _check,
}


def _multi(body: MultiRequest) -> native.Multi | Code:
    ops: list[native.TxnOp] = []
    for op in body.ops:
        build = _OPERATIONS.get(op.type)
        built = None if build is None else build(op.body)
        if built is None:
            return Code.MARSHALLING_ERROR  # a read, or one that ZooKeeper cannot read
        ops.append(built)
    return native.Multi([], ops, [])


def _multi_read(xid: int, body: MultiRequest) -> native.MultiRead | Code:
    ops: list[native.ReadData | native.ReadStat | native.ReadChildren] = []
    for op in body.ops:
        read = _read_operation(op)
        if read is None:
            return Code.MARSHALLING_ERROR  # a write
        ops.append(read)
    return native.MultiRead(xid, ops)


def _read_operation(op: Operation) -> native.ReadData | native.ReadChildren | None:
    if not isinstance(op.body, PathWatchRequest):
        return None
    if op.type == OpCode.GET_DATA:
        return native.ReadData(op.body.path)
    return native.ReadChildren(op.body.path)


def _set_watches(xid: int, body: SetWatches | SetWatches2) -> native.SetWatches:
    persistent: list[native.PersistentWatch] = []
    if isinstance(body, SetWatches2):
        for mode, paths in (
            (WatchMode.PERSISTENT, body.persistent_watches),
            (WatchMode.RECURSIVE, body.persistent_recursive_watches),
        ):
            persistent += [native.PersistentWatch(path, mode) for path in paths or ()]
    return native.SetWatches(
        xid,
        Zxid(body.relative_zxid),
        body.data_watches or [],
        body.exist_watches or [],
        body.child_watches or [],
        persistent,
    )


def _get_data(xid: int, body: PathWatchRequest) -> native.GetData:
    return native.GetData(xid, body.path, body.watch)


def _exists(xid: int, body: PathWatchRequest) -> native.Exists:
    return native.Exists(xid, body.path, body.watch)


def _get_children(xid: int, body: PathWatchRequest) -> native.GetChildren:
    return native.GetChildren(xid, body.path, body.watch)


def _sync(xid: int, body: PathRequest) -> native.Sync:
    return native.Sync(xid, body.path)


def _get_acl(xid: int, body: PathRequest) -> native.GetAcls:
    return native.GetAcls(xid, body.path)


def _get_ephemerals(xid: int, body: PathRequest) -> native.GetEphemerals:
    return native.GetEphemerals(xid, body.path)


def _count(xid: int, body: PathRequest) -> native.CountDescendants:
    return native.CountDescendants(xid, body.path)


def _who_am_i(xid: int, _body: Record) -> native.WhoAmI:
    return native.WhoAmI(xid)


def _add_watch(xid: int, body: AddWatchRequest) -> native.AddWatch | Code:
    if body.mode not in _WATCH_MODES:
        return Code.MARSHALLING_ERROR
    return native.AddWatch(xid, body.path, body.mode)


def _check_watches(xid: int, body: WatchesRequest) -> CheckWatches | Code:
    if body.type not in _WATCH_KINDS:
        return Code.MARSHALLING_ERROR
    return CheckWatches(xid, body.path, body.type)


def _remove_watches(xid: int, body: WatchesRequest) -> native.RemoveWatches | Code:
    if body.type not in _WATCH_KINDS:
        return Code.MARSHALLING_ERROR
    return native.RemoveWatches(xid, body.path, [body.type])


_WRITES: Final[Mapping[int, Callable[[Any], native.WriteOp | Code]]] = {
    OpCode.CREATE: _create,
    OpCode.CREATE2: _create,
    OpCode.CREATE_CONTAINER: _create_container,
    OpCode.CREATE_TTL: _create_ttl,
    OpCode.DELETE: _delete,
    OpCode.SET_DATA: _set_data,
    OpCode.SET_ACL: _set_acl,
    OpCode.MULTI: _multi,
    OpCode.CLOSE_SESSION: lambda _body: native.CloseSession(),
}
_READS: Final[Mapping[int, Callable[[int, Any], LocalOrRead | Code]]] = {
    OpCode.GET_DATA: _get_data,
    OpCode.EXISTS: _exists,
    OpCode.GET_CHILDREN: _get_children,
    OpCode.GET_CHILDREN2: _get_children,
    OpCode.SYNC: _sync,
    OpCode.GET_ACL: _get_acl,
    OpCode.GET_EPHEMERALS: _get_ephemerals,
    OpCode.GET_ALL_CHILDREN_NUMBER: _count,
    OpCode.WHO_AM_I: _who_am_i,
    OpCode.MULTI_READ: _multi_read,
    OpCode.ADD_WATCH: _add_watch,
    OpCode.CHECK_WATCHES: _check_watches,
    OpCode.REMOVE_WATCHES: _remove_watches,
    OpCode.SET_WATCHES: _set_watches,
    OpCode.SET_WATCHES2: _set_watches,
}
