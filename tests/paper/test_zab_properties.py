"""Zab's properties under random faults, and its return to work once they stop.

Paper: Zab, section III (the properties) and V (liveness). After every step the checks of
`zab_properties` run; a failing seed is repeated by `python -m tests.paper.test_zab_properties N`.
"""

import sys
from random import Random

import pytest

from raykeeper.zab.effects import Effect, InstallSnapshot, SaveEpochs, Send, Truncate
from raykeeper.zab.ids import ServerId
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    Diff,
    LeaderInfo,
    NewLeader,
    Snapshot,
    SnapshotEnd,
    Trunc,
    UpToDate,
)
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.zab_world import ZabServer, ZabWorld

ENSEMBLES = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 0), (3, 1), (3, 2), (4, 1), (5, 0), (5, 2)]
ACTIVE_WITHIN_MS = 5_000
CONVERGED_WITHIN_MS = 12_000


def make_world(seed: int) -> ZabWorld:
    random = Random(seed)
    voters, learners = ENSEMBLES[seed % len(ENSEMBLES)]
    window = random.choice(
        [RecentLogLimits(), RecentLogLimits(3, 1 << 20, 1 << 20), RecentLogLimits(3, 40, 100)]
    )
    world = ZabWorld(random, voters, learners, window)
    world.latency_ms = random.choice([0, 2, 20, 80])
    world.disk_ms = random.choice([0, 3, 30, 200])
    world.notice_ms = random.choice([0, 50, 500, 2_000])
    return world


def disturb(world: ZabWorld) -> None:
    """One thing goes wrong, or right."""
    random = world.random
    ids = list(world.servers)
    who = random.choice(ids)
    other = random.choice([i for i in ids if i != who] or [who])
    what = random.random()
    server = world.servers[who]
    if what < 0.15:
        world.crash(who)
    elif what < 0.40:
        if server.peer is None:
            world.start(who)
    elif what < 0.48 and other != who:
        world.cut(who, other)
    elif what < 0.54:
        side = random.sample(ids, random.randint(1, (len(ids) + 1) // 2))
        for peer in ids:
            for mate in side:
                if peer not in side:
                    world.cut(mate, peer)
                    world.cut(peer, mate)
    elif what < 0.66:
        world.heal()
    elif what < 0.76:
        world.flap(who, other)
    elif what < 0.80:
        pause = world.now + random.choice([50, 700, 3_000])
        server.paused_until = max(server.paused_until, pause)
    elif what < 0.84:
        server.slow_until = world.now + random.choice([100, 1_500])
    elif what < 0.88:
        world.event(server, lambda peer, now: peer.step_down("asked to", now))
    elif what < 0.96:
        world.take_snapshot(who)
    elif what < 0.97:
        for i in ids:
            world.crash(i)
    elif what < 0.975 and world.wiped < len(world.voters) - world.quorum.size:
        world.wipe(who)


CRITICAL = (
    *(AckEpoch, AckNewLeader, Diff, LeaderInfo, NewLeader, Snapshot, SnapshotEnd, Trunc, UpToDate),
)


def lie_in_wait(world: ZabWorld, chance: float) -> None:
    """Strike where it hurts: at the steps of a recovery, and between the disk's."""
    random = world.random

    def restart(server_id: ServerId) -> None:
        if world.servers[server_id].peer is None:
            world.start(server_id)

    def strike(victim: ServerId, other: ServerId) -> None:
        if random.random() < 0.7:
            world.crash(victim)
            world.after(random.choice([1, 30, 400]), lambda: restart(victim))
        elif victim != other:
            world.flap(victim, other)

    def ambush(server: ZabServer, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, CRITICAL):
            sides = [server.id, effect.peer]
        elif isinstance(effect, SaveEpochs | Truncate | InstallSnapshot):
            sides = [server.id, random.choice(list(world.servers))]
        else:
            return
        if random.random() < chance:
            random.shuffle(sides)
            world.after(random.choice([0, 0, 1, 3, 10]), lambda: strike(*sides))

    world.ambush = ambush


def work(world: ZabWorld) -> None:
    """Clients write and read wherever somebody believes to lead."""
    for leader in world.leaders():
        if world.random.random() < 0.7:
            world.propose(leader, world.random.randint(1, 3))
        if world.random.random() < 0.3:
            world.read(leader)


def run_safety(world: ZabWorld) -> None:
    for server_id in world.servers:
        world.start(server_id)
    calm = world.random.choice([60, 250, 800])
    if world.random.random() < 0.6:
        lie_in_wait(world, world.random.choice([0.02, 0.1, 0.25]))
    for _ in range(world.random.randint(10, 60)):
        for _ in range(world.random.randint(0, 4)):
            world.run_until(world.now + world.random.randint(0, calm))
            work(world)
        disturb(world)


def run_liveness(world: ZabWorld) -> int:
    """Faults stop; how long it takes until a leader works, after everything was noticed."""
    world.ambush = None
    world.heal()
    for server_id, server in world.servers.items():
        if server.peer is None:
            world.start(server_id)
    quiet = max([world.now, *(max(s.paused_until, s.slow_until) for s in world.servers.values())])
    begin = quiet + world.notice_ms + 10 * world.disk_ms + 10 * world.latency_ms
    world.run_until(begin)
    before = len(world.properties.committed)
    while len(world.properties.committed) == before:
        assert world.now < begin + ACTIVE_WITHIN_MS, "nobody leads"
        world.run_until(world.now + 20)
        for leader in world.leaders():
            world.propose(leader, 1)
    took = world.now - begin
    world.run_until(world.now + CONVERGED_WITHIN_MS)
    leaders = [i for i in world.leaders() if world.propose(i, 1)]
    assert len(leaders) == 1, leaders
    world.run_until(world.now + 600 + 4 * world.disk_ms + 4 * world.latency_ms)
    for server in [each for each in world.servers.values() if each.id not in world.gone]:
        assert server.peer is not None and server.peer.is_active, server.id
        assert server.applied == len(world.properties.committed), server.id
        assert server.disk.entries == world.properties.committed, server.id
    return took


def run(seed: int) -> tuple[ZabWorld, int]:
    world = make_world(seed)
    run_safety(world)
    return world, run_liveness(world)


BATCH = 20


@pytest.mark.parametrize("batch", range(15))
def test_properties_hold_under_faults_and_work_goes_on_after_them(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        try:
            run(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


if __name__ == "__main__":
    world = make_world(int(sys.argv[1]))
    world.trace = []
    try:
        run_safety(world)
        run_liveness(world)
    finally:
        sys.stdout.write("\n".join(world.trace) + "\n")
