"""Rules about the ensemble as a whole: its leader and quorum, links, states, settings, keeper."""

from collections import Counter
from collections.abc import Iterator

from raykeeper.clusters.doctor.rules.facts import EnsembleFacts
from raykeeper.clusters.doctor.rules.findings import (
    THE_ENSEMBLE,
    Fault,
    Rule,
    Severity,
    server_text,
    servers_text,
)
from raykeeper.zab.ids import ServerId, format_zxid

_LINKED = "linked"
_SET_FOR_A_KEEPER = "heal_after_s"


def no_leader(facts: EnsembleFacts) -> Iterator[Fault]:
    """Writes wait."""
    if facts.leader is None:
        yield Fault(THE_ENSEMBLE, f"has no leader: {facts.leader_problem}")


def server_down(facts: EnsembleFacts) -> Iterator[Fault]:
    """A server does not answer, or is not ready."""
    for server in facts.servers:
        if server.problem:
            leads = server.server_id == facts.leader
            told = (
                f"leads, but Ray does not reach it: {server.problem}" if leads else server.problem
            )
            yield Fault(server_text(server.server_id), told)


def working_voters(facts: EnsembleFacts) -> list[ServerId]:
    """Return the voters that lead, or follow the leader with a vote.

    A leader that Ray does not reach works all the same: a majority follows it.
    """
    following = [
        each.server_id
        for each in facts.answering()
        if each.is_active and each.votes and each.leader == facts.leader
    ]
    return [each for each in facts.voters if each == facts.leader or each in following]


def losses_borne(facts: EnsembleFacts) -> int:
    """Return how many of the voters that work may be lost before writes stop; negative: they do."""
    return len(working_voters(facts)) - (len(facts.voters) // 2 + 1)


def next_loss(facts: EnsembleFacts) -> Iterator[Fault]:
    """Fewer losses are borne than with all voters."""
    working, spare = working_voters(facts), losses_borne(facts)
    planned = (len(facts.voters) - 1) // 2
    if facts.leader is None or not 0 <= spare < planned:
        return
    told = f"{len(working)} of {len(facts.voters)} voting servers work: "
    if spare:
        told += f"it bears {spare} more loss{'es' if spare > 1 else ''}, and not {planned}"
    else:
        told += f"one more loss of {servers_text(working, 'or')} stops writes"
    yield Fault(THE_ENSEMBLE, told)


def node_loss(facts: EnsembleFacts) -> Iterator[Fault]:
    """One Ray node has so many voters that its loss stops writes."""
    if losses_borne(facts) <= 0:
        return  # then any node has, which `next_loss` tells
    at = Counter(facts.server(each).node_id for each in working_voters(facts))
    for node, count in sorted(at.items()):
        if node and count > losses_borne(facts):
            here = [each for each in working_voters(facts) if facts.server(each).node_id == node]
            told = f"has {servers_text(here)}: its loss stops writes"
            yield Fault(f"node {facts.node_name(node)}", told)


def vote_missing(facts: EnsembleFacts) -> Iterator[Fault]:
    """A voter without its vote."""
    for server in facts.answering():
        if server.server_id in facts.voters and not server.votes:
            reason = server.reset_reason or "its disk is not in the member list"
            yield Fault(server_text(server.server_id), f"waits for its vote: {reason}")


def link_missing(facts: EnsembleFacts) -> Iterator[Fault]:
    """Two servers that both answer have no link."""
    up = [each.server_id for each in facts.answering()]
    for server in facts.answering():
        missing = [(peer, why) for peer, why in sorted(server.links.items()) if peer in up]
        for peer, why in missing:
            if why != _LINKED:
                yield Fault(server_text(server.server_id), f"has no link to server {peer}: {why}")


def digest_differs(facts: EnsembleFacts) -> Iterator[Fault]:
    """Two servers have different trees after the same transaction."""
    # Without a leader a server may hold a mixture: a snapshot that was written while it changed.
    known = [each for each in facts.answering() if each.digest and each.is_active]
    for zxid in sorted({each.zxid for each in known}):
        same = [each for each in known if each.zxid == zxid]
        if len({each.digest for each in same}) > 1:
            each_told = ", ".join(f"{each.digest:#018x} on {each.server_id}" for each in same)
            yield Fault(THE_ENSEMBLE, f"has different trees at {format_zxid(zxid)}: {each_told}")


def settings_differ(facts: EnsembleFacts) -> Iterator[Fault]:
    """Servers run with different settings."""
    known = [each for each in facts.answering() if each.settings]
    names = sorted({name for each in known for name in each.settings})
    for name in names:
        values = {each.server_id: each.settings[name] for each in known if name in each.settings}
        one, *others = values.values()
        if any(other != one for other in others):
            which = ", ".join(f"{value} on {server}" for server, value in values.items())
            yield Fault(THE_ENSEMBLE, f"runs with different settings: {name} is {which}")


def keeper_missing(facts: EnsembleFacts) -> Iterator[Fault]:
    """The settings ask for a keeper, and there is none."""
    asked = facts.settings.get(_SET_FOR_A_KEEPER)
    if asked and not facts.keeper.is_there:
        yield Fault(THE_ENSEMBLE, f"has no keeper, though {_SET_FOR_A_KEEPER} is {asked}")


def keeper_problem(facts: EnsembleFacts) -> Iterator[Fault]:
    """The keeper says why it does not do its work."""
    if facts.keeper.is_there and facts.keeper.problem:
        yield Fault("the keeper", facts.keeper.problem)


_W, _E = Severity.WARNING, Severity.ERROR
QUORUM_RULES = (
    Rule(
        "quorum.no_leader",
        _E,
        "Writes wait, and so do reads of clients that want a leader.",
        "Bring a majority of the voting servers back: see the findings about servers and nodes. "
        "`raykeeper up` starts servers that are missing. If the disks of a majority are lost for "
        "good, `raykeeper recover` tells what is left.",
        no_leader,
    ),
    Rule(
        "server.down",
        _E,
        "The server takes no part: its clients have moved to others, and if it has a vote, one "
        "loss less is borne.",
        "If its actor or process is gone, Ray starts it again; if it is not started, or its node "
        "is gone, run `raykeeper up` or wait for the keeper; if it is late, look at its node. Its "
        "log says why it failed.",
        server_down,
    ),
    Rule(
        "quorum.next_loss",
        _W,
        "All is served, but the ensemble bears fewer losses than it was made for.",
        "Bring the missing servers back before the next one is lost, and move or stop no other "
        "server until then.",
        next_loss,
    ),
    Rule(
        "quorum.node_loss",
        _W,
        "The ensemble bears the loss of a server, but not of this node.",
        "Give the cluster as many nodes as there are servers, then have the keeper move servers "
        "away from this one (`raykeeper drain`). A launch moves no server that has data.",
        node_loss,
    ),
    Rule(
        "vote.missing",
        _W,
        "The server follows, but counts for no majority: it may have forgotten what it promised.",
        "It gets its vote as soon as a majority of the others serves. If that does not come, see "
        "docs/DISKS.md.",
        vote_missing,
    ),
    Rule(
        "link.missing",
        _W,
        "The servers do not hear each other; if one of them leads, the other cannot follow.",
        "Look at the network between their nodes, and whether one of the servers is too busy to "
        "answer. A link opens by itself as soon as it can.",
        link_missing,
    ),
    Rule(
        "digest.differs",
        _E,
        "Servers answer the same read differently. The leader stops a server that differs from a "
        "majority within seconds; if this stays, no majority agrees.",
        "Take a backup of every folder now. `raykeeper inspect diff` shows what differs between "
        "two folders. Report it: it is a fault of the program or of a machine's memory.",
        digest_differs,
    ),
    Rule(
        "settings.differ",
        _W,
        "A change of settings was interrupted, or two launches with different ones ran at the same "
        "time.",
        "Run `raykeeper up FILE --name {name} --apply` with the settings that you want: it goes "
        "on.",
        settings_differ,
    ),
    Rule(
        "keeper.missing",
        _W,
        "No server is moved when its node is lost for good.",
        "Run `raykeeper up` with the settings of the ensemble: it starts the keeper.",
        keeper_missing,
    ),
    Rule(
        "keeper.problem",
        _W,
        "The keeper does not do what it should: its own words say why.",
        "Give it what it lacks, such as another node with enough free space; `raykeeper events` "
        "shows what it has decided.",
        keeper_problem,
    ),
)
