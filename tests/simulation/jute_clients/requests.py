"""Requests of the workload in ZooKeeper's protocol, and its replies in the words of the checks.

Some requests exist for native clients alone; those that have no counterpart are left out.

ZooKeeper: `ZooKeeper.java`, which makes the records.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest, Query, WatchAddition, WatchRemoval
from raykeeper.jute import records
from raykeeper.jute.fields import Record
from raykeeper.jute.multi import MultiRequest, MultiResponse, Operation, Result
from raykeeper.jute.opcodes import OpCode
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.acl import OPEN_ACL, authenticate
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    EmptyReply,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    MultiReadReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    Check,
    CloseSession,
    CountDescendants,
    Create,
    CreateMode,
    Delete,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    GetQuota,
    Multi,
    MultiRead,
    ReadChildren,
    ReadData,
    Reconfig,
    SetAcls,
    SetData,
    Sync,
    WhoAmI,
)
from raykeeper.znodes.txns import MultiResults, OpChildren, OpDone, OpFailed, OpResult, OpValue

_NOT_DONE: Final = -2


def in_this_protocol(ask: NewRequest) -> NewRequest | None:
    """Return what is left of a request of a native client, None if nothing is."""
    match ask:
        case Query():
            return replace(ask, linearizable=False)
        case WatchAddition():
            return replace(ask, with_values=False)
        case Multi():
            ops = [op for op in ask.then if isinstance(op, Create | Delete | SetData | Check)]
            return Multi([], ops, []) if ops else None
        case MultiRead():
            reads = [op for op in ask.ops if isinstance(op, ReadData | ReadChildren)]
            return MultiRead(0, reads) if reads else None
        case AddAuth():
            return ask if authenticate(ask.scheme, ask.credential) is not None else None
        case WhoAmI() | GetQuota():
            return None  # its answer has less than the checks know
        case _:
            return ask


def record_of(ask: NewRequest) -> tuple[OpCode, Record]:
    """Return the opcode and the record of a request."""
    if isinstance(ask, Query):
        if ask.kind is Sync:
            return OpCode.SYNC, records.PathRequest(ask.path)
        watch = ask.watcher is not None
        return _QUERIES[ask.kind], records.PathWatchRequest(ask.path, watch)
    return _RECORDS[type(ask)](ask)


def reply_of(ask: NewRequest, zxid: Zxid, body: Any) -> SuccessReply:
    """Return the reply with this body; writes have no numbers in this protocol."""
    match body:
        case records.GetDataResponse():
            if isinstance(ask, Reconfig):
                return WriteReply(0, zxid, 0, (body.data or b"").decode(), body.stat)
            return GetDataReply(0, zxid, body.data, body.stat)
        case records.GetChildren2Response():
            return GetChildrenReply(0, zxid, body.children, body.stat)
        case records.GetACLResponse():
            return GetAclsReply(0, zxid, tuple(body.acl), body.stat)
        case records.GetEphemeralsResponse():
            return GetEphemeralsReply(0, zxid, sorted(body.ephemerals))
        case records.GetAllChildrenNumberResponse():
            return CountDescendantsReply(0, zxid, body.total_number)
        case records.Create2Response():
            return WriteReply(0, zxid, 0, body.path, body.stat)
        case records.StatResponse():
            if isinstance(ask, Query):
                return ExistsReply(0, zxid, body.stat)
            return WriteReply(0, zxid, 0, "", body.stat)
        case MultiResponse():
            results = [_result(result) for result in body.results]
            if isinstance(ask, MultiRead):
                return MultiReadReply(0, zxid, results)
            codes = [result.code for result in results if isinstance(result, OpFailed)]
            code = next((code for code in codes if code not in (0, _NOT_DONE)), 0)
            return WriteReply(0, zxid, code, "", None, MultiResults(True, results))
        case _:
            is_write = isinstance(ask, Delete | AddAuth | CloseSession)
            return WriteReply(0, zxid, 0, "", None) if is_write else EmptyReply(0, zxid)


def _result(result: Result) -> OpResult:
    match result.body:
        case records.ErrorResponse(err):
            return OpFailed(err)
        case records.GetDataResponse(data, stat):
            return OpValue(data, stat)
        case records.GetChildrenResponse(children):
            return OpChildren(children or [], None)
        case records.CreateResponse(path):
            return OpDone(path, None)
        case records.Create2Response(path, stat):
            return OpDone(path, stat)
        case records.StatResponse(stat):
            return OpDone("", stat)
        case _:
            return OpDone("", None)


def _create(ask: Create) -> tuple[OpCode, Record]:
    acls = list(OPEN_ACL) if ask.acls is None else ask.acls
    if ask.flags in (CreateMode.TTL, CreateMode.TTL_SEQUENTIAL):
        ttl = records.CreateTTLRequest(ask.path, ask.value, acls, ask.flags, ask.ttl_ms)
        return OpCode.CREATE_TTL, ttl
    is_container = ask.flags == CreateMode.CONTAINER
    opcode = OpCode.CREATE_CONTAINER if is_container else OpCode.CREATE2
    return opcode, records.CreateRequest(ask.path, ask.value, acls, ask.flags)


def _several(ops: list[Any]) -> MultiRequest:
    return MultiRequest([Operation(*_RECORDS[type(op)](op)) for op in ops])


def _reconfig(ask: Reconfig) -> records.ReconfigRequest:
    role = "observer" if ask.as_observer else "participant"
    joining = f"server.{ask.joining}=h:2888:3888:{role};2181" if ask.joining else ""
    leaving = str(ask.leaving) if ask.leaving else ""
    return records.ReconfigRequest(joining, leaving, "", ask.version)


def _removal(ask: WatchRemoval) -> tuple[OpCode, Record]:
    # To remove one of several watchers leaves the server's watch to the others.
    opcode = OpCode.REMOVE_WATCHES if ask.watcher is None else OpCode.CHECK_WATCHES
    return opcode, records.WatchesRequest(ask.path, ask.kind)


_QUERIES: Final = {
    GetData: OpCode.GET_DATA,
    Exists: OpCode.EXISTS,
    GetChildren: OpCode.GET_CHILDREN2,
}
_RECORDS: Final[dict[type, Callable[[Any], tuple[OpCode, Record]]]] = {
    Create: _create,
    Delete: lambda ask: (OpCode.DELETE, records.DeleteRequest(ask.path, ask.version)),
    SetData: lambda ask: (
        OpCode.SET_DATA,
        records.SetDataRequest(ask.path, ask.value, ask.version),
    ),
    Check: lambda ask: (OpCode.CHECK, records.CheckVersionRequest(ask.path, ask.version)),
    SetAcls: lambda ask: (OpCode.SET_ACL, records.SetACLRequest(ask.path, ask.acls, ask.version)),
    Multi: lambda ask: (OpCode.MULTI, _several(ask.then)),
    Reconfig: lambda ask: (OpCode.RECONFIG, _reconfig(ask)),
    AddAuth: lambda ask: (OpCode.AUTH, records.AuthPacket(0, ask.scheme, ask.credential)),
    CloseSession: lambda _: (OpCode.CLOSE_SESSION, records.EmptyRequest()),
    GetAcls: lambda ask: (OpCode.GET_ACL, records.PathRequest(ask.path)),
    GetEphemerals: lambda ask: (OpCode.GET_EPHEMERALS, records.PathRequest(ask.path)),
    CountDescendants: lambda ask: (OpCode.GET_ALL_CHILDREN_NUMBER, records.PathRequest(ask.path)),
    MultiRead: lambda ask: (OpCode.MULTI_READ, _several(ask.ops)),
    ReadData: lambda ask: (OpCode.GET_DATA, records.PathWatchRequest(ask.path, False)),
    ReadChildren: lambda ask: (OpCode.GET_CHILDREN, records.PathWatchRequest(ask.path, False)),
    WatchAddition: lambda ask: (OpCode.ADD_WATCH, records.AddWatchRequest(ask.path, ask.mode)),
    WatchRemoval: _removal,
}
