"""Which servers a drain of a Ray node waits for."""

from types import SimpleNamespace
from typing import Any

from raykeeper.actors.replica_status import REMOVED
from raykeeper.clusters.draining import _voters_on
from raykeeper.clusters.ensemble_status import ServerStatus
from raykeeper.zab.ids import ServerId


def test_a_drain_waits_for_no_server_that_has_left() -> None:
    """A client took server 4 out of the list, so its actor is there until somebody ends it."""
    roles = ("leader", "observer", "looking", REMOVED, "follower")
    servers = [
        ServerStatus(ServerId(number), role, node_id="n" if number < 5 else "other")
        for number, role in enumerate(roles, 1)
    ]
    ensemble: Any = SimpleNamespace(status=lambda: SimpleNamespace(servers=servers))
    assert _voters_on(ensemble, "n") == [1, 3]
