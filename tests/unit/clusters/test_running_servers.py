"""Which servers a launch believes to run."""

import pytest

from raykeeper.actors.replica_status import ReplicaDescription
from raykeeper.clusters.running_servers import Running, find_settled
from raykeeper.zab.ids import ServerId

S1, S2 = ServerId(1), ServerId(2)
HERE = ReplicaDescription(
    ensemble="coord",
    ensemble_uuid="u",
    server_id=S1,
    voters=(S1, S2),
    folder="data/coord/1",
    node_id="n",
    value_bytes_max=1,
    session_timeout_min_ms=1,
    session_timeout_max_ms=2,
)
LONG_S = 60.0


@pytest.mark.parametrize(
    ("looks", "settle_s", "found"),
    [
        ([{}], LONG_S, {}),
        ([{S1: HERE, S2: HERE}], LONG_S, {S1: HERE, S2: HERE}),
        # Its node was lost: soon Ray does not know it any more.
        ([{S1: HERE, S2: None}, {S1: HERE, S2: None}, {S1: HERE}], LONG_S, {S1: HERE}),
        # It was just starting.
        ([{S1: HERE, S2: None}, {S1: HERE, S2: HERE}], LONG_S, {S1: HERE, S2: HERE}),
        # It is frozen, or pinned to a node that is away.
        ([{S1: HERE, S2: None}], 0.0, {S1: HERE, S2: None}),
    ],
)
def test_a_server_that_does_not_answer_is_asked_again(
    looks: list[Running], settle_s: float, found: Running
) -> None:
    given = iter(looks)
    assert find_settled(lambda: next(given), settle_s) == found
    assert list(given) == []
