"""The records of ZooKeeper's wire protocol, as far as a client and a server exchange them.

Names and members are those of `zookeeper.jute`, modules proto and data, in snake_case. `Stat` and
`Acl` are the tree's own structs.
"""

from raykeeper.jute.fields import Int, Long, Record
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.stat import Stat

# The handshake, and what stands before each record.


class ConnectRequest(Record, frozen=True):
    """The first frame of a client. Old clients end before `read_only`, which is None then."""

    protocol_version: Int
    last_zxid_seen: Long
    timeout: Int
    session_id: Long
    password: bytes | None
    read_only: bool | None = None


class ConnectResponse(Record, frozen=True):
    """The answer, with `read_only` if the request had it. A refusal has the timeout 0."""

    protocol_version: Int
    timeout: Int
    session_id: Long
    password: bytes | None
    read_only: bool | None = None


class ReplyHeader(Record, frozen=True):
    """The header of a reply or an event; nothing follows an error."""

    xid: Int
    zxid: Long
    err: Int


# Requests.


class EmptyRequest(Record, frozen=True):
    """The request of ping, whoAmI and closeSession, which has no members."""


class CreateRequest(Record, frozen=True):
    path: str
    data: bytes | None
    acl: list[Acl] | None
    flags: Int


class CreateTTLRequest(Record, frozen=True):
    path: str
    data: bytes | None
    acl: list[Acl] | None
    flags: Int
    ttl: Long


class DeleteRequest(Record, frozen=True):
    path: str
    version: Int


class PathWatchRequest(Record, frozen=True):
    """The request of exists, getData, getChildren and getChildren2."""

    path: str
    watch: bool


class SetDataRequest(Record, frozen=True):
    path: str
    data: bytes | None
    version: Int


class PathRequest(Record, frozen=True):
    """The path of getACL, sync, getEphemerals, getAllChildrenNumber and deleteContainer."""

    path: str


class SetACLRequest(Record, frozen=True):
    path: str
    acl: list[Acl] | None
    version: Int


class CheckVersionRequest(Record, frozen=True):
    path: str
    version: Int


class ReconfigRequest(Record, frozen=True):
    joining_servers: str
    leaving_servers: str
    new_members: str
    cur_config_id: Long


class WatchesRequest(Record, frozen=True):
    """The request of checkWatches and removeWatches; `type` is a `WatcherType`."""

    path: str
    type: Int


class AuthPacket(Record, frozen=True):
    type: Int
    scheme: str
    auth: bytes | None


class SetWatches(Record, frozen=True):
    relative_zxid: Long
    data_watches: list[str] | None
    exist_watches: list[str] | None
    child_watches: list[str] | None


class SetWatches2(Record, frozen=True):
    relative_zxid: Long
    data_watches: list[str] | None
    exist_watches: list[str] | None
    child_watches: list[str] | None
    persistent_watches: list[str] | None
    persistent_recursive_watches: list[str] | None


class GetSASLRequest(Record, frozen=True):
    token: bytes | None


class AddWatchRequest(Record, frozen=True):
    path: str
    mode: Int


# Replies and events.


class EmptyResponse(Record, frozen=True):
    """A reply without members: nothing follows the header."""


class CreateResponse(Record, frozen=True):
    path: str


class Create2Response(Record, frozen=True):
    path: str
    stat: Stat


class StatResponse(Record, frozen=True):
    """The reply to exists, setData and setACL."""

    stat: Stat


class GetDataResponse(Record, frozen=True):
    data: bytes | None
    stat: Stat


class GetACLResponse(Record, frozen=True):
    acl: list[Acl] | None
    stat: Stat


class GetChildrenResponse(Record, frozen=True):
    children: list[str] | None


class GetChildren2Response(Record, frozen=True):
    children: list[str] | None
    stat: Stat


class SyncResponse(Record, frozen=True):
    path: str


class GetEphemeralsResponse(Record, frozen=True):
    ephemerals: list[str] | None


class GetAllChildrenNumberResponse(Record, frozen=True):
    total_number: Int


class ClientInfo(Record, frozen=True):
    auth_scheme: str
    user: str


class WhoAmIResponse(Record, frozen=True):
    client_info: list[ClientInfo] | None


class SetSASLResponse(Record, frozen=True):
    token: bytes | None


class ErrorResponse(Record, frozen=True):
    """The result of an operation that failed in a multi; also the reply to addWatch."""

    err: Int


class WatcherEvent(Record, frozen=True):
    """The event of a watch: `type` is an `EventType`, `state` a `KeeperState`."""

    type: Int
    state: Int
    path: str
