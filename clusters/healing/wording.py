"""The decisions of the keeper in words, for `status`, `events` and the log."""

from typing import Final

from raykeeper.clusters.healing.vocabulary import Entry, Step

_SENTENCES: Final = {
    Step.BEGUN: "server {0.server} is to move {way}: {0.reason}",
    Step.STARTED: "server {0.server} was started on {0.target_name}, and waits for its vote",
    Step.DONE: "server {0.server} moved {way}: {0.reason}",
    Step.UNDONE: "server {0.server} did not move {way}: {0.detail}",
}


def describe(entry: Entry) -> str:
    """Return a decision as a sentence, without its time."""
    decision = entry.decision
    way = f"{decision.source_name}→{decision.target_name}"
    return _SENTENCES[decision.step].format(decision, way=way)
