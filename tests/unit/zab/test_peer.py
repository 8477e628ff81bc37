"""Peer: what it tells its surroundings in each role, and what its callers must not do.

Its steps are scenarios, data/*.txt, run by test_peer_scenarios.py.
"""

from collections.abc import Callable

import pytest

from raykeeper.zab import trace_events
from raykeeper.zab.effects import Effect, Role, TraceEvent
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.zab.peer import Peer
from raykeeper.zab.settings import Settings
from tests.unit.zab.histories import NEW_DISK, S1, S3, T0, THREE, Bench, make_history, run, z

LOG = run(z(1, 1), b"a", b"b", b"c")


def server(server_id: ServerId = S1) -> Bench:
    return Bench(server_id, LOG, accepted=1, current=1)


def recovering_follower() -> Bench:
    bench = server()
    bench.elect(S3, S3)
    return bench


def following() -> Bench:
    bench = server()
    bench.follow(S3, 2)
    return bench


def recovering_leader() -> Bench:
    bench = server(S3)
    bench.elect(S3, S1)
    return bench


def leading() -> Bench:
    bench = server(S3)
    bench.lead(S1)
    return bench


@pytest.mark.parametrize(
    ("make", "role", "leader", "active"),
    [
        (server, Role.LOOKING, None, False),
        (recovering_follower, Role.FOLLOWER, S3, False),
        (following, Role.FOLLOWER, S3, True),
        (recovering_leader, Role.LEADER, S3, False),
        (leading, Role.LEADER, S3, True),
    ],
)
def test_role_and_leader(
    make: Callable[[], Bench], role: Role, leader: int | None, active: bool
) -> None:
    bench = make()
    peer = bench.peer
    assert (peer.role, peer.leader, peer.is_active) == (role, leader, active)
    assert (peer.broadcasting is not None) == (role is Role.LEADER and active)
    assert (peer.last_quorum_contact(bench.now) is not None) == active
    assert peer.deadline() is not None
    assert peer.epoch == (2 if active else 1)


def test_only_an_established_leader_proposes() -> None:
    with pytest.raises(AssertionError):
        recovering_leader().peer.propose([b"d"], Millis(0))


def test_tells_whether_another_disk_of_a_voter_is_new() -> None:
    peer = server().peer
    assert peer.voter_replaced(S3, NEW_DISK, z(2, 1), T0) is True
    assert peer.voter_replaced(S3, NEW_DISK, z(2, 2), T0) is False


def test_no_role_begins_before_the_start() -> None:
    """The recovered log is delivered first; an election would know half of the members."""
    out: list[Effect] = []
    peer = Peer(Settings(S1, THREE, NEW_DISK), make_history(out, LOG, accepted=1, current=1), out)
    peer.voter_replaced(S3, NEW_DISK, z(1, 1), T0)
    peer.voter_replaced(S1, NEW_DISK, z(1, 2), T0)
    assert peer.deadline() is None
    assert out == [
        TraceEvent(trace_events.VOTE_REPLACED, (S3, NEW_DISK)),
        TraceEvent(trace_events.VOTE_REPLACED, (S1, NEW_DISK)),
    ]
