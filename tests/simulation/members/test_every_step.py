"""Whichever server dies, at whichever event of a swap: one list, no lost write, and it goes on."""

import pytest

from tests.simulation.every_step import STEPS_MAX
from tests.simulation.members.every_step import SwapWorld, Victim

CASES = [
    *((victim, False) for victim in Victim),
    *((victim, True) for victim in Victim if victim is not Victim.ALL),
]


@pytest.mark.parametrize(("victim", "for_good"), CASES)
def test_a_swap_goes_on_or_is_undone_with_a_kill_at_any_event(
    victim: Victim, for_good: bool
) -> None:
    world = SwapWorld(1)
    for at in range(STEPS_MAX):
        if not world.kill_during_swap(victim, at, for_good=for_good):
            break
    assert 20 < at < STEPS_MAX - 1, at
    assert world.checks.truth.lists > 10
    world.checks.finish(world.nodes)
