"""What went wrong with reconfiguration in ZooKeeper: timelines of whole servers."""

from raykeeper.zab.effects import Role
from raykeeper.znodes.replies import WriteReply
from tests.unit.server.test_member_changes import WAIT_MS, Ensemble, promotable


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


def test_zookeeper_2172_a_change_while_a_server_synchronizes_is_in_force_on_it() -> None:
    """The list counts where it is delivered, whenever that is.

    1. Server 1 of five starts again. Its disk is slow, so its ack of NEWLEADER is on its way.
    2. Meanwhile server 6 takes the place of server 2: that is delivered, and said again.
    3. Server 1 acknowledges, gets UPTODATE, and has the new list.
    4. Servers 3, 5 and 6 are lost. By the list before 1, 2 and 4 were a majority: 1 waits for 3.
    """
    ensemble = promotable(voters=5)
    servers, ensemble.operator = ensemble.servers, ensemble.operator_at(5)
    servers.crash(1)
    servers.down[1].is_disk_held = True
    servers.restart(1)
    servers.pass_time(500)
    assert not servers[1].server.peer.is_active
    ensemble.does(6, 2)
    assert not servers[1].server.peer.is_active
    servers[1].release_disk()
    servers.pass_time(500)
    assert servers[1].server.peer.is_active
    ensemble.all_have(1, 3, 4, 5, 6)
    for server in (3, 5, 6):
        servers.crash(server)
    servers.pass_time(10_000)
    assert servers[1].server.peer.role is Role.LOOKING
    servers.restart(3)
    servers.pass_time(10_000)
    assert servers.leader.server_id in (3, 4)
    assert writes(ensemble, 1, "/on")


def test_zookeeper_3829_the_next_leader_after_an_expansion_answers_requests() -> None:
    """It is one of those that came, and commits by the list that it is in.

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
