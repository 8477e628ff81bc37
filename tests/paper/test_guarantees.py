"""What the ZooKeeper paper promises a client, sentence by sentence, on three whole pure servers.

Paper: Hunt, Konar, Junqueira, Reed, "ZooKeeper: Wait-free coordination for Internet-scale
systems" (USENIX ATC 2010), sections 2.1 to 2.3. Section 4 is in `test_interactions.py`.

Server 3 leads; what is held on a wire stands for a slow network.
"""

import itertools

import pytest

from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    ConnectReply,
    EmptyReply,
    ErrorReply,
    EventType,
    ExistsReply,
    GetChildrenReply,
    GetDataReply,
    Item,
    WatcherEvent,
    WriteReply,
)
from raykeeper.znodes.requests import CreateMode
from tests.harness.pure_servers import Caller, PureServers

EPHEMERAL, SEQUENTIAL = CreateMode.EPHEMERAL, CreateMode.SEQUENTIAL


def three(clients: int = 2) -> tuple[PureServers, list[Caller]]:
    """Three servers, and clients of the servers 1, 2, 3, 1, …"""
    servers = PureServers(3)
    return servers, [servers[n % 3 + 1].caller(n + 1) for n in range(clients)]


def codes(items: list[Item]) -> list[int]:
    return [item.code for item in items if isinstance(item, WriteReply | ErrorReply)]


def values(items: list[Item]) -> list[bytes]:
    return [item.value for item in items if isinstance(item, GetDataReply)]


def events(items: list[Item]) -> list[tuple[EventType, str]]:
    return [(item.kind, item.path) for item in items if isinstance(item, WatcherEvent)]


def kinds(items: list[Item]) -> list[type]:
    return [type(item) for item in items]


def path_of(items: list[Item]) -> str:
    (item,) = items
    assert isinstance(item, WriteReply) and item.code == 0
    return item.path


# 2.1 Service overview.


def test_znodes_are_named_by_unix_paths_and_all_hold_data() -> None:
    """/A/B/C is the znode C below B below A, and each of the three stores a value."""
    _, (one, other) = three()
    paths = ["/A", "/A/B", "/A/B/C"]
    assert codes(one.ask(*[one.create(path, path.encode()) for path in paths])) == [0, 0, 0]
    items = other.ask(other.sync(), *[other.get(path) for path in paths])
    assert values(items) == [b"/A", b"/A/B", b"/A/B/C"]
    assert codes(one.ask(one.create("/X/B"))) == [Code.NO_NODE]


def test_ephemeral_znodes_have_no_children() -> None:
    """Every znode but an ephemeral one may have children."""
    _, (one, _) = three()
    items = one.ask(one.create("/e", b"", EPHEMERAL), one.create("/e/child"))
    assert codes(items) == [0, Code.NO_CHILDREN_FOR_EPHEMERALS]


def test_regular_znode_is_deleted_only_explicitly() -> None:
    """It outlives the session that created it."""
    servers, (one, other) = three()
    one.ask(one.create("/r"), one.close())
    servers.pass_time(1_000)
    assert kinds(other.ask(other.sync(), other.get("/r"))) == [EmptyReply, GetDataReply]
    assert codes(other.ask(other.delete("/r"), other.get("/r"))) == [0, Code.NO_NODE]


@pytest.mark.parametrize("ends", ["deleted", "closed", "failed"])
def test_ephemeral_znode_goes_explicitly_or_with_its_session(ends: str) -> None:
    """Deleted by a client, or by the system when the session ends, on purpose or by a failure."""
    servers, (one, other) = three()
    one.ask(one.create("/e", b"", EPHEMERAL))
    other.ask(other.sync(), other.exists("/e", watch=True))
    if ends == "deleted":
        one.ask(one.delete("/e"))
    elif ends == "closed":
        one.ask(one.close())
    else:
        expire(servers, one, other)
    assert events(other.items) == [(EventType.DELETED, "/e")]
    (item,) = other.ask(other.exists("/e"))
    assert isinstance(item, ExistsReply) and item.stat is None


def expire(servers: PureServers, caller: Caller, *others: Caller) -> None:
    """The tracker beside the leader has not heard the session for its timeout."""
    leader = servers.leader
    leader.track()
    for _ in range(110):
        for other in others:
            other.ask()
        servers.pass_time(100)
    assert caller.session_id not in leader.server.state.sessions.by_id


def test_sequence_value_is_never_smaller_than_any_before_it_under_the_parent() -> None:
    """Not after deletions, not from another client, not after a change of leader."""
    servers, (one, other) = three()
    one.ask(one.create("/p"))
    names = [path_of(one.ask(one.create("/p/n-", b"", SEQUENTIAL)))]
    names.append(path_of(other.ask(other.create("/p/m-", b"", SEQUENTIAL | EPHEMERAL))))
    one.ask(one.delete(names[0]), one.delete(names[1]))
    names.append(path_of(one.ask(one.create("/p/n-", b"", SEQUENTIAL))))
    one.ask(one.create("/p/plain"))
    servers.crash(3)
    names.append(path_of(other.ask(other.create("/p/n-", b"", SEQUENTIAL))))
    numbers = [int(name[-10:]) for name in names]
    assert all(before < after for before, after in itertools.pairwise(numbers))


def test_watch_triggers_once_and_tells_of_a_change_not_of_its_content() -> None:
    """getData with a watch, then two changes: one event, that the data has changed."""
    _, (one, other) = three()
    one.ask(one.create("/foo"))
    other.ask(other.sync(), other.get("/foo", watch=True))
    one.ask(one.set("/foo", b"1"), one.set("/foo", b"2"))
    assert events(other.new()) == [(EventType.CHANGED, "/foo")]


def test_watch_ends_with_its_session() -> None:
    """It is bound to the session, so nothing is told, or kept, once that has ended."""
    servers, (one, other) = three()
    other.ask(other.exists("/foo", watch=True), other.close())
    one.ask(one.create("/foo"))
    assert events(other.new()) == []
    assert [host.server.stats().watches for host in servers.hosts.values()] == [0, 0, 0]


def test_session_persists_across_the_servers_of_the_ensemble() -> None:
    """A client moves from server to server, with its session and its ephemerals."""
    servers, (one, _) = three()
    one.ask(one.create("/e", b"", EPHEMERAL))
    for n, server in enumerate([2, 3, 1], 10):
        moved = Caller(servers[server], n)
        answer = moved.take_up(one)
        assert isinstance(answer, ConnectReply) and answer.session_id == one.session_id
        assert codes(moved.ask(moved.set("/e", b"%d" % n))) == [0]
        one = moved
    assert values(one.ask(one.get("/e"))) == [b"12"]


def test_client_observes_the_state_changes_of_its_own_operations_in_order() -> None:
    """Within a session, what it sees is what the execution of its requests, in turn, makes."""
    _, (one, _) = three()
    requests = [one.create("/n", b"0")]
    items = one.ask(*requests)
    for n in range(1, 20):
        items += one.ask(one.set("/n", b"%d" % n), one.get("/n"))
    assert values(items) == [b"%d" % n for n in range(1, 20)]


# 2.2 Client API.


def test_create_returns_the_name_of_the_new_znode() -> None:
    """Also when the system has completed it."""
    _, (one, _) = three()
    assert path_of(one.ask(one.create("/a"))) == "/a"
    assert path_of(one.ask(one.create("/a/s-", b"", SEQUENTIAL))) == "/a/s-0000000000"


def test_delete_and_set_only_at_the_expected_version_and_at_any_for_minus_one() -> None:
    """A version that does not match is an error and changes nothing."""
    _, (one, _) = three()
    items = one.ask(
        one.create("/a", b"0"),
        one.set("/a", b"1", 1),
        one.set("/a", b"2", 0),
        one.set("/a", b"3", -1),
        one.delete("/a", 1),
        one.get("/a"),
        one.delete("/a", 2),
        one.exists("/a"),
    )
    assert codes(items) == [0, Code.BAD_VERSION, 0, 0, Code.BAD_VERSION, 0]
    assert values(items) == [b"3"]
    assert isinstance(items[-1], ExistsReply) and items[-1].stat is None


def test_conditional_sets_of_two_clients_let_one_win() -> None:
    """Both have read version 0: the update of the second fails."""
    _, (one, other) = three()
    one.ask(one.create("/counter", b"0"))
    assert codes(one.ask(one.set("/counter", b"1", 0))) == [0]
    assert codes(other.ask(other.set("/counter", b"1", 0))) == [Code.BAD_VERSION]


def test_exists_tells_whether_and_watches_either_way() -> None:
    """A watch can be set on a znode that is not there."""
    _, (one, other) = three()
    (item,) = other.ask(other.exists("/a", watch=True))
    assert isinstance(item, ExistsReply) and item.stat is None
    one.ask(one.create("/a"))
    assert events(other.new()) == [(EventType.CREATED, "/a")]


def test_get_data_returns_data_and_version_and_watches_only_what_exists() -> None:
    """As exists, but no watch is set when the znode does not exist."""
    servers, (one, other) = three()
    assert codes(other.ask(other.get("/a", watch=True))) == [Code.NO_NODE]
    assert servers[2].server.stats().watches == 0
    one.ask(one.create("/a", b"x"), one.set("/a", b"y"))
    assert events(other.new()) == []
    (_, item) = other.ask(other.sync(), other.get("/a"))
    assert isinstance(item, GetDataReply) and (item.value, item.stat.version) == (b"y", 1)


def test_get_children_returns_the_set_of_names() -> None:
    """Names, not paths, and of the children alone."""
    _, (one, _) = three()
    one.ask(one.create("/a"), one.create("/a/b"), one.create("/a/c"), one.create("/a/b/d"))
    (item,) = one.ask(one.children("/a"))
    assert isinstance(item, GetChildrenReply) and sorted(item.children) == ["b", "c"]


def test_sync_waits_for_the_updates_pending_at_its_start() -> None:
    """They have reached the server of the client when it is answered."""
    servers, (one, other) = three()
    servers.hold(3, 1)
    other.ask(other.create("/a", b"x"))
    assert codes(one.ask(one.get("/a"))) == [Code.NO_NODE]  # it lags
    assert one.ask(one.sync()) == []
    servers.release(3, 1)
    assert kinds(one.new()) == [EmptyReply]
    assert values(one.ask(one.get("/a"))) == [b"x"]


def test_answers_to_many_outstanding_operations_come_in_order() -> None:
    """So the callbacks of asynchronous operations can be called in order."""
    servers, (one, _) = three()
    servers.hold(3, 1)
    one.ask(one.create("/a"), one.get("/a"), one.sync())
    one.ask(one.set("/a", b"1"), one.children("/"), one.exists("/a"), one.delete("/a"))
    servers.release(3, 1)
    order = [
        WriteReply,
        GetDataReply,
        EmptyReply,
        WriteReply,
        GetChildrenReply,
        ExistsReply,
        WriteReply,
    ]
    assert kinds(one.new()) == order


def test_requests_name_the_whole_path_and_leave_nothing_open_on_the_server() -> None:
    """There are no handles: a reader that comes between two requests loses nothing."""
    _, (one, other) = three()
    one.ask(one.create("/a"))
    assert codes(other.ask(other.delete("/a"))) == [0]
    assert codes(one.ask(one.set("/a", b""))) == [Code.NO_NODE]


# 2.3 Guarantees.


def test_writes_are_linearizable() -> None:
    """Serializable, and in the order of precedence: a write that was answered comes first."""
    servers, callers = three(3)
    done: list[Zxid] = []
    for n in range(12):
        caller = callers[n % 3]
        (item,) = caller.ask(caller.create(f"/{n}"))
        assert isinstance(item, WriteReply)
        done.append(item.zxid)
    assert done == sorted(done)
    one = callers[0]
    one.ask(one.create("/counter", b"0"))
    for caller in callers:  # sent together: each is done wholly before or after another
        caller.host.step(caller.frame(caller.set("/counter", b"", 0)))
    servers.run()
    assert sorted(codes([caller.items[-1] for caller in callers])) == [-103, -103, 0]
    assert len(set(servers.digests())) == 1


def test_requests_of_a_client_are_executed_in_the_order_sent() -> None:
    """All of them: a read sees the writes before it, and none of those after it."""
    servers, (one, other) = three()
    one.ask(one.create("/a", b"0"))
    requests = []
    for n in range(1, 6):
        requests += [one.set("/a", b"%d" % n), one.get("/a")]
        requests += [one.sync(), one.get("/a")] if n % 2 else []
    servers[2].step(other.frame(other.sync()))  # so that a probe is under way
    items = one.ask(*requests)
    assert values(items) == [b"1", b"1", b"2", b"3", b"3", b"4", b"5", b"5"]


def test_requests_of_a_client_stay_in_order_when_the_leader_dies() -> None:
    """Those that were under way are executed in the same order by the next leader."""
    servers, (one, _) = three()
    one.ask(one.create("/a", b"0"))
    servers.hold(1, 3)
    requests = [x for n in range(1, 6) for x in (one.set("/a", b"%d" % n, n - 1), one.get("/a"))]
    one.ask(*requests)
    servers.crash(3)
    servers.pass_time(1_000)
    items = one.new()
    assert codes(items) == [0] * 5
    assert values(items) == [b"1", b"2", b"3", b"4", b"5"]


def test_who_sees_ready_sees_the_whole_configuration() -> None:
    """A leader deletes ready, changes the configuration and creates ready, without waiting."""
    servers, (leader, worker) = three()
    paths = [f"/config-{n}" for n in range(20)]
    leader.ask(*[leader.create(path, b"old") for path in paths], leader.create("/ready"))
    servers.hold(3, 2)
    leader.ask(
        leader.delete("/ready"),
        *[leader.set(path, b"new") for path in paths],
        leader.create("/ready"),
    )
    wire = servers.wires[3, 2]
    seen = set()
    while True:
        items = worker.ask(worker.exists("/ready"), *[worker.get(path) for path in paths])
        if isinstance(items[0], ExistsReply) and items[0].stat is not None:
            assert len(set(values(items))) == 1
            seen |= set(values(items))
        if not wire:
            break
        held, servers.held = servers.held, {key: None for key in servers.wires if key != (3, 2)}
        servers._carry()  # one frame more
        servers.held = held
    assert seen == {b"old", b"new"}


def test_partial_configuration_of_a_dead_leader_is_not_used() -> None:
    """It died before ready was created, so the others know that it is not complete."""
    servers, (leader, worker) = three()
    leader.ask(leader.create("/config", b"old"), leader.create("/ready", b"", EPHEMERAL))
    leader.ask(leader.delete("/ready"), leader.set("/config", b"half"))
    expire(servers, leader, worker)
    (_, item) = worker.ask(worker.sync(), worker.exists("/ready"))
    assert isinstance(item, ExistsReply) and item.stat is None


def test_watcher_is_told_before_it_sees_the_new_state() -> None:
    """Who watches ready learns that it goes before it can read any of the new configuration."""
    servers, (leader, worker) = three()
    leader.ask(leader.create("/config", b"old"), leader.create("/ready"))
    worker.ask(worker.sync(), worker.exists("/ready", watch=True))
    servers.hold(3, 2)
    leader.ask(leader.delete("/ready"), leader.set("/config", b"new"), leader.create("/ready"))
    assert values(worker.ask(worker.get("/config"))) == [b"old"]
    servers.release(3, 2)
    items = worker.new() + worker.ask(worker.get("/config"))
    assert kinds(items) == [WatcherEvent, GetDataReply]
    assert values(items) == [b"new"]


def test_client_that_was_told_elsewhere_writes_before_it_reads() -> None:
    """A tells B through another channel: a write of B before its read brings the change."""
    servers, (a, b) = three()
    a.ask(a.create("/shared", b"old"))
    b.ask(b.sync())
    servers.hold(3, 2)
    a.ask(a.set("/shared", b"new"))
    assert values(b.ask(b.get("/shared"))) == [b"old"]
    b.ask(b.set("/", b"any write"), b.get("/shared"))
    servers.release(3, 2)
    assert values(b.items)[-1:] == [b"new"]


def test_sync_followed_by_a_read_is_a_slow_read() -> None:
    """The same with a sync, and without a write of its own: no transaction is made."""
    servers, (a, b) = three()
    a.ask(a.create("/shared", b"old"))
    servers.hold(3, 2)
    a.ask(a.set("/shared", b"new"))
    zxid = servers[3].server.state.zxid
    b.ask(b.sync(), b.get("/shared"))
    servers.release(3, 2)
    assert values(b.new()) == [b"new"]
    assert servers[3].server.state.zxid == zxid


def test_service_is_available_while_a_majority_is_up_and_communicating() -> None:
    """Any server may go, one at a time, the leader included; with two gone there is no service."""
    servers, (one, other) = three()
    for n, victim in enumerate([3, 2, 3]):
        servers.crash(victim)
        servers.pass_time(2_000)
        caller = one if 1 in servers.hosts else other
        assert codes(caller.ask(caller.create(f"/{n}"))) == [0]
        servers.restart(victim)
        servers.pass_time(2_000)
    servers.crash(3)
    servers.crash(2)
    servers.pass_time(5_000)
    assert one.ask(one.create("/lonely"), one.get("/0")) == []
    assert servers[1].server.peer.role is Role.LOOKING


def test_answered_change_survives_any_number_of_failures() -> None:
    """As long as a quorum of the servers recovers in the end."""
    servers, (one, _) = three()
    for n in range(5):
        assert codes(one.ask(one.create(f"/{n}"))) == [0]
        if n == 3:
            servers.hold(3, 2)  # the last answer comes from a quorum without server 2
    servers.held.clear()
    for victim in (1, 2, 3):
        servers.crash(victim)
    servers.restart(2)
    servers.restart(1)
    servers.pass_time(3_000)
    again = Caller(servers[2], 50)
    assert isinstance(again.take_up(one), ConnectReply)
    items = again.ask(*[again.exists(f"/{n}") for n in range(5)])
    assert all(isinstance(item, ExistsReply) and item.stat is not None for item in items)
