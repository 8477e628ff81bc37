"""What the actors of an ensemble are called, so that anybody in the Ray cluster finds them."""

from typing import Final

from raykeeper.zab.ids import ServerId

NAMESPACE: Final = "raykeeper"


def replica_name(ensemble: str, server_id: ServerId) -> str:
    """Name of a server's Replica in `NAMESPACE`."""
    return f"{ensemble}/replica/{server_id}"


def tracker_name(ensemble: str, server_id: ServerId) -> str:
    """Name of the SessionTracker beside that server."""
    return f"{ensemble}/tracker/{server_id}"


def snapshotter_name(ensemble: str, server_id: ServerId) -> str:
    """Name of the Snapshotter beside that server."""
    return f"{ensemble}/snapshotter/{server_id}"
