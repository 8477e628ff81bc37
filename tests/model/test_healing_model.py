"""Two keepers in a small world of nodes, disks and servers, against chance.

The keepers are `KeeperLoop`. Nodes die, seem to be dead, and return with their old disks under
other ids; servers are cut off; leaders change; clocks jump; sessions of keepers end while they
stand still between two steps, after which they go on; operators drain nodes.

Checked at every step: one move at a time, and each with a majority; the limits of moves, by the
ensemble's clock and by that of a keeper; no voter is ended that its leader hears (a lost one) or
that the majority needs; no new folder on a node with a server. At the end, with nodes enough, every
voter votes.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from raykeeper.clusters.healing.keeper_loop import BUSY_PAUSE_MS, PAUSE_MS, KeeperLoop
from raykeeper.clusters.healing.move_steps import MoveError
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Cause,
    Decision,
    Entry,
    ForgetDrains,
    HealSettings,
    KeeperStep,
    Kill,
    Log,
    MoveStep,
    Observe,
    Pause,
    ReadClock,
    RemoveStaleFolders,
    SaveLocations,
    SetFolderAside,
    Start,
    Stop,
    View,
    WriteDecision,
)
from raykeeper.zab.ids import Millis
from tests.model.healing_world import (
    EVENTS,
    HOUR,
    VOTERS,
    Process,
    World,
    bring_peace,
    ray_restarts,
)

SEEDS = 60
STEPS = 1_500
SETTINGS = HealSettings(
    heal_after_ms=Millis(30_000),
    pause_ms=Millis(60_000),
    moves_per_hour=4,
    node_age_ms=Millis(10_000),
    vote_wait_ms=Millis(60_000),
    stale_after_s=7,
)


class Keeper:
    """One process with `KeeperLoop`; each call of the iterator is one step of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ahead = world.random.randrange(10**6)
        self.leadership = 0
        self.steps = self.run()
        self.began_at: list[int] = []
        self.loop: KeeperLoop | None = None
        self.view: View | None = None
        """What the decisions rest on: the last look before them."""
        self.is_deciding = True

    def now(self) -> Millis:
        return Millis(self.world.now - self.ahead)

    def holds(self) -> bool:
        return self.leadership == self.world.holder

    def run(self) -> Iterator[None]:
        world = self.world
        while True:
            yield
            if world.holder or not world.has_majority():
                continue
            self.leadership = world.holder = world.number()
            self.began_at = []
            self.loop = KeeperLoop(SETTINGS, world.entries, world.locations, self.now())
            with suppress(Deposed):
                yield from self.lead(self.loop)
            self.loop = None

    def lead(self, loop: KeeperLoop) -> Iterator[None]:
        steps = loop.steps()
        step = next(steps)
        self.is_deciding = True
        while True:
            if not isinstance(step, ReadClock):
                yield
            try:
                answer = yield from self.do(loop, step)
            except MoveError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)

    def check(self) -> None:
        if not self.holds():
            raise Deposed

    def do(self, loop: KeeperLoop, step: KeeperStep) -> Generator[None, None, Any]:
        world = self.world
        match step:
            case ReadClock():
                return self.now()
            case Pause():
                self.is_deciding = step.ms in (PAUSE_MS, BUSY_PAUSE_MS)
            case ForgetDrains() | Log():
                pass
            case Observe():
                self.check()
                view = world.view()
                if self.is_deciding:
                    self.view, self.is_deciding = view, False
                return view
            case SaveLocations():
                yield from self.await_majority()
                world.locations = dict(step.locations)
                return world.time()
            case AskNodes():
                yield from self.await_majority()
                return world.survey()
            case WriteDecision():
                assert self.view is not None
                check_sight(step.decision, self.view)
                yield from self.await_majority()
                return self.note(step.decision)
            case _:
                self.check()
                yield  # here it may stand still for long
                return self.act(step, loop)
        return None

    def await_majority(self) -> Iterator[None]:
        """A write waits for a majority, and has the condition that the leadership is held."""
        while not self.world.has_majority():
            yield
        self.check()

    def note(self, decision: Decision) -> Entry:
        world = self.world
        last = world.entries[-1].decision if world.entries else None
        is_open = last is not None and last.step in (MoveStep.BEGUN, MoveStep.STARTED)
        entry = Entry(world.number(), world.time(), decision)
        if decision.step is MoveStep.BEGUN:
            assert not is_open, "two moves at a time"
            self.check_limits(entry)
            world.begun_at[entry.number] = world.now
        else:
            assert is_open and last is not None and last.server == decision.server
        world.entries = [*world.entries, entry][-100:]
        return entry

    def check_limits(self, entry: Entry) -> None:
        if entry.decision.cause is Cause.DRAINED:
            return
        # By one of the clocks: the ensemble's time jumps with its leaders, or stands still.
        now, world = self.world.now, self.world
        begun = [each for each in world.entries if each.decision.step is MoveStep.BEGUN]
        ages = [max(entry.time_ms - e.time_ms, now - world.begun_at[e.number]) for e in begun]
        assert not ages or ages[-1] >= SETTINGS.pause_ms, "too soon"
        assert len([age for age in ages if age < HOUR]) < SETTINGS.moves_per_hour, "too many"
        assert not self.began_at or self.world.now - self.began_at[-1] >= SETTINGS.pause_ms
        self.began_at.append(self.world.now)

    def act(self, step: KeeperStep, loop: KeeperLoop) -> Any:
        world = self.world
        match step:
            case Stop():
                running = world.actors.get(step.server)
                if running is not None and running.actor == step.actor and not running.is_cut_off:
                    if not self.holds():
                        raise MoveError("another keeper leads")
                    self.check_end(running, loop.healing.entries[-1].decision)
            case Kill():
                running = world.actors.get(step.server)
                if running is not None and running.actor == step.actor and self.holds():
                    self.check_end(running, loop.healing.entries[-1].decision)
                world.end(step.server, step.actor)
            case Start():
                self.start(step)
            case SetFolderAside():
                return self.set_aside(step)
            case RemoveStaleFolders():
                return []
        return None

    def check_end(self, process: Process, decision: Decision) -> None:
        """What a keeper that leads ends rests on what it saw last."""
        if process.server in self.world.voting() and decision.target != process.node:
            assert self.view is not None
            assert decision.cause is not Cause.LOST, "ended a voter that is heard"
            others = [voter for voter in self.view.voting if voter != process.server]
            assert len(others) > len(VOTERS) // 2, "needed"

    def start(self, step: Start) -> None:
        world, server = self.world, step.server
        nodes = [name for name in step.nodes if name in world.alive() and world.nodes[name].is_up]
        if not nodes:
            raise MoveError("gone")
        if not step.has_disk:
            others = [
                s for s, node in world.pinned.items() if node == nodes[0] and s in world.actors
            ]
            assert not self.holds() or set(others) <= {server}, "two servers on one node"
        world.start(server, nodes[0])

    def set_aside(self, step: SetFolderAside) -> str | None:
        world = self.world
        folder = world.disks[world.nodes[step.node].machine]
        disk = folder.get(step.server)
        if not world.nodes[step.node].is_up:
            raise MoveError("gone")
        if disk is None or disk == step.voting_disk or world.opened.get(disk) != step.incarnation:
            return None
        if any(each.disk == disk for each in world.processes):
            raise MoveError("in use")
        assert world.named[step.server] != disk, "the disk with the vote is set aside"
        del folder[step.server]
        return f"{step.server}.stale"


def check_sight(decision: Decision, view: View) -> None:
    """What a keeper decides rests on what it saw last."""
    assert not view.doubt, "without a majority"
    if decision.step is not MoveStep.BEGUN:
        return
    assert view.nodes[decision.target], "to a node that is dead"
    if decision.cause is Cause.LOST:
        assert decision.server not in view.linked, "a lost server that is heard"
        assert not view.nodes[decision.source] or decision.server not in view.actors


class Deposed(Exception):
    """The keeper has noticed that it leads no longer."""


def play(seed: int) -> World:
    random = Random(seed)
    world = World(random)
    keepers = [Keeper(world), Keeper(world)]
    for _ in range(STEPS):
        if random.random() < 0.12:
            random.choice(EVENTS)(world)
        world.now += random.choice((0, 100, 500, 2_000, 10_000))
        next(random.choice(keepers).steps)
    bring_peace(world)
    for _ in range(4_000):
        world.now += random.choice((500, 30_000))
        ray_restarts(world)
        world.promote()
        if not any(k.loop is not None and k.holds() for k in keepers):
            world.holder = 0  # the session of the keeper that led has ended
        next(random.choice(keepers).steps)
    return world


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_two_keepers_against_chance(first: int) -> None:
    steps: list[MoveStep] = []
    for seed in range(first, first + 20):
        world = play(seed)
        assert world.voting() == list(VOTERS), f"seed {seed}: {world.view()}, {world.entries[-3:]}"
        steps += [entry.decision.step for entry in world.entries]
    # Not all is quiet.
    assert steps.count(MoveStep.DONE) > 20
    assert steps.count(MoveStep.UNDONE) > 2
