"""FollowerRecovery: what it refuses. Its steps are scenarios, data/follower_recovery.txt."""

import pytest

from raykeeper.zab.effects import Effect
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.feature_levels import FeatureLevel
from raykeeper.zab.follower_recovery import FollowerRecovery
from raykeeper.zab.history import History
from raykeeper.zab.ids import COUNTER_MAX, ZERO, Epoch
from raykeeper.zab.messages import (
    Diff,
    LeaderInfo,
    LeaderMessage,
    NewLeader,
    Proposals,
    Snapshot,
    SnapshotChunk,
    SnapshotEnd,
    Trunc,
    UpToDate,
)
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import StepDown
from tests.unit.zab.histories import S1, S3, T0, THREE, make_history, run, z

E1, E2 = Epoch(1), Epoch(2)
X = Proposals(z(2, 1), [b"x"])
ENDING = z(1, COUNTER_MAX - 1)


def promised(*messages: LeaderMessage) -> tuple[FollowerRecovery, History, list[Effect]]:
    """Server 1 with a, b and c in its log, a delivered, after its promise and these messages."""
    out: list[Effect] = []
    log = run(z(1, 1), b"a", b"b", b"c")
    history = make_history(out, log, accepted=1, current=1, delivered=z(1, 1))
    role = FollowerRecovery(Settings(S1, THREE), history, S3, 4, out, T0)
    role.receive(LeaderInfo(E2, 4), T0)
    history.epochs_saved(E2, E1)
    role.epochs_saved()
    for message in messages:
        role.receive(message, T0)
    out.clear()
    return role, history, out


def test_completions_of_other_phases_change_nothing() -> None:
    role, _, out = promised()
    role.epochs_saved()
    role.log_changed()
    assert out == []


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
    role, history, out = promised(*before)
    was = (role.phase, history.logged, history.synced, history.delivered)
    with pytest.raises(PeerProtocolError):
        role.receive(refused, T0)
    assert (role.phase, history.logged, history.synced, history.delivered) == was
    assert out == []
    assert role.transition is None


def test_begins_only_when_the_disk_is_settled() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    with pytest.raises(AssertionError):
        FollowerRecovery(Settings(S1, THREE), history, S3, 1, [], T0)


def test_a_leader_whose_log_cannot_be_read_is_not_followed() -> None:
    out: list[Effect] = []
    history = make_history(out, accepted=1, current=1)
    role = FollowerRecovery(Settings(S1, THREE), history, S3, 4, out, T0)
    role.receive(LeaderInfo(E2, 4, FeatureLevel(2)), T0)
    assert isinstance(role.transition, StepDown)
    assert "requires feature level 2, and this program knows 1" in role.transition.reason
    assert history.is_disk_idle  # nothing was promised
