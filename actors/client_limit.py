"""How many clients a server takes: what its setting says, and what its open files bear.

A client has a stream, which is an open file, and its process has a connection of Ray, over which it
asked for the server's address; many clients may share a process, and a process that was refused
keeps its connection. So no number of clients is the right one for all ensembles, and the files that
are open decide: a client is taken while a file is free outside of those that are reserved.

Invariant: no stream of a client takes one of the reserved files, so that clients alone never keep
the server from opening its own: segments, snapshots, links to peers.
"""

import os
import resource
import sys
from typing import Final

from msgspec import Struct

from raykeeper.actors.replica_config import CLIENTS_MAX_CEILING
from raykeeper.links.limits import HANDSHAKES_MAX, HANDSHAKES_WAITING_MAX

OWN_FILES: Final = 256
"""Files of Ray's worker, of the disk and of the companions; about 60 are open in an idle server."""
HANDSHAKES_WAITING_MIN: Final = 16
FILES_PER_PEER: Final = 4
"""A link, the one that takes its place, and Ray's connections in both directions."""
_ADVICE: Final = "raise that (ulimit -n) where Ray is started on its node"


class ClientLimit(Struct, frozen=True):
    """The limit of one server."""

    clients_max: int
    files_max: int
    """The limit of open files of the server's process."""
    files_reserved: int
    """Those of them that streams of clients do not take."""
    handshakes_waiting_max: int
    """Connections that may wait for their handshake."""
    is_set: bool
    """Whether `clients_max` is the setting, and not what the files bear."""
    problem: str = ""
    """Why the server takes fewer clients than its setting says."""

    @property
    def source(self) -> str:
        """What `clients_max` comes from."""
        return "the setting clients_max" if self.is_set else f"{self.files_max} open files"

    def refusal_reason(self, clients: int, file: int) -> str:
        """Return why one more client is refused, "" if it is not.

        `file` is the file descriptor of its stream, or the one that its stream would have.
        """
        if self.is_set and clients >= self.clients_max:
            return (
                f"the setting clients_max is {self.clients_max}, and the server has as many "
                "clients already; raise it in the settings of the ensemble"
            )
        if clients >= self.clients_max or file >= self.files_max - self.files_reserved:
            return (
                f"the server's limit of {self.files_max} open files bears no more clients than "
                f"the {clients} it has; {_ADVICE}"
            )
        return ""


def client_limit(setting: int | None, files_max: int, peers: int) -> ClientLimit:
    """Return the limit of a server with `peers` other servers; `setting` None is automatic."""
    own = OWN_FILES + HANDSHAKES_MAX + FILES_PER_PEER * peers
    reserved = min(own + HANDSHAKES_WAITING_MAX, files_max // 2)
    # Each connection that waits is an open file, and none of the server's own.
    waiting = max(reserved - own, HANDSHAKES_WAITING_MIN)
    borne = min(files_max - reserved, CLIENTS_MAX_CEILING)
    if setting is not None and setting <= borne:
        return ClientLimit(setting, files_max, reserved, waiting, is_set=True)
    problem = ""
    if setting is not None:
        problem = (
            f"takes {borne} clients, not the {setting} of its setting clients_max: its limit of "
            f"{files_max} open files bears no more; {_ADVICE}"
        )
    return ClientLimit(borne, files_max, reserved, waiting, is_set=False, problem=problem)


def raise_files_limit(wanted: int) -> int:
    """Raise this process's soft limit of open files to `wanted` if the hard one allows it.

    Returns:
        The soft limit, which is never lowered, at most `wanted` or what it was before.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    if soft == infinite:
        return wanted
    target = wanted if hard == infinite else min(wanted, hard)
    if soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        except (ValueError, OSError):  # macOS has a further bound, which only the kernel knows
            return soft
        return target
    return soft


def next_free_file() -> int:
    """Return the lowest file descriptor that is free, beyond all limits if there is none."""
    try:
        probe = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return sys.maxsize
    os.close(probe)
    return probe
