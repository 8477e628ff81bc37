"""Of the requests that took long, one trace event a step names the slowest, and its stage.

Slow requests come together, and a line for each would slow them further.

ZooKeeper: the warnings of `ServerStats.updateLatency`.
"""

from raykeeper.server import server_trace_events as trace_events
from raykeeper.server.context import ServerContext
from raykeeper.server.write_stages import WriteStages
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.requests import SessionId


class SlowRequests:
    """The slow ones of the step under way."""

    def __init__(self, context: ServerContext) -> None:
        self.stages = WriteStages()
        self._context = context
        self._slow_ms = context.options.slow_request_ms
        self._count = 0
        self._slowest: tuple[SessionId, str, int, str, int] | None = None

    def observe(
        self,
        session_id: SessionId,
        kind: str,
        number: int,
        arrived: Millis,
        zxid: Zxid | None = None,
    ) -> None:
        """Note a request that arrived at `arrived` and is answered now, if it is slow.

        `zxid` is that of a write, which is just being delivered.
        """
        took = self._context.now.mono - arrived
        if took > self._slow_ms:
            self._count += 1
            if self._slowest is None or took > self._slowest[-1]:
                stage = self.stages.longest(zxid, arrived, self._context.now.mono)
                self._slowest = (session_id, kind, number, stage, took)

    def emit(self) -> None:
        """Emit the trace event of the step that ends, if a request was slow."""
        if self._slowest is not None:
            self._context.trace(trace_events.REQUEST_SLOW, (self._count, *self._slowest))
            self._count = 0
            self._slowest = None
