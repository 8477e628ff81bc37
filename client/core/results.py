"""What the user gets for each answer of a server."""

from typing import Any, NamedTuple

from raykeeper.client.core.effects import Answer
from raykeeper.znodes.errors import Code, error_for
from raykeeper.znodes.quotas import QuotaLimits
from raykeeper.znodes.replies import (
    AclsRead,
    ChildrenRead,
    CountRead,
    DataRead,
    IdentitiesRead,
    PathsRead,
    QuotaRead,
    StatRead,
    Written,
)
from raykeeper.znodes.txns import OpChildren, OpDone, OpFailed, OpResult, OpStat, OpValue


class Quota(NamedTuple):
    """The limits of a subtree, and what is in it."""

    limits: QuotaLimits
    znodes: int
    bytes: int


def result_of(answer: Answer) -> Any:
    """The result of the operation: a path, a Stat, a value with its Stat, names, or None."""
    if isinstance(answer, Written):
        # A creation has a path, a set only a Stat, a deletion neither.
        return answer.path or answer.stat
    if isinstance(answer, DataRead):
        return answer.value, answer.stat
    if isinstance(answer, StatRead):
        return answer.stat
    if isinstance(answer, ChildrenRead):
        return answer.children
    match answer:
        case AclsRead():
            return list(answer.acls), answer.stat
        case IdentitiesRead():
            return list(answer.identities)
        case PathsRead():
            return answer.paths
        case CountRead():
            return answer.count
        case QuotaRead():
            return Quota(answer.limits, answer.znodes, answer.bytes)
    return None


def path_and_stat(answer: Answer) -> Any:
    """The result of a creation with `include_data`."""
    assert isinstance(answer, Written), answer
    return answer.path, answer.stat


def part_of(result: OpResult, path: str) -> Any:
    """The result of one of several operations, about `path`: as of the same alone, or its error.

    None in place of an error for one that would have succeeded, had another one not failed.
    """
    match result:
        case OpDone():
            return result.path or result.stat
        case OpValue():
            return result.value, result.stat
        case OpStat():
            return result.stat
        case OpChildren():
            return result.names
        case _:
            _failed: OpFailed = result
            return error_for(result.code, path) if result.code != Code.OK else None
