"""Judge a history: apply every check, and count what a user wants to know."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct

from raykeeper.chaos.checks.history import History
from raykeeper.chaos.checks.linearizability import check_linearizability as judge_linearizability
from raykeeper.chaos.checks.sessions import (
    answers_in_order,
    events_come_before_state,
    reads_never_go_back,
)
from raykeeper.chaos.checks.writes import (
    creations_are_done_once,
    ephemerals_end_with_their_session,
    is_acked_write,
    lost_writes,
    sequence_numbers_never_repeat,
    synced_reads_are_fresh,
    values_were_written,
    writes_follow_real_time,
)

Check = Callable[[History], Iterator[str]]

GENERAL_CHECKS: Final[tuple[Check, ...]] = (
    reads_never_go_back,
    writes_follow_real_time,
    sequence_numbers_never_repeat,
    synced_reads_are_fresh,
    ephemerals_end_with_their_session,
)
"""Checks of any history, also of the simulator's."""
CHECKS: Final[tuple[Check, ...]] = (
    answers_in_order,
    events_come_before_state,
    *GENERAL_CHECKS,
    creations_are_done_once,
    values_were_written,
)
"""The checks of a history that has every request, and in which no value is written twice.

Lost writes are missing here: the report counts them separately.
"""


class HistoryReport(Struct):
    """The result of judging one or several histories."""

    operations: int = 0
    unknown: int = 0
    """Operations without an answer: the client was killed, or gave up."""
    acked_writes: int = 0
    sessions: int = 0
    longest_gap_ns: int = 0
    """The longest time between two acknowledged writes of any clients."""
    lost: list[str] = []
    violations: list[str] = []
    undecided: list[str] = []
    """Znodes whose search for an order was given up."""

    @property
    def is_clean(self) -> bool:
        """Return whether no check found anything wrong; undecided znodes do not count."""
        return not self.lost and not self.violations

    def include(self, other: "HistoryReport") -> None:
        """Add the report of another history. The time between two histories is no gap."""
        self.operations += other.operations
        self.unknown += other.unknown
        self.acked_writes += other.acked_writes
        self.sessions += other.sessions
        self.longest_gap_ns = max(self.longest_gap_ns, other.longest_gap_ns)
        self.lost += other.lost
        self.violations += other.violations
        self.undecided += other.undecided


def judge(history: History) -> HistoryReport:
    """Apply every check to a history that ends with synced reads of all written znodes."""
    linearizability = judge_linearizability(history)
    violations = [violation.text for violation in linearizability.violations]
    for check in CHECKS:
        violations += check(history)
    operations = list(history.operations)
    return HistoryReport(
        operations=len(operations),
        unknown=sum(operation.result is None for operation in operations),
        acked_writes=sum(map(is_acked_write, operations)),
        sessions=len(history.sessions),
        longest_gap_ns=longest_write_gap(history),
        lost=list(lost_writes(history)),
        violations=violations,
        undecided=linearizability.undecided,
    )


def longest_write_gap(history: History) -> int:
    """Return the longest time between the answers to two successive successful writes."""
    return max((after - before for before, after in write_gaps(history)), default=0)


def write_gaps(history: History) -> Iterator[tuple[int, int]]:
    """Yield the times of the answers to each two successive successful writes."""
    return pairwise(
        sorted(
            operation.returned
            for operation in history.operations
            if operation.returned is not None and is_acked_write(operation)
        )
    )
