"""The keeper's steps in a Ray cluster: it asks Ray, nodes and servers, and acts on them.

`StepExecutor` does the steps of clusters/healing/move_steps.py by those of a launch. Every step can
be done twice. A server is started by its name, of which Ray has one actor; a folder is formatted
once; and a folder that the member list does not name has no vote (rule D3).
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import ray
import ray.exceptions
from msgspec.structs import replace

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.sidecars import first_line
from raykeeper.client.errors import LostError
from raykeeper.client.ray_lookups import ask_ray, find_actor, list_nodes
from raykeeper.client.recipes.acquirable import Held
from raykeeper.clusters.actor_calls import call_actors
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.healing.move_steps import MoveError
from raykeeper.clusters.healing.vocabulary import (
    Act,
    Cause,
    Kill,
    RemoveStaleFolders,
    SetFolderAside,
    Start,
    Stop,
    Survey,
    View,
)
from raykeeper.clusters.keeper_view import make_survey, make_view
from raykeeper.clusters.membership import known_members
from raykeeper.clusters.node_discovery import discover_nodes, on_node
from raykeeper.clusters.node_report import NodeReport
from raykeeper.clusters.placement import PlacementError, place
from raykeeper.clusters.running_servers import (
    ask_members,
    ask_statuses,
    ask_voting_disks,
    described_by,
    find_actors,
    find_running,
)
from raykeeper.clusters.stale_folders import remove_stale_folders, set_folder_aside
from raykeeper.clusters.starting import start_planned
from raykeeper.links.ray_internals import actor_id, draining_nodes
from raykeeper.links.ray_names import snapshotter_name, tracker_name
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis, ServerId

_POLL_S = 0.05
_TIMEOUT_S = 15.0
"""How long a server may take to end, or a node to rename a folder."""


class StepExecutor:
    """The view and the acts of a keeper in a Ray cluster, during one leadership."""

    def __init__(self, config: EnsembleConfig, leadership: Held[Any]) -> None:
        """Act under the token of `leadership`."""
        self._config = config
        self._leadership = leadership
        self._voters: Sequence[ServerId] = ask_members(config).voters
        """Of the newest list that a server knew at the last observation."""
        self._names: dict[str, str] = {}
        """Of the nodes, at the last observation."""
        self._handles: dict[str, Any] = {}
        """Of the actors, at the last observation, by the id that no other actor ever has."""
        self._reports: list[NodeReport] = []
        """Of the nodes, when they were asked last."""
        self._acts: dict[type[Act], Callable[[Any], Any]] = {
            Stop: self._stop,
            Kill: self._kill,
            Start: self._start,
            SetFolderAside: self._set_aside,
            RemoveStaleFolders: self._remove_stale,
        }

    def observe(self, drained: list[str]) -> View:
        """Take a look at Ray and the servers; `drained` are the ids of nodes that leave.

        Raises:
            RayUnavailableError, ray.exceptions.RayError: Ray does not answer.
        """
        nodes = list_nodes()
        self._names = {node["NodeID"]: _name(node) for node in nodes}
        leaving = dict.fromkeys(ask_ray("the nodes that it loses", draining_nodes), Cause.PREEMPTED)
        leaving |= dict.fromkeys(drained, Cause.DRAINED)
        handles = find_actors(self._config.name)
        actors = {server: actor_id(handle) for server, handle in handles.items()}
        answers = call_actors(handles.values(), "status")
        self._handles = {actors[server]: handle for server, handle in handles.items()}
        view = make_view(
            self._voters,
            {node["NodeID"]: bool(node["Alive"]) for node in nodes},
            leaving,
            self._names,
            actors,
            dict(zip(handles, answers, strict=True)),
        )
        self._voters = view.voters
        return view

    def survey(self, time_ms: Millis) -> Survey:
        """Ask all live nodes what they have, and the servers for the member list.

        Raises:
            RayUnavailableError, ray.exceptions.RayError: Ray does not answer.
        """
        self._reports = discover_nodes(self._config.data_dir, self._config.name)
        answers = ask_statuses(self._config.name)
        return make_survey(self._config, self._voters, self._reports, self._names, answers, time_ms)

    def act(self, step: Act) -> Any:
        """Do a step, if nobody else can lead by this process's clock; return its answer.

        Raises:
            LostError: another keeper may lead.
            MoveError: it is not possible; the text tells why.
        """
        self._leadership.lost.check()
        try:
            return self._acts[type(step)](step)
        except (RayKeeperError, ray.exceptions.RayError) as error:
            if isinstance(error, LostError):
                raise
            raise MoveError(first_line(error)) from None

    def _stop(self, step: Stop) -> None:
        held = (self._leadership.path, self._leadership.token)
        stopping = self._handles[step.actor].stop.remote(held)
        ray.wait([stopping], timeout=_TIMEOUT_S)
        with suppress(ray.exceptions.RayError):  # it does not answer
            if not ray.get(stopping, timeout=0):
                raise MoveError(f"server {step.server} knows that another keeper leads")

    def _kill(self, step: Kill) -> None:
        name, server = self._config.name, step.server
        sidecars = [
            find_actor(sidecar)
            for sidecar in (tracker_name(name, server), snapshotter_name(name, server))
        ]
        self._leadership.lost.check()
        for handle in (self._handles[step.actor], *sidecars):
            if handle is not None:
                ray.kill(handle, no_restart=True)
        deadline = time.monotonic() + _TIMEOUT_S
        while (handle := find_actors(name).get(server)) and actor_id(handle) == step.actor:
            if time.monotonic() > deadline:
                raise MoveError(f"server {server} does not end")
            time.sleep(_POLL_S)

    def _start(self, step: Start) -> None:
        """Start a server by the steps of a launch."""
        config, server = self._config, step.server
        voting = ask_voting_disks(config)
        doubt = voting.doubt_about(server)
        if doubt and not step.has_disk:
            raise MoveError(doubt)
        # A folder elsewhere that is out of date does not draw the server there.
        nodes = [
            node if node.node_id in step.nodes else _without(node, server)
            for node in self._reports
            if node.node_id != step.left
        ]
        running = find_running(config.name)
        described = described_by(running)
        if not described:
            raise MoveError("no server answers")
        if server in running:
            return
        members = known_members(config, described, self._reports)
        if server not in members.servers:
            raise MoveError(f"server {server} is no member any more")
        at = {each: f"of server {each}" for each in members.servers}
        at |= {one: answer.node_id for one, answer in running.items() if answer is not None}
        del at[server]
        targets = None if step.has_disk else step.nodes
        uuid = described[0].ensemble_uuid
        plan = place(members.sized(config), nodes, at, uuid, voting, targets, members)
        if server in plan.refused:
            raise PlacementError(f"server {server} {plan.refused[server]}")
        start_planned(members.sized(config), plan, nodes)

    def _set_aside(self, step: SetFolderAside) -> str | None:
        config = self._config
        where = (config.data_dir, config.name, step.server)
        path: str | None = _result_of(
            on_node(step.node, set_folder_aside, *where, step.voting_disk, step.incarnation)
        )
        return path

    def _remove_stale(self, step: RemoveStaleFolders) -> list[str]:
        config = self._config
        task = on_node(
            step.node, remove_stale_folders, config.data_dir, config.name, step.older_than_s
        )
        paths: list[str] = _result_of(task)
        return paths


def _result_of(task: "ray.ObjectRef[Any]") -> Any:
    """Return the result of a task on a node.

    Raises:
        MoveError: it failed; the text tells why.
    """
    try:
        return ray.get(task, timeout=_TIMEOUT_S)
    except (StorageError, ray.exceptions.RayError) as error:
        raise MoveError(first_line(getattr(error, "cause", error))) from None


def _without(report: NodeReport, server: ServerId) -> NodeReport:
    return replace(report, folders=[each for each in report.folders if each.server_id != server])


def _name(node: Any) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"
