"""Start an ensemble, complete a partly running one, or attach a running one (rule D2).

The steps: find the running servers; ask all nodes what they hold; plan (placement.py); format all
missing folders before any server starts; start the servers; wait for a leader. Another launch may
do each step at the same time: a folder is formatted once, and an actor is created once.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import ray
import ray.util

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.ray_actors import find_replica
from raykeeper.actors.replica_status import ReplicaDescription
from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.clusters.config import (
    EnsembleConfig,
    LabelPin,
    ResourcePin,
    resolve_requested,
    warnings_about,
)
from raykeeper.clusters.ensemble import Ensemble, NoLeaderError, call_actors, find_replicas
from raykeeper.clusters.local_ray import join_or_start_ray
from raykeeper.clusters.node_discovery import discover_nodes, on_node, prepare_folder, write_record
from raykeeper.clusters.node_report import EnsembleRecord, NodeReport
from raykeeper.clusters.placement import FolderFormat, LaunchPlan, Placement, place
from raykeeper.clusters.running_settings import adopt_settings, check_settings, settings_of
from raykeeper.clusters.voting_disks import VotingDisks, find_voting_disks
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.acl import Identity

if TYPE_CHECKING:
    from raykeeper.actors.replica_config import ReplicaConfig

_PIN_CPU_SHARE = 0.001
_GRACE_S = 2.0
"""How long a launch that has a majority waits for the next server."""
_WAS_STOPPED = "it was stopped meanwhile"
_log = logging.getLogger("raykeeper.clusters")


def launch(
    config: str | Path | EnsembleConfig | None = None,
    *,
    timeout_s: float = 60.0,
    **settings: Any,
) -> Ensemble:
    """Start an ensemble and wait until it has a leader. Idempotent.

    A running ensemble is attached, and a partly dead one is completed with the settings that it
    runs with: those that the caller states must be the same. A server starts where its disk is.
    All folders are formatted only if no node holds anything of the ensemble; a single missing
    folder is formatted again, and its server gets its vote from the others. While a node or a
    folder cannot be read, nothing is formatted: the others start if they are a majority, and the
    log names what was not read. If this process is not connected to Ray and no Ray runs here, it
    starts one, which ends with the process.

    Args:
        config: A settings file such as ray-config.yaml; None for the defaults.
        timeout_s: How long the launch may take. On a busy machine, or the first time, Ray alone
            needs up to half a minute to start the processes of three servers.
        settings: Any setting of `EnsembleConfig`, such as name, servers or data_dir; it overrides
            that of the file.

    Raises:
        ConfigError: a setting is wrong, or contradicts what the disks say. Nothing was started.
        SettingsDifferError: a ConfigError: the ensemble runs with other settings than those of the
            arguments, the file, or the fields of `config` that are not the default. Lists the
            differences and how to bring each about. Nothing was changed, unless another launch
            started the servers at the same time.
        PlacementError: the nodes do not suffice. Nothing was started.
        StorageError: a folder belongs to another ensemble or cannot be written, or a majority
            cannot start; names node and folder.
        NoLeaderError: no leader within `timeout_s`; tells why. Launching again is safe.
    """
    deadline = time.monotonic() + timeout_s
    given = {key: value for key, value in settings.items() if value is not None}
    resolved, stated = resolve_requested(config, given)
    join_or_start_ray()
    running = _running(resolved.name)
    described = [answer for answer in running.values() if answer is not None]
    check_settings(resolved, stated, described)
    resolved, warnings = adopt_settings(resolved, stated, described)
    for warning in [*warnings_about(resolved), *warnings]:
        _log.warning(warning)
    refused: dict[ServerId, str] = {}
    if len(running) < resolved.servers + resolved.observers:
        refused = _start_missing(resolved, running)
    ensemble = Ensemble(resolved.name)
    _wait_until_ready(resolved, refused, deadline)
    if len(running) < resolved.servers + resolved.observers:
        # Another launch may have started them at the same time.
        described = [answer for answer in _running(resolved.name).values() if answer is not None]
        check_settings(resolved, stated, described)
    ensemble.wait_for_leader(max(0.0, deadline - time.monotonic()))
    return ensemble


def _running(name: str) -> dict[ServerId, ReplicaDescription | None]:
    """Return the servers that Ray knows; None for a server that does not answer now."""
    try:
        handles = find_replicas(name)
    except EnsembleNotFoundError:
        return {}
    answers = call_actors(handles.values(), "describe")
    return {
        server: answer if isinstance(answer, ReplicaDescription) else None
        for server, answer in zip(handles, answers, strict=True)
    }


def _start_missing(
    config: EnsembleConfig, running: dict[ServerId, ReplicaDescription | None]
) -> dict[ServerId, str]:
    """Start the servers that were found or may be formatted; return why the others were not."""
    # A late import: a process that only asks for the status must not load the server.
    from raykeeper.actors.replica import start_replica

    described = [answer for answer in running.values() if answer is not None]
    nodes = discover_nodes(config.data_dir, config.name)
    at = {server: "" if a is None else a.node_id for server, a in running.items()}
    uuid = described[0].ensemble_uuid if described else None
    plan = place(config, nodes, at, uuid, _ask_voting_disks(config))
    for warning in plan.warnings:
        _log.warning(warning)
    if not plan.placements and not plan.damaged_record_nodes:
        return plan.refused
    uuid = _format(config, plan, nodes)
    _rewrite_records(config, plan, uuid)
    for seat in plan.placements:
        node_id, pin = _location(config, seat, nodes)
        start_replica(replica_config(config, uuid, seat.server_id), node_id, pin)
    return plan.refused


def _ask_voting_disks(config: EnsembleConfig) -> VotingDisks:
    """Ask the running servers which disks have the votes."""
    try:
        handles = find_replicas(config.name)
    except EnsembleNotFoundError:
        return VotingDisks()
    answers = call_actors(handles.values(), "status")
    return find_voting_disks(config.voter_ids, dict(zip(handles, answers, strict=True)))


def _format(config: EnsembleConfig, plan: LaunchPlan, nodes: Sequence[NodeReport]) -> str:
    """Format the folders of the plan, and return the uuid of the ensemble.

    Raises:
        StorageError: a folder cannot be written; names its node. No server was started.
    """
    seats = [seat for seat in plan.placements if seat.format is not FolderFormat.KEEP]
    uuid = plan.ensemble_uuid
    if seats and uuid is None:
        # Of two concurrent launches the one that formats the first folder determines the uuid.
        uuid = _prepare(config, str(uuid4()), seats[:1], nodes)
        seats = seats[1:]
    assert uuid is not None, plan
    if seats:
        _prepare(config, uuid, seats, nodes)
    return uuid


def _prepare(
    config: EnsembleConfig, uuid: str, seats: Sequence[Placement], nodes: Sequence[NodeReport]
) -> str:
    record = EnsembleRecord(uuid, config.servers)
    tasks = [
        on_node(
            seat.node_id,
            prepare_folder,
            *(config.data_dir, config.name, record, seat.server_id),
            seat.format is FolderFormat.FOUNDING,
        )
        for seat in seats
    ]
    names = {node.node_id: node.name for node in nodes}
    for seat, task in zip(seats, tasks, strict=True):
        try:
            uuid = ray.get(task).owner.ensemble_uuid
        except StorageError as error:
            cause = getattr(error, "cause", error)
            raise StorageError(f"{cause} (node {names[seat.node_id]})") from None
    return uuid


def _rewrite_records(config: EnsembleConfig, plan: LaunchPlan, uuid: str) -> None:
    record = EnsembleRecord(uuid, config.servers)
    for node_id in plan.damaged_record_nodes:
        try:
            ray.get(on_node(node_id, write_record, config.data_dir, config.name, record))
        except (StorageError, ray.exceptions.RayError) as error:
            # The servers run without it; the next launch tries again.
            _log.warning("the record was not written: %s", getattr(error, "cause", error))


def _location(
    config: EnsembleConfig, seat: Placement, nodes: Sequence[NodeReport]
) -> tuple[str | None, dict[str, Any] | None]:
    """Return a node id or a pin for Ray. A pin outlives its node, which returns with a new id."""
    pin, node = config.placement, next(n for n in nodes if n.node_id == seat.node_id)
    if isinstance(pin, LabelPin) and node.labels.get(pin.label) == str(seat.server_id):
        return None, {"label_selector": {pin.label: str(seat.server_id)}}
    if isinstance(pin, ResourcePin):
        resource = f"{pin.resource}_{seat.server_id}"
        if resource in node.resources:
            return None, {"resources": {resource: _PIN_CPU_SHARE}}
    return seat.node_id, None


def _wait_until_ready(
    config: EnsembleConfig, refused: Mapping[ServerId, str], deadline: float
) -> None:
    """Wait until a majority has read its disk, and a little longer for all other servers.

    The log names each server that cannot start or is `refused`: the majority works without it.

    Raises:
        StorageError: too many servers cannot start, so there is no majority.
        NoLeaderError: no majority was ready before `deadline`.
    """
    voters, majority = set(config.voter_ids), config.servers // 2 + 1
    every = config.voter_ids + config.observer_ids
    waiting: dict[ray.ObjectRef[Any], ServerId] = {}
    problems: dict[ServerId, StorageError | str] = {}
    started: set[ServerId] = set()
    for server in every:
        try:
            waiting[find_replica(config.name, server).ready.remote()] = server
        except ValueError:  # the ensemble was stopped, or the server killed for good
            problems[server] = refused.get(server, _WAS_STOPPED)
    while waiting and len(voters & (started | set(waiting.values()))) >= majority:
        is_enough = len(voters & started) >= majority
        left_s = max(0.0, deadline - time.monotonic())
        done, _ = ray.wait(list(waiting), timeout=min(left_s, _GRACE_S) if is_enough else left_s)
        if not done:
            break
        server = waiting.pop(done[0])
        problem = _problem_of(server, done[0])
        if problem is None:
            started.add(server)
        else:
            problems[server] = problem
    problems.update(dict.fromkeys(waiting.values(), "is not ready yet"))
    if len(voters & started) >= majority:
        for server, problem in problems.items():
            _log.warning("server %d of ensemble %r: %s", server, config.name, problem)
        return
    for problem in problems.values():
        if isinstance(problem, StorageError):
            raise problem
    why = "; ".join(f"server {server}: {problems[server]}" for server in sorted(problems))
    raise NoLeaderError(f"ensemble {config.name!r} did not start: {why}")


def _problem_of(server: ServerId, ready: "ray.ObjectRef[Any]") -> StorageError | str | None:
    try:
        ray.get(ready)
    except StorageError as error:
        return StorageError(f"server {server} cannot start: {getattr(error, 'cause', error)}")
    except ray.exceptions.RayActorError:
        return "its process ended; Ray starts it again"
    except ray.exceptions.TaskCancelledError:
        return _WAS_STOPPED
    return None


def replica_config(config: EnsembleConfig, uuid: str, server_id: ServerId) -> "ReplicaConfig":
    """Return the settings of one server."""
    # This import loads the server's code, which only a launch needs.
    from raykeeper.actors.replica_config import ReplicaConfig

    return ReplicaConfig(
        ensemble=config.name,
        ensemble_uuid=uuid,
        server_id=server_id,
        voters=config.voter_ids,
        observers=config.observer_ids,
        folder=f"{config.data_dir}/{config.name}/{server_id}",
        tick_ms=Millis(config.tick_ms),
        init_limit=config.init_limit,
        sync_limit=config.sync_limit,
        session_timeout_min_ms=Millis(round(config.session_timeout_min_s * 1000)),
        session_timeout_max_ms=Millis(round(config.session_timeout_max_s * 1000)),
        value_bytes_max=config.value_limit_bytes,
        super_identities=tuple(Identity(*each.split(":", 1)) for each in config.super_ids),
        requests_max=config.requests_max,
        clients_max=None if config.clients_max == "auto" else config.clients_max,
        sessions_max=config.sessions_max,
        snapshot_every_txns=config.snapshot_every_txns,
        snapshots_kept=config.snapshots_kept,
        watch_history_changes=config.watch_history_changes,
        watch_history_bytes=config.watch_history_bytes,
        links=config.links,
        launch_settings=settings_of(config),
    )
