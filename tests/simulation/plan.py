"""The plan of a seed, drawn before the run: sizes, speeds, clocks and every fault.

A plan is plain data, so it can be printed, kept as JSON and minimized: dropping a fault, a client
or a server leaves the random streams of all others unchanged. Every plan draws its own mix of
faults (swarm testing); otherwise rare faults would never occur together.

The file is long because it is the reference of the faults and of all that a plan says.
"""

from collections.abc import Callable
from enum import Enum
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.server.context import ServerOptions
from raykeeper.zab.ids import COUNTER_BITS
from tests.simulation.clock import DRIFT_PPM_MAX
from tests.simulation.network import DEADLINE_MS
from tests.simulation.timing import TimingPlan
from tests.simulation.triggers import BROADCAST, COMMON, RECOVERY, TRIGGERS, Reaction

QUEUE_MAX = ServerOptions().queued_requests_max
FORCES_IN_TIMEOUT = 10
HISTORY_MAX = ServerOptions().change_log_count_max


class FaultKind(Enum):
    """The kinds of faults. Each tells the meaning of the fields of `Fault`."""

    # Processes of servers: `target`, and how long until the process starts or runs again.
    CRASH = "crash"
    BLACKOUT = "blackout"
    """All of `others` lose power at once; one after the other comes back within `lasts_ms`."""
    FREEZE = "freeze"
    """SIGSTOP: events for the process wait, its clock goes on."""
    SECOND_PROCESS = "second_process"
    """The process is stopped, and a second one is started on its disk."""
    SECOND_DISK = "second_disk"
    """The process is stopped, and a second one is started on an empty disk; the first one resumes
    and stays."""

    TRANSFER = "transfer"
    """The present leader is asked to transfer the lead to server `target`, 0 for any, within
    `lasts_ms`."""

    DRAIN = "drain"
    """For `lasts_ms` server `target` takes no clients; it moves those it has, `amount` a second."""

    # Links: both ways unless said otherwise, for `lasts_ms`.
    CUT = "cut"
    """Server `target` from the servers `others`."""
    CUT_ONE_WAY = "cut_one_way"
    """What `target` sends to the server `others[0]`."""
    ISOLATE = "isolate"
    """Server `target` from all servers and clients."""
    SPLIT = "split"
    """The servers `others` from the rest."""
    HUB = "hub"
    """Every server reaches server `target`, and no other."""
    PART = "part"
    """The servers `others`, without any the present leader, and the clients in the bits of `amount`
    from all else; those servers learn it late."""
    BREAK = "break"
    """The link between the servers `target` and `others[0]` breaks, and may be opened again."""
    BREAK_CLIENT = "break_client"
    """The link of client `target` breaks."""
    CUT_CLIENT = "cut_client"
    """Client `target` from the servers `others`; one way only when `amount` is 1 or 2."""
    SLOW_LINK = "slow_link"
    """Server `target` and server `others[0]`: `amount` times the delay."""
    SLOW_SERVER = "slow_server"
    """All links of server `target`: `amount` times the delay."""

    # Disks of servers.
    SLOW_DISK = "slow_disk"
    """Every force takes up to `amount` ms more, for `lasts_ms`."""
    FAILED_WRITE = "failed_write"
    """The next write fails and ends the process, which starts again after `lasts_ms`."""
    FAILED_READ = "failed_read"
    """The next read of the log fails and ends the process."""
    FULL_DISK = "full_disk"
    """No room for another segment for `lasts_ms`."""
    FLIP_OLD = "flip_old"
    """A bit of an old record is found flipped; `amount` in a thousandth of the log."""
    FLIP_LAST = "flip_last"
    """Crash, and a bit of the last batch is flipped when the process starts again."""
    LOSE_FOLDER = "lose_folder"
    """Crash, and the folder is empty when the process starts again."""
    OLD_DISK = "old_disk"
    """Crash, and a server starts on its previous disk, which has no vote any more; `target` counts
    the servers that have such a disk."""

    # The tree in memory.
    FLIP_MEMORY = "flip_memory"
    """A bit of the tree of server `target` changes where no client reads."""

    # The actors beside a server; `target` 0 is the present leader, whose tracker alone counts.
    TRACKER_LOST = "tracker_lost"
    TRACKER_SLOW = "tracker_slow"
    """Reports and expiry proposals take up to `amount` ms more, for `lasts_ms`."""
    TRACKER_REPEATS = "tracker_repeats"
    """Reports and expiry proposals arrive again, up to 3 s later, for `lasts_ms`."""
    SNAPSHOTTER_LOST = "snapshotter_lost"
    SNAPSHOTTER_SLOW = "snapshotter_slow"
    """Each call takes up to `amount` ms more, for `lasts_ms`."""

    # Clocks.
    WALL_JUMP = "wall_jump"
    """The wall clock of server `target` moves by `amount` ms."""

    # Clients.
    CLIENT_DIES = "client_dies"
    CLIENT_KILLED = "client_killed"
    """The client dies, and every server with a link to it learns that within `amount` ms, sometimes
    twice; another process, which may take over the session, starts within `lasts_ms`."""
    CLIENT_FREEZES = "client_freezes"
    CLIENT_WAKES = "client_wakes"
    """From its next request on the client is stopped, until `amount` ms after the deadline of its
    session (before it if negative)."""
    CLIENT_RETURNS = "client_returns"
    """The client reaches no server until `amount` ms after that deadline, before it if negative."""

    # Ray nodes, in the world of keepers only (keepers/): machine `target`.
    NODE_DIES = "node_dies"
    """The machine and all on it end; it returns with its disks after `lasts_ms`, never if 0: then
    its disks are lost too."""
    NODE_FLAPS = "node_flaps"
    """`amount` times in turn it ends for `lasts_ms` and is there again for as long."""
    NODE_CUT = "node_cut"
    """Ray does not reach it for `lasts_ms` and calls it dead one day, but what runs there goes on;
    cut off from the servers `others`, and with `amount` 1 from all servers and clients."""
    LAUNCH = "launch"
    """A person starts the servers that do not run where their votes rest, if that is at hand."""

    # Members that change (members/).
    JOIN_DIES = "join_dies"
    """The next server that is asked to join, or to get a vote, crashes at its `amount`-th message
    or operation on disk from then on, for `lasts_ms`."""

    # At a moment determined by the protocol, see triggered_faults.py.
    TRIGGERED = "triggered"
    """`delay_ms` after the `amount`-th `trigger` from now on, `reaction`, for `lasts_ms`."""


WITHOUT_TARGET = frozenset(
    {FaultKind.TRIGGERED, FaultKind.BLACKOUT, FaultKind.PART, FaultKind.SPLIT}
)
"""Faults of `others` only, or of the servers that trigger them."""


OF_RAY_NODES = frozenset(
    {FaultKind.NODE_DIES, FaultKind.NODE_FLAPS, FaultKind.NODE_CUT, FaultKind.LAUNCH}
)
"""Drawn by keepers/plans.py alone."""
OF_OTHER_WORLDS = OF_RAY_NODES | {FaultKind.TRANSFER, FaultKind.DRAIN, FaultKind.JOIN_DIES}
"""Drawn by worlds that have a recipe of their own, and not by the first one."""


class Fault(Struct, frozen=True, omit_defaults=True):
    """One fault. Servers are named by their ids, clients by their numbers from 1."""

    at_ms: int
    kind: FaultKind
    target: int = 0
    others: tuple[int, ...] = ()
    lasts_ms: int = 0
    amount: int = 0
    trigger: str = ""
    reaction: str = ""
    delay_ms: int = 0
    again_ms: int = 0
    """How long after its injection a triggered fault is armed again; 0 for never."""
    campaign: int = 0
    """Of the triggered faults of one campaign one is armed at a time, in turn: after its injection
    the next one is armed after `again_ms`. 0 for a fault without a campaign."""


class ServerPlan(Struct, frozen=True):
    """One server slot."""

    server_id: int
    is_voter: bool
    sync_ms_max: int
    """How long a force of its disk takes, at most."""
    drift_ppm: int
    """How much faster than the world's its clock runs."""
    snapshot_every_txns: int
    window_txns_max: int
    read_log_bytes_max: int
    segment_bytes: int
    touch_ms: int = 100
    """How often a follower reports touched sessions to the leader, and that to its tracker."""
    chunk_bytes: int = 64 << 10
    """Size of a snapshot's chunks; transactions go on between them."""
    has_tracker: bool = True
    """If false, every call to its session tracker fails."""
    tracker_ms_max: int = 5
    """How long each way of such a call takes at most; above `touch_ms` the tracker falls behind."""
    queue_max: int = QUEUE_MAX
    """Requests of one connection that may wait; some clients send more."""
    history_max: int = HISTORY_MAX
    """Size of the change log for the watches of disconnected clients."""
    tick_times: int = 1
    """Its tick is so many times that of the plan, and ..."""
    sync_divisor: int = 1
    """... its sync limit a part of it: a server whose settings are changed before the others'."""
    container_grace_ms: int = 0
    """How long an emptied container stays while this server leads."""


class RequestMix(Enum):
    """The mix of a client's requests."""

    MIXED = "mixed"
    CONTENDS = "contends"
    QUEUES = "queues"
    CHURNS = "churns"
    ASKS = "asks"


class ClientPlan(Struct, frozen=True):
    """One client."""

    number: int
    drift_ppm: int
    pause_ms_max: int
    """Between two bursts of requests."""
    burst_max: int
    """Requests in a burst."""
    outstanding_max: int
    """Requests on the wire."""
    pipeline_max: int = 60
    """Unanswered requests beyond which it waits."""
    request_mix: RequestMix = RequestMix.MIXED
    watch_share: float = 0.4
    """How many of its reads set a watch."""
    close_share: float = 0.005
    """How many bursts are the last of their session."""
    timeout_ms: int = 0
    """The session timeout; 0 if each session draws another one."""
    speaks_jute: bool = False
    """Whether it speaks ZooKeeper's protocol (jute_clients/)."""


class KeeperPlan(Struct, frozen=True):
    """The Ray cluster and the settings of the keepers, in the world of keepers."""

    clocks_ahead_s: tuple[int, ...]
    """Of each machine's wall clock; the first ones have the servers."""
    heal_after_ms: int
    pause_ms: int
    moves_per_hour: int
    node_age_ms: int
    vote_wait_ms: int
    notice_ms_max: int
    """How long Ray takes to call a node dead, at most."""
    holds_names: bool
    """Whether an actor waits for its machine, as a pinned one, and holds its name meanwhile."""
    silent_share: float
    """How many answers of servers come too late for the keeper."""
    stand_share: float
    """How often a keeper stands still between its check and its act."""
    change_ms: int = 0
    """How long a change of the members is open that removes the last voter; 0: there is none."""


class ProgramChange(Struct, frozen=True):
    """A server is stopped, and started with a program that knows this feature level."""

    at_ms: int
    server_id: int
    level: int


class UpgradePlan(Struct, frozen=True):
    """The programs of the servers, in the world of upgrades. All begin with the older one."""

    changes: tuple[ProgramChange, ...]
    back_share: float
    """How often a marked disk is followed by a return of servers to the older program."""
    leaves_one_behind: bool = False
    """Whether a server goes back just before the first raise of the run reaches its disk."""


class MembersPlan(Struct, frozen=True):
    """The operator, in the world of members that change."""

    pause_ms: int
    """Between two of its steps, on average."""
    sizes: tuple[int, ...] = ()
    """How many voters there must have been, in turn, at the end of the run."""
    swaps: bool = False
    """Whether nearly every step swaps a voter, or makes the one that left an observer again."""
    in_a_row: bool = False
    """Whether a client often asks for the next step behind the one before, or as it is told."""


class Plan(Struct, frozen=True):
    """All that is drawn up front. `World(plan).run()` replays it."""

    seed: int
    safety_ms: int
    """How long clients work and faults happen; then all must converge."""
    delay_ms_max: int
    """The largest delay of a frame, except on slow links."""
    servers: tuple[ServerPlan, ...]
    clients: tuple[ClientPlan, ...]
    faults: tuple[Fault, ...]
    counter_bits: int = COUNTER_BITS
    """Bits of a zxid's counter: they bound the transactions of an epoch (rule Z6)."""
    loses_majority: bool = False
    """Whether so many disks are lost at the end that the others are no majority (rule D4)."""
    notice_ms_max: int = DEADLINE_MS
    """How long an end needs to learn that its link is broken."""
    recipe: str = ""
    """The recipe that the clients use instead of the general workload (recipes/catalogue.py)."""
    timing: TimingPlan = TimingPlan()
    keeper: KeeperPlan | None = None
    upgrade: UpgradePlan | None = None
    transfers_in_calm: bool = False
    """Whether the lead goes to each voter in turn after all have converged."""
    drains_in_calm: bool = False
    """Whether each server in turn is drained then."""
    members: MembersPlan | None = None

    @property
    def outlives_moves(self) -> bool:
        """Whether a session surely lives until another server has it: that takes two forces."""
        force_ms = max(server.sync_ms_max for server in self.servers)
        return self.timing.session_min_ms >= FORCES_IN_TIMEOUT * force_ms


def draw_mix(seed: int) -> Plan:
    """Return the plan of a seed, always the same."""
    random = Random(f"{seed}.plan")
    beside = Random(f"{seed}.beside")
    queues = Random(f"{seed}.queues")
    histories = Random(f"{seed}.histories")
    forgets = histories.random() < 0.4
    grace_ms = Random(f"{seed}.grace").choice([0, 0, 100, 600])
    voters = random.choice([1, 2, 3, 3, 3, 3, 4, 5, 5])
    others = random.choice([0, 0, 0, 1])
    drift_ppm_max = random.choice([0, 100, DRIFT_PPM_MAX])
    safety_ms = _draw_span(random)
    servers = tuple(
        replace(
            _draw_server(random, beside, queues, server_id, server_id <= voters, drift_ppm_max),
            history_max=histories.choice(_HISTORIES) if forgets else HISTORY_MAX,
            container_grace_ms=grace_ms,
        )
        for server_id in range(1, voters + others + 1)
    )
    clients = tuple(
        _draw_client(random, beside, number, drift_ppm_max)
        for number in range(1, random.choice([1, 2, 2, 3, 3, 4]) + 1)
    )
    faults = _draw_faults(seed, safety_ms, len(servers), len(clients))
    sequence, is_alone = _draw_sequence(seed, len(servers))
    if sequence:
        safety_ms = max(safety_ms, _SEQUENCE_MS)
        faults = sorted([*(() if is_alone else faults), *sequence], key=lambda fault: fault.at_ms)
    return Plan(
        seed,
        safety_ms,
        random.choice([1, 1, 5, 20]),
        servers,
        clients,
        tuple(faults),
        Random(f"{seed}.counter").choice([*[COUNTER_BITS] * 6, 5, 8]),
        Random(f"{seed}.majority").random() < 0.03,
    )


def _draw_span(random: Random) -> int:
    """Draw mostly short runs: many small worlds find more than a few long ones."""
    kind = random.random()
    if kind < 0.65:
        return random.randint(1_500, 4_000)
    return random.randint(4_000, 8_000) if kind < 0.95 else 20_000


def _draw_drift(random: Random, drift_ppm_max: int) -> int:
    """Draw a drift, half of the time the largest one."""
    return random.choice([-drift_ppm_max, drift_ppm_max, random.randint(0, drift_ppm_max), 0])


def _draw_server(
    random: Random,
    beside: Random,
    queues: Random,
    server_id: int,
    is_voter: bool,
    drift_ppm_max: int,
) -> ServerPlan:
    return ServerPlan(
        server_id,
        is_voter,
        random.choice([0, 2, 5, 10, 40, 300]),
        _draw_drift(beside, drift_ppm_max),
        random.choice([20, 50, 200]),
        random.choice([1, 5, 30, 200]),
        random.choice([500, 50_000]),
        random.choice([2_000, 10_000]),
        beside.choice([10, 100]),
        beside.choice([1, 200, 64 << 10]),
        beside.random() < 0.95,
        beside.choice([5, 5, 5, 60]),
        queues.choice([*[QUEUE_MAX] * 19, 30]),
    )


_HISTORIES = [0, 1, 5, 20, HISTORY_MAX]


def _draw_client(random: Random, beside: Random, number: int, drift_ppm_max: int) -> ClientPlan:
    return ClientPlan(
        number,
        _draw_drift(beside, drift_ppm_max),
        random.choice([20, 60, 60, 400, 1_500]),
        random.choice([1, 4, 4, 20]),
        random.choice([1, 3, 50]),
        random.choice([1, 60, 60, 200]),
        random.choice([RequestMix.MIXED, *RequestMix]),
        random.choice([0.0, 0.3, 0.7]),
        random.choice([0.0, 0.005, 0.1]),
    )


# How often a kind of fault happens in a second of a run: never, sometimes, all the time.
_RATES = [0.0] * 6 + [0.1] * 3 + [0.8]
_FOCUS_RATE = 2.0
_APART = frozenset(
    {
        *(FaultKind.TRIGGERED, FaultKind.SECOND_PROCESS, FaultKind.SECOND_DISK),
        *(FaultKind.CLIENT_KILLED, *OF_OTHER_WORLDS),
    }
)
"""Kinds that are drawn by functions of their own."""


def _draw_faults(seed: int, safety_ms: int, servers: int, clients: int) -> tuple[Fault, ...]:
    random = Random(f"{seed}.mix")
    rates = {kind: random.choice(_RATES) for kind in FaultKind if kind not in _APART}
    focus = random.random()
    if focus < 0.03:
        rates = {}  # a world without random faults
    elif focus < 0.2:
        kinds = random.sample(list(rates), random.randint(1, 2))
        rates = dict.fromkeys(kinds, _FOCUS_RATE)
    faults = []
    if rates:
        faults = _draw_triggered(seed, safety_ms) + _draw_repeated(seed)
        faults += _draw_second_processes(seed, safety_ms, servers)
        faults += _draw_killed(seed, safety_ms, servers, clients)
    for kind, rate in rates.items():
        stream = Random(f"{seed}.faults.{kind.value}")
        at_ms = 0.0
        while rate:
            at_ms += stream.expovariate(rate) * 1_000
            if at_ms >= safety_ms:
                break
            faults.append(draw_fault(stream, int(at_ms), kind, servers, clients))
    faults.sort(key=lambda fault: fault.at_ms)
    return tuple(faults)


def _draw_triggered(seed: int, safety_ms: int) -> list[Fault]:
    random = Random(f"{seed}.ambushes")
    count = random.choice([0, 0, 1, 2, 4, 8]) * (1 + safety_ms // 5_000)
    return [
        Fault(
            random.randrange(safety_ms),
            FaultKind.TRIGGERED,
            lasts_ms=random.choice([10, 300, 1_500, 3_000]),
            amount=random.choice([1, 1, 2, 5, 20]),
            trigger=random.choice(TRIGGERS),
            reaction=random.choice(COMMON).value,
            delay_ms=random.choice([0, 0, 1, 3, 10, 40]),
        )
        for _ in range(count)
    ]


def _draw_repeated(seed: int) -> list[Fault]:
    """Draw a few repeated triggered faults, so that faults hit the remains of others."""
    random = Random(f"{seed}.siege")
    if random.random() < 0.6:
        return []
    triggers = random.choice([RECOVERY, RECOVERY, BROADCAST, RECOVERY + BROADCAST])
    return [
        Fault(
            random.randint(0, 1_000),
            FaultKind.TRIGGERED,
            lasts_ms=random.choice([10, 10, 50, 300, 1_000]),
            amount=random.choice([1, 1, 2, 3, 5, 20]),
            trigger=random.choice(triggers),
            reaction=random.choice(COMMON).value,
            delay_ms=random.choice([0, 0, 0, 1, 3, 10, 40]),
            again_ms=random.choice([100, 300, 1_000]),
        )
        for _ in range(random.randint(1, 4))
    ]


def _draw_second_processes(seed: int, safety_ms: int, servers: int) -> list[Fault]:
    random = Random(f"{seed}.second")
    if random.random() > 0.12:
        return []
    return [
        Fault(
            random.randrange(safety_ms),
            random.choice([FaultKind.SECOND_PROCESS, FaultKind.SECOND_DISK]),
            random.randint(1, servers),
            lasts_ms=random.choice([100, 500, 1_500]),
        )
        for _ in range(random.randint(1, 2))
    ]


def _draw_killed(seed: int, safety_ms: int, servers: int, clients: int) -> list[Fault]:
    """Sometimes freeze a server meanwhile, so that it learns of the death after the next start."""
    random = Random(f"{seed}.killed")
    if random.random() > 0.15:
        return []
    faults = []
    for _ in range(random.choice([1, 3, 3, 8, 8])):
        at_ms = random.randrange(safety_ms)
        kind, lasts_ms = FaultKind.CLIENT_KILLED, random.choice([1, 20, 300, 2_000])
        amount = random.choice([10, 10, 300, 2_500])
        faults.append(
            Fault(at_ms, kind, random.randint(1, clients), lasts_ms=lasts_ms, amount=amount)
        )
        if random.random() < 0.5:
            server, lasts_ms = random.randint(1, servers), random.choice([50, 100, 300])
            faults.append(Fault(at_ms, FaultKind.FREEZE, server, lasts_ms=lasts_ms))
    return faults


_SEQUENCE_MS = 4_500
"""How long a sequence needs."""


def _draw_sequence(seed: int, servers: int) -> tuple[list[Fault], bool]:
    """Draw faults that do harm only in sequence, and whether other faults may come between.

    A server forgets what it acknowledged, or gets a disk back that never knew of it.
    """
    random = Random(f"{seed}.scheme")
    kind = random.random()
    if kind > 0.16:
        return [], False
    at_ms = random.randint(300, 1_200)
    step = Fault(at_ms, FaultKind.TRIGGERED, lasts_ms=3_000, amount=random.choice([1, 5, 20]))
    faults = [replace(step, trigger="Ack", reaction=Reaction.FORGET_WITH_MINORITY.value)]
    if kind > 0.08:
        emptied = Fault(at_ms, FaultKind.LOSE_FOLDER, random.randint(1, servers), lasts_ms=10)
        reaction = Reaction.OLD_DISK_WITH_MINORITY.value
        faults = [
            emptied,
            replace(step, trigger="VoteGranted", amount=1, reaction=reaction),
        ]
    return faults, random.random() < 0.6


def draw_fault(random: Random, at_ms: int, kind: FaultKind, servers: int, clients: int) -> Fault:
    """Draw a fault of a kind, with all its fields."""
    of_client = kind.value.startswith("client") or kind.value.endswith("client")
    target = random.randint(1, clients if of_client else servers)
    lasts_ms = random.choice([10, 100, 500, 1_500, 3_000])
    others = tuple(sorted(random.sample(range(1, servers + 1), random.randint(1, servers))))
    if kind in _OF_TRACKERS:
        target = random.choice([0, 0, target])
        lasts_ms = random.choice([500, 3_000, 6_000])
    if kind in (FaultKind.CUT_ONE_WAY, FaultKind.BREAK, FaultKind.SLOW_LINK):
        others = (random.randint(1, servers),)
    if kind not in _NAMES_OTHERS or (kind is FaultKind.PART and random.random() < 0.6):
        others = ()
    draw = _AMOUNTS.get(kind)
    return Fault(at_ms, kind, target, others, lasts_ms, draw(random) if draw else 0)


_NAMES_OTHERS = frozenset(
    {
        FaultKind.BLACKOUT,
        FaultKind.CUT,
        FaultKind.CUT_ONE_WAY,
        FaultKind.SPLIT,
        FaultKind.PART,
        FaultKind.BREAK,
        FaultKind.CUT_CLIENT,
        FaultKind.SLOW_LINK,
    }
)

_OF_TRACKERS = (FaultKind.TRACKER_LOST, FaultKind.TRACKER_SLOW, FaultKind.TRACKER_REPEATS)

_HOUR_MS = 3_600_000
_NEAR_THE_END_MS = [-400, -200, -50, -20, -5, 5, 50, 300, 300, 1_000]

_AMOUNTS: dict[FaultKind, Callable[[Random], int]] = {
    FaultKind.PART: lambda random: random.randint(0, 15),
    FaultKind.CUT_CLIENT: lambda random: random.randint(0, 2),
    FaultKind.CLIENT_WAKES: lambda random: random.choice(_NEAR_THE_END_MS),
    FaultKind.CLIENT_RETURNS: lambda random: random.choice(_NEAR_THE_END_MS),
    FaultKind.SLOW_LINK: lambda random: random.choice([10, 30, 100]),
    FaultKind.SLOW_SERVER: lambda random: random.choice([10, 30, 100]),
    FaultKind.SLOW_DISK: lambda random: random.choice([50, 300, 1_500]),
    FaultKind.FLIP_OLD: lambda random: random.randint(0, 999),
    FaultKind.TRACKER_SLOW: lambda random: random.choice([50, 100, 300, 900, 1_500]),
    FaultKind.SNAPSHOTTER_SLOW: lambda random: random.choice([50, 300, 1_500]),
    FaultKind.WALL_JUMP: lambda random: random.randint(-5 * _HOUR_MS, 5 * _HOUR_MS),
}
