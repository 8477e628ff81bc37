"""LeaderSessionTracker: reports, suspicion, expiry, and the loss of a tracker."""

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.effects import TrackSessions
from raykeeper.server.events import (
    ClientDisconnected,
    PeerFrame,
    SessionsOverdue,
    TrackerLost,
)
from raykeeper.server.peer_messages import (
    OwnedSession,
    TouchSessions,
    TouchSessionsReply,
)
from raykeeper.zab.effects import Append
from raykeeper.zab.feature_levels import LEVEL_OF_SUSPICION
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.errors import Code
from raykeeper.znodes.expiry import ExpiryProposal, SessionReport
from raykeeper.znodes.replies import (
    WatcherEvent,
)
from raykeeper.znodes.requests import CreateMode
from raykeeper.znodes.txns import CloseReason, CloseSessionTxn, SuspectSessionTxn, decode_txn
from tests.harness.pure_servers import Caller, PureServer, PureServers

FOLLOWER = ServerId(1)


def reports(host: PureServer) -> list[SessionReport]:
    return [effect.report for effect in host.of(TrackSessions)]


def proposal(host: PureServer, caller: Caller, **changed: int) -> ExpiryProposal:
    """Return the proposal of a tracker that heard nothing of the session after the last report."""
    last = [r for r in reports(host) if caller.session_id in [t.session_id for t in r.touched]][-1]
    fields = {
        "epoch": last.epoch,
        "session_id": caller.session_id,
        "owner_zxid": caller.owner,
        "batch": last.batch,
    }
    return ExpiryProposal(**(fields | changed))  # type: ignore[arg-type]


def test_the_first_report_is_full_and_later_ones_name_touched_sessions() -> None:
    host = PureServer()
    one, two = host.caller(1), host.caller(2, timeout_ms=5_000)
    host.pass_time(100)
    one.ask()
    host.pass_time(100)
    two.ask(two.close())
    host.pass_time(100)
    told = reports(host)
    assert [report.batch for report in told] == list(range(1, len(told) + 1))
    assert [report.full for report in told] == [True] + [False] * (len(told) - 1)
    named = [[touched.session_id for touched in report.touched] for report in told]
    assert named == [[], [one.session_id, two.session_id], [one.session_id], []]
    assert told[1].touched[1].timeout_ms == 5_000
    assert [report.ended for report in told] == [[], [], [], [two.session_id]]


def test_session_that_ends_before_its_report_is_not_named() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.close())
    host.pass_time(100)
    assert [touched for report in reports(host) for touched in report.touched] == []


@pytest.mark.parametrize(
    ("changed", "expires"),
    [
        ({}, True),
        ({"epoch": 2}, False),  # of another epoch
        ({"owner_zxid": 1}, False),  # the session has moved since
        ({"batch": 1}, False),  # the session was heard of since
        ({"session_id": 99}, False),
    ],
)
def test_an_expiry_proposal_counts_only_if_it_knew_the_last_touch(
    changed: dict[str, int], expires: bool
) -> None:
    host = PureServer()
    caller, other = host.caller(1), host.caller(2)
    caller.ask(caller.create("/e", b"", CreateMode.EPHEMERAL))
    other.ask(other.exists("/e", watch=True))
    host.pass_time(100)
    other.new()
    host.step(SessionsOverdue([proposal(host, caller, **changed)]))
    assert (caller.ended == Code.SESSION_EXPIRED) is expires
    assert [type(item) for item in other.new()] == [WatcherEvent] * expires
    dropped = [] if expires else [changed.get("session_id", caller.session_id)]
    assert host.notes(server_trace_events.EXPIRY_DROPPED) == dropped
    assert host.notes(server_trace_events.SESSION_EXPIRED) == [caller.session_id] * expires
    last = decode_txn(host.of(Append)[-1].txns[-1]).body
    ended = isinstance(last, CloseSessionTxn) and last.reason == CloseReason.EXPIRED
    assert ended is expires


def of_level_2(count: int = 1) -> PureServers:
    servers = PureServers(count, newest_level=LEVEL_OF_SUSPICION)
    servers.pass_time(300)
    return servers


def suspicions(host: PureServer) -> list[SuspectSessionTxn]:
    bodies = [decode_txn(txn).body for append in host.of(Append) for txn in append.txns]
    return [body for body in bodies if isinstance(body, SuspectSessionTxn)]


def test_half_a_timeout_in_silence_makes_a_session_suspected_and_the_other_half_ends_it() -> None:
    host = of_level_2()[1]
    host.track()
    caller = host.caller(timeout_ms=2_001)
    host.pass_time(100)
    (touched,) = reports(host)[-1].touched
    assert touched.timeout_ms == 1_001
    told = proposal(host, caller)
    host.pass_time(1_100)
    assert host.notes(server_trace_events.SESSION_SUSPECTED) == [caller.session_id]
    assert suspicions(host) == [SuspectSessionTxn(caller.session_id, True)]
    host.step(SessionsOverdue([told]))  # it is of before the second half
    assert caller.ended is None
    host.pass_time(1_000)
    assert caller.ended is None
    host.pass_time(300)
    assert caller.ended == Code.SESSION_EXPIRED
    assert len(suspicions(host)) == 1


def test_a_session_whose_suspicion_is_under_way_does_not_end_by_the_same_silence() -> None:
    host = of_level_2()[1]
    caller = host.caller()
    host.pass_time(100)
    told = proposal(host, caller)
    host.is_disk_held = True
    host.step(SessionsOverdue([told]))
    host.step(SessionsOverdue([told]))
    host.release_disk()
    assert caller.ended is None
    assert suspicions(host) == [SuspectSessionTxn(caller.session_id, True)]


def test_the_next_leader_gives_a_suspected_session_the_other_half_alone() -> None:
    servers = of_level_2(3)
    caller = servers[1].caller()
    servers.pass_time(100)
    servers[3].step(SessionsOverdue([proposal(servers[3], caller)]))
    servers.run()
    servers[1].step(ClientDisconnected(caller.connection))
    servers.crash(3)
    servers.pass_time(5_000)
    leader = servers.leader
    leader.step(SessionsOverdue([proposal(leader, caller)]))
    servers.run()
    assert leader.notes(server_trace_events.SESSION_EXPIRED) == [caller.session_id]


@pytest.mark.parametrize(("is_applied", "rejections"), [(True, 1), (False, 2)])
def test_no_heartbeat_is_confirmed_while_a_suspicion_may_outlive_it(
    is_applied: bool, rejections: int
) -> None:
    """Whoever leads next must not count the silence before a heartbeat that was confirmed."""
    servers = of_level_2(3)
    leader, caller = servers[3], servers[1].caller()
    servers.pass_time(100)
    told = proposal(leader, caller)
    for server in (1, 2):
        servers[server].is_disk_held = not is_applied
    leader.step(SessionsOverdue([told]))
    servers.run()
    leader.take()
    touch = TouchSessions(99, [OwnedSession(caller.session_id, caller.owner)])
    for number in range(3):
        if number == 2:
            for server in (1, 2):
                servers[server].is_disk_held = False
                servers[server].release_disk()
            servers.run()
        leader.step(PeerFrame(FOLLOWER, [touch]))
        servers.run()
    rejected = [reply.rejected for reply in leader.sent(TouchSessionsReply) if reply.number == 99]
    assert rejected == [[caller.session_id]] * rejections + [[]] * (3 - rejections)
    assert [each.is_suspected for each in suspicions(leader)] == [False]


def test_a_suspected_client_that_speaks_again_is_confirmed_by_a_later_report() -> None:
    servers = of_level_2(3)
    leader, caller = servers[3], servers[1].caller()
    servers.pass_time(100)
    leader.step(SessionsOverdue([proposal(leader, caller)]))
    servers.run()
    caller.ask()
    servers.pass_time(300)
    assert caller.answers[-1].heartbeat_seq == caller.beat
    assert [each.is_suspected for each in suspicions(leader)] == [True, False]
    servers.pass_time(300)
    assert len(suspicions(leader)) == 2


def test_an_exhausted_counter_delays_a_suspicion_to_the_next_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = of_level_2()[1]
    caller = host.caller()
    host.pass_time(100)
    monkeypatch.setattr("raykeeper.zab.leader_broadcast.COUNTER_MAX", 1)
    host.step(SessionsOverdue([proposal(host, caller)]))
    assert suspicions(host) == []
    monkeypatch.undo()
    host.pass_time(500)
    host.step(SessionsOverdue([proposal(host, caller)]))
    assert suspicions(host) == [SuspectSessionTxn(caller.session_id, True)]


def test_a_touch_after_the_report_outruns_the_expiry_proposal() -> None:
    host = PureServer()
    caller = host.caller()
    host.pass_time(100)
    told = proposal(host, caller)
    caller.ask()
    host.pass_time(100)
    host.step(SessionsOverdue([told]))
    assert caller.ended is None
    assert host.notes(server_trace_events.EXPIRY_DROPPED) == [caller.session_id]


def test_an_expiry_proposal_for_a_closing_session_is_dropped() -> None:
    host = PureServer()
    caller = host.caller()
    host.pass_time(100)
    told = proposal(host, caller)
    host.is_disk_held = True
    host.step(SessionsOverdue([told, told]))
    assert host.notes(server_trace_events.EXPIRY_DROPPED) == [caller.session_id]
    host.release_disk()
    assert caller.ended == Code.SESSION_EXPIRED


def test_a_follower_ignores_expiry_proposals_and_the_loss_of_a_tracker() -> None:
    servers = PureServers(2)
    caller = servers[1].caller()
    servers.pass_time(100)
    told = proposal(servers[2], caller)
    servers[1].take()
    servers[1].step(SessionsOverdue([told]), TrackerLost())
    assert servers[1].take() == []


def test_lost_tracker_gives_every_session_its_whole_timeout() -> None:
    host = PureServer()
    caller = host.caller()
    host.pass_time(100)
    told = proposal(host, caller)
    host.take()
    host.step(TrackerLost())
    host.pass_time(100)
    (report,) = reports(host)
    assert report.full and [t.session_id for t in report.touched] == [caller.session_id]
    host.step(SessionsOverdue([told]))
    assert caller.ended is None


def test_the_last_report_of_a_dead_server_keeps_no_session_alive() -> None:
    """The tracker lives longer than its server, whose last call may be run late.

    1. The server reports a session, and dies; the call is under way.
    2. The server leads again, and reports the session, whose client is gone.
    3. The session is overdue when the call of step 1 is run. The answer reaches nobody.
    4. The next report of the living server gets the proposal.
    """
    host = PureServer()
    host.track()
    caller = host.caller(timeout_ms=1_050)
    host.pass_time(100)
    late = reports(host)[-1]
    host.start()
    host.pass_time(1_060)
    assert caller.session_id in host.server.state.sessions.by_id
    host.tracker.track(late, host.clock.now)
    host.pass_time(40)
    assert caller.session_id not in host.server.state.sessions.by_id


def test_leader_expires_sessions_itself_after_two_losses() -> None:
    host = PureServer()
    quiet, loud = host.caller(1, timeout_ms=1_000), host.caller(2, timeout_ms=1_000)
    host.pass_time(100)
    host.step(TrackerLost())
    host.pass_time(100)
    host.step(TrackerLost())
    assert host.notes(server_trace_events.TRACKER_LOST) == [0, 1]
    assert host.notes(server_trace_events.TRACKER_REPLACED) == [1]
    host.take()
    for _ in range(20):
        host.pass_time(100)
        loud.ask()
    assert quiet.ended == Code.SESSION_EXPIRED
    assert loud.ended is None
    assert reports(host) == []
    host.step(TrackerLost())  # late: the tracker is no longer used
    assert host.notes(server_trace_events.TRACKER_LOST) == []


def test_losses_far_apart_each_count_as_the_first() -> None:
    host = PureServer()
    host.step(TrackerLost())
    host.pass_time(20_000)
    host.step(TrackerLost())
    assert host.notes(server_trace_events.TRACKER_LOST) == [0, 1]
    assert host.notes(server_trace_events.TRACKER_REPLACED) == []
