"""ZooKeeper's elections that did not end, and its races between synchronization and broadcast.

Each issue, and each question that the authors of Zab.tla left, is a scenario in the world of
`zab_world`, or on one peer (`histories.Bench`) where that alone is deterministic.
"""

import pytest

from raykeeper.zab.effects import Append, Effect, ReadIndex, SaveEpochs, Send
from raykeeper.zab.ids import COUNTER_MAX, ZERO, Epoch, ServerId, Zxid, epoch_of
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
    Proposals,
    UpToDate,
    Vote,
)
from raykeeper.zab.settings import Timing
from tests.harness.zab_timeline import (
    committed,
    converge,
    crash,
    isolate,
    make_world,
    record,
    said,
    start,
    write,
)
from tests.harness.zab_world import ZabServer, ZabWorld
from tests.unit.zab.histories import S1, S2, S3, S4, S5, Bench, noted, run, sent, told, z

E2 = Epoch(2)

# Elections.


@pytest.mark.parametrize("flaps", [1, 3])
def test_zookeeper_1732_1818_settled_in_different_rounds(flaps: int) -> None:
    """Who comes late joins at once, whatever rounds the others remember.

    1. S3 leads S1 and S2.
    2. S1 leaves and joins again, so its round is another than that of S3 and S2.
    3. S2 restarts in round 1 and hears two settled servers that do not agree on the round.
       ZooKeeper's server asked for equal votes and looked for ever.
    """
    world = make_world()
    start(world)
    for _ in range(flaps):
        world.flap(S1, S3)
        world.run_until(world.now + 1_000)
    crash(world, S2)
    world.start(S2)
    world.run_until(world.now + 250)
    server = world.servers[S2]
    assert server.peer is not None and server.peer.is_active
    converge(world)


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


def test_zookeeper_3109_a_leader_that_nobody_follows() -> None:
    """It is back among the others after syncLimit, whatever it had waited for.

    1. S2 is down. S1, S3 and S5 start; S1 and S3 cannot reach each other. S5 has the votes of
       both and leads; neither of them has a quorum for it.
    2. S4 comes, with a newer history, and S1 and S3 reach each other: they change their mind.
    3. S5 leads nobody, and would wait for all of initLimit.
    """
    world = make_world(voters=5)
    start(world, S1, S3, S4)
    write(world, S4, 2)
    start(world, S5)
    for server_id in (S1, S3, S5):
        world.crash(server_id)
    world.propose(S4, 1)
    world.run_until(world.now + 20)
    crash(world, S4)
    world.cut(S1, S3)
    world.cut(S3, S1)
    for server_id in (S1, S3, S5):
        world.start(server_id)
    world.run_until(world.now + 300)
    five = world.servers[S5].peer
    assert five is not None and five.leader == S5 and world.leaders() == []
    world.heal()
    world.start(S4)
    world.run_until(world.now + 1_000)
    assert world.leaders() == [S4]
    world.run_until(world.now + 2_200)
    assert world.leaders() == [S4]
    assert five.is_active and five.leader == S4


def test_zookeeper_3109_two_that_nobody_follows() -> None:
    """Of two prospective leaders without a quorum the worse one makes way at once.

    1. As above, but S1 and S3 stay apart: S5 leads nobody, and S4 comes with a newer history.
    2. S1 and S3 reach both. As long as both claim to lead, each would wait out its patience, in
       turns, for as long as the partition lasts.
    """
    world = make_world(voters=5)
    start(world, S1, S3, S4)
    write(world, S4, 2)
    start(world, S5)
    for server_id in (S1, S3, S5):
        world.crash(server_id)
    world.propose(S4, 1)
    world.run_until(world.now + 20)
    crash(world, S4)
    world.cut(S1, S3)
    world.cut(S3, S1)
    for server_id in (S1, S3, S5):
        world.start(server_id)
    world.run_until(world.now + 300)
    assert world.leaders() == []
    world.start(S4)
    world.run_until(world.now + 3_000)
    assert world.leaders() == [S4]


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


def test_zookeeper_2959_learners_without_a_vote_do_not_count() -> None:
    """A voter with two observers leads nobody, and their acks commit nothing.

    1. S3 leads S1, S2 and the observers 4 and 5; S1 and S2 crash.
    2. S3 has three of five servers with it, but one vote of three.
    """
    world = make_world(learners=2)
    start(world)
    write(world, S3)
    kept = committed(world)
    world.crash(S1)
    world.crash(S2)
    world.propose(S3, 1)
    world.run_until(world.now + 20_000)
    assert world.leaders() == [] and committed(world) == kept
    crash(world, S3)
    start(world, S3)
    world.run_until(world.now + 20_000)
    assert world.leaders() == []
    converge(world)


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


def test_zookeeper_1675_a_deposed_leader_confirms_no_read() -> None:
    """A read point of a leader that was replaced without noticing is never given.

    1. S3 leads; every message from and to it is lost, and nobody tells it so.
    2. S1 and S2 elect S2, which commits.
    3. A client of S3 syncs, for as long as S3 believes that it leads.
    """
    world = make_world()
    start(world)
    write(world, S3)
    world.notice_ms = 60_000
    isolate(world, S3)
    for server_id in (S1, S2):
        world.flap(server_id, S3)
    seen = record(world)
    world.read(S3)
    world.run_until(world.now + 30_000)
    assert [e for server, e in seen if server == S3 and isinstance(e, ReadIndex)] == []


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


def busy_join() -> tuple[ZabWorld, list[tuple[ServerId, Effect]]]:
    """Server 1 joins while server 3 writes all the time; what everybody emitted."""
    world = make_world()
    world.latency_ms, world.disk_ms = 3, 5
    start(world)
    crash(world, S1)
    seen = record(world)
    world.start(S1)
    for _ in range(300):
        world.propose(S3, 1)
        world.run_until(world.now + 1)
    return world, seen


def test_zookeeper_4685_no_ack_before_that_of_newleader() -> None:
    """A follower acknowledges proposals only after NEWLEADER, which covers them.

    1. S1 joins while S3 writes, and is sent proposals in the middle of its synchronization.
    2. ZooKeeper's S1 acknowledged one before NEWLEADER; the leader took it for that of NEWLEADER,
       and ended the link.
    """
    world, seen = busy_join()
    acks = [type(m) for m in said(seen, S1, S3) if isinstance(m, Ack | AckNewLeader)]
    assert acks[0] is AckNewLeader and acks.count(AckNewLeader) == 1
    assert acks.count(Ack) > 10
    assert world.notes["leader.established"] == 1
    converge(world)


def test_zookeeper_4394_commits_come_after_uptodate() -> None:
    """What is proposed before NEWLEADER and committed after it is applied exactly once.

    1. DIFF, PROPOSAL a, COMMIT a, PROPOSAL b, NEWLEADER, COMMIT b, UPTODATE.
    2. ZooKeeper's follower looked for b among what was committed, and died.
    """
    world, seen = busy_join()
    told_s1 = said(seen, S3, S1)
    order = [type(m) for m in told_s1 if isinstance(m, UpToDate | Commit)]
    assert order[0] is UpToDate and order.count(UpToDate) == 1
    converge(world)
    assert world.servers[S1].applied == len(committed(world))


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


@pytest.mark.parametrize("disk_ms", [0, 30])
def test_zookeeper_3023_logged_before_the_ack_of_newleader(disk_ms: int) -> None:
    """When the ack leaves, the log is on disk up to NEWLEADER, and the epoch after it.

    1. S1 lacks 1:1 to 1:3 and joins by DIFF.
    2. At the moment its ack of NEWLEADER leaves: see what is on its disk.
    """
    world = make_world()
    world.disk_ms = disk_ms
    start(world)
    crash(world, S1)
    write(world, S3, 3)
    checked: list[Zxid] = []

    def ambush(server: ZabServer, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, AckNewLeader):
            assert server.disk.current == effect.message.epoch
            assert server.disk.last >= world.properties.last
            checked.append(server.disk.last)

    world.ambush = ambush
    start(world, S1)
    assert checked == [z(1, 3)]


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


def test_tla_proposals_go_to_all_that_are_being_synchronized() -> None:
    """The authors of Zab.tla found it open whether PROPOSE goes to them; it must.

    1. S1 joins while S3 writes.
    2. What is proposed between NEWLEADER and its ack reaches S1, in order.
    """
    world, seen = busy_join()
    told_s1 = said(seen, S3, S1)
    begin = next(n for n, m in enumerate(told_s1) if isinstance(m, NewLeader))
    end = next(n for n, m in enumerate(told_s1) if isinstance(m, UpToDate))
    assert [m for m in told_s1[begin:end] if isinstance(m, Proposals)]
    logged = [e for server, e in seen if server == S1 and isinstance(e, Append)]
    assert {epoch_of(append.first) for append in logged} == {1}
    converge(world)


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
