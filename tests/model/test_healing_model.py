"""Two keepers in a small world of nodes, disks and servers, against chance.

The keepers are `Healing`. Nodes die, seem to be dead, and return with their old disks under other
ids; servers are cut off; leaders change; clocks jump; sessions of keepers end while they stand
still between two steps, after which they go on; operators drain nodes.

Checked at every step: one move at a time, and each with a majority; the limits of moves, by the
ensemble's clock and by that of a keeper; no voter is ended that its leader hears (a lost one) or
that the majority needs; no new folder on a node with a server. At the end, with nodes enough, every
voter votes.
"""

from collections.abc import Iterator
from random import Random

import pytest

from raykeeper.clusters.healing.healing import Healing
from raykeeper.clusters.healing.vocabulary import (
    AskNodes,
    Cause,
    Decision,
    Effect,
    Entry,
    HealSettings,
    Move,
    Note,
    SaveSeats,
    SetAside,
    Step,
    Undo,
    View,
)
from raykeeper.zab.ids import Millis, ServerId
from tests.model.healing_world import EVENTS, HOUR, VOTERS, World, bring_peace, ray_restarts

SEEDS = 60
STEPS = 1_500
SETTINGS = HealSettings(
    voters=VOTERS,
    heal_after_ms=Millis(30_000),
    pause_ms=Millis(60_000),
    moves_per_hour=4,
    node_age_ms=Millis(10_000),
    vote_wait_ms=Millis(60_000),
    stale_after_s=7,
)


class Keeper:
    """One process with `Healing`; each call of the iterator is one step of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ahead = world.random.randrange(10**6)
        self.leadership = 0
        self.steps = self.run()
        self.began_at: list[int] = []
        self.healing: Healing | None = None

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
            self.healing = Healing(SETTINGS, world.entries, world.seats, self.now())
            try:
                while True:
                    yield
                    self.check()
                    view = world.view()
                    yield from self.perform(self.healing.look(view, self.now()), view)
            except Deposed:
                self.healing = None

    def check(self) -> None:
        if not self.holds():
            raise Deposed

    def perform(self, effects: list[Effect], view: View) -> Iterator[None]:
        assert self.healing is not None
        for effect in effects:
            check_sight(effect, view)
            yield
            match effect:
                case SaveSeats():
                    yield from self.await_majority()
                    self.world.seats = dict(effect.seats)
                case AskNodes():
                    yield from self.await_majority()
                    survey = self.world.survey()
                    yield
                    follows = self.healing.surveyed(survey, self.now())
                    yield from self.perform(follows, view)
                case Note():
                    yield from self.await_majority()
                    entry = self.note(effect.decision)
                    yield
                    self.healing.noted(entry, self.now())
                case Move() | Undo():
                    self.check()
                    yield  # here it may stand still for long
                    act = self.move if isinstance(effect, Move) else self.undo
                    problems: list[str] = []
                    yield from act(effect.decision, view, problems)
                    yield from self.perform(self.healing.acted("".join(problems)), view)
                case SetAside():
                    self.check()
                    yield
                    self.set_aside_all()

    def await_majority(self) -> Iterator[None]:
        """A write waits for a majority, and has the condition that the leadership is held."""
        while not self.world.has_majority():
            yield
        self.check()

    def note(self, decision: Decision) -> Entry:
        world = self.world
        last = world.entries[-1].decision if world.entries else None
        is_open = last is not None and last.step in (Step.BEGUN, Step.STARTED)
        entry = Entry(world.number(), world.time(), decision)
        if decision.step is Step.BEGUN:
            assert not is_open, "two moves at a time"
            self.check_limits(entry)
        else:
            assert is_open and last is not None and last.server == decision.server
        world.entries = [*world.entries, entry][-100:]
        return entry

    def check_limits(self, entry: Entry) -> None:
        if entry.decision.cause is Cause.DRAINED:
            return
        begun = [e.time_ms for e in self.world.entries if e.decision.step is Step.BEGUN]
        assert not begun or entry.time_ms - begun[-1] >= SETTINGS.pause_ms, "too soon"
        recent = [time for time in begun if entry.time_ms - time < HOUR]
        assert len(recent) < SETTINGS.moves_per_hour, "too many"
        assert not self.began_at or self.world.now - self.began_at[-1] >= SETTINGS.pause_ms
        self.began_at.append(self.world.now)

    def move(self, decision: Decision, view: View, problems: list[str]) -> Iterator[None]:
        world, server = self.world, decision.server
        running = world.answers().get(server)
        if running is not None and (
            running.node != decision.source or decision.source == decision.target
        ):
            return
        if running is not None and server in world.voting():
            assert decision.cause is not Cause.LOST, "ended a voter that is heard"
            assert len([v for v in view.voting if v != server]) > len(VOTERS) // 2, "needed"
        world.end(server)
        yield
        self.start(server, decision.target, decision.source, problems)

    def undo(self, decision: Decision, view: View, problems: list[str]) -> Iterator[None]:
        world, server = self.world, decision.server
        running = world.answers().get(server)
        if running is not None and running.node != decision.target:
            return
        world.end(server)
        yield
        if not world.has_majority() or server in world.heard():
            problems.append("not certain")
            return
        target = world.nodes[decision.target]
        if target.is_alive and target.is_up:
            self.set_aside(target.machine, server)
        yield
        self.start(server, None, None, problems)

    def start(
        self, server: ServerId, target: str | None, source: str | None, problems: list[str]
    ) -> None:
        world = self.world
        named = world.named[server]
        if not world.has_majority():
            problems.append("not certain")
            return
        nodes = [
            name
            for name in world.alive()
            if world.nodes[name].is_up and (name != source or source == target)
        ]
        holders = [n for n in nodes if world.disks[world.nodes[n].machine].get(server) == named]
        if holders:
            world.start(server, holders[0])
        elif target is not None and target in nodes:
            others = [s for s, node in world.pinned.items() if node == target and s in world.actors]
            assert not self.holds() or set(others) <= {server}, "two servers on one node"
            world.start(server, target)
        elif target is not None:
            problems.append("gone")

    def set_aside(self, machine: int, server: ServerId) -> None:
        folder = self.world.disks[machine]
        disk = folder.get(server)
        is_locked = any(each.disk == disk for each in self.world.processes)
        if disk is not None and disk != self.world.named[server] and not is_locked:
            del folder[server]

    def set_aside_all(self) -> None:
        if self.world.has_majority():
            for name in self.world.alive():
                for server in self.world.voting():
                    self.set_aside(self.world.nodes[name].machine, server)


def check_sight(effect: Effect, view: View) -> None:
    """What a keeper does rests on what it saw last."""
    if not isinstance(effect, Note | Move | Undo):
        return
    decision = effect.decision
    assert not view.doubt, "without a majority"
    if isinstance(effect, Undo) or decision.step is not Step.BEGUN:
        return
    assert view.nodes[decision.target], "to a node that is dead"
    if decision.cause is Cause.LOST:
        assert decision.server not in view.heard, "a lost server that is heard"
        assert not view.nodes[decision.source] or decision.server in view.absent


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
        if not any(k.healing is not None and k.holds() for k in keepers):
            world.holder = 0  # the session of the keeper that led has ended
        next(random.choice(keepers).steps)
    return world


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_two_keepers_against_chance(first: int) -> None:
    steps: list[Step] = []
    for seed in range(first, first + 20):
        world = play(seed)
        assert world.voting() == list(VOTERS), f"seed {seed}: {world.view()}, {world.entries[-3:]}"
        steps += [entry.decision.step for entry in world.entries]
    # Not all is quiet.
    assert steps.count(Step.DONE) > 20
    assert steps.count(Step.UNDONE) > 2
