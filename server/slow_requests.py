"""How long requests took; of those that took long, one trace event a step names the slowest.

Slow requests come together, and a line for each would slow them further.

ZooKeeper: `RequestPathMetricsCollector`, and the warnings of `ServerStats.updateLatency`.
"""

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.context import ServerContext
from raykeeper.server.latency import LatencyHistogram
from raykeeper.zab.ids import Millis
from raykeeper.znodes.requests import SessionId


class SlowRequests:
    """The slow ones of the step under way.

    `role_changed_at`: when the server's role changed last.
    """

    def __init__(self, context: ServerContext) -> None:
        self.role_changed_at = Millis(0)
        self._context = context
        self._count = 0
        self._slowest: tuple[SessionId, str, int, str, int] | None = None

    def observe(
        self,
        latency: LatencyHistogram,
        session_id: SessionId,
        kind: str,
        number: int,
        arrived: Millis,
    ) -> None:
        """Count a request that arrived at `arrived` and is answered now; note it if it is slow."""
        took = self._context.now.mono - arrived
        try:  # every write comes here
            latency.by_ms[took] += 1
        except IndexError:
            latency.observe(took)
        if took > self._context.options.slow_request_ms:
            self._count += 1
            if self._slowest is None or took > self._slowest[-1]:
                stage = "agreement" if arrived >= self.role_changed_at else "election"
                self._slowest = (session_id, kind, number, stage, took)

    def emit(self) -> None:
        """Emit the trace event of the step that ends, if a request was slow."""
        if self._slowest is not None:
            self._context.trace(trace_events.REQUEST_SLOW, (self._count, *self._slowest))
            self._count = 0
            self._slowest = None
