"""Each reply of this server as the record that ZooKeeper's client expects for its request."""

from typing import Any

import pytest

from raykeeper.jute.fields import Record
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
from raykeeper.server.jute_replies import UnansweredRequest, reply_to
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import OPEN_ACL, Identity
from raykeeper.znodes.errors import Code
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
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import MultiResults, OpChildren, OpDone, OpFailed, OpValue

Z = Zxid(7)
STAT = Stat(Z, Z, Millis(0), Millis(0), 0, 0, 0, 0, 1, 0, Z)
DONE = [OpDone("/a", STAT), OpDone("/a", STAT), OpDone("/a", None), OpFailed(Code.OK)]
MIXED = [OpValue(b"v", STAT), OpChildren(["c"], STAT), OpFailed(Code.BAD_ARGUMENTS)]


def written(path: str = "", stat: Stat | None = None, code: int = 0) -> WriteReply:
    return WriteReply(1, Z, code, path, stat)


@pytest.mark.parametrize(
    ("opcode", "detail", "item", "expected"),
    [
        # Writes: what a client learns depends on the opcode.
        (OpCode.CREATE, "/a", written("/a", STAT), CreateResponse("/a")),
        (OpCode.CREATE2, "/a", written("/a", STAT), Create2Response("/a", STAT)),
        (OpCode.CREATE_TTL, "/a", written("/a", STAT), Create2Response("/a", STAT)),
        (OpCode.SET_DATA, "/a", written("", STAT), StatResponse(STAT)),
        (OpCode.SET_ACL, "/a", written("", STAT), StatResponse(STAT)),
        (OpCode.DELETE, "/a", written(), EmptyResponse()),
        (OpCode.CREATE, "/a", written(code=Code.NODE_EXISTS), Code.NODE_EXISTS),
        # Reads.
        (OpCode.GET_DATA, "/a", GetDataReply(1, Z, None, STAT), GetDataResponse(None, STAT)),
        (OpCode.EXISTS, "/a", ExistsReply(1, Z, STAT), StatResponse(STAT)),
        (OpCode.EXISTS, "/a", ExistsReply(1, Z, None), Code.NO_NODE),
        (OpCode.GET_CHILDREN, "/", GetChildrenReply(1, Z, ["a"], STAT), GetChildrenResponse(["a"])),
        (
            OpCode.GET_CHILDREN2,
            "/",
            GetChildrenReply(1, Z, ["a"], STAT),
            GetChildren2Response(["a"], STAT),
        ),
        (
            OpCode.GET_ACL,
            "/",
            GetAclsReply(1, Z, OPEN_ACL, STAT),
            GetACLResponse([*OPEN_ACL], STAT),
        ),
        (
            OpCode.GET_EPHEMERALS,
            "/",
            GetEphemeralsReply(1, Z, ["/e"]),
            GetEphemeralsResponse(["/e"]),
        ),
        (
            OpCode.GET_ALL_CHILDREN_NUMBER,
            "/",
            CountDescendantsReply(1, Z, 3),
            GetAllChildrenNumberResponse(3),
        ),
        # Nobody is told the hash of a password.
        (
            OpCode.WHO_AM_I,
            None,
            WhoAmIReply(1, Z, (Identity("digest", "root:hash"), Identity("ip", "1:2"))),
            WhoAmIResponse([ClientInfo("digest", "root"), ClientInfo("ip", "1:2")]),
        ),
        # What is done, and what failed.
        (OpCode.SYNC, "/a", EmptyReply(1, Z), SyncResponse("/a")),
        (OpCode.ADD_WATCH, "/a", EmptyReply(1, Z), ErrorResponse(0)),
        (OpCode.SET_WATCHES, None, EmptyReply(1, Z), EmptyResponse()),
        (OpCode.GET_DATA, "/a", ErrorReply(1, Z, Code.NO_AUTH), Code.NO_AUTH),
        # A malformed path has no znode, and no watch.
        (OpCode.GET_DATA, "a", ErrorReply(1, Z, Code.BAD_ARGUMENTS), Code.NO_NODE),
        (OpCode.REMOVE_WATCHES, "a", ErrorReply(1, Z, Code.BAD_ARGUMENTS), Code.NO_WATCHER),
        (OpCode.GET_DATA, "/a", ErrorReply(1, Z, Code.BAD_ARGUMENTS), Code.BAD_ARGUMENTS),
        # Several operations: each creation with a Stat has one opcode, whatever it was.
        (
            OpCode.MULTI,
            [OpCode.CREATE, OpCode.CREATE_CONTAINER, OpCode.DELETE, OpCode.CHECK],
            WriteReply(1, Z, 0, "", None, MultiResults(True, DONE)),
            MultiResponse(
                [
                    Result(OpCode.CREATE, CreateResponse("/a")),
                    Result(OpCode.CREATE2, Create2Response("/a", STAT)),
                    Result(OpCode.DELETE, EmptyResponse()),
                    Result(ERROR_TYPE, ErrorResponse(0)),
                ]
            ),
        ),
        (
            OpCode.MULTI_READ,
            [OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_DATA],
            MultiReadReply(1, Z, MIXED),
            MultiResponse(
                [
                    Result(OpCode.GET_DATA, GetDataResponse(b"v", STAT)),
                    Result(OpCode.GET_CHILDREN, GetChildrenResponse(["c"])),
                    Result(ERROR_TYPE, ErrorResponse(Code.NO_NODE)),
                ]
            ),
        ),
    ],
)
def test_a_reply_has_the_form_of_its_request(
    opcode: OpCode, detail: Any, item: Item, expected: Record | int
) -> None:
    assert reply_to(UnansweredRequest(1, opcode, Millis(0), detail), item) == expected
