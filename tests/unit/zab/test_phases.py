"""The table of legality, walked whole: every role and phase with every message."""

from collections.abc import Callable
from typing import get_args

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import BreakLink, Send
from raykeeper.zab.ids import FOUNDING_DISK, Epoch
from raykeeper.zab.messages import (
    AckEpoch,
    Commit,
    Diff,
    FollowerInfo,
    LeaderInfo,
    LeaderMessage,
    LearnerMessage,
    NewLeader,
    Ping,
    Proposals,
    Snapshot,
    ZabMessage,
)
from raykeeper.zab.phases import (
    FOLLOWER_BROADCAST,
    FOLLOWER_RECOVERY,
    LEADER_BROADCAST,
    LEADER_MESSAGES,
    LEADER_RECOVERY,
    LEARNER_MESSAGES,
    FollowerPhase,
)
from tests.unit.zab.histories import S1, S2, S3, Bench, noted, run, z
from tests.unit.zab.test_messages import ALL

E2 = Epoch(2)
LOG = run(z(1, 1), b"a", b"b", b"c")
MESSAGES: dict[type, ZabMessage] = {type(message): message for message in ALL[1:]}


def test_the_tables_speak_of_the_messages_there_are() -> None:
    assert set(get_args(LeaderMessage)) == LEADER_MESSAGES
    assert set(get_args(LearnerMessage)) == LEARNER_MESSAGES
    assert not LEADER_MESSAGES & LEARNER_MESSAGES
    assert set(FOLLOWER_RECOVERY) == set(FollowerPhase)
    for legal in FOLLOWER_RECOVERY.values():
        assert legal < LEADER_MESSAGES
    assert FOLLOWER_BROADCAST < LEADER_MESSAGES
    assert LEADER_RECOVERY < LEADER_BROADCAST == LEARNER_MESSAGES
    # Nothing a leader says is illegal in all phases.
    assert FOLLOWER_BROADCAST.union(*FOLLOWER_RECOVERY.values()) == LEADER_MESSAGES


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


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("phase", FollowerPhase)
def test_a_recovering_follower(phase: FollowerPhase, kind: type) -> None:
    bench = follower(phase)
    role = bench.peer._role
    assert role.phase is phase  # type: ignore[union-attr]
    message = MESSAGES[kind]
    if kind is LeaderInfo:
        message = LeaderInfo(E2, 1)
    bench.take()
    bench.hear(S3, message)
    found = bench.take()
    refusals = [e.reason for e in found if isinstance(e, BreakLink)]
    if kind in LEARNER_MESSAGES:
        assert trace_events.MESSAGE_STALE in noted(found)
    elif kind in FOLLOWER_RECOVERY[phase]:
        assert f"{kind.__name__} while {phase.value}" not in refusals
        assert trace_events.MESSAGE_STALE not in noted(found)
    elif phase is FollowerPhase.DISCOVERY:
        assert trace_events.MESSAGE_STALE in noted(found)
    else:
        assert refusals == [f"{kind.__name__} while {phase.value}"]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_follower_in_broadcast(kind: type) -> None:
    bench = established()
    bench.take()
    bench.hear(S3, MESSAGES[kind])
    found = bench.take()
    refusals = [e.reason for e in found if isinstance(e, BreakLink)]
    illegal = f"{kind.__name__} in a follower's broadcast"
    if kind is FollowerInfo:
        assert trace_events.MESSAGE_STALE in noted(found) and refusals == []
    elif kind in FOLLOWER_BROADCAST:
        assert illegal not in refusals
    else:
        assert refusals == [illegal]


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("make", [recovering_leader, broadcasting_leader])
def test_a_leader(make: Callable[[], Bench], known: bool, kind: type) -> None:
    bench = make()
    sender = S1 if known else S2
    bench.link(S2)
    bench.take()
    bench.hear(sender, MESSAGES[kind])
    found = bench.take()
    refusals = [e.reason for e in found if isinstance(e, BreakLink)]
    illegal = f"{kind.__name__} in a leader's recovery"
    if kind in LEADER_MESSAGES or (not known and kind is not FollowerInfo):
        assert noted(found) == [trace_events.MESSAGE_STALE] and refusals == []
    elif make is recovering_leader and kind not in LEADER_RECOVERY:
        assert refusals == [illegal]
    else:
        assert trace_events.MESSAGE_STALE not in noted(found) and illegal not in refusals


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "make",
    [
        lambda: Bench(S1, LOG, accepted=1, current=1),
        lambda: follower(FollowerPhase.PROMISED),
        established,
    ],
)
def test_from_somebody_who_is_nothing_to_us(make: Callable[[], Bench], kind: type) -> None:
    """Only FOLLOWERINFO is answered: its sender takes us for a leader."""
    bench = make()
    bench.link(S2)
    bench.take()
    bench.hear(S2, MESSAGES[kind])
    found = bench.take()
    assert noted(found) == [trace_events.MESSAGE_STALE]
    assert [type(e) for e in found if isinstance(e, Send)] == [Send] * (kind is FollowerInfo)


def test_a_breach_costs_the_link_and_nothing_else() -> None:
    bench = broadcasting_leader()
    bench.take()
    bench.hear(S1, AckEpoch(E2, z(1, 1), True))
    assert any(isinstance(effect, BreakLink) for effect in bench.take())
    assert S1 not in bench.peer.links
    bench.hear(S1, Ping(1), Commit(z(1, 1)))
    assert noted(bench.take()) == [trace_events.MESSAGE_STALE] * 2
