"""Judge a run that lost nodes: what each loss cost the clients, beside what it may cost.

The times are nanoseconds of the clock that the records of the history have too.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from raykeeper.chaos.checks.history import History, Operation, Refused
from raykeeper.chaos.checks.judge import HistoryReport, write_gaps
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import CloseSession

_MS: Final = 1_000_000
VOTE_BACK_NS: Final = 15_000 * _MS
"""How long a vote may be away, not counting how long the healing waits by its setting."""
GAP_NS: Final = 300 * _MS
"""How long all clients together may be without an acknowledged write."""
STATE_CODES: Final = frozenset(
    {Code.NO_NODE, Code.NODE_EXISTS, Code.BAD_VERSION, Code.NOT_EMPTY, Code.NO_WATCHER}
)
"""Refusals that tell the state of a znode, which clients that compete must expect."""


class NodeLoss(Struct, frozen=True):
    """A node that was lost with the server on it."""

    server_id: ServerId
    role: str
    """What the server was."""
    lost_ns: int
    """When the node's processes were killed."""
    noticed_ns: int
    """When Ray called the node dead."""
    voted_ns: int | None
    """When the server had its vote back on another node; None: not within the run's patience."""


class NodeReturns(Struct, frozen=True):
    """The return of the lost nodes with their disks."""

    since_ns: int
    until_ns: int
    """How long the ensemble was watched."""
    changes: list[str]
    """What changed meanwhile: a server that moved or restarted, another leader."""
    stale: list[str]
    """The folders that are out of date."""
    named: list[str]
    """Those of them that a launch or the keeper names."""


class Row(Struct, frozen=True):
    """A figure of the run, and its goal; without a goal it is only told."""

    name: str
    measured: str
    goal: str = ""
    is_met: bool = True


def judge_losses(
    history: History,
    report: HistoryReport,
    losses: Sequence[NodeLoss],
    returns: NodeReturns | None,
    heal_after_ms: int,
) -> list[Row]:
    """Return a row for each figure, in the order of the run.

    Args:
        history: What the clients saw.
        report: The judgement of that history.
        losses: The nodes that were lost, one after the other.
        returns: None if the nodes did not return.
        heal_after_ms: How long the healing waits by its setting after Ray called the node dead.
    """
    rows: list[Row] = []
    for loss in losses:
        rows += _rows_of_loss(history, loss, heal_after_ms)
    if returns is not None:
        rows += _rows_of_returns(history, returns)
    errors = list(client_errors(history))
    return [
        *rows,
        Row("lost acknowledged writes", str(len(report.lost)), "0", not report.lost),
        Row("violations", str(len(report.violations)), "0", not report.violations),
        Row("client errors", str(len(errors)), "0", not errors),
    ]


def client_errors(history: History) -> Iterator[str]:
    """Yield each request that failed, or whose outcome its client did not learn.

    A refusal that tells the state of a znode is no failure. The last request of a session may be a
    close whose answer the client does not await.
    """
    for operation in history.operations:
        if isinstance(operation.call, CloseSession):
            continue
        if operation.result is None or _has_failed(operation):
            yield f"error: {operation}"


def longest_gap_between(history: History, since_ns: int, until_ns: int) -> int:
    """Return the longest time without an acknowledged write that touches this span.

    Beyond the first and the last write of the history there is no gap.
    """
    return max(
        (
            after - before
            for before, after in write_gaps(history)
            if after > since_ns and before < until_ns
        ),
        default=0,
    )


def _has_failed(operation: Operation) -> bool:
    return isinstance(operation.result, Refused) and operation.result.code not in STATE_CODES


def _rows_of_loss(history: History, loss: NodeLoss, heal_after_ms: int) -> Iterator[Row]:
    name = f"server {loss.server_id}, the {loss.role}"
    yield Row(f"{name}: Ray called its node dead after", _seconds(loss.noticed_ns - loss.lost_ns))
    goal = f"{_seconds(VOTE_BACK_NS)} after the {_seconds(heal_after_ms * _MS)} that healing waits"
    if loss.voted_ns is None:
        yield Row(f"{name}: vote back after", "never", goal, is_met=False)
        return
    took = loss.voted_ns - loss.noticed_ns
    is_met = took <= heal_after_ms * _MS + VOTE_BACK_NS
    yield Row(f"{name}: vote back after", _seconds(took), goal, is_met)
    gap = longest_gap_between(history, loss.lost_ns, loss.voted_ns)
    yield Row(f"{name}: gap in writes", _seconds(gap), _seconds(GAP_NS), gap <= GAP_NS)


def _rows_of_returns(history: History, returns: NodeReturns) -> Iterator[Row]:
    changes = "; ".join(returns.changes)
    yield Row("nodes return: changes", changes or "none", "none", not changes)
    named = f"{len(returns.named)} of {len(returns.stale)}"
    is_met = bool(returns.stale) and sorted(returns.named) == sorted(returns.stale)
    yield Row("nodes return: stale folders that are named", named, "all", is_met)
    gap = longest_gap_between(history, returns.since_ns, returns.until_ns)
    # No goal: the start of Ray's nodes takes the processors of the one machine.
    yield Row("nodes return: gap in writes", _seconds(gap))


def _seconds(nanoseconds: int) -> str:
    """Format a time in seconds, to the next lower hundredth."""
    hundredths = nanoseconds // (10 * _MS)
    return f"{hundredths // 100}.{hundredths % 100:02} s"
