"""The plan of a seed for members that change: the general one, with an operator."""

from random import Random
from typing import Final

from msgspec.structs import replace

from tests.simulation.jute_clients.plans import with_jute_clients
from tests.simulation.members.moments import LOGGED, LOGGED_AGAIN, MOMENTS
from tests.simulation.plan import Fault, FaultKind, MembersPlan, Plan, ServerPlan, draw_mix
from tests.simulation.transfers.plans import TRIGGERS, draw_transfers
from tests.simulation.triggers import ANY, Reaction

MEMBERS: Final = "members"
_TRANSFER_SHARE: Final = 0.5
_TRIGGERS: Final = (*["members.changed"] * 6, *TRIGGERS)
_SAFETY_MS_MIN: Final = 6_000
_JUTE_SHARE: Final = 0.3
_SIZES: Final = (1, 3, 5, 3, 1)
_SIZES_SHARE: Final = 0.08
_SWAPS_SHARE: Final = 0.08
_PAIRS: Final = (2, 1) * 4
_PAIRS_SHARE: Final = 0.05
_MAJORITY_SHARE: Final = 0.25
_WHOLE_DISKS_SHARE: Final = 0.3
_IN_A_ROW_SHARE: Final = 0.2
_DISKS: Final = (FaultKind.LOSE_FOLDER, FaultKind.OLD_DISK, FaultKind.SECOND_DISK)
_LOSES_DISKS: Final = frozenset(
    {*_DISKS, FaultKind.FLIP_OLD, FaultKind.FLIP_LAST, FaultKind.FLIP_MEMORY}
)
_REACTIONS_THAT_LOSE: Final = frozenset(
    {
        *(Reaction.FORGET.value, Reaction.CORRUPT.value, Reaction.FORGET_WITH_MINORITY.value),
        Reaction.OLD_DISK_WITH_MINORITY.value,
    }
)
_STRIKES: Final = (
    *(Reaction.CRASH, Reaction.CRASH_LEADER, Reaction.CRASH_OTHERS, Reaction.BLACKOUT_LEADER),
    *(Reaction.FREEZE, Reaction.FREEZE_LEADER, Reaction.ISOLATE, Reaction.ISOLATE_LEADER),
    *(Reaction.CUT_LEADER, Reaction.PARTITION_LEADER, Reaction.LEAVE_LEADER, Reaction.FORGET),
    *(Reaction.CRASH_JOINING, Reaction.CRASH_LEAVING, Reaction.FREEZE_JOINING),
)


def draw_members_plan(seed: int) -> Plan:
    """Return the plan of a seed, always the same."""
    random = Random(f"{seed}.members.plan")
    plan = draw_mix(seed)
    kind = random.random()
    if kind < _SWAPS_SHARE:
        return _draw_swaps(random, plan)
    if kind < _SWAPS_SHARE + _PAIRS_SHARE:
        return _draw_pairs(random, plan)
    sizes = _SIZES if random.random() < _SIZES_SHARE else ()
    if sizes:
        plan = replace(plan, servers=_as_many(plan.servers, max(sizes)))
    founders = sizes[0] if sizes else random.randint(1, len(plan.servers))
    servers = tuple(
        replace(server, is_voter=place < founders) for place, server in enumerate(plan.servers)
    )
    faults = list(plan.faults)
    beside = Random(f"{seed}.members.transfers")
    if beside.random() < _TRANSFER_SHARE:
        faults += draw_transfers(beside, plan, _TRIGGERS)
    faults += _draw_strikes(seed, plan.safety_ms, len(servers))
    if random.random() < _WHOLE_DISKS_SHARE:
        faults = list(filter(_keeps_disks, faults))
    speaking = Random(f"{seed}.members.jute")
    if speaking.random() < _JUTE_SHARE:
        plan = with_jute_clients(speaking, plan)
        servers = tuple(replace(server, drift_ppm=0) for server in servers)
    loses_majority = random.random() < _MAJORITY_SHARE
    pause_ms = random.choice([50, 200, 200, 600])
    in_a_row = Random(f"{seed}.members.next").random() < _IN_A_ROW_SHARE
    return replace(
        plan,
        safety_ms=max(plan.safety_ms, _SAFETY_MS_MIN),
        servers=servers,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        counter_bits=max(plan.counter_bits, 8),
        loses_majority=loses_majority,
        members=MembersPlan(50 if in_a_row else pause_ms, sizes, in_a_row=in_a_row),
    )


def _draw_swaps(random: Random, plan: Plan) -> Plan:
    """Draw swaps of one voter of three after the other, of which the new one forgets something.

    The leader commits a step, and then something by the new list alone, of which the others do not
    hear; then all lose power, the newcomer with its last force, and the leader comes back last.
    """
    servers = tuple(
        replace(server, is_voter=place < 3, sync_ms_max=random.choice([0, 2, 5, 10]))
        for place, server in enumerate(_as_many(plan.servers, 4))
    )
    clients = tuple(
        replace(client, pause_ms_max=20, burst_max=4, outstanding_max=50, pipeline_max=200)
        for client in plan.clients
    )
    strike = Fault(
        500,
        FaultKind.TRIGGERED,
        lasts_ms=1_500,
        amount=random.choice([1, 1, 1, 2]),
        trigger=LOGGED,
        reaction=Reaction.FORGET_JOINING.value,
        again_ms=random.choice([300, 800]),
    )
    return replace(
        plan,
        safety_ms=_SAFETY_MS_MIN + 4_000,
        delay_ms_max=random.choice([1, 1, 5]),
        servers=servers,
        clients=clients,
        faults=(strike,),
        counter_bits=max(plan.counter_bits, 8),
        loses_majority=False,
        members=MembersPlan(random.choice([50, 100]), swaps=True),
    )


def _draw_pairs(random: Random, plan: Plan) -> Plan:
    """Draw one voter, two, one and so on: of two each is needed until the step is said again."""
    servers = tuple(
        replace(server, is_voter=place < 1, sync_ms_max=random.choice([5, 40]))
        for place, server in enumerate(_as_many(plan.servers, 2))
    )
    strike = Fault(
        500,
        FaultKind.TRIGGERED,
        lasts_ms=100,
        amount=1,
        trigger=LOGGED_AGAIN,
        reaction=Reaction.CRASH.value,
        delay_ms=random.choice([0, 0, 1]),
        again_ms=300,
    )
    return replace(
        plan,
        safety_ms=_SAFETY_MS_MIN,
        servers=servers,
        faults=(strike,),
        counter_bits=max(plan.counter_bits, 8),
        loses_majority=False,
        members=MembersPlan(100, _PAIRS),
    )


def _as_many(servers: tuple[ServerPlan, ...], count: int) -> tuple[ServerPlan, ...]:
    return tuple(
        replace(servers[place % len(servers)], server_id=place + 1) for place in range(count)
    )


def _draw_strikes(seed: int, safety_ms: int, servers: int) -> list[Fault]:
    """Draw faults that strike at the moments of a step, at servers that join, and at disks."""
    random = Random(f"{seed}.members.strikes")
    faults = [
        Fault(
            random.randint(0, 1_000),
            FaultKind.TRIGGERED,
            lasts_ms=random.choice([10, 50, 300, 1_500]),
            amount=random.choice([1, 1, 2, 3]),
            trigger=random.choice(MOMENTS),
            reaction=random.choice(_STRIKES).value,
            delay_ms=random.choice([0, 0, 0, 1, 3, 10]),
            again_ms=random.choice([0, 300, 1_000]),
        )
        for _ in range(random.choice([0, 1, 2, 4]))
    ]
    faults += [
        Fault(
            random.randrange(safety_ms),
            FaultKind.JOIN_DIES,
            lasts_ms=random.choice([10, 300, 1_500]),
            amount=random.choice([1, 2, 3, 5, 8, 13, 21, 34, 55, 89]),
            trigger=ANY,
        )
        for _ in range(random.choice([0, 0, 1, 3]))
    ]
    faults += [
        Fault(
            random.randrange(safety_ms),
            random.choice([FaultKind.LOSE_FOLDER, *_DISKS]),
            random.randint(1, servers),
            lasts_ms=random.choice([10, 100, 1_000]),
        )
        for _ in range(random.choice([0, 0, 1, 3, 6]))
    ]
    return faults


def _keeps_disks(fault: Fault) -> bool:
    return fault.kind not in _LOSES_DISKS and fault.reaction not in _REACTIONS_THAT_LOSE
