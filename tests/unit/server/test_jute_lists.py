"""Long lists for ZooKeeper's clients: made once, kept while they are true, within their bound."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from raykeeper.jute.fields import EncodedStrings
from raykeeper.jute.opcodes import OpCode
from raykeeper.jute.records import (
    CreateRequest,
    GetChildren2Response,
    GetChildrenResponse,
    PathWatchRequest,
)
from raykeeper.server import jute_lists, server_trace_events
from raykeeper.server.context import ZooKeeperOptions
from raykeeper.server.effects import SendClient
from raykeeper.server.events import ClientBytesSent, JuteBytesArrived
from raykeeper.server.jute_buffers import FREE_BYTES
from raykeeper.server.jute_lists import KEPT_FROM, UNFINISHED_BYTES, JuteLists, PagedNames
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.acl import OPEN_ACL, Acl
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import GetChildrenReply
from raykeeper.znodes.stat import Stat
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import OPTIONS, PureServer

PAGED = replace(OPTIONS, page_names=3)
NAMES = [f"n{number:04}" for number in range(KEPT_FROM)]
NAMES_BYTES = 9 * KEPT_FROM


def stat_of(czxid: int = 1, pzxid: int = 2, cversion: int = 0, count: int = KEPT_FROM) -> Stat:
    first, last, never = Zxid(czxid), Zxid(pzxid), Millis(0)
    return Stat(first, first, never, never, 0, cversion, 0, 0, 0, count, last)


def reply(names: Sequence[str] = NAMES, stat: Stat | None = None) -> GetChildrenReply:
    return GetChildrenReply(1, Zxid(9), list(names), stat or stat_of())


def kept(bytes_max: int = 1 << 20, path: str = "/p") -> JuteLists:
    lists = JuteLists(bytes_max)
    lists.names_of(path, reply())
    return lists


def encoded(names: Sequence[str]) -> EncodedStrings:
    paged = PagedNames()
    paged.add(names)
    return paged.take()


# Lists of one page.


def test_a_list_is_kept_as_bytes() -> None:
    lists = JuteLists(1 << 20)
    assert lists.names_of("/p", reply()) == encoded(NAMES)
    assert "/p" in lists and lists.bytes == NAMES_BYTES
    assert lists.get("/p", stat_of()) == encoded(NAMES)
    assert "/q" not in lists and lists.get("/q", stat_of()) is None


def test_a_short_list_is_not_kept() -> None:
    lists = JuteLists(1 << 20)
    assert lists.names_of("/p", reply(NAMES[1:])) is None
    assert lists.bytes == 0


@pytest.mark.parametrize(
    "stat",
    [
        stat_of(czxid=2),
        stat_of(pzxid=3),
        stat_of(cversion=1),
        stat_of(count=KEPT_FROM - 1),
    ],
    ids=["created again", "changed", "counted", "fewer"],
)
def test_a_list_of_other_children_is_forgotten(stat: Stat) -> None:
    lists = kept()
    assert lists.get("/p", stat) is None
    assert "/p" not in lists and lists.bytes == 0


def test_a_newer_list_takes_the_place_of_an_older_one() -> None:
    lists = kept()
    lists.names_of("/p", reply(["a" * 5] * KEPT_FROM, stat_of(pzxid=3)))
    assert lists.bytes == NAMES_BYTES
    assert lists.get("/p", stat_of(pzxid=3)) == encoded(["a" * 5] * KEPT_FROM)


def test_the_list_for_which_nobody_asked_for_longest_leaves_first() -> None:
    lists = kept(2 * NAMES_BYTES)
    lists.names_of("/q", reply())
    assert lists.get("/p", stat_of()) is not None
    lists.names_of("/r", reply())
    assert [path for path in ("/p", "/q", "/r") if path in lists] == ["/p", "/r"]
    assert lists.bytes == 2 * NAMES_BYTES


def test_a_list_above_the_bound_is_answered_and_not_kept() -> None:
    lists = JuteLists(NAMES_BYTES - 1)
    assert lists.names_of("/p", reply()) == encoded(NAMES)
    assert "/p" not in lists and lists.bytes == 0


def crowd(host: PureServer, count: int) -> list[JuteCaller]:
    return [connected(host, number) for number in range(1, count + 1)]


def fill(caller: JuteCaller, names: Sequence[str], path: str = "/p") -> None:
    host = caller.host
    caller.create(path)
    for name in names:
        assert caller.create(f"{path}/{name}").err == 0
        host.step(ClientBytesSent(caller.connection, host.unsent.pop(caller.connection)))


def names_in(answer: object) -> list[str]:
    assert isinstance(answer, GetChildrenResponse | GetChildren2Response), answer
    return sorted(answer.children or ())


def list_of(caller: JuteCaller) -> list[str]:
    (answer,) = caller.read()
    return names_in(answer.body)


def count_bytes(lists: JuteLists) -> int:
    return sum(each.size for each in lists._by_path.values())


def arrival(caller: JuteCaller, data: bytes) -> JuteBytesArrived:
    return JuteBytesArrived(caller.connection, data)


def arrive(caller: JuteCaller, data: bytes) -> None:
    """Let bytes arrive, in a step of their own and no further one."""
    caller.host.step(arrival(caller, data))


def ask_together(host: PureServer, callers: Sequence[JuteCaller]) -> list[int]:
    """Have all ask for /p in one step; return the connections that were sent lists, in order."""
    asked = [caller.frame(OpCode.GET_CHILDREN, PathWatchRequest("/p", False)) for caller in callers]
    host.take()
    host.step(*map(arrival, callers, asked))
    host.pass_time(0)
    return [effect.connection for effect in host.of(SendClient)]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the pages and lists that were encoded."""
    made: list[int] = []
    right = PagedNames.add

    def add(self: PagedNames, names: Sequence[str]) -> None:
        made.append(len(names))
        right(self, names)

    monkeypatch.setattr(PagedNames, "add", add)
    return made


# What clients get of them.


def test_a_list_is_encoded_once_for_all_clients(pages: list[int]) -> None:
    host = PureServer()
    one, two = crowd(host, 2)
    fill(one, NAMES)
    assert names_in(one.children("/p").body) == NAMES
    assert names_in(two.children("/p").body) == NAMES
    listed = two.ask(OpCode.GET_CHILDREN2, PathWatchRequest("/p", False)).body
    assert isinstance(listed, GetChildren2Response)
    assert names_in(listed) == NAMES and listed.stat.num_children == KEPT_FROM
    assert pages == [KEPT_FROM]


def test_a_list_is_made_anew_when_a_child_comes_or_goes() -> None:
    host = PureServer()
    one, two = crowd(host, 2)
    fill(one, NAMES)
    assert names_in(one.children("/p").body) == NAMES
    two.create("/p/z")
    assert names_in(one.children("/p").body) == [*NAMES, "z"]
    two.delete("/p/z")
    assert names_in(one.children("/p").body) == NAMES
    two.delete("/p/n0000")
    two.create("/p/n9999")
    assert names_in(one.children("/p").body) == [*NAMES[1:], "n9999"]


def test_who_may_not_read_gets_no_kept_list() -> None:
    host = PureServer()
    one, two = crowd(host, 2)
    mine = [Acl(31, "auth", "")]
    one.auth("digest", b"ann:secret")
    one.ask(OpCode.CREATE, CreateRequest("/p", b"", mine, 0))
    for name in NAMES:
        one.create(f"/p/{name}")
    assert names_in(one.children("/p").body) == NAMES
    assert two.children("/p").err == Code.NO_AUTH
    assert names_in(one.children("/p").body) == NAMES


def test_a_kept_list_of_a_znode_that_is_gone_is_no_answer() -> None:
    host = PureServer()
    (caller,) = crowd(host, 1)
    fill(caller, NAMES)
    caller.children("/p")
    for name in NAMES:
        caller.delete(f"/p/{name}")
    caller.delete("/p")
    assert caller.children("/p").err == Code.NO_NODE
    caller.create("/p")
    assert names_in(caller.children("/p").body) == []
    assert caller.exists("/p").err == 0, "a read of another kind finds no list"


def test_a_watch_is_set_with_a_kept_list() -> None:
    host = PureServer()
    one, two = crowd(host, 2)
    fill(one, NAMES)
    one.children("/p")
    one.ask(OpCode.GET_CHILDREN, PathWatchRequest("/p", True))
    two.create("/p/z")
    (event,) = one.read()
    assert event.xid == -1


def test_a_kept_list_that_is_longer_than_a_frame_waits_for_its_turn() -> None:
    host = PureServer()
    (caller,) = crowd(host, 1)
    names = [f"{number:04}" + "x" * 5_000 for number in range(KEPT_FROM)]
    fill(caller, names)
    for _ in range(2):
        assert names_in(caller.children("/p").body) == names


# Lists of several pages, which all that wait for them make together.


def test_a_list_is_made_once_for_all_that_wait(pages: list[int]) -> None:
    host = PureServer(options=PAGED)
    callers = crowd(host, 4)
    fill(callers[0], NAMES[:20])
    assert ask_together(host, callers) == [3, 4, 1, 2], "the seventh turn has the last page"
    assert all(list_of(caller) == NAMES[:20] for caller in callers)
    assert pages == [3, 3, 3, 3, 3, 3, 2]
    assert names_in(callers[0].children("/p").body) == NAMES[:20]
    assert len(pages) == 7


def test_a_list_goes_on_when_the_first_that_asked_is_gone(pages: list[int]) -> None:
    host = PureServer(options=PAGED)
    one, two = crowd(host, 2)
    fill(one, NAMES[:20])
    for caller in (one, two):
        arrive(caller, caller.frame(OpCode.GET_CHILDREN, PathWatchRequest("/p", False)))
    one.disconnect()
    assert 0 < len(pages) < 7
    host.pass_time(0)
    assert list_of(two) == NAMES[:20]
    assert len(pages) == 7


def test_each_gets_the_list_of_the_time_at_which_it_asked() -> None:
    host = PureServer(options=PAGED)
    one, two, writer = crowd(host, 3)
    fill(one, NAMES[:20])
    arrive(one, one.frame(OpCode.GET_CHILDREN, PathWatchRequest("/p", False)))
    arrive(writer, writer.frame(OpCode.CREATE, CreateRequest("/p/z", b"", list(OPEN_ACL), 0)))
    arrive(two, two.frame(OpCode.GET_CHILDREN, PathWatchRequest("/p", False)))
    host.pass_time(0)
    assert list_of(one) == NAMES[:20]
    assert list_of(two) == [*NAMES[:20], "z"]


def test_the_bytes_of_a_list_are_counted_for_each_that_waits() -> None:
    host = PureServer(options=replace(PAGED, page_names=10))
    one, two = crowd(host, 2)
    long = [f"{number:02}" + "x" * 8_000 for number in range(40)]
    fill(one, long)
    asked = PathWatchRequest("/p", False)
    for caller in (one, two):
        arrive(caller, caller.frame(OpCode.GET_CHILDREN, asked))
    arrive(one, b"")
    counted = host.server._context.jute_buffers.bytes + 2 * FREE_BYTES
    assert 400_000 < counted < 401_000, "two pages for one, three for the other"
    host.pass_time(0)
    assert list_of(one) == list_of(two) == long


def test_lists_that_are_made_are_bounded_with_the_kept_ones() -> None:
    options = replace(PAGED, zookeeper=ZooKeeperOptions(list_bytes_max=2 * UNFINISHED_BYTES))
    host = PureServer(options=options)
    callers = crowd(host, 3)
    for caller, path in zip(callers, ("/p", "/q", "/r"), strict=True):
        fill(caller, NAMES[:7], path)
    for caller, path in zip(callers, ("/p", "/q", "/r"), strict=True):
        arrive(caller, caller.frame(OpCode.GET_CHILDREN, PathWatchRequest(path, False)))
    lists = host.server._context.jute_lists
    assert lists.bytes <= 2 * UNFINISHED_BYTES
    host.pass_time(0)
    assert all(list_of(caller) == NAMES[:7] for caller in callers)
    assert lists.bytes == count_bytes(lists) > 0


def test_a_list_that_grows_takes_the_place_of_kept_ones() -> None:
    bytes_max = UNFINISHED_BYTES + 700
    options = replace(PAGED, zookeeper=ZooKeeperOptions(list_bytes_max=bytes_max))
    (caller,) = crowd(PureServer(options=options), 1)
    lists = caller.host.server._context.jute_lists
    for path, other in (("/p", "/q"), ("/q", "/p")):
        fill(caller, [f"{number:026}" for number in range(20)], path)
        caller.children(path)
        assert path in lists and other not in lists
        assert lists.bytes == count_bytes(lists) == 20 * 30


def test_a_list_above_the_setting_ends_the_connections_that_wait() -> None:
    options = replace(PAGED, zookeeper=ZooKeeperOptions(list_bytes_max=60))
    host = PureServer(options=options)
    callers = crowd(host, 2)
    fill(callers[0], NAMES[:20])
    ask_together(host, callers)
    assert all(caller.is_closed and caller.read() == [] for caller in callers)
    reason = "a list: the setting zookeeper_list_bytes is 60"
    assert host.notes(server_trace_events.CLIENT_LIMITED) == [(1, reason), (2, reason)]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["create", "delete", "list", "list"]),
            st.integers(0, 2),
            st.integers(0, 7),
        ),
        max_size=40,
    )
)
def test_lists_are_those_of_a_naive_twin(actions: list[tuple[str, int, int]]) -> None:
    right = jute_lists.KEPT_FROM
    vars(jute_lists)["KEPT_FROM"] = 1
    try:
        host = PureServer(options=PAGED)
        callers = crowd(host, 3)
        callers[0].create("/p")
        twin: set[str] = set()
        for kind, who, number in actions:
            caller, name = callers[who], f"n{number}"
            if kind == "create":
                assert (caller.create(f"/p/{name}").err == 0) is (name not in twin)
                twin.add(name)
            elif kind == "delete":
                assert (caller.delete(f"/p/{name}").err == 0) is (name in twin)
                twin.discard(name)
            else:
                assert names_in(caller.children("/p").body) == sorted(twin)
            lists = host.server._context.jute_lists
            assert lists.bytes == count_bytes(lists)
    finally:
        vars(jute_lists)["KEPT_FROM"] = right
