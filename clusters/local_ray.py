"""Finding Ray, or starting it: the first step of `launch`, `attach` and every command.

A process that has called `ray.init` keeps the cluster it chose. Otherwise the cluster is the one
that `ray.init()` would choose too: RAY_ADDRESS, then the one that `ray start` started last on this
machine. Ray waits for a cluster that is gone as if it were slow (more than ten minutes, measured
with 2.60), so the address is tried first.
"""

import logging
import os
import socket
from typing import Any

import ray
import ray.exceptions

from raykeeper.zab.errors import RayKeeperError

_CONNECT_TIMEOUT_S = 2.0
_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}


class RayNotFoundError(RayKeeperError):
    """Raised when this process belongs to no Ray cluster and none is found to join.

    The caller should start one (`raykeeper up`, `ray start --head`) or name it in RAY_ADDRESS.
    """


def join_ray(
    address: str | None = None, *, is_quiet: bool = False, uses_token: bool = False
) -> None:
    """Connect this process to the Ray cluster at `address`, or to the one a Ray user expects.

    Does nothing when the process is connected already and no address is given.

    Args:
        address: Of the cluster.
        is_quiet: Show neither Ray's own messages nor what its workers print.
        uses_token: The cluster at `address` is known to want the token of this user.

    Raises:
        RayNotFoundError: there is none. The process is as it was.
    """
    if ray.is_initialized() and address is None:
        return
    found = address or running_address()
    if found is None:
        raise RayNotFoundError(
            "no Ray cluster runs here: start one with `raykeeper up` or `ray start --head`, "
            "or name one in RAY_ADDRESS"
        )
    if not _answers(found):
        raise RayNotFoundError(f"no Ray cluster answers at {found}")
    if is_quiet:
        logging.getLogger("ray").setLevel(logging.ERROR)
    if uses_token:
        _enable_token()
    try:
        # "auto" and not what it stands for: only then Ray enables the token by itself.
        ray.init(address=address or "auto", **(_QUIET if is_quiet else {}))
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise RayNotFoundError(f"cannot join the Ray cluster at {found}: {error}") from error


def join_or_start_ray() -> None:
    """Connect this process to Ray as `join_ray` does, or start a Ray that ends with it."""
    if os.environ.get("RAY_ADDRESS") or is_ray_here():
        join_ray()
    else:
        ray.init(address="local")


def is_ray_here() -> bool:
    """Whether `join_ray` without an address would find a cluster."""
    return ray.is_initialized() or running_address() is not None


def running_address() -> str | None:
    """The address `ray.init()` would join, unless it is that of a cluster which is gone."""
    from_environment = os.environ.get("RAY_ADDRESS")
    if from_environment:
        return from_environment
    known = _last_started()
    return known if known is not None and _answers(known) else None


def _last_started() -> str | None:
    """What the last `ray start` on this machine left behind. Ray has no public way to ask."""
    from ray._private import utils

    address = utils.read_ray_address()
    return address if isinstance(address, str) else None


def _enable_token() -> None:
    """Have Ray send the token, which it reads when it is loaded. It has no public way to ask."""
    from ray._private.authentication import authentication_token_setup

    authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _answers(address: str) -> bool:
    """Whether something listens at `host:port`; an address of another form is left to Ray."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        return True
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True
