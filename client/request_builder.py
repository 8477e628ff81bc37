"""Builds the requests that depend on a client's options: default ACL, bound of values, chroot."""

from collections.abc import Iterable
from typing import TypedDict

from msgspec import structs

from raykeeper.client import arguments
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.errors import BadArgumentsError
from raykeeper.znodes.acl import Acl, Acls
from raykeeper.znodes.quotas import (
    QUOTA_PREFIX,
    QuotaLimits,
    format_limits,
    limits_path,
    quota_subtree,
    stats_path,
)
from raykeeper.znodes.requests import ANY_VERSION, Create, CreateMode, Multi, SetData, TxnOp
from raykeeper.znodes.znode import TTL_MS_MAX


class CreateOptions(TypedDict, total=False):
    """The kind of a znode: by default a persistent one, with the default ACL of the client."""

    ephemeral: bool
    """Delete the znode when this session ends."""
    sequence: bool
    """Append a number that grows with every child of the parent."""
    container: bool
    """Delete the znode once its last child is gone."""
    ttl_s: float | None
    """Delete the znode when it has had no children and no new value for so many seconds."""
    acl: Iterable[Acl] | None
    """The access control list, see client/access.py."""


class RequestBuilder:
    """Builds the requests of one client. Each method checks its arguments."""

    def __init__(
        self, value_bytes_max: int, default_acl: Acls | None = None, *, chroot: str = ""
    ) -> None:
        """`default_acl`, which has been checked, is that of znodes created without one."""
        self._bytes_max = value_bytes_max
        self._default_acl = default_acl
        self.chroot = chroot
        """The path of the znode that is the root of the handle, "" for the root of the ensemble."""

    def creation(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl_s: float | None = None,
        acl: Iterable[Acl] | None = None,
    ) -> Create:
        """Return a request to create a znode.

        Raises:
            BadArgumentsError: the path or the value is not acceptable, or the kind of znode.
            InvalidAclError: the ACL is malformed.
        """
        acls = self._default_acl if acl is None else arguments.checked_acls(path, acl)
        arguments.checked_path(path, sequential=sequence)
        ttl_ms = 0
        if ttl_s is not None:
            if ephemeral or container:
                raise BadArgumentsError(path, "ttl_s goes with neither ephemeral nor container")
            ttl_ms = _ttl_ms(path, ttl_s)
            flags = CreateMode.TTL_SEQUENTIAL if sequence else CreateMode.TTL
        elif container:
            if ephemeral or sequence:
                raise BadArgumentsError(path, "container goes with neither ephemeral nor sequence")
            flags = CreateMode.CONTAINER
        else:
            flags = CreateMode.EPHEMERAL if ephemeral else 0
            if sequence:
                flags |= CreateMode.SEQUENTIAL
        value = arguments.checked_value(path, value, self._bytes_max)
        if not self.chroot and not sequence:
            arguments.check_quota(path, value)
        return Create(path, value, flags, None if acls is None else list(acls), ttl_ms)

    def setting(self, path: str, value: bytes, version: int = ANY_VERSION) -> SetData:
        """Return a request to replace a value.

        Raises:
            BadArgumentsError: the path, the value or the version is not acceptable.
        """
        arguments.checked_path(path)
        value = arguments.checked_value(path, value, self._bytes_max)
        request = SetData(path, value, arguments.checked_version(path, version))
        if path.startswith(QUOTA_PREFIX) and not self.chroot:
            arguments.check_quota(path, value)
        return request

    def quota_writes(self, path: str, limits: QuotaLimits) -> tuple[SetData, Create, Create]:
        """Return the requests to set and to create the znode with the limits of a subtree.

        The last one creates the znode that shows the usage.

        Raises:
            BadArgumentsError: they are no limits, or as `quota_path`.
        """
        value = format_limits(arguments.checked_limits(path, limits))
        kept = self.quota_path(path)
        return (
            self.setting(kept, value),
            self.creation(kept, value),
            self.creation(stats_path(path)),
        )

    def quota_path(self, path: str) -> str:
        """Return the path of the znode that keeps the limits of a subtree.

        Raises:
            BadArgumentsError: the subtree cannot have a quota, or the client has a chroot.
        """
        if self.chroot:
            raise BadArgumentsError(path, "a handle with a chroot cannot change quotas")
        kept = limits_path(arguments.checked_path(path))
        if path == "/" or quota_subtree(kept) is None:
            raise BadArgumentsError(path, "it cannot have a quota")
        return kept

    def with_default_acl(self, request: NewRequest) -> NewRequest:
        """Return a recipe's request with the default ACL in creations without an ACL."""
        if self._default_acl is None:
            return request
        if isinstance(request, Create):
            return self._creation_with_default_acl(request)
        if isinstance(request, Multi):
            then, otherwise = map(self._with_default_acls, (request.then, request.otherwise))
            return Multi(request.compares, then, otherwise)
        return request

    def _with_default_acls(self, ops: list[TxnOp]) -> list[TxnOp]:
        return [self._creation_with_default_acl(op) if isinstance(op, Create) else op for op in ops]

    def _creation_with_default_acl(self, creation: Create) -> Create:
        if creation.acls is not None or self._default_acl is None:
            return creation
        return structs.replace(creation, acls=list(self._default_acl))


def _ttl_ms(path: str, ttl_s: float) -> int:
    is_number = isinstance(ttl_s, int | float) and not isinstance(ttl_s, bool)
    if is_number and 0 < ttl_s <= TTL_MS_MAX / 1000:
        return max(round(ttl_s * 1000), 1)
    raise BadArgumentsError(path, f"ttl_s must be a positive number of seconds, not {ttl_s!r}")
