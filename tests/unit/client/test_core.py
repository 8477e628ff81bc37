"""ClientCore: what every input does in every phase, told as conversations with a server.

`Wire` stands where driver, link and server are: it gives the core its inputs and takes its effects,
with the frames decoded. Time is a number.
"""

from random import Random
from typing import Any

import pytest
from msgspec import Raw

from raykeeper.client.core import ClientCore
from raykeeper.client.effects import (
    ChangeState,
    CloseLink,
    Complete,
    Effect,
    Fail,
    FireWatch,
    OpenLink,
    SendFrame,
)
from raykeeper.client.limits import ClientLimits
from raykeeper.client.outstanding import Query
from raykeeper.client.states import ClientState
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.zab.ids import ZERO, Epoch, Millis, ServerId, Zxid, make_zxid
from raykeeper.znodes.errors import (
    AuthFailedError,
    Code,
    ConnectionLossError,
    KeeperError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from raykeeper.znodes.replies import (
    ChildrenRead,
    Connected,
    DataRead,
    Done,
    Ended,
    EventType,
    Item,
    ReadFailed,
    ServerFrame,
    StatRead,
    WatchFired,
    Written,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    ClientFrame,
    CloseSession,
    Connect,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SessionId,
    SetData,
    SetWatches,
    Sync,
    Write,
    decode_client_frame,
    encode_op,
)
from raykeeper.znodes.stat import Stat

PASSWORD = b"0123456789abcdef"
S = 9000  # the session timeout wished and granted unless a test says otherwise
Z = [make_zxid(Epoch(1), n) for n in range(100)]
SESSION = SessionId(Z[1])
STAT = Stat(Z[1], Z[1], Millis(1), Millis(1), 0, 0, 0, 0, 1, 0, Z[1])
CONNECTED = ChangeState(ClientState.CONNECTED)
SUSPENDED = ChangeState(ClientState.SUSPENDED)
SET = SetData("/a", b"v", -1)
CLOSED = ChangeState(ClientState.LOST, None)


class Wire:
    """A core and its surroundings."""

    def __init__(self, servers: int = 3, **limits: int) -> None:
        ids = [ServerId(n + 1) for n in range(servers)]
        # So is every timeout of a request out of the way, unless a test wants it.
        limits.setdefault("request_timeout_ms", 1_000_000)
        self.core = ClientCore(PASSWORD, Millis(S), ids, Random(7), ClientLimits(**limits))
        self.now = Millis(1000)

    def effects(self) -> list[Any]:
        """What the core asked for since the last call; frames are decoded."""
        out: list[Effect] = self.core.out
        self.core.out = []
        return [decode_client_frame(e.data) if isinstance(e, SendFrame) else e for e in out]

    def at(self, now: int) -> "Wire":
        self.now = Millis(now)
        return self

    def start(self) -> list[Any]:
        self.core.start(self.now)
        return self.effects()

    def opened(self) -> list[Any]:
        self.core.link_opened(self.now)
        return self.effects()

    def failed(self, reason: str = "reset") -> list[Any]:
        self.core.link_failed(reason, self.now)
        return self.effects()

    def wake(self) -> list[Any]:
        self.core.wake(self.now)
        return self.effects()

    def close(self) -> list[Any]:
        self.core.close(self.now)
        return self.effects()

    def submit(self, *asks: Any) -> list[Any]:
        """Submit and flush; each request is its own token."""
        for ask in asks:
            self.core.submit(ask, ask, self.now)
        self.core.flush(self.now)
        return self.effects()

    def told(self, frame: Connected | ServerFrame | Ended) -> list[Any]:
        self.core.frame(encode_server_frame(frame), self.now)
        return self.effects()

    def items(self, *items: Item, beat: int = 0, zxid: Zxid = Z[2]) -> list[Any]:
        return self.told(ServerFrame(beat, zxid, list(items)))

    def connected(self, timeout_ms: int = S, zxid: Zxid = Z[1], last: int = 0) -> list[Any]:
        return self.told(Connected(0, SESSION, Millis(timeout_ms), zxid, last))

    def serving(self) -> "Wire":
        """The session is open."""
        self.start()
        self.opened()
        assert self.connected() == [CONNECTED]
        return self

    def reconnected(self, zxid: Zxid = Z[1]) -> list[Any]:
        """The link breaks and the next server takes the session; what that one is sent."""
        before = self.failed()
        assert before[0] == SUSPENDED
        assert isinstance(before[1], OpenLink)
        self.opened()
        first, *sent = self.connected(zxid=zxid)
        assert first == CONNECTED
        return sent


def write(number: int, op: Any = SET, acked: int = 0) -> Write:
    return Write(number, acked, Raw(encode_op(op)))


def done(number: int, code: int = 0) -> Written:
    return Written(number, Z[2], code, "", None if code else STAT)


def test_opens_a_session() -> None:
    wire = Wire()
    (opening,) = wire.start()
    assert isinstance(opening, OpenLink)
    assert wire.opened() == [Connect(SessionId(0), PASSWORD, Millis(S), ZERO)]
    assert wire.core.state is ClientState.SUSPENDED
    assert wire.connected() == [CONNECTED]
    assert (wire.core.state, wire.core.session_id) == (ClientState.CONNECTED, SESSION)


def test_what_was_submitted_before_leaves_in_one_frame_once_connected() -> None:
    wire = Wire()
    read = Query(GetData, "/a")
    assert wire.submit(SET, read) == []
    wire.start()
    assert wire.submit(SET) == []
    wire.opened()
    expected = ClientFrame(1, [write(1), GetData(1, "/a", False), write(2)])
    assert wire.connected() == [CONNECTED, expected]


@pytest.mark.parametrize(
    ("ask", "sent", "reply", "expected"),
    [
        # Writes.
        (SET, write(1), done(1), done(1)),
        (SET, write(1), done(1, Code.NO_NODE), NoNodeError("/a")),
        (
            Create("/c", b"", 0),
            write(1, Create("/c", b"", 0)),
            done(1, Code.NODE_EXISTS),
            NodeExistsError("/c"),
        ),
        # Reads; a code that we do not know is an error all the same.
        (
            Query(GetData, "/a"),
            GetData(1, "/a", False),
            DataRead(1, Z[2], b"v", STAT),
            DataRead(1, Z[2], b"v", STAT),
        ),
        (
            Query(GetData, "/a"),
            GetData(1, "/a", False),
            ReadFailed(1, Z[2], -999),
            KeeperError("/a", "code -999"),
        ),
        (
            Query(Exists, "/a"),
            Exists(1, "/a", False),
            StatRead(1, Z[2], None),
            StatRead(1, Z[2], None),
        ),
        (
            Query(GetChildren, "/a"),
            GetChildren(1, "/a", False),
            ChildrenRead(1, Z[2], ["b"], STAT),
            ChildrenRead(1, Z[2], ["b"], STAT),
        ),
        (Query(Sync, "/"), Sync(1, "/"), Done(1, Z[2]), Done(1, Z[2])),
    ],
)
def test_answers_complete_or_fail(ask: Any, sent: Any, reply: Item, expected: Any) -> None:
    wire = Wire().serving()
    assert wire.submit(ask) == [ClientFrame(1, [sent])]
    (effect,) = wire.items(reply)
    if isinstance(expected, KeeperError):
        assert isinstance(effect, Fail)
        assert effect.token is ask
        assert type(effect.error) is type(expected)
        assert str(effect.error) == str(expected)
        assert effect.error.definite
    else:
        assert effect == Complete(ask, expected)


def test_a_write_tells_which_outcomes_were_received() -> None:
    wire = Wire().serving()
    wire.submit(SET, SET)
    wire.items(done(1))
    assert wire.submit(SET) == [ClientFrame(2, [write(3, acked=1)])]
    wire.items(done(2), done(3))
    assert wire.submit(SET) == [ClientFrame(3, [write(4, acked=3)])]


def test_at_most_so_many_requests_are_on_the_wire() -> None:
    wire = Wire(outstanding_max=2).serving()
    assert wire.submit(SET, SET, SET, SET) == [ClientFrame(1, [write(1), write(2)])]
    assert wire.submit(SET) == []
    # An answer makes room, and what waited leaves in order.
    assert wire.items(done(1)) == [Complete(SET, done(1)), ClientFrame(2, [write(3, acked=1)])]
    assert wire.items(done(2), done(3))[-1] == ClientFrame(
        3, [write(4, acked=3), write(5, acked=3)]
    )


def test_a_frame_holds_so_many_bytes() -> None:
    wire = Wire(frame_bytes=2000).serving()
    big = SetData("/a", bytes(1500), -1)
    assert wire.submit(big, big, SET) == [
        ClientFrame(1, [write(1, big), write(2, big)]),
        ClientFrame(2, [write(3)]),
    ]


def test_so_many_bytes_are_on_the_wire() -> None:
    wire = Wire(outstanding_bytes_max=2000, frame_bytes=1000).serving()
    big = SetData("/a", bytes(1500), -1)
    frames = wire.submit(big, big, big, SET)
    assert [len(frame.requests) for frame in frames] == [1, 1]
    # Each answer makes room for one that may exceed the bound again.
    assert wire.items(done(1))[-1] == ClientFrame(3, [write(3, big, acked=1)])
    assert wire.items(done(2))[-1] == ClientFrame(4, [write(4, acked=2)])


# Reconnecting.


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
    assert wire.opened() == [Connect(SESSION, PASSWORD, Millis(S), Z[5])]
    assert wire.connected() == [CONNECTED, ClientFrame(3, [*again, write(4, acked=1)])]
    answers = [done(2), DataRead(1, Z[2], b"", STAT), done(3), done(4)]
    assert [effect.token for effect in wire.items(*answers)] == [SET, read, SET, SET]


def test_resending_keeps_to_the_bound() -> None:
    wire = Wire(outstanding_max=2).serving()
    wire.submit(SET, SET, SET)
    assert wire.reconnected() == [ClientFrame(2, [write(1), write(2)])]
    assert wire.items(done(1))[-1] == ClientFrame(3, [write(3, acked=1)])


def test_nothing_unanswered_nothing_sent() -> None:
    assert Wire().serving().reconnected() == []


def test_a_lost_answer_to_the_first_connect_finds_the_same_session() -> None:
    wire = Wire()
    wire.start()
    first = wire.opened()
    wire.failed()
    assert wire.opened() == first
    assert wire.connected() == [CONNECTED]


def test_a_broken_link_leads_to_the_next_server_at_once() -> None:
    wire = Wire().serving()
    suspended, opening = wire.failed()
    assert suspended == SUSPENDED
    assert isinstance(opening, OpenLink)
    assert wire.core.state is ClientState.SUSPENDED


def test_after_a_vain_cycle_it_pauses() -> None:
    wire = Wire(servers=2)
    (first,) = wire.start()
    (second,) = wire.failed("refused")
    assert {first.server, second.server} == {1, 2}
    assert wire.failed("refused") == []
    due = wire.core.deadline()
    assert due is not None
    assert 1000 < due <= 1100
    assert wire.at(due - 1).wake() == []
    assert wire.at(due).wake() == [first]
    wire.failed()
    assert wire.failed() == []
    later = wire.core.deadline()
    assert later is not None
    assert later > due
    assert wire.core.explain() == "server 1: reset; server 2: reset"


def test_a_server_that_served_ends_the_cycle() -> None:
    wire = Wire(servers=1).serving()
    assert wire.failed() == [SUSPENDED]  # it never served anything: pause
    wire = Wire(servers=1).serving()
    wire.items()
    assert wire.core.explain() == "no server has answered yet"
    assert wire.failed() == [SUSPENDED, OpenLink(ServerId(1))]


def test_a_server_has_so_long_to_take_the_session() -> None:
    wire = Wire()
    wire.start()
    # A third of the timeout for the three of them; all the way from dialing to Connected.
    assert wire.core.deadline() == 2000
    wire.at(1900).opened()
    assert wire.core.deadline() == 2000
    assert wire.at(1999).wake() == []
    closing, opening = wire.at(2000).wake()
    assert closing == CloseLink("it did not take the session in time")
    assert isinstance(opening, OpenLink)
    closing, _ = wire.at(3000).wake()
    assert closing == CloseLink("it did not accept a link in time")
    # The second cycle is more patient, in case they all are slow.
    wire.at(4000).wake()
    wire.at(wire.core.deadline() or 0).wake()
    assert wire.core.deadline() == wire.now + 2000


def test_silence_leads_to_another_server() -> None:
    wire = Wire().serving()
    wire.at(3000).items()
    wire.at(6000).wake()  # a heartbeat, unanswered
    assert wire.core.deadline() == 9000
    closing, suspended, opening = wire.at(9000).wake()
    assert closing == CloseLink("nothing was heard of it for too long")
    assert suspended == SUSPENDED
    assert isinstance(opening, OpenLink)


@pytest.mark.parametrize(
    "frame",
    [
        # The server cannot go on, or another connection of ours was late.
        encode_server_frame(Ended(Code.CONNECTION_LOSS)),
        encode_server_frame(Ended(Code.SESSION_MOVED)),
        # It breaks the protocol.
        b"\xc1",
        encode_server_frame(Connected(0, SESSION, Millis(S), Z[1], 0)),
        encode_server_frame(ServerFrame(0, Z[2], [done(2)])),
        encode_server_frame(ServerFrame(0, Z[2], [DataRead(1, Z[2], b"", STAT)])),
        encode_server_frame(ServerFrame(0, Z[2], [ReadFailed(1, Z[2], Code.NO_NODE)])),
        encode_server_frame(ServerFrame(0, Z[2], [done(1), done(2)])),
    ],
)
def test_leaves_a_server_that_cannot_serve_it(frame: bytes) -> None:
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
        Connected(Code.SESSION_MOVED, SESSION, Millis(0), ZERO, 0),
        Connected(Code.CONNECTION_LOSS, SESSION, Millis(0), ZERO, 0),
        Connected(0, SessionId(SESSION + 1), Millis(S), ZERO, 0),
        Ended(Code.CONNECTION_LOSS),
        ServerFrame(0, Z[2], []),
    ],
)
def test_tries_another_server_when_one_does_not_take_the_session(frame: Any) -> None:
    wire = Wire().serving()
    wire.failed()
    wire.opened()
    closing, opening = wire.told(frame)
    assert isinstance(closing, CloseLink)
    assert isinstance(opening, OpenLink)


def test_answers_to_other_kinds_of_requests_are_refused() -> None:
    wire = Wire().serving()
    wire.submit(Query(Exists, "/a"))
    assert isinstance(wire.items(DataRead(1, Z[2], b"", STAT))[0], CloseLink)
    wire = Wire().serving()
    wire.submit(Query(Exists, "/a"))
    assert isinstance(wire.items(done(1))[0], CloseLink)


def test_what_came_before_a_wrong_answer_counts_as_seen() -> None:
    wire = Wire().serving()
    wire.submit(SET)
    wire.items(done(1), done(2), zxid=Z[8])
    assert wire.opened() == [Connect(SESSION, PASSWORD, Millis(S), Z[8])]


def test_stale_inputs_change_nothing() -> None:
    wire = Wire()
    assert wire.wake() == []
    assert wire.core.deadline() is None
    wire.start()
    assert wire.told(Ended(Code.CONNECTION_LOSS)) == []
    wire.close()
    assert wire.failed() == []
    assert wire.told(Ended(Code.CONNECTION_LOSS)) == []
    assert wire.wake() == []
    assert wire.close() == []
    assert wire.core.deadline() is None


# Time.


def test_heartbeats_after_a_third_of_the_timeout_without_a_frame() -> None:
    wire = Wire().serving()  # Connect left at 1000
    assert wire.core.deadline() == 4000
    assert wire.at(3999).wake() == []
    assert wire.at(4000).wake() == [ClientFrame(1, [])]
    wire.at(5000).items(beat=1)
    wire.at(6000).submit(SET)
    assert wire.core.deadline() == 9000
    assert wire.at(9000).wake() == [ClientFrame(3, [])]


def test_timers_follow_the_timeout_that_was_granted() -> None:
    wire = Wire()
    wire.start()
    wire.opened()
    wire.connected(timeout_ms=3000)
    assert wire.core.deadline() == 2000
    wire.at(2000).wake()
    assert wire.core.deadline() == 3000  # silence
    assert wire.at(3000).wake()[1] == SUSPENDED
    wire.at(3849).wake()
    assert not wire.core.is_lost(Millis(3849))
    assert wire.core.is_lost(Millis(3850))
    assert wire.at(3850).wake()[1].state is ClientState.LOST


LET_GO = 1000 + S - S // 20  # Connect left at 1000


def test_lets_go_before_the_session_can_end() -> None:
    wire = Wire().serving()
    read, watch = Query(GetData, "/a"), Query(GetData, "/w", "watcher")
    wire.submit(watch)
    wire.items(DataRead(1, Z[2], b"", STAT))
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
    assert fired == FireWatch(["watcher"], event)
    (refused,) = wire.submit(SET)
    assert isinstance(refused.error, SessionExpiredError)
    assert refused.error.definite
    assert wire.core.deadline() is None


def test_the_deadline_counts_from_the_sending_of_the_confirmed_frame() -> None:
    wire = Wire().serving()
    wire.at(2000).submit(SET)
    wire.at(3000).submit(SET)
    wire.at(7000).items(beat=1)  # the leader heard the frame that left at 2000
    margin = S // 20
    assert not wire.core.is_lost(Millis(2000 + S - margin - 1))
    assert wire.core.is_lost(Millis(2000 + S - margin))
    wire.at(8000).items(beat=1)  # nothing new
    assert wire.core.is_lost(Millis(2000 + S - margin))
    wire.at(9000).items(beat=2)
    assert not wire.core.is_lost(Millis(3000 + S - margin - 1))


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
    closing, lost, end = wire.at(LET_GO).items(done(1), beat=0)
    assert isinstance(closing, CloseLink)
    assert lost.state is ClientState.LOST
    assert not end.error.definite
    # But what confirms a recent frame counts first.
    wire = Wire().serving()
    wire.at(5000).submit(SET)
    assert wire.at(LET_GO).items(done(1), beat=1) == [Complete(SET, done(1))]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(Code.SESSION_EXPIRED, SessionExpiredError), (Code.AUTH_FAILED, AuthFailedError)],
)
def test_a_server_can_end_the_session(code: Code, kind: type[KeeperError]) -> None:
    wire = Wire().serving()
    wire.submit(SET)
    _, lost, end = wire.told(Ended(code))
    assert (lost.state, type(lost.cause)) == (ClientState.LOST, kind)
    assert (type(end.error), end.error.definite) == (kind, False)
    wire = Wire().serving()
    wire.submit(SET)
    wire.failed()
    wire.opened()
    _, lost, end = wire.told(Connected(code, SESSION, Millis(0), ZERO, 0))
    assert (lost.state, type(lost.cause)) == (ClientState.LOST, kind)


def test_requests_time_out_but_keep_their_place() -> None:
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
    assert wire.items(done(1), DataRead(1, Z[2], b"", STAT)) == []
    assert wire.items(WatchFired(EventType.CHANGED, "/a", Z[3])) == []
    wire.at(4000).submit(SET)
    assert wire.items(done(2)) == [Complete(SET, done(2))]


def test_requests_time_out_while_no_server_is_there() -> None:
    wire = Wire(servers=1, request_timeout_ms=2000, outstanding_max=1).serving()
    wire.submit(SET, SET)
    wire.failed("gone")
    first, second = wire.at(3000).wake()[:2]
    assert "server 1: gone" in str(first.error)
    assert second.token is SET


def test_opening_is_bounded_and_says_what_was_tried() -> None:
    wire = Wire(servers=2, request_timeout_ms=5000)
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


# Watches.


def watching(wire: Wire, *asks: Query) -> None:
    """Set watches: the znode "/none" is missing."""
    sent = wire.submit(*asks)[0].requests
    replies: list[Item] = []
    for request in sent:
        match request:
            case GetData(xid=xid):
                replies.append(DataRead(xid, Z[2], b"", STAT))
            case Exists(xid=xid, path=path):
                replies.append(StatRead(xid, Z[2], None if path == "/none" else STAT))
            case GetChildren(xid=xid):
                replies.append(ChildrenRead(xid, Z[2], [], STAT))
    assert all(isinstance(effect, Complete) for effect in wire.items(*replies))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (EventType.CHANGED, ["data", "there", "all"]),
        (EventType.CREATED, ["data", "there", "all"]),
        (EventType.CHILD, ["children", "all"]),
        (EventType.DELETED, ["data", "there", "all", "children"]),
    ],
)
def test_an_event_reaches_each_watcher_once(kind: EventType, told: list[str]) -> None:
    wire = Wire().serving()
    watching(
        wire,
        Query(GetData, "/a", "data"),
        Query(Exists, "/a", "there"),
        Query(GetChildren, "/a", "children"),
        Query(GetChildren, "/a", "all"),
        Query(GetData, "/a", "all"),
        Query(GetData, "/b", "other"),
    )
    event = WatchedEvent(kind, ClientState.CONNECTED, "/a", Z[3])
    assert wire.items(WatchFired(kind, "/a", Z[3])) == [FireWatch(told, event)]
    # They are gone with it.
    assert wire.items(WatchFired(kind, "/a", Z[4])) == []


def test_an_exist_watch_waits_for_the_creation() -> None:
    wire = Wire().serving()
    watching(wire, Query(Exists, "/none", "w"))
    (fired,) = wire.items(WatchFired(EventType.CREATED, "/none", Z[3]))
    assert fired.watchers == ["w"]


def test_no_watch_where_the_read_failed() -> None:
    wire = Wire().serving()
    wire.submit(Query(GetData, "/none", "w"))
    wire.items(ReadFailed(1, Z[2], Code.NO_NODE))
    assert wire.reconnected() == []


def test_an_event_comes_before_the_reply_behind_it() -> None:
    wire = Wire().serving()
    watching(wire, Query(GetData, "/a", "w"))
    read = Query(GetData, "/a")
    wire.submit(read)
    fired, completed = wire.items(
        WatchFired(EventType.CHANGED, "/a", Z[3]), DataRead(2, Z[3], b"new", STAT)
    )
    assert isinstance(fired, FireWatch)
    assert isinstance(completed, Complete)


def test_watches_are_set_again_before_the_requests() -> None:
    wire = Wire().serving()
    watching(
        wire,
        Query(GetData, "/d", "w"),
        Query(Exists, "/none", "w"),
        Query(GetChildren, "/c", "w"),
    )
    wire.items(zxid=Z[7])
    wire.submit(SET)
    assert wire.reconnected(zxid=Z[9]) == [
        ClientFrame(3, [SetWatches(4, Z[7], ["/d"], ["/none"], ["/c"])]),
        ClientFrame(4, [write(1)]),
    ]
    assert wire.items(Done(4, Z[9]), done(1)) == [Complete(SET, done(1))]


def test_set_watches_shows_the_zxid_up_to_which_events_were_received() -> None:
    wire = Wire().serving()
    watching(wire, Query(GetData, "/d", "w"))
    wire.items(zxid=Z[7])
    wire.reconnected(zxid=Z[9])
    # 1. The server has applied Z9 and tells so. 2. The link breaks before it has set the watch
    # again. An event between Z7 and Z9 must not be skipped by showing Z9 to the next server.
    wire.items(zxid=Z[9])
    (again,) = wire.reconnected(zxid=Z[9])
    assert again.requests == [SetWatches(3, Z[7], ["/d"], [], [])]
    wire.items(Done(3, Z[9]), zxid=Z[9])
    (again,) = wire.reconnected(zxid=Z[9])
    assert again.requests == [SetWatches(4, Z[9], ["/d"], [], [])]


def test_set_watches_is_split() -> None:
    wire = Wire(set_watches_bytes_max=40).serving()
    paths = [f"/a-path-{n}" for n in range(7)]
    watching(wire, *(Query(GetData, path, "w") for path in paths))
    frames = wire.reconnected()
    assert [frame.requests[0].data for frame in frames] == [
        paths[:2],
        paths[2:4],
        paths[4:6],
        paths[6:],
    ]
    # Each has its own answer, in order.
    wire.items(Done(8, Z[2]), Done(9, Z[2]))
    assert isinstance(wire.items(Done(11, Z[2]))[0], CloseLink)


# Closing.


def test_close_waits_for_what_was_submitted() -> None:
    wire = Wire().serving()
    wire.submit(SET)
    assert wire.close() == [ClientFrame(2, [write(2, CloseSession())])]
    (refused,) = wire.submit(SET)
    assert isinstance(refused.error, ConnectionLossError)
    assert "closed" in str(refused.error)
    completed, closing, lost = wire.items(done(1), done(2), Done(77, Z[2]))[:3]
    assert completed == Complete(SET, done(1))
    assert isinstance(closing, CloseLink)
    assert lost == CLOSED


def test_close_tells_the_watchers() -> None:
    wire = Wire().serving()
    watching(wire, Query(GetData, "/a", "w"), Query(Exists, "/a", "w"))
    wire.close()
    *_, fired = wire.items(done(1))
    assert fired.watchers == ["w"]
    assert fired.event.type is EventType.NONE


def test_close_is_sent_again_like_any_write() -> None:
    wire = Wire().serving()
    wire.close()
    (again,) = wire.reconnected()
    assert again.requests == [write(1, CloseSession())]
    assert wire.items(done(1))[-1] == CLOSED


def test_a_session_that_is_over_is_closed() -> None:
    wire = Wire().serving()
    wire.close()
    wire.failed()
    wire.opened()
    answer = Connected(Code.SESSION_EXPIRED, SESSION, Millis(0), ZERO, 0)
    assert wire.told(answer)[-1] == CLOSED


def test_close_gives_up() -> None:
    wire = Wire(request_timeout_ms=500).serving()
    wire.submit(SET)
    wire.failed()
    wire.close()
    assert wire.core.deadline() == 1500
    _, lost, end = wire.at(1500).wake()
    assert lost == CLOSED
    assert (type(end.error), end.error.definite) == (ConnectionLossError, False)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_close_before_the_session_is_open(steps: int) -> None:
    wire = Wire()
    wire.core.submit(SET, SET, wire.now)
    for step in (wire.start, wire.opened)[:steps]:
        step()
    *before, lost, end = wire.close()
    assert [type(effect) for effect in before] == ([CloseLink] if steps else [])
    assert lost == CLOSED
    assert (type(end.error), end.error.definite) == (ConnectionLossError, True)


def test_close_while_it_pauses() -> None:
    wire = Wire(servers=1)
    wire.start()
    wire.failed()
    assert wire.close() == [CLOSED]


def test_close_is_refused_by_an_error() -> None:
    wire = Wire().serving()
    wire.close()
    assert wire.items(done(1, Code.SESSION_EXPIRED))[-1] == CLOSED
