"""Which Ray cluster a process without `ray.init` belongs to: the one `ray.init()` would join.

That is RAY_ADDRESS, then the cluster that `ray start` started last on this machine. Ray waits for
a cluster that is gone as if it were slow (more than ten minutes, measured with 2.60), so the
address is tried first.
"""

import os
import socket
from typing import Final

from raykeeper.links.ray_internals import last_started_address

CONNECT_TIMEOUT_S: Final = 2.0


def running_address() -> str | None:
    """The address `ray.init()` would join, unless it is that of a cluster which is gone."""
    from_environment = os.environ.get("RAY_ADDRESS")
    if from_environment:
        return from_environment
    known = last_started_address()
    return known if known is not None and answers_at(known) else None


def answers_at(address: str) -> bool:
    """Whether something listens at `host:port`; an address of another form is left to Ray."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        return True
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    # A ValueError, too: of a name that no host can have, or a number that no port can have.
    except (OSError, ValueError, OverflowError):
        return False
    return True
