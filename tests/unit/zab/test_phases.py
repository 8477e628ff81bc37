"""The table of messages, walked whole: every role, phase and sender with every message."""

from collections.abc import Callable
from functools import partial

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import BreakLink
from raykeeper.zab.ids import FOUNDING_DISK, Epoch, ServerId
from raykeeper.zab.messages import (
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    Ping,
    Proposals,
    Snapshot,
    ZabMessage,
)
from raykeeper.zab.phases import (
    ANSWER,
    FOLLOWER_BROADCAST,
    FOLLOWER_RECOVERY,
    HANDLE,
    LEADER_BROADCAST,
    LEADER_MESSAGES,
    LEADER_RECOVERY,
    LEARNER_MESSAGES,
    NOT_A_LEARNER,
    STALE,
    UNRELATED,
    FollowerPhase,
    Row,
)
from tests.unit.zab.histories import S1, S2, S3, Bench, noted, run, sent, z
from tests.unit.zab.test_messages import ALL

E2 = Epoch(2)
LOG = run(z(1, 1), b"a", b"b", b"c")
MESSAGES: dict[type, ZabMessage] = {type(message): message for message in ALL[1:]}


def handled(row: Row) -> set[type]:
    return {kind for kind, fate in row.fates.items() if fate is HANDLE}


def test_every_message_of_the_protocol_is_in_the_table() -> None:
    assert {*LEADER_MESSAGES, *LEARNER_MESSAGES} == set(MESSAGES)
    assert not {*LEADER_MESSAGES} & {*LEARNER_MESSAGES}
    assert set(FOLLOWER_RECOVERY) == set(FollowerPhase)
    rows = [*FOLLOWER_RECOVERY.values(), FOLLOWER_BROADCAST]
    # Every message of a leader is handled in some phase.
    assert set().union(*map(handled, rows)) == {*LEADER_MESSAGES}
    assert handled(LEADER_RECOVERY) < handled(LEADER_BROADCAST) == {*LEARNER_MESSAGES}
    # Towards a server with which there is no tie nothing is a breach.
    for row in (UNRELATED, NOT_A_LEARNER):
        assert set(row.fates) == set(MESSAGES)


def follower(phase: FollowerPhase) -> Bench:
    """Server 1 behind server 3, in a phase of its recovery."""
    bench = Bench(S1, LOG, accepted=1, current=1)
    bench.elect(S3, S3)
    if phase is FollowerPhase.DISCOVERY:
        return bench
    bench.hear(S3, LeaderInfo(E2, 1))
    if phase is FollowerPhase.PROMISING:
        return bench
    bench.save_epochs()
    if phase is FollowerPhase.RECEIVING:
        bench.hear(S3, Snapshot(z(1, 9)))
    elif phase is not FollowerPhase.PROMISED:
        bench.hear(S3, Diff())
    if phase is FollowerPhase.LOGGING:
        bench.hear(S3, Proposals(z(1, 4), [b"d"]), NewLeader(E2, z(1, 4)))
    elif phase in (FollowerPhase.CONFIRMING, FollowerPhase.CONFIRMED):
        bench.hear(S3, NewLeader(E2, z(1, 3)))
    if phase is FollowerPhase.CONFIRMED:
        bench.save_epochs()
    return bench


def established() -> Bench:
    bench = Bench(S1, LOG, accepted=1, current=1)
    bench.follow(S3, 2)
    return bench


def recovering_leader() -> Bench:
    bench = Bench(S3, LOG, accepted=1, current=1)
    bench.elect(S3, S1)
    bench.hear(S1, FollowerInfo(Epoch(1), 1, FOUNDING_DISK))
    bench.save_epochs()
    return bench


def broadcasting_leader() -> Bench:
    bench = Bench(S3, LOG, accepted=1, current=1)
    bench.lead(S1)
    return bench


def unrelated() -> Bench:
    return Bench(S1, LOG, accepted=1, current=1)


SITUATIONS: list[tuple[Row, Callable[[], Bench], ServerId]] = [
    *((row, partial(follower, phase), S3) for phase, row in FOLLOWER_RECOVERY.items()),
    (FOLLOWER_BROADCAST, established, S3),
    (LEADER_RECOVERY, recovering_leader, S1),
    (LEADER_BROADCAST, broadcasting_leader, S1),
    (NOT_A_LEARNER, recovering_leader, S2),
    (NOT_A_LEARNER, broadcasting_leader, S2),
    (UNRELATED, unrelated, S2),
    (UNRELATED, partial(follower, FollowerPhase.PROMISED), S2),
    (UNRELATED, established, S2),
]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("row", "make", "sender"), SITUATIONS)
def test_each_message_meets_the_fate_of_its_row(
    row: Row, make: Callable[[], Bench], sender: ServerId, kind: type
) -> None:
    bench = make()
    if sender not in bench.peer.links:
        bench.link(sender)
    assert bench.peer._row(sender) is row
    message = LeaderInfo(E2, 1) if kind is LeaderInfo else MESSAGES[kind]
    bench.take()
    bench.hear(sender, message)
    found = bench.take()
    refusals = [e.reason for e in found if isinstance(e, BreakLink)]
    refused = f"{kind.__name__} while {row.situation}"
    fate = row.fates.get(kind)
    if fate is HANDLE:
        assert trace_events.MESSAGE_STALE not in noted(found) and refused not in refusals
    elif fate is None:
        assert refusals == [refused]
    else:
        assert noted(found) == [trace_events.MESSAGE_STALE] and refusals == []
        # FOLLOWERINFO alone is answered: its sender takes us for a leader.
        assert len(sent(found, sender)) == (fate is ANSWER) == (fate is not STALE)


@pytest.mark.parametrize("phase", FollowerPhase)
def test_leaderinfo_for_an_earlier_attempt_to_follow_is_stale(phase: FollowerPhase) -> None:
    bench = follower(phase)
    bench.take()
    bench.hear(S3, LeaderInfo(E2, 0))
    assert noted(bench.take()) == [trace_events.MESSAGE_STALE]


def test_a_breach_costs_the_link_and_nothing_else() -> None:
    bench = broadcasting_leader()
    bench.take()
    bench.hear(S1, AckEpoch(E2, z(1, 1), True))
    assert any(isinstance(effect, BreakLink) for effect in bench.take())
    assert S1 not in bench.peer.links
    bench.hear(S1, Ping(1), Commit(z(1, 1)))
    assert noted(bench.take()) == [trace_events.MESSAGE_STALE] * 2
