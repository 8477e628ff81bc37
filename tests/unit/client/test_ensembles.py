"""Ensembles: which of Ray's named actors are Raykeeper servers."""

from typing import Any

import pytest

from raykeeper.client import ensembles
from raykeeper.client.errors import EnsembleNotFoundError, WrongContextError
from raykeeper.links.idle_timer import QUARTERS
from raykeeper.links.limits import GRACE_MS
from raykeeper.links.ray_names import NAMESPACE, replica_name, tracker_name
from raykeeper.server.context import ServerOptions
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.limits import Limits


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


@pytest.mark.parametrize("timeout_ms", [2_000, 4_000, 10_000])
def test_heartbeats_and_their_confirmations_are_signs_of_life_enough(timeout_ms: int) -> None:
    """An end that has sent nothing for half of the interval sends a keepalive of its own."""
    pause_ms = ensembles.client_keepalive_ms(Millis(timeout_ms)) // 2
    limits, report_ms = Limits(), ServerOptions().session_report_ms
    assert timeout_ms >= limits.session_timeout_min_ms
    assert pause_ms > timeout_ms // 3 + report_ms


@pytest.mark.parametrize("timeout_ms", [20_000, 60_000])
def test_a_long_session_timeout_does_not_delay_the_end_of_a_silent_link(timeout_ms: int) -> None:
    interval_ms = ensembles.client_keepalive_ms(Millis(timeout_ms))
    assert (interval_ms + GRACE_MS) * (QUARTERS + 1) // QUARTERS < 15_000
