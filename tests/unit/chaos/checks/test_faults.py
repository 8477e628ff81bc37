"""Which gaps in writes belong to a fault, and what a kind of fault sums up to."""

import pytest

from raykeeper.chaos.checks.faults import AFTERMATH_NS, FaultRecord, FaultResult, fault_results
from tests.unit.chaos.checks.test_write_gaps import written

SECOND = AFTERMATH_NS
"""The times below are in units of the aftermath."""


@pytest.mark.parametrize(
    ("since", "until", "gap"),
    [
        (4, 4, 2),  # the gap from 3 to 5, in which it begins
        (0, 0, 0),  # before the first write, and its aftermath ends with it
        (1, 1, 2),
        (5, 5, 8),  # the next gap begins in its aftermath, though it ends after it
        (3, 3, 2),  # the gap from 1 to 3 ends as it begins
        (1, 14, 8),
        (13, 14, 1),
        (20, 21, 0),  # nothing was written any more
    ],
)
def test_a_fault_has_the_longest_gap_that_overlaps_it_or_its_aftermath(
    since: int, until: int, gap: int
) -> None:
    history = written(*(at * SECOND for at in (1, 3, 5, 13, 14)))
    fault = FaultRecord("transfer", since * SECOND, until * SECOND)
    assert fault_results(history, [fault])["transfer"].longest_gap_ns == gap * SECOND


def test_results_are_counted_by_kind() -> None:
    faults = [
        FaultRecord("transfer", 0, 0),
        FaultRecord("kill leader", 0, 0),
        FaultRecord("transfer", 0, 0, refusal="another one is under way", is_cut_off=True),
    ]
    results = fault_results(written(), faults)
    assert list(results.items()) == [
        ("kill leader", FaultResult(1)),
        ("transfer", FaultResult(2, 1, ["another one is under way"])),
    ]
