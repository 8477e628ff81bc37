"""ClientCore: over many connections; nobody notices but by the time it takes."""

from typing import Any

import msgspec
import pytest

from raykeeper.client.core.effects import (
    CloseLink,
    ListServers,
    OpenLink,
)
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientState
from raykeeper.zab.ids import ZERO, Millis, ServerId
from raykeeper.znodes.errors import (
    Code,
)
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    ErrorReply,
    EventType,
    GetDataReply,
    ServerFrame,
    WatcherEvent,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    Connect,
    Exists,
    GetData,
    SessionId,
)
from tests.unit.client.wire import (
    CONNECTED,
    PASSWORD,
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

FIRED = WatcherEvent(EventType.CHANGED, "/~", Z[2])


def test_unanswered_requests_leave_again_in_order_with_the_same_numbers() -> None:
    wire = Wire().serving()
    read = Query(GetData, "/a")
    wire.submit(SET, SET, read, SET)
    wire.items(done(1), zxid=Z[5])
    again = [write(2, acked=1), GetData(1, "/a", False), write(3, acked=1)]
    assert wire.reconnected() == [ClientFrame(2, again)]
    # Once more, with one that came meanwhile; the replies are lost again.
    wire.failed()
    wire.submit(SET)
    assert wire.opened() == [Connect(SESSION, PASSWORD, Millis(S), Z[5], attempt=3)]
    assert wire.connected() == [CONNECTED, ClientFrame(3, [*again, write(4, acked=1)])]
    answers = [done(2), GetDataReply(1, Z[2], b"", STAT), done(3), done(4)]
    assert [effect.token for effect in wire.items(*answers)] == [SET, read, SET, SET]


def test_resending_keeps_to_the_bound() -> None:
    wire = Wire(outstanding_max=2).serving()
    wire.submit(SET, SET, SET)
    assert wire.reconnected() == [ClientFrame(2, [write(1), write(2)])]
    assert wire.items(done(1))[-1] == ClientFrame(3, [write(3, acked=1)])


def test_without_unanswered_requests_nothing_is_sent_again() -> None:
    assert Wire().serving().reconnected() == []


def test_a_lost_answer_to_the_first_connect_finds_the_same_session() -> None:
    wire = Wire()
    wire.start()
    (first,) = wire.opened()
    wire.failed()
    assert wire.opened() == [msgspec.structs.replace(first, attempt=2)]
    assert wire.connected() == [CONNECTED]


def test_a_broken_link_leads_to_the_next_server_at_once() -> None:
    wire = Wire().serving()
    suspended, opening = wire.failed()
    assert suspended == SUSPENDED
    assert isinstance(opening, OpenLink)
    assert wire.core.state is ClientState.SUSPENDED


def test_the_client_knows_the_salt_and_the_ensemble_that_has_it() -> None:
    wire = Wire()
    assert (wire.core.ensemble, wire.core.own_uuid) == ("", "")
    wire.start()
    wire.opened()
    connected = ConnectReply(0, SESSION, Millis(S), Z[1], 0, "salt", own_uuid="own")
    wire.told(connected)
    assert (wire.core.ensemble, wire.core.own_uuid) == ("salt", "own")
    # A server whose ensemble was not restored, or of before, tells one uuid.
    wire.failed()
    wire.opened()
    wire.told(msgspec.structs.replace(connected, own_uuid=""))
    assert (wire.core.ensemble, wire.core.own_uuid) == ("salt", "salt")


@pytest.mark.parametrize("of_frame", [True, False], ids=["told by a frame", "told at once"])
def test_a_client_of_many_waits_before_it_returns(of_frame: bool) -> None:
    wire = Wire()
    wire.start()
    wire.opened()
    connected = ConnectReply(0, SESSION, Millis(S), Z[1], 0)
    if of_frame:
        wire.told(connected)
        wire.told(ServerFrame(0, Z[2], [], return_spread_ms=Millis(500)))
    else:
        wire.told(msgspec.structs.replace(connected, return_spread_ms=Millis(500)))
    assert wire.at(2000).failed() == [SUSPENDED]
    due = wire.core.deadline()
    assert due is not None and 2000 < due <= 2500
    assert wire.at(due - 1).wake() == []
    assert isinstance(wire.at(due).wake()[0], OpenLink)
    # The next attempts follow at once: the client has had its turn.
    assert isinstance(wire.failed()[0], OpenLink)


def test_a_client_whose_session_ends_soon_does_not_wait() -> None:
    wire = Wire().serving()
    wire.told(ServerFrame(0, Z[2], [], return_spread_ms=Millis(500)))
    expires_at = 1000 + S - S // 20
    suspended, opening = wire.at(expires_at - 7).failed()
    assert suspended == SUSPENDED and isinstance(opening, OpenLink)


def test_the_client_pauses_after_a_failed_cycle() -> None:
    wire = Wire(servers=2)
    (first,) = wire.start()
    (second,) = wire.failed("refused")
    assert {first.server, second.server} == {1, 2}
    assert wire.failed("refused") == [ListServers()]
    due = wire.core.deadline()
    assert due is not None
    assert 1000 < due <= 1100
    assert wire.at(due - 1).wake() == []
    assert wire.at(due).wake() == [first]
    wire.failed()
    assert wire.failed() == []  # the question is still under way
    later = wire.core.deadline()
    assert later is not None
    assert later > due
    assert wire.core.explain() == "server 1: reset; server 2: reset"


def test_a_server_that_served_ends_the_cycle() -> None:
    wire = Wire(servers=1).serving()
    assert wire.failed() == [SUSPENDED, ListServers()]  # it never served anything: pause
    wire = Wire(servers=1).serving()
    wire.items()
    assert wire.core.explain() == "no server has answered yet"
    assert wire.failed() == [SUSPENDED, OpenLink(ServerId(1))]


def test_the_handshake_with_a_server_times_out() -> None:
    wire = Wire()
    wire.start()
    # A third of the timeout for the three of them: to open the link, and again to take the session.
    assert wire.core.deadline() == 2000
    wire.at(1900).opened()
    assert wire.core.deadline() == 2900
    assert wire.at(2899).wake() == []
    closing, opening = wire.at(2900).wake()
    assert closing == CloseLink("it did not take the session in time")
    assert isinstance(opening, OpenLink)
    closing, _ = wire.at(3900).wake()
    assert closing == CloseLink("it did not accept a link in time")
    # The second cycle is more patient, in case they all are slow.
    wire.at(4900).wake()
    wire.at(wire.core.deadline() or 0).wake()
    assert wire.core.deadline() == wire.now + 2000


def test_a_silent_server_is_left_for_another() -> None:
    wire = Wire().serving()
    wire.at(3000).items()
    wire.at(6000).wake()  # a heartbeat, unanswered
    assert wire.core.deadline() == 9000
    closing, suspended, opening = wire.at(9000).wake()
    assert closing == CloseLink("it sent nothing for too long")
    assert suspended == SUSPENDED
    assert isinstance(opening, OpenLink)


@pytest.mark.parametrize(
    "frame",
    [
        # The server cannot go on, or another connection of ours was late.
        encode_server_frame(CloseFrame(Code.CONNECTION_LOSS)),
        encode_server_frame(CloseFrame(Code.SESSION_MOVED)),
        # It breaks the protocol.
        b"\xc1",
        encode_server_frame(ServerFrame(0, Z[2], [FIRED])).replace(b"~", b"\xff"),  # no UTF-8
        encode_server_frame(ConnectReply(0, SESSION, Millis(S), Z[1], 0)),
        encode_server_frame(ServerFrame(0, Z[2], [done(2)])),
        encode_server_frame(ServerFrame(0, Z[2], [GetDataReply(1, Z[2], b"", STAT)])),
        encode_server_frame(ServerFrame(0, Z[2], [ErrorReply(1, Z[2], Code.NO_NODE)])),
        encode_server_frame(ServerFrame(0, Z[2], [done(1), done(2)])),
    ],
)
def test_a_client_leaves_a_server_that_cannot_serve_it(frame: bytes) -> None:
    wire = Wire().serving()
    wire.submit(SET)
    wire.core.frame(frame, wire.now)
    *_, closing, suspended, opening = wire.effects()
    assert isinstance(closing, CloseLink)
    assert suspended == SUSPENDED
    assert isinstance(opening, OpenLink)


@pytest.mark.parametrize(
    "frame",
    [
        ConnectReply(Code.SESSION_MOVED, SESSION, Millis(0), ZERO, 0),
        ConnectReply(Code.CONNECTION_LOSS, SESSION, Millis(0), ZERO, 0),
        ConnectReply(0, SessionId(SESSION + 1), Millis(S), ZERO, 0),
        CloseFrame(Code.CONNECTION_LOSS),
        ServerFrame(0, Z[2], []),
    ],
)
def test_a_client_tries_another_server_after_a_refused_session(frame: Any) -> None:
    wire = Wire().serving()
    wire.failed()
    wire.opened()
    closing, opening = wire.told(frame)
    assert isinstance(closing, CloseLink)
    assert isinstance(opening, OpenLink)


def test_the_error_of_a_refused_session_has_the_reason_that_the_server_gave() -> None:
    wire = Wire()
    wire.start()
    wire.opened()
    reason = "the setting sessions_max is 5"
    wire.told(ConnectReply(Code.CONNECTION_LOSS, SessionId(0), Millis(0), ZERO, 0, detail=reason))
    assert reason in wire.core.explain()


def test_a_reply_of_the_wrong_kind_is_refused() -> None:
    wire = Wire().serving()
    wire.submit(Query(Exists, "/a"))
    assert isinstance(wire.items(GetDataReply(1, Z[2], b"", STAT))[0], CloseLink)
    wire = Wire().serving()
    wire.submit(Query(Exists, "/a"))
    assert isinstance(wire.items(done(1))[0], CloseLink)


def test_items_before_a_wrong_reply_count_as_seen() -> None:
    wire = Wire().serving()
    wire.submit(SET)
    wire.items(done(1), done(2), zxid=Z[8])
    assert wire.opened() == [Connect(SESSION, PASSWORD, Millis(S), Z[8], attempt=2)]


def test_stale_inputs_change_nothing() -> None:
    wire = Wire()
    assert wire.wake() == []
    assert wire.core.deadline() is None
    wire.start()
    assert wire.told(CloseFrame(Code.CONNECTION_LOSS)) == []
    wire.close()
    assert wire.failed() == []
    assert wire.told(CloseFrame(Code.CONNECTION_LOSS)) == []
    assert wire.wake() == []
    assert wire.close() == []
    assert wire.core.deadline() is None
