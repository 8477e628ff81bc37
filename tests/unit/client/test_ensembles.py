"""Ensembles: which of Ray's named actors are Raykeeper servers."""

from typing import Any

import pytest

from raykeeper.client import ensembles
from raykeeper.client.errors import EnsembleNotFoundError, WrongContextError
from raykeeper.links.ray_names import NAMESPACE, replica_name, tracker_name
from raykeeper.zab.ids import ServerId


def actor(name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    return {"name": name, "namespace": namespace}


ACTORS = [
    actor(replica_name("coord", ServerId(2))),
    actor(replica_name("coord", ServerId(10))),
    actor(replica_name("coord", ServerId(1))),
    actor(tracker_name("coord", ServerId(3))),
    actor(replica_name("coord", ServerId(4)), "somebody-else"),
    actor(replica_name("team/coord", ServerId(5))),
    actor("coord/replica/x"),
    actor("coord"),
]


def test_the_servers_of_one_ensemble_are_found() -> None:
    assert ensembles.servers_among("coord", ACTORS) == [1, 2, 10]
    assert ensembles.servers_among("team/coord", ACTORS) == [5]


@pytest.mark.parametrize(
    ("actors", "known"),
    [(ACTORS, "coord, team/coord"), ([], "none runs in this Ray cluster")],
)
def test_an_unknown_name_lists_the_ensembles(actors: list[dict[str, Any]], known: str) -> None:
    with pytest.raises(EnsembleNotFoundError, match="no ensemble") as caught:
        ensembles.servers_among("cord", actors)
    assert '"cord"' in str(caught.value)
    assert str(caught.value).endswith(known)


def test_no_question_starts_a_ray_after_the_shutdown() -> None:
    """Ray's own calls do that, which would be a surprise from the background."""
    for ask in (ensembles.check_joined, lambda: ensembles._find_replica("coord", ServerId(1))):
        with pytest.raises(WrongContextError, match=r"Ray is shut down in this process"):
            ask()
