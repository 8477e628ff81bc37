"""The plan of a seed for a recipe: the usual faults of servers, and more faults of clients."""

from random import Random
from typing import Final

from msgspec.structs import replace

from tests.simulation.campaigns import draw_campaign
from tests.simulation.clock import DRIFT_PPM_MAX
from tests.simulation.plan import (
    ClientPlan,
    Fault,
    FaultKind,
    Plan,
    draw_fault,
    draw_mix,
)

OF_MEMBERS: Final = (
    FaultKind.BREAK_CLIENT,
    FaultKind.CUT_CLIENT,
    FaultKind.CLIENT_DIES,
    FaultKind.CLIENT_KILLED,
    FaultKind.CLIENT_FREEZES,
    FaultKind.CLIENT_WAKES,
    FaultKind.CLIENT_RETURNS,
)
RATES: Final = [0.0, 0.0, 0.1, 0.3, 1.0]
"""Of each kind, in a second."""
SAFETY_MS_MIN: Final = 3_000
COUNTER_BITS_MIN: Final = 8
"""With fewer there are so many elections that no session that somebody left ever expires."""


def draw_recipe_plan(seed: int, recipe: str) -> Plan:
    """Return the plan of a seed; the faults are the same for every recipe."""
    plan = draw_campaign(seed) or draw_mix(seed)
    random = Random(f"{seed}.members")
    drift_ppm_max = random.choice([0, 100, DRIFT_PPM_MAX])
    members = tuple(
        _draw_member(random, number, drift_ppm_max)
        for number in range(1, random.choice([2, 3, 3, 4, 5]) + 1)
    )
    safety_ms = max(plan.safety_ms, SAFETY_MS_MIN)
    faults = [
        fault
        for fault in plan.faults
        if (fault.kind not in OF_MEMBERS or fault.target <= len(members))
        and not (recipe == "lease" and fault.kind is FaultKind.WALL_JUMP)
    ]
    if plan.faults:
        random = Random(f"{seed}.members.mix")
        faults += draw_client_faults(random, safety_ms, len(plan.servers), len(members))
    faults.sort(key=lambda fault: fault.at_ms)
    return replace(
        plan,
        safety_ms=safety_ms,
        clients=members,
        faults=tuple(faults),
        loses_majority=False,
        counter_bits=max(plan.counter_bits, COUNTER_BITS_MIN),
        recipe=recipe,
    )


def _draw_member(random: Random, number: int, drift_ppm_max: int) -> ClientPlan:
    return ClientPlan(
        number,
        drift_ppm=random.choice([-drift_ppm_max, drift_ppm_max, 0]),
        pause_ms_max=60,
        burst_max=1,
        outstanding_max=random.choice([1, 3, 50, 50]),
        close_share=random.choice([0.0, 0.05]),
        timeout_ms=random.choice([0, 0, 1_000, 5_000]),
    )


def draw_client_faults(random: Random, safety_ms: int, servers: int, members: int) -> list[Fault]:
    """Draw faults of clients, of each kind often, rarely or never."""
    rates = {kind: random.choice(RATES) for kind in OF_MEMBERS}
    faults = []
    for kind, rate in rates.items():
        at_ms = 0.0
        while rate:
            at_ms += random.expovariate(rate) * 1_000
            if at_ms >= safety_ms:
                break
            faults.append(draw_fault(random, int(at_ms), kind, servers, members))
    return faults
