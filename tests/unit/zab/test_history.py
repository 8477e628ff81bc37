"""History: promises, cursors and what is under way on the disk."""

import pytest

from raykeeper.zab.effects import (
    AdoptSnapshot,
    Append,
    Deliver,
    Effect,
    InstallSnapshot,
    LogRun,
    SaveEpochs,
    Truncate,
)
from raykeeper.zab.errors import PeerProtocolError
from raykeeper.zab.history import History
from raykeeper.zab.ids import COUNTER_MAX, ZERO, Epoch, Zxid
from raykeeper.zab.settings import RecentLogLimits
from tests.unit.zab.histories import S2, make_history, run, z

ABC = run(z(1, 1), b"a", b"b", b"c")
X = run(z(2, 1), b"x")


def cursors(history: History) -> tuple[Zxid, Zxid, Zxid]:
    return history.logged, history.synced, history.delivered


def test_begins_as_recovered_with_all_of_it_synced() -> None:
    history = make_history([], ABC, accepted=2, current=1, delivered=z(1, 2))
    assert cursors(history) == (z(1, 3), z(1, 3), z(1, 2))
    assert (history.accepted, history.current, history.promised_to) == (2, 1, None)
    assert history.is_disk_idle


@pytest.mark.parametrize(
    ("accepted", "current", "delivered"),
    [(1, 2, ZERO), (1, 1, z(1, 4))],
)
def test_refuses_to_begin_with(accepted: int, current: int, delivered: Zxid) -> None:
    with pytest.raises(AssertionError):
        make_history([], ABC, accepted=accepted, current=current, delivered=delivered)


def test_an_append_counts_as_synced_when_the_disk_says_so() -> None:
    out: list[Effect] = []
    history = make_history(out, ABC, delivered=z(1, 1))
    history.append(z(1, 4), [b"d", b"e"])
    assert out == [Append(z(1, 4), [b"d", b"e"], z(1, 1))]
    assert cursors(history) == (z(1, 5), z(1, 3), z(1, 1))
    assert not history.is_disk_idle
    history.log_synced(z(1, 4))
    assert history.is_synced_to(z(1, 4)) and not history.is_synced_to(z(1, 5))
    history.log_synced(z(1, 5))
    assert history.is_disk_idle
    with pytest.raises(AssertionError):
        history.log_synced(z(1, 6))


@pytest.mark.parametrize(
    ("first", "txns", "fresh"),
    [
        # What follows the log, in this epoch or a later one, is all new.
        (z(1, 4), [b"d"], (z(1, 4), [b"d"])),
        (z(2, 1), [b"x"], (z(2, 1), [b"x"])),
        # What overlaps adds its new part; what is known adds nothing.
        (z(1, 3), [b"c", b"d"], (z(1, 4), [b"d"])),
        (z(1, 2), [b"b", b"c"], (z(1, 4), [])),
        (z(1, 1), [b"a"], (z(1, 4), [])),
    ],
)
def test_fresh(first: Zxid, txns: list[bytes], fresh: tuple[Zxid, list[bytes]]) -> None:
    assert make_history([], ABC).skip_logged(first, txns) == fresh


@pytest.mark.parametrize("first", [z(1, 5), z(2, 2), z(2, 0)])
def test_fresh_refuses_a_hole(first: Zxid) -> None:
    with pytest.raises(PeerProtocolError):
        make_history([], ABC).skip_logged(first, [b"?"])


def test_fresh_refuses_a_run_that_leaves_its_epoch() -> None:
    history = make_history([], base=z(1, COUNTER_MAX - 1))
    with pytest.raises(PeerProtocolError):
        history.skip_logged(z(1, COUNTER_MAX), [b"y", b"z"])
    assert history.skip_logged(z(1, COUNTER_MAX), [b"y"]) == (z(1, COUNTER_MAX), [b"y"])


def test_epochs_count_once_saved() -> None:
    out: list[Effect] = []
    history = make_history(out, accepted=1, current=1)
    history.promise(Epoch(3), S2)
    assert out == [SaveEpochs(Epoch(3), Epoch(1))]
    assert (history.accepted, history.current, history.promised_to) == (1, 1, S2)
    assert not history.is_disk_idle
    history.epochs_saved(Epoch(3), Epoch(1))
    history.save_epochs(Epoch(3), Epoch(3))
    with pytest.raises(AssertionError):
        history.save_epochs(Epoch(3), Epoch(3))  # one at a time
    history.epochs_saved(Epoch(3), Epoch(3))
    assert (history.accepted, history.current, history.is_disk_idle) == (3, 3, True)


def test_what_may_be_missing_is_here_once_a_later_epoch_is_current() -> None:
    """Rule D4: with its initial history came all that was ever acknowledged. A promise is none."""
    history = make_history([], accepted=1, current=1, is_uncertain=True)
    history.promise(Epoch(3), S2)
    history.epochs_saved(Epoch(3), Epoch(1))
    assert history.is_uncertain
    history.save_epochs(Epoch(3), Epoch(3))
    assert history.is_uncertain
    history.epochs_saved(Epoch(3), Epoch(3))
    assert not history.is_uncertain
    assert not make_history([]).is_uncertain


def test_what_may_be_missing_is_here_once_the_current_epoch_is_joined_again() -> None:
    """A server that was killed within an epoch gets its leader's whole log before it says so."""
    history = make_history([], accepted=2, current=2, is_uncertain=True)
    history.save_epochs(Epoch(2), Epoch(2))
    history.epochs_saved(Epoch(2), Epoch(2))
    assert not history.is_uncertain


def test_an_uncertain_log_is_as_good_as_its_last_transaction() -> None:
    """Rule D4: it took over epoch 4, and what came with that may be what it lost.

    1. S1 leads epoch 3; 3:3 is committed. It proposes 4, is promised it, and saves it as current.
    2. All are killed, and a bit of the end of S1's log flips: it has 3:2, S2 and S3 have 3:3.
    3. By its current epoch S1 was elected, and had 3:3 cut from the logs of the others.
    """
    history = make_history([], run(z(3, 1), b"a", b"b"), accepted=4, current=4, is_uncertain=True)
    assert history.rank_epoch == 3
    assert make_history([], run(z(3, 1), b"a"), accepted=4, current=4).rank_epoch == 4


def test_an_uncertain_log_with_all_that_came_with_the_epoch_counts_in_that_epoch() -> None:
    """Rule D4: what it lost can only be of the current epoch itself.

    1. S3 leads epoch 3 as far as its own disk, with a log up to 1:24; nobody follows it.
    2. S1 and S2 take over epoch 5 with 1:28, which is committed thereby.
    3. Both are killed while they write, and have a torn end. By their last transactions they are
       of epoch 1, and S3 was elected, which lacks 1:28.
    """
    log = run(z(1, 1), b"a", b"b")
    torn = make_history([], log, accepted=5, current=5, is_uncertain=True, has_initial=True)
    assert torn.rank_epoch == 5
    assert torn.is_uncertain


class TestPause:
    """Rule D6: the disk is full; what still comes is kept in memory only."""

    def test_nothing_is_appended_any_more_but_all_is_delivered(self) -> None:
        out: list[Effect] = []
        history = make_history(out, ABC, delivered=z(1, 3), has_room=False)
        assert not history.has_disk_space and not history.is_paused
        history.append(z(1, 4), [b"d"])
        history.pause()
        history.append(z(1, 5), [b"e"])
        assert out == [Append(z(1, 4), [b"d"], z(1, 3))]
        history.log_synced(z(1, 4))
        history.deliver(z(1, 5))
        assert out[1:] == [Deliver(z(1, 4), [b"d", b"e"])]
        assert cursors(history) == (z(1, 5), z(1, 4), z(1, 5))

    def test_a_paused_log_is_never_idle(self) -> None:
        history = make_history([], ABC)
        history.pause()
        assert history.is_disk_idle  # nothing is only in memory yet
        history.append(z(1, 4), [b"d"])
        assert not history.is_disk_idle
        assert not history.is_synced_to(z(1, 4))

    def test_begins_with_room_unless_told(self) -> None:
        assert make_history([]).has_disk_space


@pytest.mark.parametrize(("accepted", "current"), [(1, 1), (2, 0), (2, 3)])
def test_epochs_never_go_back(accepted: int, current: int) -> None:
    history = make_history([], accepted=2, current=1)
    with pytest.raises(AssertionError):
        history.save_epochs(Epoch(accepted), Epoch(current))
    with pytest.raises(AssertionError):
        history.promise(Epoch(2), S2)
    with pytest.raises(AssertionError):
        history.epochs_saved(Epoch(2), Epoch(2))


def test_a_cut_is_settled_when_the_disk_says_so() -> None:
    out: list[Effect] = []
    history = make_history(out, ABC, delivered=z(1, 1))
    history.truncate(z(1, 2))
    assert out == [Truncate(z(1, 2))]
    assert cursors(history) == (z(1, 2), z(1, 2), z(1, 1))
    assert not history.is_disk_idle and not history.is_synced_to(z(1, 2))
    history.truncated(z(1, 2))
    assert history.is_disk_idle
    with pytest.raises(AssertionError):
        history.truncated(z(1, 2))


@pytest.mark.parametrize("upto", [z(1, 1), z(1, 4), z(2, 0)])
def test_refuses_to_cut_what_was_delivered_or_at_no_position(upto: Zxid) -> None:
    out: list[Effect] = []
    history = make_history(out, ABC, delivered=z(1, 2))
    with pytest.raises(PeerProtocolError):
        history.truncate(upto)
    assert cursors(history) == (z(1, 3), z(1, 3), z(1, 2)) and out == []


@pytest.mark.parametrize(
    ("tail", "consistent_at", "delivered"),
    [
        ([], z(1, 9), []),
        ([X], z(1, 9), []),
        ([X], z(2, 1), [Deliver(z(2, 1), [b"x"])]),
    ],
)
def test_a_snapshot_replaces_the_log_and_becomes_a_real_state(
    tail: list[LogRun], consistent_at: Zxid, delivered: list[Effect]
) -> None:
    out: list[Effect] = []
    history = make_history(out, ABC, delivered=z(1, 2))
    zxid = z(1, 9)
    history.install(zxid, consistent_at, tail)
    assert out == [InstallSnapshot(zxid, consistent_at, tail)]
    assert history.synced == zxid
    assert not history.is_disk_idle and not history.is_synced_to(zxid)
    out.clear()
    history.installed(zxid)
    assert out == [AdoptSnapshot(zxid, consistent_at), *delivered]
    end = z(2, 1) if tail else zxid
    assert cursors(history) == (end, end, consistent_at)
    assert history.is_disk_idle
    with pytest.raises(AssertionError):
        history.installed(zxid)


@pytest.mark.parametrize(
    ("known", "consistent_at"), [(z(1, 5), z(1, 9)), (z(2, 1), z(2, 1)), (z(3, 7), z(2, 1))]
)
def test_a_snapshot_is_installed_with_what_is_known_to_be_committed(
    known: Zxid, consistent_at: Zxid
) -> None:
    out: list[Effect] = []
    history = make_history(out, ABC, delivered=z(1, 2))
    history.learn_committed(known)
    history.install(z(1, 9), z(1, 9), [X])
    assert out == [InstallSnapshot(z(1, 9), consistent_at, [X])]


def test_delivers_what_is_new_in_runs_of_one_epoch() -> None:
    out: list[Effect] = []
    history = make_history(out, ABC, X, delivered=z(1, 2))
    history.deliver(z(2, 1))
    assert out == [Deliver(z(1, 3), [b"c"]), Deliver(z(2, 1), [b"x"])]
    history.deliver(z(1, 3))
    assert len(out) == 2
    with pytest.raises(AssertionError):
        history.deliver(z(2, 2))


LONG = LogRun(z(1, 1), [b"12345"] * 10)


@pytest.mark.parametrize(
    ("limits", "delivered", "base"),
    [
        # Twice the limit is kept; above it, the limit.
        (RecentLogLimits(txns_max=5), z(1, 10), ZERO),
        (RecentLogLimits(txns_max=4), z(1, 10), z(1, 6)),
        (RecentLogLimits(txns_max=10, bytes_max=25), z(1, 10), ZERO),
        (RecentLogLimits(txns_max=10, bytes_max=20), z(1, 10), z(1, 6)),
        (RecentLogLimits(txns_max=1, bytes_max=1_000), z(1, 10), z(1, 9)),
        # What is not delivered is never forgotten.
        (RecentLogLimits(txns_max=2), z(1, 3), z(1, 3)),
    ],
)
def test_forgets_what_is_delivered_and_too_much(
    limits: RecentLogLimits, delivered: Zxid, base: Zxid
) -> None:
    history = make_history([], LONG, limits=limits)
    history.deliver(delivered)
    assert history.recent_log.base == base


def test_one_transaction_above_the_limit_is_kept() -> None:
    large = run(z(2, 1), b"12345")
    history = make_history([], large, base=z(1, 3), limits=RecentLogLimits(bytes_max=2))
    history.deliver(z(2, 1))
    assert history.recent_log.base == z(1, 3)


def test_a_pin_keeps_the_window_until_it_is_gone() -> None:
    history = make_history([], LONG, limits=RecentLogLimits(txns_max=1))
    history.pin(S2, z(1, 2))
    history.deliver(z(1, 9))
    assert history.recent_log.base == z(1, 2)
    history.unpin(S2)
    history.unpin(S2)
    history.deliver(z(1, 10))
    assert history.recent_log.base == z(1, 9)
