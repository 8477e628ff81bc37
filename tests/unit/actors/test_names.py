"""Names: what the client library and the operators look for."""

from raykeeper.actors.names import NAMESPACE, replica_name, snapshotter_name, tracker_name
from raykeeper.zab.ids import ServerId


def test_names() -> None:
    assert NAMESPACE == "raykeeper"
    assert replica_name("coord", ServerId(3)) == "coord/replica/3"
    assert tracker_name("coord", ServerId(3)) == "coord/tracker/3"
    assert snapshotter_name("coord", ServerId(3)) == "coord/snapshotter/3"
