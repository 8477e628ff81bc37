"""Read-only clients: which ones a server without a leader serves, with what, and until when."""

import pytest
from msgspec.structs import replace

from raykeeper.server import server_trace_events
from raykeeper.server.events import ClientDisconnected
from raykeeper.zab.effects import Role
from raykeeper.zab.ids import Millis, Now, Zxid
from raykeeper.znodes.acl import Acl, Identity, Permission, digest_id
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import (
    CloseFrame,
    ConnectReply,
    EmptyReply,
    ErrorReply,
    EventType,
    ExistsReply,
    GetDataReply,
    GetEphemeralsReply,
    WatcherEvent,
    WhoAmIReply,
    WriteReply,
)
from raykeeper.znodes.requests import (
    AddAuth,
    Create,
    GetData,
    GetEphemerals,
    SessionId,
    SetWatches,
    WhoAmI,
    encode_client_frame,
)
from raykeeper.znodes.txns import CreateSessionErrorTxn, CreateSessionTxn
from tests.harness.pure_servers import OPTIONS, TIMING, Caller, PureServer, PureServers, zxid_of

AFTER_MS = OPTIONS.read_only_after_ms
GIVEN_UP_MS = TIMING.sync_ms + 2 * TIMING.tick_ms


def alone() -> PureServers:
    """Return server 1 of three, which has /a = 1, long enough after its peers are gone."""
    servers = PureServers(3)
    writer = servers[1].caller(9)
    writer.ask(writer.create("/a", b"1"))
    for other in (2, 3):
        servers.crash(other)
    servers.pass_time(GIVEN_UP_MS + AFTER_MS)
    assert servers[1].server.peer.role is Role.LOOKING
    return servers


def reader(
    host: PureServer,
    connection: int = 1,
    *,
    session_id: int = 0,
    last_zxid: int = 0,
    password: bytes | None = None,
) -> Caller:
    caller = Caller(host, connection, password)
    connect = caller.request(session_id, last_zxid=last_zxid)
    caller.raw(encode_client_frame(replace(connect, read_only=True)))
    return caller


def code_of(item: object) -> int:
    assert isinstance(item, WriteReply | ErrorReply), item
    return item.code


def test_a_read_only_client_reads_the_last_state_of_the_server() -> None:
    host = alone()[1]
    before = host.server.state.digest()
    caller = reader(host)
    zxid = zxid_of(host)
    members = host.settings.members.founding
    assert caller.greeting == ConnectReply(
        *(Code.OK, 0, 10_000, zxid, 0, "", True, 1_000), members=members
    )
    read, found, ephemerals = caller.ask(
        caller.get("/a"), caller.exists("/b"), GetEphemerals(caller.next_xid(), "/")
    )
    assert isinstance(read, GetDataReply) and (read.value, read.zxid) == (b"1", zxid)
    assert found == ExistsReply(2, zxid, None)
    assert ephemerals == GetEphemeralsReply(3, zxid, [])
    assert host.server.state.digest() == before
    assert host.server.stats().connections == 2


def test_a_client_that_did_not_ask_for_read_only_waits() -> None:
    host = alone()[1]
    assert host.caller(2).greeting is None


def test_a_client_that_connected_early_is_served_when_the_time_comes() -> None:
    servers = PureServers(3)
    writer = servers[1].caller(9)
    writer.ask(writer.create("/a", b"1"))
    for other in (2, 3):
        servers.crash(other)
    host = servers[1]
    early, never = reader(host), host.caller(2)
    assert early.greeting is None
    host.take()
    host.pass_time(AFTER_MS)
    assert early.greeting is not None and never.greeting is None
    assert host.notes(server_trace_events.READ_ONLY_BEGUN) == [None]
    due = host.server.deadline()
    assert due is None or due > host.clock.now


def test_a_client_with_a_session_is_sent_away_to_reconnect() -> None:
    servers = PureServers(3)
    host = servers[1]
    willing, other = reader(host), host.caller(2)
    for peer in (2, 3):
        servers.crash(peer)
    assert isinstance(willing.greeting, ConnectReply) and willing.session_id
    servers.pass_time(AFTER_MS - 1)
    assert (willing.ended, other.ended) == (None, None)
    servers.pass_time(1)
    assert (willing.ended, other.ended) == (Code.CONNECTION_LOSS, None)
    again = reader(host, 3, session_id=willing.session_id, last_zxid=zxid_of(host))
    assert isinstance(again.greeting, ConnectReply) and again.greeting.read_only


def test_the_mode_begins_only_after_the_time_without_a_leader() -> None:
    host = PureServer(1, (1, 2))
    caller = reader(host)
    host.pass_time(AFTER_MS - 1)
    assert host.notes(server_trace_events.READ_ONLY_BEGUN) == []
    host.pass_time(1)
    assert host.notes(server_trace_events.READ_ONLY_BEGUN) == [None]
    # It has never seen a transaction, so it has no state to serve.
    assert caller.greeting is None


def test_a_failed_attempt_to_follow_does_not_restart_the_time() -> None:
    host = PureServer(1, (1, 2))
    read_only = host.server._clients.read_only
    host.clock.now = Millis(AFTER_MS - 1)
    host.step()
    read_only.on_role_changed(Role.FOLLOWER)
    assert read_only.starts_at is None
    read_only.on_role_changed(Role.LOOKING)
    assert read_only.starts_at == AFTER_MS
    read_only.on_activated()
    read_only.on_role_changed(Role.LOOKING)
    assert read_only.starts_at == 2 * AFTER_MS - 1


@pytest.mark.parametrize("ahead", [0, 1])
def test_only_a_server_with_everything_the_client_has_seen_serves(ahead: int) -> None:
    host = alone()[1]
    caller = reader(host, last_zxid=zxid_of(host) + ahead)
    assert (caller.greeting is None) == bool(ahead)


def test_a_request_that_needs_a_leader_is_refused_in_its_turn() -> None:
    host = alone()[1]
    caller = reader(host)
    linearizable = GetData(caller.next_xid(), "/a", False, True)
    items = caller.ask(
        caller.create("/b"),
        caller.get("/a"),
        caller.write(AddAuth("digest", b"ann:secret")),
        caller.sync(),
        linearizable,
        caller.get("/b"),
    )
    kinds = [WriteReply, GetDataReply, WriteReply, ErrorReply, ErrorReply, ErrorReply]
    assert [type(item) for item in items] == kinds
    refused = [code_of(item) for item in items if not isinstance(item, GetDataReply)]
    assert refused == [Code.NOT_READ_ONLY] * 4 + [Code.NO_NODE]
    assert caller.ended is None


def test_heartbeats_are_accepted_and_never_confirmed() -> None:
    host = alone()[1]
    caller = reader(host)
    assert caller.ask() == []
    assert [(frame.heartbeat_seq, frame.items) for frame in caller.answers] == [(0, [])]
    sessions, _ = host.server._context.leader_outbox.take_touched()
    assert caller.session_id not in [session.session_id for session in sessions]


def test_watches_are_set_and_set_again() -> None:
    host = alone()[1]
    caller = reader(host)
    caller.ask(caller.get("/a", watch=True))
    assert host.server.stats().watches == 1
    zxid = zxid_of(host)
    missed = SetWatches(caller.next_xid(), Zxid(zxid - 1), ["/b"], ["/a", "/later"], [])
    assert caller.ask(missed) == [WatcherEvent(EventType.CREATED, "/a", zxid), EmptyReply(2, zxid)]
    assert host.server.stats().watches == 3


def test_the_mode_ends_when_a_leader_is_there_and_the_session_opens() -> None:
    servers = alone()
    host = servers[1]
    caller = reader(host)
    caller.ask(caller.get("/a", watch=True))
    host.take()
    servers.restart(2)
    servers.pass_time(TIMING.tick_ms)
    assert caller.ended == Code.CONNECTION_LOSS
    assert host.notes(server_trace_events.READ_ONLY_ENDED) == [None]
    assert host.server.stats().watches == 0
    again = reader(host, 2)
    assert isinstance(again.greeting, ConnectReply)
    assert again.session_id and not again.greeting.read_only
    assert isinstance(again.ask(again.set("/a", b"2"))[0], WriteReply)


def test_a_client_proves_its_earlier_session_by_its_password() -> None:
    servers = PureServers(3)
    writer = servers[1].caller(9)
    writer.ask(writer.write(AddAuth("digest", b"ann:secret")))
    ann = Identity("digest", digest_id("ann", "secret"))
    writer.ask(writer.write(Create("/a", b"1", 0, [Acl(Permission.ALL, ann.scheme, ann.id)])))
    for other in (2, 3):
        servers.crash(other)
    servers.pass_time(GIVEN_UP_MS + AFTER_MS)
    host = servers[1]
    outsider = reader(host, 2, session_id=writer.session_id)
    assert [code_of(item) for item in outsider.ask(outsider.get("/a"))] == [Code.NO_AUTH]
    same = reader(host, 3, session_id=writer.session_id, password=writer.password)
    who, read = same.ask(WhoAmI(same.next_xid()), same.get("/a"))
    assert who == WhoAmIReply(1, zxid_of(host), (ann,))
    assert isinstance(read, GetDataReply)


def test_a_client_that_never_heard_of_its_session_reads_after_its_end() -> None:
    """The answer to its Connect was lost, so it still names no session when it connects again."""
    servers = PureServers(3)
    servers.leader.track()
    writer = servers[1].caller(9)
    writer.ask(writer.create("/a", b"1"))
    unheard = reader(servers[1], 1, password=b"u" * 16)
    assert isinstance(unheard.greeting, ConnectReply) and not unheard.greeting.read_only
    servers[1].step(ClientDisconnected(1))
    servers.pass_time(2 * unheard.greeting.timeout_ms)
    host = servers[1]
    assert unheard.greeting.session_id not in host.server.state.sessions.by_id
    for other in (2, 3):
        servers.crash(other)
    servers.pass_time(GIVEN_UP_MS + AFTER_MS)
    again = reader(host, 2, password=unheard.password)
    assert isinstance(again.greeting, ConnectReply)
    assert (again.greeting.session_id, again.greeting.read_only) == (0, True)
    assert isinstance(again.ask(again.get("/a"))[0], GetDataReply)
    servers.restart(2)
    servers.pass_time(TIMING.tick_ms)
    final = reader(host, 3, password=unheard.password)
    assert isinstance(final.greeting, ConnectReply)
    assert final.greeting.session_id > unheard.greeting.session_id


def test_a_second_connect_ends_the_link() -> None:
    host = alone()[1]
    caller = reader(host)
    caller.raw(encode_client_frame(caller.request()))
    assert caller.ended == Code.CONNECTION_LOSS
    assert host.server.stats().connections == 1  # the former writer


@pytest.mark.parametrize("is_consistent", [False, True])
def test_an_inconsistent_tree_is_not_served(is_consistent: bool) -> None:
    """The server is not woken again for it either: only a leader can repair that."""
    host = PureServer(1, (1, 2))
    read_only = host.server._clients.read_only
    host.server._context.now = Now(AFTER_MS, Millis(0))
    read_only.start_if_due(is_consistent=is_consistent)
    assert (read_only.is_active, read_only.starts_at) == (is_consistent, None)


@pytest.mark.parametrize("is_created", [True, False])
def test_a_session_decided_after_read_only_mode_began_closes_the_connection(
    is_created: bool,
) -> None:
    """A leader that is lost by now took the Connect; its transaction is delivered only here."""
    host = alone()[1]
    caller = reader(host)
    clients, zxid = host.server._clients, Zxid(zxid_of(host) + 1)
    if is_created:
        txn = CreateSessionTxn(SessionId(77), b"p" * 16, Millis(10_000), host.server_id, 1)
        clients.on_session_created(zxid, txn)
    else:
        clients.on_session_refused(CreateSessionErrorTxn(host.server_id, 1, Code.SESSION_EXPIRED))
    host.step()
    assert caller.ended == Code.CONNECTION_LOSS
    assert [type(frame) for frame in host.frames[1]] == [ConnectReply, CloseFrame]
    assert host.server.stats().connections == 1  # the former writer
