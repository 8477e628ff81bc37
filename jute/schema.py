"""The record of the request of each opcode, and that of its reply.

ZooKeeper: `ZooKeeperServer.processPacket`, `FinalRequestProcessor`, `ClientCnxn.readResponse`.
"""

from typing import Final

from raykeeper.jute import records
from raykeeper.jute.fields import Record
from raykeeper.jute.multi import MultiRequest, MultiResponse
from raykeeper.jute.opcodes import OpCode

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
