"""The log of a replica: one line and one count for each trace event of the core.

Lines are `name key=value …`. All go to a file in the log folder of the Ray session, warnings also
to the process's stderr, which Ray shows in the driver.
"""

import logging
import os
import re
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

    def __init__(self, ensemble: str, server_id: int) -> None:
        """Write lines only; `attach_to_ray` adds the file and the counters."""
        self._logger = logging.getLogger(f"raykeeper.replica.{ensemble}.{server_id}")
        self._tags = {"ensemble": ensemble, "server": str(server_id)}
        self._counter: Any = None

    def attach_to_ray(self) -> None:
        """Write to a file of the Ray session and count in Ray's metrics. Call it once."""
        from ray.util.metrics import Counter

        self._counter = Counter(
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
        level = logging.WARNING if name in WARNINGS else logging.INFO
        if self._logger.isEnabledFor(level):
            shown = "".join(f" {key}={_format_value(value)}" for key, value in fields.items())
            self._logger.log(level, "%s%s", name, shown)
        if self._counter is not None:
            self._counter.inc(1, tags={"note": name})

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
