"""Ask the servers of an ensemble that run: who they are, and on which disks the votes rest."""

from raykeeper.actors.replica_status import ReplicaDescription
from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.clusters.config import EnsembleConfig
from raykeeper.clusters.ensemble import call_actors, find_replicas
from raykeeper.clusters.voting_disks import VotingDisks, find_voting_disks
from raykeeper.zab.ids import ServerId


def find_running(name: str) -> dict[ServerId, ReplicaDescription | None]:
    """Return the servers that Ray knows; None for a server that does not answer now."""
    try:
        handles = find_replicas(name)
    except EnsembleNotFoundError:
        return {}
    answers = call_actors(handles.values(), "describe")
    return {
        server: answer if isinstance(answer, ReplicaDescription) else None
        for server, answer in zip(handles, answers, strict=True)
    }


def ask_voting_disks(config: EnsembleConfig) -> VotingDisks:
    """Ask the running servers which disks have the votes."""
    try:
        handles = find_replicas(config.name)
    except EnsembleNotFoundError:
        return VotingDisks()
    answers = call_actors(handles.values(), "status")
    return find_voting_disks(config.voter_ids, dict(zip(handles, answers, strict=True)))
