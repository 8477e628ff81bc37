"""Calls of the actors of an ensemble, of which any may be dead, late or away."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import ray

from raykeeper.client.ensembles import servers_among
from raykeeper.client.forks import refuse_inherited_ray
from raykeeper.client.ray_lookups import find_actor, find_actors, list_actors
from raykeeper.clusters.local_ray import join_ray
from raykeeper.links.ray_names import replica_name
from raykeeper.zab.ids import ServerId

ANSWER_TIMEOUT_S: Final = 2.0
NEWER_METHODS: Final = frozenset({"transfer_leadership", "reconfig", "drain", "end_drain"})
"""Methods that the servers of the version before lack. Ray ends the process of an actor that is
called by a name that it does not know, so these servers are asked first whether they know it."""
CANNOT_DO_THAT: Final = "its program is of an earlier version, which cannot do that"
"""Why such a server was not called."""


def find_replicas(name: str) -> dict[ServerId, Any]:
    """Return the actors of the servers of an ensemble that run.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs.
        RayNotFoundError: there is no Ray cluster.
        RayUnavailableError: Ray does not answer in time.
    """
    join_ray()
    names = {replica_name(name, each): each for each in servers_among(name, list_actors())}
    return {names[actor]: handle for actor, handle in find_actors(names).items()}


def call_actors(
    handles: Iterable[Any],
    *methods: str,
    given: Sequence[Any] = (),
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> list[Any]:
    """Call a method on every actor at once; a string tells why an actor did not answer.

    Several methods divide the handles evenly among them, in order. All are given `given`.

    Raises:
        WrongContextError: this process was forked off one that uses Ray.
    """
    refuse_inherited_ray()
    handles = list(handles)
    share = len(handles) // len(methods) if handles else 1
    calls = [(handle, methods[index // share]) for index, handle in enumerate(handles)]
    asked = [
        handle.__ray_call__.remote(hasattr, method)
        for handle, method in calls
        if method in NEWER_METHODS
    ]
    known = iter(_answers(asked, ANSWER_TIMEOUT_S))
    problems = [_problem(next(known)) if method in NEWER_METHODS else "" for _, method in calls]
    refs = [
        getattr(handle, method).remote(*given)
        for (handle, method), problem in zip(calls, problems, strict=True)
        if not problem
    ]
    answers = iter(_answers(refs, timeout_s))
    return [problem or next(answers) for problem in problems]


def _problem(is_known: Any) -> str:
    """Return why a method cannot be called; `is_known` is the answer to whether there is one."""
    if isinstance(is_known, str):
        return is_known
    return "" if is_known else CANNOT_DO_THAT


def _answers(refs: "Sequence[ray.ObjectRef[Any]]", timeout_s: float) -> list[Any]:
    if refs:
        ray.wait(list(refs), num_returns=len(refs), timeout=timeout_s)
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


def stop_actor(name: str) -> None:
    """End an actor of an ensemble for good, if there is one.

    Raises:
        RayUnavailableError: Ray does not answer in time.
    """
    handle = find_actor(name)
    if handle is not None:
        ray.kill(handle, no_restart=True)
