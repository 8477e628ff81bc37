"""The plan of faults: decided by its seed, and complete in every round."""

from itertools import islice

import pytest

from raykeeper.chaos.fault_plan import (
    FREEZE_MS,
    KINDS,
    LONE_LEADER_FREEZE_MS,
    PAUSE_MS,
    FaultAction,
    FaultKind,
    Target,
)
from raykeeper.chaos.fault_plan import draw_faults as draw


def test_a_seed_decides_everything() -> None:
    assert list(islice(draw(7), 50)) == list(islice(draw(7), 50))
    assert list(islice(draw(7), 50)) != list(islice(draw(8), 50))


@pytest.mark.parametrize("seed", range(5))
def test_a_round_holds_every_kind_once(seed: int) -> None:
    faults = list(islice(draw(seed), 3 * len(KINDS)))
    for start in range(0, len(faults), len(KINDS)):
        assert {fault.kind for fault in faults[start : start + len(KINDS)]} == set(KINDS)
    for fault in faults:
        assert PAUSE_MS[0] <= fault.pause_ms <= PAUSE_MS[1]
        if fault.kind.target is Target.LONE_LEADER:
            assert LONE_LEADER_FREEZE_MS[0] <= fault.freeze_ms <= LONE_LEADER_FREEZE_MS[1]
        elif fault.kind.action is FaultAction.FREEZE:
            assert FREEZE_MS[0] <= fault.freeze_ms <= FREEZE_MS[1]
        else:
            assert fault.freeze_ms == 0


def test_kinds_can_be_chosen() -> None:
    only = FaultKind(FaultAction.KILL, Target.LEADER)
    assert {fault.kind for fault in islice(draw(1, [only]), 5)} == {only}
    assert str(only) == "kill leader"
