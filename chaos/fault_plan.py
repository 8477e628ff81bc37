"""Which faults come when: drawn from one seed, without looking at anything that runs.

The faults come in rounds. A round holds every kind once, in an order of its own, so that a short
run tries them all and a long one tries them in ever other neighbourhoods.
"""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from random import Random
from typing import Final

from msgspec import Struct


class Target(StrEnum):
    """Whose process it is."""

    LEADER = "leader"
    FOLLOWER = "follower"
    FOLLOWERS = "followers"
    """All of them: the leader is left without a quorum."""
    LONE_LEADER = "lone leader"
    """The leader, a moment after all followers were frozen; they thaw when it is frozen. What it
    answered alone is lost: the others elect a leader without it."""
    TRACKER = "tracker"
    """The SessionTracker beside the leader, the only one that is told anything."""
    SNAPSHOTTER = "snapshotter"
    CLIENT = "client"
    SERVERS = "servers"
    """All servers at the same moment: what survives comes from their disks."""


class FaultAction(StrEnum):
    """What is done to it."""

    KILL = "kill"
    """SIGKILL."""
    FREEZE = "freeze"
    """SIGSTOP, and SIGCONT after a while."""


class FaultKind(Struct, frozen=True):
    """A deed and its victim."""

    action: FaultAction
    target: Target

    def __str__(self) -> str:
        return f"{self.action} {self.target}"


class Fault(Struct, frozen=True):
    """One fault of a plan."""

    kind: FaultKind
    pause_ms: int
    """How long nothing is done before it."""
    freeze_ms: int
    """How long a frozen process stays frozen."""
    pick: int
    """Chooses among several victims."""


KINDS: Final = tuple(
    FaultKind(deed, victim)
    for victim in Target
    for deed in FaultAction
    if (deed, victim)
    not in ((FaultAction.FREEZE, Target.SERVERS), (FaultAction.KILL, Target.LONE_LEADER))
)
"""All servers frozen is a pause of the machine, which a client cannot tell from a slow network. A
lone leader that is killed is soon back with all it has on disk, and is elected again."""

PAUSE_MS: Final = (200, 4_000)
"""Often shorter than a span, so that a fault meets an ensemble of which a part is frozen."""
FREEZE_MS: Final = (100, 8_000)
"""From a hiccup that nobody notices to well beyond an election and a short session timeout.

Drawn evenly by magnitude: most of what a protocol gets wrong is near its timeouts or far below.
"""
LONE_LEADER_FREEZE_MS: Final = (4_000, 8_000)
"""Long enough for the others to elect a leader."""


def draw_faults(seed: int, kinds: Sequence[FaultKind] = KINDS) -> Iterator[Fault]:
    """The endless plan of `seed`."""
    random = Random(seed)
    while True:
        for kind in random.sample(kinds, len(kinds)):
            span_ms = 0
            if kind.target is Target.LONE_LEADER:
                span_ms = random.randint(*LONE_LEADER_FREEZE_MS)
            elif kind.action is FaultAction.FREEZE:
                span_ms = round(math.exp(random.uniform(*map(math.log, FREEZE_MS))))
            yield Fault(kind, random.randint(*PAUSE_MS), span_ms, random.randrange(1 << 16))
