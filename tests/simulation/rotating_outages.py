"""Rotating outages: servers are away in turns, so every quorum is a different and a minimal one.

Most harm of a wrong recovery shows only if three things come together: a server has missed so much
that it gets a snapshot, it leaves again during that, and then forms a quorum with a server that
knows more. A mix of all faults hardly ever causes that (plan.py).

In a *timed* plan the absent server is cut off from the other servers for a while, but not from its
clients, which stay and watch. In a plan of *switches* the leader leaves repeatedly, at a moment
that the protocol determines, see `Reaction.SWITCH_MINORITY`.
"""

from random import Random

from tests.simulation.plan import ClientPlan, Fault, FaultKind, Plan, RequestMix, ServerPlan
from tests.simulation.triggers import Reaction

SHARE = 0.15
"""The share of all seeds with rotating outages."""

_BY_SNAPSHOT = (
    *("ReceiveSnapshot", "ReceiveSnapshot", "SnapshotEnd", "InstallSnapshot", "SaveEpochs"),
    "AckNewLeader",
)
_WHILE_IT_ARRIVES = ("Snapshot", *["ReceiveSnapshot"] * 3, "SnapshotEnd", "InstallSnapshot")
_BY_DIFF = ("Diff", "Diff", "SaveEpochs", "Append")


def draw_rotating_outages(seed: int) -> Plan | None:
    """Return the rotating outages of a seed, if it has any."""
    random = Random(f"{seed}.rota")
    if random.random() >= SHARE:
        return None
    voters = random.choice([3, 3, 3, 4, 5])
    is_timed = random.random() < 0.4
    by_snapshot = is_timed or random.random() < 0.75
    sync_ms_max = random.choice([0, 2, 5, 10, 40] if by_snapshot else [5, 10, 40])
    snapshot_every_txns = random.choice([20, 50, 200])
    safety_ms = random.choice([3_000, 5_000])
    return Plan(
        seed,
        safety_ms,
        random.choice([1, 5, 20]),
        tuple(
            ServerPlan(
                server_id,
                is_voter=True,
                sync_ms_max=sync_ms_max,
                drift_ppm=0,
                snapshot_every_txns=snapshot_every_txns,
                window_txns_max=1,
                read_log_bytes_max=100 if by_snapshot else 50_000,
                segment_bytes=10_000,
                touch_ms=random.choice([10, 100]),
                chunk_bytes=random.choice([1, 1, 1, 200]),
            )
            for server_id in range(1, voters + 1)
        ),
        tuple(_draw_client(random, number) for number in range(1, random.choice([3, 4]) + 1)),
        _timed(random, safety_ms, voters) if is_timed else _draw_switches(random, by_snapshot),
    )


def _draw_client(random: Random, number: int) -> ClientPlan:
    return ClientPlan(
        number,
        drift_ppm=0,
        pause_ms_max=random.choice([20, 60]),
        burst_max=random.choice([1, 4]),
        outstanding_max=random.choice([1, 3, 50]),
        pipeline_max=random.choice([5, 60]),
        request_mix=random.choice([RequestMix.MIXED, RequestMix.MIXED, *RequestMix]),
        watch_share=0.7,
        close_share=0.0,
        timeout_ms=random.choice([1_000, 5_000, 5_000]),
    )


def _timed(random: Random, safety_ms: int, voters: int) -> tuple[Fault, ...]:
    """Take one server after the other away; a returning one crashes sometimes."""
    faults = [
        Fault(
            random.randint(200, 1_200),
            FaultKind.TRIGGERED,
            lasts_ms=random.choice([10, 300]),
            amount=random.choice([1, 1, 2]),
            trigger=random.choice(_BY_SNAPSHOT),
            reaction=Reaction.CRASH.value,
            delay_ms=random.choice([0, 1, 3, 10]),
            again_ms=random.choice([100, 500]),
        )
    ]
    lasts_ms = random.choice([400, 600, 1_000])
    every = tuple(range(1, voters + 1))
    away = 0
    for at_ms in range(300, safety_ms, lasts_ms + random.choice([0, 300, 300])):
        away = random.choice([server for server in every if server != away])
        faults.append(Fault(at_ms, FaultKind.CUT, away, every, lasts_ms))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def _draw_switches(random: Random, by_snapshot: bool) -> tuple[Fault, ...]:
    """Draw a switch after some writes, and one in the middle of a recovery."""
    return (
        Fault(
            200,
            FaultKind.TRIGGERED,
            lasts_ms=3_000,
            amount=random.choice([20, 20, 50]),
            trigger=random.choice(["Commit", "Append"]),
            reaction=Reaction.SWITCH_MINORITY.value,
            again_ms=random.choice([100, 500]),
        ),
        Fault(
            random.randint(200, 1_200),
            FaultKind.TRIGGERED,
            lasts_ms=3_000,
            amount=random.choice([1, 1, 2]),
            trigger=random.choice(_WHILE_IT_ARRIVES if by_snapshot else _BY_DIFF),
            reaction=Reaction.SWITCH_MINORITY.value,
            delay_ms=random.choice([0, 3, 10, 10] if by_snapshot else [0, 5, 10, 20]),
            again_ms=random.choice([100, 500] if by_snapshot else [300, 1_000]),
        ),
    )
