"""How many requests of each kind a server has answered, and with which outcomes.

Reads are counted for each frame, by the types of its requests; a write by the type of its
transaction. Everything that is seldom, errors above all, is counted by kind and code. A kind is the
name of the request's class in small letters, such as `get_data`.

ZooKeeper: `ServerMetrics`, `RequestPathMetricsCollector`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, get_args

from raykeeper.server.connection import LocalRequest
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import WriteOp
from raykeeper.znodes.txns import (
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    ReconfigTxn,
    SetAclTxn,
    SetDataTxn,
    SetIdentitiesTxn,
)

OK: Final = "ok"
CONNECT: Final = "connect"
SYNC: Final = "sync"
CLOSE_SESSION: Final = "close_session"
UNKNOWN: Final = "unknown"
"""The kind of a write that this version does not know."""


def _name_of(request: type) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", request.__name__).lower()


LOCAL_KINDS: Final[dict[type, str]] = {
    request: _name_of(request) for request in get_args(LocalRequest)
}
"""The requests that a server answers from its own state."""
TXN_KINDS: Final[dict[type, str]] = {
    CreateTxn: "create",
    DeleteTxn: "delete",
    SetDataTxn: "set_data",
    SetAclTxn: "set_acls",
    SetIdentitiesTxn: "add_auth",
    MultiTxn: "multi",
    ReconfigTxn: "reconfig",
}
"""The transactions of writes that succeeded."""
_OP_KINDS: Final = {op.__struct_config__.tag: _name_of(op) for op in get_args(WriteOp)}
_OUTCOMES: Final = {int(code): code.name.lower() for code in Code}


def kind_of_op(op: bytes) -> str:
    """Return the kind of an encoded operation of a write."""
    return _OP_KINDS.get(op[1], UNKNOWN) if len(op) > 1 else UNKNOWN


class RequestCounts:
    """The answered requests of one server since its start or the last reset."""

    __slots__ = ("_by_kind", "_local", "written")

    def __init__(self) -> None:
        self._local = dict.fromkeys(LOCAL_KINDS, 0)
        self.written: dict[type, int] = dict.fromkeys(TXN_KINDS, 0)
        """Writes that succeeded, by the type of the transaction."""
        self._by_kind: Counter[tuple[str, int]] = Counter()

    def reset(self) -> None:
        """Begin anew, with the same dictionaries."""
        self._local.update(dict.fromkeys(self._local, 0))
        self.written.update(dict.fromkeys(self.written, 0))
        self._by_kind.clear()

    def count_local(self, requests: Sequence[type]) -> None:
        """Count requests that were answered from the server's own state; there is at least one."""
        first = requests[0]
        alike = requests.count(first)
        if alike == len(requests):  # most frames have requests of one type
            self._local[first] += alike
        else:
            for request in requests:
                self._local[request] += 1

    def count_local_error(self, request: type, code: int) -> None:
        """Note that one of the requests that `count_local` counts was answered by an error."""
        self._by_kind[LOCAL_KINDS[request], code] += 1

    def count(self, kind: str, code: int) -> None:
        """Count a request that neither `count_local` nor `written` counts."""
        self._by_kind[kind, code] += 1

    def by_outcome(self) -> dict[tuple[str, str], int]:
        """Return how many requests there were, by kind and outcome: `ok`, or the name of a code."""
        counts = {(TXN_KINDS[txn], OK): count for txn, count in self.written.items()}
        counts |= {(LOCAL_KINDS[request], OK): count for request, count in self._local.items()}
        local = frozenset(LOCAL_KINDS.values())
        for (kind, code), count in self._by_kind.items():
            outcome = (kind, _OUTCOMES.get(code, str(code)))
            counts[outcome] = counts.get(outcome, 0) + count
            if kind in local:
                counts[kind, OK] -= count
        return {outcome: count for outcome, count in counts.items() if count}
