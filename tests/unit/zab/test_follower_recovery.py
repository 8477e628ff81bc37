"""FollowerRecovery: the steps of discovery and synchronization, their order on disk, refusals."""

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import (
    AdoptSnapshot,
    Append,
    Deliver,
    DiscardSnapshot,
    Effect,
    InstallSnapshot,
    LogRun,
    ReceiveChunk,
    ReceiveSnapshot,
    SaveEpochs,
    Send,
    Truncate,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.follower_recovery import FollowerRecovery
from raykeeper.zab.history import History
from raykeeper.zab.ids import COUNTER_MAX, FOUNDING_DISK, ZERO, DiskId, Epoch, Millis, Zxid
from raykeeper.zab.messages import (
    AckEpoch,
    AckNewLeader,
    Diff,
    FollowerInfo,
    LeaderInfo,
    LeaderMessage,
    NewLeader,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotCredit,
    SnapshotEnd,
    Trunc,
    UpToDate,
)
from raykeeper.zab.phases import FollowerPhase
from raykeeper.zab.settings import Settings, Timing
from raykeeper.zab.transitions import StepDown, Synchronized
from tests.unit.zab.histories import NEW_DISK, S1, S2, S3, T0, THREE, make_history, noted, run, z

LEADER = S3
E1, E2 = Epoch(1), Epoch(2)
ABC = run(z(1, 1), b"a", b"b", b"c")
X = Proposals(z(2, 1), [b"x"])
ENDING = z(1, COUNTER_MAX - 1)


class Follower:
    """Server 1 with a, b and c in its log, a delivered, in its fourth attempt."""

    def __init__(self, accepted: int = 1, *log: LogRun, disk: DiskId = FOUNDING_DISK) -> None:
        self.out: list[Effect] = []
        self.history: History = make_history(
            self.out, *(log or (ABC,)), accepted=accepted, current=1, delivered=z(1, 1)
        )
        settings = Settings(S1, THREE, disk)
        self.role = FollowerRecovery(settings, self.history, LEADER, 4, self.out, T0)

    def hear(self, *messages: LeaderMessage) -> list[Effect]:
        """What is emitted on the last of the messages."""
        for message in messages:
            self.out.clear()
            self.role.receive(message, T0)
        return self.out

    def promise(self) -> "Follower":
        self.hear(LeaderInfo(E2, 4))
        self.saved()
        return self

    def saved(self) -> list[Effect]:
        self.out.clear()
        in_promise = self.role.phase is FollowerPhase.PROMISING
        self.history.epochs_saved(E2, E1 if in_promise else E2)
        self.role.epochs_saved()
        return self.out

    def disk(self, call: object, *arguments: object) -> list[Effect]:
        self.out.clear()
        call(*arguments)  # type: ignore[operator]
        self.role.log_changed()
        return self.out


def test_greets_with_its_promise_and_stint() -> None:
    follower = Follower()
    assert follower.out == [Send(LEADER, FollowerInfo(E1, 4, FOUNDING_DISK))]
    follower.out.clear()
    follower.role.send_follower_info()
    assert follower.out == [Send(LEADER, FollowerInfo(E1, 4, FOUNDING_DISK))]
    follower.promise()
    follower.out.clear()
    follower.role.send_follower_info()
    assert follower.out == []


def test_says_when_it_has_no_vote() -> None:
    assert Follower(disk=NEW_DISK).out == [Send(LEADER, FollowerInfo(E1, 4, NEW_DISK))]


class TestPromise:
    """LEADERINFO, by the proposed epoch."""

    def test_a_later_epoch_is_acknowledged_once_it_is_on_disk(self) -> None:
        follower = Follower()
        assert follower.hear(LeaderInfo(E2, 4)) == [SaveEpochs(E2, E1)]
        assert follower.role.phase is FollowerPhase.PROMISING
        assert follower.saved() == [Send(LEADER, AckEpoch(E1, z(1, 3), True, False, z(1, 1)))]
        assert follower.role.phase is FollowerPhase.PROMISED

    def test_the_same_epoch_is_answered_but_not_promised_again(self) -> None:
        follower = Follower(accepted=2)
        assert follower.hear(LeaderInfo(E2, 4)) == [
            Send(LEADER, AckEpoch(E1, z(1, 3), False, False, z(1, 1)))
        ]

    @pytest.mark.parametrize(("whom", "counts"), [(LEADER, True), (S2, False)])
    def test_the_same_epoch_counts_if_it_was_promised_to_this_leader(
        self, whom: int, counts: bool
    ) -> None:
        """The link may have broken after the promise and before its answer."""
        follower = Follower(accepted=2)
        follower.history.promised_to = whom  # type: ignore[assignment]
        assert follower.hear(LeaderInfo(E2, 4)) == [
            Send(LEADER, AckEpoch(E1, z(1, 3), counts, False, z(1, 1)))
        ]

    @pytest.mark.parametrize("accepted", [1, 2])
    def test_tells_that_the_last_batch_may_be_missing(self, accepted: int) -> None:
        """Rule D4, whether or not the promise counts."""
        follower = Follower(accepted=accepted)
        follower.history.is_uncertain = True
        follower.hear(LeaderInfo(E2, 4))
        if follower.role.phase is FollowerPhase.PROMISING:
            follower.saved()
        assert follower.out == [Send(LEADER, AckEpoch(E1, z(1, 3), accepted == 1, True, z(1, 1)))]

    def test_an_earlier_epoch_ends_the_role(self) -> None:
        follower = Follower(accepted=3)
        assert follower.hear(LeaderInfo(E2, 4)) == []
        assert isinstance(follower.role.transition, StepDown)


class TestDiff:
    """The log stays; what is missing follows."""

    def test_log_then_epoch_then_ack(self) -> None:
        follower = Follower().promise()
        assert follower.hear(Diff()) == []
        assert follower.hear(X) == [Append(z(2, 1), [b"x"], z(1, 1))]
        assert follower.hear(NewLeader(E2, z(2, 1))) == []
        assert follower.role.phase is FollowerPhase.LOGGING
        assert follower.disk(follower.history.log_synced, z(2, 1)) == [SaveEpochs(E2, E2)]
        assert follower.role.phase is FollowerPhase.CONFIRMING
        assert follower.saved() == [Send(LEADER, AckNewLeader(E2))]
        assert follower.hear(UpToDate(z(2, 1))) == [
            Deliver(z(1, 2), [b"b", b"c"]),
            Deliver(z(2, 1), [b"x"]),
        ]
        assert follower.role.transition == Synchronized(LEADER, z(2, 1))

    def test_a_part_of_the_log_on_disk_is_not_enough(self) -> None:
        follower = Follower().promise()
        follower.hear(Diff(), X, Proposals(z(2, 2), [b"y"]), NewLeader(E2, z(2, 2)))
        assert follower.disk(follower.history.log_synced, z(2, 1)) == []

    def test_with_nothing_missing_the_epoch_is_next(self) -> None:
        follower = Follower().promise()
        assert follower.hear(Diff(), NewLeader(E2, z(1, 3))) == [SaveEpochs(E2, E2)]

    def test_a_proposal_sent_twice_is_logged_once(self) -> None:
        follower = Follower().promise()
        follower.hear(Diff(), X, X)
        assert noted(follower.out) == [trace_events.PROPOSAL_DUPLICATE]
        assert follower.hear(Proposals(z(2, 1), [b"x", b"y"])) == [Append(z(2, 2), [b"y"], z(1, 1))]

    def test_proposals_of_the_new_epoch_do_not_hold_up_the_ack(self) -> None:
        follower = Follower().promise()
        follower.hear(Diff(), NewLeader(E2, z(1, 3)))
        assert follower.hear(X) == [Append(z(2, 1), [b"x"], z(1, 1))]
        assert follower.saved() == [Send(LEADER, AckNewLeader(E2))]
        follower.hear(UpToDate(z(1, 3)))
        assert follower.role.transition == Synchronized(LEADER, z(1, 3))

    def test_completions_of_other_phases_change_nothing(self) -> None:
        follower = Follower()
        follower.out.clear()
        follower.role.epochs_saved()
        follower.role.log_changed()
        assert follower.out == []


def test_a_cut_is_on_disk_before_the_epoch() -> None:
    follower = Follower().promise()
    assert follower.hear(Trunc(z(1, 2))) == [Truncate(z(1, 2))]
    assert follower.hear(NewLeader(E2, z(1, 2))) == []
    assert follower.disk(follower.history.truncated, z(1, 2)) == [SaveEpochs(E2, E2)]


class TestSnapshot:
    """Rule Z7: apart until NEWLEADER, then all at once."""

    START = (Snapshot(z(1, 9)), SnapshotChunk(b"tree"))

    def test_every_chunk_is_kept_and_credited(self) -> None:
        follower = Follower().promise()
        assert follower.hear(self.START[0]) == [ReceiveSnapshot(z(1, 9))]
        assert follower.hear(self.START[1]) == [
            ReceiveChunk(b"tree"),
            Send(LEADER, SnapshotCredit()),
        ]
        assert follower.role.phase is FollowerPhase.RECEIVING

    def test_it_replaces_the_log_with_what_followed(self) -> None:
        follower = Follower().promise()
        more = Proposals(z(2, 2), [b"y"])
        follower.hear(*self.START, SnapshotEnd(z(2, 1)), X, more)
        assert follower.out == []
        tail = [run(z(2, 1), b"x"), run(z(2, 2), b"y")]
        assert follower.hear(NewLeader(E2, z(2, 2))) == [InstallSnapshot(z(1, 9), z(2, 1), tail)]
        assert follower.disk(follower.history.installed, z(1, 9)) == [
            AdoptSnapshot(z(1, 9), z(2, 1)),
            Deliver(z(2, 1), [b"x"]),
            SaveEpochs(E2, E2),
        ]

    def test_a_break_discards_it(self) -> None:
        follower = Follower().promise()
        follower.hear(*self.START)
        follower.out.clear()
        follower.role.discard_snapshot()
        assert follower.out[0] == DiscardSnapshot()
        assert noted(follower.out) == [trace_events.SNAPSHOT_DISCARDED]

    def test_once_on_its_way_to_the_disk_it_is_not_discarded(self) -> None:
        follower = Follower().promise()
        follower.hear(*self.START, SnapshotEnd(z(1, 9)), NewLeader(E2, z(1, 9)))
        follower.out.clear()
        follower.role.discard_snapshot()
        assert follower.out == []


SNAPSHOT = (Snapshot(z(1, 9)), SnapshotEnd(z(1, 9)))
FUZZY = (Snapshot(z(1, 9)), SnapshotEnd(z(2, 1)))


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        # A hole, after the log and after a snapshot.
        ([Diff()], Proposals(z(1, 5), [b"e"])),
        ([Diff()], Proposals(z(2, 2), [b"y"])),
        (SNAPSHOT, Proposals(z(1, 11), [b"?"])),
        (SNAPSHOT, Proposals(z(1, 9), [b"?"])),
        # Nothing at all.
        (SNAPSHOT, Proposals(z(2, 1), [])),
        ([Snapshot(z(1, 9))], SnapshotChunk(b"")),
        # What only a later leader can have proposed: it would outlive the epoch we promised.
        ([Diff()], Proposals(z(3, 1), [b"?"])),
        (SNAPSHOT, Proposals(z(3, 1), [b"?"])),
        ([], Snapshot(z(3, 1))),
        # A run that goes on where its epoch ends.
        ([Diff()], Proposals(z(1, COUNTER_MAX), [b"y", b"z"])),
        ([Snapshot(ENDING), SnapshotEnd(ENDING)], Proposals(z(1, COUNTER_MAX), [b"y", b"z"])),
        # A cut of what was delivered, or of what is not there.
        ([], Trunc(ZERO)),
        ([], Trunc(z(1, 4))),
        # NEWLEADER of another epoch, or with another log.
        ([Diff()], NewLeader(E1, z(1, 3))),
        ([Diff()], NewLeader(E2, z(1, 4))),
        ([Diff(), X], NewLeader(E2, z(1, 3))),
        # A snapshot that ends before it begins, or is not yet a real state.
        ([Snapshot(z(1, 9))], SnapshotEnd(z(1, 8))),
        (FUZZY, NewLeader(E2, z(1, 9))),
        # More committed than was sent.
        ([Diff(), NewLeader(E2, z(1, 3))], UpToDate(z(2, 1))),
    ],
)
def test_refuses_and_keeps_its_state(before: list[LeaderMessage], refused: LeaderMessage) -> None:
    follower = Follower().promise()
    follower.hear(*before)
    follower.out.clear()
    history = follower.history
    was = (follower.role.phase, history.logged, history.synced, history.delivered)
    with pytest.raises(PeerProtocolError):
        follower.role.receive(refused, T0)
    assert (follower.role.phase, history.logged, history.synced, history.delivered) == was
    assert follower.out == []
    assert follower.role.transition is None


def test_refuses_a_leader_that_lacks_what_was_shown() -> None:
    """The snapshot may be older than what clients saw here; UPTODATE must catch up with it."""
    follower = Follower(1, ABC, run(z(2, 1), b"x")).promise()
    follower.history.deliver(z(2, 1))
    follower.hear(*SNAPSHOT, NewLeader(E2, z(1, 9)))
    follower.disk(follower.history.installed, z(1, 9))
    follower.saved()
    follower.out.clear()
    with pytest.raises(PeerProtocolError):
        follower.role.receive(UpToDate(z(1, 9)), T0)
    assert follower.out == []
    assert follower.role.transition is None


def test_gives_up_on_a_leader_that_is_silent() -> None:
    follower = Follower()
    init = Timing().init_ms
    assert follower.role.deadline() == T0 + init
    follower.role.receive(LeaderInfo(E2, 4), Millis(T0 + 500))
    follower.role.wake(Millis(T0 + init))
    assert follower.role.transition is None
    follower.role.wake(Millis(T0 + init + 500))
    assert isinstance(follower.role.transition, StepDown)


def test_begins_only_when_the_disk_is_settled() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    with pytest.raises(AssertionError):
        FollowerRecovery(Settings(S1, THREE), history, LEADER, 1, [], T0)


class TestWhatIsCommitted:
    """The log never holds a transaction without what was committed when it was proposed."""

    @pytest.mark.parametrize(
        ("committed", "mark"),
        [(ZERO, z(1, 1)), (z(1, 2), z(1, 2)), (z(2, 1), z(2, 1)), (z(2, 9), z(2, 1))],
    )
    def test_is_stored_with_what_is_logged(self, committed: Zxid, mark: Zxid) -> None:
        follower = Follower().promise()
        follower.hear(Diff())
        assert follower.hear(Proposals(z(2, 1), [b"x"], committed)) == [
            Append(z(2, 1), [b"x"], mark)
        ]
