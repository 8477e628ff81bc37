"""Transfers of the lead: what waits meanwhile, when it goes on, and what the operator is told."""

import pytest
from msgspec.structs import replace

from raykeeper.server.effects import TransferAnswered, TransferResult
from raykeeper.server.events import SessionsOverdue, TransferRequested
from raykeeper.zab.effects import Append, Role
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.txns import ReplaceVoterTxn, decode_txn
from tests.harness.pure_servers import OPTIONS, PureServer, PureServers

S1, S2, S3, S4 = (ServerId(number) for number in range(1, 5))
WITHIN_MS = 1_000


def ask(
    servers: PureServers, to: ServerId | None, at: int = 3, within_ms: int = WITHIN_MS
) -> list[TransferResult]:
    """Ask a server to transfer the lead; return what it answers at once."""
    servers[at].take()
    servers[at].step(TransferRequested(7, to, within_ms, 1_000))
    servers.run()
    return answers(servers[at])


def answers(host: PureServer) -> list[TransferResult]:
    return [effect.result for effect in host.of(TransferAnswered)]


def handing_over(to: int = 1) -> PureServers:
    """Server 3 hands over to a server whose disk completes nothing."""
    servers = PureServers(3)
    caller = servers[3].caller()
    servers[to].is_disk_held = True
    caller.ask(caller.create("/before"))
    assert ask(servers, ServerId(to)) == []
    role = servers[3].server.peer.broadcasting
    assert role is not None and role.is_handing_over
    return servers


def logged(host: PureServer) -> int:
    return sum(len(effect.txns) for effect in host.of(Append))


@pytest.mark.parametrize(("to", "leads"), [(S1, S1), (S2, S2), (None, S2)])
def test_the_nominee_leads_and_no_client_notices(to: ServerId | None, leads: ServerId) -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    assert ask(servers, to) == [TransferResult(leads, True)]
    assert servers[int(leads)].server.peer.broadcasting is not None
    assert [type(item) for item in caller.ask(caller.create("/a"))] == [WriteReply]
    assert caller.ended is None


@pytest.mark.parametrize(
    ("at", "to", "result"),
    [
        (3, S3, TransferResult(S3, True, "server 3 leads already")),
        (1, S2, TransferResult(S3, False, "server 1 does not lead")),
        (3, S4, TransferResult(S3, False, "server 4 is an observer, which has no vote")),
        (3, ServerId(9), TransferResult(S3, False, "server 9 is no voter of this ensemble")),
    ],
)
def test_a_request_that_is_not_possible_changes_nothing(
    at: int, to: ServerId, result: TransferResult
) -> None:
    servers = PureServers(3, observers=1)
    assert ask(servers, to, at) == [result]
    assert servers[3].server.peer.broadcasting is not None


def test_a_server_without_a_leader_knows_none() -> None:
    servers = PureServers(3)
    servers.crash(3)
    servers.crash(2)
    servers.pass_time(10)
    assert ask(servers, None, at=1) == [TransferResult(None, False, "server 1 does not lead")]


def test_writes_wait_and_are_done_once_by_the_new_leader() -> None:
    servers = handing_over()
    near, far = servers[3].caller(2), servers[2].caller(3)
    assert near.greeting is None and far.greeting is None
    servers[1].release_disk()
    servers.run()
    assert answers(servers[3]) == [TransferResult(S1, True)]
    assert near.greeting is not None and far.greeting is not None


def test_a_third_server_with_a_busy_disk_is_not_waited_for() -> None:
    """It votes when its disk is idle, and the nominee has a quorum before."""
    servers = PureServers(3)
    caller = servers[3].caller()
    servers[2].is_disk_held = True
    caller.ask(caller.create("/before"))
    assert ask(servers, S1) == [TransferResult(S1, True)]
    assert servers[1].server.peer.broadcasting is not None
    assert [type(item) for item in caller.ask(caller.create("/after"))] == [WriteReply]
    servers[2].release_disk()
    servers.run()
    assert servers[2].server.peer.leader == S1 and servers[2].server.peer.is_active


def test_an_abandoned_transfer_goes_on_with_all_that_waits() -> None:
    servers = PureServers(3)
    near, far = servers[3].caller(), servers[2].caller(2)
    servers[1].is_disk_held = True
    near.ask(near.create("/before"))
    assert ask(servers, S1) == []
    assert near.ask(near.create("/near")) == far.ask(far.create("/far")) == []
    late = servers[2].caller(3)
    servers[3].step(SessionsOverdue([]))
    servers.pass_time(WITHIN_MS)
    (result,) = answers(servers[3])
    assert (result.leader, result.is_done) == (S3, False)
    assert result.reason.startswith("not all was on disk in time: server 1 lacks")
    assert [type(item) for item in near.new()] == [WriteReply]
    assert [type(item) for item in far.new()] == [WriteReply]
    assert late.greeting is not None


def test_nothing_is_proposed_meanwhile() -> None:
    servers = handing_over()
    servers[3].caller(2)
    servers[2].caller(3)
    servers[3].take()
    servers.pass_time(WITHIN_MS // 2)
    assert logged(servers[3]) == 0
    assert ask(servers, S2)[-1].reason == "the lead is being transferred to server 1 already"


def test_too_many_bytes_that_wait_end_it() -> None:
    options = replace(OPTIONS, transfer_held_bytes_max=10)
    servers = PureServers(3, options=options)
    caller = servers[2].caller()
    servers[1].is_disk_held = True
    caller.ask(caller.create("/before"))
    assert ask(servers, S1) == []
    replies = caller.ask(caller.create("/a", b"more than ten bytes"))
    reason = "too many bytes of writes wait for its end"
    assert answers(servers[3]) == [TransferResult(S3, False, reason)]
    assert [type(item) for item in replies] == [WriteReply]


@pytest.mark.parametrize("is_first_done", [False, True])
def test_a_later_transfer_holds_as_many_bytes_as_the_first(is_first_done: bool) -> None:
    options = replace(OPTIONS, transfer_held_bytes_max=100)
    servers = PureServers(3, options=options)
    caller = servers[2].caller()
    for path in ("/a", "/b"):
        servers[1].is_disk_held = True
        caller.ask(caller.create(path))
        assert ask(servers, S1) == []
        assert caller.ask(caller.create(f"{path}{path}", bytes(60))) == []
        assert servers[3].server.peer.broadcasting is not None and answers(servers[3]) == []
        if is_first_done:
            servers[1].release_disk()
            servers.run()
            assert answers(servers[3]) == [TransferResult(S1, True)]
            assert ask(servers, S3, at=1) == [TransferResult(S3, True)]
        else:
            servers.pass_time(WITHIN_MS)
            assert answers(servers[3])[0].reason.startswith("not all was on disk in time")
            servers[1].release_disk()
            servers.run()
        assert [type(item) for item in caller.new()] == [WriteReply]


def test_sessions_do_not_end_meanwhile_but_afterwards() -> None:
    servers = PureServers(3)
    servers[3].track()
    quiet = servers[3].caller(1, timeout_ms=1_000)
    loud = servers[3].caller(2)
    servers[1].is_disk_held = True
    loud.ask(loud.create("/before"))
    assert ask(servers, S1, within_ms=3_000) == []
    servers.pass_time(2_500)
    assert quiet.ended is None
    servers.pass_time(3_000)
    assert quiet.ended is not None


def test_another_server_may_be_elected_instead() -> None:
    """The nominee does not hear that the leader has stepped down."""
    servers = handing_over()
    servers.hold(3, 1)
    servers[1].release_disk()
    servers.run()
    assert answers(servers[3]) == []
    servers.pass_time(500)
    (result,) = answers(servers[3])
    assert result == TransferResult(S3, False, "server 3 was elected instead")


def test_the_operator_is_told_that_no_leader_was_elected() -> None:
    servers = handing_over()
    servers.hold(3, 1)
    servers[1].release_disk()
    servers.run()
    servers.crash(2)
    servers.cut(1, 3)
    servers.pass_time(WITHIN_MS - 100)
    assert answers(servers[3]) == []
    assert servers[3].server.deadline() is not None
    servers.pass_time(200)
    assert answers(servers[3]) == [TransferResult(None, False, "no leader was elected in time")]


def test_vain_elections_do_not_put_the_answer_off() -> None:
    servers = handing_over()
    servers.hold(3, 1)
    servers[1].release_disk()
    servers.run()
    servers.crash(2)
    servers.cut(1, 3)
    for _ in range(4):
        servers.pass_time(WITHIN_MS // 4)
        servers[3].server._transfer.on_role_changed(Role.LOOKING)
    servers.pass_time(100)
    assert answers(servers[3]) == [TransferResult(None, False, "no leader was elected in time")]


def test_a_vote_that_moves_meanwhile_is_named_again_if_the_leader_goes_on() -> None:
    """Without the repeat a log would not show that the vote has moved (rule D3)."""
    servers = PureServers(5)
    servers[1].is_disk_held = True
    servers.crash(2)
    servers.down[2].disk.repair()
    servers.restart(2)
    for other in (3, 4):
        servers.hold(other, 5)
    servers.pass_time(200)
    assert ask(servers, S1, at=5) == []
    servers.release(3, 5)
    servers.release(4, 5)
    moves = [decode_txn(txn).body for _, txn in servers[5].disk.log]
    assert [type(each) for each in moves].count(ReplaceVoterTxn) == 1
    role = servers[5].server.peer.broadcasting
    assert role is not None and role.is_handing_over
    assert servers[5].server.stats().voter_disks[S2] == servers[2].disk.disk
    servers.pass_time(WITHIN_MS + 200)
    moves = [decode_txn(txn).body for _, txn in servers[5].disk.log]
    assert [type(each) for each in moves].count(ReplaceVoterTxn) == 2
