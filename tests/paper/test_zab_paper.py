"""The properties that the Zab paper demands, each on timelines that could break it.

Paper: Junqueira, Reed, Serafini, "Zab: High-performance broadcast for primary-backup systems"
(DSN 2011), section III. Section IV, the phases, is `one_server/zab_phases.txt`. The same properties
under random faults are in `test_zab_properties.py`.

The timelines record every delivery of every incarnation, and the tests judge only by that.
"""

from itertools import pairwise

import pytest

from raykeeper.zab.effects import Activated, Append, Deliver, Effect, SaveEpochs
from raykeeper.zab.ids import Epoch, ServerId, Zxid, counter_of, epoch_of
from tests.harness.zab_scenario import ZabScenario
from tests.harness.zab_world import ZabServer
from tests.unit.zab.histories import S1, S2, S3, z


class Story:
    """Three servers, what primaries broadcast, and what everybody delivered at which place."""

    def __init__(self, seed: int = 1) -> None:
        self.scenario = ZabScenario()
        self.scenario.world(seed=seed)
        self.scenario.zab.ambush = self.observe
        self.broadcast: dict[Zxid, bytes] = {}
        self.delivered: dict[tuple[ServerId, int], list[tuple[int, Zxid, bytes]]] = {}
        self.established: list[tuple[Epoch, ServerId]] = []
        self.epochs: dict[ServerId, list[tuple[Epoch, Epoch]]] = {}

    def observe(self, server: ZabServer, effect: Effect) -> None:
        is_primary = server.id in self.scenario.zab.leaders()
        if isinstance(effect, Append) and is_primary:
            for n, txn in enumerate(effect.txns):
                assert Zxid(effect.first + n) not in self.broadcast
                self.broadcast[Zxid(effect.first + n)] = txn
        elif isinstance(effect, Activated) and effect.leader == server.id:
            self.established.append((effect.epoch, server.id))
        elif isinstance(effect, SaveEpochs):
            self.epochs.setdefault(server.id, []).append((effect.accepted, effect.current))
        elif isinstance(effect, Deliver):
            mine = self.delivered.setdefault((server.id, server.incarnation), [])
            for n, txn in enumerate(effect.txns):
                mine.append((server.applied + n, Zxid(effect.first + n), txn))

    def sequences(self) -> list[list[Zxid]]:
        """What each incarnation delivered, in its order."""
        return [[zxid for _, zxid, _ in mine] for mine in self.delivered.values()]

    def play(self) -> None:
        """Two epochs: a lagging server, a leader that dies in mid-broadcast, a late return.

        1. S3 broadcasts 1:1 to 1:3; S1's link breaks, and it misses 1:4 and 1:5.
        2. S3 logs 1:6 and reaches S2 with it; both links break before an ack comes back.
        3. S1 and S2 elect S2, which has 1:6; it broadcasts 2:1 and 2:2.
        4. S3 wrote 1:7 alone. It comes back; S2 restarts; S1 restarts.
        """
        scenario = self.scenario
        scenario.start()
        scenario.write(S3, 3)
        scenario.isolate(S1)
        scenario.write(S3, 2)
        scenario.heal(ms=500)
        scenario.delays(latency=10)
        scenario.write(S3, ms=10)
        scenario.delays()
        scenario.isolate(S3)
        scenario.write(S3, ms=2_000)
        scenario.write(count=2)
        scenario.heal(ms=2_000)
        scenario.crash(S2)
        scenario.start(S2)
        scenario.crash(S1)
        scenario.write()
        scenario.start(S1)


@pytest.fixture(params=range(3))
def story(request: pytest.FixtureRequest) -> Story:
    story = Story(request.param)
    story.play()
    assert len({epoch_of(zxid) for zxid in story.broadcast}) > 1
    assert len(story.delivered) > 4
    return story


# Section III: the properties.


def test_leadership(story: Story) -> None:
    """There is at most one primary in an epoch, and each is of a later one than that before it."""
    epochs = [epoch for epoch, _ in story.established]
    assert len(epochs) > 1
    assert all(one < other for one, other in pairwise(epochs))


def test_epochs_only_grow(story: Story) -> None:
    """Neither f.p nor f.a ever goes back, over all incarnations of a server; f.a <= f.p."""
    assert len(story.epochs) == 3
    for saved in story.epochs.values():
        for (accepted, current), (accepted_then, current_then) in pairwise(saved):
            assert accepted <= accepted_then and current <= current_then
        assert all(current <= accepted for accepted, current in saved)


def test_integrity(story: Story) -> None:
    """If some process delivers a transaction, then some process has broadcast it."""
    for mine in story.delivered.values():
        for _, zxid, txn in mine:
            assert story.broadcast[zxid] == txn


def test_total_order(story: Story) -> None:
    """If one process delivers a before b, whoever delivers b delivers a, and before it."""
    order: dict[int, Zxid] = {}
    for mine in story.delivered.values():
        for place, zxid, _ in mine:
            assert order.setdefault(place, zxid) == zxid
        for (place, _, _), (following, _, _) in pairwise(mine):
            assert following > place  # more than one further when a snapshot brought the rest
    assert sorted(order) == list(range(len(order)))
    assert len(set(order.values())) == len(order)


def test_agreement(story: Story) -> None:
    """If p delivers a and q delivers b, then p delivers b or q delivers a."""
    by_server: dict[ServerId, set[Zxid]] = {}
    for (server_id, _), mine in story.delivered.items():
        by_server.setdefault(server_id, set()).update(zxid for _, zxid, _ in mine)
    assert len(by_server) == 3
    for p in by_server.values():
        for q in by_server.values():
            assert p <= q or q <= p


def test_local_primary_order(story: Story) -> None:
    """A primary's transactions are delivered in the order in which it broadcast them."""
    for sequence in story.sequences():
        for one, other in pairwise(sequence):
            if epoch_of(one) == epoch_of(other):
                assert other == one + 1
            else:
                assert counter_of(other) == 1


def test_global_primary_order(story: Story) -> None:
    """Nobody delivers a transaction of an earlier primary after one of a later."""
    for sequence in story.sequences():
        epochs = [epoch_of(zxid) for zxid in sequence]
        assert epochs == sorted(epochs)


def test_global_primary_order_of_what_was_never_delivered(story: Story) -> None:
    """1:7, which only its primary logged, is delivered by nobody once 2:1 is."""
    assert z(1, 7) in story.broadcast
    assert all(z(1, 7) not in sequence for sequence in story.sequences())
    assert any(sequence[-3:-1] == [z(1, 6), z(2, 1)] for sequence in story.sequences())
    story.scenario.converge()
