"""Start a server that is to join a running ensemble: choose its node, format its folder, start it.

Every step can be done twice, by two callers too: a folder is formatted once, an actor is created
once, and a server that no list has gets no vote by being started. If its folder is on a node that
lives, it starts there.
"""

import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import ray
import ray.exceptions
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM
from raykeeper.actors.disk.folder_lock import lock_folder
from raykeeper.actors.disk.members_file import StoredMembers, read_members, write_members
from raykeeper.actors.disk.storage_errors import storage_errors
from raykeeper.clusters.config import EnsembleConfig, port_problems, ports_of
from raykeeper.clusters.member_steps.vocabulary import MemberChangeError
from raykeeper.clusters.membership import Membership, known_members
from raykeeper.clusters.node_discovery import discover_nodes, on_node, server_folder
from raykeeper.clusters.node_report import NodeReport, unread
from raykeeper.clusters.placement import (
    FolderFormat,
    LaunchPlan,
    Placement,
    PlacementError,
    place,
)
from raykeeper.clusters.running_servers import (
    Running,
    ask_voting_disks,
    described_by,
    find_running,
)
from raykeeper.clusters.starting import start_planned
from raykeeper.zab.ids import ServerId
from raykeeper.zab.member_list import MemberList

_TIMEOUT_S = 15.0


class _Places(Struct):
    """Where servers run, and where a newcomer may."""

    nodes: list[NodeReport]
    members: Membership
    running: Running
    at: dict[ServerId, str]
    """The node of each server; of a member that does not run a name of its own."""
    uuid: str
    leaving: Collection[str]
    """Nodes that are drained, or that Ray is about to lose."""


def start_newcomer(
    config: EnsembleConfig, server: ServerId, node: str = "", leaving: Collection[str] = ()
) -> str:
    """Start a server that has no vote, unless Ray has an actor of it; return the name of its node.

    Args:
        config: The settings that the servers run with.
        server: Its id.
        node: The Ray node that it must run on; empty for any that the settings allow, has free
            ports and twice the room that the data takes.
        leaving: The nodes that are none of these, because they will go.

    Raises:
        MemberChangeError: no node is fit for it; tells why for each. Nothing was formatted.
        PlacementError: the settings allow no node, or not every node could tell what it has.
        FormatTimeoutError: a StorageError: the node has not made the folder in time.
        StorageError: the folder cannot be written.
        RayUnavailableError, ray.exceptions.RayError: Ray does not answer.
    """
    places = _find_places(config, leaving)
    names = {each.node_id: each.name for each in places.nodes}
    if server in places.running:
        answer = places.running[server]
        return "" if answer is None else names.get(answer.node_id, answer.node_id[:8])
    plan = _plan(config, server, node, places)
    start_planned(config, plan, places.nodes)
    return names[plan.placements[0].node_id]


def check_newcomers(
    config: EnsembleConfig,
    servers: Sequence[ServerId],
    nodes: Mapping[ServerId, str],
    leaving: Collection[str] = (),
) -> None:
    """Check that there is a node for each of several newcomers. Starts and formats nothing.

    Args:
        config: The settings that the servers run with.
        servers: Their ids.
        nodes: For a server the node that it must run on.
        leaving: As for `start_newcomer`.

    Raises:
        MemberChangeError: there is none; tells why for each node.
        PlacementError: the settings allow no node, or not every node could tell what it has.
        RayUnavailableError, ray.exceptions.RayError: Ray does not answer.
    """
    if not servers:
        return
    places = _find_places(config, leaving)
    for server in servers:
        plan = _plan(config, server, nodes.get(server, ""), places)
        places.at[server] = plan.placements[0].node_id


def _find_places(config: EnsembleConfig, leaving: Collection[str]) -> _Places:
    """Ask the servers and all nodes.

    Raises:
        MemberChangeError: no server answers.
    """
    running = find_running(config.name)
    described = described_by(running)
    if not described:
        raise MemberChangeError(f"no server of ensemble {config.name!r} answers")
    nodes = discover_nodes(config.data_dir, config.name)
    members = known_members(config, described, nodes)
    # Others that do not run are not this change's to start.
    at = {each: f"of server {each}" for each in members.servers}
    at |= {each: answer.node_id for each, answer in running.items() if answer is not None}
    return _Places(nodes, members, running, at, described[0].ensemble_uuid, leaving)


def _plan(config: EnsembleConfig, server: ServerId, node: str, places: _Places) -> LaunchPlan:
    """Plan to start this server alone.

    Raises:
        MemberChangeError: no node is fit for it.
        PlacementError: the settings allow no node, or not every node could tell what it has.
    """
    if problem := next(port_problems(config, server), ""):
        raise MemberChangeError(f"server {server} cannot run with these settings: {problem}")
    nodes, members = places.nodes, places.members
    at = {each: place for each, place in places.at.items() if each != server}
    observers = tuple(sorted({*members.observers, server} - {*members.voters}))
    joined = replace(members, observers=observers)
    going = [] if node else [each for each in nodes if each.node_id in places.leaving]
    targets = [x.node_id for x in nodes if node in ("", x.node_id) and x not in going]
    voting, problems = ask_voting_disks(config), list[str]()
    while targets:
        try:
            plan = place(joined.sized(config), nodes, at, places.uuid, voting, targets, joined)
        except PlacementError:
            if not problems:
                raise
            break  # the nodes that the settings allow are not fit
        if server in plan.refused:
            raise MemberChangeError(f"server {server} {plan.refused[server]}")
        placement = next(each for each in plan.placements if each.server_id == server)
        report = next(each for each in nodes if each.node_id == placement.node_id)
        problem = _unfitness(config, placement, report, nodes)
        if not problem and node in ("", placement.node_id):
            return replace(plan, placements=[placement], members=members, damaged_record_nodes=[])
        if placement.format is FolderFormat.KEEP:
            why = f": that node {problem}" if problem else ""
            raise MemberChangeError(
                f"server {server} cannot start: its folder is on {report.name}{why}"
            )
        problems.append(f"{report.name} {problem}")
        targets.remove(placement.node_id)
    problems += [f"{each.name} is drained" for each in going]
    told = "; ".join(problems) or f"there is no live node {node[:8]}"
    raise MemberChangeError(f"no node for server {server}: {told}")


def _unfitness(
    config: EnsembleConfig, placement: Placement, node: NodeReport, nodes: Sequence[NodeReport]
) -> str:
    """Return why the server cannot start on a node; empty if nothing is in its way."""
    size = max((each.data_bytes for x in nodes for each in x.folders), default=0)
    if placement.format is not FolderFormat.KEEP and node.free_bytes < 2 * size:
        return f"has {node.free_bytes} bytes free, of {2 * size} that are needed"
    ports = ports_of(config, placement.server_id)
    task = on_node(node.node_id, taken_ports, config.zookeeper_address, ports)
    taken: list[int] = ray.get(task, timeout=_TIMEOUT_S)
    return f"has no free port {', '.join(map(str, taken))}" if taken else ""


def taken_ports(address: str, ports: Collection[int]) -> list[int]:
    """Return those of the ports that cannot be opened at an address of this node."""
    return [port for port in ports if not _is_free(address, port)]


def _is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def is_nowhere(config: EnsembleConfig, server: ServerId) -> bool:
    """Return whether every live node told what it has, and none has a folder of this server."""
    nodes = discover_nodes(config.data_dir, config.name)
    return not unread(nodes) and not any(_folders_of(server, nodes))


def mark_as_left(
    config: EnsembleConfig, server: ServerId, members: MemberList | None, reason: str
) -> None:
    """Note in the folders of a server, on all live nodes, that nothing starts from it again.

    A server that has left notes it itself, if it learns of it.

    Raises:
        StorageError: it cannot be written.
        RayUnavailableError, ray.exceptions.RayError: Ray does not answer.
    """
    nodes = discover_nodes(config.data_dir, config.name)
    where = (config.data_dir, config.name, server)
    tasks = [
        on_node(node, note_leaving, *where, members, reason) for node in _folders_of(server, nodes)
    ]
    for task in tasks:
        ray.get(task, timeout=_TIMEOUT_S)


def note_leaving(
    data_dir: str, ensemble: str, server: ServerId, members: MemberList | None, reason: str
) -> bool:
    """Note in the folder of a server on this node why it is no member; return whether it was done.

    Not if that is noted already, or if neither the folder nor the caller knows a member list.

    Raises:
        FolderInUse: a server runs there.
        StorageError: it cannot be written.
    """
    folder: Path = server_folder(data_dir, ensemble, server)
    with storage_errors(folder):
        lock = lock_folder(OS_FILESYSTEM, folder)
        try:
            known = read_members(folder)
            if known is not None and (members is None or known.members.version > members.version):
                members = known.members
            if members is None or (known is not None and known.removed):
                return False
            write_members(folder, StoredMembers(members, reason))
        finally:
            OS_FILESYSTEM.close(lock)
    return True


def _folders_of(server: ServerId, nodes: Sequence[NodeReport]) -> Iterator[str]:
    """Yield the nodes with a folder of this server."""
    for node in nodes:
        if any(folder.server_id == server for folder in node.folders):
            yield node.node_id
