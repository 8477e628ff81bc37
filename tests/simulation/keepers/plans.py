"""The plan of a seed for keepers: machines, clocks, limits, and the faults of nodes and keepers."""

from random import Random
from typing import Final

from tests.simulation.clock import DRIFT_PPM_MAX
from tests.simulation.plan import ClientPlan, Fault, FaultKind, KeeperPlan, Plan, ServerPlan
from tests.simulation.timing import TimingPlan

KEEPER: Final = "keeper"
KEEPERS: Final = 2
_TIMING: Final = TimingPlan(tick_ms=500, init_limit=10, sync_limit=3)
_CLOCKS_S: Final = (0, 0, 0, 5, -5, 30, -30, 100, -100)
_RATES: Final = {
    FaultKind.NODE_DIES: (0.0, 0.05, 0.1),
    FaultKind.NODE_FLAPS: (0.0, 0.0, 0.05),
    FaultKind.NODE_CUT: (0.0, 0.05, 0.15),
    FaultKind.LAUNCH: (0.02, 0.1),
    FaultKind.CRASH: (0.0, 0.0, 0.1),
    FaultKind.FREEZE: (0.0, 0.0, 0.1),
    FaultKind.CUT: (0.0, 0.0, 0.1),
    FaultKind.CLIENT_FREEZES: (0.0, 0.05, 0.1),
    FaultKind.CLIENT_DIES: (0.0, 0.05),
    FaultKind.CUT_CLIENT: (0.0, 0.0, 0.1),
}
"""Of each kind, in a second."""
_LASTS_MS: Final = {
    FaultKind.NODE_DIES: (0, 0, 1_000, 6_000, 15_000),
    FaultKind.NODE_FLAPS: (500, 1_500, 4_000),
    FaultKind.NODE_CUT: (1_000, 4_000, 12_000),
    FaultKind.CLIENT_FREEZES: (500, 3_000, 8_000),
}
_OF_MACHINES: Final = (FaultKind.NODE_DIES, FaultKind.NODE_FLAPS, FaultKind.NODE_CUT)
_OF_CLIENTS: Final = (FaultKind.CLIENT_FREEZES, FaultKind.CLIENT_DIES, FaultKind.CUT_CLIENT)


def draw_keeper_plan(seed: int) -> Plan:
    """Return the plan of a seed, always the same."""
    random = Random(f"{seed}.keepers")
    voters = random.choice([3, 3, 3, 5])
    machines = voters + random.choice([1, 1, 2])
    safety_ms = random.choice([15_000, 30_000, 60_000])
    drift_ppm_max = random.choice([0, 100, DRIFT_PPM_MAX])
    writers = random.choice([1, 2])
    clients = KEEPERS + writers
    keeper = KeeperPlan(
        clocks_ahead_s=tuple(random.choice(_CLOCKS_S) for _ in range(machines)),
        heal_after_ms=random.choice([1_000, 2_500, 5_000]),
        pause_ms=random.choice([0, 2_000, 6_000]),
        moves_per_hour=random.choice([1, 2, 100, 100, 100]),
        node_age_ms=random.choice([0, 1_000, 3_000]),
        vote_wait_ms=random.choice([4_000, 15_000]),
        notice_ms_max=random.choice([500, 2_000, 6_000]),
        holds_names=random.random() < 0.4,
        silent_share=random.choice([0.0, 0.05, 0.3]),
        stand_share=random.choice([0.0, 0.1, 0.4]),
    )
    return Plan(
        seed,
        safety_ms,
        random.choice([1, 5, 20]),
        tuple(_draw_server(random, number, drift_ppm_max) for number in range(1, voters + 1)),
        tuple(_draw_client(random, number, drift_ppm_max) for number in range(1, clients + 1)),
        _draw_faults(seed, safety_ms, voters, machines, clients),
        recipe=KEEPER,
        timing=_TIMING,
        keeper=keeper,
    )


def _draw_drift(random: Random, drift_ppm_max: int) -> int:
    return random.choice([-drift_ppm_max, 0, drift_ppm_max])


def _draw_server(random: Random, server_id: int, drift_ppm_max: int) -> ServerPlan:
    return ServerPlan(
        server_id,
        is_voter=True,
        sync_ms_max=random.choice([0, 5, 40]),
        drift_ppm=_draw_drift(random, drift_ppm_max),
        snapshot_every_txns=random.choice([20, 200]),
        window_txns_max=random.choice([1, 30]),
        read_log_bytes_max=random.choice([500, 50_000]),
        segment_bytes=10_000,
    )


def _draw_client(random: Random, number: int, drift_ppm_max: int) -> ClientPlan:
    return ClientPlan(
        number,
        drift_ppm=_draw_drift(random, drift_ppm_max),
        pause_ms_max=60,
        burst_max=1,
        outstanding_max=random.choice([1, 50]),
        close_share=0.0,
        timeout_ms=random.choice([1_500, 3_000, 5_000]),
    )


def _draw_faults(
    seed: int, safety_ms: int, voters: int, machines: int, clients: int
) -> tuple[Fault, ...]:
    random = Random(f"{seed}.keepers.faults")
    faults = []
    for kind, rates in _RATES.items():
        rate, at_ms = random.choice(rates), 0.0
        while rate:
            at_ms += random.expovariate(rate) * 1_000
            if at_ms >= safety_ms:
                break
            number = voters
            if kind in _OF_MACHINES:
                number = machines
            elif kind in _OF_CLIENTS:
                number = random.choice([KEEPERS, KEEPERS, clients])
            others = random.sample(range(1, voters + 1), random.randint(0, voters))
            faults.append(
                Fault(
                    int(at_ms),
                    kind,
                    random.randint(1, number),
                    tuple(sorted(others)),
                    random.choice(_LASTS_MS.get(kind, (100, 1_000, 3_000))),
                    random.choice([1, 1, 0]) if kind is FaultKind.NODE_CUT else 3,
                )
            )
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))
