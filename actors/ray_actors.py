"""The only place where classes become Ray actors, and one function a task: options, names, lookup.

All actors are detached and named, so they outlive the driver that made them; `max_restarts=-1`, so
Ray makes them again when their process dies; `max_task_retries=0`, because a call that was repeated
by Ray would break the order that links keep; and without task events, which cost as much as a
small call. `scheduling_strategy` is always given, so that none ends up in a placement group of
whoever called.

The classes are imported where they are started: a process that only looks actors up, such as
`raykeeper status`, does not load the server.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raykeeper.links.processes import is_running
from raykeeper.links.ray_names import NAMESPACE, replica_name, snapshotter_name, tracker_name
from raykeeper.zab.ids import ServerId

if TYPE_CHECKING:
    from raykeeper.actors.replica_config import ReplicaConfig

CALLS_RESERVE = 256
"""Slots for calls of peers, of operators, and of links that are being refused."""


def start_replica(
    config: "ReplicaConfig", node_id: str | None = None, placement: Mapping[str, Any] | None = None
) -> Any:
    """The Replica actor of a server, made if there is none; it may not have started yet.

    Args:
        config: Of an actor that is made; one that is there keeps its own.
        node_id: The Ray node to run on for good; None leaves it to Ray.
        placement: More options of Ray that place it, such as `resources` or `label_selector`.
    """
    from raykeeper.actors.replica import Replica

    # Two calls of each client are under way, one of them parked, and two of each peer.
    calls = 2 * config.clients_max + 2 * len(config.other_servers) + CALLS_RESERVE
    name = replica_name(config.ensemble, config.server_id)
    options = {**_options(name, node_id), "max_concurrency": calls, **(placement or {})}
    return ray.remote(**options)(Replica).remote(config)


def start_tracker(config: "ReplicaConfig", node_id: str | None = None) -> Any:
    """The SessionTracker beside a server, made if there is none."""
    from raykeeper.actors.session_tracker import SessionTracker

    options = _options(tracker_name(config.ensemble, config.server_id), node_id)
    return ray.remote(**options)(SessionTracker).remote()


def start_snapshotter(config: "ReplicaConfig", node_id: str | None = None) -> Any:
    """The Snapshotter beside a server, made if there is none. It must share the server's disk."""
    from raykeeper.actors.snapshotter import Snapshotter

    options = _options(snapshotter_name(config.ensemble, config.server_id), node_id)
    return ray.remote(**options)(Snapshotter).remote(config.folder)


def find_replica(ensemble: str, server_id: ServerId) -> Any:
    """The Replica actor of a server.

    Raises:
        ValueError: there is none.
    """
    return ray.get_actor(replica_name(ensemble, server_id), namespace=NAMESPACE)


def is_running_on(
    node_id: str, pid: int, started: int, pid_namespace: str, limit_s: float
) -> bool | None:
    """Have a task on that Ray node see whether a process runs there; None in doubt.

    Raises:
        Exception: whatever Ray raises when the node is gone or does not answer in time.
    """
    pinned = NodeAffinitySchedulingStrategy(node_id, soft=False)
    task = _probe_task().options(scheduling_strategy=pinned).remote(pid, started, pid_namespace)
    try:
        # Not ray.get: in the process of an asyncio actor it warns of a loop that is blocked, in
        # threads too, and the warning reaches the user's terminal.
        answer: bool | None = task.future().result(limit_s)
    except TimeoutError:
        ray.cancel(task)
        raise
    return answer


@cache
def _probe_task() -> Any:
    options: dict[str, Any] = {"num_cpus": 0, "max_retries": 0, "enable_task_events": False}
    return ray.remote(**options)(is_running)


def _options(name: str, node_id: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "get_if_exists": True,
        "lifetime": "detached",
        "max_restarts": -1,
        "max_task_retries": 0,
        "num_cpus": 0,
        "enable_task_events": False,
        "scheduling_strategy": "DEFAULT"
        if node_id is None
        else NodeAffinitySchedulingStrategy(node_id, soft=False),
    }
