"""The records of a multi and of a multiRead: operations and results, each behind a header.

A header says the type of what follows it, and the last one says that nothing follows. ZooKeeper
writes -1 as the error of a request's headers and of the last one.

ZooKeeper: `MultiOperationRecord`, `MultiResponse`, `OpResult`.
"""

from collections.abc import Mapping
from typing import Final

from raykeeper.jute.archives import INT_BYTES, InputArchive, OutputArchive
from raykeeper.jute.errors import JuteError
from raykeeper.jute.fields import FIELDS, Field, Int, Record, field_of
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    CheckVersionRequest,
    Create2Response,
    CreateRequest,
    CreateResponse,
    CreateTTLRequest,
    DeleteRequest,
    EmptyResponse,
    ErrorResponse,
    GetChildrenResponse,
    GetDataResponse,
    PathWatchRequest,
    SetDataRequest,
    StatResponse,
)

ERROR_TYPE: Final = -1
"""The type of a result that is an `ErrorResponse`."""
_NO_ERROR: Final = -1

_OPERATIONS: Final[dict[int, type[Record]]] = {
    OpCode.CREATE: CreateRequest,
    OpCode.DELETE: DeleteRequest,
    OpCode.GET_DATA: PathWatchRequest,
    OpCode.SET_DATA: SetDataRequest,
    OpCode.GET_CHILDREN: PathWatchRequest,
    OpCode.CHECK: CheckVersionRequest,
    OpCode.CREATE2: CreateRequest,
    OpCode.CREATE_CONTAINER: CreateRequest,
    OpCode.CREATE_TTL: CreateTTLRequest,
}
_RESULTS: Final[dict[int, type[Record]]] = {
    ERROR_TYPE: ErrorResponse,
    OpCode.CREATE: CreateResponse,
    OpCode.DELETE: EmptyResponse,
    OpCode.GET_DATA: GetDataResponse,
    OpCode.SET_DATA: StatResponse,
    OpCode.GET_CHILDREN: GetChildrenResponse,
    OpCode.CHECK: EmptyResponse,
    OpCode.CREATE2: Create2Response,
    OpCode.CREATE_CONTAINER: Create2Response,
    OpCode.CREATE_TTL: Create2Response,
}


class MultiHeader(Record, frozen=True):
    """The header before each operation and each result, and behind the last."""

    type: Int
    done: bool
    err: Int


class Operation(Record, frozen=True):
    """One operation of a multi, or one read of a multiRead."""

    type: int
    body: Record


class Result(Record, frozen=True):
    """The result of one operation or read; an `ErrorResponse` has the type `ERROR_TYPE`."""

    type: int
    body: Record


class MultiRequest(Record, frozen=True):
    """A request of several operations."""

    ops: list[Operation]


class MultiResponse(Record, frozen=True):
    """The reply: a result for each operation."""

    results: list[Result]


_HEADER: Final = field_of(MultiHeader)
_END: Final = MultiHeader(-1, True, _NO_ERROR)
_OPERATION_FIELDS: Final = {code: field_of(kind) for code, kind in _OPERATIONS.items()}
_RESULT_FIELDS: Final = {code: field_of(kind) for code, kind in _RESULTS.items()}


def _read_parts(archive: InputArchive, fields: Mapping[int, Field]) -> list[tuple[int, Record]]:
    parts: list[tuple[int, Record]] = []
    while True:
        header: MultiHeader = _HEADER.read(archive)
        if header.done:
            return parts
        field = fields.get(header.type)
        if field is None:
            raise JuteError(f"an operation of type {header.type} in a multi")
        archive.take_elements(Operation, 1)
        parts.append((header.type, field.read(archive)))


def _read_request(archive: InputArchive) -> MultiRequest:
    return MultiRequest([Operation(*part) for part in _read_parts(archive, _OPERATION_FIELDS)])


def _read_response(archive: InputArchive) -> MultiResponse:
    return MultiResponse([Result(*part) for part in _read_parts(archive, _RESULT_FIELDS)])


def _write_request(archive: OutputArchive, request: MultiRequest) -> None:
    for op in request.ops:
        _HEADER.write(archive, MultiHeader(op.type, False, _NO_ERROR))
        _OPERATION_FIELDS[op.type].write(archive, op.body)
    _HEADER.write(archive, _END)


def _write_response(archive: OutputArchive, response: MultiResponse) -> None:
    for result in response.results:
        body = result.body
        err = body.err if isinstance(body, ErrorResponse) else 0
        _HEADER.write(archive, MultiHeader(result.type, False, err))
        _RESULT_FIELDS[result.type].write(archive, body)
    _HEADER.write(archive, _END)


_LEAST_BYTES: Final = 2 * INT_BYTES + 1
FIELDS[MultiRequest] = Field(_LEAST_BYTES, _read_request, _write_request)
FIELDS[MultiResponse] = Field(_LEAST_BYTES, _read_response, _write_response)
