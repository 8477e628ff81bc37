"""The next act of a change: a table, and whole changes with crashes of the caller at every act."""

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from raykeeper.clusters.member_steps.next_act import next_act
from raykeeper.clusters.member_steps.planning import (
    Known,
    Request,
    demotion,
    plan_change,
    removal,
    replacement,
    undone,
)
from raykeeper.clusters.member_steps.vocabulary import (
    Act,
    Done,
    End,
    HandOver,
    Members,
    Plan,
    ServerView,
    Start,
    Step,
    View,
    Wait,
)
from raykeeper.zab.ids import ServerId

S1, S2, S3, S4, S5 = (ServerId(number) for number in range(1, 6))
WELL, STARTING, LOST = ServerView(), ServerView(problem="starts"), ServerView(is_lost=True)
ENDED = ServerView(problem="has ended")


def ids(*numbers: int) -> tuple[ServerId, ...]:
    return tuple(ServerId(number) for number in numbers)


def members(voters: tuple[int, ...], observers: tuple[int, ...] = ()) -> Members:
    return Members(ids(*voters), ids(*observers))


def known(before: Members) -> Known:
    return Known(members=before, leader=S1, working=before.servers)


def planned(request: Request, before: Members) -> Plan:
    plan = plan_change(request, known(before), "me")
    assert plan is not None
    return plan


THREE, ONE = members((1, 2, 3)), members((1,))
GROWS = planned(Request(voters=4), THREE)
SWAPS = planned(replacement(S1, None, known(THREE)), THREE)
SWAPS_ONE = planned(replacement(S1, S4, known(ONE)), ONE)
LEAVES = planned(removal(S1, known(THREE)), THREE)
ENDS = planned(removal(S4, replace(known(THREE), running=(S1, S2, S3, S4))), THREE)
DEMOTED = planned(demotion(S1, known(THREE)), THREE)
PINNED = replace(GROWS, nodes={S4: "n4"})
OBSERVED = members((1, 2, 3), (4,))
RUNNING = {S1: WELL, S2: WELL, S3: WELL}
WITH_4 = {**RUNNING, S4: WELL}


def view(
    now: Members, servers: dict[ServerId, ServerView] = RUNNING, leader: int = 1, **more: str
) -> View:
    return View(members=now, leader=ServerId(leader), servers=servers, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "seen", "act"),
    [
        # Nothing happens without a leader, or while a step is open.
        (GROWS, View(members=THREE, doubt="no leader answers"), Wait("no leader answers")),
        (
            GROWS,
            view(THREE, open_step="server 4 joins"),
            Wait("a step is open: server 4 joins"),
        ),
        # A newcomer is started, follows, is added, and gets a vote.
        (GROWS, view(THREE), Start(S4, "")),
        (PINNED, view(THREE), Start(S4, "n4")),
        (GROWS, view(THREE, {**RUNNING, S4: LOST}), Start(S4, "", is_again=True)),
        (GROWS, view(THREE, {**RUNNING, S4: STARTING}), Wait("server 4 starts")),
        (GROWS, view(THREE, WITH_4), Step(S4, as_observer=True)),
        (GROWS, view(OBSERVED, WITH_4), Step(S4)),
        (GROWS, view(OBSERVED, {**RUNNING, S4: STARTING}), Wait("server 4 starts")),
        (GROWS, view(OBSERVED), Start(S4, "")),
        (GROWS, view(OBSERVED, {**RUNNING, S4: LOST}), Start(S4, "", is_again=True)),
        (GROWS, view(members((1, 2, 3, 4)), WITH_4), Done()),
        # One that votes is not this change's to start again.
        (GROWS, view(members((1, 2, 3, 4))), Done()),
        # In the place of another; a leader hands over first, to one that stays.
        (SWAPS, view(OBSERVED, WITH_4, leader=2), Step(S4, S1)),
        (SWAPS, view(OBSERVED, WITH_4), HandOver(S1, S2)),
        (SWAPS, view(OBSERVED, {**WITH_4, S2: STARTING}), HandOver(S1, S3)),
        (SWAPS, view(members((2, 3, 4)), WITH_4, leader=2), End(S1)),
        (SWAPS, view(members((2, 3, 4)), {S2: WELL, S3: WELL, S4: WELL}, leader=2), Done()),
        # The only voter can hand over only to the newcomer.
        (SWAPS_ONE, view(members((1,), (4,)), WITH_4), Step(S4)),
        (SWAPS_ONE, view(members((1, 4)), WITH_4), HandOver(S1, S4)),
        (SWAPS_ONE, view(members((1, 4)), WITH_4, leader=4), Step(leaving=S1)),
        # Another one has taken that place already.
        (SWAPS, view(members((2, 3), (4,)), WITH_4, leader=2), End(S1)),
        (SWAPS, view(members((2, 3), (4,)), {S4: WELL}, leader=2), Step(S4)),
        # Leaving and losing the vote.
        (LEAVES, view(THREE), HandOver(S1, S2)),
        (
            LEAVES,
            view(THREE, {S1: WELL}),
            Wait("server 1 leads, and no other voter is there to take over"),
        ),
        (LEAVES, view(THREE, leader=2), Step(leaving=S1)),
        (LEAVES, view(members((2, 3)), leader=2), End(S1)),
        (DEMOTED, view(THREE), HandOver(S1, S2)),
        (DEMOTED, view(THREE, leader=3), Step(S1, as_observer=True)),
        (DEMOTED, view(members((2, 3), (1,)), leader=3), Done()),
        (ENDS, view(THREE, WITH_4), End(S4)),
        (ENDS, view(THREE), Done()),
        # Of several that leave: observers, then voters that do not work, then the others.
        (
            planned(Request(voters=ids(1), observers=0), OBSERVED),
            view(OBSERVED, WITH_4),
            Step(leaving=S4),
        ),
        (
            planned(Request(voters=ids(1)), THREE),
            view(THREE, {S1: WELL, S2: WELL}),
            Step(leaving=S3),
        ),
        # Back: a newcomer leaves, whether it is a member or not.
        (undone(GROWS, THREE), view(THREE, WITH_4), End(S4)),
        (undone(GROWS, OBSERVED), view(OBSERVED, WITH_4), Step(leaving=S4)),
        (undone(GROWS, THREE), view(THREE), Done()),
        # The step that takes server 1 out came about after it was given up: its heir stays.
        (undone(SWAPS, OBSERVED), view(members((2, 3, 4)), WITH_4, leader=2), End(S1)),
        (
            undone(SWAPS, OBSERVED),
            view(members((2, 3, 4)), {S2: WELL, S3: WELL, S4: WELL}, leader=2),
            Done(),
        ),
        # What others have added stays.
        (GROWS, view(members((1, 2, 3, 4, 5)), {**WITH_4, S5: WELL}), Done()),
    ],
)
def test_the_next_act(plan: Plan, seen: View, act: Act) -> None:
    assert next_act(plan, seen) == act


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step(S4, as_observer=True), "server 4 becomes an observer"),
        (Step(S4), "server 4 becomes a voter"),
        (Step(S4, S1), "server 4 takes the place of server 1"),
        (Step(leaving=S1), "server 1 leaves"),
    ],
)
def test_a_step_in_words(step: Step, words: str) -> None:
    assert str(step) == words


class World:
    """An ensemble that does steps as the leader of a real one, and loses things at random."""

    def __init__(self, before: Members, chance: random.Random) -> None:
        self.chance = chance
        self.now = before
        self.leader = chance.choice(before.voters)
        self.running = dict.fromkeys(before.servers, WELL)
        self.gone: set[ServerId] = set()
        self.fewest = len(before.voters)
        self.on_its_way: tuple[Step, Members] | None = None
        """A step that a killed caller has asked for, and the list on which it was decided."""

    def view(self) -> View:
        if self.on_its_way is not None and self.chance.random() < 0.3:
            step, decided_on = self.on_its_way
            self.on_its_way = None
            if decided_on == self.now:
                self._reconfigure(step)
        roll = self.chance.random()
        if roll < 0.1:
            return View(members=self.now, doubt="no leader answers")
        if roll < 0.15:
            self.leader = self.chance.choice(self.now.voters)
        newcomers = [each for each in self.running if each not in self.now.voters]
        if roll > 0.95 and newcomers:
            self.running[self.chance.choice(newcomers)] = LOST
        step = "a step" if roll > 0.85 else ""
        return View(members=self.now, leader=self.leader, open_step=step, servers=self.running)

    def do(self, act: Act) -> None:
        """Do an act, or not; what was asked of a deposed leader has no effect."""
        if self.chance.random() < 0.2:
            if isinstance(act, Step):
                self.on_its_way = act, self.now
            return
        match act:
            case Start():
                assert act.is_again is (act.server in self.running), act
                assert act.server not in self.now.voters
                assert act.server not in self.gone, "it has left"
                self.running[act.server] = self.chance.choice((WELL, STARTING))
            case Step():
                self._reconfigure(act)
            case HandOver():
                assert act.to in self.now.voters
                self.leader = act.to
            case End():
                assert act.server not in self.now.servers
                del self.running[act.server]
            case Wait():
                self.running = {
                    server: WELL if seen == STARTING else seen
                    for server, seen in self.running.items()
                }

    def _reconfigure(self, step: Step) -> None:
        voters, observers = {*self.now.voters}, {*self.now.observers}
        if self.leader == step.leaving or (self.leader == step.joining and step.as_observer):
            return
        for server in (step.joining, step.leaving):
            voters.discard(server)
            observers.discard(server)
        if step.joining and step.as_observer:
            observers.add(step.joining)
        elif step.joining:
            if self.running.get(step.joining) != WELL:
                return
            assert step.joining in self.now.observers
            voters.add(step.joining)
        before, self.now = self.now, Members(tuple(sorted(voters)), tuple(sorted(observers)))
        left = {*before.servers} - {*self.now.servers}
        self.gone |= left
        self.running |= {server: ENDED for server in left if server in self.running}
        self.fewest = min(self.fewest, len(voters))


def drawn(chance: random.Random) -> tuple[Members, Plan]:
    every = ids(*range(1, 1 + chance.randint(1, 7)))
    count = chance.randint(1, len(every))
    before = Members(every[:count], every[count:])
    while True:
        pool = ids(*range(1, 10))
        voters = tuple(chance.sample(pool, chance.randint(1, 6)))
        rest = [server for server in pool if server not in voters]
        observers = tuple(chance.sample(rest, chance.randint(0, min(2, len(rest)))))
        plan = plan_change(Request(voters=voters, observers=observers), known(before), "me")
        if plan is not None:
            return before, plan


def acts(plan: Plan, world: World) -> Iterator[Act]:
    while True:
        act = next_act(plan, world.view())
        yield act
        if isinstance(act, Done):
            return


@pytest.mark.parametrize("seed", range(300))
def test_a_change_ends_however_often_its_caller_is_killed(seed: int) -> None:
    """Each act is done or not, and the next caller knows no more than the plan.

    Some are undone on the way: the ensemble is as before, but for servers that have left. At no
    time are there fewer voters than before or after.
    """
    chance = random.Random(seed)
    before, plan = drawn(chance)
    world = World(before, chance)
    undo_at = chance.choice([None, chance.randint(1, 40)])
    for count, act in enumerate(acts(plan, world)):
        assert count < 2_000, (seed, plan, world.now)
        if count == undo_at:
            break
        world.do(act)
    fewest = min(len(before.voters), len(plan.target.voters))
    if undo_at is not None:
        plan = undone(plan, world.now)
        for count, act in enumerate(acts(plan, world)):
            assert count < 2_000, (seed, plan, world.now)
            world.do(act)
        gone = {*before.servers} - {*world.now.servers}
        assert {*world.now.servers} - {*before.servers} <= {*plan.replaced}
        if not gone:
            assert world.now == before
    expected = undone(plan, world.now) if plan.is_undone else plan
    assert world.now == expected.target
    assert {*world.running} <= {*world.now.servers}
    assert world.fewest >= min(fewest, len(world.now.voters))
