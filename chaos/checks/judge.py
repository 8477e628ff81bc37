"""Judge a history: apply every check, and count what a user wants to know."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from raykeeper.chaos.checks.client_errors import client_errors
from raykeeper.chaos.checks.faults import FaultResult, RoundFaults, fault_results
from raykeeper.chaos.checks.history import History
from raykeeper.chaos.checks.linearizability import check_linearizability as judge_linearizability
from raykeeper.chaos.checks.sessions import (
    answers_in_order,
    events_come_before_state,
    reads_never_go_back,
)
from raykeeper.chaos.checks.write_gaps import longest_gap, write_gaps
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
    client_errors: list[str] | None = None
    """Errors that clients saw from orderly faults; None if there were kills or freezes too."""
    faults: dict[str, FaultResult] = {}
    """The result of each kind of fault."""

    @property
    def is_clean(self) -> bool:
        """Return whether no check found anything wrong; undecided znodes do not count."""
        return not self.lost and not self.violations and not self.client_errors

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
        if other.client_errors is not None:
            self.client_errors = (self.client_errors or []) + other.client_errors
        for kind, result in other.faults.items():
            self.faults.setdefault(kind, FaultResult()).include(result)


def judge(history: History, faults: RoundFaults | None = None) -> HistoryReport:
    """Apply every check to a history that ends with synced reads of all written znodes.

    Args:
        history: What the clients saw.
        faults: What was done to the ensemble meanwhile; None if nobody knows.
    """
    faults = faults or RoundFaults()
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
        longest_gap_ns=longest_gap(write_gaps(history)),
        lost=list(lost_writes(history)),
        violations=violations,
        undecided=linearizability.undecided,
        client_errors=list(client_errors(history)) if faults.is_orderly else None,
        faults=fault_results(history, faults.records),
    )
