"""Error transactions: what a write failed with, and for the audit log which request and path.

Neither decides anything, so a log of a version that did not tell them is as good.
"""

from typing import Final, get_args

from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.znodes.errors import Code
from raykeeper.znodes.limits import PATH_CHARS_MAX
from raykeeper.znodes.requests import (
    AddAuth,
    Check,
    CloseSession,
    Create,
    Delete,
    Multi,
    ReadChildren,
    ReadData,
    ReadStat,
    Reconfig,
    SetAcls,
    SetData,
    decode_op,
)
from raykeeper.znodes.txns import ErrorTxn

PathOp = Create | Delete | SetData | SetAcls | Check | ReadData | ReadStat | ReadChildren

_TAGS: Final = {
    kind: int(str(kind.__struct_config__.tag))
    for kind in (*get_args(PathOp), AddAuth, Multi, CloseSession, Reconfig)
}


def refused(code: Code, op: PathOp) -> ErrorTxn:
    """Return the error of a request about one path; a path that is too long is cut off."""
    return ErrorTxn(code.value, _TAGS[type(op)], op.path[:PATH_CHARS_MAX])


def refused_multi(code: Code, path: str = "") -> ErrorTxn:
    """Return the error of a whole multi, or of its condition on `path`."""
    return ErrorTxn(code.value, _TAGS[Multi], path[:PATH_CHARS_MAX])


def refused_auth() -> ErrorTxn:
    """Return the error of a credential that proves nothing, or one too many."""
    return ErrorTxn(Code.AUTH_FAILED.value, _TAGS[AddAuth])


def refused_reconfig(code: Code) -> ErrorTxn:
    """Return the error of a step of the member list, without more than the code."""
    return ErrorTxn(code.value, _TAGS[Reconfig])


def refused_undecoded(code: Code, raw: bytes) -> ErrorTxn:
    """Return the error of a request that was refused before it was decoded."""
    try:
        op = decode_op(raw)
    except DECODE_ERRORS:
        return ErrorTxn(code.value)
    if isinstance(op, AddAuth | Multi | CloseSession | Reconfig):
        return ErrorTxn(code.value, _TAGS[type(op)])
    return refused(code, op)
