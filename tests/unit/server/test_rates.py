"""What a server did between two looks at its statistics."""

from msgspec.structs import replace

from raykeeper.server.admin_queries import ReadStats
from raykeeper.server.latency import LatencyStats
from raykeeper.server.rates import ServerRates, lag_behind, rates_between
from raykeeper.server.stats import ServerStats
from raykeeper.zab.ids import Epoch, Millis, make_zxid
from tests.harness.admin_servers import answer_of
from tests.harness.pure_servers import PureServer


def stats_of(host: PureServer) -> ServerStats:
    page = answer_of(host, ReadStats()).page
    assert isinstance(page, ServerStats)
    return page


def test_the_counts_are_divided_by_the_interval() -> None:
    host = PureServer()
    caller = host.caller(1)
    before = stats_of(host)
    for each in range(3):
        caller.ask(caller.get("/"), caller.get("/"), caller.set("/", bytes(each)))
    host.clock.now = Millis(host.clock.now + 1_500)
    host.step()
    rates = rates_between(before, stats_of(host))
    assert rates is not None
    assert (rates.interval_ms, rates.reads, rates.updates) == (1_500, 4, 2)
    assert (rates.packets_received, rates.read_us, rates.update_us) == (6, 0, 0)
    assert rates.packets_sent >= 6


def test_the_mean_is_that_of_the_interval_alone() -> None:
    first = stats_of(PureServer())
    before = replace(first, reads=LatencyStats(10, 100, 1, 90))
    after = replace(before, uptime_ms=Millis(2_000), reads=LatencyStats(13, 104, 1, 90))
    assert rates_between(before, after) == ServerRates(2_000, 1, 0, 0, 0, 1_333, None)


def test_a_server_that_was_started_or_reset_in_between_has_no_rates() -> None:
    first = stats_of(PureServer())
    before = replace(first, uptime_ms=Millis(5_000), reads=LatencyStats(10, 0, 0, 0))
    later = Millis(6_000)
    assert rates_between(before, replace(before, uptime_ms=later)) is not None
    for after in (
        before,  # the same look
        replace(before, uptime_ms=Millis(10)),
        replace(before, uptime_ms=later, reads=LatencyStats()),
    ):
        assert rates_between(before, after) is None


def test_a_server_lags_by_transactions_of_one_epoch() -> None:
    leader = replace(stats_of(PureServer()), epoch=Epoch(2), last_zxid=make_zxid(Epoch(2), 9))
    behind = replace(leader, last_zxid=make_zxid(Epoch(2), 4))
    assert (lag_behind(leader, behind), lag_behind(leader, leader)) == (5, 0)
    assert lag_behind(behind, leader) == 0
    assert lag_behind(leader, replace(behind, epoch=Epoch(1))) is None
    assert lag_behind(None, behind) is None
