"""What ZooKeeper's Zab lost or brought back, replayed here: each issue a scenario.

The scenarios run in the world of `zab_world`, so the properties of Zab are checked at every step;
what is asserted here is the rest. `docs/PROTOCOL_BUGS.md` is the list of all families.
"""

from collections.abc import Callable

import pytest

from raykeeper.zab.effects import Effect, InstallSnapshot, SaveEpochs, Send, Truncate
from raykeeper.zab.ids import ServerId, Zxid, format_zxid
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    NewLeader,
    Notification,
    PeerState,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
    UpToDate,
)
from tests.harness.zab_timeline import (
    FAR,
    SMALL,
    committed,
    converge,
    crash,
    delay,
    isolate,
    log_of,
    make_world,
    record,
    said,
    start,
    watch,
    write,
)
from tests.harness.zab_world import ZabServer, ZabWorld
from tests.unit.zab.histories import S1, S2, S3, S4, S5


def kill(world: ZabWorld, *servers: ServerId) -> None:
    """Kill servers at this very moment."""
    for server_id in servers:
        world.crash(server_id)


def sends(message: type, *senders: ServerId) -> Callable[[ZabServer, Effect], bool]:
    """Whether an effect sends a message of a kind."""

    def matches(server: ZabServer, effect: Effect) -> bool:
        is_sender = not senders or server.id in senders
        return is_sender and isinstance(effect, Send) and isinstance(effect.message, message)

    return matches


# What a leader logged alone.


def test_zookeeper_2845_old_leaders_log_beyond_its_memory() -> None:
    """What a leader logged alone is gone when it returns, also after its restart.

    1. All commit 1:1 to 1:4 under S3.
    2. S3 is cut off and logs 1:5 alone; it steps down and stays up.
    3. S1 and S2 elect S2, which commits 2:1.
    4. S3 comes back; ZooKeeper takes its position from memory, without 1:5, and sends a DIFF.
    5. S3 restarts; there 1:5 rises from its log.
    """
    world = make_world()
    start(world)
    write(world, S3, 4)
    isolate(world, S3)
    world.propose(S3, 1)
    world.run_until(world.now + 1_000)
    assert log_of(world, S3)[-1] == "1:5"
    write(world, S2)
    world.heal()
    world.run_until(world.now + 2_000)
    assert log_of(world, S3) == ["1:1", "1:2", "1:3", "1:4", "2:1"]
    crash(world, S3)
    converge(world)
    assert committed(world) == ["1:1", "1:2", "1:3", "1:4", "2:1"]


def test_zookeeper_1154_the_same_after_everybody_restarted() -> None:
    """A zxid between two epochs of the leader's window is no position: a whole snapshot.

    1. All commit 1:1 to 1:3; S3 logs 1:4 alone; all crash.
    2. S1 and S2 elect S2, which commits in a later epoch.
    3. S3 returns at 1:4, between the oldest and the newest that S2 has in memory, and not in it.
    """
    world = make_world()
    start(world)
    write(world, S3, 3)
    isolate(world, S3)
    world.propose(S3, 1)
    world.run_until(world.now + 20)
    crash(world, S1, S2, S3)
    assert log_of(world, S3)[-1] == "1:4"
    world.heal()
    start(world, S1, S2)
    write(world, S2)
    before = world.notes.get("sync.snapshot", 0)
    converge(world)
    assert world.notes["sync.snapshot"] == before + 1
    assert committed(world) == ["1:1", "1:2", "1:3", "3:1"]
    assert "1:4" not in log_of(world, S3)


# What a learner acknowledges, and when.


@pytest.mark.parametrize("seed", range(8))
def test_zookeeper_3911_the_quorum_dies_at_uptodate(seed: int) -> None:
    """What clients could read after UPTODATE outlives the whole quorum that served it.

    1. All are at 1:3; S1 and S2 crash; S3 logs 1:4 and 1:5 alone and crashes too.
    2. S1 joins S3 by DIFF and its disk stalls; ZooKeeper acknowledges NEWLEADER all the same.
    3. S3 says UPTODATE, and clients read 1:5. At this moment S1 and S3 lose power.
    4. S1 and S2 start without S3.
    """
    world = make_world(seed=seed)
    start(world)
    write(world, S3, 3)
    kill(world, S1, S2)
    world.propose(S3, 2)
    world.run_until(world.now + 20)
    crash(world, S3)
    assert log_of(world, S3)[-1] == "1:5" and len(committed(world)) == 3

    def stall() -> None:
        world.servers[S1].slow_until = world.now + 500
        watch(world, sends(UpToDate), lambda: kill(world, S1, S3))

    watch(world, sends(AckEpoch, S1), stall)
    start(world, S1, S3)
    world.run_until(world.now + 2_000)
    assert world.ambush is None and len(committed(world)) == 5
    start(world, S1, S2)
    assert log_of(world, S2) == committed(world)
    converge(world)
    assert len(committed(world)) == 5


@pytest.mark.parametrize("seed", range(8))
def test_zookeeper_4646_killed_between_the_ack_and_the_force(seed: int) -> None:
    """The ack of NEWLEADER implies that the DIFF is forced: after it, power may be lost.

    1. S1 is down; the others commit 1:1 to 1:5.
    2. S1 joins by DIFF; its disk takes its time.
    3. The moment its ack of NEWLEADER leaves, S1 loses power with all that is under way on its
       disk (ZooKeeper: the log thread still has the DIFF).
    """
    world = make_world(seed=seed)
    start(world)
    crash(world, S1)
    write(world, S3, 5)
    world.disk_ms = 40
    watch(world, sends(AckNewLeader, S1), lambda: kill(world, S1))
    start(world, S1)
    world.run_until(world.now + 2_000)
    assert world.ambush is None
    assert log_of(world, S1) == committed(world)
    converge(world)


MOMENTS = {
    "the epoch is on its way to the disk": lambda server, effect: (
        server.id == S1 and isinstance(effect, SaveEpochs) and effect.current > 1
    ),
    "the epoch is on the disk": sends(AckNewLeader, S1),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("seed", range(24))
def test_zookeeper_4643_killed_between_epoch_and_log(seed: int, moment: str) -> None:
    """The log is on disk before the epoch, so the newer epoch has the newer log.

    1. All are at 1:3; S1 is down while S2 and S3 commit 1:4.
    2. S2 goes down, S1 comes up; S3 leads a new epoch and sends S1 1:4 by DIFF.
    3. S1 is killed right after it wrote the new current epoch; ZooKeeper: before 1:4.
    4. S1 and S2 start without S3: S1 wins by its epoch, and cuts 1:4 off S2.
    """
    world = make_world(seed=seed)
    start(world)
    write(world, S3, 3)
    crash(world, S1)
    write(world, S3)
    crash(world, S2, S3)
    world.disk_ms = 40
    watch(world, MOMENTS[moment], lambda: kill(world, S1))
    start(world, S1, S3)
    assert world.ambush is None
    crash(world, S3)
    start(world, S1, S2)
    write(world, world.leaders()[0])
    assert committed(world)[:4] == ["1:1", "1:2", "1:3", "1:4"]
    converge(world)


def test_zookeeper_4785_a_stalled_log_when_the_leader_dies() -> None:
    """As 4643, without a crash of the learner: its log stalls, and then it must vote.

    1. S1's disk stalls; S3 proposes 1:1 to 1:3, and commits them with S2.
    2. S3 dies. ZooKeeper: S1 takes the short log that is on its disk for all it has.
    3. S1 has no say before its log is forced, and then speaks of all of it.
    """
    world = make_world()
    start(world)
    world.servers[S1].slow_until = world.now + 900
    world.propose(S3, 3)
    world.run_until(world.now + 20)
    world.crash(S3)
    world.run_until(world.now + 500)
    assert log_of(world, S1) == [] and world.leaders() == []
    world.run_until(world.now + 1_000)
    assert world.leaders() == [S2] and len(log_of(world, S1)) == 3
    converge(world)


@pytest.mark.parametrize("seed", range(6))
def test_zookeeper_4712_4541_nothing_is_appended_after_the_role_has_ended(seed: int) -> None:
    """A vote is cast only when nothing is under way on the disk, and names the end of the log.

    1. S3 writes all the time; the disks of all are slow.
    2. S1 loses its link to S3, again and again, with transactions under way to its disk.
    3. ZooKeeper forgets its log thread, votes, is told TRUNC or DIFF, and then the thread appends.
    """
    world = make_world(seed=seed)
    start(world)
    world.disk_ms = 30
    votes: list[Zxid] = []

    def ambush(server: ZabServer, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, Notification):
            told = effect.message
            if told.state is PeerState.LOOKING and told.own_vote.leader == server.id:
                assert not server.disk.queue and told.own_vote.zxid == server.disk.last
                votes.append(told.own_vote.zxid)
        if isinstance(effect, Truncate | InstallSnapshot):
            assert not server.disk.queue

    world.ambush = ambush
    for n in range(60):
        for leader in world.leaders():
            world.propose(leader, 2)
        if n % 15 == 7:
            world.flap(S1, S3)
            world.flap(S2, S3)
        world.run_until(world.now + 5)
        if not world.leaders():
            world.run_until(world.now + 300)
    assert len(votes) > 4
    converge(world)


# Synchronization that breaks off, or starts from the wrong place.


def speak_of_the_disk(server: ZabServer, effect: Effect) -> None:
    """Whoever tells a leader its position tells the end of the log on its disk."""
    if isinstance(effect, Send) and isinstance(effect.message, AckEpoch):
        assert effect.message.last_zxid == server.disk.last, server.id


@pytest.mark.parametrize("missed", [Snapshot, SnapshotChunk, SnapshotEnd, NewLeader, UpToDate])
@pytest.mark.parametrize("disk_ms", [0, 40])
def test_zookeeper_3642_a_snapshot_that_was_received_but_not_kept(
    missed: type, disk_ms: int
) -> None:
    """What a learner says it has is what its disk has, whatever it holds in memory.

    1. S1 is so far behind that S3 sends its whole state.
    2. S3 dies before `missed` arrives: in ZooKeeper's case NEWLEADER, with the snapshot received.
    3. S2 leads; ZooKeeper's S1 says it has the snapshot, which is in its memory, and gets a DIFF.
    4. S1 restarts from its disk.
    """
    world = make_world(window=FAR)
    start(world)
    write(world, S3, 1)
    crash(world, S1)
    for _ in range(4):
        write(world, S3, 2)
    world.disk_ms = disk_ms
    struck: list[Effect] = []

    def ambush(server: ZabServer, effect: Effect) -> None:
        speak_of_the_disk(server, effect)
        if not struck and sends(missed, S3)(server, effect):
            struck.append(effect)
            delay(world, S3, S1, 100)
            world.after(50, lambda: kill(world, S3))

    world.ambush = ambush
    start(world, S1)
    assert len(struck) == 1
    world.run_until(world.now + 3_000)
    assert world.leaders() == [S2]
    write(world, S2, 2)
    crash(world, S1)
    start(world, S1)
    assert log_of(world, S1) == committed(world)
    converge(world)


@pytest.mark.parametrize("disk_ms", [0, 40])
@pytest.mark.parametrize("restarts", [False, True])
def test_zookeeper_5094_a_cut_that_is_not_followed_by_newleader(
    disk_ms: int, restarts: bool
) -> None:
    """No hole in the log, though synchronization broke off right after the cut.

    1. All are at 1:3; S3 logs 1:4 and 1:5 alone; S1 and S2 elect S2.
    2. S3 comes back and is told TRUNC 1:3; its link breaks before NEWLEADER arrives.
    3. S2 commits 2:1 and 2:2. ZooKeeper's S3 applied what came after TRUNC in memory alone, and
       says so in its next synchronization.
    4. S3 joins again and restarts.
    """
    world = make_world()
    start(world)
    write(world, S3, 3)
    isolate(world, S3)
    world.propose(S3, 2)
    world.run_until(world.now + 1_000)
    assert log_of(world, S3)[-1] == "1:5" and world.leaders() == [S2]
    world.disk_ms = disk_ms
    struck: list[Effect] = []

    def strike() -> None:
        if restarts:
            world.crash(S3)
        else:
            world.cut(S2, S3)

    def ambush(server: ZabServer, effect: Effect) -> None:
        speak_of_the_disk(server, effect)
        if not struck and sends(NewLeader, S2)(server, effect):
            struck.append(effect)
            delay(world, S2, S3, 100)
            world.after(50, strike)

    world.ambush = ambush
    world.heal()
    world.run_until(world.now + 1_000)
    assert len(struck) == 1
    write(world, world.leaders()[0], 2)
    world.heal()
    start(world)
    crash(world, S3)
    assert log_of(world, S3) == committed(world) == ["1:1", "1:2", "1:3", "2:1", "2:2"]
    converge(world)


@pytest.mark.parametrize("seed", range(4))
def test_zookeeper_4925_a_follower_that_was_behind_leads_then(seed: int) -> None:
    """What came by DIFF stands in the window of recent transactions too, without a hole.

    1. Of five servers S1 and S4 are down while S5 commits 1:4 to 1:6.
    2. S4 gets them by DIFF, and takes part in 1:7 and 1:8.
    3. S5 dies, S4 leads. ZooKeeper's S4 remembers 1:1 to 1:3, 1:7, 1:8.
    4. S1 returns at 1:3, and S4 synchronizes it by DIFF from what it has in memory.
    """
    world = make_world(voters=5, seed=seed)
    start(world)
    write(world, S5, 3)
    crash(world, S1, S4)
    write(world, S5, 3)
    start(world, S4)
    write(world, S5, 2)
    crash(world, S5)
    assert world.leaders() == [S4]
    seen = record(world)
    start(world, S1)
    sent = [m for m in said(seen, S4, S1) if isinstance(m, Proposals)]
    assert [(format_zxid(m.first), len(m.txns)) for m in sent] == [("1:4", 5)]
    converge(world)
    assert len(committed(world)) == 8


@pytest.mark.parametrize("log_start", [0, 9])
def test_zookeeper_4352_data_only_in_log_or_snapshot(log_start: int) -> None:
    """An empty server gets the whole state, not what the leader happens to have in memory.

    1. S1 to S3 commit 1:1 to 1:9 and restart: what they have is in their logs or snapshots.
    2. The new leader commits one more, the only one it has in memory.
    3. ZabServer 4, an observer with an empty disk, joins.
    """
    world = make_world(learners=1, window=SMALL)
    fresh = ServerId(4)
    start(world, S1, S2, S3)
    write(world, S3, 9)
    crash(world, S1, S2, S3)
    for server_id in (S1, S2, S3):
        disk = world.servers[server_id].disk
        disk.snapshot = disk.consistent = 9
        disk.log_start = log_start
    start(world, S1, S2, S3)
    write(world, S3)
    start(world, fresh)
    assert log_of(world, fresh) == committed(world)
    assert len(committed(world)) == 10
    converge(world)


def test_zookeeper_3526_what_is_in_memory_never_ends_before_it_begins() -> None:
    """The bounds of the window hold at each moment, so TRUNC is told only to who has more.

    1. Servers lead and follow, are cut off, synchronized by DIFF, TRUNC and whole snapshots, and
       serve for a while alone (ZooKeeper: in read-only mode).
    2. After each effect: oldest in memory <= delivered <= end of the log.
    3. ZooKeeper's bounds were crossed, and the new leader told TRUNC to a follower with more data.
    """
    world = make_world(window=SMALL)
    start(world)

    def ambush(server: ZabServer, effect: Effect) -> None:
        assert server.peer is not None
        history = server.peer.history
        assert history.recent_log.base <= history.recent_log.last
        if history.is_disk_idle:
            assert history.recent_log.base <= history.delivered <= history.recent_log.last
        if isinstance(effect, Truncate):
            assert effect.upto >= world.properties.last, "a committed transaction is cut"

    world.ambush = ambush
    write(world, S3, 3)
    for n in range(4):
        (victim,) = world.leaders()
        isolate(world, victim)
        world.propose(victim, 1)
        world.run_until(world.now + 3_000)
        if n % 2:
            write(world, world.leaders()[0], 4)
        world.heal()
        world.run_until(world.now + 2_000)
    assert world.notes["sync.trunc"] > 0 and world.notes["sync.snapshot"] > 0
    converge(world)


@pytest.mark.parametrize("seed", range(4))
def test_zookeeper_261_an_empty_disk_has_no_vote(seed: int) -> None:
    """A wiped server and one that is behind are no quorum: together they know too little.

    1. S1 is down while S2 and S3 commit 1:1 and 1:2.
    2. S2 loses its disk, S3 goes down.
    3. S1 and S2 start: ZooKeeper's S2 takes itself for a new server with a vote, and both elect
       one of them, without what was committed.
    """
    world = make_world(seed=seed)
    start(world)
    crash(world, S1)
    write(world, S3, 2)
    world.wipe(S2)
    crash(world, S3)
    start(world, S1, S2)
    world.run_until(world.now + 20_000)
    assert world.leaders() == []
    start(world, S3)
    assert world.leaders() == [S3]
    converge(world)
    assert committed(world)[:2] == ["1:1", "1:2"]
