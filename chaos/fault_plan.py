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

from raykeeper.clusters.config import ConfigError


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
    OPERATOR = "operator"
    """The process that carries out an orderly fault; another one goes on with what it began."""


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


class OrderlyKind(StrEnum):
    """What an operator does to a running ensemble. Clients must see no error from it."""

    TRANSFER = "transfer"
    """The lead goes to a server that is drawn: it may be frozen, restarting or the leader."""
    ROLLING_RESTART = "rolling restart"
    """All servers restart one after the other."""
    DRAIN = "drain"
    """A server moves its clients to the others, and takes them again a while later."""
    SWAP = "swap"
    """A newcomer takes the place of a voter that is drawn, whatever state that is in."""
    GROW_AND_SHRINK = "grow and shrink"
    """The ensemble gets one voter, three, five, and three again."""
    UPGRADE = "upgrade"
    """All servers get other settings one after the other. The first time the bound of the feature
    level goes, so that the leader raises it; only then can the members change."""


Kind = FaultKind | OrderlyKind


class Fault(Struct, frozen=True):
    """One fault of a plan."""

    kind: Kind
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
    if target is not Target.OPERATOR
    and (action, target)
    not in ((FaultAction.FREEZE, Target.SERVERS), (FaultAction.KILL, Target.LONE_LEADER))
)
"""The faults that hit a process of the ensemble or a client. Freezing all servers is left out: a
client cannot tell it from a slow network. Killing a lone leader is left out: it soon returns with
its whole disk and is elected again."""
KILL_OPERATOR: Final = FaultKind(FaultAction.KILL, Target.OPERATOR)
MEMBER_KINDS: Final = frozenset({OrderlyKind.SWAP, OrderlyKind.GROW_AND_SHRINK})
"""The faults that change the members."""
EXCLUSIVE_KINDS: Final = MEMBER_KINDS | {OrderlyKind.ROLLING_RESTART, OrderlyKind.UPGRADE}
"""The faults of which the ensemble refuses one while another is under way."""
IMPATIENT_SHARE: Final = 4
"""Of so many such faults one does not wait until the other has ended, and is refused."""
ORDERLY_KINDS: Final[tuple[Kind, ...]] = (*OrderlyKind, KILL_OPERATOR)
"""The faults that clients must not notice. They notice no operator, dead or alive."""
ALL_KINDS: Final[tuple[Kind, ...]] = (*KINDS, *ORDERLY_KINDS)

PAUSE_MS: Final = (200, 4_000)
"""Often shorter than a freeze, so that a fault hits an ensemble of which a part is frozen."""
FREEZE_MS: Final = (100, 8_000)
"""From a pause that no process notices to well beyond an election and a short session timeout.

Drawn evenly by magnitude: most bugs of a protocol are near its timeouts or far below them.
"""
LONE_LEADER_FREEZE_MS: Final = (4_000, 8_000)
"""Long enough for the others to elect a leader."""


def choose_kinds(words: str) -> tuple[Kind, ...]:
    """Return the kinds that `words` names, separated by commas.

    A word is a kind, such as `kill-leader` or `rolling-restart`, or a group: `kill`, `freeze`,
    `orderly` or `all`.

    Raises:
        ConfigError: a word is neither; lists those that exist.
    """
    known: dict[str, tuple[Kind, ...]] = {name_of(kind): (kind,) for kind in ALL_KINDS}
    for action in FaultAction:
        known[action] = tuple(kind for kind in KINDS if kind.action is action)
    known |= {"orderly": ORDERLY_KINDS, "all": ALL_KINDS}
    chosen: dict[Kind, None] = {}
    for word in (word.strip() for word in words.split(",")):
        if word not in known:
            raise ConfigError(f"--faults knows {', '.join(known)}, but not {word!r}")
        chosen |= dict.fromkeys(known[word])
    return tuple(chosen)


def name_of(kind: Kind) -> str:
    """Return the name of a kind as a word of the command line."""
    return str(kind).replace(" ", "-")


def are_orderly(kinds: Sequence[Kind]) -> bool:
    """Return whether clients must see no error from any of these kinds."""
    return all(kind in ORDERLY_KINDS for kind in kinds)


def draw_faults(seed: int, kinds: Sequence[Kind] = KINDS) -> Iterator[Fault]:
    """Yield the endless plan of `seed`."""
    random = Random(seed)
    while True:
        for kind in random.sample(kinds, len(kinds)):
            span_ms = 0
            if isinstance(kind, FaultKind) and kind.target is Target.LONE_LEADER:
                span_ms = random.randint(*LONE_LEADER_FREEZE_MS)
            elif isinstance(kind, FaultKind) and kind.action is FaultAction.FREEZE:
                span_ms = round(math.exp(random.uniform(*map(math.log, FREEZE_MS))))
            yield Fault(kind, random.randint(*PAUSE_MS), span_ms, random.randrange(1 << 16))
