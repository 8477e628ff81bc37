"""The rules of our design beyond the paper, Z1 to Z7, each shown by its own tests.

Z5 (clients stay connected while their server looks for a leader) is the server's, not Zab's.
"""

from random import Random

import pytest

from raykeeper.zab.effects import (
    Append,
    DiscardSnapshot,
    Effect,
    InstallSnapshot,
    ReadIndex,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Send,
)
from raykeeper.zab.ids import (
    COUNTER_BITS,
    COUNTER_MAX,
    EPOCH_BITS,
    EPOCH_MAX,
    FOUNDING_DISK,
    Epoch,
    ServerId,
)
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    PeerState,
    Ping,
    Pong,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
    UpToDate,
    Vote,
)
from raykeeper.zab.settings import Timing
from tests.harness.zab_world import ZabWorld
from tests.unit.zab.histories import S1, S2, S3, Bench, run, sent, told, without_notes, z

LOG = run(z(1, 1), b"a", b"b", b"c")
LAST = z(1, 3)
E1, E2 = Epoch(1), Epoch(2)


def server(server_id: ServerId) -> Bench:
    return Bench(server_id, LOG, accepted=1, current=1)


def follower() -> Bench:
    bench = server(S1)
    bench.follow(S3, 2)
    bench.take()
    return bench


def leader(*followers: ServerId) -> Bench:
    bench = server(S3)
    bench.lead(*followers)
    bench.take()
    return bench


class TestZ1EndOfAnElection:
    """Unanimity of the linked voters ends it at once; a quorum alone after 200 ms."""

    def test_three_linked_servers_elect_without_waiting(self) -> None:
        world = ZabWorld(Random(1), 3)
        world.latency_ms = world.disk_ms = world.dial_ms = 0
        for server_id in world.servers:
            world.start(server_id)
        world.run_until(world.now + 1)
        assert world.leaders() == [S3]

    def test_a_killed_leader_is_replaced_without_waiting(self) -> None:
        world = ZabWorld(Random(1), 3)
        world.latency_ms = world.disk_ms = world.dial_ms = world.notice_ms = 0
        for server_id in world.servers:
            world.start(server_id)
        world.run_until(world.now + 100)
        world.crash(S3)
        world.run_until(world.now + 1)
        assert world.leaders() == [S2]

    def test_a_linked_voter_that_is_mute_costs_finalize_ms(self) -> None:
        bench = server(S3)
        bench.link(S1, S2)
        bench.hear(S1, told(1, Vote(E1, LAST, S3), own=Vote(E1, LAST, S1)))
        assert bench.peer.leader is None
        bench.later(Timing().finalize_ms)
        assert bench.peer.leader == S3

    def test_a_broken_link_takes_its_notifications_with_it(self) -> None:
        bench = server(S3)
        bench.link(S1, S2)
        bench.hear(S1, told(1, Vote(E1, LAST, S3), own=Vote(E1, LAST, S1)))
        bench.peer.link_down(S1, bench.now)
        bench.later(Timing().finalize_ms)
        assert bench.peer.leader is None


class TestZ2OnlyWhatIsSyncedCounts:
    """Votes, ACKEPOCH and ACK(NEWLEADER) speak of the disk."""

    def test_a_role_is_left_only_with_a_drained_log(self) -> None:
        bench = follower()
        bench.hear(S3, Proposals(z(2, 1), [b"d"]))
        bench.link(S2)
        bench.peer.link_down(S3, bench.now)
        bench.take()
        bench.hear(S2, told(1, Vote(E1, LAST, S2)))
        assert sent(bench.take()) == []
        bench.peer.log_synced(z(2, 1), bench.now)
        (vote,) = {m.vote for m in sent(bench.take())}  # type: ignore[union-attr]
        assert vote == Vote(E2, z(2, 1), S1)

    def test_ackepoch_leaves_when_the_promise_is_on_disk(self) -> None:
        bench = server(S1)
        bench.elect(S3, S3)
        bench.take()
        bench.hear(S3, LeaderInfo(E2, 1))
        assert sent(bench.out) == []
        bench.save_epochs()
        assert sent(bench.take()) == [AckEpoch(E1, LAST, True)]

    def test_the_ack_of_newleader_covers_the_whole_log(self) -> None:
        bench = server(S1)
        bench.elect(S3, S3)
        bench.hear(S3, LeaderInfo(E2, 1))
        bench.save_epochs()
        bench.take()
        bench.hear(S3, Diff(), Proposals(z(1, 4), [b"d", b"e"]), NewLeader(E2, z(1, 5)))
        bench.peer.log_synced(z(1, 4), bench.now)
        assert SaveEpochs(E2, E2) not in bench.out
        bench.peer.log_synced(z(1, 5), bench.now)
        assert sent(bench.out) == []
        bench.save_epochs()
        assert sent(bench.take()) == [AckNewLeader(E2)]


class TestZ3CumulativeAcksAndCommits:
    """Within one epoch and link, contiguous, after the ack of NEWLEADER."""

    def test_one_ack_covers_all_that_is_synced(self) -> None:
        bench = follower()
        bench.hear(S3, Proposals(z(2, 1), [b"d"]), Proposals(z(2, 2), [b"e", b"f"]))
        bench.take()
        bench.peer.log_synced(z(2, 3), bench.now)
        assert sent(bench.take()) == [Ack(z(2, 3))]

    def test_an_ack_before_that_of_newleader_breaks_the_link(self) -> None:
        bench = leader(S1)
        bench.link(S2)
        bench.hear(S2, FollowerInfo(E1, 1, FOUNDING_DISK), AckEpoch(E1, LAST, False), Ack(LAST))
        assert S2 not in bench.peer.links

    def test_an_ack_beyond_what_was_sent_breaks_the_link(self) -> None:
        bench = leader(S1)
        bench.hear(S1, Ack(z(2, 1)))
        assert S1 not in bench.peer.links

    def test_acks_of_an_earlier_link_are_not_counted(self) -> None:
        bench = leader(S1, S2)
        bench.peer.propose([b"d"], bench.now)
        bench.hear(S1, Ack(z(2, 1)))
        bench.link(S1)  # anew
        bench.peer.log_synced(z(2, 1), bench.now)
        assert bench.history.delivered == LAST

    def test_a_leader_counts_itself_by_its_own_disk(self) -> None:
        bench = leader(S1, S2)
        bench.peer.propose([b"d"], bench.now)
        bench.hear(S1, Ack(z(2, 1)))
        assert bench.history.delivered == LAST
        bench.peer.log_synced(z(2, 1), bench.now)
        assert bench.history.delivered == z(2, 1)

    def test_a_commit_is_clipped_to_what_the_learner_was_sent(self) -> None:
        bench = leader(S1)
        bench.link(S2)
        bench.hear(S2, FollowerInfo(E1, 1, FOUNDING_DISK), AckEpoch(E1, LAST, False))
        bench.peer.propose([b"d"], bench.now)
        bench.peer.log_synced(z(2, 1), bench.now)
        bench.hear(S1, Ack(z(2, 1)))
        bench.take()
        bench.hear(S2, AckNewLeader(E2))
        assert sent(bench.take(), S2) == [UpToDate(z(2, 1))]

    def test_a_commit_of_what_was_not_sent_breaks_the_link(self) -> None:
        bench = follower()
        bench.hear(S3, Commit(z(2, 1)))
        assert S3 not in bench.peer.links


class TestZ4LinearizableReads:
    """The commit point at arrival, confirmed by a quorum that was asked after it."""

    def test_a_deposed_leader_answers_no_read(self) -> None:
        world = ZabWorld(Random(1), 3)
        world.latency_ms = world.disk_ms = world.dial_ms = 0
        world.notice_ms = 10_000
        for server_id in world.servers:
            world.start(server_id)
        world.run_until(world.now + 10)
        world.propose(S3, 1)
        for other in (S1, S2):
            world.cut(S3, other)
            world.cut(other, S3)
        asked = world.servers[S3].reads
        world.read(S3)
        world.run_until(world.now + 30_000)
        assert asked == {}  # dropped with the role
        assert world.notes.get("leader.established") == 2

    def test_the_followers_are_asked_after_the_request(self) -> None:
        bench = leader(S1)
        bench.later(Timing().ping_ms)
        bench.take()
        leading = bench.peer.broadcasting
        assert leading is not None
        leading.read_index(5)
        assert sent(bench.take()) == [Ping(2)]
        bench.hear(S1, Pong(1))
        assert bench.take() == []
        bench.hear(S1, Pong(2))
        assert bench.take() == [ReadIndex(5, LAST)]

    def test_a_follower_that_left_does_not_count(self) -> None:
        bench = leader(S1)
        leading = bench.peer.broadcasting
        assert leading is not None
        leading.read_index(5)
        bench.hear(S1, told(2, Vote(E2, LAST, S1)), Pong(1))
        assert ReadIndex(5, LAST) not in bench.take()

    def test_not_before_newleader_has_its_quorum(self) -> None:
        bench = server(S3)
        bench.elect(S3, S1)
        assert bench.peer.leader == S3 and bench.peer.broadcasting is None


class TestZ6Zxid:
    """Sign 0, epoch 21 bits, counter 42 bits; a full counter ends the epoch."""

    def test_widths(self) -> None:
        assert (EPOCH_BITS, COUNTER_BITS) == (21, 42)
        assert z(EPOCH_MAX, COUNTER_MAX) == 2**63 - 1

    def test_exhaustion_starts_a_new_epoch(self) -> None:
        full = run(z(1, COUNTER_MAX), b"x")
        bench = Bench(S3, full, accepted=1, current=1, base=z(1, COUNTER_MAX - 1))
        bench.lead(S1)
        bench.peer.propose([b"y"], bench.now)
        assert Append(z(2, 1), [b"y"], z(1, COUNTER_MAX)) in bench.take()

    def test_a_leader_without_room_abdicates_and_leads_a_later_epoch(self) -> None:
        world = ZabWorld(Random(1), 3)
        for server_id in world.servers:
            world.start(server_id)
        world.run_until(world.now + 2_000)
        (first,) = world.leaders()
        world.event(
            world.servers[first], lambda peer, now: peer.step_down("the counter is exhausted", now)
        )
        world.run_until(world.now + 1_000)
        (second,) = world.leaders()
        peer = world.servers[second].peer
        assert peer is not None and peer.epoch == 2


class TestZ7AReceivedSnapshot:
    """Temporary until NEWLEADER, then snapshot and log at once, then the epoch, then the ack."""

    def receiving(self) -> Bench:
        bench = server(S1)
        bench.elect(S3, S3)
        bench.hear(S3, LeaderInfo(E2, 1))
        bench.save_epochs()
        bench.take()
        bench.hear(S3, Snapshot(z(1, 9)), SnapshotChunk(b"tree"))
        return bench

    def test_the_order_on_disk(self) -> None:
        bench = self.receiving()
        bench.hear(S3, SnapshotEnd(z(1, 9)), NewLeader(E2, z(1, 9)))
        bench.peer.snapshot_installed(z(1, 9), bench.now)
        bench.save_epochs()
        on_disk = (ReceiveSnapshot, ReceiveChunk, InstallSnapshot, SaveEpochs, AckNewLeader)
        order = [
            type(effect.message) if isinstance(effect, Send) else type(effect)
            for effect in bench.take()
        ]
        assert [kind for kind in order if kind in on_disk] == list(on_disk)

    @pytest.mark.parametrize("steps", [(), (SnapshotEnd(z(1, 9)),)])
    def test_a_break_before_newleader_discards_all_of_it(self, steps: tuple[SnapshotEnd]) -> None:
        bench = self.receiving()
        bench.hear(S3, *steps)
        bench.take()
        bench.peer.link_down(S3, bench.now)
        found: list[Effect] = without_notes(bench.take())
        assert found[0] == DiscardSnapshot()
        bench.link(S2)
        (vote,) = {m.vote for m in sent(bench.take())}  # type: ignore[union-attr]
        assert vote == Vote(E1, LAST, S1)

    def test_a_break_after_it_waits_for_the_disk(self) -> None:
        bench = self.receiving()
        bench.hear(S3, SnapshotEnd(z(1, 9)), NewLeader(E2, z(1, 9)))
        bench.peer.link_down(S3, bench.now)
        bench.link(S2)
        bench.take()
        bench.peer.snapshot_installed(z(1, 9), bench.now)
        (vote,) = {m.vote for m in sent(bench.take())}  # type: ignore[union-attr]
        assert vote == Vote(E1, z(1, 9), S1)  # the log before the epoch

    def test_a_leader_that_looks_ends_it_too(self) -> None:
        bench = self.receiving()
        bench.take()
        bench.hear(S3, told(2, Vote(E1, LAST, S3), PeerState.LOOKING))
        assert DiscardSnapshot() in bench.take()
