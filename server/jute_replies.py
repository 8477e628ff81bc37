"""The bytes of replies: a server's items as the records that ZooKeeper's clients expect.

ZooKeeper: `FinalRequestProcessor`, `NIOServerCnxn.sendResponse`, `process` (watcher events).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.jute.fields import EncodedStrings, Record
from raykeeper.jute.multi import ERROR_TYPE, MultiResponse, Result
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    ClientInfo,
    Create2Response,
    CreateResponse,
    EmptyResponse,
    ErrorResponse,
    GetACLResponse,
    GetAllChildrenNumberResponse,
    GetChildren2Response,
    GetChildrenResponse,
    GetDataResponse,
    GetEphemeralsResponse,
    StatResponse,
    SyncResponse,
    WhoAmIResponse,
)
from raykeeper.server.jute_lists import EncodedChildrenReply
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import AUTH_SCHEMES, Identity
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import path_fault
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    EmptyReply,
    ErrorReply,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    Item,
    MultiReadReply,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.txns import OpChildren, OpDone, OpFailed, OpResult, OpValue


class UnansweredRequest(Struct, frozen=True):
    """A request that is not answered yet: its xid and opcode, when it came, what its reply needs.

    `detail` is the path of a read, or the opcodes of the operations of a multi. `closes`: the
    connection is closed after the reply.
    """

    xid: int
    opcode: int
    arrived: Millis
    detail: Any = None
    closes: bool = False
    bytes: int = 0


def with_names(answer: Record | int, names: EncodedStrings) -> Record:
    """Return the record that answers a request for a list, with all its names."""
    assert isinstance(answer, Record), "a list that has begun has no error"
    if isinstance(answer, GetEphemeralsResponse):
        return replace(answer, ephemerals=names)
    return replace(answer, children=names)


def reply_to(request: UnansweredRequest, item: Item) -> Record | int:
    """Return the record that answers a request, or the code of its error, which is never 0."""
    answer: Record | int = _BY_TYPE[type(item)](request, item)
    return answer


def _reply_to_write(request: UnansweredRequest, item: WriteReply) -> Record | int:
    if item.results is not None:
        return MultiResponse(_results(item.results.results, request.detail))
    if item.code:
        return item.code
    match request.opcode:
        case OpCode.CREATE:
            return CreateResponse(item.path)
        case OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
            assert item.stat is not None, item
            return Create2Response(item.path, item.stat)
        case OpCode.SET_DATA | OpCode.SET_ACL:
            assert item.stat is not None, item
            return StatResponse(item.stat)
        case OpCode.RECONFIG:
            assert item.stat is not None, item
            return GetDataResponse(item.path.encode(), item.stat)
        case _:
            return EmptyResponse()


def _results(results: list[OpResult], opcodes: list[int]) -> list[Result]:
    return [_result(result, opcode) for result, opcode in zip(results, opcodes, strict=True)]


def _result(result: OpResult, opcode: int) -> Result:
    match result:
        case OpFailed():
            is_read = opcode in _CODE_OF_MALFORMED_PATH
            is_malformed = is_read and result.code == Code.BAD_ARGUMENTS
            code = _CODE_OF_MALFORMED_PATH[opcode] if is_malformed else result.code
            return Result(ERROR_TYPE, ErrorResponse(code))
        case OpValue():
            return Result(opcode, GetDataResponse(result.value, result.stat))
        case OpChildren():
            return Result(opcode, GetChildrenResponse(result.names))
        case _:
            assert isinstance(result, OpDone), result  # no request asks for a Stat alone
    stat = result.stat
    if opcode == OpCode.CREATE:
        return Result(opcode, CreateResponse(result.path))
    if stat is None:
        return Result(opcode, EmptyResponse())
    if opcode == OpCode.SET_DATA:
        return Result(opcode, StatResponse(stat))
    # A client of ZooKeeper expects this one opcode for every creation with a Stat (`OpResult`).
    return Result(OpCode.CREATE2, Create2Response(result.path, stat))


def _reply_to_get_children(request: UnansweredRequest, item: GetChildrenReply) -> Record:
    if request.opcode == OpCode.GET_CHILDREN:
        return GetChildrenResponse(item.children)
    return GetChildren2Response(item.children, item.stat)


def _empty_reply(request: UnansweredRequest, _item: EmptyReply) -> Record:
    match request.opcode:
        case OpCode.SYNC:
            return SyncResponse(request.detail)
        case OpCode.ADD_WATCH:
            return ErrorResponse(Code.OK)
        case _:
            return EmptyResponse()


def _error_code(request: UnansweredRequest, item: ErrorReply) -> int:
    code = item.code
    if code == Code.BAD_ARGUMENTS and request.opcode in _CODE_OF_MALFORMED_PATH:
        assert isinstance(request.detail, str), request
        if path_fault(request.detail) is not None:
            return _CODE_OF_MALFORMED_PATH[request.opcode]
    return code


# ZooKeeper's server checks the path of writes alone: no znode and no watch has a malformed one.
_CODE_OF_MALFORMED_PATH: Final[Mapping[int, Code]] = {
    **dict.fromkeys((OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_ACL), Code.NO_NODE),
    **dict.fromkeys((OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2), Code.NO_NODE),
    OpCode.GET_ALL_CHILDREN_NUMBER: Code.NO_NODE,
    OpCode.REMOVE_WATCHES: Code.NO_WATCHER,
}


def _client_info(identity: Identity) -> ClientInfo:
    name = identity.id
    if identity.scheme in AUTH_SCHEMES:
        name = name.partition(":")[0]  # nobody is told the hash
    return ClientInfo(identity.scheme, name)


_BY_TYPE: Final[Mapping[type, Callable[[UnansweredRequest, Any], Record | int]]] = {
    WriteReply: _reply_to_write,
    GetDataReply: lambda _, item: GetDataResponse(item.value, item.stat),
    ExistsReply: lambda _, item: Code.NO_NODE if item.stat is None else StatResponse(item.stat),
    GetChildrenReply: _reply_to_get_children,
    EncodedChildrenReply: _reply_to_get_children,
    GetEphemeralsReply: lambda _, item: GetEphemeralsResponse(item.paths),
    EmptyReply: _empty_reply,
    ErrorReply: _error_code,
    GetAclsReply: lambda _, item: GetACLResponse(list(item.acls), item.stat),
    WhoAmIReply: lambda _, item: WhoAmIResponse([_client_info(x) for x in item.identities]),
    CountDescendantsReply: lambda _, item: GetAllChildrenNumberResponse(item.count),
    MultiReadReply: lambda request, item: MultiResponse(_results(item.results, request.detail)),
}
