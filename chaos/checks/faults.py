"""The faults of a round, and what each kind of them cost: refusals, gaps in writes.

An orderly fault is what an operator does: a transfer, a restart, a change of the members. Clients
must bear it without an error. Kills and freezes may cost requests whose outcome stays unknown.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from raykeeper.chaos.checks.history import History
from raykeeper.chaos.checks.write_gaps import gaps_between, longest_gap, write_gaps

AFTERMATH_NS: Final = 1_000_000_000
"""A gap in writes that begins within this time after the end of a fault counts as its own."""


class FaultRecord(Struct, frozen=True):
    """One fault of a round; the times are of the clients' clock."""

    kind: str
    began: int
    ended: int
    """When its signal was sent, its processes went on, or its last step was answered."""
    refusal: str = ""
    """Why it was refused; "" if it was done."""
    is_cut_off: bool = False
    """Its operator was killed, and another one went on."""


class RoundFaults(Struct, frozen=True):
    """All faults of a round."""

    is_orderly: bool = False
    """Only orderly faults were allowed, so that an error of a client is a violation."""
    records: tuple[FaultRecord, ...] = ()


class FaultResult(Struct):
    """What came of one kind of fault."""

    number: int = 0
    cut_off: int = 0
    refusals: list[str] = []
    longest_gap_ns: int = 0
    """The longest gap in writes that overlaps one of them. It may have several causes."""

    def include(self, other: "FaultResult") -> None:
        """Add the result of other faults of this kind."""
        self.number += other.number
        self.cut_off += other.cut_off
        self.refusals += other.refusals
        self.longest_gap_ns = max(self.longest_gap_ns, other.longest_gap_ns)


def fault_results(history: History, faults: Iterable[FaultRecord]) -> dict[str, FaultResult]:
    """Return the result of each kind of fault, in the order of the kinds' names."""
    gaps = write_gaps(history)
    results: dict[str, FaultResult] = {}
    for fault in sorted(faults, key=lambda fault: fault.kind):
        own = gaps_between(gaps, fault.began, fault.ended + AFTERMATH_NS)
        refusals = [fault.refusal] if fault.refusal else []
        result = FaultResult(1, int(fault.is_cut_off), refusals, longest_gap(own))
        results.setdefault(fault.kind, FaultResult()).include(result)
    return results
