"""What the keeper sees of a Ray cluster, and how it moves a server: by the steps of a launch.

Every step can be done twice. A server is started by its name, of which Ray has one actor; a folder
is formatted once; and a folder that the member list does not name has no vote (rule D3).
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import ray
import ray.exceptions
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.ray_actors import find_replica
from raykeeper.actors.replica_status import ReplicaStatus
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.ensemble import stop_actor
from raykeeper.clusters.healing.vocabulary import (
    Cause,
    Decision,
    NodeSurvey,
    Seat,
    Survey,
    View,
)
from raykeeper.clusters.node_discovery import discover_nodes, known_nodes, on_node
from raykeeper.clusters.node_report import NodeReport, unread
from raykeeper.clusters.placement import PlacementError, allows, place
from raykeeper.clusters.running_servers import (
    ask_statuses,
    ask_voting_disks,
    find_actors,
    find_running,
)
from raykeeper.clusters.stale_folders import remove_stale_folders, set_folder_aside
from raykeeper.clusters.starting import start_planned
from raykeeper.clusters.voting_disks import (
    LeaderWithQuorum,
    VotingDisks,
    find_leader,
    find_voting_disks,
)
from raykeeper.links.ray_internals import draining_nodes
from raykeeper.links.ray_names import snapshotter_name, tracker_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import DiskId, Millis, ServerId

_POLL_S = 0.05
_END_TIMEOUT_S = 15.0
"""How long a server that is stopped may take to end, and the leader to notice it."""


class MoveError(RayKeeperError):
    """Raised when a step of a move cannot be done. The keeper gives the move up."""


class Sight(Struct, frozen=True):
    """One look: what the decisions are made of, and the names of the nodes."""

    view: View
    node_names: dict[str, str]


def look(config: EnsembleConfig, drained: list[str]) -> Sight:
    """Take a look at Ray's nodes and at the servers; `drained` are the ids of nodes that leave."""
    nodes = known_nodes()
    names = {node["NodeID"]: _name(node) for node in nodes}
    leaving = dict.fromkeys(draining_nodes(), Cause.PREEMPTED)
    leaving |= dict.fromkeys(drained, Cause.DRAINED)
    answers = ask_statuses(config.name)
    leader = find_leader(config.voter_ids, answers)
    running = {
        server: Seat(
            answer.node_id, names.get(answer.node_id, answer.node_id[:8]), answer.incarnation
        )
        for server, answer in answers.items()
        if isinstance(answer, ReplicaStatus)
    }
    alive = {node["NodeID"]: bool(node["Alive"]) for node in nodes}
    view = View(
        nodes=alive,
        leaving={node: cause for node, cause in leaving.items() if alive.get(node, False)},
        running=running,
        absent=tuple(voter for voter in config.voter_ids if voter not in answers),
        doubt=leader.doubt,
        heard=_heard(leader),
        voting=leader.following,
        changing=_changing(config, leader),
    )
    return Sight(view, names)


def survey(config: EnsembleConfig, time_ms: Millis, names: Mapping[str, str]) -> Survey:
    """Ask all live nodes what they have, and the servers for the member list."""
    reports = discover_nodes(config.data_dir, config.name)
    found = [
        NodeSurvey(
            node_id=report.node_id,
            name=names.get(report.node_id, report.name),
            disks=_disks(report),
            fits=tuple(voter for voter in config.voter_ids if allows(config, report, voter)),
            free_bytes=report.free_bytes,
            data_bytes=max((folder.data_bytes for folder in report.folders), default=0),
            wall_s=report.wall_s,
        )
        for report in reports
        if report.problem is None
    ]
    disks = ask_voting_disks(config).disks
    return Survey(
        time_ms=time_ms, nodes=tuple(found), unread=tuple(unread(reports)), voting_disks=disks
    )


def move(config: EnsembleConfig, decision: Decision) -> None:
    """End what is left of the server on its old node, and start it on the new one.

    Does nothing if it runs on another node than the old one, or is on its way to the same one.

    Raises:
        RayKeeperError: it could not be started; the text tells why.
    """
    server = decision.server
    answer = ask_statuses(config.name).get(server)
    if isinstance(answer, ReplicaStatus) and (
        answer.node_id != decision.source or decision.source == decision.target
    ):
        return
    _end(config, server)
    _start(config, server, decision.target, decision.source)


def undo(config: EnsembleConfig, decision: Decision) -> None:
    """Stop the server on the new node, and start it where its vote rests, if that is at hand.

    Its folder on the new node is set aside, unless the vote rests there now.

    Raises:
        RayKeeperError: it could not be done; the text tells why.
    """
    server = decision.server
    answer = ask_statuses(config.name).get(server)
    if isinstance(answer, ReplicaStatus) and answer.node_id != decision.target:
        return
    _end(config, server)
    # As long as the leader hears the server, it may give the vote to the disk there.
    _wait_for(
        lambda: server not in _heard(find_leader(config.voter_ids, ask_statuses(config.name))),
        f"the leader still hears server {server}",
    )
    named = _voting_disk(ask_voting_disks(config), server)
    if any(node["NodeID"] == decision.target and node["Alive"] for node in known_nodes()):
        task = on_node(
            decision.target, set_folder_aside, config.data_dir, config.name, server, named
        )
        _result_of(task)
    _start(config, server, None, None)


def set_folders_aside(
    config: EnsembleConfig, names: Mapping[str, str], older_than_s: int
) -> list[str]:
    """Set aside the folders of voters whose vote rests on another disk, where they run and vote.

    Also remove those that were set aside earlier than `older_than_s` ago. Returns a line for each.
    """
    answers = ask_statuses(config.name)
    voting = set(find_leader(config.voter_ids, answers).following)
    disks = find_voting_disks(config.voter_ids, answers).disks
    told = []
    for report in discover_nodes(config.data_dir, config.name):
        at = f"on {names.get(report.node_id, report.name)}"
        for server, disk in sorted(_disks(report).items()):
            if server not in voting or server not in disks or disks[server] == disk:
                continue
            task = on_node(
                report.node_id,
                set_folder_aside,
                *(config.data_dir, config.name, server, disks[server]),
            )
            if stale := _result_of(task):
                told.append(f"server {server} votes elsewhere: its folder {at} is now {stale}")
        task = on_node(
            report.node_id, remove_stale_folders, config.data_dir, config.name, older_than_s
        )
        told += [f"removed {each} {at}" for each in _result_of(task) or []]
    return told


def _result_of(task: "ray.ObjectRef[Any]") -> Any:
    """Return the result of a task on a node.

    Raises:
        MoveError: it failed; the text tells why.
    """
    try:
        return ray.get(task, timeout=_END_TIMEOUT_S)
    except (StorageError, ray.exceptions.RayError) as error:
        raise MoveError(str(getattr(error, "cause", error))) from None


def _start(
    config: EnsembleConfig, server: ServerId, target: str | None, source: str | None
) -> None:
    """Start a server where the disk with its vote is, or else with an empty folder on `target`.

    The node `source` does not count: the server leaves it. Without a target it is not started
    anywhere else.
    """
    voting = ask_voting_disks(config)
    named = _voting_disk(voting, server)
    found = discover_nodes(config.data_dir, config.name)
    nodes = [node for node in found if node.node_id != source or source == target]
    holders = [node.node_id for node in nodes if _disks(node).get(server) == named]
    if not holders and target is None:
        return
    if not holders and target not in [node.node_id for node in nodes]:
        raise MoveError("the new node is gone")
    counted = holders or [str(target)]
    # A folder elsewhere that is out of date does not draw the server there.
    nodes = [node if node.node_id in counted else _without(node, server) for node in nodes]
    running = find_running(config.name)
    described = [answer for answer in running.values() if answer is not None]
    if not described:
        raise MoveError("no server answers")
    at = {voter: f"of server {voter}" for voter in config.voter_ids + config.observer_ids}
    at |= {one: answer.node_id for one, answer in running.items() if answer is not None}
    del at[server]
    uuid = described[0].ensemble_uuid
    plan = place(config, nodes, at, uuid, voting, None if holders else [str(target)])
    if server in plan.refused:
        raise PlacementError(f"server {server} {plan.refused[server]}")
    start_planned(config, plan, nodes)


def _voting_disk(voting: VotingDisks, server: ServerId) -> DiskId:
    """Return the disk on which the vote of a server rests.

    Raises:
        MoveError: that is not certain now.
    """
    named = voting.disks.get(server)
    if named is None:
        raise MoveError(voting.doubt or f"the vote of server {server} is moving")
    return named


def _end(config: EnsembleConfig, server: ServerId) -> None:
    """Stop a server, and end its actors. A pinned one waits for its node, and holds the name."""
    with suppress(ValueError):
        replica = find_replica(config.name, server)
        ray.wait([replica.stop.remote()], timeout=_END_TIMEOUT_S)
        ray.kill(replica, no_restart=True)
    for name in (tracker_name(config.name, server), snapshotter_name(config.name, server)):
        stop_actor(name)
    _wait_for(lambda: server not in find_actors(config.name), f"server {server} does not end")


def _wait_for(condition: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + _END_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise MoveError(problem)
        time.sleep(_POLL_S)


def _heard(leader: LeaderWithQuorum) -> tuple[ServerId, ...]:
    if leader.status is None:
        return ()
    linked = [peer for peer, state in leader.status.links.items() if state == "linked"]
    return tuple(sorted([leader.status.server_id, *linked]))


def _changing(config: EnsembleConfig, leader: LeaderWithQuorum) -> str:
    """Return which vote is moving, or which server waits for its vote."""
    if leader.status is None:
        return ""
    moving = [voter for voter in config.voter_ids if voter not in leader.status.voter_disks]
    if moving:
        return f"the vote of server {moving[0]} is moving to another disk"
    if leader.status.voters_lost:
        return f"server {leader.status.voters_lost[0]} waits for its vote"
    return ""


def _disks(report: NodeReport) -> dict[ServerId, DiskId]:
    return {
        folder.server_id: folder.identity.disk()
        for folder in report.folders
        if folder.identity is not None
    }


def _without(report: NodeReport, server: ServerId) -> NodeReport:
    return replace(report, folders=[each for each in report.folders if each.server_id != server])


def _name(node: Mapping[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"
