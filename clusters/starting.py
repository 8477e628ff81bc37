"""Format the folders of a plan and start its servers: the last steps of a launch, and of a move.

Everything is formatted before anything starts. Another process may do the same at the same time: a
folder is formatted once, and an actor is created once.
"""

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import ray
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.identity import DiskIdentity
from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.client.ray_lookups import ask_ray
from raykeeper.clusters.config import EnsembleConfig, LabelPin, ResourcePin
from raykeeper.clusters.membership import Membership, founding_members
from raykeeper.clusters.node_discovery import on_node, prepare_folder, write_record
from raykeeper.clusters.node_report import (
    EnsembleRecord,
    NodeReport,
    RestoredHistory,
    superseded_uuids,
)
from raykeeper.clusters.placement import FolderFormat, LaunchPlan, Placement
from raykeeper.clusters.running_servers import ask_statuses
from raykeeper.clusters.running_settings import settings_of
from raykeeper.clusters.voting_disks import newest_incarnation
from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.acl import Identity

if TYPE_CHECKING:
    from raykeeper.actors.replica_config import ReplicaConfig

FORMAT_S: Final = 60.0
"""How long the nodes may take to make the folders, unless the caller says."""
_PIN_CPU_SHARE = 0.001
_SAME_FOR_SERVERS = (
    *("watch_history_changes", "watch_history_bytes", "promotion_lag_max", "promotion_wait_ms"),
    "niceness",
)
"""Settings that a server has under the same name, with the same meaning."""
_log = logging.getLogger("raykeeper.clusters")


class FormatTimeoutError(StorageError):
    """Raised when a node has not made a folder in time. No server was started; try again."""


class _Limit(Struct, frozen=True):
    """How long nodes may take for what they are asked, and when that is over."""

    timeout_s: float
    deadline: float

    def result_of(self, task: "ray.ObjectRef[Any]") -> Any:
        """Return the result of a task on a node.

        Raises:
            GetTimeoutError: it does not come in time; the task ends.
        """
        try:
            return ray.get(task, timeout=max(0.0, self.deadline - time.monotonic()))
        except ray.exceptions.GetTimeoutError:
            ray.cancel(task, force=True)
            raise


def start_planned(
    config: EnsembleConfig,
    plan: LaunchPlan,
    nodes: Sequence[NodeReport],
    restored: RestoredHistory | None = None,
    timeout_s: float = FORMAT_S,
) -> None:
    """Format the folders of the plan, and start its servers; they may not be ready yet.

    Of a `restored` ensemble all folders are new, and the snapshot is staged on each node. The nodes
    have `timeout_s` for the folders.

    Raises:
        FormatTimeoutError: a StorageError: a node has not made a folder in time.
        StorageError: a folder cannot be written; names its node. No server was started. Or another
            process founds, or restores, the ensemble now.
        RayUnavailableError: Ray does not answer in time. Starting them again is safe.
    """
    limit = _Limit(timeout_s, time.monotonic() + timeout_s)
    # A late import: a process that only asks for the status must not load the server.
    from raykeeper.actors.replica import start_replica

    # Of a new ensemble no server runs that could have seen another.
    answers = ask_statuses(config.name) if plan.ensemble_uuid is not None else {}
    members = plan.members.with_listed(answers.values())
    uuid = _format(config, replace(plan, members=members), nodes, restored, limit)
    _rewrite_records(config, plan, uuid, limit)
    first = next(iter(superseded_uuids(nodes)), uuid)
    for placement in plan.placements:
        node_id, pin = _location(config, placement, nodes)
        newest = newest_incarnation(placement.server_id, answers)
        made = replica_config(config, uuid, placement.server_id, newest, first, members)
        what = f"the start of server {placement.server_id}"
        ask_ray(what, start_replica, made, node_id, pin)


def _format(
    config: EnsembleConfig,
    plan: LaunchPlan,
    nodes: Sequence[NodeReport],
    restored: RestoredHistory | None,
    limit: _Limit,
) -> str:
    """Format the folders of the plan, and return the uuid of the ensemble.

    Raises:
        FormatTimeoutError: a node has not made one in time.
        StorageError: a folder cannot be written; names its node. No server was started.
    """
    placements = [
        placement for placement in plan.placements if placement.format is not FolderFormat.KEEP
    ]
    uuid = plan.ensemble_uuid
    if placements and uuid is None:
        # Of two concurrent launches the one that formats the first folder determines the uuid.
        uuid = _prepare(config, str(uuid4()), placements[:1], nodes, restored, plan.members, limit)
        placements = placements[1:]
    assert uuid is not None, plan
    if placements:
        _prepare(config, uuid, placements, nodes, restored, plan.members, limit)
    return uuid


def _prepare(
    config: EnsembleConfig,
    uuid: str,
    placements: Sequence[Placement],
    nodes: Sequence[NodeReport],
    restored: RestoredHistory | None,
    members: Membership,
    limit: _Limit,
) -> str:
    record = EnsembleRecord(uuid, len(members.founding_voters))
    supersedes = superseded_uuids(nodes)
    tasks = [
        on_node(
            placement.node_id,
            prepare_folder,
            *(config.data_dir, config.name, record, placement.server_id),
            *(placement.format is FolderFormat.FOUNDING, supersedes, restored, members.as_list()),
        )
        for placement in placements
    ]
    names = {node.node_id: node.name for node in nodes}
    for placement, task in zip(placements, tasks, strict=True):
        try:
            identity: DiskIdentity = limit.result_of(task)
        except StorageError as error:
            cause = getattr(error, "cause", error)
            raise StorageError(f"{cause} (node {names[placement.node_id]})") from None
        except ray.exceptions.GetTimeoutError:
            for other in tasks:
                ray.cancel(other, force=True)  # what is half made counts for nothing
            raise FormatTimeoutError(
                f"node {names[placement.node_id]} has not made the folder of server "
                f"{placement.server_id} within {limit.timeout_s:.3g} s: Ray starts no task there, "
                "or its disk does not answer; no server was started"
            ) from None
        _check_founded_alike(config.name, placement, identity, restored)
        uuid = identity.owner.ensemble_uuid
    return uuid


def _check_founded_alike(
    name: str, placement: Placement, identity: DiskIdentity, restored: RestoredHistory | None
) -> None:
    """Check that of two processes that found an ensemble now not one restores it.

    Raises:
        StorageError: the other one founds it from nothing, or from another backup.
    """
    expected = "" if restored is None else restored.backup
    if placement.format is FolderFormat.FOUNDING and identity.restored_from != expected:
        other = identity.restored_from
        how = f"restores ensemble {name!r} from {other}" if other else f"launches ensemble {name!r}"
        raise StorageError(f"another process {how} at this moment")


def _rewrite_records(config: EnsembleConfig, plan: LaunchPlan, uuid: str, limit: _Limit) -> None:
    record = EnsembleRecord(uuid, len(plan.members.founding_voters))
    for node_id in plan.damaged_record_nodes:
        try:
            limit.result_of(on_node(node_id, write_record, config.data_dir, config.name, record))
        except (StorageError, ray.exceptions.RayError) as error:
            # The servers run without it; the next launch tries again.
            _log.warning("the record was not written: %s", getattr(error, "cause", error))


def _location(
    config: EnsembleConfig, placement: Placement, nodes: Sequence[NodeReport]
) -> tuple[str | None, dict[str, Any] | None]:
    """Return a node id or a pin for Ray. A pin outlives its node, which returns with a new id."""
    pin, node = config.placement, next(n for n in nodes if n.node_id == placement.node_id)
    if isinstance(pin, LabelPin) and node.labels.get(pin.label) == str(placement.server_id):
        return None, {"label_selector": {pin.label: str(placement.server_id)}}
    if isinstance(pin, ResourcePin):
        resource = f"{pin.resource}_{placement.server_id}"
        if resource in node.resources:
            return None, {"resources": {resource: _PIN_CPU_SHARE}}
    return placement.node_id, None


def replica_config(
    config: EnsembleConfig,
    uuid: str,
    server_id: ServerId,
    newest_incarnation: int = 0,
    first_uuid: str = "",
    members: Membership | None = None,
) -> "ReplicaConfig":
    """Return the settings of one server, without `members` those with the members of `config`.

    `first_uuid` is the one before all recoveries, and others have seen its `newest_incarnation`.
    """
    from raykeeper.actors.replica_config import ReplicaConfig  # the server, for launches only

    members = members or founding_members(config)
    return ReplicaConfig(
        ensemble=config.name,
        ensemble_uuid=uuid,
        first_uuid=first_uuid,
        server_id=server_id,
        voters=members.founding_voters,
        observers=members.founding_observers,
        members=members.listed,
        folder=f"{config.data_dir}/{config.name}/{server_id}",
        newest_incarnation=newest_incarnation,
        tick_ms=Millis(config.tick_ms),
        init_limit=config.init_limit,
        sync_limit=config.sync_limit,
        session_timeout_min_ms=Millis(round(config.session_timeout_min_s * 1000)),
        session_timeout_max_ms=Millis(round(config.session_timeout_max_s * 1000)),
        container_grace_ms=Millis(round(config.container_grace_s * 1000)),
        value_bytes_max=config.value_limit_bytes,
        transaction_ops_max=config.transaction_ops_max,
        acl_entries_max=config.acl_entries_max,
        session_identities_max=config.session_identities_max,
        super_identities=tuple(Identity(*each.split(":", 1)) for each in config.super_ids),
        requests_max=config.requests_max,
        clients_max=None if config.clients_max == "auto" else config.clients_max,
        sessions_max=config.sessions_max,
        snapshot_every_txns=config.snapshot_every_txns,
        snapshots_kept=config.snapshots_kept,
        feature_level_max=_level_of(config),
        **{name: getattr(config, name) for name in _SAME_FOR_SERVERS},
        links=config.links,
        **_zookeeper_settings(config, server_id),
        metrics=config.metrics,
        log_format=config.log_format,
        log_file_bytes=config.log_file_bytes,
        log_files_kept=config.log_files_kept,
        launch_settings=settings_of(config),
    )


def _zookeeper_settings(config: EnsembleConfig, server_id: ServerId) -> dict[str, Any]:
    """Return those settings of a server that are for clients and tools of ZooKeeper."""
    return {
        "zookeeper_port": _port_of(config.zookeeper_port, server_id),
        "zookeeper_address": config.zookeeper_address,
        "zookeeper_clients_per_address": config.zookeeper_clients_per_address,
        "zookeeper_handshake_s": config.zookeeper_handshake_s,
        "zookeeper_words": config.zookeeper_words,
        "zookeeper_admin_port": _port_of(config.zookeeper_admin_port, server_id),
        "zookeeper_request_bytes": config.zookeeper_request_bytes,
        "zookeeper_list_bytes": config.zookeeper_list_bytes,
        "zookeeper_buffer_bytes": config.zookeeper_buffer_bytes,
        "zookeeper_tls_port": _port_of(config.zookeeper_tls_port, server_id),
        "zookeeper_tls_certificate": config.zookeeper_tls_certificate,
        "zookeeper_tls_key": config.zookeeper_tls_key,
        "zookeeper_tls_authority": config.zookeeper_tls_authority,
    }


def _level_of(config: EnsembleConfig) -> FeatureLevel | None:
    level = config.feature_level_max
    return None if level == "auto" else FeatureLevel(level)


def _port_of(first: int, server_id: ServerId) -> int:
    """Return a server's port: servers may share a node, and each keeps its port when it moves."""
    return first and first + server_id - 1
