"""ServerMetrics: elections and their length, commits, and the lag of each follower."""

from raykeeper.server.server_metrics import _transactions_between
from raykeeper.zab.ids import Epoch, Millis, ServerId, make_zxid
from tests.harness.pure_servers import PureServer, PureServers


def test_an_election_is_counted_with_its_length_when_it_ends() -> None:
    servers = PureServers(3)
    first = servers[1].server.metrics()
    assert (first.elections, first.election_ms) == (1, first.last_election_ms)
    servers.cut(1, 2)
    servers.cut(1, 3)
    servers.pass_time(30_000)
    lost = servers[1].server.metrics()
    assert (lost.elections, lost.election_ms) == (first.elections, first.election_ms)
    servers.link(1, 2)
    servers.link(1, 3)
    servers.pass_time(30_000)
    back = servers[1].server.metrics()
    assert back.elections == first.elections + 1
    assert back.election_ms == first.election_ms + back.last_election_ms
    assert 10_000 < back.last_election_ms < 60_000


def test_a_leader_knows_the_lag_of_each_follower_and_others_of_none() -> None:
    servers = PureServers(3)
    caller = servers[3].caller()
    caller.ask(caller.create("/a"))
    leader = servers[3].server
    assert leader.metrics().follower_lags == {ServerId(1): 0, ServerId(2): 0}
    assert servers[1].server.metrics().follower_lags == {}
    servers.hold(1, 3)
    caller.ask(caller.create("/b"), caller.create("/c"))
    assert leader.metrics().follower_lags == {ServerId(1): 2, ServerId(2): 0}


def test_a_lag_counts_the_transactions_of_the_newest_epoch() -> None:
    def zxid(epoch: int, counter: int) -> int:
        return make_zxid(Epoch(epoch), counter)

    cases = [(zxid(1, 3), zxid(1, 7)), (zxid(1, 7), zxid(1, 7)), (zxid(1, 9), zxid(2, 4))]
    cases.append((zxid(2, 0), zxid(1, 9)))  # it has acknowledged the epoch alone
    assert [_transactions_between(*case) for case in cases] == [4, 0, 4, 9]  # type: ignore[arg-type]


def test_a_leader_counts_its_proposals_and_how_long_their_commits_took() -> None:
    host = PureServer()
    caller = host.caller()
    before = host.server.metrics()
    host.is_disk_held = True
    caller.ask(caller.create("/a"), caller.create("/b"))
    host.clock.now = Millis(host.clock.now + 50)
    host.release_disk()
    after = host.server.metrics()
    assert after.proposed - before.proposed == after.applied - before.applied == 2
    assert after.commits.total_ms - before.commits.total_ms == 50
    assert after.commits.counts[-1] - before.commits.counts[-1] == 1
    assert after.stats == host.server.stats()
    assert host.server.txn_counts == (after.proposed, after.applied)
