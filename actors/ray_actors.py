"""How classes become Ray actors and one function a task: options, start and lookup.

All actors but those of a backup or restore are detached and named, so they outlive the driver that
started them. With
`max_restarts=-1` Ray starts them again when their process dies. With `max_task_retries=0` Ray
repeats no call, which would break the order that links keep. They have no task events, which cost
as much as a small call. `scheduling_strategy` is always given, so that no actor ends up in a
placement group of its caller.

This module imports no actor's class: a process that only looks actors up, such as
`raykeeper status`, does not load the server. Each actor's module has a function that starts it.
"""

from functools import cache
from typing import Any

import ray
import ray.util
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raykeeper.links.processes import is_running
from raykeeper.links.ray_names import NAMESPACE, replica_name
from raykeeper.zab.ids import ServerId


def start_actor(
    actor: type, name: str, node_id: str | None, *arguments: Any, **options: Any
) -> Any:
    """Return the actor of that name, started if there is none.

    Args:
        actor: Its class.
        name: In `NAMESPACE`.
        node_id: The Ray node to run on for good; None leaves it to Ray.
        arguments: For the class; an actor that exists keeps its own.
        options: More options of Ray.
    """
    usual: dict[str, Any] = {
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
    return ray.remote(**{**usual, **options})(actor).remote(*arguments)


def start_private_actor(actor: type, node_id: str, *arguments: Any) -> Any:
    """Start an actor without a name on a Ray node; it ends with this process, or with its handle.

    It is not started again, and not tried on another node.
    """
    options: dict[str, Any] = {
        "max_restarts": 0,
        "max_task_retries": 0,
        "num_cpus": 0,
        "enable_task_events": False,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False),
    }
    return ray.remote(**options)(actor).remote(*arguments)


def find_replica(ensemble: str, server_id: ServerId) -> Any:
    """Return the Replica actor of a server.

    Raises:
        ValueError: there is none.
    """
    return ray.get_actor(replica_name(ensemble, server_id), namespace=NAMESPACE)


def own_node_id() -> str:
    """Return the Ray node of this process."""
    return str(ray.get_runtime_context().get_node_id())


def own_node_host() -> str:
    """Return the address by which Ray knows the node of this process."""
    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def is_running_on(
    node_id: str, pid: int, started: int, pid_namespace: str, limit_s: float
) -> bool | None:
    """Have a task on that Ray node check whether a process runs there; None in doubt.

    Raises:
        Exception: Ray's, when the node is gone or does not answer in time.
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
