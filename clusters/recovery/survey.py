"""Asks all nodes what they hold of an ensemble that does not run."""

from collections.abc import Sequence

import ray
import ray.exceptions
from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.storage_errors import StorageError
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.node_discovery import discover_nodes, on_node
from raykeeper.clusters.node_report import NodeReport
from raykeeper.clusters.recovery.evidence import HeldFolder, gather_evidence
from raykeeper.clusters.recovery.judgement import Judgement, judge, with_recorded_size
from raykeeper.clusters.running_servers import find_actors
from raykeeper.zab.errors import RayKeeperError


class RecoveryRefusedError(RayKeeperError):
    """Raised when an ensemble is not to be recovered. Nothing was changed.

    The caller should do what the message says.
    """


class Survey(Struct, frozen=True):
    """What the nodes hold, and what follows."""

    config: EnsembleConfig
    """The settings, with the number of servers that the disks tell."""
    nodes: list[NodeReport]
    judgement: Judgement


def survey(config: EnsembleConfig, stated: Sequence[str] | frozenset[str] = ()) -> Survey:
    """Ask all nodes, and judge. Changes nothing; takes as long as the servers' starts.

    `stated` are the settings that the caller knows; the number of servers is else that on the
    disks.

    Raises:
        RecoveryRefusedError: the ensemble runs.
        ForeignFolder: folders belong to different ensembles of this name.
        ConfigError: the ensemble on the disks has another number of servers.
    """
    check_stopped(config.name)
    nodes = discover_nodes(config.data_dir, config.name)
    asked = {
        node.node_id: on_node(node.node_id, gather_evidence, config.data_dir, config.name)
        for node in nodes
        if node.problem is None
    }
    folders: list[HeldFolder] = []
    for index, node in enumerate(nodes):
        if node.node_id not in asked:
            continue
        try:
            found: list[HeldFolder] = ray.get(asked[node.node_id])
        except StorageError as error:
            nodes[index] = replace(node, problem=str(getattr(error, "cause", error)))
        except ray.exceptions.RayError as error:
            nodes[index] = replace(node, problem=type(error).__name__)
        else:
            folders += [replace(each, node_id=node.node_id, node=node.name) for each in found]
    config = with_recorded_size(config, stated, nodes)
    return Survey(config, nodes, judge(config, nodes, folders))


def check_stopped(name: str) -> None:
    """Check that no server of the ensemble runs, or waits for its node.

    Raises:
        RecoveryRefusedError: one does.
    """
    if running := find_actors(name):
        servers = ", ".join(map(str, sorted(running)))
        raise RecoveryRefusedError(
            f"server {servers} of ensemble {name!r} runs; a majority that is only away may come "
            f"back to it. Stop it with `raykeeper down {name}` first"
        )
