"""The errors that a user of the client can get.

    RayKeeperError
    ├── KeeperError             the answer to a request; one class per ZooKeeper code
    ├── EnsembleNotFoundError   there is no ensemble of that name
    ├── WrongContextError       a call that cannot work in this context
    ├── RayUnavailableError     Ray does not answer
    ├── LostError               a lock, membership or session is gone
    │   ├── SessionExpiredError, SessionMovedError     with the session; KeeperErrors too
    │   └── StaleTokenError     a holder with a newer fencing token was here first
    └── RecipeError             a recipe could not do its operation
        ├── WaitTimeoutError    the awaited condition did not come true in time
        ├── DeposedError        an elected actor lost its leadership while it served a call
        ├── BrokenBarrierError  a participant left a barrier before all had come
        ├── BarrierFullError    a barrier has all its participants already
        ├── InvalidValueError   a znode has a value that a recipe cannot read
        └── CacheFullError      a subtree has more znodes than its cache may hold

ClosedError is a KeeperError that no server sends: a call came after `close` or `stop`.
`KeeperError` and its children have `code`, `path` and `definite` (znodes/errors.py).
"""

from raykeeper.zab.errors import RayKeeperError
from raykeeper.znodes.errors import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    ClosedError,
    Code,
    ConnectionLossError,
    InvalidAclError,
    KeeperError,
    LostError,
    MarshallingError,
    NewConfigNoQuorumError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    NotReadOnlyError,
    NoWatcherError,
    OperationTimeoutError,
    QuotaExceededError,
    ReconfigInProgressError,
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
    "RayUnavailableError",
    "LostError",
    "RecipeError",
    "WaitTimeoutError",
    "DeposedError",
    "BrokenBarrierError",
    "BarrierFullError",
    "StaleTokenError",
    "InvalidValueError",
    "CacheFullError",
    "AuthFailedError",
    "BadArgumentsError",
    "BadVersionError",
    "ClosedError",
    "ConnectionLossError",
    "MarshallingError",
    "NewConfigNoQuorumError",
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
    "ReconfigInProgressError",
    "ThrottledOpError",
    "UnimplementedError",
]


class EnsembleNotFoundError(RayKeeperError):
    """Raised when no server of the named ensemble can be found in the Ray cluster.

    The caller should launch it, or correct the name; the text lists the ensembles there are.
    """


class WrongContextError(RayKeeperError):
    """Raised when a call cannot work in its context; the text says what to do instead.

    Contexts are a blocking call inside a running event loop, a child that was forked off a process
    with Ray, and a process that cannot reach the Ray cluster. Nothing was sent.
    """


class RayUnavailableError(RayKeeperError):
    """Raised when Ray does not answer in time, or answers with an error; the text says what of.

    Its GCS is away or too busy. An ensemble that runs goes on without it. The caller should try
    again. `connect` raises ConnectionLossError instead.
    """


class RecipeError(RayKeeperError):
    """Raised when a recipe could not do its operation; its subclasses say why."""


class WaitTimeoutError(RecipeError, TimeoutError):
    """Raised when the condition that a recipe waits for did not come true within `timeout_s`.

    Nothing is left behind: the recipe has deleted what it created to wait. Without a server it
    does so as soon as one answers, and the text says that. The caller may try again.
    """


class DeposedError(RecipeError):
    """Raised when an elected actor died or was deposed while it served a call.

    The call may have done all of its work, a part or nothing. The caller should find that out, or
    call again if the method may be repeated.
    """


class BrokenBarrierError(RecipeError):
    """Raised when a participant left a barrier before all participants had entered, or left.

    It died or gave up. The round is over for all that wait; the caller may enter the next round,
    which needs all participants again, or agree with the others on what to do.
    """


class BarrierFullError(RecipeError):
    """Raised when a round of a barrier has all its participants, and not all of them have left.

    There is one participant too many, or one came back before the others had left. The caller may
    try again when they have left, or correct the number.
    """


class StaleTokenError(LostError):
    """Raised when a holder with a newer fencing token has used the guarded resource.

    The caller lost its lock some time ago and must stop; nothing was done.
    """


class InvalidValueError(RecipeError):
    """Raised when a znode has a value that a recipe cannot read; the text says which and why.

    Nothing was changed. The caller should find the writer of the value, or set a valid one.
    """


class CacheFullError(RecipeError):
    """Raised when a subtree has more znodes than its cache may hold.

    The cache is closed and empty. The caller should allow more znodes, or cache fewer.
    """
