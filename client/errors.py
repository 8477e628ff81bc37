"""Everything a user of the client can be told went wrong.

    RayKeeperError
    ├── KeeperError             the answer to a request; one class per ZooKeeper code
    ├── EnsembleNotFoundError   there is no ensemble of that name
    ├── WrongContextError       a call that cannot work where it was made
    ├── LostError               what was held, or waited for, is gone
    │   ├── SessionExpiredError, SessionMovedError     with the session; KeeperErrors too
    │   └── StaleTokenError     somebody with a newer fencing token was here first
    └── RecipeError             a recipe could not do what was asked
        ├── WaitTimeoutError    what was waited for did not come about in time
        ├── DeposedError        an elected actor lost its leadership while it served a call
        ├── BrokenBarrierError  a participant left a barrier before all had come
        ├── BarrierFullError    as many have entered a barrier as it is for
        ├── InvalidValueError   a znode holds what a recipe cannot make sense of
        └── CacheFullError      a subtree has more znodes than its cache may hold

ClosedError is a KeeperError that no server answers: a call came after `close` or `stop`.
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


class RecipeError(RayKeeperError):
    """Raised when a recipe could not do what was asked; its children say why."""


class WaitTimeoutError(RecipeError, TimeoutError):
    """Raised when what a recipe waited for did not come about within `timeout_s`.

    Nothing is left behind: whatever was created to wait is given back, as soon as there is a server
    to take it. The caller may try again.
    """


class DeposedError(RecipeError):
    """Raised when an elected actor died or was deposed while it served a call.

    What the call did is not known: all of it, a part or nothing. The caller should find that out,
    or call at least once if the method may be repeated.
    """


class BrokenBarrierError(RecipeError):
    """Raised when a participant went before all had entered a barrier, or left it.

    It died or gave up. The round is over for everybody who waits; the caller may enter the next
    one, for which all participants are needed again, or agree with the others on what to do.
    """


class BarrierFullError(RecipeError):
    """Raised when as many have entered a round of a barrier as it is for, and not all have left.

    There is a participant too many, or one came back before the others had left. The caller may
    try again when they have, or correct the number.
    """


class StaleTokenError(LostError):
    """Raised when somebody with a newer fencing token has used what is guarded.

    The caller lost its lock some time ago; nothing was done. It must stop.
    """


class InvalidValueError(RecipeError):
    """Raised when a znode holds what a recipe cannot make sense of; the text says which and why.

    Nothing was changed. The caller should find out who writes there, or set a valid value.
    """


class CacheFullError(RecipeError):
    """Raised when a subtree has more znodes than its cache may hold.

    The cache is closed and shows nothing any more. The caller should allow it more, or cache less.
    """
