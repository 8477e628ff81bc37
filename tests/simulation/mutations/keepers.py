"""The keeper: no majority, no patience, no memory of an open move, and old folders that stay."""

from typing import Any

from msgspec.structs import replace

from raykeeper.clusters.healing import healing, move_steps
from raykeeper.clusters.healing.healing import Healing
from raykeeper.clusters.voting_disks import VotingDisks
from raykeeper.zab.ids import Millis
from tests.simulation.keepers.plans import KEEPER
from tests.simulation.mutations.mutation import Mutation, instead


def _at_once(right: Any) -> Any:
    def init(self: Any, settings: Any, *arguments: Any) -> None:
        right(self, replace(settings, heal_after_ms=Millis(0)), *arguments)

    return init


MUTATIONS = [
    Mutation(
        "keeper",
        "a server leaves though the majority needs it",
        [(Healing, "_is_spare", instead(lambda self, server, view: True))],
        100,
        KEEPER,
    ),
    Mutation(
        "keeper",
        "a server moves as soon as its node is lost",
        [(Healing, "__init__", _at_once)],
        50,
        KEEPER,
    ),
    Mutation(
        "keeper",
        "old folders stay where they are",
        [(move_steps, "_set_aside", instead(lambda node, server, named: iter(())))],
        50,
        KEEPER,
    ),
    Mutation(
        "keeper",
        "an open move of the keeper before is forgotten",
        [(healing, "_open_move", instead(lambda entries, now: None))],
        50,
        KEEPER,
    ),
    Mutation(
        "keeper",
        "an empty folder is started though no leader is known",
        [(VotingDisks, "doubt_about", instead(lambda self, server: ""))],
        100,
        KEEPER,
    ),
]
