"""Ask the servers of an ensemble that run: who they are, and on which disks the votes rest."""

import time
from collections.abc import Callable
from typing import Any, Final

from raykeeper.actors.replica_status import ReplicaDescription, ReplicaStatus
from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.clusters.actor_calls import call_actors, find_replicas
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.membership import Membership, known_members
from raykeeper.clusters.voting_disks import VotingDisks, find_voting_disks
from raykeeper.zab.ids import ServerId

SETTLE_S: Final = 3.0
"""How long Ray may know a server by name when it has called the server's node dead."""
_POLL_S: Final = 0.1

Running = dict[ServerId, ReplicaDescription | None]
"""The servers that Ray knows; None for a server that does not answer now."""


def find_actors(name: str) -> dict[ServerId, Any]:
    """Return the actors of the servers that Ray knows; none if the ensemble does not run."""
    try:
        return find_replicas(name)
    except EnsembleNotFoundError:
        return {}


def _ask(name: str, method: str) -> dict[ServerId, Any]:
    handles = find_actors(name)
    return dict(zip(handles, call_actors(handles.values(), method), strict=True))


def ask_statuses(name: str) -> dict[ServerId, ReplicaStatus | str]:
    """Return the status of every server that Ray knows; a text if it does not answer."""
    return _ask(name, "status")


def find_settled(look: Callable[[], Running], settle_s: float = SETTLE_S) -> Running:
    """Return the running servers, after a while if one of them does not answer.

    The node of such a server may just have been lost. Ray knows it by name for a moment more, and
    a launch that believed that would not start it elsewhere. It may also be frozen, starting, or
    pinned to a node that is away; then it stays known.
    """
    deadline = time.monotonic() + settle_s
    while True:
        running = look()
        if None not in running.values() or time.monotonic() >= deadline:
            return running
        time.sleep(_POLL_S)


def find_running(name: str) -> Running:
    """Return the servers that Ray knows; None for a server that does not answer now."""
    return {
        server: answer if isinstance(answer, ReplicaDescription) else None
        for server, answer in _ask(name, "describe").items()
    }


def ask_voting_disks(config: EnsembleConfig) -> VotingDisks:
    """Ask the running servers which disks have the votes."""
    return find_voting_disks(config.voter_ids, ask_statuses(config.name))


def ask_members(config: EnsembleConfig) -> Membership:
    """Ask the running servers who the members are; those of the settings if none describes them."""
    return known_members(config, described_by(find_running(config.name)))


def described_by(running: Running) -> list[ReplicaDescription]:
    """Return the descriptions of the servers that answered."""
    return [answer for answer in running.values() if answer is not None]
