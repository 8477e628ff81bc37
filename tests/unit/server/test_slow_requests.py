"""SlowRequests: each step reports its slowest request, and how many slow ones there were."""

from raykeeper.server import server_trace_events
from raykeeper.server.slow_requests import SlowRequests
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.requests import SessionId
from tests.harness.pure_servers import PureServer


def test_one_trace_event_names_the_slowest_request_and_its_stage() -> None:
    context = PureServer().server._context
    slow = SlowRequests(context)
    slow.stages.on_role_changed(Millis(500))
    context.now = context.now._replace(mono=Millis(3_000))
    slow.observe(SessionId(1), "write", 7, Millis(2_500), Zxid(7))  # in time
    slow.observe(SessionId(2), "sync", 8, Millis(600))
    slow.observe(SessionId(3), "write", 9, Millis(400), Zxid(9))
    slow.observe(SessionId(4), "write", 10, Millis(450), Zxid(10))  # not the slowest
    slow.emit()
    slow.emit()
    told = [
        event.detail
        for event in context.out
        if getattr(event, "name", "") == server_trace_events.REQUEST_SLOW
    ]
    assert told == [(3, SessionId(3), "write", 9, "election", 2_600)]
