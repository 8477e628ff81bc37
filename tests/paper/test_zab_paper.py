"""What the Zab paper demands and claims, each sentence on a timeline that could break it.

Paper: Junqueira, Reed, Serafini, "Zab: High-performance broadcast for primary-backup systems"
(DSN 2011), section III (the properties) and IV (the phases and what holds in them). The same
properties under random faults are in `test_zab_properties.py`.

The timelines of section III record every delivery of every incarnation, and judge only by that.
"""

from itertools import pairwise

import pytest

from raykeeper.zab.effects import Activated, Append, Deliver, Effect, SaveEpochs
from raykeeper.zab.ids import Epoch, ServerId, Zxid, counter_of, epoch_of
from raykeeper.zab.messages import (
    Ack,
    AckEpoch,
    AckNewLeader,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Proposals,
    UpToDate,
    Vote,
)
from tests.harness.zab_scenario import ZabScenario
from tests.harness.zab_world import ZabServer
from tests.unit.zab.histories import S1, S2, S3, Bench, run, sent, told, z

E2, E3 = Epoch(2), Epoch(3)
LOG = run(z(1, 1), b"a", b"b", b"c")


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


# Section IV: the phases.


def server(server_id: ServerId) -> Bench:
    return Bench(server_id, LOG, accepted=1, current=1)


def promised(bench: Bench, leader: ServerId, epoch: Epoch) -> None:
    """From the election to the promise on disk."""
    bench.elect(leader, leader)
    bench.hear(leader, LeaderInfo(epoch, 1))
    bench.save_epochs()


def follow_next(bench: Bench) -> int:
    """S2, with a better history, is elected next; the number of this attempt to follow it."""
    bench.link(S2)
    bench.hear(S2, told(9, Vote(Epoch(2), z(1, 9), S2)))
    bench.later(bench.settings.timing.finalize_ms)
    assert bench.peer.leader == S2
    (attempt,) = {m.follow_attempt for m in sent(bench.take(), S2) if isinstance(m, FollowerInfo)}
    return attempt


def greet(leader: Bench, follower: ServerId, accepted: int = 1) -> None:
    """A server with the same log sends FOLLOWERINFO."""
    learner = Bench(follower, LOG, accepted=accepted, current=1)
    learner.elect(S3, S3)
    leader.hear(follower, *[m for m in sent(learner.take(), S3) if isinstance(m, FollowerInfo)])


def test_an_epoch_is_above_all_that_its_quorum_has_promised() -> None:
    """Discovery, step l.1: the new epoch is later than every CEPOCH of a quorum."""
    bench = server(S3)
    bench.elect(S3, S1)
    greet(bench, S1, accepted=7)
    bench.save_epochs()
    assert [m.epoch for m in sent(bench.take(), S1) if isinstance(m, LeaderInfo)] == [8]


def test_a_promise_is_on_stable_storage_before_it_is_told() -> None:
    """Discovery, step f.1: f.p is stored, then ACK-E is sent."""
    bench = server(S1)
    bench.elect(S3, S3)
    bench.take()
    bench.hear(S3, LeaderInfo(E2, 1))
    assert [type(e) for e in bench.out] == [SaveEpochs]
    bench.save_epochs()
    (ack,) = sent(bench.take())
    assert isinstance(ack, AckEpoch) and ack.promised


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_epoch_not_above_the_promise_is_not_promised_again(epoch: int) -> None:
    """Discovery: a follower acknowledges only an epoch above f.p, so an epoch has one leader.

    1. S1 has promised epoch 2 to S3, which is gone.
    2. S2 proposes an epoch that is no later.
    """
    bench = server(S1)
    promised(bench, S3, E2)
    bench.peer.link_down(S3, bench.now)
    attempt = follow_next(bench)
    bench.hear(S2, LeaderInfo(Epoch(epoch), attempt))
    assert [e for e in bench.out if isinstance(e, SaveEpochs)] == []
    answers = [m.promised for m in sent(bench.take(), S2) if isinstance(m, AckEpoch)]
    assert answers == ([False] if epoch == E2 else [])
    assert bench.peer.leader == (S2 if epoch == E2 else None)
    assert bench.history.accepted == E2


def test_the_answer_to_an_epoch_tells_the_history_and_leaves_it_as_it_is() -> None:
    """Discovery: ACK-E(f.a, h) neither alters nor reorders nor loses what f has."""
    bench = server(S1)
    promised(bench, S3, E2)
    (ack,) = [m for m in sent(bench.take()) if isinstance(m, AckEpoch)]
    assert (ack.current_epoch, ack.last_zxid) == (1, z(1, 3))
    assert bench.history.recent_log.between(Zxid(0), z(1, 3)) == [LOG]


@pytest.mark.parametrize("better", [(1, z(1, 4)), (2, z(1, 3))])
def test_the_initial_history_is_the_best_of_a_quorum(better: tuple[int, Zxid]) -> None:
    """Discovery, step l.2: no follower of the quorum has a later (f.a, last zxid) than it.

    1. S3 leads at (1, 1:3) and a quorum greets it.
    2. S1 answers with a later history: S3 takes the history of nobody, and lets S1 lead.
    """
    bench = server(S3)
    bench.elect(S3, S1)
    greet(bench, S1)
    bench.save_epochs()
    bench.take()
    bench.hear(S1, AckEpoch(Epoch(better[0]), better[1], True))
    assert bench.peer.leader is None
    assert [m for m in sent(bench.take(), S1) if isinstance(m, NewLeader)] == []


def test_a_history_is_taken_over_only_of_the_promised_epoch() -> None:
    """Synchronization, step f.1: NEWLEADER(e') counts only if f.p = e'."""
    bench = server(S1)
    promised(bench, S3, E2)
    bench.hear(S3, Diff(), NewLeader(E3, z(1, 3)))
    assert S3 not in bench.peer.links
    assert bench.history.current == 1


def test_a_history_is_on_stable_storage_before_it_is_acknowledged() -> None:
    """Synchronization, step f.1: f accepts all of it, sets f.a, and then sends ACK-LD."""
    bench = server(S1)
    promised(bench, S3, E2)
    bench.take()
    bench.hear(S3, Diff(), Proposals(z(1, 4), [b"d"]), NewLeader(E2, z(1, 4)))
    assert [type(e) for e in bench.take()] == [Append]
    bench.peer.log_synced(z(1, 4), bench.now)
    assert [type(e) for e in bench.out] == [SaveEpochs]
    bench.save_epochs()
    assert sent(bench.take()) == [AckNewLeader(E2)]


def test_the_initial_history_is_committed_by_a_quorum_of_its_epoch() -> None:
    """Synchronization, step l.2: COMMIT-LD follows the ACK-LD of a quorum; nothing before."""
    bench = server(S3)
    bench.elect(S3, S1, S2)
    for follower in (S1, S2):
        greet(bench, follower)
    bench.save_epochs()
    for follower in (S1, S2):
        bench.hear(follower, AckEpoch(Epoch(1), z(1, 3), True))
    bench.save_epochs()
    assert bench.peer.broadcasting is None
    assert [e for e in bench.take() if isinstance(e, Deliver)] == []
    bench.hear(S1, AckNewLeader(E2))
    assert bench.peer.broadcasting is not None
    found = bench.take()
    assert [e.first for e in found if isinstance(e, Deliver)] == [z(1, 1)]
    assert sent(found, S1) == [UpToDate(z(1, 3))] and sent(found, S2) == []


def test_a_follower_delivers_the_initial_history_only_on_commit_ld() -> None:
    """Synchronization, step f.2."""
    bench = Bench(S1, LOG, accepted=1, current=1)
    promised(bench, S3, E2)
    bench.hear(S3, Diff(), NewLeader(E2, z(1, 3)))
    bench.save_epochs()
    assert [e for e in bench.take() if isinstance(e, Deliver)] == []
    bench.hear(S3, UpToDate(z(1, 3)))
    assert [e.first for e in bench.take() if isinstance(e, Deliver)] == [z(1, 1)]


@pytest.mark.parametrize("first", [z(1, 4), z(3, 1)])
def test_proposals_are_accepted_only_in_their_own_epoch(first: Zxid) -> None:
    """Broadcast: f accepts a proposal of epoch e only if f.a = e."""
    bench = server(S1)
    bench.follow(S3, 2)
    bench.take()
    bench.hear(S3, Proposals(first, [b"x"]))
    assert [e for e in bench.take() if isinstance(e, Append)] == []
    assert S3 not in bench.peer.links


def test_proposals_are_accepted_in_the_order_of_their_zxids() -> None:
    """Broadcast: and none is left out."""
    bench = server(S1)
    bench.follow(S3, 2)
    bench.take()
    bench.hear(S3, Proposals(z(2, 1), [b"d"]), Proposals(z(2, 3), [b"f"]))
    assert [e.first for e in bench.take() if isinstance(e, Append)] == [z(2, 1)]
    assert S3 not in bench.peer.links


def test_no_proposal_of_an_earlier_epoch_is_accepted_after_a_promise() -> None:
    """Discovery: who has acknowledged e' accepts nothing more from the leader of an earlier e.

    1. S1 follows S3 in epoch 2, and leaves it for S2, to which it promises epoch 3.
    2. What S3 still sends of epoch 2 arrives.
    """
    bench = server(S1)
    bench.follow(S3, 2)
    bench.peer.step_down("asked to", bench.now)
    attempt = follow_next(bench)
    bench.hear(S2, LeaderInfo(E3, attempt))
    bench.save_epochs()
    bench.take()
    bench.hear(S3, Proposals(z(2, 1), [b"late"]), Commit(z(2, 1)))
    assert [e for e in bench.take() if isinstance(e, Append | Deliver)] == []


def test_a_transaction_is_committed_once_a_quorum_has_logged_it() -> None:
    """Broadcast, step l.2; the leader is one of the quorum by its own disk."""
    bench = server(S3)
    bench.lead(S1, S2)
    bench.take()
    bench.peer.propose([b"d"], bench.now)
    assert [e.first for e in bench.take() if isinstance(e, Append)] == [z(2, 1)]
    bench.peer.log_synced(z(2, 1), bench.now)
    assert bench.history.delivered == z(1, 3)
    bench.hear(S2, Ack(z(2, 1)))
    found = bench.take()
    assert [e.first for e in found if isinstance(e, Deliver)] == [z(2, 1)]
    assert sent(found, S1) == sent(found, S2) == [Commit(z(2, 1))]


def test_a_proposal_is_acknowledged_when_it_is_on_stable_storage() -> None:
    """Broadcast, step f.1."""
    bench = server(S1)
    bench.follow(S3, 2)
    bench.take()
    bench.hear(S3, Proposals(z(2, 1), [b"d"]))
    assert sent(bench.take()) == []
    bench.peer.log_synced(z(2, 1), bench.now)
    assert sent(bench.take()) == [Ack(z(2, 1))]


def test_a_follower_delivers_what_is_committed_after_all_before_it() -> None:
    """Broadcast, step f.2: a commit delivers in the order of the zxids, up to it and not beyond."""
    bench = server(S1)
    bench.follow(S3, 2)
    bench.hear(S3, Proposals(z(2, 1), [b"d"]), Proposals(z(2, 2), [b"e", b"f"]))
    bench.take()
    bench.hear(S3, Commit(z(2, 2)))
    delivered = [(e.first, e.txns) for e in bench.take() if isinstance(e, Deliver)]
    assert delivered == [(z(2, 1), [b"d", b"e"])]


def test_a_leader_that_loses_its_quorum_and_a_follower_that_loses_its_leader_begin_anew() -> None:
    """Each phase: whoever suspects the other goes back to election."""
    leader, follower = server(S3), server(S1)
    leader.lead(S1)
    follower.follow(S3, 2)
    leader.peer.link_down(S1, leader.now)
    follower.peer.link_down(S3, follower.now)
    leader.later(leader.settings.timing.ping_ms)
    assert leader.peer.leader is None and follower.peer.leader is None


def test_a_joining_follower_is_sent_history_and_what_is_proposed_since() -> None:
    """Broadcast, step l.3: who connects is told NEWLEADER and all proposals after it."""
    bench = server(S3)
    bench.lead(S1)
    bench.link(S2)
    greet(bench, S2)
    bench.hear(S2, AckEpoch(Epoch(1), z(1, 3), False))
    bench.peer.propose([b"d"], bench.now)
    told_s2 = sent(bench.take(), S2)
    order = [type(m) for m in told_s2 if isinstance(m, LeaderInfo | NewLeader | Proposals)]
    assert order == [LeaderInfo, NewLeader, Proposals]
