"""Keepers beside a change of the members that is open, by its record in the tree."""

from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.clusters.healing.vocabulary import MoveStep, View
from raykeeper.clusters.keeper_view import make_view
from raykeeper.zab.ids import Millis
from tests.simulation.keepers import keeper_script
from tests.simulation.keepers.plans import draw_keeper_plan
from tests.simulation.keepers.world import KeeperWorld
from tests.simulation.plan import Fault, FaultKind, Plan

VOTERS = 5
SEEDS = [seed for seed in range(1, 40) if len(draw_keeper_plan(seed).servers) == VOTERS][:5]
CHANGE_MS = 20_000


def plan_of(seed: int) -> Plan:
    """Two machines are lost, while a change is open that removes the server of the second one."""
    plan = draw_keeper_plan(seed)
    assert plan.keeper is not None
    lost = [
        Fault(at_ms, FaultKind.NODE_DIES, machine, lasts_ms=0)
        for at_ms, machine in ((3_000, VOTERS - 1), (4_000, VOTERS))
    ]
    keeper = replace(
        plan.keeper,
        clocks_ahead_s=(0,) * (VOTERS + 2),
        heal_after_ms=1_000,
        pause_ms=0,
        moves_per_hour=100,
        node_age_ms=0,
        vote_wait_ms=15_000,
        notice_ms_max=500,
        holds_names=False,
        silent_share=0.0,
        stand_share=0.0,
        change_ms=CHANGE_MS,
    )
    return replace(plan, safety_ms=Millis(30_000), faults=tuple(lost), keeper=keeper)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_an_open_change_is_about_is_left_to_it(seed: int) -> None:
    """The other one is moved meanwhile, and this one once the change has ended."""
    world = KeeperWorld(plan_of(seed))
    world.run()
    judge = world._keepers.judge
    begun = [each.server for each in judge.decisions if each.step is MoveStep.BEGUN]
    assert begun == [VOTERS - 1, VOTERS]
    (_, other_at), (_, at) = judge.begun_ms
    assert other_at < judge.change_ended_ms < at


def test_a_keeper_that_sees_no_open_change_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(*seen: Any) -> View:
        return replace(make_view(*seen), changing=())

    monkeypatch.setattr(keeper_script, "make_view", blind)
    with pytest.raises(AssertionError, match=r"Change: .* about server 5"):
        KeeperWorld(plan_of(SEEDS[0])).run()
