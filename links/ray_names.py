"""The names of an ensemble's actors, by which every process of the Ray cluster finds them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from raykeeper.zab.ids import SERVER_ID_MAX, ServerId

NAMESPACE: Final = "raykeeper"
_REPLICA: Final = "replica"
_SERVER_IDS: Final = {str(i): ServerId(i) for i in range(1, SERVER_ID_MAX + 1)}


def replica_name(ensemble: str, server_id: ServerId) -> str:
    """Return the name of a server's Replica in `NAMESPACE`."""
    return f"{ensemble}/{_REPLICA}/{server_id}"


def tracker_name(ensemble: str, server_id: ServerId) -> str:
    """Return the name of the SessionTracker beside that server."""
    return f"{ensemble}/tracker/{server_id}"


def snapshotter_name(ensemble: str, server_id: ServerId) -> str:
    """Return the name of the Snapshotter beside that server."""
    return f"{ensemble}/snapshotter/{server_id}"


def keeper_name(ensemble: str) -> str:
    """Return the name of the ensemble's keeper."""
    return f"{ensemble}/keeper"


def replicas_among(actors: Iterable[Mapping[str, Any]]) -> dict[str, list[ServerId]]:
    """Return the servers of each ensemble, in order, from Ray's list of named actors."""
    servers: dict[str, list[ServerId]] = {}
    for actor in actors:
        name, _, number = actor["name"].rpartition("/")
        ensemble, _, role = name.rpartition("/")
        if actor["namespace"] == NAMESPACE and role == _REPLICA and number in _SERVER_IDS:
            servers.setdefault(ensemble, []).append(_SERVER_IDS[number])
    return {ensemble: sorted(servers[ensemble]) for ensemble in sorted(servers)}
