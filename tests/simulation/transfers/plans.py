"""The plan of a seed with transfers of the lead and drains, among the usual faults or alone.

Some faults strike when a transfer begins, hands over or is abandoned.
"""

from random import Random
from typing import Final

from msgspec.structs import replace

from tests.simulation.campaigns import draw_campaign
from tests.simulation.jute_clients.plans import with_jute_clients
from tests.simulation.plan import Fault, FaultKind, Plan, draw_mix
from tests.simulation.rotating_outages import draw_rotating_outages
from tests.simulation.triggers import COMMON, RECOVERY

TRANSFER: Final = "transfer"
TRIGGERS: Final = (
    *("transfer.begun", "transfer.handed_over", "transfer.abandoned", "election.decided"),
    *("Notification", "Ack", "Pong", "ForwardWrites", *RECOVERY),
)
_CALM_SHARE: Final = 0.35
_SLOW_SHARE: Final = 0.6
_MIXED_SHARE: Final = 0.5
_DRAIN_SHARE: Final = 0.6
_BOTH_KINDS_SHARE: Final = 0.5
_HANDS_OVER_SHARE: Final = 0.3


def draw_transfer_plan(seed: int) -> Plan:
    """Return the plan of a seed, always the same."""
    plan = draw_rotating_outages(seed) or draw_campaign(seed) or draw_mix(seed)
    random = Random(f"{seed}.transfers")
    faults = [] if random.random() < _CALM_SHARE else list(plan.faults)
    faults += draw_transfers(random, plan, TRIGGERS)
    drains = Random(f"{seed}.drains")
    if drains.random() < _DRAIN_SHARE:
        faults += draw_drains(drains, plan)
        if drains.random() < _BOTH_KINDS_SHARE:
            plan = with_jute_clients(drains, plan)
    ordered = tuple(sorted(faults, key=lambda fault: fault.at_ms))
    return replace(plan, faults=ordered, transfers_in_calm=True, drains_in_calm=True)


def with_mixed_settings(plan: Plan) -> Plan:
    """Return the plan with servers that have other ticks: some were changed, the others will be.

    The longest ticks that a change may bring about in one step (clusters/mixed_settings.py).
    """
    # A late import: it takes Ray along, which worlds without a rolling change do without.
    from raykeeper.clusters.mixed_settings import mixing_problem

    random = Random(f"{plan.seed}.mixed")
    divisor = random.choice([1, 2])
    of_changed = plan.timing.timing(2, divisor)
    both = [
        {"tick_ms": timing.tick_ms, "sync_limit": timing.sync_limit}
        for timing in (plan.timing.timing(), of_changed)
    ]
    if random.random() >= _MIXED_SHARE or mixing_problem(both):
        return plan
    servers = tuple(
        random.choice([server, replace(server, tick_times=2, sync_divisor=divisor)])
        for server in plan.servers
    )
    return replace(plan, servers=servers)


def draw_drains(random: Random, plan: Plan) -> list[Fault]:
    """Return drains of one server or several, perhaps of all at the same time."""
    faults = []
    for _ in range(max(1, round(random.choice([0.3, 1, 3]) * plan.safety_ms / 1_000))):
        target = random.randint(1, len(plan.servers))
        lasts_ms = random.choice([10, 200, 1_000, 3_000])
        rate = random.choice([1, 10, 100, 100_000])
        at_ms = random.randrange(plan.safety_ms)
        faults.append(Fault(at_ms, FaultKind.DRAIN, target, lasts_ms=lasts_ms, amount=rate))
        if random.random() < _HANDS_OVER_SHARE:  # as an operator drains a leader
            at_ms = max(0, at_ms - random.choice([0, 1, 20, 200]))
            faults.append(Fault(at_ms, FaultKind.TRANSFER, lasts_ms=1_000))
    return faults


def draw_transfers(random: Random, plan: Plan, triggers: tuple[str, ...]) -> list[Fault]:
    """Return transfers of the lead, and faults that strike at these triggers."""
    faults = []
    servers = len(plan.servers)
    for _ in range(max(1, round(random.choice([0.3, 1, 3]) * plan.safety_ms / 1_000))):
        target = random.choice([0, 0, *range(1, servers + 1)])
        lasts_ms = random.choice([10, 200, 1_000, 3_000])
        at_ms = random.randrange(plan.safety_ms)
        faults.append(Fault(at_ms, FaultKind.TRANSFER, target, lasts_ms=lasts_ms))
        if target and random.random() < _SLOW_SHARE:
            # Writes wait for it, and in the end the leader goes on with them.
            slow = Fault(at_ms, FaultKind.SLOW_DISK, target, lasts_ms=2_000, amount=3_000)
            faults.append(slow)
    faults.extend(
        Fault(
            random.randint(0, 1_000),
            FaultKind.TRIGGERED,
            lasts_ms=random.choice([10, 50, 300, 1_500]),
            amount=random.choice([1, 1, 2, 3]),
            trigger=random.choice(triggers),
            reaction=random.choice(COMMON).value,
            delay_ms=random.choice([0, 0, 0, 1, 3, 10]),
            again_ms=random.choice([0, 300, 1_000]),
        )
        for _ in range(random.choice([0, 0, 1, 2, 4]))
    )
    return faults
