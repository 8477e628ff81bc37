"""RequestCounts: every request that is answered counts once, by its kind and its outcome."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from raykeeper.server.connection import LocalRequest
from raykeeper.server.context import ServerOptions
from raykeeper.server.events import ClientDisconnected
from raykeeper.server.request_counts import LOCAL_KINDS, TXN_KINDS, kind_of_op
from raykeeper.zab.ids import Millis
from raykeeper.znodes.requests import (
    AddWatch,
    Exists,
    GetAcls,
    GetChildren,
    GetData,
    RemoveWatches,
    Sync,
    WriteOp,
)
from tests.harness.caller import Caller
from tests.harness.jute_caller import JuteCaller, connected
from tests.harness.pure_servers import LIMITS, PureServer, PureServers

Ask = Callable[[Caller], Any]


def counts_of(host: PureServer) -> dict[tuple[str, str], int]:
    counts = host.server.metrics().requests
    assert counts.pop(("connect", "ok")) == 1
    return counts


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        (lambda c: [c.create("/a"), c.create("/b")], {("create", "ok"): 2}),
        (lambda c: [c.create("/a"), c.create("/a")], {("create", "node_exists"): 1}),
        (lambda c: [c.set("/a", b"")], {("set_data", "no_node"): 1}),
        (lambda c: [c.create("/a"), c.set("/a", b""), c.delete("/a")], {("delete", "ok"): 1}),
        (lambda c: [c.close()], {("close_session", "ok"): 1}),
        (lambda _: [GetData(n, "/", False) for n in range(3)], {("get_data", "ok"): 3}),
        (
            lambda _: [GetData(1, "/", False), Exists(2, "/a", False), GetChildren(3, "/", False)],
            {("get_data", "ok"): 1, ("exists", "ok"): 1, ("get_children", "ok"): 1},
        ),
        (
            lambda _: [GetData(1, "/a", False), GetData(2, "/", False)],
            {("get_data", "ok"): 1, ("get_data", "no_node"): 1},
        ),
        (lambda _: [GetAcls(1, "/a")], {("get_acls", "no_node"): 1}),
        (lambda _: [AddWatch(1, "/a", 7)], {("add_watch", "bad_arguments"): 1}),
        (lambda _: [RemoveWatches(1, "/a", [1])], {("remove_watches", "no_watcher"): 1}),
        (lambda _: [Sync(1, "/")], {("sync", "ok"): 1}),
        (lambda _: [GetData(1, "/", False, True)], {("get_data", "ok"): 1}),
        # A read that waits behind a write is counted when it is answered.
        (lambda c: [c.create("/a"), GetData(1, "/a", False)], {("get_data", "ok"): 1}),
    ],
)
def test_counts_what_is_answered(asked: Ask, counts: dict[tuple[str, str], int]) -> None:
    host = PureServer()
    caller = host.caller()
    requests = asked(caller)
    caller.ask(*requests)
    found = counts_of(host)
    assert sum(found.values()) == len(requests)
    assert found | counts == found


def test_a_request_that_is_not_answered_is_not_counted() -> None:
    servers = PureServers(2)
    host = servers[1]
    caller = host.caller()
    servers.hold(2, 1)
    caller.ask(caller.create("/a"), GetData(1, "/a", False))
    assert counts_of(host) == {}
    host.step(ClientDisconnected(1))
    servers.release(2, 1)
    assert counts_of(host) == {}


def test_a_write_is_counted_by_the_server_of_its_client_alone() -> None:
    servers = PureServers(3)
    caller = servers[1].caller()
    caller.ask(caller.create("/a"), caller.set("/a", b"1"))
    assert [sum(counts_of(servers[1]).values()), servers[2].server.metrics().requests] == [2, {}]
    assert servers[2].server.metrics().applied == servers[1].server.metrics().applied == 3


def test_a_write_that_is_sent_again_is_counted_for_each_answer() -> None:
    host = PureServer()
    caller = host.caller()
    frame = caller.frame(caller.create("/a"))
    host.step(frame)
    assert counts_of(host) == {("create", "ok"): 1}
    host.step(frame)
    assert counts_of(host) == {("create", "ok"): 2}


def test_a_read_above_the_limit_of_watches_is_an_error() -> None:
    host = PureServer(limits=replace(LIMITS, watches_max=1))
    caller = host.caller()
    caller.ask(GetData(1, "/", True), GetData(2, "/zookeeper", True))
    assert counts_of(host) == {("get_data", "ok"): 1, ("get_data", "bad_arguments"): 1}


def test_a_refused_session_is_counted() -> None:
    host = PureServer(limits=replace(LIMITS, sessions_max=1))
    host.caller(1)
    assert JuteCaller(host, 2).connect() is None
    assert host.server.metrics().requests == {
        ("connect", "ok"): 1,
        ("connect", "connection_loss"): 1,
    }


def test_clients_of_zookeeper_are_counted_as_others() -> None:
    host = PureServer(options=ServerOptions(session_report_ms=Millis(100)))
    caller = connected(host)
    caller.create("/a")
    caller.get("/a")
    caller.get("/b")
    found = counts_of(host)
    assert found == {
        ("create", "ok"): 1,
        ("get_data", "ok"): 1,
        ("get_data", "no_node"): 1,
    }


def test_a_reset_begins_anew() -> None:
    host = PureServer()
    caller = host.caller()
    caller.ask(caller.create("/a"), caller.create("/a"), GetData(1, "/", False))
    host.server._context.counters.reset([])
    assert host.server.metrics().requests == {}
    caller.ask(caller.create("/b"), GetData(1, "/", False))
    assert sum(host.server.metrics().requests.values()) == 2


def test_every_request_and_operation_has_a_name_of_its_own() -> None:
    assert set(LOCAL_KINDS) == set(get_args(LocalRequest))
    assert len(set(LOCAL_KINDS.values())) == len(LOCAL_KINDS)
    assert not set(TXN_KINDS.values()) & set(LOCAL_KINDS.values())
    tags = [op.__struct_config__.tag for op in get_args(WriteOp)]
    names = {kind_of_op(bytes([0x90, tag])) for tag in tags}
    assert names == set(TXN_KINDS.values()) | {"close_session"}
    assert [kind_of_op(op) for op in (b"", b"\x91", b"\x91\x77")] == ["unknown"] * 3
