"""Finds the Ray cluster that `ray.init()` would join.

It is that of RAY_ADDRESS, else the cluster that `ray start` started last on this machine. Ray waits
for a cluster that is gone as if it were slow (more than ten minutes, measured with 2.60), and for
one that wants another token for twenty seconds and twenty lines of log, so this file tries the
address first.
"""

import os
import socket
from typing import Final

from raykeeper.links.ray_internals import (
    enable_token,
    has_token,
    is_refused,
    last_started_address,
)

CONNECT_TIMEOUT_S: Final = 2.0
_PUT_TOKEN: Final = "put the token of the cluster into ~/.ray/auth_token or RAY_AUTH_TOKEN"


def running_address() -> str | None:
    """Return the address that `ray.init()` would join, None if that cluster is gone."""
    from_environment = os.environ.get("RAY_ADDRESS")
    if from_environment and from_environment != "auto":
        return from_environment
    known = last_started_address()
    return known if known is not None and answers_at(known) else None


def join_problem(address: str, *, is_own: bool = False) -> str | None:
    """Return why this process cannot join the cluster at `address`, in one line; None if it may.

    Ray itself sends this user's token only to a cluster that it finds on this machine, and not to
    an address. This function has it sent to the address of that cluster too, and to a cluster of
    this user's own (`is_own`); no other cluster receives the token. It is sent only if the cluster
    wants one: a process with a token answers no cluster without, whose GCS then believes that the
    process has dropped every actor that it creates.
    """
    if not answers_at(address):
        return f"no Ray cluster answers at {address}"
    if _sends_token() and not has_token():
        return f"RAY_AUTH_MODE is token, but there is none: {_PUT_TOKEN}"
    if _host_and_port(address) is None or not is_refused(address):
        return None
    if not _sends_token() and (is_own or address == last_started_address()):
        enable_token()
        if _sends_token() and not is_refused(address):
            return None
    if _sends_token():
        return f"the Ray cluster at {address} wants another token than this user's: {_PUT_TOKEN}"
    put_token = "" if has_token() else f"; {_PUT_TOKEN}"
    return f"the Ray cluster at {address} wants a token: export RAY_AUTH_MODE=token{put_token}"


def _sends_token() -> bool:
    """Return whether this process sends its token to Ray, and asks for it."""
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def answers_at(address: str) -> bool:
    """Return whether `host:port` accepts connections; True for an address of another form."""
    try:
        host_and_port = _host_and_port(address)
        if host_and_port is None:
            return True
        socket.create_connection(host_and_port, CONNECT_TIMEOUT_S).close()
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
