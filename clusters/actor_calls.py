"""Calls of the actors of an ensemble, of which any may be dead, late or away."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import ray
import ray.util

from raykeeper.actors.ray_actors import find_replica
from raykeeper.client.ensembles import servers_among
from raykeeper.clusters.local_ray import join_ray
from raykeeper.zab.ids import ServerId

ANSWER_TIMEOUT_S: Final = 2.0


def find_replicas(name: str) -> dict[ServerId, Any]:
    """Return the actors of the servers of an ensemble that run.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs.
        RayNotFoundError: there is no Ray cluster.
    """
    join_ray()
    handles = {}
    for server in servers_among(name, ray.util.list_named_actors(all_namespaces=True)):
        with suppress(ValueError):  # it ended after it was listed
            handles[server] = find_replica(name, server)
    return handles


def call_actors(
    handles: Iterable[Any],
    *methods: str,
    given: Sequence[Any] = (),
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> list[Any]:
    """Call a method on every actor at once; a string tells why an actor did not answer.

    Several methods divide the handles evenly among them, in order. All are given `given`.
    """
    handles = list(handles)
    share = len(handles) // len(methods) if handles else 1
    refs = [
        getattr(handle, methods[index // share]).remote(*given)
        for index, handle in enumerate(handles)
    ]
    if refs:
        ray.wait(refs, num_returns=len(refs), timeout=timeout_s)
    return [_answer(ref, timeout_s) for ref in refs]


def _answer(ref: "ray.ObjectRef[Any]", timeout_s: float) -> Any:
    try:
        return ray.get(ref, timeout=0)
    except ray.exceptions.GetTimeoutError:
        return f"no answer within {timeout_s:g} s"
    except ray.exceptions.ActorUnavailableError:
        return "its process is gone; Ray starts it again"
    except ray.exceptions.RayActorError:
        return "its actor is dead"
    except ray.exceptions.ActorUnschedulableError:  # to Ray this is no RayActorError
        return "its node is gone"
