"""The names by which the client library and operators find actors."""

from typing import Any

from raykeeper.links.ray_names import (
    NAMESPACE,
    keeper_name,
    replica_name,
    replicas_among,
    snapshotter_name,
    tracker_name,
)
from raykeeper.zab.ids import ServerId

S2, S3, S10 = ServerId(2), ServerId(3), ServerId(10)


def actor(name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {"name": name, "namespace": namespace}


def test_actor_names_are_built_and_parsed() -> None:
    assert NAMESPACE == "raykeeper"
    assert replica_name("coord", S3) == "coord/replica/3"
    assert tracker_name("coord", S3) == "coord/tracker/3"
    assert snapshotter_name("coord", S3) == "coord/snapshotter/3"
    assert keeper_name("coord") == "coord/keeper"


def test_replicas_are_recognized_among_all_actors() -> None:
    actors = [
        actor(replica_name("one", S10)),
        actor(replica_name("one", S2)),
        actor(replica_name("another", S3)),
        actor(tracker_name("one", S3)),
        actor(keeper_name("one")),
        actor(replica_name("one", S3), "somebody-else"),
        actor("one/replica/x"),
        actor("one"),
    ]
    assert replicas_among(actors) == {"another": [S3], "one": [S2, S10]}
    assert list(replicas_among(actors)) == ["another", "one"]
