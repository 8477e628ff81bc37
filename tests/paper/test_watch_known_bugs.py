"""What ZooKeeper's watches got wrong: lost, doubled, of a wrong kind, too many for a packet."""

from collections.abc import Callable

import pytest

from raykeeper.client.core.effects import SendFrame
from raykeeper.client.core.outstanding import Query
from raykeeper.server.events import ClientDisconnected
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.limits import WATCHES_MAX
from raykeeper.znodes.replies import (
    ConnectReply,
    EmptyReply,
    EventType,
    Item,
    WatcherEvent,
    encode_server_frame,
)
from raykeeper.znodes.requests import (
    AddWatch,
    ClientFrame,
    Exists,
    GetChildren,
    GetData,
    RemoveWatches,
    Request,
    SetWatches,
    WatchKind,
    WatchMode,
    decode_client_frame,
)
from tests.harness.pure_servers import Caller, PureServers
from tests.unit.client.wire import SESSION, S, Wire, Z

CHANGED, CREATED = EventType.CHANGED, EventType.CREATED
DELETED, CHILD = EventType.DELETED, EventType.CHILD


def events(items: list[Item]) -> list[tuple[EventType, str]]:
    return [(item.kind, item.path) for item in items if isinstance(item, WatcherEvent)]


class Away:
    """A client of S1 that is away while another client changes what it watches."""

    def __init__(self) -> None:
        self.servers = PureServers(3)
        self.one = self.servers[1].caller(1)
        self.other = self.servers[3].caller(2)
        self.other.ask(self.other.create("/a"), self.other.create("/a/x"))
        self.one.ask(self.one.sync())

    def watch(self, kind: str) -> None:
        asks: dict[str, Callable[[], Request]] = {
            "data": lambda: self.one.get("/a", watch=True),
            "exists": lambda: self.one.exists("/a", watch=True),
            "missing": lambda: self.one.exists("/b", watch=True),
            "child": lambda: self.one.children("/a", watch=True),
        }
        self.one.ask(asks[kind]())

    def change(self, what: str) -> None:
        other = self.other
        steps = {
            "set": lambda: [other.set("/a", b"1")],
            "set twice": lambda: [other.set("/a", b"1"), other.set("/a", b"2")],
            "delete": lambda: [other.delete("/a/x"), other.delete("/a")],
            "replace": lambda: [other.delete("/a/x"), other.delete("/a"), other.create("/a")],
            "create child": lambda: [other.create("/a/y")],
            "delete child": lambda: [other.delete("/a/x")],
            "create": lambda: [other.create("/b")],
            "nothing": lambda: [other.create("/c")],
        }
        other.ask(*steps[what]())

    def back(self, since: Zxid, kinds: list[str]) -> list[Item]:
        """Take up the session on S2, and set the watches again."""
        moved = Caller(self.servers[2], 9)
        moved.take_up(self.one)
        data = ["/a"] if "data" in kinds or "exists" in kinds else []
        exist = ["/b"] if "missing" in kinds else []
        child = ["/a"] if "child" in kinds else []
        items = moved.ask(SetWatches(moved.next_xid(), since, data, exist, child))
        assert isinstance(items[-1], EmptyReply)
        self.one = moved
        return items


@pytest.mark.parametrize(
    ("kinds", "what", "told", "later"),
    [
        # What is watched, what is done meanwhile, what is told, what another change tells then.
        (["data"], "set", [(CHANGED, "/a")], ("set", [])),
        (["data"], "set twice", [(CHANGED, "/a")], ("set", [])),
        (["data"], "delete", [(DELETED, "/a")], ("nothing", [])),
        (["data"], "replace", [(DELETED, "/a")], ("set", [])),
        (["data"], "create child", [], ("set twice", [(CHANGED, "/a")])),
        (["exists"], "set", [(CHANGED, "/a")], ("set", [])),
        (["exists"], "delete", [(DELETED, "/a")], ("nothing", [])),
        (["missing"], "create", [(CREATED, "/b")], ("nothing", [])),
        (["missing"], "nothing", [], ("create", [(CREATED, "/b")])),
        (["child"], "create child", [(CHILD, "/a")], ("delete child", [])),
        (["child"], "delete child", [(CHILD, "/a")], ("create child", [])),
        (["child"], "delete", [(CHILD, "/a")], ("nothing", [])),
        (["child"], "set", [], ("create child", [(CHILD, "/a")])),
        (["data", "child"], "delete", [(CHILD, "/a"), (DELETED, "/a")], ("nothing", [])),
        (["data", "child"], "set", [(CHANGED, "/a")], ("create child", [(CHILD, "/a")])),
        (["data", "child"], "create child", [(CHILD, "/a")], ("set twice", [(CHANGED, "/a")])),
    ],
)
def test_zookeeper_1667_a_change_while_the_client_was_away(
    kinds: list[str],
    what: str,
    told: list[tuple[EventType, str]],
    later: tuple[str, list[tuple[EventType, str]]],
) -> None:
    """Exactly one event, of the right kind, for each watch whose znode has changed.

    1. A client of S1 sets watches, and loses its connection.
    2. Another client makes a change.
    3. The first connects to S2 and sets its watches again. ZooKeeper told of a change as of a
       creation, or not at all.
    4. What has fired is gone; what has not is set, and fires once.
    """
    it = Away()
    for kind in kinds:
        it.watch(kind)
    since = it.servers[1].server.state.zxid
    it.servers[1].step(ClientDisconnected(1))
    it.change(what)
    assert events(it.back(since, kinds)) == told
    assert it.servers[2].server.stats().watches == len(later[1])
    it.change(later[0])
    assert events(it.one.new()) == later[1]
    assert it.servers[2].server.stats().watches == 0


@pytest.mark.parametrize("order", [("set", "create child"), ("create child", "set")])
def test_zookeeper_4466_4475_one_kind_of_watch_on_a_path_leaves_the_others(
    order: tuple[str, str],
) -> None:
    """Several watches of different kinds on one path do not disturb each other.

    1. A client watches the value of /a and its children.
    2. One of them changes: that watch is gone, on the server and at the client, the other is not.
    3. The other changes too.
    """
    kind_of = {"set": CHANGED, "create child": CHILD}
    it = Away()
    it.watch("data")
    it.watch("child")
    for what in order:
        it.change(what)
    assert events(it.one.items) == [(kind_of[what], "/a") for what in order]
    wire = Wire().serving()
    wire.watching(Query(GetData, "/a", CHANGED), Query(GetChildren, "/a", CHILD))
    for n, what in enumerate(order):
        (fired,) = wire.items(WatcherEvent(kind_of[what], "/a", Z[3 + n]))
        assert fired.watchers == [kind_of[what]]


@pytest.mark.parametrize("removed", [WatchKind.PERSISTENT, WatchKind.RECURSIVE])
def test_zookeeper_4471_4472_removing_one_mode_of_a_persistent_watch(removed: WatchKind) -> None:
    """The watch of the other mode on the same path stays, and tells what its mode tells.

    1. A client has a persistent and a recursive watch on /a, and removes one of them.
    2. ZooKeeper removed both, or left the recursive one to be told of children.
    3. A child is made: the persistent watch tells that the children of /a have changed, the
       recursive one that there is /a/y.
    """
    it = Away()
    for mode in WatchMode:
        it.one.ask(AddWatch(it.one.next_xid(), "/a", mode))
    assert isinstance(it.one.ask(RemoveWatches(it.one.next_xid(), "/a", [removed]))[0], EmptyReply)
    it.change("create child")
    left = (CREATED, "/a/y") if removed is WatchKind.PERSISTENT else (CHILD, "/a")
    assert events(it.one.new()) == [left]


def test_zookeeper_706_more_watches_than_a_packet_holds() -> None:
    """A hundred thousand watches are set again, in frames that any server takes.

    1. A client has as many watches as a server allows, of all three kinds.
    2. Its connection breaks. ZooKeeper's client sent them in one packet, which the server refused,
       on every server, for ever.
    3. Here each frame is below the bound, all of them go before anything else, and none is lost.
    """
    bound = 1 << 17
    wire = Wire().serving()
    queries = [
        Query((GetData, Exists, GetChildren)[n % 3], f"/some/where/below/{n}", "w")
        for n in range(WATCHES_MAX)
    ]
    for start in range(0, WATCHES_MAX, 1_000):
        wire.watching(*queries[start : start + 1_000])
    wire.core.link_failed("reset", wire.now)
    wire.effects()
    wire.opened()
    read = Query(GetData, "/read")
    wire.core.submit(read, read, wire.now)
    wire.effects()
    taken_up = ConnectReply(0, SESSION, Millis(S), Z[1], 0)
    wire.core.frame(encode_server_frame(taken_up), wire.now)
    frames = sent_frames(wire)
    assert len(frames) > 10
    paths: list[str] = []
    for data, frame in frames:
        assert len(data) < bound + 1_000
        for request in frame.requests:
            if isinstance(request, SetWatches):
                paths += [*request.data, *request.exist, *request.child]
    assert sorted(paths) == sorted(query.path for query in queries)
    assert [type(request) for request in frames[-1][1].requests] == [GetData]


def sent_frames(wire: Wire) -> list[tuple[bytes, ClientFrame]]:
    found = []
    for effect in wire.core.out:
        if isinstance(effect, SendFrame):
            frame = decode_client_frame(effect.data)
            assert isinstance(frame, ClientFrame)
            found.append((effect.data, frame))
    return found
