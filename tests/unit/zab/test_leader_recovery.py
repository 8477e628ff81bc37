"""LeaderRecovery: the quorums of uncertain promises, and what its callers must not do.

Its steps are scenarios, data/leader_recovery.txt.
"""

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import SaveEpochs
from raykeeper.zab.ids import FOUNDING_DISK, Epoch, ServerId
from raykeeper.zab.leader_recovery import LeaderRecovery
from raykeeper.zab.member_list import MemberList
from raykeeper.zab.messages import AckEpoch, Diff, FollowerInfo
from raykeeper.zab.settings import Settings
from raykeeper.zab.transitions import StepDown
from tests.unit.zab.histories import (
    S1,
    S2,
    S3,
    S4,
    S5,
    T0,
    THREE,
    Bench,
    make_history,
    noted,
    run,
    z,
)

FIVE = (S1, S2, S3, S4, S5)
E1, E2 = Epoch(1), Epoch(2)
HELLO = FollowerInfo(E1, 1, FOUNDING_DISK)
PROMISE = AckEpoch(E1, z(1, 2), True)
UNCERTAIN = AckEpoch(E1, z(1, 2), True, is_uncertain=True)


@pytest.mark.parametrize(
    ("voters", "is_uncertain", "promises", "goes_on"),
    [
        # A quorum of healthy ones is enough.
        (THREE, False, [(S1, PROMISE)], True),
        (THREE, False, [(S1, UNCERTAIN)], False),
        (THREE, True, [(S1, PROMISE)], False),
        (FIVE, False, [(S1, PROMISE), (S2, UNCERTAIN)], False),
        (FIVE, True, [(S1, PROMISE), (S2, PROMISE), (S4, PROMISE)], True),
        # Else all of an odd ensemble, healthy or not.
        (THREE, False, [(S1, UNCERTAIN), (S2, UNCERTAIN)], True),
        (THREE, True, [(S1, UNCERTAIN), (S2, UNCERTAIN)], True),
        (FIVE, True, [(S1, PROMISE), (S2, UNCERTAIN), (S4, UNCERTAIN)], False),
        (FIVE, True, [(S1, UNCERTAIN), (S2, UNCERTAIN), (S4, UNCERTAIN), (S5, PROMISE)], True),
        # Who has no vote is not one of them.
        (THREE, False, [(S1, UNCERTAIN), (ServerId(9), UNCERTAIN)], False),
    ],
)
def test_count_with_enough_others(
    voters: tuple[ServerId, ...],
    is_uncertain: bool,
    promises: list[tuple[ServerId, AckEpoch]],
    goes_on: bool,
) -> None:
    """Rule D4: promises of servers that may lack what was acknowledged last."""
    log = run(z(1, 1), b"a", b"b")
    bench = Bench(S3, log, voters=voters, accepted=1, current=1, is_uncertain=is_uncertain)
    bench.elect(S3, *(server for server in voters if server != S3))
    bench.link(ServerId(9))
    for server, _ in promises:
        bench.hear(server, HELLO)
    bench.save_epochs()
    bench.take()
    for server, promise in promises:
        bench.hear(server, promise)
    assert (SaveEpochs(E2, E2) in bench.out) is goes_on
    assert isinstance(bench.peer._role, LeaderRecovery)


ADDED = MemberList(z(1, 2), dict.fromkeys((S1, S2, S3, S4), FOUNDING_DISK))
REMOVED = MemberList(z(1, 2), dict.fromkeys((S1, S3), FOUNDING_DISK))
SWAPPED = MemberList(z(1, 2), dict.fromkeys((S1, S3, S4), FOUNDING_DISK))  # 4 takes 2's place
AHEAD = AckEpoch(E1, z(1, 3), True)
SAME_LOG, WITHOUT_STEP = AckEpoch(E2, z(1, 2), True), AckEpoch(E2, z(1, 1), True)


@pytest.mark.parametrize(
    ("new", "promises", "goes_on"),
    [
        (SWAPPED, {S2: PROMISE, S4: PROMISE}, True),
        # What 4 has beyond the step may be committed by the new list alone.
        (SWAPPED, {S2: PROMISE, S4: AHEAD}, False),
        (SWAPPED, {S2: PROMISE, S4: AHEAD, S1: PROMISE}, True),
        # What 2 has may be committed by the old list alone, in an epoch without the step.
        (SWAPPED, {S2: AHEAD, S4: PROMISE}, False),
        (SWAPPED, {S2: AHEAD, S4: PROMISE, S1: PROMISE}, True),
        # What 4 has of a later epoch is the same log.
        (SWAPPED, {S2: PROMISE, S4: SAME_LOG}, True),
        # 4 followed a later leader that did not know the step: it counted for nothing there.
        (SWAPPED, {S2: PROMISE, S4: WITHOUT_STEP}, True),
        (SWAPPED, {S2: WITHOUT_STEP, S4: PROMISE}, False),
        # A majority of the new list has others than the newcomer, two of which are here.
        (ADDED, {S1: PROMISE, S4: AHEAD}, True),
        (REMOVED, {S1: PROMISE, S2: AHEAD}, True),
        # The disks of both must be whole.
        (SWAPPED, {S1: UNCERTAIN, S4: AHEAD}, False),
        (SWAPPED, {S1: UNCERTAIN, S2: UNCERTAIN, S4: UNCERTAIN}, True),
    ],
)
def test_who_is_ahead_by_one_list_alone_does_not_tell_what_was_acknowledged(
    new: MemberList, promises: dict[ServerId, AckEpoch], goes_on: bool
) -> None:
    bench = Bench(S3, run(z(1, 1), b"a", b"b"), accepted=1, current=1)
    bench.elect(S3, S1, S2)
    bench.peer.list_logged(new)
    bench.link(S4)
    for server in promises:
        bench.hear(server, HELLO)
    bench.save_epochs()
    bench.take()
    for server, promise in promises.items():
        bench.hear(server, promise)
    assert isinstance(bench.peer._role, LeaderRecovery)
    assert (SaveEpochs(E2, E2) in bench.out) is goes_on
    is_ahead = not {PROMISE, UNCERTAIN}.issuperset(promises.values())
    assert (trace_events.NEWER_HISTORY_FOUND in noted(bench.out)) is is_ahead


def make_leader() -> LeaderRecovery:
    out: list[object] = []
    history = make_history(out, accepted=1, current=1)  # type: ignore[arg-type]
    return LeaderRecovery(Settings(S3, THREE), history, out, T0)  # type: ignore[arg-type]


def test_begins_only_when_the_disk_is_settled() -> None:
    history = make_history([])
    history.append(z(1, 1), [b"a"])
    with pytest.raises(AssertionError):
        LeaderRecovery(Settings(S3, THREE), history, [], T0)


def test_nothing_is_heard_after_the_end() -> None:
    leader = make_leader()
    leader.transition = StepDown("over")
    leader.receive(S1, HELLO, T0)
    assert leader._out == []


def test_an_illegal_message_of_a_learner_is_a_bug_of_the_caller() -> None:
    leader = make_leader()
    with pytest.raises(AssertionError):
        leader.receive(S1, PROMISE, T0)
    leader.receive(S1, HELLO, T0)
    with pytest.raises(AssertionError):
        leader.receive(S1, Diff(), T0)  # type: ignore[arg-type]
