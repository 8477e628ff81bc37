"""The feature level: announced by all, raised by the leader, refused where it is not known."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.effects import SaveLevel
from raykeeper.server.events import DiskSpaceChanged, PeerFrame
from raykeeper.zab import trace_events
from raykeeper.zab.effects import Append
from raykeeper.zab.feature_levels import LEVEL_MAX, LEVEL_MIN, FeatureLevel
from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.zab.messages import Proposals
from raykeeper.zab.settings import RecentLogLimits
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.txns import (
    RaiseLevelTxn,
    ReplaceVoterTxn,
    Txn,
    UnknownTxnError,
    decode_txn,
    encode_txn,
    level_required_by,
)
from tests.harness.pure_servers import PureServer, PureServers

REPORT_MS = 200
NO_DIFF = RecentLogLimits(txns_max=1, read_log_bytes_max=1)


def upgrade(servers: PureServers, *numbers: int, to: FeatureLevel = LEVEL_MAX) -> None:
    for number in numbers:
        servers.crash(number)
        servers.down[number].newest_level = to
        servers.restart(number)
        servers.pass_time(REPORT_MS)


def write(servers: PureServers) -> None:
    """Write so much that a window of one transaction has moved on."""
    caller = servers[1].caller()
    for number in range(6):
        caller.ask(caller.create(f"/{number}"))


def raises(host: PureServer) -> list[int]:
    bodies = [decode_txn(txn).body for _, txn in host.disk.log]
    return [body.level for body in bodies if isinstance(body, RaiseLevelTxn)]


def levels(servers: PureServers) -> list[tuple[int, int]]:
    """Of each server that runs: the level in force, and the one that its disk requires."""
    return [(host.server.state.level, host.disk.level) for host in servers.hosts.values()]


def test_the_level_is_raised_once_all_members_know_it() -> None:
    servers = PureServers(3)
    upgrade(servers, 1, 2)
    assert levels(servers) == [(1, 1)] * 3 and raises(servers[1]) == []
    upgrade(servers, 3)
    servers.pass_time(REPORT_MS)
    assert levels(servers) == [(2, 2)] * 3
    assert all(raises(servers[number]) == [2] for number in (1, 2, 3))  # once
    assert len(set(servers.digests())) == 1
    assert all(h.notes(server_trace_events.LEVEL_RAISED) == [2] for h in servers.hosts.values())
    # The next leader does not raise it again.
    upgrade(servers, 1, 2, 3)
    servers[1].caller()
    assert levels(servers) == [(2, 2)] * 3 and raises(servers[1]) == [2]


def test_the_level_is_not_raised_while_a_step_of_the_member_list_is_open() -> None:
    """The list that it makes may have a server whose program was not asked for."""
    servers = PureServers(3)
    upgrade(servers, 1, 2)
    servers.crash(1)
    servers.down[1].disk.repair()
    upgrade(servers, 3)
    servers.pass_time(5_000)
    leader = int(servers.leader.server_id)
    other = 5 - leader
    servers.hold(other, leader)
    servers.restart(1)
    servers.pass_time(2 * REPORT_MS)
    assert servers.leader.settings.members.is_changing, "the vote of 1 moves to its new disk"
    assert levels(servers) == [(1, 1)] * 3
    servers.release(other, leader)
    servers.pass_time(2 * REPORT_MS)
    assert levels(servers) == [(2, 2)] * 3
    kinds = [type(decode_txn(txn).body) for _, txn in servers.leader.disk.log]
    assert kinds[-3:] == [ReplaceVoterTxn, ReplaceVoterTxn, RaiseLevelTxn]


def test_a_member_that_is_away_is_waited_for() -> None:
    servers = PureServers(3)
    upgrade(servers, 1, 2)
    servers.crash(3)
    servers.pass_time(3 * REPORT_MS)
    assert levels(servers) == [(1, 1)] * 2
    servers.down[3].newest_level = LEVEL_MAX
    servers.restart(3)
    servers.pass_time(REPORT_MS)
    assert levels(servers) == [(2, 2)] * 3


def test_any_program_may_go_back_before_the_raise() -> None:
    servers = PureServers(3)
    upgrade(servers, 1, 2)
    upgrade(servers, 1, 2, to=LEVEL_MIN)
    assert levels(servers) == [(1, 1)] * 3
    assert servers[1].server.stats().has_vote


def test_a_program_of_before_is_refused_after_the_raise() -> None:
    """Its disk holds no raise: it was away when that was proposed, and its program changed since.

    A disk that holds it is refused by its store.
    """
    servers = PureServers(3)
    upgrade(servers, 1, 2, 3)
    servers.crash(2)
    old = servers.down[2]
    old.disk.repair()
    old.newest_level = old.disk.level = LEVEL_MIN
    servers.restart(2)
    servers.pass_time(REPORT_MS)
    (leader,) = [host for host in servers.hosts.values() if host.server.peer.broadcasting]
    (refusal, *_) = leader.notes(trace_events.LEVEL_REFUSED)
    assert refusal == (ServerId(2), "its program knows feature level 1, and 2 is required")
    assert old.server.peer.role.value == "looking"
    servers[leader.server_id].caller(5)  # the others go on


def test_the_disk_is_marked_before_the_raise_is_logged() -> None:
    servers = PureServers(3)
    upgrade(servers, 1, 2)
    servers.crash(3)
    for host in servers.hosts.values():
        host.take()
    servers.down[3].newest_level = LEVEL_MAX
    servers.restart(3)
    servers.pass_time(REPORT_MS)
    for host in servers.hosts.values():
        (marked,) = [i for i, e in enumerate(host.effects) if e == SaveLevel(LEVEL_MAX)]
        runs = [(i, e.txns) for i, e in enumerate(host.effects) if isinstance(e, Append)]
        (logged,) = [i for i, txns in runs if level_required_by(Zxid(1), txns) == LEVEL_MAX]
        assert marked < logged


@pytest.mark.parametrize("window", [None, NO_DIFF])
def test_a_learner_gets_the_level_with_the_history(window: RecentLogLimits | None) -> None:
    """By a DIFF, or with a snapshot, which says it: its disk is marked either way."""
    servers = PureServers(3, window=window)
    upgrade(servers, 1, 2, 3)
    write(servers)
    servers.crash(2)
    servers.down[2].disk.repair()
    servers.down[2].disk.level = LEVEL_MIN
    servers.restart(2)
    servers.pass_time(REPORT_MS)
    assert levels(servers) == [(2, 2)] * 3
    assert len(set(servers.digests())) == 1
    assert bool(servers[2].disk.snapshots) is (window is not None)


def test_a_level_may_be_held_back() -> None:
    servers = PureServers(3)
    for host in servers.hosts.values():
        host.raise_to = LEVEL_MIN
    upgrade(servers, 1, 2, 3)
    servers.pass_time(REPORT_MS)
    assert levels(servers) == [(1, 1)] * 3


def test_a_disk_that_requires_a_level_requires_it_after_a_restart() -> None:
    """The raise was cut off its log again; the mark stays, and keeps out older programs."""
    host = PureServer()
    host.newest_level, host.disk.level = LEVEL_MAX, LEVEL_MAX
    host.start()
    assert host.settings.levels.required == LEVEL_MAX


def test_what_no_program_of_before_knows_is_named_before_it_is_logged() -> None:
    servers = PureServers(3)
    upgrade(servers, 1, 2)
    leader = next(host for host in servers.hosts.values() if host.server.peer.broadcasting)
    follower = servers[1 if leader.server_id != 1 else 2]
    role = leader.server.peer.broadcasting
    assert role is not None
    change = RaiseLevelTxn(FeatureLevel(3))
    txn = encode_txn(Txn(SessionId(0), 0, 0, Millis(1), change))
    with pytest.raises(UnknownTxnError, match="the leader sent what requires feature level 3"):
        follower.step(PeerFrame(leader.server_id, [Proposals(role.next_zxid(), [txn])]))


def test_a_leader_with_a_full_disk_raises_nothing() -> None:
    host = PureServer()
    host.newest_level, host.raise_to = LEVEL_MAX, LEVEL_MIN
    host.start()
    host.pass_time(REPORT_MS)
    host.step(DiskSpaceChanged(False))
    host.settings.levels.raise_to = LEVEL_MAX
    host.pass_time(REPORT_MS)
    assert host.server.peer.broadcasting is not None and host.server.state.level == LEVEL_MIN
    host.step(DiskSpaceChanged(True))
    host.pass_time(10 * REPORT_MS)
    assert host.server.state.level == LEVEL_MAX


def test_a_snapshot_of_a_newer_level_is_rejected() -> None:
    """Its leader should not have admitted this server."""
    servers = PureServers(3, window=NO_DIFF)
    upgrade(servers, 1, 2, 3)
    write(servers)
    servers.crash(2)
    old = servers.down[2]
    old.disk.repair()
    old.newest_level = LEVEL_MIN
    (leader,) = [host for host in servers.hosts.values() if host.server.peer.broadcasting]
    leader.settings.levels.required = LEVEL_MIN
    servers.restart(2)
    servers.pass_time(REPORT_MS)
    (peer, reason), *_ = old.notes(trace_events.MESSAGE_ILLEGAL)
    assert peer == leader.server_id
    assert reason == (
        "the snapshot requires feature level 2, and this program knows 1 alone; "
        "use the program of that level"
    )
    assert old.disk.level == LEVEL_MIN and old.disk.snapshots == []
