"""ClientCore: opening a session, sending requests, taking answers."""

from typing import Any

import pytest

from raykeeper.client.core.effects import (
    Complete,
    Fail,
    OpenLink,
)
from raykeeper.client.core.outstanding import Query
from raykeeper.client.core.public_types import ClientState
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.errors import (
    AuthFailedError,
    BadArgumentsError,
    Code,
    InvalidAclError,
    KeeperError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    UnimplementedError,
)
from raykeeper.znodes.paths import CONFIG_PATH
from raykeeper.znodes.replies import (
    ConnectReply,
    EmptyReply,
    ErrorReply,
    EventType,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    Item,
    ServerFrame,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    ClientFrame,
    Connect,
    Create,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reconfig,
    SessionId,
    SetData,
    Sync,
)
from tests.unit.client.wire import CONNECTED, PASSWORD, SESSION, SET, STAT, S, Wire, Z, done, write

STEP = Reconfig(4, 0, True)


def test_opens_a_session() -> None:
    wire = Wire()
    (opening,) = wire.start()
    assert isinstance(opening, OpenLink)
    assert wire.opened() == [Connect(SessionId(0), PASSWORD, Millis(S), ZERO, attempt=1)]
    assert wire.core.state is ClientState.SUSPENDED
    assert wire.connected() == [CONNECTED]
    assert (wire.core.state, wire.core.session_id) == (ClientState.CONNECTED, SESSION)


def test_earlier_requests_leave_in_one_frame_once_connected() -> None:
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
        (
            Multi([], [], []),
            write(1, Multi([], [], [])),
            done(1, Code.BAD_ARGUMENTS),
            BadArgumentsError(
                "",
                "a condition is invalid, or there are more operations than the settings "
                "transaction_ops_max and zookeeper_request_bytes allow",
            ),
        ),
        (
            Create("/c", b"", 0),
            write(1, Create("/c", b"", 0)),
            done(1, Code.INVALID_ACL),
            InvalidAclError(
                "/c",
                "the session has proved nothing for which `auth` stands, or there are more "
                "entries than the setting acl_entries_max",
            ),
        ),
        (
            AddAuth("digest", b"ann:pw"),
            write(1, AddAuth("digest", b"ann:pw")),
            done(1, Code.AUTH_FAILED),
            AuthFailedError(
                "",
                "the credential proves nothing, or the session would have more identities than "
                "the setting session_identities_max",
            ),
        ),
        # The leader says in words why it refuses a step of the member list.
        (STEP, write(1, STEP), done(1, Code.NO_AUTH), NoAuthError(CONFIG_PATH)),
        (
            STEP,
            write(1, STEP),
            WriteReply(1, Z[2], Code.BAD_ARGUMENTS, "server 4 is a voter already", None),
            BadArgumentsError(CONFIG_PATH, "server 4 is a voter already"),
        ),
        (
            STEP,
            write(1, STEP),
            done(1, Code.UNIMPLEMENTED),
            UnimplementedError(
                CONFIG_PATH, "a server is of a version that does not know the request"
            ),
        ),
        # Reads; a code that we do not know is an error all the same.
        (
            Query(GetData, "/a"),
            GetData(1, "/a", False),
            GetDataReply(1, Z[2], b"v", STAT),
            GetDataReply(1, Z[2], b"v", STAT),
        ),
        (
            Query(GetData, "/a"),
            GetData(1, "/a", False),
            ErrorReply(1, Z[2], -999),
            KeeperError("/a", "code -999"),
        ),
        (
            Query(Exists, "/a"),
            Exists(1, "/a", False),
            ExistsReply(1, Z[2], None),
            ExistsReply(1, Z[2], None),
        ),
        (
            Query(GetChildren, "/a"),
            GetChildren(1, "/a", False),
            GetChildrenReply(1, Z[2], ["b"], STAT),
            GetChildrenReply(1, Z[2], ["b"], STAT),
        ),
        (Query(Sync, "/"), Sync(1, "/"), EmptyReply(1, Z[2]), EmptyReply(1, Z[2])),
    ],
)
def test_replies_complete_or_fail_their_requests(
    ask: Any, sent: Any, reply: Item, expected: Any
) -> None:
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


def test_a_write_acknowledges_received_outcomes() -> None:
    wire = Wire().serving()
    wire.submit(SET, SET)
    wire.items(done(1))
    assert wire.submit(SET) == [ClientFrame(2, [write(3, acked=1)])]
    wire.items(done(2), done(3))
    assert wire.submit(SET) == [ClientFrame(3, [write(4, acked=3)])]


def test_requests_on_the_wire_are_bounded() -> None:
    wire = Wire(outstanding_max=2).serving()
    assert wire.submit(SET, SET, SET, SET) == [ClientFrame(1, [write(1), write(2)])]
    assert wire.submit(SET) == []
    # An answer makes room, and what waited leaves in order.
    assert wire.items(done(1)) == [Complete(SET, done(1)), ClientFrame(2, [write(3, acked=1)])]
    assert wire.items(done(2), done(3))[-1] == ClientFrame(
        3, [write(4, acked=3), write(5, acked=3)]
    )


def test_the_bytes_of_a_frame_are_bounded() -> None:
    wire = Wire(frame_bytes=2000).serving()
    big = SetData("/a", bytes(1500), -1)
    assert wire.submit(big, big, SET) == [
        ClientFrame(1, [write(1, big), write(2, big)]),
        ClientFrame(2, [write(3)]),
    ]


def test_the_bytes_on_the_wire_are_bounded() -> None:
    wire = Wire(outstanding_bytes_max=2000, frame_bytes=1000).serving()
    big = SetData("/a", bytes(1500), -1)
    frames = wire.submit(big, big, big, SET)
    assert [len(frame.requests) for frame in frames] == [1, 1]
    # Each answer makes room for one that may exceed the bound again.
    assert wire.items(done(1))[-1] == ClientFrame(3, [write(3, big, acked=1)])
    assert wire.items(done(2))[-1] == ClientFrame(4, [write(4, acked=2)])


@pytest.mark.parametrize("tells", ["ConnectReply", "ServerFrame"])
def test_the_window_of_the_server_bounds_the_requests_on_the_wire(tells: str) -> None:
    wire = Wire()
    wire.start()
    wire.opened()
    narrow = tells == "ConnectReply"
    wire.told(ConnectReply(0, SESSION, Millis(S), Z[1], 0, window=2 if narrow else 100))
    if not narrow:
        wire.told(ServerFrame(0, Z[1], [], 2))
    (frame,) = wire.submit(SET, SET, SET, SET, SET)
    assert len(frame.requests) == 2
    # A wider window lets more leave, though nothing was answered.
    (wider,) = wire.told(ServerFrame(0, Z[1], [], 4))
    assert wider.requests == [write(3), write(4)]
    # A narrower one takes nothing back.
    assert wire.told(ServerFrame(0, Z[2], [done(1), done(2)], 1)) == [
        Complete(SET, done(1)),
        Complete(SET, done(2)),
    ]
    assert wire.told(ServerFrame(0, Z[2], [done(3)], 1)) == [Complete(SET, done(3))]
    assert wire.told(ServerFrame(0, Z[2], [done(4)], 1))[1:] == [
        ClientFrame(3, [write(5, acked=4)]),
    ]


def test_a_list_in_pages_is_one_reply_and_sets_its_watch_once() -> None:
    wire = Wire().serving()
    ask = Query(GetChildren, "/a", "watcher")
    wire.submit(ask, SET)
    assert wire.items(GetChildrenReply(1, Z[2], ["b"], STAT, True)) == []
    assert wire.items(GetChildrenReply(1, Z[2], ["c"], STAT, True)) == []
    whole = GetChildrenReply(1, Z[2], ["b", "c", "d"], STAT)
    assert wire.items(GetChildrenReply(1, Z[2], ["d"], STAT), done(1)) == [
        Complete(ask, whole),
        Complete(SET, done(1)),
    ]
    fired = wire.items(WatcherEvent(EventType.CHILD, "/a", Z[3]))
    assert [effect.watchers for effect in fired] == [["watcher"]]


def test_a_list_that_breaks_off_is_requested_again() -> None:
    wire = Wire().serving()
    ask = Query(GetChildren, "/a")
    wire.submit(ask)
    wire.items(GetChildrenReply(1, Z[2], ["gone"], STAT, True))
    (again,) = wire.reconnected()
    assert again.requests == [GetChildren(1, "/a", False)]
    assert wire.items(GetChildrenReply(1, Z[3], ["b"], STAT)) == [
        Complete(ask, GetChildrenReply(1, Z[3], ["b"], STAT))
    ]


def test_a_late_list_is_dropped() -> None:
    wire = Wire(request_timeout_ms=100).serving()
    wire.submit(Query(GetChildren, "/a"))
    wire.items(GetChildrenReply(1, Z[2], ["b"], STAT, True))
    (failed,) = wire.at(wire.now + 200).wake()
    assert isinstance(failed, Fail)
    assert wire.items(GetChildrenReply(1, Z[2], ["c"], STAT)) == []
