"""What went wrong with reconfiguration in ZooKeeper: timelines of whole servers."""

from raykeeper.znodes.replies import WriteReply
from tests.unit.server.test_member_changes import WAIT_MS, Ensemble


def writes(ensemble: Ensemble, server: int, path: str) -> bool:
    caller = ensemble.servers[server].caller(90 + server)
    (item,) = caller.ask(caller.create(path))
    return isinstance(item, WriteReply) and item.code == 0


def test_zookeeper_2172_a_newcomer_without_the_data_takes_part_in_no_election() -> None:
    """A server without a vote is no candidate, whatever it lacks.

    1. Server 4 is added, and asked to vote before it has kept up: that is refused.
    2. The leader is lost at once. The other two voters elect one of them, and 4 follows.
    """
    ensemble = Ensemble(strangers=1)
    ensemble.does(4, observes=True)
    assert "NEW_CONFIG_NO_QUORUM" in ensemble.refusal(4)
    ensemble.servers.crash(3)
    ensemble.servers.pass_time(10_000)
    assert ensemble.servers.leader.server_id == 2
    assert writes(ensemble, 4, "/on")


def test_zookeeper_3829_the_next_leader_after_an_expansion_answers_requests() -> None:
    """Nothing of the role before is left.

    1. One voter becomes three, one after the other.
    2. The first one, which has led all the time, is lost: the next leader answers writes.
    """
    ensemble = Ensemble(voters=1, strangers=2)
    for server in (2, 3):
        ensemble.does(server, observes=True)
        ensemble.servers.pass_time(WAIT_MS)
        ensemble.does(server)
    ensemble.servers.crash(1)
    ensemble.servers.pass_time(10_000)
    assert ensemble.servers.leader.server_id in (2, 3)
    assert writes(ensemble, 2, "/two") and writes(ensemble, 3, "/three")
