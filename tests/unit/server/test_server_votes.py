"""Votes that belong to disks (rule D3): lost with a disk, and given back by the leader."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.effects import Effect
from raykeeper.server.events import DiskSpaceChanged, LinkDown, LinkUp, PeerFrame
from raykeeper.server.peer_messages import PeerMessage, decode_peer_frame
from raykeeper.server.recovered_state import RecoveredState
from raykeeper.server.server import Server
from raykeeper.zab import trace_events
from raykeeper.zab.effects import LogRun, Role, VoteGranted
from raykeeper.zab.ids import (
    FOUNDING_DISK,
    ZERO,
    DiskId,
    Epoch,
    Millis,
    Now,
    ServerId,
    Zxid,
    make_zxid,
)
from raykeeper.zab.messages import Notification, PeerState, Vote
from raykeeper.zab.settings import RecentLogLimits, Settings
from raykeeper.znodes.replies import WriteReply
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.snapshot import SnapshotWalk
from raykeeper.znodes.state import State
from raykeeper.znodes.txns import ErrorTxn, ReplaceVoterTxn, Txn, TxnBody, decode_txn, encode_txn
from tests.harness.pure_servers import LIMITS, OPTIONS, TIMING, PureServer, PureServers

S1, S2, S3 = ServerId(1), ServerId(2), ServerId(3)
NEW = DiskId("new")
LONG_MS = 1_000
NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)


def replaced_in(host: PureServer) -> list[ReplaceVoterTxn]:
    """Return the votes that the log of a server moves, in order."""
    changes = [decode_txn(txn).body for _, txn in host.disk.log]
    return [change for change in changes if isinstance(change, ReplaceVoterTxn)]


def renew(servers: PureServers, *lost: int) -> list[DiskId]:
    """Restart servers on empty disks with other ids, before the leader's next report."""
    for server in lost:
        if server in servers.hosts:
            servers.crash(server)
    for server in lost:
        servers.down[server].disk.repair()
        servers.restart(server)
    return [servers[server].disk.disk for server in lost]


def votes(servers: PureServers) -> dict[int, bool]:
    return {number: host.server.stats().has_vote for number, host in servers.hosts.items()}


class TestRegainedVotes:
    """The leader restores the vote of a server that follows it."""

    def test_a_server_on_a_new_disk_regains_its_vote_at_the_next_report(self) -> None:
        servers = PureServers(3)
        servers[3].caller()
        (disk,) = renew(servers, 1)
        host = servers[1]
        assert disk not in (FOUNDING_DISK, servers[2].disk.disk)
        servers.pass_time(LONG_MS)
        assert votes(servers) == {1: True, 2: True, 3: True}
        assert host.server.peer.role is Role.FOLLOWER
        assert host.of(VoteGranted) == [VoteGranted()]
        assert not host.disk.is_replaced
        for other in servers.hosts.values():
            assert other.settings.members.has_vote(S1, disk)
            assert not other.settings.members.has_vote(S1, FOUNDING_DISK)
            assert other.notes(trace_events.VOTE_REPLACED) == [(S1, disk)]
        assert len(set(servers.digests())) == 1

    def test_a_server_without_its_vote_observes_and_is_named(self) -> None:
        servers = PureServers(3)
        servers.hold(2, 3)  # nothing is committed without the vote of server 2
        renew(servers, 1)
        servers.pass_time(500)
        host = servers[1]
        assert host.server.peer.role is Role.OBSERVER and host.server.peer.is_active
        assert (host.server.stats().has_vote, host.server.stats().voters_lost) == (False, [1])
        assert servers[3].server.stats().voters_lost == [1]
        assert servers[2].server.stats().voters_lost == []
        assert host.of(VoteGranted) == []
        assert host.disk.is_replaced
        # The server has everything on disk, but that does not count.
        assert replaced_in(host) == [ReplaceVoterTxn(S1, host.disk.disk)]
        servers.release(2, 3)
        assert host.server.stats().has_vote

    def test_the_leader_tells_on_which_disk_each_vote_rests_unless_it_is_moving(self) -> None:
        servers = PureServers(3)
        founding = dict.fromkeys((S1, S2, S3), FOUNDING_DISK)
        assert servers[3].server.stats().voter_disks == founding
        servers.hold(2, 3)
        (disk,) = renew(servers, 1)
        servers.pass_time(LONG_MS)
        assert replaced_in(servers[3]) == [ReplaceVoterTxn(S1, disk)]  # logged, not committed
        assert servers[3].server.stats().voter_disks == {S2: FOUNDING_DISK, S3: FOUNDING_DISK}
        servers.release(2, 3)
        servers.pass_time(LONG_MS)
        assert servers[3].server.stats().voter_disks == {**founding, S1: disk}

    def test_each_vote_is_logged_twice_and_one_transaction_at_a_time(self) -> None:
        servers = PureServers(3)
        servers.hold(2, 3)
        (disk,) = renew(servers, 1)
        servers.pass_time(LONG_MS)  # ten reports
        assert replaced_in(servers[3]) == [ReplaceVoterTxn(S1, disk)]
        servers.release(2, 3)
        servers.pass_time(LONG_MS)
        for host in servers.hosts.values():
            assert replaced_in(host) == [ReplaceVoterTxn(S1, disk)] * 2
        # Only the first report is news.
        assert servers[3].notes(trace_events.VOTE_REPLACED) == [(S1, disk)]

    def test_an_uncommitted_vote_of_an_earlier_leader_is_proposed_again(self) -> None:
        """The move was logged and not delivered, and the leader that proposed it is gone."""
        servers = PureServers(3)
        servers.hold(2, 3)
        (disk,) = renew(servers, 1)
        servers.pass_time(500)
        assert replaced_in(servers[2]) == [ReplaceVoterTxn(S1, disk)]
        servers.crash(3)
        servers.release(2, 3)
        servers.restart(3)
        servers.pass_time(LONG_MS)
        assert votes(servers) == {1: True, 2: True, 3: True}
        for host in servers.hosts.values():
            assert replaced_in(host) == [ReplaceVoterTxn(S1, disk)] * 2

    def test_all_servers_that_restart_right_after_it_count_the_vote(self) -> None:
        """The log proves that the first transaction is committed: a second one follows it."""
        servers = PureServers(3)
        renew(servers, 1)
        servers.pass_time(LONG_MS)
        for number in (1, 2, 3):
            servers.crash(number)
        for number in (1, 3):  # without server 2, which takes the vote of server 1
            servers.restart(number)
        servers.pass_time(LONG_MS)
        assert votes(servers) == {1: True, 3: True}
        caller = servers.leader.caller()
        assert [type(item) for item in caller.ask(caller.create("/a"))] == [WriteReply]

    def test_a_disk_that_is_lost_again_is_replaced_by_the_next(self) -> None:
        servers = PureServers(3)
        (one,) = renew(servers, 1)
        servers.pass_time(LONG_MS)
        (other,) = renew(servers, 1)
        servers.pass_time(LONG_MS)
        assert [x.disk for x in replaced_in(servers[2])] == [one, one, other, other]
        assert votes(servers) == {1: True, 2: True, 3: True}

    def test_an_observer_regains_no_vote(self) -> None:
        servers = PureServers(3, observers=1)
        renew(servers, 4)
        servers.pass_time(LONG_MS)
        assert servers[4].server.peer.is_active
        assert replaced_in(servers[3]) == []
        assert not servers[4].server.stats().has_vote

    def test_a_server_that_cannot_log_regains_no_vote(self) -> None:
        servers = PureServers(3)
        renew(servers, 1)
        servers[1].step(DiskSpaceChanged(False))
        servers.run()
        servers.pass_time(OPTIONS.disk_space_check_ms - 200)
        assert servers[1].server.peer.history.is_paused
        assert replaced_in(servers[3]) == []

    def test_a_server_that_does_not_follow_yet_regains_no_vote(self) -> None:
        servers = PureServers(3)
        servers.crash(1)
        servers.down[1].disk.repair()
        servers.hold(1, 3)
        servers.restart(1)
        servers.pass_time(LONG_MS)
        assert replaced_in(servers[3]) == []
        servers.release(1, 3)
        servers.pass_time(LONG_MS)
        assert votes(servers)[1]

    def test_a_leader_with_a_full_disk_restores_no_vote(self) -> None:
        servers = PureServers(3)
        servers[2].step(DiskSpaceChanged(False))
        servers.run()
        renew(servers, 1)
        servers[3].step(DiskSpaceChanged(False))
        assert servers[3].server.peer.broadcasting is not None
        servers.pass_time(OPTIONS.disk_space_check_ms - 200)
        assert replaced_in(servers[3]) == []

    def test_an_exhausted_counter_delays_the_vote_to_the_next_epoch(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        servers = PureServers(5)
        servers[5].caller()
        renew(servers, 1, 2)
        assert replaced_in(servers[5]) == []
        monkeypatch.setattr("raykeeper.zab.leader_broadcast.COUNTER_MAX", 1)
        servers.pass_time(OPTIONS.session_report_ms)
        monkeypatch.undo()
        assert servers[5].notes(server_trace_events.COUNTER_EXHAUSTED) == [1]
        servers.pass_time(2 * LONG_MS)
        assert servers.leader.server.peer.epoch == 2
        assert set(votes(servers).values()) == {True}

    def test_a_lost_majority_regains_no_votes(self) -> None:
        """No server knows what the two had acknowledged; an operator must decide."""
        servers = PureServers(3)
        renew(servers, 1, 2)
        servers.pass_time(10_000)
        assert {host.server.peer.role for host in servers.hosts.values()} == {Role.LOOKING}
        assert servers[3].notes(trace_events.QUORUM_LOST)[-1] == [1, 2]
        assert [host.server.stats().voters_lost for host in servers.hosts.values()] == [
            [1, 2],
            [1, 2],
            [1, 2],
        ]


# Recovered and received states.


def zxid(epoch: int, counter: int) -> Zxid:
    return make_zxid(Epoch(epoch), counter)


def txn(change: TxnBody) -> bytes:
    return encode_txn(Txn(SessionId(0), 0, 0, Millis(5), change))


def recovered(committed: int, *changes: TxnBody, disk: DiskId = FOUNDING_DISK) -> RecoveredState:
    """Return a log of epoch 1, committed up to a counter."""
    runs = [LogRun(zxid(1, 1), [txn(change) for change in changes])] if changes else []
    upto = zxid(1, committed) if committed else ZERO
    return RecoveredState(Epoch(1), Epoch(1), ZERO, ZERO, [], runs, upto, disk_id=disk)


class Alone:
    """Server 1 of three; the test plays the others."""

    def __init__(self, start: RecoveredState) -> None:
        self.settings = Settings(S1, (S1, S2, S3), start.disk_id, timing=TIMING)
        self.server = Server(self.settings, LIMITS, OPTIONS, start)
        self.now = Now(Millis(50_000), Millis(0))
        self.effects: list[Effect] = self.server.start(self.now)

    def step(self, *events: object) -> list[Effect]:
        self.effects = self.server.step(list(events), self.now)  # type: ignore[arg-type]
        return self.effects

    def hear(self, sender: ServerId, *messages: PeerMessage) -> list[Effect]:
        return self.step(PeerFrame(sender, list(messages)))

    def told(self) -> list[Notification]:
        messages = [getattr(effect, "message", None) for effect in self.effects]
        return [message for message in messages if isinstance(message, Notification)]


class TestRecoveredVotes:
    """The list of members is that of the recovered state, complete before the first election."""

    @pytest.mark.parametrize(
        ("changes", "disk", "has_vote"),
        [
            ([], FOUNDING_DISK, True),
            ([], NEW, False),
            ([ReplaceVoterTxn(S1, NEW)], NEW, True),
            ([ReplaceVoterTxn(S1, NEW)], FOUNDING_DISK, False),
            ([ReplaceVoterTxn(S3, NEW), ReplaceVoterTxn(S1, NEW)], NEW, True),
            ([ReplaceVoterTxn(S1, NEW), ReplaceVoterTxn(S1, DiskId("newer"))], NEW, False),
        ],
    )
    def test_a_server_counts_committed_votes(
        self, changes: list[TxnBody], disk: DiskId, has_vote: bool
    ) -> None:
        alone = Alone(recovered(len(changes), *changes, disk=disk))
        assert alone.server.stats().has_vote is has_vote
        granted = any(isinstance(effect, VoteGranted) for effect in alone.effects)
        assert granted is (has_vote and disk != FOUNDING_DISK)
        # The notification has a vote for itself, or none; there is no election before the start.
        (said,) = (alone.step(LinkUp(S2)), alone.told())[1]
        assert said.has_vote is has_vote
        assert said.own_vote.leader == said.vote.leader == (S1 if has_vote else 0)

    def test_a_server_counts_no_uncommitted_vote(self) -> None:
        alone = Alone(recovered(0, ReplaceVoterTxn(S1, NEW), disk=NEW))
        assert not alone.server.stats().has_vote
        alone = Alone(recovered(0, ReplaceVoterTxn(S1, NEW)))
        assert alone.server.stats().has_vote

    @pytest.mark.parametrize("disk", [FOUNDING_DISK, NEW])
    def test_a_server_counts_the_votes_of_its_snapshot(self, disk: DiskId) -> None:
        state = State()
        state.apply(zxid(1, 1), txn(ReplaceVoterTxn(S1, NEW)))
        state.apply(zxid(1, 2), txn(ReplaceVoterTxn(S3, NEW)))
        walk, chunks = SnapshotWalk(state), []
        while (chunk := walk.next_chunk()) is not None:
            chunks.append(chunk)
        last = zxid(1, 2)
        start = RecoveredState(Epoch(1), Epoch(1), last, last, chunks, [], last, disk_id=disk)
        alone = Alone(start)
        assert alone.server.stats().has_vote is (disk == NEW)
        assert alone.settings.members.has_vote(S3, NEW)
        # Sent at each start: the last process may have died before it was carried out.
        assert (VoteGranted() in alone.effects) is (disk == NEW)


class TestUndeliveredVotes:
    """A leader counts neither disk of a voter while its log has an undelivered move of the vote."""

    def elected(self, start: RecoveredState) -> Alone:
        alone = Alone(start)
        alone.step(LinkUp(S2))
        peer = alone.server.peer
        mine = Vote(peer.history.current, peer.history.synced, S1)
        own = Vote(Epoch(0), ZERO, S2)
        alone.hear(S2, Notification(1, mine, PeerState.LOOKING, True, own, FOUNDING_DISK))
        assert peer.role is Role.LEADER
        return alone

    def test_a_leader_counts_neither_disk_until_the_vote_is_delivered(self) -> None:
        changes: list[TxnBody] = [ErrorTxn(-1), ReplaceVoterTxn(S3, NEW), ReplaceVoterTxn(S2, NEW)]
        alone = self.elected(recovered(1, *changes))
        members = alone.settings.members
        assert members.has_vote(S1, FOUNDING_DISK)
        for server in (S2, S3):
            assert not members.has_vote(server, FOUNDING_DISK) and not members.has_vote(server, NEW)
        alone.step(LinkDown(S2))
        alone.server.peer.step_down("to see", alone.now.mono)
        alone.step()
        for server in (S2, S3):
            assert members.has_vote(server, FOUNDING_DISK)

    def test_a_leader_counts_the_new_disk_once_the_vote_is_delivered(self) -> None:
        alone = self.elected(recovered(2, ReplaceVoterTxn(S3, NEW), ReplaceVoterTxn(S2, NEW)))
        assert alone.settings.members.has_vote(S2, NEW)

    def test_a_leader_counts_its_own_vote_alike(self) -> None:
        alone = self.elected(recovered(0, ReplaceVoterTxn(S1, NEW)))
        assert not alone.server.stats().has_vote

    def test_a_leader_that_has_proposed_the_vote_does_not_count_the_old_disk(self) -> None:
        servers = PureServers(3)
        servers.hold(2, 3)
        (disk,) = renew(servers, 1)
        servers.pass_time(500)
        leader = servers[3].settings.members
        assert not leader.has_vote(S1, FOUNDING_DISK) and not leader.has_vote(S1, disk)
        assert servers[2].settings.members.has_vote(S1, FOUNDING_DISK)  # a follower counts no votes
        servers.release(2, 3)
        assert leader.has_vote(S1, disk)


class TestInstalledVotes:
    """The list of members comes with a received tree."""

    def test_a_snapshot_replaces_the_member_list(self) -> None:
        servers = PureServers(5, window=NO_DIFF)
        (disk,) = renew(servers, 2)
        part(servers)
        servers.pass_time(LONG_MS)
        assert not servers[1].settings.members.has_vote(S2, disk)
        write_much(servers[5])
        rejoin(servers)
        assert servers[1].settings.members.has_vote(S2, disk)

    def test_a_snapshot_may_restore_the_servers_own_vote(self) -> None:
        """The server never saw the transaction, only a tree that contains its effect."""
        servers = PureServers(3, window=NO_DIFF)
        renew(servers, 1)
        host = servers[1]
        servers.hold(3, 1)
        servers.pass_time(500)
        assert not host.server.stats().has_vote
        part(servers)
        servers.held.clear()
        write_much(servers[3])
        rejoin(servers)
        assert host.notes(trace_events.VOTE_REPLACED) == []
        assert host.server.stats().has_vote
        assert host.of(VoteGranted) == [VoteGranted()]

    def test_a_snapshot_may_replace_the_second_transaction_of_a_vote(self) -> None:
        """The server has its vote by the first transaction, and never sees the second one."""
        servers = PureServers(3, window=NO_DIFF)
        renew(servers, 1)
        host = servers[1]
        servers.hold(3, 1)
        servers.pass_time(500)
        while not host.server.stats().has_vote:
            host.step(PeerFrame(S3, decode_peer_frame(servers.wires[3, 1].popleft())))
        assert host.of(VoteGranted) == []
        part(servers)
        servers.held.clear()
        write_much(servers[3])
        rejoin(servers)
        assert host.of(VoteGranted) == [VoteGranted()]
        assert not host.disk.is_replaced


def part(servers: PureServers) -> None:
    """Separate server 1 from the others."""
    for other in sorted({*servers.hosts} - {1}):
        servers._unlink(1, other)
    servers.run()


def rejoin(servers: PureServers) -> None:
    servers[1].take()
    for other in sorted({*servers.hosts} - {1}):
        servers.link(1, other)
    assert servers[1].notes(server_trace_events.SNAPSHOT_INSTALLED), "this was to be no DIFF"


def write_much(host: PureServer) -> None:
    """Do more transactions than the leader's recent log holds."""
    caller = host.caller()
    for _ in range(6):
        caller.ask(caller.set("/", b"x"))
