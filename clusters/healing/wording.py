"""The decisions of the keeper in words, for `status`, `events` and the log."""

from raykeeper.clusters.healing.vocabulary import Entry, Step


def describe(entry: Entry) -> str:
    """Return a decision as a sentence, without its time."""
    decision = entry.decision
    server = f"server {decision.server}"
    way = f"{decision.source_name}→{decision.target_name}"
    match decision.step:
        case Step.BEGUN:
            return f"{server} is to move {way}: {decision.reason}"
        case Step.STARTED:
            return f"{server} was started on {decision.target_name}, and waits for its vote"
        case Step.DONE:
            return f"{server} moved {way}: {decision.reason}"
        case Step.UNDONE:
            return f"{server} did not move {way}: {decision.detail}"
