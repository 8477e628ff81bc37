"""ClientCore: served by a server without a leader, and the search for one that has a leader."""

from typing import Any

import pytest
from msgspec.structs import replace

from raykeeper.client.core.effects import (
    CallWatchers,
    CloseLink,
    CloseSearchLink,
    Complete,
    Fail,
    OpenLink,
    OpenSearchLink,
    PromoteSearchLink,
)
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientId, ClientState
from raykeeper.client.errors import NotReadOnlyError, SessionExpiredError
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    ErrorReply,
    EventType,
    GetDataReply,
    ServerFrame,
    WatcherEvent,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Connect,
    Exists,
    GetData,
    SetWatches,
    Sync,
)
from tests.unit.client.wire import (
    CLOSED,
    CONNECTED,
    OFFER,
    PASSWORD,
    READ_ONLY,
    SESSION,
    SET,
    STAT,
    SUSPENDED,
    S,
    Wire,
    Z,
    done,
    write,
)

READ = Query(GetData, "/a")
TAKEN = ConnectReply(0, SESSION, Millis(S), Z[3], 0)
FAILED = NotReadOnlyError("/a")


def names(effects: list[Any]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def data(xid: int, value: bytes = b"") -> GetDataReply:
    return GetDataReply(xid, Z[2], value, STAT)


def searching(wire: Wire) -> Wire:
    """The search has sent its Connect."""
    assert names(wire.wake()) == ["OpenSearchLink"]
    (connect,) = wire.search_opened()
    assert not connect.read_only
    return wire


# Who is taken.


def test_every_server_is_asked_once_before_one_without_a_leader_is_taken() -> None:
    wire = Wire(read_only=True)
    wire.start()
    for attempt in (1, 2):
        (connect,) = wire.opened()
        assert (connect.read_only, connect.attempt) == (True, attempt)
        assert names(wire.offered()) == ["CloseLink", "OpenLink"]
    wire.opened()
    assert names(wire.offered()) == ["CloseLink", "ListServers"]  # a pause after the cycle
    wire.at(wire.core.deadline() or 0).wake()
    wire.opened()
    assert wire.offered() == [READ_ONLY]
    assert wire.core.state is ClientState.CONNECTED_READ_ONLY
    assert "server 1: it has no leader" in wire.core.explain()


def test_a_server_with_a_leader_is_taken_at_once() -> None:
    wire = Wire(read_only=True)
    wire.start()
    wire.opened()
    wire.offered()
    wire.opened()
    assert wire.connected() == [CONNECTED]
    assert wire.wake() == []


def test_an_unwanted_read_only_offer_is_always_declined() -> None:
    wire = Wire(servers=1)
    wire.start()
    for _ in range(3):
        wire.opened()
        assert names(wire.offered()) == ["CloseLink", "ListServers"]
        wire.core.servers_listed([], wire.now)
        wire.at(wire.core.deadline() or 0).wake()


# What it does there.


def test_reads_are_answered_and_writes_refused_in_order() -> None:
    wire = Wire(read_only=True).reading()
    (frame,) = wire.submit(READ, SET, READ, SET)
    assert frame.requests == [GetData(1, "/a", False), GetData(2, "/a", False)]
    first, refused, second, last = wire.items(data(1), data(2))
    assert (first, second) == (Complete(READ, data(1)), Complete(READ, data(2)))
    for failed in (refused, last):
        assert (failed.token, type(failed.error), failed.error.path) == (
            SET,
            NotReadOnlyError,
            "/a",
        )
        assert failed.error.definite
    (alone,) = wire.submit(SET)
    assert type(alone.error) is NotReadOnlyError


def test_a_refusal_by_the_server_fails_the_request() -> None:
    wire = Wire(read_only=True).reading()
    sync = Query(Sync, "/")
    assert wire.submit(sync)[0].requests == [Sync(1, "/")]
    (failed,) = wire.items(ErrorReply(1, Z[2], Code.NOT_READ_ONLY))
    assert (failed.token, type(failed.error)) == (sync, NotReadOnlyError)


def test_refused_writes_use_up_no_numbers() -> None:
    wire = searching(Wire(read_only=True).reading())
    wire.submit(SET)
    wire.search_told(TAKEN)
    assert wire.submit(SET) == [ClientFrame(1, [write(1)])]


def test_a_write_refused_behind_a_late_read_fails_once() -> None:
    wire = Wire(read_only=True, servers=1, request_timeout_ms=2000).reading()
    start = wire.now
    wire.submit(READ, SET)
    late = wire.at(start + 2000).wake()
    assert [effect.token for effect in late if isinstance(effect, Fail)] == [READ, SET]
    assert wire.items(data(1)) == []
    (again,) = wire.submit(SET)
    assert again.token is SET


def test_a_read_only_client_sends_heartbeats_and_is_never_lost() -> None:
    wire = Wire(read_only=True, servers=1).reading()
    start = wire.now
    assert wire.at(start + S // 3).wake() == [ClientFrame(1, [])]
    wire.items(heartbeat_seq=0)
    wire.at(start + S // 3 + 2 * S // 3 - 1).wake()
    assert names(wire.at(start + S).wake())[:2] == ["CloseLink", "ChangeState"]
    assert not wire.core.is_lost(Millis(start + 100 * S))
    assert wire.core.session_id == 0


def test_watches_are_set_again_with_and_without_a_leader() -> None:
    wire = Wire(read_only=True).reading()
    wire.watching(Query(GetData, "/w", "w"), Query(Exists, "/none", "n"))
    fired = wire.items(WatcherEvent(EventType.CHANGED, "/other", Z[2]))
    assert fired == []
    searching(wire)
    _, connected, again = wire.search_told(TAKEN)
    assert connected == CONNECTED
    assert again.requests == [SetWatches(3, Z[2], ["/w"], ["/none"], [])]
    event = WatcherEvent(EventType.CHANGED, "/w", Z[3])
    (told,) = wire.items(event, EmptyReply(3, Z[3]))
    assert isinstance(told, CallWatchers) and told.event.state is ClientState.CONNECTED


# The search.


def test_the_search_tries_one_server_at_a_time_and_pauses_after_each_cycle() -> None:
    wire = Wire(read_only=True).reading()
    asked = []
    for _ in range(2):
        (opening,) = wire.wake()
        asked.append(opening.server)
        wire.search_failed()
        due = wire.core.deadline()
    assert wire.core._server not in asked and len(set(asked)) == 2
    assert due is not None and 0 < due - wire.now <= 100
    assert wire.wake() == []
    assert names(wire.at(due).wake()) == ["OpenSearchLink"]


@pytest.mark.parametrize("has_opened", [False, True])
def test_the_search_leaves_a_silent_server(has_opened: bool) -> None:
    wire = Wire(read_only=True).reading()
    wire.wake()
    if has_opened:
        wire.search_opened()
    due = wire.core.deadline()
    assert due == wire.now + S // 6
    assert names(wire.at(due).wake()) == ["CloseSearchLink"]
    assert names(wire.wake()) == ["OpenSearchLink"]


@pytest.mark.parametrize(
    "answer",
    [
        OFFER,
        replace(TAKEN, code=Code.THROTTLED_OP),
        ServerFrame(0, Z[2], []),
        CloseFrame(Code.CONNECTION_LOSS),
    ],
)
def test_the_search_leaves_a_server_with_an_unusable_answer(
    answer: ConnectReply | ServerFrame | CloseFrame,
) -> None:
    wire = searching(Wire(read_only=True).reading())
    # What came in the same batch is not heard any more.
    assert names(wire.search_told(answer, TAKEN)) == ["CloseSearchLink"]
    assert wire.core.state is ClientState.CONNECTED_READ_ONLY


def test_the_search_leaves_a_server_with_a_malformed_answer() -> None:
    wire = searching(Wire(read_only=True).reading())
    wire.core.search_frame(b"junk", wire.now)
    assert names(wire.effects()) == ["CloseSearchLink"]


def test_the_search_refuses_another_session() -> None:
    wire = Wire(read_only=True).serving()
    read_only_again(wire)
    searching(wire)
    (left,) = wire.search_told(replace(TAKEN, session_id=SESSION + 1))
    assert isinstance(left, CloseSearchLink) and "session" in left.reason


def test_the_client_moves_with_its_unanswered_requests() -> None:
    wire = searching(Wire(read_only=True).reading())
    wire.submit(READ)
    taken, connected, again = wire.search_told(TAKEN)
    assert (taken, connected) == (PromoteSearchLink(), CONNECTED)
    assert again == ClientFrame(2, [GetData(1, "/a", False)])
    assert wire.core.session_id == SESSION
    assert wire.items(data(1)) == [Complete(READ, data(1))]
    # From now on there is a session to lose, and nothing to search.
    assert wire.core.is_lost(Millis(wire.now + S))
    assert not [each for each in wire.at(wire.now + 1).wake() if isinstance(each, OpenSearchLink)]


def test_frames_in_the_batch_of_the_session_are_handled() -> None:
    wire = searching(Wire(read_only=True).reading())
    wire.submit(SET)
    taken, connected, *_ = wire.search_told(TAKEN, ServerFrame(0, Z[5], []))
    assert (taken, connected) == (PromoteSearchLink(), CONNECTED)
    assert wire.core.last_zxid == Z[5]


def test_the_search_ends_when_the_link_breaks() -> None:
    wire = searching(Wire(read_only=True).reading())
    suspended, *_ = [each for each in wire.failed() if each == SUSPENDED]
    assert suspended
    wire.opened()
    assert wire.connected() == [CONNECTED]


def test_an_idle_search_has_nothing_to_close() -> None:
    wire = Wire(read_only=True).reading()
    wire.wake()
    wire.search_failed()
    assert not [each for each in wire.failed() if isinstance(each, CloseSearchLink)]


def test_a_read_only_client_may_close_during_the_search() -> None:
    wire = searching(Wire(read_only=True).reading())
    assert names(wire.close()) == ["CloseLink", "CloseSearchLink", "ChangeState"]
    assert wire.search_told(TAKEN) == []


# A session that was open before.


def read_only_again(wire: Wire) -> None:
    """The server is lost, and each of them offers to serve read-only."""
    wire.items(heartbeat_seq=0)
    wire.failed()
    for _ in range(wire.servers):
        wire.opened()
        effects = wire.offered()
    assert names(effects) == ["CloseLink", "ListServers"]
    wire.at(wire.core.deadline() or 0).wake()
    wire.opened()
    assert wire.offered()[0] == READ_ONLY


def test_outstanding_writes_wait_for_a_leader_and_later_requests_behind_them() -> None:
    wire = Wire(read_only=True).serving()
    wire.items(heartbeat_seq=0)
    wire.submit(READ, SET, READ)
    wire.failed()
    for _ in range(3):
        wire.opened()
        wire.offered()
    wire.at(wire.core.deadline() or 0).wake()
    (connect,) = wire.opened()
    assert connect.session_id == SESSION
    assert wire.offered() == [READ_ONLY, ClientFrame(2, [GetData(1, "/a", False)])]
    assert wire.items(data(1)) == [Complete(READ, data(1))]
    searching(wire)
    *_, again = wire.search_told(TAKEN)
    assert again.requests == [write(1), GetData(2, "/a", False)]
    answers = wire.items(done(1), data(2))
    assert [type(each) for each in answers] == [Complete, Complete]


def test_the_session_expires_at_its_deadline_in_read_only_mode() -> None:
    wire = Wire(read_only=True).serving()
    let_go_at = 1000 + S - S // 20
    read_only_again(wire)
    wire.items(heartbeat_seq=99)  # who has no leader can confirm nothing
    assert not wire.core.is_lost(Millis(let_go_at - 1))
    lost = next(
        e for e in wire.at(let_go_at).wake() if not isinstance(e, CloseLink | CloseSearchLink)
    )
    assert lost.state is ClientState.LOST and type(lost.cause) is SessionExpiredError


def test_a_lost_client_does_not_move() -> None:
    wire = Wire(read_only=True).serving()
    read_only_again(wire)
    searching(wire)
    assert wire.core.is_lost(Millis(wire.now + S))
    assert names(wire.search_told(TAKEN)) == ["CloseLink", "CloseSearchLink", "ChangeState"]
    assert wire.core.state is ClientState.LOST


def test_a_server_with_a_leader_may_report_the_expiry() -> None:
    wire = Wire(read_only=True).serving()
    read_only_again(wire)
    searching(wire)
    *_, lost = wire.search_told(replace(TAKEN, code=Code.SESSION_EXPIRED))
    assert type(lost.cause) is SessionExpiredError


def test_close_waits_for_a_server_with_a_leader() -> None:
    wire = Wire(read_only=True).serving()
    read_only_again(wire)
    searching(wire)
    assert wire.close() == []
    *_, closing = wire.search_told(TAKEN)
    assert closing.requests == [write(1, CloseSession())]
    assert wire.items(done(1))[-1] == CLOSED


def test_a_session_is_taken_over_once_there_is_a_leader() -> None:
    other = ClientId(SESSION, b"the former one\0\0")
    wire = Wire(read_only=True, taken=other).reading()
    wire.submit(SET)  # refused: its number is not known yet
    (opening,) = wire.wake()
    assert isinstance(opening, OpenSearchLink)
    (connect,) = wire.search_opened()
    assert connect == Connect(SESSION, other.password, Millis(S), Z[1], 5, PASSWORD)
    wire.search_told(replace(TAKEN, last_number=7))
    assert wire.submit(SET) == [ClientFrame(1, [write(8, acked=7)])]


def test_a_write_is_refused_between_two_servers_without_a_leader() -> None:
    """What is refused does not depend on whether one of them is there just now."""
    wire = Wire(read_only=True).reading()
    wire.items(heartbeat_seq=0)
    assert [e for e in wire.failed() if isinstance(e, OpenLink)]
    (refused,) = wire.submit(SET)
    assert type(refused.error) is NotReadOnlyError
