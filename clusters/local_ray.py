"""Connect to Ray, or start it: the first step of `launch`, `attach` and every command.

A process that has called `ray.init` keeps its cluster. Any other process joins the cluster that
client/ray_address.py chooses, as `connect` does.
"""

import logging
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import ray

from raykeeper.client.forks import refuse_inherited_ray
from raykeeper.client.joining import join_at
from raykeeper.client.ray_address import running_address
from raykeeper.zab.errors import RayKeeperError

_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}


class RayNotFoundError(RayKeeperError):
    """Raised when this process is connected to no Ray cluster and finds none that it may join.

    The caller should start one (`raykeeper up`, `ray start --head`) or name it in RAY_ADDRESS. If
    the cluster requires a token, the message says what to do.
    """


def join_ray(address: str | None = None, *, is_quiet: bool = False) -> None:
    """Connect this process to the Ray cluster at `address`, or else to the one that is found.

    Does nothing if the process is connected already, to that cluster if an address is given.

    Args:
        address: The address of the cluster; None and "auto" as client/ray_address.py says.
        is_quiet: Show neither Ray's own messages and warnings nor the output of its workers.

    Raises:
        RayNotFoundError: no cluster was found, or it requires a token that this user lacks.
        RayUnavailableError: the cluster does not answer in time; see client/ray_lookups.py.
        WrongContextError: this process was forked off one that uses Ray.
    """
    refuse_inherited_ray()
    if ray.is_initialized():
        joined = str(ray.get_runtime_context().gcs_address)
        if address in (None, "auto", joined):
            return
        raise RayNotFoundError(f"cannot join {address}: this process is in the cluster at {joined}")
    found = running_address() if address in (None, "auto") else address
    if found is None:
        raise RayNotFoundError(
            "no Ray cluster runs here: start one with `raykeeper up` or `ray start --head`, "
            "or name one in RAY_ADDRESS"
        )
    if is_quiet:
        logging.getLogger("ray").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        if is_quiet:
            warnings.simplefilter("ignore", FutureWarning)
        join_at(found, RayNotFoundError, **(_QUIET if is_quiet else {}))


def leave_ray() -> None:
    """Disconnect this process from its Ray cluster, if it is connected."""
    ray.shutdown()


def join_or_start_ray() -> None:
    """Connect this process to Ray as `join_ray` does, or start a Ray that ends with the process."""
    if os.environ.get("RAY_ADDRESS") or is_ray_connected():
        join_ray()
    else:
        ray.init(address="local")


@contextmanager
def private_ray() -> Iterator[None]:
    """Start a Ray for this process alone, in which processes may be killed, and end it afterwards.

    Standard output is discarded meanwhile, because Ray prints its messages there. SIGTERM ends the
    process as ^C does, in place of Ray's own handler, so that everything is cleaned up.
    """
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        ray.init(address="local", include_dashboard=False, **_QUIET)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            yield
        finally:
            ray.shutdown()


def is_ray_connected() -> bool:
    """Return whether `join_ray` without an address would find a cluster."""
    return ray.is_initialized() or running_address() is not None
