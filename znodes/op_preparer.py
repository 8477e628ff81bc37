"""The preparation of one operation against the outstanding changes: from conditions to results.

The order of the checks is ZooKeeper's, so a request that is wrong in two ways gets its error.

ZooKeeper: `PrepRequestProcessor.pRequest2Txn`, `checkACL`.
"""

from typing import Final

from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import Acls, Identities, Permission, normalize_acls
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import Limits
from raykeeper.znodes.outstanding_changes import ChangeRecord, OutstandingChanges
from raykeeper.znodes.paths import (
    SEQUENCE_DIGITS,
    SYSTEM_PATHS,
    is_valid_name,
    missing_code,
    parent_of,
    path_fault,
)
from raykeeper.znodes.quotas import QUOTA_PREFIX, is_valid_quota
from raykeeper.znodes.refusals import refused
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
from raykeeper.znodes.txns import CreateTxn, DeleteTxn, ErrorTxn, SetAclTxn, SetDataTxn
from raykeeper.znodes.znode import CONTAINER, TTL_MS_MAX, attributes_of, cversion_of, is_allowed

_NO_SESSION: Final = SessionId(0)
_QUOTA_CHARS: Final = len(QUOTA_PREFIX)


class OpPreparer:
    """Prepares single operations in the order of their transactions."""

    def __init__(self, tree: OutstandingChanges, limits: Limits) -> None:
        self._tree = tree
        self._limits = limits
        self._quota_limits = tree.quotas.limits

    def set_data(
        self,
        zxid: Zxid,
        time_ms: Millis,
        identities: Identities,
        op: SetData,
        *,
        is_servers_own: bool = False,
    ) -> SetDataTxn | ErrorTxn:
        """Replace a value; one that the servers make themselves may be of any size."""
        path = op.path
        value = op.value
        tree = self._tree
        record = tree.find(path)
        if record is None:
            return refused(missing_code(path), op)
        attributes = record.attributes
        if attributes is not None and not is_allowed(attributes, identities, Permission.WRITE):
            return refused(Code.NO_AUTH, op)
        size = len(value or b"")
        if size > self._limits.value_bytes_max and not is_servers_own:
            return refused(Code.BAD_ARGUMENTS, op)
        if self._quota_limits:
            if path[:_QUOTA_CHARS] == QUOTA_PREFIX and not is_valid_quota(path, value):
                return refused(Code.BAD_ARGUMENTS, op)
            if tree.quotas.exceeds(path, 0, size - len(record.value or b"")):
                return refused(Code.QUOTA_EXCEEDED, op)
        version = record.version
        if op.version != version and op.version != ANY_VERSION:
            return refused(Code.BAD_VERSION, op)
        if self._quota_limits:
            tree.quotas.changed(path, record.value or b"", value or b"", time_ms)
        record.version = version = next_version(version)
        record.value = value
        record.mzxid = zxid
        record.mtime = time_ms
        tree.put(zxid, path, record)
        return SetDataTxn(path, value, stat_of_record(record))

    def create(
        self,
        zxid: Zxid,
        time_ms: Millis,
        session_id: SessionId,
        identities: Identities,
        op: Create,
    ) -> CreateTxn | ErrorTxn:
        """Create a znode."""
        flags = op.flags
        limits = self._limits
        ttl_ms = op.ttl_ms
        size = len(op.value or b"")
        if size > limits.value_bytes_max or not _is_mode(flags, ttl_ms):
            return refused(Code.BAD_ARGUMENTS, op)
        path = op.path
        cut = path.rfind("/")
        if cut < 0 or path[:2] == "//":  # without the second, "//a" would be a child of the root
            return refused(Code.BAD_ARGUMENTS, op)
        acls: Acls | Code | None = None
        if op.acls is not None:
            acls = normalize_acls(op.acls, identities, limits.acl_entries_max)
            if type(acls) is Code:
                return refused(acls, op)
        tree = self._tree
        parent_path = path[:cut] or "/"
        parent = tree.find(parent_path)
        if parent is None:
            return refused(Code.NO_NODE, op)
        if not is_allowed(parent.attributes, identities, Permission.CREATE):
            return refused(Code.NO_AUTH, op)
        if flags in _SEQUENTIAL:
            path = f"{path}{parent.child_create_count:0{SEQUENCE_DIGITS}d}"
        # The part before the name is the path of a znode, so it is well-formed.
        if path != "/" and (
            not is_valid_name(path[cut + 1 :]) or len(path) > limits.path_chars_max
        ):
            return refused(Code.BAD_ARGUMENTS, op)
        if path[:_QUOTA_CHARS] == QUOTA_PREFIX and not is_valid_quota(path, op.value):
            return refused(Code.BAD_ARGUMENTS, op)
        if tree.exists(path):
            return refused(Code.NODE_EXISTS, op)
        if parent.ephemeral_owner:
            return refused(Code.NO_CHILDREN_FOR_EPHEMERALS, op)
        if self._quota_limits and tree.quotas.exceeds(path, 1, size):
            return refused(Code.QUOTA_EXCEEDED, op)
        parent.child_create_count += 1
        parent.num_children += 1
        parent.pzxid = zxid
        tree.put(zxid, parent_path, parent)
        owner = session_id if flags in _EPHEMERAL else _NO_SESSION
        if flags == CreateMode.CONTAINER:
            ttl_ms = CONTAINER
        assert not isinstance(acls, Code)
        tree.create(zxid, time_ms, path, op.value, owner, attributes_of(acls, 0, ttl_ms))
        return CreateTxn(path, op.value, owner, parent.child_create_count, acls, ttl_ms)

    def delete(self, zxid: Zxid, identities: Identities, op: Delete) -> DeleteTxn | ErrorTxn:
        """Delete a znode without children."""
        path = op.path
        if path in SYSTEM_PATHS:
            return refused(Code.BAD_ARGUMENTS, op)
        tree = self._tree
        parent = tree.find(parent_of(path))
        if parent is None:
            return refused(_missing_for_delete(path), op)
        if not is_allowed(parent.attributes, identities, Permission.DELETE):
            return refused(Code.NO_AUTH, op)
        record = tree.find(path)
        if record is None:
            return refused(_missing_for_delete(path), op)
        if op.version != record.version and op.version != ANY_VERSION:
            return refused(Code.BAD_VERSION, op)
        if record.num_children:
            return refused(Code.NOT_EMPTY, op)
        tree.delete(zxid, path, record)
        return DeleteTxn(path)

    def check(self, identities: Identities, op: Check) -> ErrorTxn | None:
        """Check that the znode is there, at a version; return the error if not."""
        record = self._tree.find(op.path)
        if record is None:
            return refused(missing_code(op.path), op)
        if not is_allowed(record.attributes, identities, Permission.READ):
            return refused(Code.NO_AUTH, op)
        if op.version != record.version and op.version != ANY_VERSION:
            return refused(Code.BAD_VERSION, op)
        return None

    def set_acls(self, zxid: Zxid, identities: Identities, op: SetAcls) -> SetAclTxn | ErrorTxn:
        """Replace an ACL."""
        path = op.path
        acls = normalize_acls(op.acls, identities, self._limits.acl_entries_max)
        if type(acls) is Code:
            return refused(acls if path_fault(path) is None else Code.BAD_ARGUMENTS, op)
        assert not isinstance(acls, Code)
        record = self._tree.find(path)
        if record is None:
            return refused(missing_code(path), op)
        if not is_allowed(record.attributes, identities, Permission.ADMIN):
            return refused(Code.NO_AUTH, op)
        was = record.attributes
        aversion = 0 if was is None else was.aversion
        if op.version != aversion and op.version != ANY_VERSION:
            return refused(Code.BAD_VERSION, op)
        ttl_ms = 0 if was is None else was.ttl_ms
        record.attributes = attributes_of(acls, next_version(aversion), ttl_ms)
        self._tree.put(zxid, path, record)
        return SetAclTxn(path, acls, stat_of_record(record))


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


def stat_of_record(record: ChangeRecord) -> Stat:
    """Return the Stat a znode will have."""
    attributes, count = record.attributes, record.num_children
    return Stat(
        record.czxid,
        record.mzxid,
        record.ctime,
        record.mtime,
        record.version,
        cversion_of(record.child_create_count, count),
        0 if attributes is None else attributes.aversion,
        record.ephemeral_owner,
        len(record.value or b""),
        count,
        record.pzxid,
    )


def next_version(version: int) -> int:
    """Return the version after `version`: signed 32 bits, wrapping, without -1 (any version)."""
    if version == -2:
        return 0
    return version + 1 if version != 0x7FFF_FFFF else -0x8000_0000


def _missing_for_delete(path: str) -> Code:
    """Return the error for a znode that is not there; ZooKeeper checks no more of its path."""
    return Code.NO_NODE if "/" in path and "\0" not in path else Code.BAD_ARGUMENTS
