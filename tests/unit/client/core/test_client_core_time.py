"""ClientCore: heartbeats, timeouts, and the deadline to let go."""

from typing import Any

import pytest

from raykeeper.client.core.effects import (
    CallWatchers,
    CloseLink,
    Complete,
    Fail,
    TimedOut,
)
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientState, WatchedEvent
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.errors import (
    AuthFailedError,
    Code,
    ConnectionLossError,
    KeeperError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EventType,
    GetDataReply,
    WatcherEvent,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Delete,
    GetData,
)
from tests.unit.client.wire import SESSION, SET, STAT, SUSPENDED, S, Wire, Z, done


def test_a_heartbeat_follows_a_third_of_the_timeout_without_a_frame() -> None:
    wire = Wire().serving()  # Connect left at 1000
    # 4000, less the rest to a multiple of 45.
    assert wire.core.deadline() == 3960
    assert wire.at(3959).wake() == []
    assert wire.at(3960).wake() == [ClientFrame(1, [])]
    wire.at(5000).items(heartbeat_seq=1)
    wire.at(6000).submit(SET)
    assert wire.core.deadline() == 9000
    assert wire.at(9000).wake() == [ClientFrame(3, [])]


def test_timers_follow_the_granted_timeout() -> None:
    wire = Wire()
    wire.start()
    wire.opened()
    wire.connected(timeout_ms=3000)
    assert wire.core.deadline() == 1995  # a multiple of 15
    wire.at(1995).wake()
    assert wire.core.deadline() == 2985
    wire.at(2985).wake()
    assert wire.core.deadline() == 3000  # silence
    assert wire.at(3000).wake()[1] == SUSPENDED
    wire.at(3849).wake()
    assert not wire.core.is_lost(Millis(3849))
    assert wire.core.is_lost(Millis(3850))
    assert wire.at(3850).wake()[1].state is ClientState.LOST


LET_GO = 1000 + S - S // 20  # Connect left at 1000


def test_a_client_is_lost_before_its_session_can_expire() -> None:
    wire = Wire().serving()
    read, watch = Query(GetData, "/a"), Query(GetData, "/w", "watcher")
    wire.submit(watch)
    wire.items(GetDataReply(1, Z[2], b"", STAT))
    wire.submit(SET, read)
    wire.at(LET_GO - 1).failed()
    wire.submit(Delete("/a", -1))
    assert wire.core.deadline() == LET_GO
    closing, lost, *ends, fired = wire.at(LET_GO).wake()
    assert isinstance(closing, CloseLink)
    assert lost.state is ClientState.LOST
    assert isinstance(lost.cause, SessionExpiredError)
    # A write may have happened, unless it never left; a read has changed nothing.
    assert [(end.token, type(end.error), end.error.definite) for end in ends] == [
        (SET, SessionExpiredError, False),
        (read, SessionExpiredError, True),
        (Delete("/a", -1), SessionExpiredError, True),
    ]
    event = WatchedEvent(EventType.NONE, ClientState.LOST, "/w", ZERO)
    assert fired == CallWatchers(["watcher"], event)
    (refused,) = wire.submit(SET)
    assert isinstance(refused.error, SessionExpiredError)
    assert refused.error.definite
    assert wire.core.deadline() is None


def test_the_deadline_counts_from_the_sending_of_the_confirmed_frame() -> None:
    wire = Wire().serving()
    wire.at(2000).submit(SET)
    wire.at(3000).submit(SET)
    wire.at(7000).items(heartbeat_seq=1)  # the leader heard the frame that left at 2000
    margin = S // 20
    assert not wire.core.is_lost(Millis(2000 + S - margin - 1))
    wire.at(8000).items(heartbeat_seq=1)  # nothing new
    wire.at(9000).items(heartbeat_seq=2)
    assert not wire.core.is_lost(Millis(3000 + S - margin - 1))
    assert wire.core.is_lost(Millis(3000 + S - margin))


def test_a_connection_confirms_when_its_connect_was_sent() -> None:
    wire = Wire().serving()
    wire.at(5000).failed()
    wire.at(5500).opened()
    wire.at(6000).connected()
    assert not wire.core.is_lost(Millis(5500 + S - S // 20 - 1))
    assert wire.core.is_lost(Millis(5500 + S - S // 20))


def test_late_frames_do_not_bring_back_a_session() -> None:
    wire = Wire().serving()
    wire.submit(SET)
    # The process stood still: the answer waited in the link, and confirms nothing recent.
    closing, lost, end = wire.at(LET_GO).items(done(1), heartbeat_seq=0)
    assert isinstance(closing, CloseLink)
    assert lost.state is ClientState.LOST
    assert not end.error.definite
    # But what confirms a recent frame counts first.
    wire = Wire().serving()
    wire.at(5000).submit(SET)
    assert wire.at(LET_GO).items(done(1), heartbeat_seq=1) == [Complete(SET, done(1))]


def test_a_lost_client_stays_lost() -> None:
    wire = Wire().serving()
    wire.at(5000).submit(SET)
    assert wire.core.is_lost(Millis(LET_GO))  # and its locks were let go
    closing, lost, end = wire.at(LET_GO).items(done(1), heartbeat_seq=1)
    assert isinstance(closing, CloseLink)
    assert lost.state is ClientState.LOST
    assert isinstance(end, Fail)


def test_a_closing_client_counts_as_lost() -> None:
    wire = Wire().serving()
    wire.at(5000).submit(SET)
    wire.core.close(Millis(wire.now))
    # The servers may have given its locks to others by now, and say so later.
    assert wire.core.is_lost(Millis(wire.now))
    assert wire.core.state is ClientState.CONNECTED
    assert Complete(SET, done(1)) in wire.at(6000).items(done(1), heartbeat_seq=1)


@pytest.mark.parametrize(
    ("code", "kind", "refused"),
    [
        (Code.SESSION_EXPIRED, SessionExpiredError, SessionExpiredError),
        # The password was right before: who took the session over has another one.
        (Code.AUTH_FAILED, AuthFailedError, SessionMovedError),
    ],
)
def test_a_server_can_end_the_session(
    code: Code, kind: type[KeeperError], refused: type[KeeperError]
) -> None:
    wire = Wire().serving()
    wire.submit(SET)
    _, lost, end = wire.told(CloseFrame(code))
    assert (lost.state, type(lost.cause)) == (ClientState.LOST, kind)
    assert (type(end.error), end.error.definite) == (kind, False)
    wire = Wire().serving()
    wire.submit(SET)
    wire.failed()
    wire.opened()
    _, lost, end = wire.told(ConnectReply(code, SESSION, Millis(0), ZERO, 0))
    assert (lost.state, type(lost.cause), type(end.error)) == (ClientState.LOST, refused, refused)


def test_requests_that_time_out_keep_their_place() -> None:
    wire = Wire(request_timeout_ms=2000).serving()
    read = Query(GetData, "/a", "watcher")
    wire.submit(SET)
    wire.at(1500).submit(read)
    assert wire.core.deadline() == 3000
    assert wire.at(2999).wake() == []
    (late,) = wire.at(3000).wake()
    assert (late.token, type(late.error), late.error.definite) == (
        SET,
        OperationTimeoutError,
        False,
    )
    assert wire.core.deadline() == 3500
    (late,) = wire.at(3500).wake()
    assert (late.token, type(late.error), late.error.definite) == (
        read,
        OperationTimeoutError,
        True,
    )
    assert wire.core.deadline() == 4500  # a heartbeat
    # Both are still asked for: a number that was given cannot be taken back.
    assert len(wire.reconnected()[0].requests) == 2
    assert wire.items(done(1), GetDataReply(1, Z[2], b"", STAT)) == []
    assert wire.items(WatcherEvent(EventType.CHANGED, "/a", Z[3])) == []
    wire.at(4000).submit(SET)
    assert wire.items(done(2)) == [Complete(SET, done(2))]


def test_a_token_with_late_also_receives_the_outcome() -> None:
    class Patient:
        def late(self, error: object) -> None: ...

    patient = Patient()
    wire = Wire(request_timeout_ms=2000).serving()
    wire.core.submit(SET, patient, wire.now)
    wire.core.flush(wire.now)
    _, late = wire.at(3000).wake()
    assert isinstance(late, TimedOut)
    assert (late.token, type(late.error)) == (patient, OperationTimeoutError)
    assert not late.error.definite
    assert wire.items(done(1)) == [Complete(patient, done(1))]


def test_requests_time_out_without_a_server() -> None:
    wire = Wire(servers=1, request_timeout_ms=2000, outstanding_max=1).serving()
    wire.submit(SET, SET)
    wire.failed("gone")
    first, second = wire.at(3000).wake()[:2]
    assert "server 1: gone" in str(first.error)
    assert second.token is SET


@pytest.mark.parametrize(
    "limits",
    # Where the look-up of the servers took its time, less is left than a request may take.
    [{"request_timeout_ms": 5000}, {"request_timeout_ms": 9000, "open_timeout_ms": 5000}],
)
def test_opening_is_bounded_and_names_the_servers_tried(limits: dict[str, Any]) -> None:
    wire = Wire(servers=2, **limits)
    wire.start()
    while (due := wire.core.deadline() or 0) <= 5999:
        wire.at(due).wake()
    assert due == 6000
    _, lost = wire.at(6000).wake()
    assert lost.state is ClientState.LOST
    assert isinstance(lost.cause, ConnectionLossError)
    assert "server 1: it did not accept a link in time" in str(lost.cause)
    assert "server 2: it did not accept a link in time" in str(lost.cause)
    (refused,) = wire.submit(SET)
    assert isinstance(refused.error, ConnectionLossError)
