"""Every operation of a handle, from the user's arguments to what is asked of the core.

The facades differ only in how they wait: here each operation is described once.
"""

from collections.abc import Iterable
from typing import TypedDict

from msgspec import structs

from raykeeper.client import arguments
from raykeeper.client.access import credential_proof
from raykeeper.client.arguments import Consistency
from raykeeper.client.core.compound_operations import (
    Rounds,
    create_with_parents,
    delete_with_children,
    ensure,
    read_many,
    remove_limits,
    set_limits,
    shaped,
)
from raykeeper.client.core.outstanding import NewRequest, WatchAddition, WatchRemoval
from raykeeper.client.core.results import path_and_stat_of, result_of
from raykeeper.client.errors import BadArgumentsError
from raykeeper.znodes.acl import Acl, Acls
from raykeeper.znodes.paths import QUOTA_PATH
from raykeeper.znodes.quotas import QuotaLimits, format_limits, limits_path, quota_subtree
from raykeeper.znodes.requests import (
    ANY_VERSION,
    AddAuth,
    CountDescendants,
    Create,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    GetEphemerals,
    GetQuota,
    Multi,
    MultiRead,
    ReadData,
    SetData,
    Sync,
    TxnOp,
    WatchKind,
    WatchMode,
    WhoAmI,
)

READS_MAX = 1000
"""Znodes that one `get_many` reads."""


class CreateOptions(TypedDict, total=False):
    """What kind of znode: by default a persistent one, with the default ACL of the handle."""

    ephemeral: bool
    """Delete it when this session ends."""
    sequence: bool
    """Append a number that grows with every child of the parent."""
    container: bool
    """Delete it once its last child is gone."""
    ttl_s: float | None
    """Delete it when it has had no children and no new value for so many seconds."""
    acl: Iterable[Acl] | None
    """Who may do what, see client/access.py."""


class RequestBuilder:
    """What one handle asks for. Each method refuses what is malformed before anything is sent."""

    def __init__(
        self, value_bytes_max: int, default_acl: Acls | None = None, *, has_chroot: bool = False
    ) -> None:
        """`default_acl`, which has been checked, is that of znodes created without one."""
        self._bytes_max = value_bytes_max
        self._default_acl = default_acl
        self._has_chroot = has_chroot

    def create(
        self,
        path: str,
        value: bytes,
        makepath: bool,
        include_data: bool,
        options: CreateOptions,
    ) -> NewRequest | Rounds:
        """A znode; `makepath`: with its parents; `include_data`: path and Stat."""
        creation = self.creation(path, value, **options)
        shape = path_and_stat_of if include_data else result_of
        if makepath:
            return create_with_parents(creation, shape)
        return shaped(creation, shape) if include_data else creation

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
        """The request of a creation alone."""
        request = arguments.creation(
            path,
            value,
            ephemeral=ephemeral,
            sequence=sequence,
            container=container,
            ttl_s=ttl_s,
            acls=self._default_acl if acl is None else arguments.checked_acls(path, acl),
            bytes_max=self._bytes_max,
        )
        if not self._has_chroot and not sequence:
            arguments.check_quota(path, request.value)
        return request

    def with_default_acl(self, ask: NewRequest) -> NewRequest:
        """A request of a recipe: what it creates without an ACL has the default one."""
        if self._default_acl is None:
            return ask
        if isinstance(ask, Create):
            return self._creation_with_default_acl(ask)
        if isinstance(ask, Multi):
            then, otherwise = map(self._with_default_acls, (ask.then, ask.otherwise))
            return Multi(ask.compares, then, otherwise)
        return ask

    def _with_default_acls(self, ops: list[TxnOp]) -> list[TxnOp]:
        return [self._creation_with_default_acl(op) if isinstance(op, Create) else op for op in ops]

    def _creation_with_default_acl(self, creation: Create) -> Create:
        if creation.acls is not None or self._default_acl is None:
            return creation
        return structs.replace(creation, acls=list(self._default_acl))

    def ensure_path(self, path: str, acl: Iterable[Acl] | None) -> Rounds:
        """A znode and those above it, unless they are there."""
        return ensure(self.creation(path, acl=acl))

    def set(self, path: str, value: bytes, version: int) -> SetData:
        """A new value."""
        request = arguments.setting(path, value, version, bytes_max=self._bytes_max)
        if not self._has_chroot:
            arguments.check_quota(path, request.value)
        return request

    def delete(self, path: str, version: int, recursive: bool = False) -> NewRequest | Rounds:
        """No znode; `recursive`: and nothing below it."""
        deletion = arguments.deletion(path, version)
        return delete_with_children(deletion) if recursive else deletion

    def get(self, path: str, watch: object | None, consistency: Consistency) -> NewRequest:
        """Value and Stat."""
        return arguments.query(GetData, path, watch, consistency)

    def exists(self, path: str, watch: object | None, consistency: Consistency) -> NewRequest:
        """The Stat, or None."""
        return arguments.query(Exists, path, watch, consistency)

    def get_children(self, path: str, watch: object | None, consistency: Consistency) -> NewRequest:
        """The names of the children."""
        return arguments.query(GetChildren, path, watch, consistency)

    def add_watch(self, path: str, watch: object, recursive: bool, with_values: bool) -> NewRequest:
        """A watch that stays."""
        mode = WatchMode.RECURSIVE if recursive else WatchMode.PERSISTENT
        arguments.checked_path(path)
        return WatchAddition(path, mode, bool(with_values), arguments.checked_watch(path, watch))

    def remove_watches(self, path: str, watch: object | None, kind: WatchKind) -> NewRequest:
        """No watches of a kind, of one watcher or of all."""
        arguments.checked_path(path)
        if watch is not None:
            arguments.checked_watch(path, watch)
        if not isinstance(kind, WatchKind):
            raise BadArgumentsError(path, f"kind must be a WatchKind, not {kind!r}")
        return WatchRemoval(path, kind, watch)

    def sync(self, path: str) -> NewRequest:
        """All that is committed."""
        return arguments.query(Sync, path)

    def get_many(self, paths: Iterable[str]) -> Rounds:
        """Values and Stats of one moment."""
        if isinstance(paths, str) or not isinstance(paths, Iterable):
            raise BadArgumentsError("", f"paths must be several, not {paths!r}")
        wanted = [ReadData(arguments.checked_path(path)) for path in paths]
        if len(wanted) > READS_MAX:
            raise BadArgumentsError("", f"{len(wanted)} paths, at most {READS_MAX} are allowed")
        return read_many(MultiRead(0, list(wanted)))

    def get_acls(self, path: str) -> NewRequest:
        """ACL and Stat."""
        return GetAcls(0, arguments.checked_path(path))

    def set_acls(self, path: str, acls: Iterable[Acl], version: int) -> NewRequest:
        """A new ACL."""
        return arguments.acl_setting(path, acls, version)

    def add_auth(self, ensemble: str, scheme: str, credential: str | bytes) -> NewRequest:
        """One more identity of the session."""
        if not arguments.is_text(scheme):
            raise BadArgumentsError("", f"a scheme is text, not {scheme!r}")
        return AddAuth(scheme, credential_proof(ensemble, scheme, credential))

    def who_am_i(self) -> NewRequest:
        """The identities of the session."""
        return WhoAmI(0)

    def set_quota(self, path: str, limits: QuotaLimits) -> Rounds:
        """Limits of a subtree, instead of those it had."""
        value = format_limits(arguments.checked_limits(path, limits))
        kept = self._limits_path(path)
        return set_limits(self.set(kept, value, ANY_VERSION), self.creation(kept, value))

    def get_quota(self, path: str) -> NewRequest:
        """Limits and usage of a subtree."""
        return GetQuota(0, arguments.checked_path(path))

    def remove_quota(self, path: str) -> Rounds:
        """No limits of a subtree."""
        return remove_limits(self._limits_path(path), QUOTA_PATH)

    def _limits_path(self, path: str) -> str:
        if self._has_chroot:
            raise BadArgumentsError(path, "a handle with a chroot cannot change quotas")
        kept = limits_path(arguments.checked_path(path))
        if path == "/" or quota_subtree(kept) is None:
            raise BadArgumentsError(path, "it cannot have a quota")
        return kept

    def get_ephemerals(self, prefix: str) -> NewRequest:
        """The session's own ephemeral znodes."""
        if not arguments.is_text(prefix) or prefix[:1] != "/":
            raise BadArgumentsError("", f'a prefix is text that starts with "/", not {prefix!r}')
        return GetEphemerals(0, prefix)

    def get_all_children_number(self, path: str) -> NewRequest:
        """How many znodes are below one."""
        return CountDescendants(0, arguments.checked_path(path))
