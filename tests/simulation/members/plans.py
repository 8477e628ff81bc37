"""The plan of a seed for members that change: the general one, with an operator."""

from random import Random
from typing import Final

from msgspec.structs import replace

from tests.simulation.plan import Fault, FaultKind, MembersPlan, Plan, draw_mix
from tests.simulation.transfers.plans import TRIGGERS, draw_transfers
from tests.simulation.triggers import Reaction

MEMBERS: Final = "members"
_TRANSFER_SHARE: Final = 0.5
_TRIGGERS: Final = (*["members.changed"] * 6, *TRIGGERS)
_SAFETY_MS_MIN: Final = 6_000
_LOSES_DISKS: Final = frozenset(
    {
        *(FaultKind.LOSE_FOLDER, FaultKind.OLD_DISK, FaultKind.SECOND_DISK, FaultKind.FLIP_OLD),
        *(FaultKind.FLIP_LAST, FaultKind.FLIP_MEMORY),
    }
)
"""A disk that is lost while an open step makes the ensemble smaller is beyond what it bears."""
_REACTIONS_THAT_LOSE: Final = frozenset(
    {
        *(Reaction.FORGET.value, Reaction.CORRUPT.value, Reaction.FORGET_WITH_MINORITY.value),
        Reaction.OLD_DISK_WITH_MINORITY.value,
    }
)


def draw_members_plan(seed: int) -> Plan:
    """Return the plan of a seed, always the same."""
    random = Random(f"{seed}.members.plan")
    plan = draw_mix(seed)
    founders = random.randint(1, len(plan.servers))
    servers = tuple(
        replace(server, is_voter=place < founders) for place, server in enumerate(plan.servers)
    )
    faults = list(plan.faults)
    beside = Random(f"{seed}.members.transfers")
    if beside.random() < _TRANSFER_SHARE:
        faults += draw_transfers(beside, plan, _TRIGGERS)
    return replace(
        plan,
        safety_ms=max(plan.safety_ms, _SAFETY_MS_MIN),
        servers=servers,
        faults=tuple(sorted(filter(_is_borne, faults), key=lambda fault: fault.at_ms)),
        counter_bits=max(plan.counter_bits, 8),
        loses_majority=False,
        members=MembersPlan(random.choice([50, 200, 200, 600])),
    )


def _is_borne(fault: Fault) -> bool:
    return fault.kind not in _LOSES_DISKS and fault.reaction not in _REACTIONS_THAT_LOSE
