"""Learners: the handshake with each, and how it is synchronized."""

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    BreakLink,
    CancelSnapshot,
    Effect,
    GrantCredit,
    LogRun,
    ReadLog,
    Send,
    StreamSnapshot,
    TraceEvent,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.feature_levels import FeatureLevel, FeatureLevels
from raykeeper.zab.history import History
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, Epoch, ServerId, Zxid
from raykeeper.zab.learners import Learner, Learners, Stage
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
    Trunc,
)
from raykeeper.zab.settings import RecentLogLimits, Settings
from tests.unit.zab.histories import (
    NEW_DISK,
    S1,
    S2,
    S3,
    S4,
    T0,
    THREE,
    make_history,
    noted,
    run,
    sent,
    without_notes,
    z,
)

E5 = Epoch(5)
LOG = (run(z(1, 2), b"b", b"c"), run(z(3, 1), b"x", b"y"))
NEW_LEADER = NewLeader(E5, z(3, 2))


class Table:
    """The learners of server 3, whose window is (1:1, 3:2], in epoch 5."""

    def __init__(self, window: RecentLogLimits | None = None) -> None:
        self.out: list[Effect] = []
        self.history: History = make_history(
            self.out, *LOG, base=z(1, 1), delivered=z(1, 3), accepted=5
        )
        levels = FeatureLevels(FeatureLevel(2))
        self.settings = Settings(S3, THREE, window=window, levels=levels)
        self.learners = Learners(self.settings, self.history, self.out)
        self.learners.epoch = E5

    def greet(self, server_id: ServerId, attempt: int = 1, disk: DiskId = FOUNDING_DISK) -> Learner:
        self.learners.on_follower_info(server_id, FollowerInfo(Epoch(4), attempt, disk), T0)
        learner = self.learners.get(server_id)
        assert learner is not None
        return learner

    def synchronize(self, server_id: ServerId, last_zxid: Zxid) -> Learner:
        self.learners.is_synchronizing = True
        learner = self.greet(server_id)
        self.out.clear()
        self.learners.on_ack_epoch(learner, AckEpoch(Epoch(3), last_zxid, True))
        return learner


def test_greeting_waits_for_the_epoch_then_invites() -> None:
    table = Table()
    table.learners.epoch = Epoch(0)
    learner = table.greet(S1, attempt=7)
    assert (table.out, learner.stage) == ([], Stage.FOLLOWER_INFO_RECEIVED)
    table.learners.epoch = E5
    table.learners.send_leader_info(learner)
    assert (table.out, learner.stage) == ([Send(S1, LeaderInfo(E5, 7))], Stage.LEADER_INFO_SENT)
    assert list(table.learners) == [learner]


def test_greeting_again_changes_nothing_unless_the_stint_is_another() -> None:
    table = Table()
    learner = table.greet(S1)
    assert table.greet(S1) is learner
    assert table.greet(S1, attempt=2) is not learner
    assert sent(table.out) == [LeaderInfo(E5, 1), LeaderInfo(E5, 2)]
    assert noted(table.out) == [trace_events.LEARNER_LOST]


@pytest.mark.parametrize(
    ("server_id", "disk", "votes"),
    [
        (S1, FOUNDING_DISK, True),
        (S1, NEW_DISK, False),  # it lost its promises
        (S4, FOUNDING_DISK, False),  # no voter, whatever it says (ZOOKEEPER-2959)
        (S4, NEW_DISK, False),
    ],
)
def test_only_voters_with_their_promises_count(
    server_id: ServerId, disk: DiskId, votes: bool
) -> None:
    assert Table().greet(server_id, disk=disk).has_vote is votes


def test_a_changed_member_list_counts_every_learner_anew() -> None:
    """Rule D3: by the disk it said that it is on."""
    table = Table()
    for server_id, disk in ((S1, FOUNDING_DISK), (S2, NEW_DISK), (S4, NEW_DISK)):
        table.greet(server_id, disk=disk)

    def counted() -> list[ServerId]:
        table.learners.members_changed()
        return [learner.server_id for learner in table.learners if learner.has_vote]

    assert counted() == [S1]
    table.settings.members.disk_delivered(S2, NEW_DISK, Zxid(1))
    assert counted() == [S1, S2]
    table.settings.members.disk_delivered(S1, NEW_DISK, Zxid(2))
    assert counted() == [S2]


def test_a_learner_logs_and_is_certain_until_it_says_otherwise() -> None:
    learner = Table().greet(S1)
    assert (learner.is_logging, learner.is_uncertain, learner.disk) == (True, False, FOUNDING_DISK)


@pytest.mark.parametrize("is_uncertain", [False, True])
def test_a_promise_tells_whether_the_log_is_whole(is_uncertain: bool) -> None:
    table = Table()
    learner = table.greet(S1)
    table.learners.on_ack_epoch(learner, AckEpoch(Epoch(3), z(3, 1), True, is_uncertain))
    assert learner.is_uncertain is is_uncertain


def test_a_promise_is_noted_until_a_quorum_has_promised() -> None:
    table = Table()
    learner = table.greet(S1)
    table.out.clear()
    table.learners.on_ack_epoch(learner, AckEpoch(Epoch(3), z(3, 1), False))
    assert (learner.stage, learner.has_promised, learner.last_zxid) == (
        Stage.PROMISED,
        False,
        z(3, 1),
    )
    assert table.out == []
    with pytest.raises(PeerProtocolError):
        table.learners.on_ack_epoch(learner, AckEpoch(Epoch(3), z(3, 1), True))


@pytest.mark.parametrize(
    ("last_zxid", "packets", "note"),
    [
        # The same log.
        (z(3, 2), [Diff()], trace_events.SYNC_DIFF),
        # Less: what follows, one packet per epoch.
        (z(3, 1), [Diff(), Proposals(z(3, 2), [b"y"], z(1, 3))], trace_events.SYNC_DIFF),
        (
            z(1, 2),
            [
                Diff(),
                Proposals(z(1, 3), [b"c"], z(1, 3)),
                Proposals(z(3, 1), [b"x", b"y"], z(1, 3)),
            ],
            trace_events.SYNC_DIFF,
        ),
        # More.
        (z(3, 9), [Trunc(z(3, 2))], trace_events.SYNC_TRUNC),
        (z(4, 1), [Trunc(z(3, 2))], trace_events.SYNC_TRUNC),
    ],
)
def test_synchronizes_from_the_window(last_zxid: Zxid, packets: list[object], note: str) -> None:
    table = Table()
    learner = table.synchronize(S1, last_zxid)
    assert sent(table.out, S1) == [*packets, NEW_LEADER]
    assert noted(table.out) == [note]
    assert (learner.stage, learner.sent, learner.acked) == (Stage.SYNCING, z(3, 2), ZERO)


def test_packets_of_proposals_are_bounded() -> None:
    table = Table(RecentLogLimits(message_bytes_max=1))
    table.synchronize(S1, z(3, 0))
    table.out.clear()
    table.synchronize(S2, z(1, 3))
    assert sent(table.out, S2)[1:-1] == [
        Proposals(z(3, 1), [b"x"], z(1, 3)),
        Proposals(z(3, 2), [b"y"], z(1, 3)),
    ]


class TestFromTheDisk:
    """A learner whose last zxid lies before the window."""

    READ = ReadLog(S1, ZERO, z(1, 1), RecentLogLimits().read_log_bytes_max)

    def test_transactions_read_from_disk_precede_the_recent_log(self) -> None:
        table = Table()
        learner = table.synchronize(S1, ZERO)
        assert without_notes(table.out) == [self.READ]
        assert learner.stage is Stage.READING
        table.out.clear()
        table.learners.log_read(learner, ZERO, [run(z(1, 1), b"a")])
        assert sent(table.out, S1) == [
            Diff(),
            Proposals(z(1, 1), [b"a"], z(1, 3)),
            Proposals(z(1, 2), [b"b", b"c"], z(1, 3)),
            Proposals(z(3, 1), [b"x", b"y"], z(1, 3)),
            NEW_LEADER,
        ]

    @pytest.mark.parametrize("runs", [[], [run(z(1, 0), b"?")]])
    def test_otherwise_a_snapshot(self, runs: list[LogRun]) -> None:
        table = Table()
        learner = table.synchronize(S1, ZERO)
        table.out.clear()
        table.learners.log_read(learner, ZERO, runs)
        assert without_notes(table.out) == [StreamSnapshot(S1)]
        assert noted(table.out) == [trace_events.SYNC_SNAPSHOT]

    def test_an_answer_to_another_question_is_ignored(self) -> None:
        table = Table()
        learner = table.synchronize(S1, ZERO)
        table.out.clear()
        table.learners.log_read(learner, z(0, 5), [run(z(1, 1), b"a")])
        following = table.synchronize(S2, z(3, 2))
        table.out.clear()
        table.learners.log_read(following, z(3, 1), [])
        assert table.out == []

    def test_the_window_stands_still_meanwhile(self) -> None:
        limits = RecentLogLimits(txns_max=0)
        table = Table()
        table.history._limits = limits
        learner = table.synchronize(S1, ZERO)
        table.history.deliver(z(3, 2))
        assert table.history.recent_log.base == z(1, 1)
        table.learners.drop(learner.server_id, "gone")
        table.history.append(z(3, 3), [b"z"])
        table.history.deliver(z(3, 3))
        assert table.history.recent_log.base == z(3, 3)


class TestSnapshot:
    """A learner whose last zxid is no position of the window."""

    def test_the_tree_then_what_was_proposed_since_it_began(self) -> None:
        table = Table()
        learner = table.synchronize(S1, z(2, 7))
        assert without_notes(table.out) == [StreamSnapshot(S1)]
        table.out.clear()
        table.learners.snapshot_begin(learner, z(1, 3))
        table.learners.snapshot_chunk(learner, b"tree")
        table.learners.on_snapshot_credit(learner)
        table.history.append(z(5, 1), [b"new"])
        table.history.deliver(z(3, 1))
        table.learners.snapshot_end(learner, z(3, 1))
        assert sent(table.out, S1) == [
            Snapshot(z(1, 3)),
            SnapshotChunk(b"tree"),
            SnapshotEnd(z(3, 1)),
            Proposals(z(3, 1), [b"x", b"y"], z(3, 1)),
            Proposals(z(5, 1), [b"new"], z(3, 1)),
            NewLeader(E5, z(5, 1)),
        ]
        assert GrantCredit(S1) in table.out
        assert learner.stage is Stage.SYNCING
        table.out.clear()
        table.learners.on_snapshot_credit(learner)
        assert table.out == []

    def test_begins_at_what_is_delivered_and_only_while_it_is_wanted(self) -> None:
        table = Table()
        learner = table.synchronize(S1, z(2, 7))
        with pytest.raises(AssertionError):
            table.learners.snapshot_begin(learner, z(3, 1))
        other = table.synchronize(S2, z(3, 2))
        for call in (
            lambda: table.learners.snapshot_begin(other, z(1, 3)),
            lambda: table.learners.snapshot_chunk(other, b""),
            lambda: table.learners.snapshot_end(other, z(1, 3)),
        ):
            with pytest.raises(AssertionError):
                call()

    def test_is_cancelled_when_its_learner_is_gone(self) -> None:
        table = Table()
        table.synchronize(S1, z(2, 7))
        table.out.clear()
        table.learners.clear()
        assert without_notes(table.out) == [CancelSnapshot(S1)]
        assert list(table.learners) == []

    def test_patience_begins_when_it_is_over(self) -> None:
        table = Table()
        learner = table.synchronize(S1, z(2, 7))
        table.learners.snapshot_begin(learner, z(1, 3))
        learner.last_received_at = type(T0)(T0 + 60_000)  # a long stream
        table.learners.snapshot_end(learner, z(1, 3))
        assert learner.acked_at == learner.last_received_at


def test_an_acknowledged_learner_has_what_came_before_newleader() -> None:
    table = Table()
    learner = table.synchronize(S1, z(3, 1))
    table.learners.on_ack_new_leader(learner, AckNewLeader(E5), T0)
    assert (learner.stage, learner.acked) == (Stage.FOLLOWING, z(3, 2))


@pytest.mark.parametrize("epoch", [4, 5, 6])
def test_refuses_an_ack_of_newleader_too_early_or_of_another_epoch(epoch: int) -> None:
    table = Table()
    learner = table.greet(S1) if epoch == 5 else table.synchronize(S1, z(3, 2))
    stage = learner.stage
    with pytest.raises(PeerProtocolError):
        table.learners.on_ack_new_leader(learner, AckNewLeader(Epoch(epoch)), T0)
    assert learner.stage is stage


def test_dropping_an_unknown_learner_does_nothing() -> None:
    table = Table()
    table.learners.drop(S1, "who?")
    assert table.out == [] and table.learners.get(S1) is None


def introduce(table: Table, server_id: ServerId, level: int) -> Learner | None:
    info = FollowerInfo(Epoch(4), 1, FOUNDING_DISK, FeatureLevel(level))
    table.learners.on_follower_info(server_id, info, T0)
    return table.learners.get(server_id)


def test_a_learner_that_cannot_read_the_log_is_refused() -> None:
    table = Table()
    assert introduce(table, S1, 1) is not None
    table.settings.levels.require(FeatureLevel(2))
    table.out.clear()
    assert introduce(table, S2, 2) is not None
    assert sent(table.out) == [LeaderInfo(E5, 1, FeatureLevel(2))]
    table.out.clear()
    assert introduce(table, S4, 1) is None
    reason = "its program knows feature level 1, and 2 is required"
    assert table.out == [
        TraceEvent(trace_events.LEVEL_REFUSED, (S4, reason)),
        BreakLink(S4, reason),
    ]


def test_the_level_of_all_is_that_of_the_oldest_program() -> None:
    table = Table()
    learners = table.learners
    assert learners.level_of_all(THREE) is None  # nobody follows yet
    for server_id, level in ((S1, 2), (S2, 3)):
        learner = introduce(table, server_id, level)
        assert learner is not None and learners.level_of_all(THREE) is None
        learner.stage = Stage.FOLLOWING
    assert learners.level_of_all(THREE) == 2  # this server knows no more itself
    assert learners.level_of_all((*THREE, S4)) is None  # an observer that is away
    # Whoever is being synchronized is sent what is proposed, a member or not.
    introduce(table, S4, 1)
    assert learners.level_of_all(THREE) == 1
