"""Digests: which replica is wrong when replicas differ at a zxid, and when that is unknowable."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.digest_comparison import COMPARE_EVERY_REPORTS
from raykeeper.server.effects import Restart
from raykeeper.server.events import PeerFrame
from raykeeper.server.peer_messages import DigestMismatch, DigestReply, DigestRequest
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import DiskId, ServerId, Zxid, format_zxid
from raykeeper.zab.messages import FollowerInfo
from raykeeper.zab.settings import RecentLogLimits
from tests.harness.pure_servers import OPTIONS, PureServer, PureServers

ROUND_MS = COMPARE_EVERY_REPORTS * OPTIONS.session_report_ms


def spoil(servers: PureServers, *wrong: int) -> None:
    """Flip a bit of the state of each of these servers, another one in each."""
    for server in wrong:
        servers[server].server.state.voters[ServerId(200)] = DiskId(f"flipped on {server}")


def asked(servers: PureServers, *held: int) -> str:
    """Do one write and one comparison, whose answers from `held` wait; return the zxid compared."""
    caller = servers.leader.caller(90 + servers.clock.now)
    zxid = servers.leader.server.state.zxid
    for server in held:
        servers.hold(server, servers.leader.server_id)
    servers.pass_time(ROUND_MS)
    assert caller.ended is None
    return format_zxid(zxid)


def ended(servers: PureServers) -> list[int]:
    """Return the servers that were told to start again with an empty disk."""
    found = {n: host.of(Restart) for n, host in servers.hosts.items()}
    assert all(len(effects) < 2 and effects[0].wipe_disk for effects in found.values() if effects)
    return [n for n, effects in found.items() if effects]


def noted(host: PureServer) -> list[object]:
    return [
        *host.notes(server_trace_events.DIGEST_DIFFERS),
        *host.notes(server_trace_events.DIGEST_UNDECIDED),
    ]


def test_equal_replicas_are_asked_once_per_state() -> None:
    servers = PureServers(3)
    zxid = asked(servers)
    leader, follower = servers[3], servers[1]
    assert leader.server.peer.role is Role.LEADER
    digest = leader.server.state.digest()
    (ask, other) = leader.sent(DigestRequest)
    assert ask == other == DigestRequest(leader.server.state.zxid, digest)
    assert follower.sent(DigestReply) == [DigestReply(ask.zxid, digest)]
    assert format_zxid(ask.zxid) == zxid
    servers.pass_time(3 * ROUND_MS)
    assert len(leader.sent(DigestRequest)) == 2
    leader.caller(2)
    servers.pass_time(ROUND_MS)
    assert len(leader.sent(DigestRequest)) == 4
    assert noted(leader) == noted(follower) == ended(servers) == []


@pytest.mark.parametrize("wrong", [1, 2])
def test_follower_that_differs_from_a_quorum_begins_anew(wrong: int) -> None:
    servers = PureServers(3)
    spoil(servers, wrong)
    zxid = asked(servers)
    assert ended(servers) == [wrong]
    assert servers[3].sent(DigestMismatch) == [DigestMismatch(servers[3].server.state.zxid)]
    assert noted(servers[3]) == [(zxid, [wrong])]
    (restart,) = servers[wrong].of(Restart)
    assert restart.reason == f"at {zxid} this server's tree differs from that of a quorum"
    # If told again, the leader judges no server twice for one state.
    servers.pass_time(3 * ROUND_MS)
    assert len(servers[3].sent(DigestMismatch)) == 1


def test_leader_that_differs_from_a_quorum_begins_anew_itself() -> None:
    servers = PureServers(3)
    spoil(servers, 3)
    zxid = asked(servers)
    assert ended(servers) == [3]
    assert noted(servers[3]) == [(zxid, [3])]
    assert servers[3].sent(DigestMismatch) == []


def test_a_wrong_leader_accuses_no_other_server() -> None:
    """The next leader finds the other replicas that differ."""
    servers = PureServers(5)
    spoil(servers, 1, 5)
    asked(servers)
    assert ended(servers) == [5]
    assert servers[5].sent(DigestMismatch) == []


def test_several_followers_may_differ_each_in_its_own_way() -> None:
    servers = PureServers(5)
    spoil(servers, 1, 3)
    zxid = asked(servers)
    assert ended(servers) == [1, 3]
    assert sorted(map(str, noted(servers[5]))) == [str((zxid, [1])), str((zxid, [3]))]


def test_late_digests_judge_no_server_twice() -> None:
    servers = PureServers(5)
    spoil(servers, 1)
    zxid = asked(servers)
    assert len({*servers.hosts} - {5}) == len(servers[5].sent(DigestRequest)) == 4
    assert (ended(servers), noted(servers[5])) == ([1], [(zxid, [1])])


def test_when_no_quorum_agrees_all_go_on() -> None:
    servers = PureServers(3)
    spoil(servers, 1, 2)
    zxid = asked(servers)
    assert ended(servers) == []
    assert noted(servers[3]) == [(zxid, [1, 2, 3])]
    assert servers[3].sent(DigestMismatch) == []
    servers.pass_time(3 * ROUND_MS)
    assert len(noted(servers[3])) == 1


def test_two_different_digests_of_three_prove_nothing() -> None:
    servers = PureServers(3)
    servers.crash(2)
    spoil(servers, 1)
    zxid = asked(servers)
    assert (ended(servers), noted(servers[3])) == ([], [(zxid, [1, 3])])


def test_too_few_equal_digests_prove_nothing() -> None:
    """The others are gone; the leader notices at its next tick."""
    servers = PureServers(5)
    leader = servers[5]
    leader.caller()
    for server in (1, 2, 3, 4):
        servers.hold(server, 5)
    servers.pass_time(ROUND_MS)
    assert len(leader.sent(DigestRequest)) == 4
    for server in (1, 2, 3):
        servers.cut(server, 5)
    servers.release(4, 5)
    assert len(servers[4].sent(DigestReply)) == 1
    assert leader.server.peer.broadcasting is not None
    assert noted(leader) == []


def test_a_late_digest_is_compared_with_the_agreed_one() -> None:
    servers = PureServers(3)
    spoil(servers, 1)
    zxid = asked(servers, 1)
    assert noted(servers[3]) == []
    servers.release(1, 3)
    assert (ended(servers), noted(servers[3])) == ([1], [(zxid, [1])])


@pytest.mark.parametrize("wrong", [1, 2])
def test_a_digest_of_an_earlier_comparison_is_ignored(wrong: int) -> None:
    servers = PureServers(3)
    leader = servers[3]
    spoil(servers, wrong)
    asked(servers, wrong)
    leader.take()
    old = leader.server.state.zxid
    leader.caller(2)
    servers.pass_time(ROUND_MS)
    (told, *_) = servers[wrong].sent(DigestReply)
    assert told.zxid == old
    leader.step(PeerFrame(ServerId(wrong), [told]))
    assert noted(leader) == []


def test_a_digest_after_the_end_of_a_comparison_is_ignored() -> None:
    servers = PureServers(3)
    spoil(servers, 1, 2)
    asked(servers)
    leader = servers[3]
    leader.take()
    leader.step(PeerFrame(ServerId(1), [servers[1].sent(DigestReply)[-1]]))
    assert leader.take() == []


def test_a_learner_without_a_vote_is_compared_and_does_not_count() -> None:
    servers = PureServers(3, observers=1)
    spoil(servers, 4)
    zxid = asked(servers)
    assert (ended(servers), noted(servers[3])) == ([4], [(zxid, [4])])
    servers = PureServers(3, observers=1)
    spoil(servers, 1, 2)
    zxid = asked(servers, 1, 2)
    assert servers[4].sent(DigestReply)[0].digest == servers[3].server.state.digest()
    servers.release(1, 3)
    servers.release(2, 3)
    assert (ended(servers), noted(servers[3])) == ([], [(zxid, [1, 2, 3, 4])])


def test_a_leader_without_a_vote_counts_the_other_voters() -> None:
    """Its log moves its vote away; the leader steps down once that is delivered."""
    servers = PureServers(3)
    servers[3].settings.members.disk_logged(ServerId(3), DiskId("new"), Zxid(1 << 60))
    spoil(servers, 1)
    zxid = asked(servers)
    assert (ended(servers), noted(servers[3])) == ([], [(zxid, [1, 2, 3])])


def test_a_learner_that_does_not_follow_yet_is_not_asked() -> None:
    servers = PureServers(3)
    leader = servers[3]
    follow_attempt = servers[1].sent(FollowerInfo)[-1].follow_attempt + 1
    servers.hold(3, 1)
    leader.step(
        PeerFrame(ServerId(1), [FollowerInfo(leader.server.peer.epoch, follow_attempt, DiskId(""))])
    )
    asked(servers)
    assert len(leader.sent(DigestRequest)) == 1
    assert noted(leader) == []


def test_a_follower_answers_only_at_the_zxid_of_the_leader() -> None:
    servers = PureServers(3)
    host = servers[1]
    zxid = host.server.state.zxid
    host.take()
    host.step(PeerFrame(ServerId(3), [DigestRequest(type(zxid)(zxid + 1), 7)]))
    assert host.take() == []
    host.step(PeerFrame(ServerId(3), [DigestRequest(zxid, 7)]))
    assert host.sent(DigestReply) == [DigestReply(zxid, host.server.state.digest())]


def test_an_accusation_by_another_server_than_the_leader_is_ignored() -> None:
    servers = PureServers(3)
    servers[1].step(PeerFrame(ServerId(2), [DigestMismatch(servers[1].server.state.zxid)]))
    assert ended(servers) == []


def test_a_request_of_an_earlier_epoch_is_not_answered() -> None:
    servers = PureServers(3)
    leader = servers[3]
    asked(servers, 1)
    leader.server.peer.step_down("to see", leader.clock.now)
    leader.step()
    servers.release(1, 3)
    servers.pass_time(2_000)
    assert ended(servers) == []
    assert all(noted(host) == [] for host in servers.hosts.values())


NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)
AT_ONCE = "raykeeper.server.server.HASHED_AT_ONCE"


def test_a_loaded_tree_is_hashed_step_by_step_and_compared_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AT_ONCE, 0)
    servers = PureServers(3, window=NO_DIFF)
    caller = servers.leader.caller()
    servers.crash(1)
    caller.ask(*[caller.create(f"/{number}") for number in range(9)])
    servers.restart(1)
    loaded = servers[1].server
    unhashed = len(loaded.state.tree.unhashed)
    assert unhashed >= 9
    spoil(servers, 1)
    asked(servers)
    assert servers[1].sent(DigestReply) == []
    assert ended(servers) == []
    monkeypatch.setattr(AT_ONCE, 2)
    steps = 0
    while loaded.deadline() == servers.clock.now:
        servers[1].step()
        steps += 1
    assert steps == -(-unhashed // 2)
    asked(servers)
    assert ended(servers) == [1]


def test_nothing_is_hashed_before_there_is_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = PureServers(3, window=NO_DIFF)
    monkeypatch.setattr(AT_ONCE, 0)
    for number in (1, 2, 3):
        servers[number].server.state.tree.unhashed.append("/")
    leader = servers.leader
    asked(servers)
    assert leader.sent(DigestRequest) == []
    for number in (1, 2):
        servers.crash(number)
    servers.pass_time(10_000)
    assert leader.server.peer.role is Role.LOOKING
    monkeypatch.setattr(AT_ONCE, 2)
    leader.step()
    assert leader.server.state.tree.unhashed == ["/"]
    servers.restart(1)
    servers.pass_time(1_000)
    assert leader.server.state.tree.unhashed == []
