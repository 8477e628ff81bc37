"""ZooKeeper's opcodes, with the records of the request and of the reply of each.

ZooKeeper: `ZooDefs.OpCode`, `ClientCnxn` for the special xids.
"""

from enum import IntEnum
from typing import Final

from raykeeper.jute import records
from raykeeper.jute.fields import Record
from raykeeper.jute.multi import MultiRequest, MultiResponse


class OpCode(IntEnum):
    """What a client asks for."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11


NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8

REQUESTS: Final[dict[int, type[Record]]] = {
    OpCode.CREATE: records.CreateRequest,
    OpCode.DELETE: records.DeleteRequest,
    OpCode.EXISTS: records.PathWatchRequest,
    OpCode.GET_DATA: records.PathWatchRequest,
    OpCode.SET_DATA: records.SetDataRequest,
    OpCode.GET_ACL: records.PathRequest,
    OpCode.SET_ACL: records.SetACLRequest,
    OpCode.GET_CHILDREN: records.PathWatchRequest,
    OpCode.SYNC: records.PathRequest,
    OpCode.PING: records.EmptyRequest,
    OpCode.GET_CHILDREN2: records.PathWatchRequest,
    OpCode.CHECK: records.CheckVersionRequest,
    OpCode.MULTI: MultiRequest,
    OpCode.CREATE2: records.CreateRequest,
    OpCode.RECONFIG: records.ReconfigRequest,
    OpCode.CHECK_WATCHES: records.WatchesRequest,
    OpCode.REMOVE_WATCHES: records.WatchesRequest,
    OpCode.CREATE_CONTAINER: records.CreateRequest,
    OpCode.DELETE_CONTAINER: records.PathRequest,
    OpCode.CREATE_TTL: records.CreateTTLRequest,
    OpCode.MULTI_READ: MultiRequest,
    OpCode.AUTH: records.AuthPacket,
    OpCode.SET_WATCHES: records.SetWatches,
    OpCode.SASL: records.GetSASLRequest,
    OpCode.GET_EPHEMERALS: records.PathRequest,
    OpCode.GET_ALL_CHILDREN_NUMBER: records.PathRequest,
    OpCode.SET_WATCHES2: records.SetWatches2,
    OpCode.ADD_WATCH: records.AddWatchRequest,
    OpCode.WHO_AM_I: records.EmptyRequest,
    OpCode.CLOSE_SESSION: records.EmptyRequest,
}
"""The record of each request."""

REPLIES: Final[dict[int, type[Record]]] = {
    OpCode.CREATE: records.CreateResponse,
    OpCode.DELETE: records.EmptyResponse,
    OpCode.EXISTS: records.StatResponse,
    OpCode.GET_DATA: records.GetDataResponse,
    OpCode.SET_DATA: records.StatResponse,
    OpCode.GET_ACL: records.GetACLResponse,
    OpCode.SET_ACL: records.StatResponse,
    OpCode.GET_CHILDREN: records.GetChildrenResponse,
    OpCode.SYNC: records.SyncResponse,
    OpCode.PING: records.EmptyResponse,
    OpCode.GET_CHILDREN2: records.GetChildren2Response,
    OpCode.CHECK: records.EmptyResponse,
    OpCode.MULTI: MultiResponse,
    OpCode.CREATE2: records.Create2Response,
    OpCode.RECONFIG: records.GetDataResponse,
    OpCode.CHECK_WATCHES: records.EmptyResponse,
    OpCode.REMOVE_WATCHES: records.EmptyResponse,
    OpCode.CREATE_CONTAINER: records.Create2Response,
    OpCode.DELETE_CONTAINER: records.EmptyResponse,
    OpCode.CREATE_TTL: records.Create2Response,
    OpCode.MULTI_READ: MultiResponse,
    OpCode.AUTH: records.EmptyResponse,
    OpCode.SET_WATCHES: records.EmptyResponse,
    OpCode.SASL: records.SetSASLResponse,
    OpCode.GET_EPHEMERALS: records.GetEphemeralsResponse,
    OpCode.GET_ALL_CHILDREN_NUMBER: records.GetAllChildrenNumberResponse,
    OpCode.SET_WATCHES2: records.EmptyResponse,
    OpCode.ADD_WATCH: records.ErrorResponse,
    OpCode.WHO_AM_I: records.WhoAmIResponse,
    OpCode.CLOSE_SESSION: records.EmptyResponse,
}
"""The record of each reply without an error."""
