"""Which Ray cluster a process without `ray.init` belongs to: the one `ray.init()` would join.

That is RAY_ADDRESS, then the cluster that `ray start` started last on this machine. Ray waits for
a cluster that is gone as if it were slow (more than ten minutes, measured with 2.60), and for one
that wants another token for twenty seconds and twenty lines, so the address is tried first.
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
    """The address `ray.init()` would join, unless it is that of a cluster which is gone."""
    from_environment = os.environ.get("RAY_ADDRESS")
    if from_environment and from_environment != "auto":
        return from_environment
    known = last_started_address()
    return known if known is not None and answers_at(known) else None


def join_problem(address: str, *, is_own: bool = False) -> str | None:
    """Why this process cannot join the cluster at `address`, in one line; None if it may try.

    Ray sends the token of this user by itself only to a cluster that it finds on this machine, and
    not to an address. For the address of that very cluster this does the same, and for one that is
    known to be this user's own (`is_own`); nobody else is told the token.
    """
    if not answers_at(address):
        return f"no Ray cluster answers at {address}"
    if is_own or address == last_started_address():
        enable_token()
    sends_token = os.environ.get("RAY_AUTH_MODE", "").lower() == "token"
    if sends_token and not has_token():
        return f"RAY_AUTH_MODE is token, but there is none: {_PUT_TOKEN}"
    if _host_and_port(address) is None or not is_refused(address):
        return None
    if sends_token:
        return f"the Ray cluster at {address} wants another token than this user's: {_PUT_TOKEN}"
    put_token = "" if has_token() else f"; {_PUT_TOKEN}"
    return f"the Ray cluster at {address} wants a token: export RAY_AUTH_MODE=token{put_token}"


def answers_at(address: str) -> bool:
    """Whether something listens at `host:port`; an address of another form is left to Ray."""
    try:
        host_and_port = _host_and_port(address)
        if host_and_port is None:
            return True
        socket.create_connection(host_and_port, CONNECT_TIMEOUT_S).close()
    # A ValueError, too: of a name that no host can have, or a number that no port can have.
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _host_and_port(address: str) -> tuple[str, int] | None:
    """What is named; None for an address of another form, such as `auto` or `ray://…`."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        return None
    return host.strip("[]"), int(port)
