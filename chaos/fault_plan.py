"""The plan of faults: drawn from one seed, independent of everything that runs.

The plan repeats in rounds. A round holds every kind of fault once, in random order, so a short run
tries all kinds and a long run tries them in many combinations.
"""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from random import Random
from typing import Final

from msgspec import Struct


class Target(StrEnum):
    """The process, or processes, that a fault hits."""

    LEADER = "leader"
    FOLLOWER = "follower"
    FOLLOWERS = "followers"
    """All followers: the leader has no quorum."""
    LONE_LEADER = "lone leader"
    """The leader, a moment after all followers were frozen; they thaw when it is frozen. Whatever
    it answered alone is lost, because the others elect a leader without it."""
    TRACKER = "tracker"
    """The SessionTracker of the leader, the only tracker that gets calls."""
    SNAPSHOTTER = "snapshotter"
    CLIENT = "client"
    SERVERS = "servers"
    """All servers at the same time: only what is on their disks survives."""


class FaultAction(StrEnum):
    """The signal that a fault sends."""

    KILL = "kill"
    """SIGKILL."""
    FREEZE = "freeze"
    """SIGSTOP, and SIGCONT after a while."""


class FaultKind(Struct, frozen=True):
    """An action and its target."""

    action: FaultAction
    target: Target

    def __str__(self) -> str:
        return f"{self.action} {self.target}"


class Fault(Struct, frozen=True):
    """One fault of a plan."""

    kind: FaultKind
    pause_ms: int
    """How long to wait before the fault."""
    freeze_ms: int
    """How long a frozen process stays frozen."""
    pick: int
    """Chooses one of several possible targets."""


KINDS: Final = tuple(
    FaultKind(action, target)
    for target in Target
    for action in FaultAction
    if (action, target)
    not in ((FaultAction.FREEZE, Target.SERVERS), (FaultAction.KILL, Target.LONE_LEADER))
)
"""Freezing all servers is left out: a client cannot tell it from a slow network. Killing a lone
leader is left out: it soon returns with its whole disk and is elected again."""

PAUSE_MS: Final = (200, 4_000)
"""Often shorter than a freeze, so that a fault hits an ensemble of which a part is frozen."""
FREEZE_MS: Final = (100, 8_000)
"""From a pause that no process notices to well beyond an election and a short session timeout.

Drawn evenly by magnitude: most bugs of a protocol are near its timeouts or far below them.
"""
LONE_LEADER_FREEZE_MS: Final = (4_000, 8_000)
"""Long enough for the others to elect a leader."""


def draw_faults(seed: int, kinds: Sequence[FaultKind] = KINDS) -> Iterator[Fault]:
    """Yield the endless plan of `seed`."""
    random = Random(seed)
    while True:
        for kind in random.sample(kinds, len(kinds)):
            span_ms = 0
            if kind.target is Target.LONE_LEADER:
                span_ms = random.randint(*LONE_LEADER_FREEZE_MS)
            elif kind.action is FaultAction.FREEZE:
                span_ms = round(math.exp(random.uniform(*map(math.log, FREEZE_MS))))
            yield Fault(kind, random.randint(*PAUSE_MS), span_ms, random.randrange(1 << 16))
