"""ZooKeeper's elections that did not end, and its races between synchronization and broadcast.

Each issue, and each question that the authors of Zab.tla left, that is about one peer
(`histories.Bench`). Those that take several servers are texts in `scenarios`.
"""

import pytest

from raykeeper.zab.effects import Append, Effect, InstallSnapshot, SaveEpochs, Send, Truncate
from raykeeper.zab.ids import COUNTER_MAX, ZERO, Epoch, Zxid
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Notification,
    PeerState,
    Proposals,
    UpToDate,
    Vote,
)
from raykeeper.zab.settings import Timing
from tests.harness.zab_scenario import ZabScenario
from tests.harness.zab_world import ZabServer
from tests.unit.zab.histories import S1, S2, S3, Bench, noted, run, sent, told, z

E2 = Epoch(2)

# Elections.


def test_zookeeper_1732_1818_votes_that_name_different_epochs() -> None:
    """A leader is followed for its claim and its supporters, not for equal votes.

    1. S3 says that it leads, in round 7, with the vote of its election in epoch 1.
    2. S2 says that it follows S3, in round 4, with a vote of another epoch and zxid.
    3. S1 starts, in round 1.
    """
    bench = Bench(S1, run(z(1, 1), b"a"), accepted=1, current=1)
    bench.link(S2, S3)
    bench.hear(S2, told(4, Vote(Epoch(0), ZERO, S3), PeerState.FOLLOWING))
    bench.hear(S3, told(7, Vote(Epoch(1), z(1, 1), S3), PeerState.LEADING))
    assert bench.peer.leader == S3


def test_zookeeper_3109_patience_without_followers_is_short() -> None:
    """The same on the leader alone: nobody greets it, and it gives up after syncLimit.

    1. S3 is elected by S1, whose link then breaks.
    2. Nobody sends FOLLOWERINFO.
    """
    timing = Timing()
    bench = Bench(S3, run(z(1, 1), b"a"), accepted=1, current=1)
    bench.elect(S3, S1)
    bench.peer.link_down(S1, bench.now)
    assert bench.peer.leader == S3
    bench.later(timing.sync_ms - 1)
    assert bench.peer.leader == S3
    bench.later(1)
    assert bench.peer.leader is None and timing.sync_ms < timing.init_ms


def test_zookeeper_1277_the_counter_is_exhausted() -> None:
    """The last zxid of an epoch is used, then a new epoch begins at 1.

    1. A leader of epoch 2 takes up a log that ends at the last zxid of epoch 1.
    2. Its first zxid is 2:1, never 1:max + 1. ZooKeeper's counter ran into the epoch.
    3. At the last zxid of epoch 2 there is room for nothing.
    """
    full = run(z(1, COUNTER_MAX), b"x")
    bench = Bench(S3, full, accepted=1, current=1, base=z(1, COUNTER_MAX - 1))
    bench.lead(S1)
    leading = bench.peer.broadcasting
    assert leading is not None
    assert (leading.next_zxid(), leading.counter_left) == (z(2, 1), COUNTER_MAX)
    leading.propose([b"y"], bench.now)
    bench.history.recent_log.last = z(2, COUNTER_MAX - 1)
    assert (leading.next_zxid(), leading.counter_left) == (z(2, COUNTER_MAX), 1)
    bench.history.recent_log.last = z(2, COUNTER_MAX)
    assert leading.counter_left == 0
    with pytest.raises(AssertionError):
        leading.propose([b"z"], bench.now)


def test_zookeeper_2307_the_file_is_written_before_the_memory() -> None:
    """An epoch counts, and is told, only when it is on the disk.

    1. S3 proposes epoch 2 to S1.
    2. S1's disk has not written it yet: in memory it is still 1, and nothing was answered.
       ZooKeeper raised it in memory first; the write failed, and the next attempt refused.
    """
    bench = Bench(S1, run(z(1, 1), b"a"), accepted=1, current=1)
    bench.elect(S3, S3)
    bench.take()
    bench.hear(S3, LeaderInfo(E2, 1))
    assert bench.history.accepted == 1 and sent(bench.out) == []
    assert [(e.accepted, e.current) for e in bench.out if isinstance(e, SaveEpochs)] == [(2, 1)]
    bench.save_epochs()
    assert bench.history.accepted == 2 and len(sent(bench.out)) == 1


# Synchronization and broadcast at the same time.


def test_zookeeper_4394_proposed_before_newleader_committed_after_it() -> None:
    """The very order of the issue, on one follower.

    1. DIFF, PROPOSAL a, PROPOSAL b, NEWLEADER b; a is committed, b is not.
    2. UPTODATE a, then COMMIT b.
    """
    bench = Bench(S1, accepted=1, current=1)
    bench.elect(S3, S3)
    bench.hear(S3, LeaderInfo(E2, 1))
    bench.save_epochs()
    bench.hear(S3, Diff(), Proposals(z(2, 1), [b"a"]), Proposals(z(2, 2), [b"b"]))
    bench.hear(S3, NewLeader(bench.history.accepted, z(2, 2)))
    bench.peer.log_synced(z(2, 2), bench.now)
    bench.save_epochs()
    bench.hear(S3, UpToDate(z(2, 1)))
    assert bench.history.delivered == z(2, 1)
    bench.hear(S3, Commit(z(2, 2)))
    assert bench.history.delivered == z(2, 2)
    assert len([e for e in bench.take() if isinstance(e, Append)]) == 2


def test_zookeeper_4823_log_then_epoch_then_ack() -> None:
    """Zab's one atomic step of a follower, as ZooKeeper came to order its parts.

    1. NEWLEADER arrives behind two proposals: they are on their way to the disk.
    2. Only when they are there the epoch follows, and only when that is there the ack.
    """
    bench = Bench(S1, accepted=1, current=1)
    bench.elect(S3, S3)
    bench.hear(S3, LeaderInfo(E2, 1))
    bench.save_epochs()
    bench.take()
    bench.hear(S3, Diff(), Proposals(z(1, 1), [b"a", b"b"]))
    bench.hear(S3, NewLeader(bench.history.accepted, z(1, 2)))
    assert [type(e) for e in bench.take()] == [Append]
    bench.peer.log_synced(z(1, 2), bench.now)
    assert [type(e) for e in bench.out] == [SaveEpochs]
    bench.save_epochs()
    assert sent(bench.take()) == [AckNewLeader(bench.history.accepted)]


@pytest.mark.parametrize("upto", [1, 2, 3])
def test_tla_a_proposal_that_comes_twice_is_ignored(upto: int) -> None:
    """PROPOSE may come as part of the DIFF and again as outstanding.

    1. S1 is sent 1:1 to 1:3 by DIFF.
    2. Some of them come again, alone or with a new one behind them.
    """
    bench = Bench(S1, accepted=1, current=1)
    bench.elect(S3, S3)
    bench.hear(S3, LeaderInfo(E2, 1))
    bench.save_epochs()
    bench.hear(S3, Diff(), Proposals(z(1, 1), [b"a", b"b", b"c"]))
    bench.hear(S3, Proposals(z(1, 1), [b"a", b"b", b"c"][:upto]))
    bench.hear(S3, Proposals(z(1, upto), [b"a", b"b", b"c", b"d"][upto - 1 :]))
    appended = [(e.first, e.txns) for e in bench.out if isinstance(e, Append)]
    assert appended == [(z(1, 1), [b"a", b"b", b"c"]), (z(1, 4), [b"d"])]
    assert "proposal.duplicate" in noted(bench.out)


def test_tla_uptodate_carries_the_present_commit_point() -> None:
    """COMMIT-LD speaks of what is committed when it leaves, not when NEWLEADER left.

    1. S3 leads with S1; S2 is sent NEWLEADER and takes its time.
    2. 2:1 is proposed, to S2 as well, and committed by S1.
    3. S2 acknowledges NEWLEADER.
    """
    bench = Bench(S3, run(z(1, 1), b"a"), accepted=1, current=1)
    bench.lead(S1)
    bench.link(S2)
    learner = Bench(S2, run(z(1, 1), b"a"), accepted=1, current=1)
    learner.elect(S3, S3)
    bench.hear(S2, *[m for m in sent(learner.take(), S3) if isinstance(m, FollowerInfo)])
    learner.hear(S3, *[m for m in sent(bench.take(), S2) if isinstance(m, LeaderInfo)])
    learner.save_epochs()
    bench.hear(S2, *[m for m in sent(learner.take(), S3) if isinstance(m, AckEpoch)])
    assert [m for m in sent(bench.take(), S2) if isinstance(m, NewLeader)]
    bench.peer.propose([b"b"], bench.now)
    bench.peer.log_synced(z(2, 1), bench.now)
    bench.hear(S1, Ack(z(2, 1)))
    bench.take()
    bench.hear(S2, AckNewLeader(bench.history.current))
    assert sent(bench.take(), S2) == [UpToDate(z(2, 1))]


@pytest.mark.parametrize("seed", range(6))
def test_zookeeper_4712_4541_nothing_is_appended_after_the_role_has_ended(seed: int) -> None:
    """A vote is cast only when nothing is under way on the disk, and names the end of the log.

    1. S3 writes all the time; the disks of all are slow.
    2. S1 loses its link to S3, again and again, with transactions under way to its disk.
    3. ZooKeeper forgets its log thread, votes, is told TRUNC or DIFF, and then the thread appends.
    """
    scenario = ZabScenario()
    scenario.world(seed=seed)
    scenario.start()
    scenario.delays(disk=30)
    world = scenario.zab
    votes: list[Zxid] = []

    def ambush(server: ZabServer, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, Notification):
            state, own = effect.message.state, effect.message.own_vote
            if state is PeerState.LOOKING and own.leader == server.id:
                assert not server.disk.queue and own.zxid == server.disk.last
                votes.append(own.zxid)
        if isinstance(effect, Truncate | InstallSnapshot):
            assert not server.disk.queue

    world.ambush = ambush
    for n in range(60):
        for leader in world.leaders():
            world.propose(leader, 2)
        if n % 15 == 7:
            scenario.flap(S1, S3)
            scenario.flap(S2, S3)
        scenario.run(5)
        if not world.leaders():
            scenario.run(300)
    assert len(votes) > 4
    scenario.converge()
