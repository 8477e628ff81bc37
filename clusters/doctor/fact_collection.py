"""Collects the facts of an ensemble: asks its servers, its keeper, and a task on every live node.

Whoever is dead or late is a fact, and the rest goes on. The whole takes no longer than the caller
allows: servers have `ANSWER_TIMEOUT_S` for each of two answers, the keeper for one, and the nodes
what is left.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import ray
from msgspec.structs import replace

from raykeeper.actors.replica_status import FAILED, STARTING, ReplicaDescription, ReplicaStatus
from raykeeper.client.ray_lookups import list_nodes
from raykeeper.clusters.actor_calls import ANSWER_TIMEOUT_S, call_actors, find_replicas
from raykeeper.clusters.doctor.node_inspection import NodeQuestion, examine_node
from raykeeper.clusters.doctor.rules.facts import (
    EnsembleFacts,
    KeeperFacts,
    NodeFacts,
    ServerFacts,
)
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.clusters.ensemble_status import summarize
from raykeeper.clusters.members_status import read_holder
from raykeeper.clusters.membership import newest_description
from raykeeper.clusters.node_discovery import on_node
from raykeeper.clusters.running_settings import comparable_settings
from raykeeper.clusters.voting_disks import find_voting_disks
from raykeeper.links.jute_tls import TlsFiles
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId

NODES_S_MIN: Final = 5.0
"""Nodes have at least so long: Ray may have to start a process for the task."""
READING_SHARE: Final = 0.6
"""How much of their time nodes may read cold files."""

Descriptions = Mapping[ServerId, ReplicaDescription]
Answers = Mapping[ServerId, ReplicaStatus | str]


def collect_facts(name: str, timeout_s: float) -> EnsembleFacts:
    """Return the facts of the ensemble `name`.

    Args:
        name: Of an ensemble that runs in this Ray cluster.
        timeout_s: How long servers and nodes may take together; nodes always have 5 s.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs.
        RayNotFoundError: there is no Ray cluster.
    """
    deadline = time.monotonic() + timeout_s
    described, answers, clock = ask_servers(find_replicas(name))
    servers = {
        server: server_facts(server, answer, described.get(server), clock)
        for server, answer in answers.items()
    }
    members = newest_description(described.values())
    voters = members.voters if members else tuple(servers)
    observers = members.observers if members else ()
    report = summarize(name, dict(answers), observers)
    settings = usual_settings(list(servers.values()))
    keeper = ask_keeper(name)
    plan = report.change
    is_left = (
        plan is not None and report.leader is not None and not any(read_holder(Ensemble(name)))
    )
    nodes_s = max(NODES_S_MIN, deadline - time.monotonic())
    nodes = ask_nodes(questions_for(name, described, servers, settings, nodes_s), nodes_s)
    return EnsembleFacts(
        name=name,
        voters=voters,
        observers=observers,
        servers=tuple(servers.values()),
        leader=report.leader,
        leader_problem=report.reason or "",
        change="" if plan is None else f"{plan.text}, begun by {plan.begun_by}",
        is_change_left=is_left,
        voting_disks=find_voting_disks(voters, answers).disks,
        nodes=nodes,
        keeper=keeper,
        settings=settings,
    )


def ask_servers(
    handles: Mapping[ServerId, Any],
) -> tuple[Descriptions, Answers, tuple[int, int]]:
    """Return descriptions, answers of all servers that should be, and when these came.

    The time is by this process's wall clock, in milliseconds: before and after the answers.
    """
    first = call_actors(handles.values(), "describe")
    told = dict(zip(handles, first, strict=True))
    described = {
        server: answer for server, answer in told.items() if isinstance(answer, ReplicaDescription)
    }
    # Only those are asked again, so the answers come at once and bound the clocks tightly.
    began = _wall_ms()
    second = call_actors([handles[server] for server in described], "status")
    clock = began, _wall_ms()
    answers: dict[ServerId, ReplicaStatus | str] = {
        server: answer for server, answer in told.items() if isinstance(answer, str)
    }
    answers |= dict(zip(described, second, strict=True))
    newest = newest_description(described.values())
    for server in () if newest is None else (*newest.voters, *newest.observers):
        answers.setdefault(server, "not started")
    return described, dict(sorted(answers.items())), clock


def server_facts(
    server: ServerId,
    answer: ReplicaStatus | str,
    described: ReplicaDescription | None,
    clock: tuple[int, int],
) -> ServerFacts:
    """Return the facts of a server that gave `answer` between the two times of `clock`."""
    known = ServerFacts(
        server_id=server,
        node_id=described.node_id if described else "",
        folder=described.folder if described else "",
        settings=comparable_settings(described) if described else {},
    )
    if isinstance(answer, str):
        return replace(known, problem=answer)
    known = replace(known, node_id=answer.node_id, role=answer.role, versions=answer.versions)
    if answer.role == FAILED:
        return replace(known, problem=f"failed to start: {answer.failure}")
    if answer.role == STARTING:
        reason = f": {answer.failure}" if answer.failure else ""
        return replace(known, problem=f"is reading its disk, or waiting for it{reason}")
    ports = (
        ("takes no clients of ZooKeeper: it", answer.zookeeper_problem),
        ("takes no clients of ZooKeeper over TLS: it", answer.zookeeper_tls_problem),
        ("has no admin server:", answer.admin_problem),
    )
    began, ended = clock
    return replace(
        known,
        is_active=answer.is_active,
        leader=answer.leader,
        epoch=answer.epoch,
        zxid=answer.last_zxid,
        digest=answer.digest,
        votes=answer.votes,
        reset_reason=answer.reset_reason,
        links=answer.links,
        has_disk_space=answer.has_disk_space,
        stream_problem=answer.stream_problem,
        port_problems=tuple(f"{what} {why}" for what, why in ports if why),
        clients=sum(answer.clients.values()),
        clients_max=answer.clients_max,
        clients_problem=answer.clients_problem,
        clients_to_move=answer.clients_to_move,
        sessions=answer.sessions,
        sessions_max=answer.sessions_max,
        niceness=answer.niceness,
        priority_problem=answer.priority_problem,
        clock_ahead_ms=ahead_ms(answer.wall_ms, began, ended),
    )


def ahead_ms(wall_ms: int, began_ms: int, ended_ms: int) -> int:
    """Return how far a clock that showed `wall_ms` between the two times is certainly ahead."""
    if not wall_ms:  # it is of a version that does not tell
        return 0
    return max(0, wall_ms - ended_ms) + min(0, wall_ms - began_ms)


def usual_settings(servers: Sequence[ServerFacts]) -> dict[str, Any]:
    """Return the value of each setting that most servers have."""
    values: dict[str, list[Any]] = {}
    for each in servers:
        for name, value in each.settings.items():
            values.setdefault(name, []).append(value)
    return {name: max(found, key=found.count) for name, found in values.items()}


def questions_for(
    name: str,
    described: Descriptions,
    servers: Mapping[ServerId, ServerFacts],
    settings: Mapping[str, Any],
    nodes_s: float,
) -> list[NodeQuestion]:
    """Return the question to each live node; a folder is read on one node only."""
    folder = next((each.folder for each in described.values()), "")
    data_dir = str(PurePosixPath(folder).parent.parent) if folder else ""
    running = {server: each.node_id for server, each in servers.items() if each.node_id}
    questions = []
    for node in list_nodes():
        if not node["Alive"]:
            continue
        here = tuple(server for server, at in running.items() if at == node["NodeID"])
        nowhere = tuple(server for server in servers if server not in running)
        questions.append(
            NodeQuestion(
                node_id=node["NodeID"],
                name=f"{node['NodeManagerHostname']}/{node['NodeID'][:8]}",
                data_dir=data_dir,
                ensemble=name,
                servers=here + nowhere,
                runs_here=bool(here),
                tls=tls_of(settings),
                reading_s=nodes_s * READING_SHARE,
            )
        )
    return questions


def tls_of(settings: Mapping[str, Any]) -> TlsFiles | None:
    """Return the files of the port over TLS, None if there is no such port."""
    if not settings.get("zookeeper_tls_port"):
        return None
    kinds = ("certificate", "key", "authority")
    return TlsFiles(*(str(settings.get(f"zookeeper_tls_{kind}", "")) for kind in kinds))


def ask_nodes(questions: Sequence[NodeQuestion], timeout_s: float) -> tuple[NodeFacts, ...]:
    """Return the facts of each node; of one that does not answer in time, that."""
    asked = [on_node(question.node_id, examine_node, question) for question in questions]
    if asked:
        ray.wait(asked, num_returns=len(asked), timeout=timeout_s)
    facts = []
    for question, ref in zip(questions, asked, strict=True):
        try:
            answer: NodeFacts = ray.get(ref, timeout=0)
        except RayKeeperError as error:
            problem = str(getattr(error, "cause", error))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(ref, force=True)
            problem = f"no answer within {timeout_s:.0f} s"
        except ray.exceptions.RayTaskError as error:
            problem = f"cannot be examined: {error.cause!r}"
        except ray.exceptions.RayError as error:
            problem = f"runs no task: {type(error).__name__}"
        else:
            facts.append(answer)
            continue
        facts.append(NodeFacts(node_id=question.node_id, name=question.name, problem=problem))
    return tuple(facts)


def ask_keeper(name: str) -> KeeperFacts:
    """Return the facts of the keeper."""
    status = Ensemble(name).keeper(timeout_s=ANSWER_TIMEOUT_S)
    return KeeperFacts(False) if status is None else KeeperFacts(True, status.problem)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
