"""The status of an ensemble, put together from the answers of its servers.

Pure: `Ensemble.status` asks, and what is made of the answers is decided here.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.replica_status import FAILED, STARTING, ReplicaStatus
from raykeeper.clusters.feature_level import FeatureLevelStatus, feature_level_of
from raykeeper.clusters.member_steps.vocabulary import Plan
from raykeeper.clusters.members_view import newest_plan
from raykeeper.zab.ids import Epoch, ServerId, Zxid


class ServerStatus(Struct, frozen=True):
    """The status of one server; if it did not answer, only its id and problem are set."""

    server_id: ServerId
    role: str
    """leader, follower, observer, looking (also while it starts), down, or unreached: it leads
    according to its followers, but Ray cannot reach it."""
    epoch: Epoch = Epoch(0)
    last_zxid: Zxid = Zxid(0)
    pid: int = 0
    node_id: str = ""
    sessions: int = 0
    znodes: int = 0
    watches: int = 0
    outstanding: int = 0
    carriers: dict[ServerId, str] = {}
    """The carrier of its link to each server."""
    clients: dict[str, int] = {}
    """The number of client links of each carrier."""
    clients_max: int = 0
    """How many client links it takes."""
    sessions_max: int = 0
    """How many sessions the ensemble takes while this server leads."""
    zookeeper: str = ""
    """Address and port for clients of ZooKeeper; "" if there is none."""
    zookeeper_tls: str = ""
    """The same for those that use TLS."""
    log_file: str = ""
    """Where its log lines are, on its node; "" if they are in no file."""
    problem: str = ""
    """Why it is down, starting or without a vote, or which servers it cannot reach."""
    clients_to_move: int | None = None
    """How many clients it has to move to other servers; None unless it is drained."""


class EnsembleStatus(Struct, frozen=True):
    """The status of an ensemble at one moment."""

    name: str
    servers: list[ServerStatus]
    leader: ServerId | None
    """The leader, by its own answer or else by that of a majority that follows it."""
    reason: str | None
    """Why there is no leader; None when there is one."""
    feature_level: FeatureLevelStatus | None = None
    """Which formats are in use, and what newer ones wait for; None if no server tells."""
    change: Plan | None = None
    """The change of the members that has not ended; None if there is none."""


def summarize(
    name: str,
    heard: dict[ServerId, ReplicaStatus | str],
    observers: Collection[ServerId] = frozenset(),
    strangers: Collection[ServerId] = frozenset(),
) -> EnsembleStatus:
    """Build the status of an ensemble from its servers' answers; a string tells why one is missing.

    `observers` are the servers without a vote, `strangers` those of them that are no members.
    """
    voters = {server: answer for server, answer in heard.items() if server not in observers}
    leader = unreached_leader(heard, observers)
    servers = [
        _unreached_status(_server_status(server, answer, voters))
        if server == leader
        else _server_status(server, answer, voters)
        for server, answer in heard.items()
    ]
    leading = _declared_leaders(heard)
    if leading:
        # A deposed leader may not know it yet; the newest epoch is right.
        leader = max(leading, key=lambda answer: answer.epoch).server_id
    reason = None if leader is not None else _why_no_leader(voters, servers)
    servers = [_as_stranger(each) if each.server_id in strangers else each for each in servers]
    level, plan = feature_level_of(heard, leader), newest_plan(heard.values())
    return EnsembleStatus(name, servers, leader, reason, level, plan)


def unreached_leader(
    heard: Mapping[ServerId, ReplicaStatus | str], observers: Collection[ServerId]
) -> ServerId | None:
    """Return the leader that its followers report but that does not answer; None if there is none.

    Ray may be unable to reach the leading process: it takes the node for dead, or has started the
    actor anew. A majority of the voters, the leader included, must be linked to it and follow it.
    The answer of a server itself counts more than those of others, unless it is still starting.
    """
    if _declared_leaders(heard):
        return None
    voters = {server for server in heard if server not in observers}
    followed = Counter(
        (answer.epoch, answer.leader)
        for server, answer in heard.items()
        if isinstance(answer, ReplicaStatus)
        and server in voters
        and answer.is_active
        and answer.leader is not None
        and answer.links.get(answer.leader) == "linked"
    )
    for (_, leader), count in sorted(followed.items(), reverse=True):
        answer = heard.get(leader)
        is_silent = not isinstance(answer, ReplicaStatus) or answer.role in (STARTING, FAILED)
        if is_silent and leader in voters and count + 1 > len(voters) // 2:
            return leader
    return None


def _as_stranger(status: ServerStatus) -> ServerStatus:
    told = "is no member: it is about to join, or has left (raykeeper members)"
    return replace(status, problem="; ".join(each for each in (told, status.problem) if each))


def _declared_leaders(heard: Mapping[ServerId, ReplicaStatus | str]) -> list[ReplicaStatus]:
    return [
        answer
        for answer in heard.values()
        if isinstance(answer, ReplicaStatus) and answer.role == "leader" and answer.is_active
    ]


def _unreached_status(status: ServerStatus) -> ServerStatus:
    problem = f"leads, but Ray does not reach it: {status.problem}"
    return ServerStatus(status.server_id, "unreached", problem=problem)


def _server_status(
    server: ServerId, answer: ReplicaStatus | str, voters: Collection[ServerId]
) -> ServerStatus:
    if isinstance(answer, str):
        return ServerStatus(server, "down", problem=answer)
    if answer.role == FAILED:
        return ServerStatus(
            server, "down", pid=answer.pid, node_id=answer.node_id, problem=answer.failure
        )
    problems = []
    if answer.role == STARTING:
        reason = f": {answer.failure}" if answer.failure else ""
        problems.append(f"is reading its disk, or waiting for it{reason}")
    elif not answer.votes and server in voters:
        reason = answer.reset_reason or "its disk is not in the member list"
        problems.append(f"waits for its vote, because it may have forgotten a promise: {reason}")
    if not answer.has_disk_space:
        problems.append("its disk is full: it logs nothing until there is space")
    if answer.stream_problem:
        problems.append(f"takes Ray calls only: it {answer.stream_problem}")
    if answer.clients_problem:
        problems.append(answer.clients_problem)
    ports = (("", answer.zookeeper_problem), (" over TLS", answer.zookeeper_tls_problem))
    problems += [f"takes no clients of ZooKeeper{how}: it {why}" for how, why in ports if why]
    if answer.admin_problem:
        problems.append(f"has no admin server: {answer.admin_problem}")
    broken = [f"{peer} ({why})" for peer, why in sorted(answer.links.items()) if why != "linked"]
    reached = [peer for peer in voters if peer == server or answer.links.get(peer) == "linked"]
    if broken and answer.role == "looking" and len(reached) <= len(voters) // 2:
        problems.append(f"does not reach server {', '.join(broken)}")
    return ServerStatus(
        server_id=server,
        role="looking" if answer.role == STARTING else answer.role,
        epoch=answer.epoch,
        last_zxid=answer.last_zxid,
        pid=answer.pid,
        node_id=answer.node_id,
        sessions=answer.sessions,
        znodes=answer.znodes,
        watches=answer.watches,
        outstanding=answer.outstanding,
        carriers=answer.carriers,
        clients=answer.clients,
        clients_max=answer.clients_max,
        sessions_max=answer.sessions_max,
        zookeeper=answer.zookeeper,
        zookeeper_tls=answer.zookeeper_tls,
        log_file=answer.log_file,
        problem="; ".join(problems),
        clients_to_move=answer.clients_to_move,
    )


def _why_no_leader(
    voters: dict[ServerId, ReplicaStatus | str], servers: Sequence[ServerStatus]
) -> str:
    """Tell which servers answered, and what is missing for a quorum."""
    up = [status for status in servers if status.role != "down"]
    voting = [
        status.server_id
        for status in up
        if isinstance(answer := voters.get(status.server_id), ReplicaStatus) and answer.votes
    ]
    needed = len(voters) // 2 + 1
    parts = [f"heard {_format_ids(status.server_id for status in up)}"]
    lost = [
        server
        for server, answer in sorted(voters.items())
        if isinstance(answer, ReplicaStatus)
        and answer.role not in (STARTING, FAILED)
        and not answer.votes
    ]
    if len(voters) - len(lost) < needed:
        parts.append(
            f"the disks of {_format_ids(lost)} have forgotten their promises, and the others are "
            f"no majority that could tell what was acknowledged: bring a lost disk back, or what "
            f"the folder `damaged` of a server has kept"
        )
    elif len(voting) < needed:
        parts.append(f"{needed} of {len(voters)} voters are needed, {len(voting)} can vote")
    else:
        parts.append("an election is under way")
    return "; ".join([*parts, *problems_of(servers)])


def problems_of(servers: Sequence[ServerStatus]) -> list[str]:
    """Return a sentence for each server that has a problem."""
    return [
        f"server {status.server_id} {'is down: ' if status.role == 'down' else ''}{status.problem}"
        for status in servers
        if status.problem
    ]


def _format_ids(ids: Iterable[ServerId]) -> str:
    numbers = [str(server_id) for server_id in ids]
    if not numbers:
        return "no server"
    return f"server{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
