"""The log of a replica: one line and one count for each trace event of the core.

Lines are `name key=value …`. All go to a file in the log folder of the Ray session, warnings also
to the process's stderr, which Ray shows in the driver.

A line costs 0.1 ms, and a crowd that comes back after the loss of its server makes thousands. So
of each name but the warnings only `LINES_MAX` are written in a second, and one that tells how many
were left out. The counters of these names are told to Ray once a second too.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from typing import Any, Final

from raykeeper.actors.disk import storage_trace_events
from raykeeper.links.ray_internals import session_log_folder
from raykeeper.server import server_trace_events
from raykeeper.zab import trace_events
from raykeeper.zab.effects import TraceEvent
from raykeeper.zab.trace_events import TraceName

FILE_BYTES_MAX: Final = 16 << 20
FILES_KEPT: Final = 3
PERIOD_S: Final = 1.0
LINES_MAX: Final = 50
"""Lines of one name in a period, warnings not counted."""
WARNINGS: Final = frozenset(
    {
        trace_events.MESSAGE_ILLEGAL,
        storage_trace_events.LOG_TAIL_CUT,
        storage_trace_events.SNAPSHOT_INVALID,
        storage_trace_events.LOG_PART_DAMAGED,
        storage_trace_events.REPAIRED,
        trace_events.QUORUM_LOST,
        trace_events.LOG_UNCERTAIN,
        trace_events.VOTE_REPLACED,
        server_trace_events.SNAPSHOT_FAILED,
        server_trace_events.DIGEST_DIFFERS,
        server_trace_events.DIGEST_UNDECIDED,
        server_trace_events.DISK_FULL,
        server_trace_events.DISK_SPACE_FREED,
        server_trace_events.REQUEST_SLOW,
        server_trace_events.PROPOSAL_SLOW,
        server_trace_events.CLIENT_OVERRUN,
        "replica.failed",
        "replica.few_files",
        "replica.orphaned",
        "replica.waits",
        "replica.restarts",
    }
)
_NEEDS_QUOTES = re.compile(r"[\s=\"]")


class ReplicaLogger:
    """Log lines and counters of one server."""

    def __init__(
        self,
        ensemble: str,
        server_id: int,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Write lines only; `attach_to_ray` adds the file and the counters.

        `call_later` calls a function after some seconds, in the thread that all lines but warnings
        come from.
        """
        self._logger = logging.getLogger(f"raykeeper.replica.{ensemble}.{server_id}")
        self._tags = {"ensemble": ensemble, "server": str(server_id)}
        self._counter: Any = None
        self._call_later = call_later
        self._counts: Counter[str] = Counter()  # of this period, without warnings

    def attach_to_ray(self) -> None:
        """Write to a file of the Ray session and count in Ray's metrics. Call it once."""
        from ray.util import metrics

        self._counter = metrics.Counter(
            "raykeeper_notes", "What the servers noted.", tag_keys=("ensemble", "server", "note")
        )
        self._counter.set_default_tags(self._tags)
        logger = self._logger
        logger.setLevel(logging.INFO)
        logger.propagate = False
        form = logging.Formatter(
            f"%(asctime)s %(levelname)s pid={os.getpid()} server={self._tags['server']} %(message)s"
        )
        on_screen = logging.StreamHandler()
        on_screen.setLevel(logging.WARNING)
        on_screen.setFormatter(form)
        logger.addHandler(on_screen)
        folder = session_log_folder()
        if folder is not None:
            name = f"raykeeper-{self._tags['ensemble']}-{self._tags['server']}.log"
            in_file = RotatingFileHandler(
                folder / name, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8"
            )
            in_file.setFormatter(form)
            logger.addHandler(in_file)

    def trace(self, event: TraceEvent) -> None:
        """Write one line and count one, for an event of the core."""
        self.line(event.name, **trace_fields(event))

    def line(self, name: str, /, **fields: object) -> None:
        """Write one line and count one, for an event of the shell."""
        if name in WARNINGS:
            # At once and from any thread: the process may be about to end.
            self._write(name, fields)
            self._count(name, 1)
            return
        if not self._counts:
            self._call_later(PERIOD_S, self.flush)
        self._counts[name] += 1
        if self._counts[name] <= LINES_MAX:
            self._write(name, fields)

    def flush(self) -> None:
        """End the period: tell what was counted in it."""
        counts, self._counts = self._counts, Counter()
        for name, count in counts.items():
            self._count(name, count)
            if count > LINES_MAX:
                self._write(f"{name}.left_out", {"lines": count - LINES_MAX})

    def _count(self, name: str, count: int) -> None:
        if self._counter is not None:
            self._counter.inc(count, tags={"note": name})

    def _write(self, name: str, fields: dict[str, Any]) -> None:
        level = logging.WARNING if name in WARNINGS else logging.INFO
        if self._logger.isEnabledFor(level):
            shown = "".join(f" {key}={_format_value(value)}" for key, value in fields.items())
            self._logger.log(level, "%s%s", name, shown)

    def fatal(self, what: str, error: BaseException) -> None:
        """Write `error`, because of which the process is about to end, and its traceback."""
        self._logger.critical("%s", what, exc_info=error)
        for handler in self._logger.handlers:
            handler.flush()


def trace_fields(event: TraceEvent) -> dict[str, Any]:
    """Return the detail of an event by name; a detail that names its parts itself stays."""
    detail = event.detail
    if detail is None:
        return {}
    if isinstance(detail, dict):
        return detail
    values = detail if isinstance(detail, tuple) else (detail,)
    names = event.name.fields if isinstance(event.name, TraceName) else ()
    if len(values) > len(names):
        return {"detail": detail}
    return dict(zip(names, values, strict=False))


def _format_value(value: object) -> str:
    text = str(value)
    return f'"{text}"' if not text or _NEEDS_QUOTES.search(text) else text
