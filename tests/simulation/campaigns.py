"""Campaigns: plans of several triggered faults in a row, each of which prepares the next one.

A single triggered fault shows the effect of one fault. Some rules concern the remains of an earlier
fault: a promise to a dead leader, a deposed leader that does not know it yet, a log that lacks
entries that the others have. Such a world is quick, and its clients send many requests.
"""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from tests.simulation.network import DEADLINE_MS
from tests.simulation.plan import ClientPlan, Fault, FaultKind, Plan, RequestMix, ServerPlan
from tests.simulation.triggers import Reaction

START_MS = 500
SAFETY_MS = 5_000
QUICK, MIXED, SLOW = [0, 2, 5], [0, 2, 5, 5, 40], [5, 20, 40]
"""Durations of forces: slow disks have a queue of writes when they crash."""
MIXES = (RequestMix.ASKS, RequestMix.MIXED, RequestMix.ASKS, RequestMix.MIXED)
"""The requests of each client."""


class CampaignSetup(Struct, frozen=True):
    """The disks, the faults and, where they differ from the usual ones, the times of a campaign."""

    sync_ms_max: list[int]
    """How slow the disk of each server is."""
    faults: list[Fault]
    """The triggered ones strike in turn."""
    safety_ms: int = SAFETY_MS
    touch_ms: tuple[int, ...] = (10, 100)
    """How often servers report sessions, to draw from."""
    pause_ms_max: int = 20
    """Of clients, between two bursts of requests."""
    timeouts_ms: tuple[int, ...] = (1_000, 5_000)
    """Timeouts of sessions, to draw from."""


Campaign = Callable[[Random], CampaignSetup]


def hold_then_leave(random: Random) -> CampaignSetup:
    """Depose the leader; earlier messages of the others reach it afterwards."""
    step = _step("Ping", random.choice([10, 30]), Reaction.HOLD_THEN_LEAVE, 900, 1_000)
    return CampaignSetup(_disks(random, 3, QUICK), [step])


def partition_leader(random: Random) -> CampaignSetup:
    """Depose the leader together with one follower; both continue to serve for a while."""
    trigger = random.choice(["Ping", "Commit", "SendClient"])
    step = _step(trigger, random.choice([10, 30]), Reaction.PARTITION_LEADER, 900, 1_000)
    return CampaignSetup(_disks(random, 5, MIXED), [step])


def staggered_crash(random: Random) -> CampaignSetup:
    """Let one server fall behind; all crash, and crash again while some recover without another."""
    trigger, delay_ms = random.choice(["Diff", "Diff", "NewLeader"]), random.choice([1, 2, 3])
    disks = _disks(random, 3, SLOW)
    steps = [
        _step("Ack", random.choice([5, 10]), Reaction.ISOLATE, 150, 100),
        _step("Commit", random.choice([5, 10]), Reaction.STAGGERED_CRASH, 100, 1),
        _step(trigger, 1, Reaction.STAGGERED_CRASH, 100, 1, delay_ms),
    ]
    return CampaignSetup(disks, steps)


def crash_in_election(random: Random) -> CampaignSetup:
    """Crash the leader; in the election one server is silent, and then another one crashes."""
    silent = random.choice([Reaction.FREEZE, Reaction.ISOLATE])
    gone = random.choice([Reaction.CRASH, Reaction.CRASH_PEER])
    disks = _disks(random, random.choice([4, 5]), MIXED)
    steps = [
        _step("Commit", random.choice([20, 50]), Reaction.CRASH_LEADER, 1_000, 1),
        _step("Notification", random.randint(1, 8), silent, 300, 1),
        _step("Notification", random.randint(1, 8), gone, 100, random.choice([30, 300])),
    ]
    return CampaignSetup(disks, steps)


def lead_again(random: Random) -> CampaignSetup:
    """Let a leader lose its lead and lead again while its tracker, which is late, calls sessions
    overdue: for them the new epoch has begun another full timeout.
    """
    safety_ms, timeout_ms, touch_ms = 8_000, 1_000, 100
    silences = [
        Fault(
            random.randrange(START_MS, safety_ms - START_MS),
            random.choice([FaultKind.CLIENT_DIES, FaultKind.CLIENT_FREEZES]),
            random.randint(1, len(MIXES)),
            lasts_ms=random.choice([1_500, 3_000]),
        )
        for _ in range(random.choice([16, 24]))
    ]
    # The first report of an epoch names all sessions. Those that are silent are overdue a timeout
    # later, at the eleventh one: a call to the tracker is late by then.
    reports = timeout_ms // touch_ms - random.choice([0, 1, 2])
    steps = [
        _step("TrackSessions", reports, Reaction.LATE_TRACKER, 400, 1),
        _step("TrackSessions", 1, Reaction.CRASH_OTHERS, random.choice([200, 300]), 100),
    ]
    faults = sorted([*silences, *steps], key=lambda fault: fault.at_ms)
    disks = _disks(random, 3, QUICK)
    return CampaignSetup(disks, faults, safety_ms, (touch_ms,), 100, (timeout_ms,))


SHARES: dict[Campaign, float] = {
    hold_then_leave: 0.05,
    partition_leader: 0.02,
    staggered_crash: 0.08,
    crash_in_election: 0.04,
    lead_again: 0.02,
}
"""How many of the seeds they have."""


def draw_campaign(seed: int) -> Plan | None:
    """Return the campaign of a seed, if it has one."""
    random = Random(f"{seed}.campaign")
    campaign = _choose(random.random())
    if campaign is None:
        return None
    setup = campaign(random)
    return Plan(
        seed,
        setup.safety_ms,
        random.choice([1, 1, 1, 5]),
        tuple(
            _draw_server(random, setup, server_id, sync_ms_max)
            for server_id, sync_ms_max in enumerate(setup.sync_ms_max, 1)
        ),
        tuple(_draw_client(random, setup, number, mix) for number, mix in enumerate(MIXES, 1)),
        tuple(setup.faults),
        notice_ms_max=random.choice([20, 20, 100, DEADLINE_MS]),
    )


def _choose(at: float) -> Campaign | None:
    for campaign, share in SHARES.items():
        if at < share:
            return campaign
        at -= share
    return None


def _draw_server(
    random: Random, setup: CampaignSetup, server_id: int, sync_ms_max: int
) -> ServerPlan:
    return ServerPlan(
        server_id,
        is_voter=True,
        sync_ms_max=sync_ms_max,
        drift_ppm=0,
        snapshot_every_txns=random.choice([20, 200]),
        window_txns_max=random.choice([5, 200]),
        read_log_bytes_max=50_000,
        segment_bytes=10_000,
        touch_ms=random.choice(setup.touch_ms),
    )


def _draw_client(
    random: Random, setup: CampaignSetup, number: int, request_mix: RequestMix
) -> ClientPlan:
    return ClientPlan(
        number,
        drift_ppm=0,
        pause_ms_max=setup.pause_ms_max,
        burst_max=4,
        outstanding_max=50,
        pipeline_max=200,
        request_mix=request_mix,
        close_share=0.0,
        timeout_ms=random.choice(setup.timeouts_ms),
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
