"""The side of a ZooKeeper, or of whatever speaks its protocol, another ensemble of ours too.

A list of children comes in one reply, however long it is. ZooKeeper tells no client which znodes
have a TTL or are containers. Requests of kinds that kazoo lacks are made here.

ZooKeeper: `zookeeper.jute` (CreateContainerRequest, CreateTTLRequest), `CreateMode`.
"""

import struct
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.serialization import Create2
from kazoo.security import ACL, Id

from raykeeper.client.copy_places import Access, Content, CopiedZnode, kind_of
from raykeeper.client.errors import (
    BadArgumentsError,
    InvalidAclError,
    KeeperError,
    NodeExistsError,
    UnimplementedError,
)
from raykeeper.commands.migration.sides import SEQUENCE_NAME
from raykeeper.commands.migration.zookeeper_session import LOST, ZooKeeperSession, as_ours
from raykeeper.znodes.acl import Acl, Acls
from raykeeper.znodes.paths import CONFIG_PATH, QUOTA_PATH, parent_of
from raykeeper.znodes.quotas import QuotaLimits, format_limits
from raykeeper.znodes.requests import CreateMode
from raykeeper.znodes.stat import Stat

PACKET_BYTES_MAX: Final = (1 << 20) - 1
"""The default of `jute.maxbuffer`, and of `zookeeper_request_bytes` of ours."""

_CREATE_BYTES: Final = 64
"""Of a request to create, besides path, value and ACL."""
_ACL_BYTES: Final = 12
_PAIRS_MAX: Final = 200
"""Creations in one transaction that raises a sequence."""
_EPOCH: Final = 1 << 31
"""More transactions than one migration sees: the zxids are of different epochs."""
_FOREIGN_SCHEMES: Final = ("scrypt",)


class _CreateContainer(Create2):  # type: ignore[misc]
    type = 19


class _CreateTtl(Create2):  # type: ignore[misc]
    """`ttl_ms` is set before it is sent."""

    type = 21
    ttl_ms = 0

    def serialize(self) -> bytes:
        return bytes(super().serialize()) + struct.pack(">q", self.ttl_ms)


class _Write:
    """The outcome of a write that is under way."""

    def __init__(self, session: ZooKeeperSession, reply: IAsyncResult, path: str) -> None:
        self._session, self._reply, self._path = session, reply, path

    def result(self) -> Stat:
        """Wait for it: the Stat of the znode afterwards."""
        found = self._session.wait(self._reply, self._path)
        return _stat_of(found[1] if isinstance(found[0], str) else found)


class _Delete(NamedTuple):
    """The outcome of a deletion that is under way."""

    session: ZooKeeperSession
    reply: IAsyncResult
    path: str

    def result(self) -> object:
        """Wait for it."""
        return self.session.wait(self.reply, self.path)


class _CreateKind:
    """The creation of a container or of a znode with a TTL, or else of an ordinary one."""

    def __init__(self, side: "ZooKeeperSide", relative: str, znode: CopiedZnode) -> None:
        self._side, self._relative, self._znode = side, relative, znode
        self._write = side._create_kind(relative, znode)

    def result(self) -> Stat:
        """Wait for it: the Stat of the znode afterwards."""
        try:
            return self._write.result()
        except UnimplementedError:  # znodes below it fail, and are looked at again
            self._side.refuses_kinds.add(self._znode.ttl_ms > 0)
            return self._side.create(self._relative, self._znode).result()


class ZooKeeperPlace:
    """A subtree of a ZooKeeper, at `path` from its root."""

    lost_errors: tuple[type[KeeperError], ...] = LOST
    tells_kinds = False

    def __init__(self, session: ZooKeeperSession, path: str) -> None:
        self.path = self.whole = path
        self._prefix = "" if path == "/" else path
        self._session = session
        self._client: KazooClient = session.client

    def path_of(self, relative: str) -> str:
        """Return the path of a znode."""
        return (self._prefix + relative) or "/"

    def read_access(self, batch: list[str]) -> list[Access | KeeperError | None]:
        """Read ACLs and Stats."""
        paths = [self.path_of(relative) for relative in batch]
        replies = self._session.read(self._client.get_acls_async, paths)
        return [_access_of(each) if isinstance(each, tuple) else each for each in replies]

    def read_values(self, batch: list[str]) -> list[Content | KeeperError | None]:
        """Read values with their Stats."""
        paths = [self.path_of(relative) for relative in batch]
        replies = self._session.read(self._client.get_async, paths)
        return [
            (each[0], _stat_of(each[1])) if isinstance(each, tuple) else each for each in replies
        ]

    def list_children(self, batch: list[str]) -> list[list[str] | KeeperError]:
        """Return the names of the children of each znode, none for one that is missing."""
        paths = [self.path_of(relative) for relative in batch]
        replies = self._session.read(self._client.get_children_async, paths)
        return [[] if each is None else each for each in replies]


class ZooKeeperSide(ZooKeeperPlace):
    """A place of a ZooKeeper that a whole tree moves from or to."""

    def __init__(
        self, session: ZooKeeperSession, path: str, packet_bytes_max: int = PACKET_BYTES_MAX
    ) -> None:
        super().__init__(session, path)
        self.kinds_lost = 0
        self.refuses_kinds: set[bool] = set()
        """Whether it has refused znodes with a TTL (True) and containers (False)."""
        self._packet_bytes_max = packet_bytes_max
        self._zxid = 0

    def label(self) -> str:
        """Return the path: nothing tells one ZooKeeper from another."""
        return f"zookeeper {self.whole}"

    def config_stat(self) -> Stat | None:
        """Return the Stat of /zookeeper/config."""
        (stat,) = self._session.read(self._client.exists_async, [CONFIG_PATH])
        return None if stat is None or isinstance(stat, KeeperError) else _stat_of(stat)

    def create(self, relative: str, znode: CopiedZnode) -> "_Write | _CreateKind":
        """Begin to create a znode; one of a kind that it refuses is made an ordinary one."""
        if znode.ttl_ms:
            if (znode.ttl_ms > 0) not in self.refuses_kinds:
                return _CreateKind(self, relative, znode)
            self.kinds_lost += 1
        path, acls = self.path_of(relative), _kazoo_acls(znode.acls)
        reply = self._client.create_async(path, znode.value, acl=acls, include_data=True)
        return _Write(self._session, reply, path)

    def _create_kind(self, relative: str, znode: CopiedZnode) -> _Write:
        path, acls = self.path_of(relative), _kazoo_acls(znode.acls)
        flags, ttl_ms = kind_of(znode.ttl_ms)
        kind = _CreateContainer if flags == CreateMode.CONTAINER else _CreateTtl
        request = kind(path, znode.value, acls, int(flags))
        request.ttl_ms = ttl_ms
        reply = self._client.handler.async_result()
        self._client._call(request, reply)
        return _Write(self._session, reply, path)

    def set_acls(self, relative: str, acls: Acls) -> _Write:
        """Begin to replace an ACL."""
        path = self.path_of(relative)
        reply = self._client.set_acls_async(path, _kazoo_acls(acls))
        return _Write(self._session, reply, path)

    def set_value(self, relative: str, value: bytes | None) -> _Write:
        """Begin to replace a value."""
        path = self.path_of(relative)
        return _Write(self._session, self._client.set_async(path, value), path)

    def refusal_of(self, relative: str, access: Access) -> KeeperError | None:
        """Return what is known beforehand: a packet that is too large only ends the connection."""
        path = self.path_of(relative)
        for each in access.acls:
            if each.scheme in _FOREIGN_SCHEMES:
                text = f"an entry of the scheme {each.scheme!r} is unknown to ZooKeeper"
                return InvalidAclError(path, text)
        size = _CREATE_BYTES + len(path.encode()) + access.stat.data_length
        size += sum(_ACL_BYTES + len(f"{each.scheme}{each.id}".encode()) for each in access.acls)
        if size > self._packet_bytes_max:
            text = f"its request is above jute.maxbuffer, {self._packet_bytes_max}"
            return BadArgumentsError(path, text)
        return None

    def quota_place(self) -> ZooKeeperPlace:
        """Return the place of the quotas of this place."""
        return ZooKeeperPlace(self._session, (QUOTA_PATH + self.whole).rstrip("/"))

    def set_quota(self, relative: str, limits: QuotaLimits) -> None:
        """Set the limits of a quota, as ZooKeeper's `setquota` does."""
        path = f"{QUOTA_PATH}{self.path_of(relative)}"
        self._ask(self._client.ensure_path_async(path), path)
        for name, value in (
            ("zookeeper_limits", format_limits(limits)),
            ("zookeeper_stats", b"count=0,bytes=0"),
        ):
            where = f"{path}/{name}"
            try:
                self._ask(self._client.create_async(where, value), where)
            except NodeExistsError:
                self._ask(self._client.set_async(where, value), where)

    def ensure_parents(self) -> None:
        """Create the znodes above the place that are missing, persistent and empty."""
        path = parent_of(self.path)
        self._ask(self._client.ensure_path_async(path), path)

    def raise_sequence(self, relative: str, missing: int) -> None:
        """Create and delete so many children."""
        path = f"{self.path_of(relative).rstrip('/')}/{SEQUENCE_NAME}"
        while missing > 0:
            several = self._client.transaction()
            for _ in range(min(missing, _PAIRS_MAX)):
                several.create(path)
                several.delete(path)
            for result in self._ask(several.commit_async(), path):
                if isinstance(result, Exception):
                    raise as_ours(result, path)
            missing -= _PAIRS_MAX

    def delete(self, relative: str, version: int) -> _Delete:
        """Begin to delete a znode that has this version and no children."""
        path = self.path_of(relative)
        return _Delete(self._session, self._client.delete_async(path, version), path)

    def begin_changes(self) -> None:
        """Count transactions from now on."""
        self._zxid = self._session.last_zxid()

    def changes(self) -> int | None:
        """Return how many transactions the whole ensemble has made since, sessions included."""
        made = self._session.last_zxid() - self._zxid
        return made if 0 <= made < _EPOCH else None

    def _ask(self, reply: IAsyncResult, path: str) -> Any:
        return self._session.wait(reply, path)


def _access_of(reply: tuple[list[ACL], Any]) -> Access:
    acls, stat = reply
    return Access(tuple(Acl(a.perms, a.id.scheme, a.id.id) for a in acls), 0, _stat_of(stat))


def _stat_of(stat: Any) -> Stat:
    return Stat(*stat)  # the fields are the same, in this order


def _kazoo_acls(acls: Acls) -> list[ACL]:
    return [ACL(each.permissions, Id(each.scheme, each.id)) for each in acls]
