"""Log the requests, answers and events of a client: counts for the summary, text for the trace."""

from collections import Counter
from typing import Final

from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest, Query, WatchAddition, WatchRemoval
from raykeeper.client.core.public_types import ClientState, EventType, WatchedEvent
from raykeeper.zab.ids import format_zxid
from raykeeper.znodes.errors import Code, KeeperError
from raykeeper.znodes.replies import (
    CountDescendantsReply,
    EmptyReply,
    ExistsReply,
    GetAclsReply,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    CloseSession,
    Create,
    CreateMode,
    Delete,
    Multi,
    SetData,
    TxnOp,
)
from raykeeper.znodes.txns import MultiResults, OpChildren, OpDone, OpStat, OpValue
from tests.harness.schedule import Schedule

_DEFINITE: Final = (
    *(Code.NO_NODE, Code.NODE_EXISTS, Code.NOT_EMPTY, Code.NO_CHILDREN_FOR_EPHEMERALS),
    *(Code.BAD_VERSION, Code.BAD_ARGUMENTS, Code.SESSION_EXPIRED, Code.CONNECTION_LOSS),
    Code.NOT_READ_ONLY,
    *(Code.NO_AUTH, Code.INVALID_ACL, Code.AUTH_FAILED, Code.QUOTA_EXCEEDED),
)
_INDEFINITE: Final = (Code.SESSION_EXPIRED, Code.CONNECTION_LOSS)

EXPECTED: Final[frozenset[str]] = frozenset(
    [
        *(
            f"answer.{kind.__name__}"
            for kind in (WriteReply, GetDataReply, ExistsReply, GetChildrenReply, EmptyReply)
        ),
        *(
            f"answer.{kind.__name__}"
            for kind in (GetAclsReply, WhoAmIReply, GetEphemeralsReply, CountDescendantsReply)
        ),
        *("answer.MultiReadReply", "answer.GetQuotaReply"),
        *(f"branch.{which}" for which in ("then", "otherwise", "aborted")),
        *(f"result.{kind.__name__}" for kind in (OpDone, OpValue, OpStat, OpChildren)),
        *(f"error.{code.name}" for code in _DEFINITE),
        *(f"error.{code.name}.indefinite" for code in _INDEFINITE),
        *(f"event.{kind.name}" for kind in EventType),
        *(f"state.{state.name}" for state in ClientState),
    ]
)
"""What clients should meet. The other codes need a peer that breaks the protocol, or a timeout of
requests that is shorter than the workload's."""


class ClientLog:
    """The log of one client."""

    def __init__(self, name: str, schedule: Schedule) -> None:
        self.counts: Counter[str] = Counter()
        self._name = name
        self._schedule = schedule

    def asks(self, token: int, ask: NewRequest) -> None:
        """Log a request."""
        if self._schedule.trace is not None:
            self._say(f"asks {token}: {ask_in_words(ask)}")

    def is_answered(self, token: object, answer: SuccessReply) -> None:
        """Log an answer."""
        self.counts[f"answer.{type(answer).__name__}"] += 1
        if isinstance(answer, WriteReply) and answer.results is not None:
            self._several(answer.code, answer.results)
        if self._schedule.trace is not None:
            self._say(f"is told {token}: {answer_in_words(answer)}")

    def _several(self, code: int, results: MultiResults) -> None:
        if code:
            self.counts["branch.aborted"] += 1
            return
        self.counts["branch.then" if results.is_then else "branch.otherwise"] += 1
        for result in results.results:
            self.counts[f"result.{type(result).__name__}"] += 1

    def is_refused(self, token: object, error: KeeperError) -> None:
        """Log a failed request."""
        self.counts[f"error.{error.code.name}{'' if error.definite else '.indefinite'}"] += 1
        if self._schedule.trace is not None:
            self._say(f"is told {token}: {error_in_words(error)}")

    def sees(self, event: WatchedEvent) -> None:
        """Log a watch event."""
        self.counts[f"event.{event.type.name}"] += 1
        if self._schedule.trace is not None:
            self._say(f"sees {event_in_words(event)}")

    def becomes(self, state: ClientState) -> None:
        """Log a new state of the handle."""
        self.counts[f"state.{state.name}"] += 1
        if self._schedule.trace is not None:
            self._say(f"is {state.name}")

    def _say(self, text: str) -> None:
        self._schedule.say(f"client {self._name} {text}")


_MODES = {
    0: "persistent",
    CreateMode.EPHEMERAL: "ephemeral",
    CreateMode.SEQUENTIAL: "sequential",
    CreateMode.EPHEMERAL | CreateMode.SEQUENTIAL: "ephemeral sequential",
    CreateMode.CONTAINER: "container",
    CreateMode.TTL: "ttl",
    CreateMode.TTL_SEQUENTIAL: "ttl sequential",
}


def ask_in_words(ask: NewRequest) -> str:
    """Describe a request."""
    match ask:
        case Create():
            acls = f" for {ask.acls}" if ask.acls is not None else ""
            ttl = f" {ask.ttl_ms} ms" if ask.ttl_ms else ""
            return f"create {ask.path} {_MODES[ask.flags]}{ttl}{acls}"
        case Delete():
            return f"delete {ask.path} version {ask.version}"
        case SetData():
            return f"set {ask.path} version {ask.version} to {in_text(ask.value)}"
        case CloseSession():
            return "close"
        case Multi():
            then, otherwise = map(_ops_in_words, (ask.then, ask.otherwise))
            return f"if {ask.compares} then {then} else {otherwise}"
        case Query():
            watch = " and watch" if ask.watcher is not None else ""
            strong = "linearizable " if ask.linearizable else ""
            return f"{strong}{ask.kind.__name__} {ask.path}{watch}"
        case WatchAddition():
            values = " with values" if ask.with_values else ""
            return f"watch {ask.path} {ask.mode.name}{values}"
        case WatchRemoval():
            return f"unwatch {ask.path} {ask.kind.name}"
        case _:
            return str(ask)


def in_text(value: bytes | None) -> str:
    """Describe a value, which is mostly text."""
    return "null" if value is None else value.decode(errors="backslashreplace")


def _ops_in_words(ops: list[TxnOp]) -> str:
    return ", ".join(
        ask_in_words(op)
        if isinstance(op, Create | Delete | SetData)
        else f"{type(op).__name__} {op.path}"
        for op in ops
    )


def answer_in_words(answer: SuccessReply) -> str:
    """Describe an answer."""
    as_of = format_zxid(answer.zxid)
    match answer:
        case WriteReply():
            path = f" {answer.path}" if answer.path else ""
            several = f" {answer.results}" if answer.results else ""
            return f"done as write {answer.number} in {as_of}{path}{several}"
        case GetDataReply():
            stat = answer.stat
            found = f"version {stat.version} of {format_zxid(stat.mzxid)}"
            return f"as of {as_of}: {in_text(answer.value)!r}, {found}"
        case ExistsReply():
            found = f"version {answer.stat.version}" if answer.stat else "missing"
            return f"as of {as_of}: {found}"
        case GetChildrenReply():
            return f"as of {as_of}: {' '.join(sorted(answer.children)) or 'no children'}"
        case EmptyReply():
            return f"as of {as_of}"
        case _:
            return str(answer)


def error_in_words(error: KeeperError) -> str:
    """Describe the error of a request."""
    return f"{error.code.name}{'' if error.definite else ', perhaps done'}"


def event_in_words(event: WatchedEvent) -> str:
    """Describe a watch event."""
    return f"{event.type.name} {event.path} of {format_zxid(event.zxid)}"
