"""Judge a run that lost nodes: what each loss cost the clients, beside what it may cost.

The times are nanoseconds of the clock that the records of the history have too.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from raykeeper.chaos.checks.client_errors import client_errors
from raykeeper.chaos.checks.goals import Row, format_seconds, rows_of_clients
from raykeeper.chaos.checks.history import History
from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.chaos.checks.write_gaps import gaps_between, longest_gap, write_gaps
from raykeeper.zab.ids import ServerId

_MS: Final = 1_000_000
VOTE_BACK_NS: Final = 15_000 * _MS
"""How long a vote may be away, not counting how long the healing waits by its setting."""
GAP_NS: Final = 300 * _MS
"""How long all clients together may be without an acknowledged write."""


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
    return [*rows, *rows_of_clients(report, list(client_errors(history)))]


def _rows_of_loss(history: History, loss: NodeLoss, heal_after_ms: int) -> Iterator[Row]:
    name = f"server {loss.server_id}, the {loss.role}"
    noticed = format_seconds(loss.noticed_ns - loss.lost_ns)
    yield Row(f"{name}: Ray called its node dead after", noticed)
    waits = format_seconds(heal_after_ms * _MS)
    goal = f"{format_seconds(VOTE_BACK_NS)} after the {waits} that healing waits"
    if loss.voted_ns is None:
        yield Row(f"{name}: vote back after", "never", goal, is_met=False)
        return
    took = loss.voted_ns - loss.noticed_ns
    is_met = took <= heal_after_ms * _MS + VOTE_BACK_NS
    yield Row(f"{name}: vote back after", format_seconds(took), goal, is_met)
    gap = longest_gap(gaps_between(write_gaps(history), loss.lost_ns, loss.voted_ns))
    yield Row(f"{name}: gap in writes", format_seconds(gap), format_seconds(GAP_NS), gap <= GAP_NS)


def _rows_of_returns(history: History, returns: NodeReturns) -> Iterator[Row]:
    changes = "; ".join(returns.changes)
    yield Row("nodes return: changes", changes or "none", "none", not changes)
    named = f"{len(returns.named)} of {len(returns.stale)}"
    is_met = bool(returns.stale) and sorted(returns.named) == sorted(returns.stale)
    yield Row("nodes return: stale folders that are named", named, "all", is_met)
    gap = longest_gap(gaps_between(write_gaps(history), returns.since_ns, returns.until_ns))
    # No goal: the start of Ray's nodes takes the processors of the one machine.
    yield Row("nodes return: gap in writes", format_seconds(gap))
