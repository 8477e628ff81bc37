"""Campaigns: plans of several triggered faults in a row, each of which prepares the next one.

A single triggered fault shows the effect of one fault. Some rules concern the remains of an earlier
fault: a promise to a dead leader, a deposed leader that does not know it yet, a log that lacks
entries that the others have. Such a world is quick, and its clients send many requests.
"""

from collections.abc import Callable
from random import Random

from tests.simulation.network import DEADLINE_MS
from tests.simulation.plan import ClientPlan, Fault, FaultKind, Plan, RequestMix, ServerPlan
from tests.simulation.triggers import Reaction

Campaign = Callable[[Random], tuple[list[int], list[Fault]]]
"""How slow the disk of each server is, and the triggered faults, in turn."""

START_MS = 500
SAFETY_MS = 5_000
QUICK, MIXED, SLOW = [0, 2, 5], [0, 2, 5, 5, 40], [5, 20, 40]
"""Durations of forces: slow disks have a queue of writes when they crash."""


def hold_then_leave(random: Random) -> tuple[list[int], list[Fault]]:
    """Depose the leader; earlier messages of the others reach it afterwards."""
    step = _step("Ping", random.choice([10, 30]), Reaction.HOLD_THEN_LEAVE, 900, 1_000)
    return _disks(random, 3, QUICK), [step]


def partition_leader(random: Random) -> tuple[list[int], list[Fault]]:
    """Depose the leader together with one follower; both continue to serve for a while."""
    trigger = random.choice(["Ping", "Commit", "SendClient"])
    step = _step(trigger, random.choice([10, 30]), Reaction.PARTITION_LEADER, 900, 1_000)
    return _disks(random, 5, MIXED), [step]


def staggered_crash(random: Random) -> tuple[list[int], list[Fault]]:
    """Let one server fall behind; all crash, and crash again while some recover without another."""
    trigger, delay_ms = random.choice(["Diff", "Diff", "NewLeader"]), random.choice([1, 2, 3])
    return _disks(random, 3, SLOW), [
        _step("Ack", random.choice([5, 10]), Reaction.ISOLATE, 150, 100),
        _step("Commit", random.choice([5, 10]), Reaction.STAGGERED_CRASH, 100, 1),
        _step(trigger, 1, Reaction.STAGGERED_CRASH, 100, 1, delay_ms),
    ]


def crash_in_election(random: Random) -> tuple[list[int], list[Fault]]:
    """Crash the leader; in the election one server is silent, and then another one crashes."""
    silent = random.choice([Reaction.FREEZE, Reaction.ISOLATE])
    gone = random.choice([Reaction.CRASH, Reaction.CRASH_PEER])
    return _disks(random, random.choice([4, 5]), MIXED), [
        _step("Commit", random.choice([20, 50]), Reaction.CRASH_LEADER, 1_000, 1),
        _step("Notification", random.randint(1, 8), silent, 300, 1),
        _step("Notification", random.randint(1, 8), gone, 100, random.choice([30, 300])),
    ]


SHARES: dict[Campaign, float] = {
    hold_then_leave: 0.05,
    partition_leader: 0.02,
    staggered_crash: 0.08,
    crash_in_election: 0.04,
}
"""How many of the seeds they have."""


def draw_campaign(seed: int) -> Plan | None:
    """Return the campaign of a seed, if it has one."""
    random = Random(f"{seed}.campaign")
    campaign = _choose(random.random())
    if campaign is None:
        return None
    disks, steps = campaign(random)
    mixes = [RequestMix.ASKS, RequestMix.MIXED, RequestMix.ASKS, RequestMix.MIXED]
    return Plan(
        seed,
        SAFETY_MS,
        random.choice([1, 1, 1, 5]),
        tuple(_draw_server(random, *server) for server in enumerate(disks, 1)),
        tuple(_draw_client(random, *client) for client in enumerate(mixes, 1)),
        tuple(steps),
        notice_ms_max=random.choice([20, 20, 100, DEADLINE_MS]),
    )


def _choose(at: float) -> Campaign | None:
    for campaign, share in SHARES.items():
        if at < share:
            return campaign
        at -= share
    return None


def _draw_server(random: Random, server_id: int, sync_ms_max: int) -> ServerPlan:
    return ServerPlan(
        server_id,
        is_voter=True,
        sync_ms_max=sync_ms_max,
        drift_ppm=0,
        snapshot_every_txns=random.choice([20, 200]),
        window_txns_max=random.choice([5, 200]),
        read_log_bytes_max=50_000,
        segment_bytes=10_000,
        touch_ms=random.choice([10, 100]),
    )


def _draw_client(random: Random, number: int, request_mix: RequestMix) -> ClientPlan:
    return ClientPlan(
        number,
        drift_ppm=0,
        pause_ms_max=20,
        burst_max=4,
        outstanding_max=50,
        pipeline_max=200,
        request_mix=request_mix,
        close_share=0.0,
        timeout_ms=random.choice([1_000, 5_000]),
    )


def _disks(random: Random, servers: int, sync_ms_max: list[int]) -> list[int]:
    return [random.choice(sync_ms_max) for _ in range(servers)]


def _step(
    trigger: str, amount: int, reaction: Reaction, lasts_ms: int, again_ms: int, delay_ms: int = 0
) -> Fault:
    return Fault(
        START_MS,
        FaultKind.TRIGGERED,
        trigger=trigger,
        amount=amount,
        reaction=reaction.value,
        lasts_ms=lasts_ms,
        delay_ms=delay_ms,
        again_ms=again_ms,
        campaign=1,
    )
