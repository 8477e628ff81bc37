"""Ask the servers of an ensemble that run: who they are, and on which disks the votes rest."""

from typing import Any

from raykeeper.actors.replica_status import ReplicaDescription, ReplicaStatus
from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.ensemble import call_actors, find_replicas
from raykeeper.clusters.voting_disks import VotingDisks, find_voting_disks
from raykeeper.zab.ids import ServerId


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


def find_running(name: str) -> dict[ServerId, ReplicaDescription | None]:
    """Return the servers that Ray knows; None for a server that does not answer now."""
    return {
        server: answer if isinstance(answer, ReplicaDescription) else None
        for server, answer in _ask(name, "describe").items()
    }


def ask_voting_disks(config: EnsembleConfig) -> VotingDisks:
    """Ask the running servers which disks have the votes."""
    return find_voting_disks(config.voter_ids, ask_statuses(config.name))
