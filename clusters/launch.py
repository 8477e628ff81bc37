"""Start an ensemble, complete a partly running one, or attach a running one (rule D2).

The steps: find the running servers; ask all nodes what they hold; plan (placement.py); format all
missing folders before any server starts; start the servers; wait for a leader. Another launch may
do each step at the same time: a folder is formatted once, and an actor is created once.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import ray
from msgspec.structs import replace

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.actors.replica_status import ReplicaDescription
from raykeeper.client.ray_lookups import GRACE_S, fail_after, find_actors
from raykeeper.clusters.config import (
    EnsembleConfig,
    resolve_requested,
    warnings_about,
)
from raykeeper.clusters.ensemble import Ensemble, NoLeaderError
from raykeeper.clusters.local_ray import join_or_start_ray
from raykeeper.clusters.membership import Membership, known_members
from raykeeper.clusters.node_discovery import discover_nodes
from raykeeper.clusters.node_report import NodeReport
from raykeeper.clusters.placement import LaunchPlan, check_numbers, place
from raykeeper.clusters.running_servers import (
    Running,
    ask_voting_disks,
    described_by,
    find_running,
    find_settled,
)
from raykeeper.clusters.running_settings import adopt_settings, check_settings
from raykeeper.clusters.starting import FORMAT_S, start_planned
from raykeeper.links.ray_names import replica_name
from raykeeper.zab.ids import ServerId

_GRACE_S = 2.0
"""How long a launch that has a majority waits for the next server."""
_WAS_STOPPED = "it was stopped meanwhile"
_log = logging.getLogger("raykeeper.clusters")

SettingsCheck = Callable[[EnsembleConfig, Collection[str], list[ReplicaDescription]], None]


def launch(
    config: str | Path | EnsembleConfig | None = None,
    *,
    timeout_s: float = 60.0,
    **settings: Any,
) -> Ensemble:
    """Start an ensemble and wait until it has a leader. Idempotent.

    A running ensemble is attached, and a partly dead one is completed with the settings that it
    runs with: those that the caller states must be the same. Who its servers are says the newest
    member list that a server or a folder knows. A server starts where its disk is. All folders are
    formatted only if no node holds anything of the ensemble; a single missing folder is formatted
    again, and its server gets its vote from the others. While a node or a folder cannot be read,
    nothing is formatted: the others start if they are a majority, and the log names what was not
    read. With the setting `heal_after_s` it starts the keeper, too, which from then on moves
    servers whose nodes are lost. If this process is not connected to Ray and no Ray runs here, it
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
        StorageError: a folder belongs to another ensemble, cannot be written, or is not made within
            `timeout_s`, or a majority cannot start; names node and folder.
        NoLeaderError: no leader within `timeout_s`; tells why. Launching again is safe.
        RayUnavailableError: Ray does not answer within `timeout_s`. Launching again is safe.
    """
    deadline = time.monotonic() + timeout_s
    given = {key: value for key, value in settings.items() if value is not None}
    resolved, stated = resolve_requested(config, given)
    with fail_after(timeout_s + GRACE_S):
        join_or_start_ray()
        ensemble, resolved = complete(resolved, stated, check_settings, deadline)
        start_missing_keeper(resolved)
    return ensemble


def complete(
    resolved: EnsembleConfig, stated: Collection[str], check: SettingsCheck, deadline: float
) -> tuple[Ensemble, EnsembleConfig]:
    """Do what `launch` does in a Ray cluster, but for the keeper; return also all settings.

    `check` compares the stated settings with those of the servers that run.

    Raises:
        ConfigError: what `check` raises, or a setting contradicts what the disks say.
        PlacementError: the nodes do not suffice. Nothing was started.
        StorageError: a folder cannot be used, or a majority cannot start.
        NoLeaderError: no leader before `deadline`.
    """
    running = find_settled(lambda: find_running(resolved.name))
    described = described_by(running)
    check(resolved, stated, described)
    resolved, warnings = adopt_settings(resolved, stated, described)
    members, nodes = _find_members(resolved, running)
    is_complete = running.keys() >= set(members.servers)
    resolved = _with_numbers(resolved, stated, members)
    for warning in [*warnings_about(resolved), *warnings]:
        _log.warning(warning)
    refused: dict[ServerId, str] = {}
    if not is_complete:
        left_s = max(0.0, deadline - time.monotonic())
        refused = _start_missing(resolved, running, nodes, members, _log.warning, left_s)
    ensemble = Ensemble(resolved.name)
    _wait_until_ready(resolved.name, members, refused, deadline)
    if not is_complete:
        # Another launch may have started them at the same time.
        check(resolved, stated, _described(resolved.name))
    ensemble.wait_for_leader(max(0.0, deadline - time.monotonic()))
    return ensemble, resolved


def await_founded(config: EnsembleConfig, plan: LaunchPlan, timeout_s: float) -> Ensemble:
    """Wait until a new ensemble, whose servers were just started by `plan`, has a leader.

    Raises:
        StorageError: a majority cannot start.
        NoLeaderError: no leader within `timeout_s`; tells why. `launch` goes on from there.
    """
    deadline = time.monotonic() + timeout_s
    for warning in [*warnings_about(config), *plan.warnings]:
        _log.warning(warning)
    _wait_until_ready(config.name, plan.members, {}, deadline)
    ensemble = Ensemble(config.name)
    ensemble.wait_for_leader(max(0.0, deadline - time.monotonic()))
    start_missing_keeper(config)
    return ensemble


def _described(name: str) -> list[ReplicaDescription]:
    return described_by(find_running(name))


def _find_members(config: EnsembleConfig, running: Running) -> tuple[Membership, list[NodeReport]]:
    """Return the members, and what the nodes hold; these are not asked if all members run."""
    members = known_members(config, described_by(running))
    if running.keys() >= set(members.servers):
        return members, []
    nodes = discover_nodes(config.data_dir, config.name)
    return known_members(config, described_by(running), nodes), nodes


def _with_numbers(
    config: EnsembleConfig, stated: Collection[str], members: Membership
) -> EnsembleConfig:
    """Return the settings with the numbers of servers that a changed list has.

    Raises:
        ConfigError: the caller states another number.
    """
    if not members.version:
        return config
    sized = members.sized(config)
    given = {name: getattr(config, name) for name in ("servers", "observers") if name in stated}
    check_numbers(replace(sized, **given), members)
    return sized


def start_missing_keeper(config: EnsembleConfig) -> None:
    """Start the keeper if the settings ask for one and it does not run."""
    if not config.heal_after_s:
        return
    from raykeeper.clusters.keeper import start_keeper  # only an ensemble with a keeper loads it

    start_keeper(config, {each.server_id: each.node_id for each in _described(config.name)})


def _start_missing(
    config: EnsembleConfig,
    running: Running,
    nodes: list[NodeReport],
    members: Membership,
    warn: Callable[[str], object],
    timeout_s: float = FORMAT_S,
) -> dict[ServerId, str]:
    """Start the servers that were found or may be formatted; return why the others were not."""
    described = described_by(running)
    at = {server: "" if a is None else a.node_id for server, a in running.items()}
    uuid = described[0].ensemble_uuid if described else None
    plan = place(config, nodes, at, uuid, ask_voting_disks(config), members=members)
    for warning in plan.warnings:
        warn(warning)
    if not plan.placements and not plan.damaged_record_nodes:
        return plan.refused
    start_planned(config, plan, nodes, timeout_s=timeout_s)
    return plan.refused


def start_stopped(config: EnsembleConfig, warn: Callable[[str], object]) -> None:
    """Start the servers of which there is no actor; they may not be ready yet.

    `warn` is told each thing that is hardly intended, such as servers that share a node.

    Raises:
        NoLeaderError: there is no actor of any: somebody has stopped the ensemble. None is started.
        StorageError: one of them is not started; tells why.
    """
    running = find_running(config.name)
    if not running:
        raise NoLeaderError(f"ensemble {config.name!r} was stopped meanwhile")
    members, nodes = _find_members(config, running)
    if running.keys() >= set(members.servers):
        return
    refused = _start_missing(_with_numbers(config, (), members), running, nodes, members, warn)
    for server, problem in refused.items():
        raise StorageError(f"server {server} was stopped, and is not started again: {problem}")


def _wait_until_ready(
    name: str, members: Membership, refused: Mapping[ServerId, str], deadline: float
) -> None:
    """Wait until a majority has read its disk, and a little longer for all other servers.

    The log names each server that cannot start or is `refused`: the majority works without it.

    Raises:
        StorageError: too many servers cannot start, so there is no majority.
        NoLeaderError: no majority was ready before `deadline`.
    """
    voters, majority = set(members.voters), members.majority
    waiting: dict[ray.ObjectRef[Any], ServerId] = {}
    problems: dict[ServerId, StorageError | str] = {}
    started: set[ServerId] = set()
    replicas = find_actors(replica_name(name, server) for server in members.servers)
    for server in members.servers:
        handle = replicas.get(replica_name(name, server))
        if handle is None:  # the ensemble was stopped, or the server killed for good
            problems[server] = refused.get(server, _WAS_STOPPED)
        else:
            waiting[handle.ready.remote()] = server
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
            _log.warning("server %d of ensemble %r: %s", server, name, problem)
        return
    for problem in problems.values():
        if isinstance(problem, StorageError):
            raise problem
    why = "; ".join(f"server {server}: {problems[server]}" for server in sorted(problems))
    raise NoLeaderError(f"ensemble {name!r} did not start: {why}")


def _problem_of(server: ServerId, ready: "ray.ObjectRef[Any]") -> StorageError | str | None:
    try:
        ray.get(ready)
    except StorageError as error:
        return StorageError(f"server {server} cannot start: {getattr(error, 'cause', error)}")
    except ray.exceptions.RayActorError:
        return "its process ended; Ray starts it again"
    except ray.exceptions.ActorUnschedulableError:
        return "its node is gone"
    except ray.exceptions.TaskCancelledError:
        return _WAS_STOPPED
    return None
