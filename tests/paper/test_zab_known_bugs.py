"""What ZooKeeper's Zab did wrong, for two issues that take more than steps.

All others are texts: in `scenarios`, or in `one_server` if one server shows them.
"""

import pytest

from raykeeper.zab.effects import Effect, InstallSnapshot, Send, Truncate
from raykeeper.zab.ids import COUNTER_MAX, Zxid
from raykeeper.zab.messages import Notification, PeerState
from tests.harness.zab_scenario import ZabScenario
from tests.harness.zab_world import ZabServer
from tests.unit.zab.histories import S1, S2, S3, Bench, run, z


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
