"""The keeper's answer to `status` and the command line, with its decisions in words."""

from typing import Final

from msgspec import Struct

from raykeeper.clusters.healing.vocabulary import Entry, MoveStep


class KeeperStatus(Struct, frozen=True, kw_only=True):
    """What the keeper tells. Instances can be pickled."""

    leads: bool
    """Whether it is elected; else another keeper is, or none."""
    problem: str = ""
    """Why it is not connected, or why a server that should move does not."""
    entries: list[Entry] = []
    """The newest decisions, as far as this keeper knows."""
    stale_folders: list[str] = []
    """What this keeper did with stale folders, each line with its node; the newest."""


_SENTENCES: Final = {
    MoveStep.BEGUN: "server {0.server} is to move {way}: {0.reason}",
    MoveStep.STARTED: "server {0.server} was started on {0.target_name}, and waits for its vote",
    MoveStep.DONE: "server {0.server} moved {way}: {0.reason}",
    MoveStep.UNDONE: "server {0.server} did not move {way}: {0.detail}",
}


def describe(entry: Entry) -> str:
    """Return a decision as a sentence, without its time."""
    decision = entry.decision
    way = f"{decision.source_name}→{decision.target_name}"
    return _SENTENCES[decision.step].format(decision, way=way)
