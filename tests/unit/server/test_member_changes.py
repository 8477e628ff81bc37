"""MemberChanges: which step of the member list is proposed and which refused, by whole servers."""

import pytest
from msgspec.structs import replace

from raykeeper.server.events import DiskSpaceChanged, PeerFrame, TransferRequested
from raykeeper.server.peer_messages import MemberAddress
from raykeeper.zab.effects import Append, Role
from raykeeper.zab.feature_levels import LEVEL_MIN, LEVEL_OF_MEMBERS, FeatureLevel
from raykeeper.zab.ids import FOUNDING_DISK, SERVER_ID_MAX, DiskId, ServerId, epoch_of
from raykeeper.zab.members import Seat
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.znodes.acl import Identity, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.replies import GetDataReply, WriteReply
from raykeeper.znodes.requests import AddAuth, Reconfig
from tests.harness.caller import Caller
from tests.harness.pure_servers import LIMITS, OPTIONS, PureServers

ROOT = b"root:pw"
WAIT_MS = OPTIONS.promotion_wait_ms + 1_000
SHORT = replace(OPTIONS, promotion_lag_max=2)


class Ensemble:
    """Servers of which the last voter leads, and an operator at server 2."""

    def __init__(
        self,
        voters: int = 3,
        observers: int = 0,
        strangers: int = 0,
        level: FeatureLevel = LEVEL_OF_MEMBERS,
        window: RecentLogLimits | None = None,
        value_bytes_max: int = LIMITS.value_bytes_max,
    ) -> None:
        super_identities = (Identity("digest", digest_id("root", "pw")),)
        limits = replace(LIMITS, super_identities=super_identities, value_bytes_max=value_bytes_max)
        self.servers = PureServers(
            voters,
            limits=limits,
            options=SHORT,
            window=window,
            observers=observers,
            strangers=strangers,
            newest_level=level,
        )
        self.servers.pass_time(300)  # the leader raises the level
        self.operator = self.operator_at(min(2, voters))

    def operator_at(self, server: int) -> Caller:
        operator = self.servers[server].caller(server)
        operator.ask(operator.write(AddAuth("digest", ROOT)))
        return operator

    def step(
        self, joining: int = 0, leaving: int = 0, *, observes: bool = False, version: int = -1
    ) -> WriteReply:
        operator = self.operator
        op = Reconfig(joining, leaving, observes, version)
        (item,) = operator.ask(operator.write(op))
        assert isinstance(item, WriteReply)
        return item

    def refusal(self, *servers: int, observes: bool = False, version: int = -1) -> str:
        """The code and the reason of a step that changes nothing."""
        before = self.lists()
        reply = self.step(*servers, observes=observes, version=version)
        assert self.lists() == before
        return f"{Code(reply.code).name}: {reply.path}"

    def does(self, *servers: int, observes: bool = False) -> None:
        reply = self.step(*servers, observes=observes)
        assert (reply.code, reply.path) == (0, self.config().decode())

    def lists(self) -> list[tuple[set[Seat], tuple[int, ...]]]:
        lists = [host.settings.members.delivered for host in self.servers.hosts.values()]
        return [(set(each.voters.items()), each.observers) for each in lists]

    def all_have(self, *voters: int, observers: tuple[int, ...] = ()) -> None:
        for seats, told in self.lists():
            assert ({server for server, _ in seats}, told) == (set(voters), observers)
        assert len(set(self.servers.digests())) == 1

    def config(self) -> bytes:
        (item,) = self.operator.ask(self.operator.get(CONFIG_PATH))
        assert isinstance(item, GetDataReply) and item.value is not None
        return item.value


def test_zookeeper_3829_one_becomes_three_and_one_again() -> None:
    ensemble = Ensemble(voters=1, strangers=2)
    for server in (2, 3):
        ensemble.does(server, observes=True)
        ensemble.servers.pass_time(WAIT_MS)
        ensemble.does(server)
    ensemble.all_have(1, 2, 3)
    assert [host.server.peer.role for host in ensemble.servers.hosts.values()] == [
        *(Role.LEADER, Role.FOLLOWER, Role.FOLLOWER)
    ]
    for server in (2, 3):
        ensemble.does(0, server)
    ensemble.all_have(1)
    ensemble.operator.ask(ensemble.operator.create("/alone"))
    ensemble.servers.pass_time(1_000)
    assert ensemble.servers.leader.server_id == 1


def promotable(voters: int = 3, strangers: int = 0) -> Ensemble:
    """With an observer that may have a vote."""
    ensemble = Ensemble(voters, observers=1, strangers=strangers)
    ensemble.servers.pass_time(WAIT_MS)
    return ensemble


def test_a_server_takes_the_place_of_another() -> None:
    ensemble = promotable()
    ensemble.does(4, 1)
    ensemble.all_have(2, 3, 4)
    ensemble.servers.crash(1)
    ensemble.servers.crash(3)  # the leader
    ensemble.servers.pass_time(20_000)
    assert ensemble.servers.leader.server_id == 4  # with 2


def test_a_voter_becomes_an_observer_and_a_voter_again() -> None:
    ensemble = Ensemble()
    ensemble.does(1, observes=True)
    ensemble.all_have(2, 3, observers=(1,))
    ensemble.servers.pass_time(WAIT_MS)
    ensemble.does(1)
    ensemble.all_have(1, 2, 3)


def test_the_list_and_its_version_are_in_the_config() -> None:
    ensemble = Ensemble(strangers=1)
    reply = ensemble.step(4, observes=True)
    assert ensemble.config().decode() == (
        "server.1=unknown:2888:3888:participant\n"
        "server.2=unknown:2888:3888:participant\n"
        "server.3=unknown:2888:3888:participant\n"
        "server.4=unknown:2888:3888:observer\n"
        f"version={reply.zxid:x}"
    )
    assert reply.path == ensemble.config().decode()
    assert reply.stat is not None and reply.stat.mzxid == reply.zxid
    members = ensemble.servers[1].settings.members.delivered
    assert members.version == reply.zxid


def test_the_config_may_be_longer_than_the_values_of_clients() -> None:
    """Else the leader would end at the step, and each next one at its repeat."""
    ensemble = Ensemble(strangers=1, value_bytes_max=100)
    ensemble.servers[3].step(PeerFrame(ServerId(1), [MemberAddress("one:2181")]))
    ensemble.servers.pass_time(200)
    ensemble.does(4, observes=True)
    assert ensemble.config().startswith(b"server.1=one:2888:3888:participant;one:2181\n")
    assert len(ensemble.config()) > 100


def test_a_server_that_told_its_address_before_it_became_a_member_is_found() -> None:
    ensemble = Ensemble(strangers=1)
    ensemble.servers[3].step(PeerFrame(ServerId(4), [MemberAddress("four:2181")]))
    ensemble.servers.pass_time(200)  # no member yet
    ensemble.does(4, observes=True)
    version = ensemble.servers[1].settings.members.delivered.version
    assert b"server.4=four:2888:3888:observer;four:2181\n" in ensemble.config()
    assert f"version={version:x}".encode() in ensemble.config()


def test_an_address_that_is_told_while_a_step_is_open_changes_no_member() -> None:
    """Until the step is delivered, the config names other members than the list in force."""
    ensemble = Ensemble(strangers=1)
    servers, operator = ensemble.servers, ensemble.operator_at(3)
    for server in (1, 2):
        servers.hold(server, 3)
    assert operator.ask(operator.write(Reconfig(4, 0, True))) == []
    servers[3].step(PeerFrame(ServerId(1), [MemberAddress("one:2181")]))
    servers.pass_time(200)
    for server in (1, 2):
        servers.release(server, 3)
    servers.pass_time(200)
    lines = ensemble.config().decode().splitlines()
    assert lines[0] == "server.1=one:2888:3888:participant;one:2181"
    assert lines[3] == "server.4=unknown:2888:3888:observer"


@pytest.mark.parametrize(
    ("servers", "observes", "reason"),
    [
        ((), False, "no server joins, and none leaves"),
        ((4, 4), False, "server 4 cannot take its own place"),
        ((SERVER_ID_MAX + 1,), True, "255 is no id of a server, expected 1 to 254"),
        ((-1,), True, "-1 is no id of a server, expected 1 to 254"),
        ((0, 9), False, "server 9 is not a member"),
        ((0, 3), False, "server 3 leads: transfer the lead first"),
        ((3,), True, "server 3 leads: transfer the lead first"),
        ((4,), True, "server 4 is an observer already"),
        ((2,), False, "server 2 is a voter already"),
        ((5,), False, "server 5 is not a member: add it as an observer first"),
        ((1, 2), True, "two voters would leave at once"),
    ],
)
def test_a_request_that_is_wrong_is_refused(
    servers: tuple[int, ...], observes: bool, reason: str
) -> None:
    ensemble = Ensemble(observers=1)
    assert ensemble.refusal(*servers, observes=observes) == f"BAD_ARGUMENTS: {reason}"


def test_the_last_voter_stays() -> None:
    ensemble = Ensemble(voters=1, observers=1)
    assert ensemble.refusal(0, 1) == "BAD_ARGUMENTS: server 1 leads: transfer the lead first"


def test_a_wrong_version_is_named_with_the_present_one() -> None:
    ensemble = Ensemble(strangers=2)
    version = ensemble.step(4, observes=True).zxid
    assert ensemble.refusal(5, observes=True, version=7) == (
        f"BAD_VERSION: the list is that of version {version:x}, not 7"
    )
    assert ensemble.step(5, observes=True, version=version).code == 0


def test_only_an_admin_of_the_config_may_ask() -> None:
    ensemble = Ensemble()
    ensemble.operator = ensemble.servers[1].caller(9)
    assert ensemble.refusal(0, 1) == "NO_AUTH: "


def test_servers_of_an_earlier_version_know_no_change() -> None:
    ensemble = Ensemble(level=LEVEL_MIN)
    assert ensemble.refusal(0, 1) == "UNIMPLEMENTED: "


def test_one_change_is_open_at_a_time() -> None:
    """Until the list was said again (M3): of several in one step the first one is done."""
    ensemble = Ensemble(strangers=2)
    operator = ensemble.operator
    asked = [operator.write(Reconfig(server, 0, True)) for server in (4, 5)]
    first, second = operator.ask(*asked)
    assert isinstance(first, WriteReply) and isinstance(second, WriteReply)
    assert (first.code, second.code) == (0, Code.RECONFIG_IN_PROGRESS)
    ensemble.all_have(1, 2, 3, observers=(4,))
    ensemble.does(5, observes=True)
    ensemble.all_have(1, 2, 3, observers=(4, 5))


def test_zookeeper_2172_a_server_that_is_not_ready_gets_no_vote() -> None:
    ensemble = Ensemble(observers=1)
    servers = ensemble.servers
    assert ensemble.refusal(4) == (
        "NEW_CONFIG_NO_QUORUM: server 4 has kept up for 200 ms, 2000 are needed"
    )
    servers.pass_time(WAIT_MS)
    servers.hold(4, 3)
    for number in range(3):
        ensemble.operator.ask(ensemble.operator.create(f"/{number}"))
    servers.pass_time(500)
    assert ensemble.refusal(4) == "NEW_CONFIG_NO_QUORUM: server 4 lags by 3 transactions, 2 may be"
    servers.release(4, 3)
    servers.crash(4)
    assert ensemble.refusal(4) == "NEW_CONFIG_NO_QUORUM: server 4 does not follow yet"
    servers.restart(4)
    servers.pass_time(100)
    assert "has kept up for" in ensemble.refusal(4)
    servers.pass_time(1_000)
    servers.crash(4)
    servers.restart(4)
    servers.pass_time(WAIT_MS)  # nothing was written meanwhile, so no digests were compared
    assert ensemble.refusal(4) == (
        "NEW_CONFIG_NO_QUORUM: server 4 has not confirmed its digest yet"
    )
    servers.pass_time(1_000)
    ensemble.does(4)


def test_a_server_that_does_not_run_is_not_added() -> None:
    """Nobody would start it; ZooKeeper takes any address for an observer."""
    ensemble = Ensemble(strangers=1)
    ensemble.servers.crash(4)
    ensemble.servers.pass_time(1_000)
    reason = "does not follow: start it before it is added"
    assert ensemble.refusal(4, observes=True) == f"NEW_CONFIG_NO_QUORUM: server 4 {reason}"
    assert ensemble.refusal(9, observes=True) == f"NEW_CONFIG_NO_QUORUM: server 9 {reason}"
    ensemble.servers.restart(4)
    ensemble.servers.pass_time(1_000)
    ensemble.does(4, observes=True)
    ensemble.servers.crash(1)
    ensemble.servers.pass_time(1_000)
    ensemble.does(1, observes=True)  # a member that is down may lose its vote
    ensemble.all_have(2, 3, observers=(1, 4))


def test_a_server_whose_disk_is_full_gets_no_vote() -> None:
    ensemble = promotable()
    ensemble.servers[4].step(DiskSpaceChanged(False))
    ensemble.servers.run()
    assert ensemble.refusal(4) == ("NEW_CONFIG_NO_QUORUM: server 4 does not log: its disk is full")


def test_the_servers_that_stay_must_be_a_majority_that_follows() -> None:
    """Four voters of which one is the new one and one is down would be two and no majority."""
    ensemble = promotable()
    ensemble.servers.crash(1)
    ensemble.servers.pass_time(1_000)
    assert ensemble.refusal(4) == (
        "NEW_CONFIG_NO_QUORUM: "
        "the servers of the new list, without the new one, are no majority that follows"
    )
    ensemble.does(4, 1)
    ensemble.all_have(2, 3, 4)


def test_a_lag_is_counted_over_epochs() -> None:
    ensemble = promotable()
    servers = ensemble.servers
    servers.crash(3)
    servers.pass_time(10_000)
    assert servers.leader.server_id == 2
    servers.hold(4, 2)
    for number in range(3):
        ensemble.operator.ask(ensemble.operator.create(f"/{number}"))
    assert ensemble.refusal(4) == "NEW_CONFIG_NO_QUORUM: server 4 lags by 3 transactions, 2 may be"


def test_a_new_leader_says_the_list_again_before_it_takes_another_step() -> None:
    ensemble = Ensemble(strangers=1)
    ensemble.does(4, observes=True)
    ensemble.servers.crash(3)
    ensemble.servers.pass_time(10_000)
    assert ensemble.servers.leader.server_id == 2
    ensemble.does(0, 4)
    ensemble.all_have(1, 2, 3)


def test_a_restart_of_all_right_after_a_change_counts_by_the_new_list() -> None:
    """Its second transaction is on the disks of a majority, so the one that left is not needed."""
    ensemble = promotable()
    ensemble.does(4, 1)
    for server in (1, 2, 3, 4):
        ensemble.servers.crash(server)
    for server in (2, 4):
        ensemble.servers.restart(server)
    ensemble.servers.pass_time(10_000)
    assert ensemble.servers.leader.server_id == 4
    ensemble.all_have(2, 3, 4)


def test_a_promoted_server_votes_from_the_disk_that_it_has() -> None:
    ensemble = promotable()
    ensemble.does(4)
    disks = ensemble.servers[1].settings.members.delivered.voters
    assert disks[ServerId(4)] == ensemble.servers[4].disk.disk == FOUNDING_DISK
    ensemble.servers.crash(4)
    ensemble.servers.down[4].disk.repair()
    ensemble.servers.restart(4)
    ensemble.servers.pass_time(2_000)
    new = ensemble.servers[4].disk.disk
    assert new != DiskId(FOUNDING_DISK)
    for host in ensemble.servers.hosts.values():
        assert host.settings.members.delivered.voters[ServerId(4)] == new


def test_a_leader_that_hands_over_leaves_it_to_the_next_one_to_say_the_list_again() -> None:
    """Its disk is full when the step is delivered."""
    ensemble = Ensemble(strangers=1)
    servers, operator = ensemble.servers, ensemble.operator_at(3)
    for server in (1, 2):
        servers.hold(server, 3)
    assert operator.ask(operator.write(Reconfig(4, 0, True))) == []
    servers[3].step(DiskSpaceChanged(False))
    for server in (1, 2):
        servers.release(server, 3)
    servers.pass_time(10_000)
    assert servers.leader.server_id != 3
    ensemble.does(0, 4)
    ensemble.all_have(1, 2, 3)


def open_step(ensemble: Ensemble) -> Caller:
    """Server 4 takes the place of 1, by a client of the leader; the acks are on their way."""
    servers, operator = ensemble.servers, ensemble.operator_at(3)
    for server in (1, 2, 4):
        servers.hold(server, 3)
    assert operator.ask(operator.write(Reconfig(4, 1, False))) == []
    assert servers[3].settings.members.is_changing
    return operator


def test_nothing_is_proposed_behind_a_step_before_it_is_delivered() -> None:
    ensemble = promotable()
    servers = ensemble.servers
    operator = servers[3].caller(9)
    writes = [operator.create("/a", b"x" * 700_000), operator.create("/b", b"y" * 700_000)]
    writes += [operator.create("/c")]
    open_step(ensemble)
    assert operator.ask(*writes) == []
    leader = servers[3]
    leader.take()
    for server in (1, 2, 4):
        servers.release(server, 3)
    servers.run()
    runs = [len(effect.txns) for effect in leader.of(Append)]
    assert runs == [2, 2], "at a megabyte a run ends; the list said again comes last"
    assert [item.code for item in operator.items if isinstance(item, WriteReply)] == [0, 0, 0]
    ensemble.all_have(2, 3, 4)


def test_a_leader_that_is_lost_in_a_swap_leaves_a_majority_that_goes_on() -> None:
    """A write right behind the step reaches 4 alone. Committed by the new list, it would bind 1 and
    2, who do not know of the commit, to wait for the leader.
    """
    ensemble = promotable()
    servers = ensemble.servers
    operator = open_step(ensemble)
    for server in (1, 2):
        servers.hold(3, server)
    assert operator.ask(operator.create("/behind")) == []
    servers.hold(3, 4)
    for server in (1, 2, 4):
        servers.release(server, 3)
    servers.run()
    servers.crash(3)
    servers.pass_time(20_000)
    assert servers.leader.server_id in (2, 4)
    other = servers[2].caller(9)
    (item,) = other.ask(other.create("/on"))
    assert isinstance(item, WriteReply) and item.code == 0


def test_what_waits_behind_a_step_is_not_proposed_on_a_full_disk() -> None:
    """The only voter delivers the step by itself, and there is nobody to take over."""
    ensemble = Ensemble(voters=1, strangers=1)
    leader, operator = ensemble.servers[1], ensemble.operator
    leader.is_disk_held = True
    assert operator.ask(operator.write(Reconfig(2, 0, True))) == []
    assert operator.ask(operator.create("/behind")) == []
    leader.step(DiskSpaceChanged(False))
    leader.take()
    leader.release_disk()
    ensemble.servers.run()
    ensemble.all_have(1, observers=(2,))
    assert leader.server.peer.role is Role.LEADER
    assert leader.of(Append) == []


def test_what_waits_behind_a_step_is_proposed_before_the_lead_is_handed_over() -> None:
    """All have answered the ping of the transfer, and the ack that delivers the step is that of the
    nominee, which has all of the log then.
    """
    ensemble = promotable()
    servers, operator = ensemble.servers, ensemble.operator_at(3)
    for server in (1, 2, 4):
        servers[server].is_disk_held = True
    assert operator.ask(operator.write(Reconfig(4, 1, False))) == []
    assert operator.ask(operator.create("/behind")) == []
    servers[3].step(TransferRequested(1, ServerId(2), 5_000, 1_000))
    servers.run()
    for server in (4, 2, 1):
        servers[server].is_disk_held = False
        servers.run()
    servers.pass_time(5_000)
    assert servers.leader.server_id == 2
    (_, step, write) = [item for item in operator.items if isinstance(item, WriteReply)]
    assert (step.code, write.code) == (0, 0)
    assert epoch_of(write.zxid) == epoch_of(step.zxid)
    ensemble.all_have(2, 3, 4)


def test_from_one_voter_to_two_the_newcomer_has_nothing_that_the_leader_lacks() -> None:
    """Both have the step. A write behind it is on the disk of 2, and torn on that of 1: as it
    starts again 1 does not know what it had acknowledged, and 2, which does, cannot be elected.
    """
    ensemble = Ensemble(voters=1, strangers=1)
    ensemble.does(2, observes=True)
    ensemble.servers.pass_time(WAIT_MS)
    servers, operator = ensemble.servers, ensemble.operator
    servers.hold(2, 1)
    assert operator.ask(operator.write(Reconfig(2, 0, False))) == []
    servers[1].is_disk_held = True
    assert operator.ask(operator.create("/behind")) == []
    servers[1].disk._queue.clear()
    servers.crash(1)
    servers.release(2, 1)
    servers.down[1].is_disk_held, servers.down[1].disk.is_uncertain = False, True
    servers.restart(1)
    servers.pass_time(20_000)
    assert servers.leader.server_id in (1, 2)
    ensemble.all_have(1, 2)
