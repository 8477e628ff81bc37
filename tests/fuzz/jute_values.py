"""Legal frames of ZooKeeper's protocol, drawn from the definitions of its records."""

from typing import Any, Final

from hypothesis import strategies as st

from raykeeper.jute.fields import Int, Long, Record
from raykeeper.jute.frames import Reply, Request, encode_reply, encode_request
from raykeeper.jute.multi import (
    _OPERATIONS,
    _RESULTS,
    MultiRequest,
    MultiResponse,
    Operation,
    Result,
)
from raykeeper.jute.opcodes import NOTIFICATION_XID, OpCode
from raykeeper.jute.records import (
    ConnectRequest,
    ConnectResponse,
    EmptyRequest,
    ReplyHeader,
    WatcherEvent,
)
from raykeeper.jute.schema import REPLIES, REQUESTS
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.stat import Stat
from tests.fuzz.samples import texts, values_of

ints, longs = values_of(Int), values_of(Long)
_stats = st.builds(Stat, longs, longs, longs, longs, ints, ints, ints, longs, ints, ints, longs)
_OWN: Final = {
    "stat": _stats,
    "acl": st.none() | st.lists(st.builds(Acl, ints, texts, texts), max_size=3),
}


def _parts(kind: type, bodies: dict[int, type[Record]]) -> st.SearchStrategy[list[Any]]:
    each = [st.builds(kind, st.just(code), records_of(body)) for code, body in bodies.items()]
    return st.lists(st.one_of(each), max_size=3)


def records_of(kind: type[Record]) -> st.SearchStrategy[Any]:
    """Values of a record."""
    if kind is MultiRequest:
        return st.builds(MultiRequest, _parts(Operation, _OPERATIONS))
    if kind is MultiResponse:
        return st.builds(MultiResponse, _parts(Result, _RESULTS))
    return values_of(kind, _OWN)


connect_requests = records_of(ConnectRequest)
connect_responses = records_of(ConnectResponse)
requests = st.one_of(
    [st.builds(Request, ints, st.just(int(code)), records_of(REQUESTS[code])) for code in OpCode]
)


def replies(opcode: OpCode) -> st.SearchStrategy[Reply]:
    """Replies to requests of `opcode`, errors and events."""
    xids = ints.filter(lambda xid: xid != NOTIFICATION_XID)
    errors = ints.filter(bool)
    return st.one_of(
        st.builds(
            Reply, st.builds(ReplyHeader, xids, longs, st.just(0)), records_of(REPLIES[opcode])
        ),
        st.builds(Reply, st.builds(ReplyHeader, ints, longs, errors), st.none()),
        st.builds(
            Reply,
            st.builds(ReplyHeader, st.just(NOTIFICATION_XID), longs, st.just(0)),
            records_of(WatcherEvent),
        ),
    )


def request_payload(request: Request) -> bytes:
    """The payload of a request, of which an unknown opcode has no body."""
    return encode_request(request.xid, request.opcode, request.body or EmptyRequest())[4:]


def reply_payload(reply: Reply) -> bytes:
    header = reply.header
    return encode_reply(header.xid, header.zxid, header.err, reply.body)[4:]
