"""SlowRequests: each step reports its slowest request, and how many slow ones there were."""

from raykeeper.server import server_trace_events
from raykeeper.server.latency import LatencyHistogram, LatencyStats
from raykeeper.server.slow_requests import SlowRequests
from raykeeper.zab.ids import Millis
from raykeeper.znodes.requests import SessionId
from tests.harness.pure_servers import PureServer


def test_one_trace_event_names_the_slowest_request_and_its_stage() -> None:
    host = PureServer()
    context = host.server._context
    slow = SlowRequests(context)
    slow.role_changed_at = Millis(500)
    context.now = context.now._replace(mono=Millis(3_000))
    updates, reads = LatencyHistogram(), LatencyHistogram()
    slow.observe(updates, SessionId(1), "write", 7, Millis(2_500))  # in time
    slow.observe(reads, SessionId(2), "sync", 8, Millis(600))
    slow.observe(updates, SessionId(3), "write", 9, Millis(400))
    slow.emit()
    slow.emit()
    told = [
        note.detail
        for note in context.out
        if getattr(note, "name", "") == server_trace_events.REQUEST_SLOW
    ]
    assert told == [(2, SessionId(3), "write", 9, "election", 2_600)]
    assert updates.stats() == LatencyStats(2, 3_100, 500, 2_600)
    assert reads.stats() == LatencyStats(1, 2_400, 2_400, 2_400)
