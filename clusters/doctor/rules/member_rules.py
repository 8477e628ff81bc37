"""Rules about the member list: servers without a place in it, and changes that were left."""

from collections.abc import Iterator

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.findings import (
    THE_ENSEMBLE,
    Fault,
    Rule,
    Severity,
    server_text,
)


def stranger(facts: EnsembleFacts) -> Iterator[Fault]:
    """A server runs that is no member, and no change is under way."""
    if facts.change and not facts.is_change_left:
        return
    for server in facts.servers:
        if server.server_id not in {*facts.voters, *facts.observers}:
            yield Fault(server_text(server.server_id), "runs, and is not in the member list")


def change_left(facts: EnsembleFacts) -> Iterator[Fault]:
    """A change of the members has not ended, and nobody is at it."""
    if facts.change and facts.is_change_left:
        yield Fault(THE_ENSEMBLE, f"has a change of its members that was left: {facts.change}")


_W = Severity.WARNING
MEMBER_RULES = (
    Rule(
        "members.stranger",
        _W,
        "It takes no clients and counts for nothing: it was to join, or has left and did not end.",
        "If a change was left, go on with it or undo it. If the server is still there after that, "
        "end it with `raykeeper members remove SERVER {name}`.",
        stranger,
    ),
    Rule(
        "members.change_left",
        _W,
        "All is served. Until the change ends, no other one begins, and the keeper leaves alone "
        "the servers that it is about.",
        "`raykeeper members resume {name}` goes on with it, `raykeeper members undo {name}` goes "
        "back.",
        change_left,
    ),
)
