"""One operation at a time, prepared against the future state: from conditions to results.

The order of the checks is ZooKeeper's, so a request that is wrong in two ways gets its error.

ZooKeeper: `PrepRequestProcessor.pRequest2Txn`, `checkACL`.
"""

from typing import Final

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Acls, Identities, Permission, allows, normalized
from raykeeper.znodes.errors import Code
from raykeeper.znodes.future import FutureTree, FutureZnode
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.paths import SEQUENCE_DIGITS, UNDELETABLE, fault_in, is_name, parent_of
from raykeeper.znodes.quotas import QUOTA_PREFIX, is_acceptable
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Check,
    Create,
    CreateMode,
    Delete,
    SessionId,
    SetAcls,
    SetData,
)
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.traits import CONTAINER, TTL_MS_MAX, traits_of
from raykeeper.znodes.tree import cversion_of
from raykeeper.znodes.txns import AclsSet, Created, DataSet, Deleted, Refused

REFUSED: Final = {code: Refused(code.value) for code in Code}
_NO_SESSION: Final = SessionId(0)
_QUOTA_CHARS: Final = len(QUOTA_PREFIX)


class Operations:
    """Prepares operations in the order of their transactions."""

    def __init__(self, tree: FutureTree, limits: Limits) -> None:
        self._tree = tree
        self._limits = limits
        self._quota_limits = tree.quotas.limits

    def set_data(
        self, zxid: Zxid, time_ms: Millis, identities: Identities, op: SetData
    ) -> DataSet | Refused:
        """Replace a value."""
        path = op.path
        value = op.value
        tree = self._tree
        record = tree.find(path)
        if record is None:
            return missing(path)
        traits = record.traits
        if traits is not None and not allows(traits.acls, identities, Permission.WRITE):
            return REFUSED[Code.NO_AUTH]
        size = len(value)
        if size > self._limits.value_bytes_max:
            return REFUSED[Code.BAD_ARGUMENTS]
        if self._quota_limits:
            if path[:_QUOTA_CHARS] == QUOTA_PREFIX and not is_acceptable(path, value):
                return REFUSED[Code.BAD_ARGUMENTS]
            if tree.quotas.exceeds(path, 0, size - len(record.value)):
                return REFUSED[Code.QUOTA_EXCEEDED]
        version = record.version
        if op.version != version and op.version != ANY_VERSION:
            return REFUSED[Code.BAD_VERSION]
        if self._quota_limits:
            tree.quotas.changed(path, record.value, value, time_ms)
        record.version = version = next_version(version)
        record.value = value
        record.mzxid = zxid
        record.mtime = time_ms
        tree.keep(zxid, path, record)
        count = record.num_children
        stat = Stat(
            record.czxid,
            zxid,
            record.ctime,
            time_ms,
            version,
            cversion_of(record.creates, count),
            0 if traits is None else traits.aversion,
            record.owner,
            size,
            count,
            record.pzxid,
        )
        return DataSet(path, value, stat)

    def create(
        self,
        zxid: Zxid,
        time_ms: Millis,
        session_id: SessionId,
        identities: Identities,
        op: Create,
    ) -> Created | Refused:
        """Create a znode."""
        flags = op.flags
        limits = self._limits
        ttl_ms = op.ttl_ms
        if len(op.value) > limits.value_bytes_max or not _is_mode(flags, ttl_ms):
            return REFUSED[Code.BAD_ARGUMENTS]
        path = op.path
        cut = path.rfind("/")
        if cut < 0 or path[:2] == "//":  # without the second, "//a" would be a child of the root
            return REFUSED[Code.BAD_ARGUMENTS]
        acls: Acls | Code | None = None
        if op.acls is not None:
            acls = normalized(op.acls, identities)
            if type(acls) is Code:
                return REFUSED[acls]
        tree = self._tree
        parent_path = path[:cut] or "/"
        parent = tree.find(parent_path)
        if parent is None:
            return REFUSED[Code.NO_NODE]
        traits = parent.traits
        if traits is not None and not allows(traits.acls, identities, Permission.CREATE):
            return REFUSED[Code.NO_AUTH]
        if flags in _SEQUENTIAL:
            path = f"{path}{parent.creates:0{SEQUENCE_DIGITS}d}"
        # What stands before the name is the path of a znode, so it is well-formed.
        if path != "/" and (not is_name(path[cut + 1 :]) or len(path) > limits.path_chars_max):
            return REFUSED[Code.BAD_ARGUMENTS]
        if path[:_QUOTA_CHARS] == QUOTA_PREFIX and not is_acceptable(path, op.value):
            return REFUSED[Code.BAD_ARGUMENTS]
        if tree.exists(path):
            return REFUSED[Code.NODE_EXISTS]
        if parent.owner:
            return REFUSED[Code.NO_CHILDREN_FOR_EPHEMERALS]
        if self._quota_limits and tree.quotas.exceeds(path, 1, len(op.value)):
            return REFUSED[Code.QUOTA_EXCEEDED]
        parent.creates += 1
        parent.num_children += 1
        parent.pzxid = zxid
        tree.keep(zxid, parent_path, parent)
        owner = session_id if flags in _EPHEMERAL else _NO_SESSION
        if flags == CreateMode.CONTAINER:
            ttl_ms = CONTAINER
        assert not isinstance(acls, Code)
        tree.create(zxid, time_ms, path, op.value, owner, traits_of(acls, 0, ttl_ms))
        return Created(path, op.value, owner, parent.creates, acls, ttl_ms)

    def delete(self, zxid: Zxid, identities: Identities, op: Delete) -> Deleted | Refused:
        """Delete a znode without children."""
        path = op.path
        if path in UNDELETABLE:
            return REFUSED[Code.BAD_ARGUMENTS]
        tree = self._tree
        parent = tree.find(parent_of(path))
        if parent is None:
            return missing(path)
        traits = parent.traits
        if traits is not None and not allows(traits.acls, identities, Permission.DELETE):
            return REFUSED[Code.NO_AUTH]
        record = tree.find(path)
        if record is None:
            return missing(path)
        if op.version != record.version and op.version != ANY_VERSION:
            return REFUSED[Code.BAD_VERSION]
        if record.num_children:
            return REFUSED[Code.NOT_EMPTY]
        tree.delete(zxid, path, record)
        return Deleted(path)

    def check(self, identities: Identities, op: Check) -> Refused | None:
        """Whether the znode is there, at a version; None when it is."""
        record = self._tree.find(op.path)
        if record is None:
            return missing(op.path)
        if not may(record, identities, Permission.READ):
            return REFUSED[Code.NO_AUTH]
        if op.version != record.version and op.version != ANY_VERSION:
            return REFUSED[Code.BAD_VERSION]
        return None

    def set_acls(self, zxid: Zxid, identities: Identities, op: SetAcls) -> AclsSet | Refused:
        """Replace an ACL."""
        path = op.path
        acls = normalized(op.acls, identities)
        if type(acls) is Code:
            return REFUSED[acls]
        assert not isinstance(acls, Code)
        record = self._tree.find(path)
        if record is None:
            return missing(path)
        if not may(record, identities, Permission.ADMIN):
            return REFUSED[Code.NO_AUTH]
        was = record.traits
        aversion = 0 if was is None else was.aversion
        if op.version != aversion and op.version != ANY_VERSION:
            return REFUSED[Code.BAD_VERSION]
        ttl_ms = 0 if was is None else was.ttl_ms
        record.traits = traits_of(acls, next_version(aversion), ttl_ms)
        self._tree.keep(zxid, path, record)
        return AclsSet(path, acls, stat_of_future(record))


_EPHEMERAL: Final = (CreateMode.EPHEMERAL, CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL)
_SEQUENTIAL: Final = (
    CreateMode.SEQUENTIAL,
    CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL,
    CreateMode.TTL_SEQUENTIAL,
)


def _is_mode(flags: int, ttl_ms: int) -> bool:
    if flags in (CreateMode.TTL, CreateMode.TTL_SEQUENTIAL):
        return 0 < ttl_ms <= TTL_MS_MAX
    return 0 <= flags <= CreateMode.CONTAINER and not ttl_ms


def may(record: FutureZnode, identities: Identities, permission: int) -> bool:
    """Whether the ACL of a znode grants a permission."""
    traits = record.traits
    return traits is None or allows(traits.acls, identities, permission)


def stat_of_future(record: FutureZnode) -> Stat:
    """The Stat a znode will have."""
    traits, count = record.traits, record.num_children
    return Stat(
        record.czxid,
        record.mzxid,
        record.ctime,
        record.mtime,
        record.version,
        cversion_of(record.creates, count),
        0 if traits is None else traits.aversion,
        record.owner,
        len(record.value),
        count,
        record.pzxid,
    )


def next_version(version: int) -> int:
    """Versions wrap as signed 32-bit numbers and leave out -1, which means any version."""
    if version == -2:
        return 0
    return version + 1 if version != 0x7FFF_FFFF else -0x8000_0000


def missing(path: str) -> Refused:
    """Why there is no znode at `path`. Looked at only now: a malformed path never has one."""
    return REFUSED[Code.NO_NODE if fault_in(path) is None else Code.BAD_ARGUMENTS]
