"""ClientSendQueues: long answers in pages, clients that stop reading, and windows."""

from collections.abc import Sequence

import pytest

from raykeeper.server import server_trace_events
from raykeeper.server.client_requests import RETURN_US, RETURNS_AT_ONCE
from raykeeper.server.client_send_queues import FRAME_BYTES_MAX
from raykeeper.server.context import ServerOptions
from raykeeper.server.effects import SendClient
from raykeeper.server.events import SENT_REPORT_BYTES, ClientBytesSent, ClientDisconnected
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    ConnectReply,
    CountDescendantsReply,
    EmptyReply,
    EventType,
    GetChildrenReply,
    GetDataReply,
    GetEphemeralsReply,
    Item,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import (
    CountDescendants,
    CreateMode,
    GetData,
    GetEphemerals,
    MultiRead,
    ReadData,
    Request,
)
from tests.harness.pure_servers import Caller, PureServer, PureServers, zxid_of

PAGED = ServerOptions(page_names=4)
NARROW = ServerOptions(unsent_bytes_max=SENT_REPORT_BYTES)
BIG = bytes(SENT_REPORT_BYTES // 4)


def crowded(caller: Caller, count: int, flags: int = 0) -> None:
    caller.ask(caller.create("/a"))
    names = [f"/{number}" if flags else f"/a/{number}" for number in range(count)]
    caller.ask(*(caller.create(name, flags=flags) for name in names))


def pages(items: Sequence[Item]) -> list[GetChildrenReply]:
    return [item for item in items if isinstance(item, GetChildrenReply)]


def stuck(host: PureServer, caller: Caller, *requests: Request) -> list[Item]:
    """Send requests while the client reads nothing; return its new items."""
    host.stuck[caller.connection] = None
    return caller.ask(*requests)


def unstuck(host: PureServer, caller: Caller) -> list[Item]:
    """Let the client read everything from now on; return its new items."""
    del host.stuck[caller.connection]
    host.pass_time(0)
    size = host.unsent.pop(caller.connection, 0)
    host.step(ClientBytesSent(caller.connection, size))
    host.pass_time(0)
    return caller.new()


def values(items: Sequence[Item]) -> list[bytes]:
    return [item.value for item in items if isinstance(item, GetDataReply)]


class TestPages:
    def test_all_pages_are_of_one_zxid_and_each_takes_a_step(self) -> None:
        host = PureServer(options=PAGED)
        caller, other = host.caller(1), host.caller(2)
        crowded(caller, 10)
        begun = host.server.state.zxid
        caller.new()
        host.is_disk_held = True
        found: list[GetChildrenReply] = []
        for number in range(3):
            events = [other.frame(other.create(f"/a/new{number}"), other.delete(f"/a/{number}"))]
            if not number:
                events.insert(0, caller.frame(caller.children("/a")))
            host.step(*events)
            found += pages(caller.new())
            assert len(found) == min(2 * number + 1, 3)
            host.sync_disk()
            found += pages(caller.new())
        assert [page.more for page in found] == [True, True, False]
        assert max(len(page.children) for page in found) == 4
        assert sorted(n for page in found for n in page.children) == sorted(map(str, range(10)))
        assert {page.zxid for page in found} == {begun}
        assert {page.stat.num_children for page in found} == {10}

    def test_a_later_event_comes_after_the_list(self) -> None:
        """The watch is set as of the list, and other requests wait until the list is complete."""
        host = PureServer(options=PAGED)
        caller, other = host.caller(1), host.caller(2)
        crowded(caller, 10)
        caller.new()
        host.step(
            caller.frame(caller.children("/a", watch=True), caller.exists("/a"), caller.sync()),
            other.frame(other.create("/a/new")),
        )
        host.pass_time(0)
        shown: list[object] = []
        for item in caller.new():
            match item:
                case GetChildrenReply():
                    shown.append(item.more)
                case WatcherEvent():
                    shown.append(item.kind)
                case _:
                    shown.append(type(item).__name__)
        assert shown == [True, True, False, EventType.CHILD, "ExistsReply", "EmptyReply"]

    def test_no_frame_names_a_zxid_whose_event_is_still_to_come(self) -> None:
        host = PureServer(options=PAGED)
        caller, other = host.caller(1), host.caller(2)
        crowded(caller, 10)
        caller.ask(caller.get("/a", watch=True))
        host.step(caller.frame(caller.children("/a")), other.frame(other.set("/a", b"new")))
        host.pass_time(0)
        fired = Zxid(host.server.state.zxid)
        for frame in caller.answers:
            if any(isinstance(item, WatcherEvent) for item in frame.items):
                break
            assert frame.zxid < fired
        else:
            pytest.fail("no event")

    def test_an_earlier_request_is_answered_before_the_list(self) -> None:
        host = PureServer(options=PAGED)
        caller = host.caller()
        crowded(caller, 5)
        items = caller.ask(caller.exists("/a"), caller.children("/a"), caller.exists("/a"))
        host.pass_time(0)
        items += caller.new()
        assert [type(item).__name__ for item in items] == [
            *("ExistsReply", "GetChildrenReply", "GetChildrenReply", "ExistsReply")
        ]

    def test_two_lists_between_two_writes_follow_each_other(self) -> None:
        """The second read cannot wait: the write behind it is under way."""
        host = PureServer(options=PAGED)
        caller = host.caller()
        crowded(caller, 5)
        caller.new()
        list_one, list_two = caller.children("/a"), caller.children("/a")
        host.step(caller.frame(caller.set("/", b"x"), list_one, list_two, caller.set("/", b"y")))
        host.pass_time(0)
        items = caller.new()
        pages_of_two = ["GetChildrenReply"] * 4
        assert [type(item).__name__ for item in items] == [
            "WriteReply",
            *pages_of_two,
            "WriteReply",
        ]

    def test_lists_of_two_clients_take_turns(self) -> None:
        host = PureServer(options=PAGED)
        one, two = host.caller(1), host.caller(2)
        crowded(one, 10)
        host.take()
        host.step(one.frame(one.children("/a")), two.frame(two.children("/a")))
        host.pass_time(0)
        assert [effect.connection for effect in host.of(SendClient)][:4] == [1, 2, 1, 2]
        assert len(pages(one.new())) == len(pages(two.new())) == 3

    def test_a_disconnected_client_gets_no_more_pages(self) -> None:
        host = PureServer(options=PAGED)
        caller = host.caller()
        crowded(caller, 10)
        host.step(caller.frame(caller.children("/a")))
        host.step(ClientDisconnected(1))
        host.take()
        host.pass_time(0)
        assert host.of(SendClient) == []
        assert not host.server._clients.has_work

    def test_a_closed_session_gets_no_more_pages(self) -> None:
        host = PureServer(options=PAGED)
        caller, other = host.caller(1), host.caller(2)
        crowded(caller, 10)
        host.step(caller.frame(caller.children("/a"), caller.close()))
        host.pass_time(0)
        assert caller.ended == Code.SESSION_EXPIRED
        assert other.ask(other.exists("/a")) != []

    def test_ephemerals_come_in_pages_too(self) -> None:
        host = PureServer(options=PAGED)
        caller = host.caller()
        crowded(caller, 10, CreateMode.EPHEMERAL)
        caller.ask(GetEphemerals(caller.next_xid(), "/"))
        host.pass_time(0)
        found = [item for item in caller.items if isinstance(item, GetEphemeralsReply)]
        assert [item.more for item in found] == [True, True, False]
        assert sorted(p for item in found for p in item.paths) == sorted(f"/{n}" for n in range(10))

    def test_a_count_takes_several_steps_and_one_reply(self) -> None:
        host = PureServer(options=PAGED)
        caller = host.caller()
        crowded(caller, 10)
        caller.ask(CountDescendants(caller.next_xid(), "/a"))
        assert not any(isinstance(item, CountDescendantsReply) for item in caller.items)
        host.pass_time(0)
        (count,) = (item for item in caller.new() if isinstance(item, CountDescendantsReply))
        assert count.count == 10

    def test_long_replies_to_aux_reads_leave_in_frames_of_their_own(self) -> None:
        host = PureServer()
        caller = host.caller()
        caller.ask(caller.create("/big", bytes(700_000)))
        long = "/" + "x" * 8_000
        paths = [f"{long}{number}" for number in range(30)]
        caller.ask(*(caller.create(path, flags=CreateMode.EPHEMERAL) for path in paths))
        before = len(caller.answers)
        caller.ask(*(MultiRead(caller.next_xid(), [ReadData("/big")]) for _ in range(4)))
        caller.ask(*(GetEphemerals(caller.next_xid(), "/") for _ in range(5)))
        assert [len(frame.items) for frame in caller.answers[before:]] == [2, 2, 5]


class TestClientThatStopsReading:
    def test_a_client_that_stops_reading_is_sent_no_more_than_the_bound(self) -> None:
        host = PureServer(options=NARROW)
        caller = host.caller()
        caller.ask(caller.create("/a", BIG))
        host.take()
        got = stuck(host, caller, *(caller.get("/a") for _ in range(100)))
        sent = sum(len(effect.data) for effect in host.of(SendClient))
        assert SENT_REPORT_BYTES < sent < FRAME_BYTES_MAX + 2 * SENT_REPORT_BYTES
        assert len(values(got)) < 100
        got += unstuck(host, caller)
        assert values(got) == [BIG] * 100

    def test_many_large_values_leave_as_fast_as_they_are_taken(self) -> None:
        """2 GB are requested at once; the queues never hold more than a few MB of them."""
        host = PureServer(options=ServerOptions())
        caller = host.caller()
        caller.ask(caller.create("/a", bytes(1 << 20)))
        host.stuck[caller.connection] = None
        host.step(caller.frame(*(caller.get("/a") for _ in range(2_000))))
        answered = under_way = most = 0
        while answered < 2_000:
            host.pass_time(0)
            answered += len(values(caller.items))
            under_way += sum(len(effect.data) for effect in host.of(SendClient))
            most = max(most, under_way)
            host.frames.clear()
            host.take()
            assert under_way > SENT_REPORT_BYTES, "it waits for nothing"
            under_way -= SENT_REPORT_BYTES
            host.step(ClientBytesSent(caller.connection, SENT_REPORT_BYTES))
        assert most < 8 << 20

    def test_a_client_that_reads_again_gets_its_replies_in_order(self) -> None:
        host = PureServer(options=NARROW)
        caller = host.caller()
        caller.ask(caller.create("/a", b"0" + BIG))
        got = stuck(host, caller, *(caller.get("/a") for _ in range(100)))
        requests: list[Request] = [caller.get("/a"), caller.set("/a", b"1"), caller.get("/a")]
        read = GetData(caller.next_xid(), "/a", False, True)
        requests += [caller.sync(), caller.set("/a", b"2"), read, caller.set("/a", b"3")]
        got += caller.ask(*requests)
        assert host.server.state.tree.znodes["/a"].value == b"0" + BIG
        got += unstuck(host, caller)
        last = [
            item.value[:1] if isinstance(item, GetDataReply) else type(item) for item in got[-7:]
        ]
        assert last == [b"0", WriteReply, b"1", EmptyReply, WriteReply, b"2", WriteReply]
        assert host.server.state.tree.znodes["/a"].value == b"3"

    def test_a_read_before_an_outstanding_write_does_not_see_it(self) -> None:
        """The read cannot wait: the server reads at once, and the answer waits."""
        servers = PureServers(3, options=NARROW)
        host = servers[1]
        caller = host.caller()
        caller.ask(caller.create("/a", b"0"), caller.create("/big", BIG))
        servers.hold(3, 1)
        reads = [caller.get("/big") for _ in range(100)]
        got = stuck(host, caller, caller.set("/a", b"1"), caller.get("/a"), caller.set("/a", b"2"))
        got += caller.ask(*reads)
        servers.release(3, 1)
        assert host.server.state.tree.znodes["/a"].value == b"2"
        got += caller.new()
        host.pass_time(0)
        got += unstuck(host, caller)
        assert values(got) == [b"1", *[BIG] * 100]

    def test_queued_replies_are_bounded(self) -> None:
        servers = PureServers(
            3,
            options=ServerOptions(
                unsent_bytes_max=SENT_REPORT_BYTES, queued_bytes_max=5 * len(BIG)
            ),
        )
        host = servers[1]
        caller, other = host.caller(1), host.caller(2)
        caller.ask(caller.create("/big", BIG))
        caller.ask(caller.create("/a"))
        servers.hold(3, 1)
        requests: list[Request] = []
        for number in range(100):
            requests += [caller.set("/a", b"%d" % number), caller.get("/big")]
        stuck(host, caller, *requests)
        servers.release(3, 1)
        assert caller.ended == Code.CONNECTION_LOSS
        assert host.notes(server_trace_events.CLIENT_OVERRUN) == [1]
        assert len(values(caller.items)) < 100
        assert host.server.state.tree.znodes["/a"].value == b"99"
        assert len(other.ask(other.exists("/a"))) == 1

    def test_events_wait_in_order_until_the_client_reads(self) -> None:
        host = PureServer(options=NARROW)
        caller, other = host.caller(1), host.caller(2)
        names = [f"/{number}" for number in range(20)]
        caller.ask(*map(caller.create, names), caller.create("/big", BIG))
        caller.ask(*(caller.exists(name, watch=True) for name in names))
        got = stuck(host, caller, *(caller.get("/big") for _ in range(10)))
        for name in names:
            other.ask(other.set(name, b"new"))
        got += unstuck(host, caller)
        assert [item.path for item in got if isinstance(item, WatcherEvent)] == names
        zxids = [frame.zxid for frame in caller.answers]
        assert zxids == sorted(zxids)

    def test_a_queued_frame_names_the_zxid_of_its_last_event(self) -> None:
        """It is sent in a step that applies more; the event of that comes in the next frame."""
        host = PureServer(options=NARROW)
        caller, other = host.caller(1), host.caller(2)
        names = ["/a", "/b", "/late"]
        caller.ask(*map(caller.create, names), caller.create("/big", BIG))
        caller.ask(*(caller.exists(name, watch=True) for name in names))
        stuck(host, caller, *(caller.get("/big") for _ in range(10)))
        other.ask(other.set("/a", b"new"))
        other.ask(other.set("/b", b"new"))
        held_at = zxid_of(host)
        host.is_disk_held = True
        other.ask(other.set("/late", b"new"))
        assert zxid_of(host) == held_at
        size = host.unsent.pop(caller.connection)
        host.sync_disk(ClientBytesSent(caller.connection, size))
        assert zxid_of(host) > held_at
        told = [
            (item.path, frame.zxid)
            for frame in caller.answers
            for item in frame.items
            if isinstance(item, WatcherEvent)
        ]
        assert told == [("/a", held_at), ("/b", held_at), ("/late", zxid_of(host))]

    def test_a_client_with_too_many_queued_events_is_disconnected_alone(self) -> None:
        host = PureServer(
            options=ServerOptions(unsent_bytes_max=SENT_REPORT_BYTES, queued_items_max=9)
        )
        caller, other = host.caller(1), host.caller(2)
        names = [f"/{number}" for number in range(20)]
        caller.ask(*map(caller.create, names), caller.create("/big", BIG))
        for each in (caller, other):
            each.ask(*(each.exists(name, watch=True) for name in names))
        stuck(host, caller, *(caller.get("/big") for _ in range(10)))
        other.new()
        other.ask(*(other.set(name, b"new") for name in names[:9]))
        assert caller.ended is None
        other.ask(other.set(names[9], b"new"))
        assert caller.ended == Code.CONNECTION_LOSS
        assert host.notes(server_trace_events.CLIENT_OVERRUN) == [1]
        assert sum(isinstance(item, WatcherEvent) for item in other.items) == 10

    def test_a_client_whose_session_ends_in_that_step_learns_the_end(self) -> None:
        host = PureServer(
            options=ServerOptions(unsent_bytes_max=SENT_REPORT_BYTES, queued_items_max=1)
        )
        caller, other = host.caller(1), host.caller(2)
        caller.ask(caller.create("/a"), caller.create("/big", BIG))
        caller.ask(caller.get("/a", watch=True))
        stuck(host, caller, *(caller.get("/big") for _ in range(5)))
        other.ask(other.set("/a", b"new"))
        assert caller.ended is None
        caller.ask(caller.close())
        assert caller.ended == Code.SESSION_EXPIRED
        assert host.notes(server_trace_events.CLIENT_OVERRUN) == []

    def test_a_heartbeat_is_not_queued(self) -> None:
        """A heartbeat needs no frame of its own; the next frame carries the newest one."""
        host = PureServer(options=NARROW)
        caller = host.caller()
        caller.ask(caller.create("/a", BIG))
        stuck(host, caller, *(caller.get("/a") for _ in range(10)))
        before = len(caller.answers)
        host.step(caller.frame())
        host.pass_time(300)
        assert len(caller.answers) == before
        unstuck(host, caller)
        assert caller.answers[-1].heartbeat_seq == caller.beat

    def test_a_long_list_waits_until_the_client_reads(self) -> None:
        host = PureServer(options=ServerOptions(page_names=4, unsent_bytes_max=SENT_REPORT_BYTES))
        caller = host.caller()
        crowded(caller, 10)
        caller.ask(caller.create("/big", BIG))
        got = stuck(host, caller, *(caller.get("/big") for _ in range(5)))
        got += caller.ask(caller.children("/a"))
        host.pass_time(0)
        assert pages(got + caller.new()) == []
        assert len(pages(unstuck(host, caller))) == 3

    def test_a_sent_report_of_an_unknown_client_is_ignored(self) -> None:
        host = PureServer()
        host.step(ClientBytesSent(77, 5))
        assert host.of(SendClient) == []


class TestWindow:
    def test_the_window_is_an_equal_share_and_named_in_every_frame(self) -> None:
        host = PureServer(options=ServerOptions(outstanding_requests_max=9))
        one = host.caller(1)
        assert isinstance(one.greeting, ConnectReply) and one.greeting.window == 9
        two, three = host.caller(2), host.caller(3)
        assert isinstance(three.greeting, ConnectReply) and three.greeting.window == 3
        one.ask(one.sync())
        assert one.answers[-1].window == 3
        host.step(ClientDisconnected(two.connection))
        one.ask(one.sync())
        assert one.answers[-1].window == 4

    def test_every_frame_tells_over_how_long_the_clients_would_spread_their_return(self) -> None:
        host = PureServer()
        callers = [host.caller(number) for number in range(1, RETURNS_AT_ONCE + 3)]
        greetings = [caller.greeting for caller in callers]
        spreads = [each.return_spread_ms for each in greetings if isinstance(each, ConnectReply)]
        assert spreads == [0] * (RETURNS_AT_ONCE + 1) + [2 * RETURN_US // 1000]
        callers[0].ask(callers[0].sync())
        assert callers[0].answers[-1].return_spread_ms == 2 * RETURN_US // 1000
        host.step(ClientDisconnected(2))
        callers[0].ask(callers[0].sync())
        assert callers[0].answers[-1].return_spread_ms == 0

    def test_the_window_is_at_least_one_and_at_most_the_reply_cache(self) -> None:
        host = PureServer(options=ServerOptions(outstanding_requests_max=2))
        callers = [host.caller(number) for number in range(1, 6)]
        greeting = callers[-1].greeting
        assert isinstance(greeting, ConnectReply) and greeting.window == 1
        alone = PureServer(options=ServerOptions(outstanding_requests_max=1_000_000)).caller()
        assert isinstance(alone.greeting, ConnectReply)
        assert alone.greeting.window == 2000
