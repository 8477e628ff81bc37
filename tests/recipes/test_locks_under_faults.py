"""Everything that is held, under a random course of faults, judged from outside.

Members acquire, wait, give up and release; links break, processes stand still and die, time passes.
After each step: nobody holds what excludes another holder, by the holders' own word; tokens grow.
At the end, when everything works again: everybody who waits gets its turn, and nothing is left.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from raykeeper.client.core.public_types import ClientState
from raykeeper.client.errors import (
    ConnectionLossError,
    LostError,
    SessionExpiredError,
    WaitTimeoutError,
)
from tests.harness.recipe_stage import Member, Outcome, RecipeStage
from tests.recipes.giving_up import places, watches

ME = b"held by me"
MEMBERS = 5
PATHS = ["/locks/a", "/locks/b", "/locks/c"]
PERMITS = 2
STEPS = 120

KINDS: dict[str, Callable[[Member, Random], Any]] = {
    "lock": lambda member, rng: member.lock("/locks/x", ME),
    "simple": lambda member, rng: member.simple_lock("/locks/x", ME),
    "reentrant": lambda member, rng: member.reentrant_lock("/locks/x", ME),
    "semaphore": lambda member, rng: member.semaphore("/locks/x", PERMITS, ME),
    "lease": lambda member, rng: member.lease("/locks/x", 3, ME),
    "read_write": lambda member, rng: _side(member, rng),
    "multi": lambda member, rng: member.multi_lock(rng.sample(PATHS, 2)),
}
MAY_FAIL = (WaitTimeoutError, SessionExpiredError, LostError, ConnectionLossError)


def _side(member: Member, rng: Random) -> Any:
    lock = member.read_write_lock("/locks/x", ME)
    return lock.read if rng.random() < 0.6 else lock.write


class Player:
    """A member, what it asks for and what it has."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.wait: Outcome | None = None
        self.held: Any = None
        self.releasing: Outcome | None = None
        self.lost: Any = None

    @property
    def holds(self) -> bool:
        """Whether it would say so, if it were asked."""
        held = self.held
        return held is not None and not held.is_released and not held.lost.is_set()


class Course:
    """One course of events."""

    def __init__(self, kind: str, seed: int) -> None:
        self.rng = Random(seed)
        self.kind = kind
        self.stage = RecipeStage()
        self.players = [self.new_player() for _ in range(MEMBERS)]
        self.watcher = self.stage.member()
        self.newest: dict[str, int] = {}
        """The newest token by what it is of."""
        self.granted = 0

    def new_player(self) -> Player:
        return Player(self.stage.member(session_timeout_ms=self.rng.choice([2_000, 5_000])))

    def run(self) -> None:
        for _ in range(STEPS):
            player = self.rng.choice(self.players)
            self.one_step(player)
            self.look()
            self.nobody_waits_in_vain()
        self.settle()

    def one_step(self, player: Player) -> None:
        choice = self.rng.random()
        if choice < 0.45:
            self.use(player)
        elif choice < 0.8:
            self.pass_time(self.rng.choice([50, 200, 1_000, 2_500]))
        elif choice < 0.86:
            player.member.cut()
        elif choice < 0.92:
            self.repair(player)
        elif choice < 0.96:
            player.member.freeze()
        else:
            player.member.die()
            self.players[self.players.index(player)] = self.new_player()

    def use(self, player: Player) -> None:
        member = player.member
        if member._is_frozen:
            return
        if member.flows.has_ended:
            self.players[self.players.index(player)] = self.new_player()
        elif player.wait is not None:
            if self.rng.random() < 0.4:
                player.wait.run.cancel()
                player.wait = None
        elif player.lost is not None and self.rng.random() < 0.7:
            member.begin(player.lost.release)  # must take nothing from anybody
            player.lost = None
        elif player.held is None:
            timeout_s = self.rng.choice([None, None, 0, 1, 4])
            recipe = KINDS[self.kind](member, self.rng)
            player.wait = member.begin(recipe.acquire, timeout_s=timeout_s)
        elif self.kind == "lease" and self.rng.random() < 0.5:
            member.begin(player.held.renew)
        else:
            player.releasing = member.begin(player.held.release)
            player.held = None

    def repair(self, player: Player) -> None:
        player.member._is_cut = False
        player.member.thaw()

    def pass_time(self, ms: int) -> None:
        for _ in range(ms // 50):
            self.stage.pass_time(50)
            self.look()

    def look(self) -> None:
        """What must be true at any time."""
        for player in self.players:
            wait = player.wait
            if wait is not None and wait.is_done:
                player.wait = None
                if wait.error is None:
                    wait.run.result_taken()
                    player.held = wait.value
                    self.take(player.held)
                else:
                    assert isinstance(wait.error, MAY_FAIL), wait.error
            done = player.releasing
            if done is not None and done.is_done and done.error is not None:
                assert isinstance(done.error, MAY_FAIL), done.error
        holders = [player.held for player in self.players if player.holds]
        writers = [held for held in holders if "read lock" not in getattr(held, "_what", "")]
        if self.kind == "semaphore":
            assert len(holders) <= PERMITS
        elif writers:
            assert len(holders) == 1
        for player in self.players:
            if player.held is not None and player.held.lost.is_set():
                player.lost, player.held = player.held, None

    def nobody_waits_in_vain(self) -> None:
        """Whose turn it is knows it, if it can."""
        if self.kind not in ("lock", "reentrant", "semaphore", "read_write"):
            return
        make = KINDS["lock" if self.kind == "reentrant" else self.kind]
        listed = make(self.watcher, Random(1)).contenders()
        first = listed[: PERMITS if self.kind == "semaphore" else 1]
        first += [each for each in listed if self.are_all_readers(listed, each)]
        turns = {each.session_id for each in first}
        for player in self.players:
            core = player.member.core
            if core.session_id in turns and core.state is ClientState.CONNECTED:
                assert player.wait is None or player.member._is_frozen, self.kind

    @staticmethod
    def are_all_readers(listed: list[Any], last: Any) -> bool:
        return all(each.name.startswith("read-") for each in listed[: listed.index(last) + 1])

    def take(self, held: Any) -> None:
        """A token is larger than those that it excludes."""
        self.granted += 1
        if self.kind == "multi":
            for path, token in held.tokens.items():
                assert token > self.newest.get(path, 0)
                self.newest[path] = token
            return
        is_reader = "read lock" in held._what
        if self.kind == "semaphore":
            return  # a permit may be heard of late, when a later one has been taken
        assert held.token > self.newest.get("writer", 0)
        if not is_reader:
            assert held.token > self.newest.get("reader", 0)
        name = "reader" if is_reader else "writer"
        self.newest[name] = max(held.token, self.newest.get(name, 0))

    def settle(self) -> None:
        """Everything works again: everybody gets its turn, and nothing is left."""
        for player in self.players:
            self.repair(player)
        for _ in range(60):
            self.pass_time(500)
            for player in self.players:
                if player.held is not None:
                    player.member.begin(player.held.release)
                    player.held = None
        assert [player for player in self.players if player.wait is not None] == []
        assert places(self.watcher) == []
        assert [watches(player.member) for player in self.players] == [0] * MEMBERS
        assert self.stage.reported == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_two_clients_never_hold_at_once(kind: str, seed: int) -> None:
    course = Course(kind, seed)
    course.run()
    assert course.granted > 2
