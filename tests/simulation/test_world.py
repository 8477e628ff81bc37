"""The simulated world itself: runs are repeatable, and each fault breaks exactly what it says."""

import itertools

import msgspec
import pytest
from msgspec.structs import replace

from raykeeper.clusters.config import make_config
from raykeeper.server.events import DiskSpaceChanged, LogSynced
from raykeeper.zab.effects import Append, SaveEpochs, VoteGranted
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, Epoch, ServerId, Zxid, make_zxid
from raykeeper.zab.trace_events import QUORUM_LOST
from tests.harness.schedule import Schedule
from tests.harness.sim_disk import DiskFailedError, SimDisk
from tests.simulation.campaigns import draw_campaign
from tests.simulation.checks import Checks
from tests.simulation.clock import SimClock
from tests.simulation.damage import Damage
from tests.simulation.draw import draw_plan
from tests.simulation.mutations.catalogue import all_mutations
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.plan import OF_OTHER_WORLDS, Fault, FaultKind, Plan, ServerPlan
from tests.simulation.timing import TimingPlan
from tests.simulation.world import World


def traced(plan: Plan) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    World(plan, lambda at_ms, text: lines.append((at_ms, text))).run()
    return lines


@pytest.mark.parametrize("seed", [7, 11])
def test_a_plan_runs_the_same_way_traced_or_not(seed: int) -> None:
    plan = draw_plan(seed)
    assert traced(plan) == traced(plan)
    assert World(plan).run() == World(plan, lambda _at_ms, _text: None).run()


def test_a_plan_survives_json() -> None:
    for seed in range(20):
        plan = draw_plan(seed)
        assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_every_kind_of_fault_is_drawn_in_time() -> None:
    plans = [draw_plan(seed) for seed in range(300)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(
        FaultKind
    ) - OF_OTHER_WORLDS
    assert all(fault.at_ms < plan.safety_ms for plan in plans for fault in plan.faults)
    mean_ms = sum(plan.safety_ms for plan in plans) / len(plans)
    assert 3_500 < mean_ms < 5_500


def test_drawn_timings_are_valid_and_varied() -> None:
    drawn = [timing for seed in range(300) if (timing := draw_plan(seed).timing) != TimingPlan()]
    assert 60 < len(drawn) < 120
    for timing in drawn:
        make_config(
            {
                "tick_ms": timing.tick_ms,
                "sync_limit": timing.sync_limit,
                "init_limit": timing.init_limit,
                "session_timeout_min_s": timing.session_min_ms / 1000,
                "session_timeout_max_s": timing.session_max_ms / 1000,
            }
        )
    shorter = sum(timing.session_min_ms < timing.sync_ms for timing in drawn)
    assert 20 < shorter < len(drawn) - 20


def test_the_run_before_a_fault_does_not_depend_on_it() -> None:
    plan = replace(draw_plan(3), faults=())
    server = plan.servers[0].server_id
    crash = Fault(plan.safety_ms // 2, FaultKind.CRASH, server, lasts_ms=100)
    with_fault = traced(replace(plan, faults=(crash,)))
    before = [line for line in traced(plan) if line[0] < crash.at_ms]
    assert before == with_fault[: len(before)]
    assert with_fault[len(before)] == (crash.at_ms, f"server {server} crashes")


def test_the_triggered_faults_of_a_campaign_strike_in_turn() -> None:
    drawn = [plan for plan in map(draw_campaign, range(200)) if plan is not None]
    plan = next(plan for plan in drawn if len(plan.faults) == 3)
    injected = [text for _, text in traced(plan) if text.startswith("fault: triggered at ")]
    triggers = [text.removeprefix("fault: triggered at ").split()[0] for text in injected]
    turns = itertools.cycle(fault.trigger for fault in plan.faults)
    assert len(triggers) > 3
    assert triggers == list(itertools.islice(turns, len(triggers)))


def ends_without_majority(seed: int) -> Plan:
    """Return the plan of a seed without faults before the loss of a majority."""
    return replace(draw_plan(seed), faults=(), safety_ms=500, loses_majority=True)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_majority_that_regains_its_disks_loses_nothing(seed: int) -> None:
    report = World(ends_without_majority(seed)).run()
    assert report.counts["majority_lost"] == 1
    is_alone = len(draw_plan(seed).servers) == 1
    assert is_alone or report.notes[QUORUM_LOST] > 0


def failure_of(plan: Plan) -> str:
    try:
        World(plan).run()
    except AssertionError as failure:
        return str(failure)
    return ""


@pytest.mark.parametrize(
    ("mutation", "seen"),
    [
        ("D3: a voter counts on any disk", "Leadership: "),
        ("D3: servers that lost their promises are not remembered", "LostDisks: not all know"),
    ],
)
def test_a_decision_without_a_majority_is_found(mutation: str, seen: str) -> None:
    (found,) = [each for each in all_mutations() if each.name == mutation]
    with found.applied():
        assert any(failure_of(ends_without_majority(seed)).startswith(seen) for seed in range(1, 9))


@pytest.mark.parametrize("drift_ppm", [-25_000, -7, 0, 25_000])
def test_an_awaited_clock_shows_at_least_the_time(
    drift_ppm: int,
) -> None:
    schedule = Schedule(0)
    clock = SimClock(schedule, drift_ppm, 1_000)
    for ahead in range(1, 3_000, 13):
        due = type(clock.mono())(clock.mono() + ahead)
        schedule.now = type(schedule.now)(schedule.now + clock.delay_until(due) - 1)
        assert clock.mono() < due
        schedule.now = type(schedule.now)(schedule.now + 1)
        assert clock.mono() >= due


def z(counter: int) -> Zxid:
    return make_zxid(Epoch(1), counter)


def written(disk: SimDisk, schedule: Schedule, *effects: object) -> list[object]:
    done: list[object] = []
    disk.open(done.extend)
    disk.submit(list(effects))  # type: ignore[arg-type]
    schedule.run_until(type(schedule.now)(schedule.now + 100))
    disk.crash()
    return done


EPOCH_1 = SaveEpochs(Epoch(1), Epoch(1))


def test_a_flipped_bit_of_the_last_force_makes_a_disk_uncertain() -> None:
    schedule = Schedule(0)
    disk = SimDisk(schedule)
    written(disk, schedule, EPOCH_1, Append(z(1), [b"a", b"b"], ZERO))
    assert disk.flip_last()
    recovered = disk.open(lambda _events: None)
    assert recovered.is_uncertain and recovered.disk_id == FOUNDING_DISK
    disk.submit([SaveEpochs(Epoch(2), Epoch(2))])
    schedule.run_until(type(schedule.now)(schedule.now + 100))
    disk.crash()
    assert not disk.open(lambda _events: None).is_uncertain


def test_a_disk_has_its_vote_once_all_servers_know_it() -> None:
    schedule = Schedule(0)
    disk = SimDisk(schedule)
    disk.repair()
    disk.has_vote = lambda: False
    written(disk, schedule, VoteGranted())
    assert disk.is_lost
    disk.has_vote = lambda: True
    written(disk, schedule, VoteGranted())
    assert not disk.is_lost
    disk.has_vote = lambda: False
    written(disk, schedule, VoteGranted())
    assert not disk.is_lost, "it had the vote before; the disk did not change"


def test_a_flipped_bit_of_an_older_force_makes_another_disk() -> None:
    schedule = Schedule(0)
    disk = SimDisk(schedule)
    written(disk, schedule, EPOCH_1, Append(z(1), [b"a"], ZERO))
    assert not disk.flip_old(0.5), "all of it may still be torn"
    written(disk, schedule, Append(z(2), [b"b"], ZERO))
    assert disk.flip_old(0.5) and disk.is_lost
    recovered = disk.open(lambda _events: None)
    assert recovered.disk_id != FOUNDING_DISK
    assert (recovered.runs, recovered.accepted) == ([], 0)


def test_a_disk_has_one_process_and_its_incarnations_grow() -> None:
    schedule = Schedule(0)
    disk = SimDisk(schedule)
    disk.open(lambda _events: None)
    with pytest.raises(DiskFailedError, match="another process"):
        disk.open(lambda _events: None)
    disk.crash()
    before = disk.incarnation
    disk.repair()
    old = disk.take_old()
    assert old is not None
    old.open(lambda _events: None)
    assert old.incarnation > before, "it was held by nobody"
    schedule.run_until(type(schedule.now)(schedule.now + 10))
    disk.open(lambda _events: None)
    assert disk.incarnation > old.incarnation


def test_an_older_process_gets_no_link_beside_a_newer_one() -> None:
    plan = draw_plan(1)
    faults = tuple(Fault(1_000, FaultKind.SECOND_DISK, server, (), 100) for server in (1, 2))
    said: list[str] = []
    world = World(replace(plan, faults=faults), lambda _at, text: said.append(text))
    assert len(plan.servers) > 2
    world.run()
    assert world.faults.injected["second_disk"] == 1, "two disks of three may not be lost at once"
    assert any("server 3 takes no link: incarnation" in text for text in said)


def test_a_full_disk_is_reported_while_a_segment_is_left() -> None:
    schedule = Schedule(0)
    disk = SimDisk(schedule, segment_bytes=100)
    told: list[object] = []
    disk.open(told.extend)
    disk.log_space.is_full = True
    disk.submit([Append(z(1), [b"x" * 50], ZERO)])
    schedule.run_until(type(schedule.now)(100))
    assert told == [LogSynced(z(1)), DiskSpaceChanged(False)]
    disk.submit([Append(z(2), [b"y" * 50], ZERO)])
    with pytest.raises(DiskFailedError, match="all room"):
        schedule.run_until(type(schedule.now)(200))


def test_no_more_disks_are_lost_than_a_minority() -> None:
    schedule = Schedule(0)
    plans = [ServerPlan(i, i <= 3, 0, 0, 50, 50, 50_000, 10_000) for i in range(1, 5)]
    voters = (ServerId(1), ServerId(2), ServerId(3))
    network, checks = Network(schedule, 1), Checks(schedule)
    nodes = [Node(plan, voters, TimingPlan(), schedule, network, checks) for plan in plans]
    damage = Damage(nodes)
    assert damage.may_lose(nodes[0])
    nodes[0].disk.repair()
    assert damage.may_lose(nodes[0]), "it is lost already"
    assert not damage.may_lose(nodes[1])
    assert not damage.may_be_uncertain(nodes[1]), "one healthy voter would be left"
    assert damage.may_lose(nodes[3]), "it never had a vote"
