"""Checks of users' arguments: everything that depends on the request alone.

The invariant of this file: a request that the server would refuse for its form fails before it
has a number, so it consumes nothing and the requests beside it go on.
"""

from collections.abc import Iterable
from typing import Literal

from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientId
from raykeeper.zab.ids import SERVER_ID_MAX, Millis
from raykeeper.znodes.acl import Acl, Acls, Identity, Permission, normalize_acls
from raykeeper.znodes.errors import BadArgumentsError, InvalidAclError
from raykeeper.znodes.paths import CONFIG_PATH, check_path, path_fault
from raykeeper.znodes.quotas import (
    NO_LIMIT,
    QUOTA_PREFIX,
    QuotaLimits,
    format_limits,
    is_valid_quota,
    quota_subtree,
)
from raykeeper.znodes.requests import (
    ANY_VERSION,
    PASSWORD_BYTES,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Reconfig,
    SessionId,
    Sync,
)

VERSION_MIN = -(1 << 31)
VERSION_MAX = (1 << 31) - 1
ZXID_MAX = (1 << 63) - 1
LIMIT_MAX = 10**18 - 1

Consistency = Literal["session", "linearizable"]
"""`session`: from the server's memory, never behind what this client has seen. `linearizable`: the
newest state, as after a `sync`, in one round trip."""

_PLACEHOLDER_IDENTITIES = (Identity("digest", "who:"),)
# They stand for the identities of the session, which replace an entry of `auth`.


def deletion(path: str, version: int) -> Delete:
    """Return a request to delete a znode.

    Raises:
        BadArgumentsError: the path or the version is not acceptable.
    """
    return Delete(checked_path(path), checked_version(path, version))


def query(
    kind: type[GetData] | type[Exists] | type[GetChildren] | type[Sync],
    path: str,
    watch: object | None = None,
    consistency: Consistency = "session",
) -> Query:
    """Return a read request, or a sync.

    Raises:
        BadArgumentsError: the path is not acceptable, `watch` cannot be called or kept, or there is
            no such consistency.
    """
    checked_path(path)
    if watch is not None:
        checked_watch(path, watch)
    if consistency == "session":
        return Query(kind, path, watch)
    if consistency == "linearizable":
        return Query(kind, path, watch, linearizable=True)
    raise BadArgumentsError(
        path, f'consistency must be "session" or "linearizable", not {consistency!r}'
    )


def checked_watch(path: str, watch: object) -> object:
    """Return `watch`, checked.

    Raises:
        BadArgumentsError: it is not callable or not hashable.
    """
    if not callable(watch):
        raise BadArgumentsError(path, f"watch must be callable, not {type(watch).__name__}")
    if type(watch).__hash__ is None:
        raise BadArgumentsError(path, "watch must be hashable")
    return watch


def milliseconds(name: str, seconds: float) -> Millis:
    """Return `seconds` in whole milliseconds, at least one.

    Raises:
        BadArgumentsError: `seconds` is not a positive number below a year.
    """
    if not isinstance(seconds, int | float) or not 0 < seconds < 365 * 24 * 3600:
        raise BadArgumentsError("", f"{name} must be a positive number of seconds, not {seconds!r}")
    return Millis(max(int(seconds * 1000), 1))


def checked_path(path: object, *, sequential: bool = False) -> str:
    """Return `path`, checked; for a sequential znode to create, a prefix is allowed.

    Raises:
        BadArgumentsError: it is not the path of a znode.
    """
    if not isinstance(path, str):
        raise BadArgumentsError("", f"a path must be a string, not {type(path).__name__}")
    # Nearly every path passes this test, without a keyword in the call, which takes a third of it.
    if sequential or path_fault(path) is not None:
        check_path(path, sequential=sequential)
    return path


def checked_version(path: str, version: object) -> int:
    """Return `version`, checked; -1 stands for any.

    Raises:
        BadArgumentsError: it is not a 32-bit integer.
    """
    if type(version) is not int or not VERSION_MIN <= version <= VERSION_MAX:
        raise BadArgumentsError(path, f"a version must be a 32-bit integer, not {version!r}")
    return version


def member_step(joining: object, leaving: object, as_observer: object, version: object) -> Reconfig:
    """Return a request for a step of the member list.

    Raises:
        BadArgumentsError: an argument is no id of a server or no version, or no server is named.
    """
    servers = []
    for name, server in (("joining", joining), ("leaving", leaving)):
        if server is not None and (type(server) is not int or not 1 <= server <= SERVER_ID_MAX):
            raise BadArgumentsError(
                CONFIG_PATH, f"{name} must be a server id, 1 to {SERVER_ID_MAX}, not {server!r}"
            )
        servers.append(server or 0)
    if not any(servers):
        raise BadArgumentsError(CONFIG_PATH, "name the server that is joining, or leaving")
    if type(as_observer) is not bool:
        raise BadArgumentsError(
            CONFIG_PATH, f"as_observer must be True or False, not {as_observer!r}"
        )
    if as_observer and joining is None:
        raise BadArgumentsError(CONFIG_PATH, "as_observer says how a server joins, and none does")
    if type(version) is not int or not ANY_VERSION <= version <= ZXID_MAX:
        raise BadArgumentsError(
            CONFIG_PATH, f"version must be that of a member list, or -1 for any, not {version!r}"
        )
    return Reconfig(servers[0], servers[1], as_observer, version)


def checked_acls(path: str, acls: object) -> Acls:
    """Return an ACL as a tuple, checked.

    Raises:
        InvalidAclError: it has no entry, more than any server takes, or a malformed one.
    """
    if not isinstance(acls, Iterable):
        raise InvalidAclError(path, f"an ACL is a list of Acl, not {acls!r}")
    entries = tuple(acls)
    for each in entries:
        if not isinstance(each, Acl) or type(each.permissions) not in (int, Permission):
            raise InvalidAclError(path, f"an ACL is a list of Acl, and has {each!r}")
        if not is_text(each.scheme) or not is_text(each.id):
            raise InvalidAclError(path, f"scheme and id of an Acl must be text, not as in {each!r}")
        if isinstance(normalize_acls([each], _PLACEHOLDER_IDENTITIES), int):
            raise InvalidAclError(path, f"malformed: {each!r}")
    if isinstance(normalize_acls(entries, _PLACEHOLDER_IDENTITIES), int):
        raise InvalidAclError(path, f"it has {len(entries)} entries")
    return entries


def is_text(text: object) -> bool:
    """Return whether it is a string that UTF-8 can encode: half of a surrogate pair cannot be."""
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_limits(path: str, limits: object) -> QuotaLimits:
    """Return the limits of a quota, checked.

    Raises:
        BadArgumentsError: they are not QuotaLimits, or one of them is no limit.
    """
    if not isinstance(limits, QuotaLimits):
        raise BadArgumentsError(path, f"limits must be QuotaLimits, not {limits!r}")
    for name in limits.__struct_fields__:
        limit = getattr(limits, name)
        if type(limit) is not int or not NO_LIMIT <= limit <= LIMIT_MAX:
            raise BadArgumentsError(
                path, f"{name} must be a number up to 10**18 - 1, or -1 for none, not {limit!r}"
            )
    return limits


def check_quota(path: str, value: bytes) -> None:
    """Check a value for the znode at `path`: a znode that keeps a quota must hold a quota's text.

    Raises:
        BadArgumentsError: it does not, or the subtree of the quota cannot have one.
    """
    if not path.startswith(QUOTA_PREFIX) or is_valid_quota(path, value):
        return
    if quota_subtree(path) is None:
        raise BadArgumentsError(path, "it cannot have a quota")
    example = format_limits(QuotaLimits(5, 100, 9, 200))
    raise BadArgumentsError(path, f"a quota looks like {example!r}, not {value[:80]!r}")


def checked_client_id(client_id: object) -> ClientId:
    """Return id and password of a session, checked.

    Raises:
        BadArgumentsError: it is no such pair.
    """
    if isinstance(client_id, tuple) and len(client_id) == 2:
        session_id, password = client_id
        is_id = type(session_id) is int and 0 < session_id < 1 << 63
        if is_id and type(password) is bytes and len(password) == PASSWORD_BYTES:
            return ClientId(SessionId(session_id), password)
    raise BadArgumentsError("", "client_id must be the client_id of another handle")


def checked_value(path: str, value: object, bytes_max: int) -> bytes:
    """Return the value of a znode as bytes, checked.

    Raises:
        BadArgumentsError: it is not bytes-like, or too long.
    """
    if type(value) is not bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise BadArgumentsError(path, f"a value must be bytes, not {type(value).__name__}")
        value = bytes(value)
    if len(value) > bytes_max:
        raise BadArgumentsError(
            path, f"a value of {len(value)} bytes, at most {bytes_max} are allowed"
        )
    return value
