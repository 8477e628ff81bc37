"""What a user may pass: everything that depends on the request alone is checked here.

The invariant of this file: a request that the server would refuse for its form gets an error before
it has a number, so it uses up nothing and the requests beside it go on.
"""

from raykeeper.client.outstanding import Query
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import BadArgumentsError
from raykeeper.znodes.paths import check_path
from raykeeper.znodes.requests import (
    Create,
    CreateMode,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Sync,
)

VERSION_MIN = -(1 << 31)
VERSION_MAX = (1 << 31) - 1


def creation(
    path: str, value: object, *, ephemeral: bool, sequence: bool, bytes_max: int
) -> Create:
    """A request to create a znode.

    Raises:
        BadArgumentsError: the path or the value is not acceptable.
    """
    _check_path(path, sequential=sequence)
    flags = CreateMode.EPHEMERAL if ephemeral else 0
    if sequence:
        flags |= CreateMode.SEQUENTIAL
    return Create(path, _value(path, value, bytes_max), flags)


def deletion(path: str, version: int) -> Delete:
    """A request to delete a znode.

    Raises:
        BadArgumentsError: the path or the version is not acceptable.
    """
    _check_path(path)
    return Delete(path, _version(path, version))


def setting(path: str, value: object, version: int, *, bytes_max: int) -> SetData:
    """A request to replace a value.

    Raises:
        BadArgumentsError: the path, the value or the version is not acceptable.
    """
    _check_path(path)
    return SetData(path, _value(path, value, bytes_max), _version(path, version))


def query(
    kind: type[GetData] | type[Exists] | type[GetChildren] | type[Sync],
    path: str,
    watch: object | None = None,
) -> Query:
    """A request to read.

    Raises:
        BadArgumentsError: the path is not acceptable, or `watch` cannot be called or kept.
    """
    _check_path(path)
    if watch is not None:
        if not callable(watch):
            raise BadArgumentsError(path, f"watch must be callable, not {type(watch).__name__}")
        if type(watch).__hash__ is None:
            raise BadArgumentsError(path, "watch must be hashable")
    return Query(kind, path, watch)


def milliseconds(name: str, seconds: float) -> Millis:
    """A span in whole milliseconds, at least one.

    Raises:
        BadArgumentsError: it is not a positive number of seconds below a year.
    """
    if not isinstance(seconds, int | float) or not 0 < seconds < 365 * 24 * 3600:
        raise BadArgumentsError("", f"{name} must be a positive number of seconds, not {seconds!r}")
    return Millis(max(int(seconds * 1000), 1))


def _check_path(path: object, *, sequential: bool = False) -> None:
    if not isinstance(path, str):
        raise BadArgumentsError("", f"a path must be a string, not {type(path).__name__}")
    check_path(path, sequential=sequential)


def _value(path: str, value: object, bytes_max: int) -> bytes:
    if type(value) is not bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise BadArgumentsError(path, f"a value must be bytes, not {type(value).__name__}")
        value = bytes(value)
    if len(value) > bytes_max:
        raise BadArgumentsError(
            path, f"a value of {len(value)} bytes, at most {bytes_max} are allowed"
        )
    return value


def _version(path: str, version: object) -> int:
    if type(version) is not int or not VERSION_MIN <= version <= VERSION_MAX:
        raise BadArgumentsError(path, f"a version must be a 32-bit integer, not {version!r}")
    return version
