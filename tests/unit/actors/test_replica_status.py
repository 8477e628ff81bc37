"""The answers of a replica: which members a description names."""

import pickle

from raykeeper.actors.replica_status import ReplicaStatus, describe_replica
from raykeeper.zab.ids import ServerId, Zxid
from tests.unit.actors.test_replica_config import config, listed

GROWN = listed(9, {1: "", 4: "d", 3: ""}, 5)


def test_a_description_names_the_founders_until_a_list_is_known() -> None:
    founded = describe_replica(config(observers=(ServerId(7),)), "node")
    assert (founded.voters, founded.observers, founded.members_version) == ((1, 2, 3), (7,), 0)
    assert (founded.founding_voters, founded.founding_observers) == ((1, 2, 3), (7,))
    assert founded.first_uuid == founded.ensemble_uuid
    assert describe_replica(config(first_uuid="first"), "node").first_uuid == "first"


def test_a_description_names_the_newest_list() -> None:
    for made, known in ((config(), GROWN), (config(members=GROWN), None)):
        described = describe_replica(made, "node", known)
        assert (described.voters, described.observers) == ((1, 3, 4), (5,))
        assert described.members_version == Zxid(9)
        assert (described.founding_voters, described.founding_observers) == ((1, 2, 3), ())
        assert pickle.loads(pickle.dumps(described)) == described


def test_a_status_without_a_list_is_that_of_no_member() -> None:
    status = ReplicaStatus(server_id=ServerId(1), role="starting", pid=1, node_id="n")
    assert (status.members, status.is_member, status.change) == (None, False, "")
