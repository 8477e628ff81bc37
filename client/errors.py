"""Everything a user of the client can be told went wrong.

    RayKeeperError
    ├── KeeperError             the answer to a request; one class per ZooKeeper code
    ├── EnsembleNotFoundError   there is no ensemble of that name
    └── WrongContextError       a call that cannot work where it was made

`KeeperError` and its children have `code`, `path` and `definite` (znodes/errors.py).
"""

from raykeeper.zab.errors import RayKeeperError
from raykeeper.znodes.errors import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    Code,
    ConnectionLossError,
    InvalidAclError,
    KeeperError,
    MarshallingError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyError,
    NoWatcherError,
    OperationTimeoutError,
    QuotaExceededError,
    RequestTimeoutError,
    RuntimeInconsistencyError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    UnimplementedError,
    error_for,
)

__all__ = [
    "RayKeeperError",
    "KeeperError",
    "Code",
    "error_for",
    "EnsembleNotFoundError",
    "WrongContextError",
    "AuthFailedError",
    "BadArgumentsError",
    "BadVersionError",
    "ConnectionLossError",
    "MarshallingError",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "NoNodeError",
    "NodeExistsError",
    "NotEmptyError",
    "OperationTimeoutError",
    "RequestTimeoutError",
    "RuntimeInconsistencyError",
    "SessionExpiredError",
    "SessionMovedError",
    "InvalidAclError",
    "NotReadOnlyError",
    "NoWatcherError",
    "QuotaExceededError",
    "ThrottledOpError",
    "UnimplementedError",
]


class EnsembleNotFoundError(RayKeeperError):
    """Raised when no server of the named ensemble can be found in the Ray cluster.

    The caller should launch it, or correct the name; the text lists the ensembles there are.
    """


class WrongContextError(RayKeeperError):
    """Raised when a call cannot work where it is made; the text says what to do instead.

    So for a blocking call inside a running event loop, a handle used after a fork, and a process
    that cannot reach the Ray cluster. Nothing was sent.
    """
