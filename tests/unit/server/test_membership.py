"""The place of a server in the list: with whom it is linked, and when it leaves for good."""

import pytest

from raykeeper.server.effects import CloseClient, LeaveEnsemble, MembersKnown
from raykeeper.server.events import ReconfigRequested
from raykeeper.zab.effects import InstallSnapshot
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.zab.trace_events import LEADER_ESTABLISHED
from raykeeper.znodes.requests import Reconfig
from tests.harness.pure_servers import PureServer
from tests.unit.server.test_member_changes import WAIT_MS, Ensemble, promotable

NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)


def take_all(ensemble: Ensemble) -> None:
    for host in ensemble.servers.hosts.values():
        host.take()


def step(ensemble: Ensemble, op: Reconfig) -> None:
    """Ask the leader for a step, and see it begun."""
    ensemble.servers.leader.step(ReconfigRequested(1, op))
    ensemble.servers.run()


def known_at(host: PureServer) -> list[tuple[tuple[int, ...], tuple[int, ...], bool]]:
    """The members, all servers to be linked with, and whether it was one, as told since `take`."""
    told = host.of(MembersKnown)
    return [(each.members.servers, each.servers, each.was_member) for each in told]


def left(ensemble: Ensemble) -> dict[int, MemberList]:
    """The servers that have left since `take`, and by which list."""
    found = {number: host.of(LeaveEnsemble) for number, host in ensemble.servers.hosts.items()}
    assert all(len(effects) <= 1 for effects in found.values())
    return {number: effects[0].members for number, effects in found.items() if effects}


def test_the_shell_is_told_at_the_start_and_of_each_change_once() -> None:
    ensemble = Ensemble(strangers=1)
    assert known_at(ensemble.servers[1]) == [((1, 2, 3), (1, 2, 3), True)]
    assert known_at(ensemble.servers[4]) == [((1, 2, 3), (1, 2, 3), False)]
    take_all(ensemble)
    step(ensemble, Reconfig(4, 0, True))
    step(ensemble, Reconfig(0, 4))
    joined, gone = ((1, 2, 3, 4), (1, 2, 3, 4), True), ((1, 2, 3), (1, 2, 3), True)
    for server in (1, 2):
        assert known_at(ensemble.servers[server]) == [joined, gone]
    assert known_at(ensemble.servers[4]) == [joined, gone]
    logged = ((1, 2, 3), (1, 2, 3, 4), True)  # the leader counts by a list when it is logged
    still = ((1, 2, 3, 4), (1, 2, 3, 4), True)
    assert known_at(ensemble.servers[3]) == [logged, still, gone]


def test_a_list_that_another_server_tells_is_dialed_before_it_is_delivered() -> None:
    ensemble = Ensemble(strangers=1)
    servers = ensemble.servers
    servers.crash(1)
    step(ensemble, Reconfig(4, 0, True))
    for server in (2, 4):
        servers.hold(3, server)
    servers.crash(2)
    host = servers.down[1]
    host.take()
    servers.restart(1)  # it hears of the list before it has a leader
    assert known_at(host)[:2] == [((1, 2, 3), (1, 2, 3), True), ((1, 2, 3), (1, 2, 3, 4), True)]


def test_a_server_dials_those_that_its_launch_knows() -> None:
    grown = MemberList(Zxid(9), dict.fromkeys(map(ServerId, (4, 5, 6)), FOUNDING_DISK))
    host = PureServer(7, (1, 2, 3))
    host.take()
    host.known = grown
    host.start()
    assert known_at(host) == [((1, 2, 3), (1, 2, 3, 4, 5, 6), False)]
    assert host.settings.members.voters == (4, 5, 6)


def test_a_removed_server_leaves_when_the_list_was_said_again() -> None:
    ensemble = Ensemble()
    servers = ensemble.servers
    caller = servers[1].caller(7)
    servers[2].is_disk_held = True
    take_all(ensemble)
    step(ensemble, Reconfig(0, 1))  # of the new list, server 2 has nothing on disk
    assert left(ensemble) == {}
    servers[2].sync_disk()
    servers.run()
    members = servers[3].settings.members.delivered
    assert members.servers == (2, 3) == servers[1].settings.members.delivered.servers
    assert left(ensemble) == {} and caller.ended is None
    servers[2].release_disk()
    servers.run()
    assert left(ensemble) == {1: members}
    assert servers[1].of(CloseClient) == [CloseClient(7)]
    servers.pass_time(1_000)
    assert left(ensemble) == {1: members}  # once


def test_an_observer_that_is_removed_leaves_too() -> None:
    ensemble = promotable()
    take_all(ensemble)
    step(ensemble, Reconfig(0, 4))
    assert [*left(ensemble)] == [4]


def test_a_server_that_becomes_an_observer_stays() -> None:
    ensemble = Ensemble()
    take_all(ensemble)
    step(ensemble, Reconfig(1, 0, True))
    assert left(ensemble) == {}


@pytest.mark.parametrize("window", [None, NO_DIFF])
def test_a_server_that_was_away_leaves_once_it_is_synchronized(
    window: RecentLogLimits | None,
) -> None:
    """By the log, or by a snapshot: both say that the list was said again."""
    ensemble = Ensemble(window=window)
    servers = ensemble.servers
    servers.crash(1)
    step(ensemble, Reconfig(0, 1))
    host = servers.down[1]
    host.take()
    servers.restart(1)
    servers.pass_time(1_000)
    assert [*left(ensemble)] == [1]
    assert bool(host.of(InstallSnapshot)) is (window is NO_DIFF)


def test_a_voter_that_was_away_leaves_though_its_copy_of_the_list_is_lost() -> None:
    """The list in its log has its disk."""
    ensemble = Ensemble()
    servers = ensemble.servers
    servers.crash(1)
    step(ensemble, Reconfig(0, 1))
    servers.down[1].was_member = False
    servers.down[1].take()
    servers.restart(1)
    servers.pass_time(1_000)
    assert [*left(ensemble)] == [1]


def test_a_newcomer_may_take_an_id_that_was_used_before() -> None:
    """The log tells it of the earlier server, also of its end."""
    ensemble = Ensemble()
    servers = ensemble.servers
    servers.crash(1)
    step(ensemble, Reconfig(0, 1))
    host = servers.down[1]
    host.disk.repair()
    host.was_member = False  # another folder
    host.take()
    servers.restart(1)
    servers.pass_time(WAIT_MS)
    assert left(ensemble) == {}
    assert [each.was_member for each in host.of(MembersKnown)] == [False] * 2
    for observes in (True, False):
        ensemble.does(1, observes=observes)
        servers.pass_time(WAIT_MS)
    assert servers[2].settings.members.delivered.voters[ServerId(1)] != DiskId(FOUNDING_DISK)
    take_all(ensemble)
    step(ensemble, Reconfig(0, 1))
    assert [*left(ensemble)] == [1]


def test_a_removed_server_that_leads_leaves_when_the_next_leader_has_said_the_list() -> None:
    """The leader that removes it is lost, and it has the best history of all."""
    ensemble = Ensemble(voters=5)
    servers = ensemble.servers
    for follower in (2, 3, 4):
        servers.hold(5, follower)
    step(ensemble, Reconfig(0, 1))
    servers.held.clear()
    take_all(ensemble)
    servers.crash(5)
    assert len(servers[1].notes(LEADER_ESTABLISHED)) == 1
    assert [*left(ensemble)] == [1]
    assert servers.leader.server_id == 4
    members = servers[4].settings.members.delivered
    assert members.servers == (2, 3, 4, 5) and servers[4].server.state.is_list_said_again


def test_a_step_that_its_leader_alone_has_sent_waits_for_the_others() -> None:
    """Server 1, which it removes, has the best history; a majority of the new list lacks one."""
    ensemble = Ensemble()
    servers = ensemble.servers
    servers.hold(3, 2)
    servers.hold(1, 3)
    take_all(ensemble)
    step(ensemble, Reconfig(0, 1))
    servers.crash(3)
    servers.held.clear()
    servers.pass_time(10_000)
    # Servers 1 and 2 are no majority of 2 and 3, which counts beside the old list.
    assert left(ensemble) == {} and not servers[1].server.peer.is_active
    servers.restart(3)
    servers.pass_time(10_000)
    assert [*left(ensemble)] == [1]
    assert servers[2].settings.members.delivered.servers == (2, 3)
