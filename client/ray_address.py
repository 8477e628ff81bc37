"""Finds the Ray cluster that a process joins which is in none: the same for every way to join one.

`connect`, the tools, `launch`, `attach` and every command ask here. In this order:

1. the address in RAY_ADDRESS, unless it is "auto";
2. the head that `raykeeper up` has started for this user, while it runs (client/head_record.py);
3. the cluster that `ray start` started last on this machine, whose it may be, if it answers.

`ray.init()` knows nothing of the second. Ray waits for a cluster that is gone as if it were slow
(more than ten minutes, measured with 2.60), and for one that wants another token for twenty seconds
and twenty lines of log, so this file tries the address first.
"""

import os
import socket
from typing import Final

from raykeeper.client.errors import RayUnavailableError
from raykeeper.client.head_record import find_head
from raykeeper.client.ray_lookups import left_s
from raykeeper.links.ray_internals import (
    enable_token,
    has_token,
    is_refused,
    knows_tokens,
    last_started_address,
)

CONNECT_TIMEOUT_S: Final = 2.0
_PUT_TOKEN: Final = "put the token of the cluster into ~/.ray/auth_token or RAY_AUTH_TOKEN"


def running_address() -> str | None:
    """Return the address of the cluster to join, None if there is none."""
    from_environment = os.environ.get("RAY_ADDRESS")
    if from_environment and from_environment != "auto":
        return from_environment
    head = find_head()
    if head is not None:
        return head.address
    known = last_started_address()
    return known if known is not None and answers_at(known) else None


def join_problem(address: str) -> str | None:
    """Return why this process cannot join the cluster at `address`, in one line; None if it may.

    Ray itself sends this user's token only to a cluster that it finds on this machine, and not to
    an address. This function has it sent to the address of that cluster too, and to the head that
    `raykeeper up` started; no other cluster receives the token. It is sent only if the cluster
    wants one: a process with a token answers no cluster without, whose GCS then believes that the
    process has dropped every actor that it creates.

    Raises:
        RayUnavailableError: the cluster does not answer in time.
    """
    if not answers_at(address):
        return f"no Ray cluster answers at {address}"
    if _sends_token() and not has_token():
        return f"RAY_AUTH_MODE is token, but there is none: {_PUT_TOKEN}"
    if _host_and_port(address) is None or not _is_refused(address):
        return None
    if not _sends_token() and _is_of_this_user(address):
        enable_token()
        if _sends_token() and not _is_refused(address):
            return None
    if _sends_token():
        return f"the Ray cluster at {address} wants another token than this user's: {_PUT_TOKEN}"
    put_token = "" if has_token() else f"; {_PUT_TOKEN}"
    return f"the Ray cluster at {address} wants a token: export RAY_AUTH_MODE=token{put_token}"


def _is_refused(address: str) -> bool:
    """Return whether the cluster refuses this process for lack of the right token.

    Raises:
        RayUnavailableError: it does not answer in time.
    """
    try:
        return is_refused(address, left_s())
    except TimeoutError:
        raise RayUnavailableError(f"the Ray cluster at {address} does not answer in time") from None


def _is_of_this_user(address: str) -> bool:
    """Return whether this user's token may be sent to the address, which anyone could own."""
    head = find_head()
    return address in (last_started_address(), None if head is None else head.address)


def _sends_token() -> bool:
    """Return whether this process sends its token to Ray, and asks for it."""
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token" and knows_tokens()


def answers_at(address: str) -> bool:
    """Return whether `host:port` accepts connections; True for an address of another form."""
    try:
        host_and_port = _host_and_port(address)
        if host_and_port is None:
            return True
        # A timeout of 0 would be another mode.
        timeout_s = max(0.001, min(CONNECT_TIMEOUT_S, left_s()))
        socket.create_connection(host_and_port, timeout_s).close()
    # ValueError and OverflowError: a name no host, or a number no port can have.
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _host_and_port(address: str) -> tuple[str, int] | None:
    """Return host and port; None for an address of another form, such as `auto` or `ray://…`."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        return None
    return host.strip("[]"), int(port)
