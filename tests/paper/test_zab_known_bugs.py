"""What went wrong in ZooKeeper's Zab, replayed here: each issue is a scenario that must hold.

The scenarios run in the world of `zab_world`, so the properties of Zab are checked at every step;
what is asserted here is the rest. With equal histories server 3 is elected.
"""

from collections.abc import Callable
from random import Random

import pytest

from raykeeper.zab.effects import Append, Effect, SaveEpochs, Send
from raykeeper.zab.ids import COUNTER_MAX, ServerId, Zxid, epoch_of, show_zxid
from raykeeper.zab.messages import Ack, AckNewLeader, Commit, UpToDate
from raykeeper.zab.settings import WindowLimits
from tests.paper.zab_world import Server, World
from tests.unit.zab.histories import S1, S2, S3, Bench, run, z

SMALL = WindowLimits(txns_max=1)


def make_world(
    voters: int = 3, learners: int = 0, seed: int = 1, window: WindowLimits | None = None
) -> World:
    world = World(Random(seed), voters, learners, window)
    world.latency_ms = world.dial_ms = world.disk_ms = 0
    world.notice_ms = 5
    return world


def start(world: World, *servers: ServerId) -> None:
    for server_id in servers or world.servers:
        if world.servers[server_id].peer is None:
            world.start(server_id)
    world.run_until(world.now + 1_000)


def write(world: World, leader: ServerId, count: int = 1) -> None:
    assert world.propose(leader, count)
    world.run_until(world.now + 50)


def crash(world: World, *servers: ServerId) -> None:
    for server_id in servers:
        world.crash(server_id)
    world.run_until(world.now + 1_000)


def isolate(world: World, server_id: ServerId) -> None:
    for other in world.servers:
        if other != server_id:
            world.cut(server_id, other)
            world.cut(other, server_id)


def log_of(world: World, server_id: ServerId) -> list[str]:
    return [show_zxid(zxid) for zxid, _ in world.servers[server_id].disk.entries]


def committed(world: World) -> list[str]:
    return [show_zxid(zxid) for zxid, _ in world.properties.committed]


def converge(world: World) -> None:
    """Everybody is back, and has everything that was committed."""
    world.ambush = None
    world.heal()
    start(world)
    world.run_until(world.now + 3_000)
    for server_id in world.servers:
        assert log_of(world, server_id) == committed(world)


def watch(world: World, what: Callable[[Server, Effect], bool], then: Callable[[], None]) -> None:
    """Once `what` is about to be carried out, do `then` right after it."""

    def ambush(server: Server, effect: Effect) -> None:
        if what(server, effect):
            world.ambush = None
            world.after(0, then)

    world.ambush = ambush


class TestLostOrResurrected:
    """Transactions that vanish although acknowledged, or return although forgotten."""

    def test_zookeeper_2845_old_leaders_log_beyond_its_memory(self) -> None:
        """What a leader logged alone is gone when it returns, also after its restart."""
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
        assert "1:5" not in log_of(world, S3)
        crash(world, S3)
        converge(world)
        assert committed(world) == ["1:1", "1:2", "1:3", "1:4", "2:1"]

    def test_zookeeper_1154_the_same_after_everybody_restarted(self) -> None:
        """A zxid between two epochs of the leader's window is no position: a whole snapshot."""
        world = make_world()
        start(world)
        write(world, S3, 3)
        isolate(world, S3)
        world.propose(S3, 1)
        world.run_until(world.now + 20)
        crash(world, S1, S2, S3)
        world.heal()
        start(world, S1, S2)
        write(world, S2)
        before = world.notes.get("sync.snapshot", 0)
        converge(world)
        assert world.notes["sync.snapshot"] == before + 1
        assert committed(world) == ["1:1", "1:2", "1:3", "3:1"]

    @pytest.mark.parametrize("seed", range(8))
    def test_zookeeper_3911_4646_the_quorum_dies_at_uptodate(self, seed: int) -> None:
        """The ack of NEWLEADER means: the DIFF is forced. A read of it then outlives everybody."""
        world = make_world(seed=seed)
        start(world)
        crash(world, S1)
        write(world, S3, 5)
        crash(world, S2)
        world.disk_ms = 40
        watch(
            world,
            lambda server, effect: (
                isinstance(effect, Send) and isinstance(effect.message, UpToDate)
            ),
            lambda: [world.crash(S1), world.crash(S3)],  # type: ignore[func-returns-value]
        )
        start(world, S1)
        world.run_until(world.now + 2_000)
        assert world.ambush is None and len(committed(world)) == 5
        start(world, S1, S2)
        assert len(log_of(world, S1)) == 5
        converge(world)

    @pytest.mark.parametrize("seed", range(8))
    def test_zookeeper_4643_killed_between_epoch_and_log(self, seed: int) -> None:
        """The log is on disk before the epoch, so the newer epoch has the newer log."""
        world = make_world(seed=seed)
        start(world)
        write(world, S3, 3)
        crash(world, S1)
        write(world, S3)
        crash(world, S2, S3)
        world.disk_ms = 40
        watch(
            world,
            lambda server, effect: (
                server.id == S1 and isinstance(effect, SaveEpochs) and effect.current > 1
            ),
            lambda: world.crash(S1),
        )
        start(world, S1, S3)
        assert world.ambush is None
        crash(world, S3)
        start(world, S1, S2)
        write(world, world.leaders()[0])
        assert committed(world)[:4] == ["1:1", "1:2", "1:3", "1:4"]
        converge(world)

    def test_zookeeper_4785_4712_a_stalled_log_when_the_leader_dies(self) -> None:
        """A vote speaks of what is on disk, and waits for it; nothing is appended after it."""
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
    def test_zookeeper_4925_a_follower_behind_leads_then(self, seed: int) -> None:
        """What came by DIFF stands in the window of recent transactions too, without a hole."""
        world = make_world(seed=seed)
        start(world)
        write(world, S3, 3)
        crash(world, S1)
        write(world, S3, 3)
        start(world, S1)  # by DIFF
        write(world, S3, 2)
        crash(world, S2)
        write(world, S3, 2)
        start(world, S2)
        crash(world, S3, S2)
        start(world, S2)
        converge(world)
        assert len(committed(world)) == 10

    def test_zookeeper_4352_data_only_in_a_snapshot(self) -> None:
        """An empty server gets the whole state, not what the leader happens to have in memory."""
        world = make_world(learners=1, window=SMALL)
        crashed = ServerId(4)
        start(world, S1, S2, S3)
        write(world, S3, 9)
        for server_id in (S1, S2, S3):
            disk = world.servers[server_id].disk
            disk.snapshot = disk.log_start = disk.consistent = 9
        start(world, crashed)
        assert len(log_of(world, crashed)) == 9
        assert world.notes["sync.snapshot"] == 1

    def test_zookeeper_261_an_empty_disk_has_no_vote(self) -> None:
        """A wiped server and one that is behind are no quorum: together they know too little."""
        world = make_world()
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

    def test_zookeeper_3642_5094_a_synchronization_that_breaks_off(self) -> None:
        """What was cut or received before NEWLEADER leaves no hole: the next starts from disk."""
        for moment in ("Trunc", "Snapshot", "Proposals", "SnapshotEnd", "NewLeader"):
            for logged_alone in (1, 2):
                world = make_world(window=SMALL)
                start(world)
                write(world, S3, 3)
                isolate(world, S1)
                write(world, S3, 2)
                isolate(world, S3)
                world.propose(S3, logged_alone)
                world.run_until(world.now + 2_000)
                watch(
                    world,
                    lambda server, effect, moment=moment: (
                        isinstance(effect, Send) and type(effect.message).__name__ == moment
                    ),
                    lambda world=world: [world.flap(S2, S3), world.flap(S1, S2)],
                )
                converge(world)


class TestElections:
    """Elections that do not end, or take too long."""

    def test_zookeeper_1732_1818_settled_in_different_rounds(self) -> None:
        """Who comes late joins at once, whatever rounds the others remember."""
        world = make_world()
        start(world)
        for _ in range(3):
            world.flap(S1, S3)
            world.run_until(world.now + 1_000)
        crash(world, S2)
        world.start(S2)
        world.run_until(world.now + 250)
        server = world.servers[S2]
        assert server.peer is not None and server.peer.is_active

    def test_zookeeper_3109_a_leader_that_nobody_follows(self) -> None:
        """Its claim keeps the others from electing somebody only for syncLimit."""
        world = make_world(voters=5)
        four, five = ServerId(4), ServerId(5)
        start(world, S3, four, five)
        assert world.leaders() == [five]
        crash(world, S3, four, five)
        for server_id in (S3, four, five):
            world.start(server_id)
        world.run_until(world.now + 90)
        for _ in range(2):  # both change their mind at the same time
            world.flap(S3, five)
            world.flap(four, five)
        world.run_until(world.now + 3_500)
        assert len(world.leaders()) == 1

    def test_zookeeper_2959_learners_without_a_vote_do_not_count(self) -> None:
        """A voter with two observers leads nobody."""
        world = make_world(learners=2)
        start(world)
        write(world, S3)
        crash(world, S1, S2)
        world.run_until(world.now + 20_000)
        assert world.leaders() == []
        converge(world)

    def test_zookeeper_1277_the_counter_is_exhausted(self) -> None:
        """The last zxid of an epoch is used, then a new epoch begins at 1."""
        bench = Bench(
            S3, run(z(1, COUNTER_MAX), b"x"), accepted=1, current=1, base=z(1, COUNTER_MAX - 1)
        )
        bench.lead(S1)
        leading = bench.peer.broadcasting
        assert leading is not None
        assert (leading.next_zxid(), leading.room) == (z(2, 1), COUNTER_MAX)
        leading.propose([b"y"], bench.now)
        bench.history.window.last = z(2, COUNTER_MAX - 1)
        assert (leading.next_zxid(), leading.room) == (z(2, COUNTER_MAX), 1)
        bench.history.window.last = z(2, COUNTER_MAX)
        assert leading.room == 0
        with pytest.raises(AssertionError):
            leading.propose([b"z"], bench.now)


class TestOrderOfPackets:
    """Races between synchronization and broadcast."""

    def busy_join(self) -> tuple[World, list[tuple[ServerId, Effect]]]:
        """Server 1 joins while server 3 writes all the time; what everybody emitted."""
        world = make_world()
        world.latency_ms, world.disk_ms = 3, 5
        start(world)
        crash(world, S1)
        seen: list[tuple[ServerId, Effect]] = []
        world.ambush = lambda server, effect: seen.append((server.id, effect))
        world.start(S1)
        for _ in range(300):
            world.propose(S3, 1)
            world.run_until(world.now + 1)
        return world, seen

    def test_zookeeper_4685_no_ack_before_that_of_newleader(self) -> None:
        """A follower acknowledges proposals only after NEWLEADER, which covers them."""
        world, seen = self.busy_join()
        said = [e.message for s, e in seen if s == S1 and isinstance(e, Send) and e.peer == S3]
        acks = [type(m) for m in said if isinstance(m, Ack | AckNewLeader)]
        assert acks[0] is AckNewLeader and acks.count(AckNewLeader) == 1
        assert acks.count(Ack) > 10
        converge(world)

    def test_zookeeper_4394_commits_come_after_uptodate(self) -> None:
        """What is proposed before NEWLEADER and committed after it is applied exactly once."""
        world, seen = self.busy_join()
        told = [e.message for s, e in seen if s == S3 and isinstance(e, Send) and e.peer == S1]
        order = [type(m) for m in told if isinstance(m, UpToDate | Commit)]
        assert order[0] is UpToDate and order.count(UpToDate) == 1
        converge(world)
        assert world.servers[S1].applied == len(committed(world))

    def test_zookeeper_3023_logged_before_the_ack_of_newleader(self) -> None:
        """When the ack leaves, the log is on disk up to NEWLEADER, and the epoch after it."""
        world = make_world()
        world.disk_ms = 30
        start(world)
        crash(world, S1)
        write(world, S3, 3)
        checked: list[Zxid] = []

        def ambush(server: Server, effect: Effect) -> None:
            if isinstance(effect, Send) and isinstance(effect.message, AckNewLeader):
                assert server.disk.current == effect.message.epoch
                assert server.disk.last >= world.properties.last
                checked.append(server.disk.last)

        world.ambush = ambush
        start(world, S1)
        assert checked == [z(1, 3)]

    def test_tla_proposals_go_to_all_that_are_being_synchronized(self) -> None:
        """The authors of Zab.tla found it open whether PROPOSE goes to them; it must."""
        world, seen = self.busy_join()
        logged = [e for s, e in seen if s == S1 and isinstance(e, Append)]
        assert len(logged) > 10
        assert {epoch_of(append.first) for append in logged} == {1}
        converge(world)
