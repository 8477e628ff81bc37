"""The statistics of a server: counts of requests, of connections that are gone, of the tree."""

from msgspec.structs import replace

from raykeeper.server.events import ClientDisconnected
from raykeeper.server.latency import LatencyStats
from raykeeper.zab.ids import DiskId, Millis, Zxid
from raykeeper.znodes.requests import GetData
from tests.harness.jute_caller import connected
from tests.harness.pure_servers import PureServer, PureServers


def test_packets_are_counted_and_those_of_lost_connections_stay() -> None:
    host = PureServer()
    client = host.caller(1)
    client.ask(client.create("/a"), GetData(1, "/a", True), GetData(2, "/a", False))
    client.ask()  # a heartbeat
    stats = host.server.stats()
    received, sent = stats.packets_received, stats.packets_sent
    assert (stats.connections, received) == (1, 1 + 3 + 1)
    assert sent >= 1 + 3
    host.step(ClientDisconnected(1))
    stats = host.server.stats()
    assert (stats.connections, stats.packets_received, stats.packets_sent) == (0, received, sent)


def test_pings_and_events_of_clients_of_zookeeper_are_packets() -> None:
    host = PureServer()
    caller = connected(host)
    caller.create("/a")
    caller.get("/a", watch=True)
    before = host.server.stats()
    caller.raw(2 * caller.frame(11) + caller.frame(11)[:5])
    host.pass_time(500)
    stats = host.server.stats()
    assert len(caller.read()) == 2
    assert stats.packets_received == before.packets_received + 2
    assert stats.packets_sent == before.packets_sent + 2


def test_the_latency_of_a_server_is_that_of_reads_and_updates() -> None:
    stats = PureServer().server.stats()
    assert stats.latency == LatencyStats(0, 0, 0, 0)
    reads, updates = LatencyStats(3, 30, 5, 20), LatencyStats(1, 2, 2, 2)
    assert replace(stats, reads=reads).latency == reads
    assert replace(stats, reads=reads, updates=updates).latency == LatencyStats(4, 32, 2, 20)


def test_the_size_of_the_tree_follows_every_change() -> None:
    host = PureServer()
    client = host.caller(1)
    first = host.server.stats().data_bytes
    assert first == sum(map(len, host.server.state.tree.znodes))
    sizes = []
    for op in (
        client.create("/a", b"123"),
        client.set("/a", b"1"),
        client.set("/a", b"2"),
        client.create("/a/e", b"12", flags=1),
        client.delete("/a/e"),
        client.delete("/a"),
    ):
        client.ask(op)
        sizes.append(host.server.stats().data_bytes - first)
    assert sizes == [5, 3, 3, 9, 3, 0]


def test_a_voter_without_its_promises_is_a_learner_of_its_own_kind() -> None:
    servers = PureServers(3)
    stats = servers[3].server.stats()
    assert stats.learners is not None
    assert (stats.learners.followers, stats.learners.non_voting_followers) == (2, 0)
    servers[3].server.peer.settings.members.disk_delivered(
        servers[1].server_id, DiskId("another"), Zxid(1)
    )
    assert servers[3].server.peer.broadcasting is not None
    servers[3].server.peer.broadcasting.learners.members_changed()
    stats = servers[3].server.stats()
    assert stats.learners is not None
    assert (stats.learners.followers, stats.learners.non_voting_followers) == (1, 1)


def test_a_server_counts_its_time_from_its_start() -> None:
    host = PureServer()
    host.clock.now = Millis(host.clock.now + 1_234)
    host.step()
    assert host.server.stats().uptime_ms == 1_234
