"""The plan of a seed for upgrades: the general one, with programs that change."""

from random import Random
from typing import Final

from msgspec.structs import replace

from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN
from tests.simulation.plan import Plan, ProgramChange, UpgradePlan, draw_mix

UPGRADE: Final = "upgrade"
_SAFETY_MS_MIN: Final = 6_000
_BEHIND_SHARE: Final = 0.25
_FAULTS_BESIDE: Final = (0, 1, 3)


def draw_upgrade_plan(seed: int) -> Plan:
    """Return the plan of a seed, always the same."""
    random = Random(f"{seed}.upgrade")
    plan = draw_mix(seed)
    safety_ms = max(plan.safety_ms, _SAFETY_MS_MIN)
    servers = [server.server_id for server in plan.servers]
    changes = []
    # Rounds of upgrades, some of which stop half way, and single steps back.
    for _ in range(random.choice([1, 2, 3])):
        at_ms = random.randint(300, safety_ms * 3 // 4)
        count = random.choice([len(servers), random.randint(1, len(servers))])
        for server in random.sample(servers, count):
            changes.append(ProgramChange(at_ms, server, LEVEL_MAX))
            at_ms += random.choice([0, 50, 200, 600])
    for _ in range(random.choice([0, 1, 3])):
        at_ms = random.randint(300, safety_ms - 500)
        changes.append(ProgramChange(at_ms, random.choice(servers), LEVEL_MIN))
    back_share = random.choice([0.0, 0.3, 1.0])
    leaves_one_behind = len(servers) > 1 and random.random() < _BEHIND_SHARE
    if leaves_one_behind:
        # Under many faults hardly any level is raised before they end.
        count = min(random.choice(_FAULTS_BESIDE), len(plan.faults))
        faults = sorted(random.sample(plan.faults, count), key=lambda fault: fault.at_ms)
        plan = replace(plan, faults=tuple(faults))
    upgrade = UpgradePlan(
        tuple(sorted(changes, key=lambda change: change.at_ms)), back_share, leaves_one_behind
    )
    return replace(plan, safety_ms=safety_ms, loses_majority=False, upgrade=upgrade)
