"""ZooKeeper's frames: a length of four bytes, then a payload; and what each payload holds.

Bytes arrive in pieces of any size. A `FrameReader` keeps only bytes that have arrived, and refuses
a length above its bound as soon as it is known.

ZooKeeper: `NIOServerCnxn.readLength`, `ZooKeeperServer.processConnectRequest`, `processPacket`;
`ClientCnxn.readResponse` for the other direction.
"""

from struct import Struct
from typing import Final, NamedTuple

import msgspec

from raykeeper.jute.archives import (
    INT_BYTES,
    UNBOUNDED,
    ElementsMax,
    InputArchive,
    OutputArchive,
)
from raykeeper.jute.errors import JuteError, MalformedRequest, TooManyElements
from raykeeper.jute.fields import Record, field_of
from raykeeper.jute.opcodes import NOTIFICATION_XID
from raykeeper.jute.records import (
    ConnectRequest,
    ConnectResponse,
    ReplyHeader,
    WatcherEvent,
)
from raykeeper.jute.schema import REPLIES, REQUESTS

JUTE_MAXBUFFER: Final = 0xFFFFF
"""ZooKeeper's own bound of a frame, its setting `jute.maxbuffer`."""


class FrameReader:
    """The frames of one direction of a connection.

    `bytes_max` bounds the payload of each frame that is not complete yet; it may be changed.
    """

    __slots__ = ("_at", "_buffer", "bytes_max")

    def __init__(self, bytes_max: int = JUTE_MAXBUFFER) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()
        self._at = 0  # what stands before was taken

    def __len__(self) -> int:
        """Return how many bytes arrived and were not taken."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        """Add bytes as they arrived."""
        self._forget_taken()
        self._buffer += data

    def peek(self, size: int) -> bytes:
        """Return the first bytes that were not taken, fewer if no more have arrived."""
        return bytes(self._buffer[self._at : self._at + size])

    def next(self) -> bytes | None:
        """Take the payload of the next frame; None until all of it has arrived.

        Raises:
            JuteError: its length is negative or above `bytes_max`.
        """
        buffer, begin = self._buffer, self._at + INT_BYTES
        if len(buffer) < begin:
            self._forget_taken()
            return None
        size: int = _unpack_size(buffer, self._at)[0]
        if not 0 <= size <= self.bytes_max:
            raise JuteError(f"a frame of {size} bytes, at most {self.bytes_max} are allowed")
        end = begin + size
        if len(buffer) < end:
            self._forget_taken()
            return None
        self._at = end
        return bytes(buffer[begin:end])

    def _forget_taken(self) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0


class Request(msgspec.Struct, frozen=True):
    """A request of a client; `body` is None if this protocol has no such opcode.

    It is an error if the request has more elements than the reader takes; the others are not read.
    """

    xid: int
    opcode: int
    body: Record | TooManyElements | None


class Reply(NamedTuple):
    """A reply or an event; `body` is None if the header has an error."""

    header: ReplyHeader
    body: Record | None


# Bound once: each frame needs several of them.
_unpack_size = Struct(">i").unpack_from
_request_header, _reply_head = Struct(">ii"), Struct(">iiqi")  # that of a reply with its length
_NO_REPLY_HEAD: Final = bytes(_reply_head.size)
_reply_header = field_of(ReplyHeader)
_request_fields = {code: field_of(kind) for code, kind in REQUESTS.items()}
_reply_fields = {code: field_of(kind) for code, kind in REPLIES.items()}
_event = field_of(WatcherEvent)


def decode_connect(payload: bytes) -> ConnectRequest:
    """Read a client's first payload.

    Raises:
        JuteError: the payload ends too early.
    """
    archive = InputArchive(payload)
    version, zxid = archive.read_int(), archive.read_long()
    timeout, session_id = archive.read_int(), archive.read_long()
    password = archive.read_buffer()
    read_only = archive.read_bool() if archive.remaining else None
    return ConnectRequest(version, zxid, timeout, session_id, password, read_only)


def decode_connect_response(payload: bytes) -> ConnectResponse:
    """Read a server's first payload, the answer to the connect request.

    Raises:
        JuteError: the payload ends too early.
    """
    archive = InputArchive(payload)
    version, timeout = archive.read_int(), archive.read_int()
    session_id, password = archive.read_long(), archive.read_buffer()
    read_only = archive.read_bool() if archive.remaining else None
    return ConnectResponse(version, timeout, session_id, password, read_only)


def decode_request(payload: bytes, elements_max: ElementsMax = UNBOUNDED) -> Request:
    """Read a request; bytes behind it are ignored, as by ZooKeeper.

    Raises:
        MalformedRequest: the payload is no request of its opcode.
        JuteError: it has no opcode.
    """
    if len(payload) < _request_header.size:
        raise JuteError(f"a request of {len(payload)} bytes")
    xid, opcode = _request_header.unpack_from(payload)
    archive = InputArchive(payload, elements_max, _request_header.size)
    field = _request_fields.get(opcode)
    body: Record | TooManyElements | None
    try:
        body = None if field is None else field.read(archive)
    except TooManyElements as error:
        body = error
    except JuteError as error:
        raise MalformedRequest(xid, opcode, str(error)) from error
    return Request(xid, opcode, body)


def decode_reply(payload: bytes, opcode: int) -> Reply:
    """Read an event, or the reply to a request of `opcode`.

    Raises:
        JuteError: the payload is neither.
    """
    archive = InputArchive(payload)
    header: ReplyHeader = _reply_header.read(archive)
    if header.err:
        return Reply(header, None)
    field = _event if header.xid == NOTIFICATION_XID else _reply_fields[opcode]
    return Reply(header, field.read(archive))


def encode_connect(request: ConnectRequest) -> bytes:
    """Return the frame of a client's first request."""
    archive = OutputArchive()
    archive.write_int(request.protocol_version)
    archive.write_long(request.last_zxid_seen)
    archive.write_int(request.timeout)
    archive.write_long(request.session_id)
    archive.write_buffer(request.password)
    return _with_read_only(archive, request.read_only)


def encode_connect_response(response: ConnectResponse) -> bytes:
    """Return the frame of the answer to a connect request."""
    archive = OutputArchive()
    archive.write_int(response.protocol_version)
    archive.write_int(response.timeout)
    archive.write_long(response.session_id)
    archive.write_buffer(response.password)
    return _with_read_only(archive, response.read_only)


def encode_request(xid: int, opcode: int, body: Record) -> bytes:
    """Return the frame of a request."""
    archive = OutputArchive()
    archive.data += _request_header.pack(xid, opcode)
    field_of(type(body)).write(archive, body)
    return _framed(archive)


def encode_reply(xid: int, zxid: int, err: int, body: Record | None) -> bytes:
    """Return the frame of a reply or an event."""
    archive = OutputArchive()
    write_reply(archive, xid, zxid, err, body)
    return bytes(archive.data)


def write_reply(archive: OutputArchive, xid: int, zxid: int, err: int, body: Record | None) -> None:
    """Add the frame of a reply or an event."""
    data = archive.data
    begin = len(data)
    data += _NO_REPLY_HEAD
    if body is not None:
        field_of(type(body)).write(archive, body)
    _reply_head.pack_into(data, begin, len(data) - begin - INT_BYTES, xid, zxid, err)


def _with_read_only(archive: OutputArchive, read_only: bool | None) -> bytes:
    if read_only is not None:
        archive.write_bool(read_only)
    return _framed(archive)


def _framed(archive: OutputArchive) -> bytes:
    return len(archive.data).to_bytes(INT_BYTES) + archive.data
