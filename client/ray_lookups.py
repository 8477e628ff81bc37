"""Questions to Ray's GCS, each within a time: Ray's own calls wait for a GCS that is away.

The list of actors and an actor by its name take 60 s then and fail with an error of Ray; the table
of nodes, and the first task of a function, wait until the GCS is back (measured with 2.60). None of
these calls has a timeout. So each one runs in a daemon thread, and its caller waits until the end
of the `fail_after` blocks around it, or else for the seconds that RAYKEEPER_RAY_TIMEOUT_S says.

A call that nobody waits for any more goes on in its thread, so it may still have its effect; what
this package asks Ray for is idempotent. The list of actors, which programs ask for again and again
while they wait for the GCS, is asked for by one thread at a time.

trio: `fail_after`.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

from raykeeper.client.errors import BadArgumentsError, RayUnavailableError
from raykeeper.client.forks import refuse_inherited_ray
from raykeeper.links.daemon_threads import GroupedCall, begin_in_daemon_thread
from raykeeper.links.ray_names import NAMESPACE

SETTING: Final = "RAYKEEPER_RAY_TIMEOUT_S"
TIMEOUT_S: Final = 30.0
"""How long a question may take without the setting, if no caller bounds it."""
GRACE_S: Final = 1.0
"""How much longer than a caller's time a question may take of a call that tells, when its time is
over, what is missing: for that it asks once more."""

_LISTING: Final = "the list of actors"
T = TypeVar("T")
_deadline: ContextVar[float] = ContextVar("raykeeper_ray_deadline", default=math.inf)


@contextmanager
def fail_after(timeout_s: float) -> Iterator[None]:
    """Bound all questions to Ray inside the block together. Of blocks in blocks the first to end.

    It interrupts nothing but such a question.
    """
    token = _deadline.set(min(_deadline.get(), time.monotonic() + timeout_s))
    try:
        yield
    finally:
        _deadline.reset(token)


def left_s() -> float:
    """Return how many seconds a question that begins now may take; 0 if the time is over.

    Raises:
        BadArgumentsError: the setting is not a number of seconds above 0.
    """
    deadline = _deadline.get()
    return _setting_s() if deadline == math.inf else max(0.0, deadline - time.monotonic())


def ask_ray(what: str, call: Callable[..., T], *arguments: Any) -> T:
    """Return what a call of Ray returns; `what` names to people what is asked for.

    Raises:
        RayUnavailableError: it has not returned in time, or raised an error of Ray's.
        WrongContextError: this process was forked off one that uses Ray.
        Exception: another error of the call.
    """
    refuse_inherited_ray()
    return result_in_time(what, begin_in_daemon_thread(call, *arguments))


def list_actors() -> list[dict[str, Any]]:
    """Return Ray's list of all named actors, as it is after this call began.

    Raises:
        RayUnavailableError: Ray does not answer in time.
        WrongContextError: this process was forked off one that uses Ray.
    """
    return begin_listing()()


def begin_listing() -> Callable[[], list[dict[str, Any]]]:
    """Begin to ask for the list of actors; return a function that waits as `list_actors` does.

    Raises:
        WrongContextError: this process was forked off one that uses Ray.
    """
    refuse_inherited_ray()
    return partial(result_in_time, _LISTING, _listing())


async def list_actors_async() -> list[dict[str, Any]]:
    """`list_actors`, to be awaited.

    Raises:
        RayUnavailableError: Ray does not answer in time.
        WrongContextError: this process was forked off one that uses Ray.
    """
    refuse_inherited_ray()
    allowed_s, listing = left_s(), _listing()
    waiting = asyncio.wrap_future(listing)
    waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([waiting], timeout=allowed_s)
    return _outcome(_LISTING, listing, 0, allowed_s)


def find_actors(names: Iterable[str], namespace: str = NAMESPACE) -> dict[str, Any]:
    """Return those of the actors that there are, by their names, in the order given.

    Raises:
        RayUnavailableError: Ray does not answer in time.
        WrongContextError: this process was forked off one that uses Ray.
    """
    names = list(names)
    return ask_ray(", ".join(names), _get_actors, names, namespace) if names else {}


def find_actor(name: str) -> Any | None:
    """Return an actor of `NAMESPACE` by its name; None if there is none.

    Raises:
        RayUnavailableError: Ray does not answer in time.
        WrongContextError: this process was forked off one that uses Ray.
    """
    return find_actors([name]).get(name)


def list_nodes() -> list[dict[str, Any]]:
    """Return what Ray tells of each node, dead ones included.

    Raises:
        RayUnavailableError: Ray does not answer in time.
        WrongContextError: this process was forked off one that uses Ray.
    """
    import ray

    nodes: list[dict[str, Any]] = ask_ray("its nodes", ray.nodes)
    return nodes


def result_in_time(what: str, future: "Future[T]") -> T:
    """Return the result of a call that was begun, as `ask_ray` does.

    Raises:
        RayUnavailableError: it has not returned in time, or raised an error of Ray's.
        Exception: another error of the call.
    """
    allowed_s = left_s()
    return _outcome(what, future, allowed_s, allowed_s)


def _outcome(what: str, future: "Future[T]", wait_s: float, allowed_s: float) -> T:
    """Return the result of a call after at most `wait_s`; it may have taken `allowed_s`.

    Raises:
        RayUnavailableError: it has not returned in time, or raised an error of Ray's.
        Exception: another error of the call.
    """
    from ray.exceptions import RayError

    try:
        return future.result(wait_s)
    except RayError as error:  # before the next: Ray's GetTimeoutError is a TimeoutError
        text = str(error).strip().partition("\n")[0]
        raise RayUnavailableError(f"Ray was asked for {what}: {text}") from error
    except TimeoutError:
        if future.done():
            raise  # of the call
        raise RayUnavailableError(
            f"Ray was asked for {what}, and has not answered within {allowed_s:.3g} s: its GCS is "
            "away, or too busy"
        ) from None


def _setting_s() -> float:
    given = os.environ.get(SETTING) or str(TIMEOUT_S)
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise BadArgumentsError("", f"{SETTING} must be a number of seconds, not {given!r}")
    return seconds


def _list_actors() -> list[dict[str, Any]]:
    import ray.util

    actors: list[dict[str, Any]] = ray.util.list_named_actors(all_namespaces=True)
    return actors


def _get_actors(names: list[str], namespace: str) -> dict[str, Any]:
    import ray

    found = {}
    for name in names:
        with suppress(ValueError):  # there is none
            found[name] = ray.get_actor(name, namespace=namespace)
    return found


_listing = GroupedCall(_list_actors)


def _after_fork_in_child() -> None:
    global _listing
    _listing = GroupedCall(_list_actors)


os.register_at_fork(after_in_child=_after_fork_in_child)
