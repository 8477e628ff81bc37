"""The log of a replica: one line and one count for each trace event of the core.

Lines are `name key=value …`, or JSON objects with the same fields. All go to a file in the log
folder of the Ray session, which is renamed at a size; warnings also go to the process's stderr,
which Ray shows in the driver.

A line costs 0.1 ms, and a crowd that comes back after the loss of its server makes thousands. So
of each name but most warnings only `LINES_MAX` are written in a second, and one that tells how many
were left out. The metric `raykeeper_notes` counts all of them.
"""

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Lock
from typing import Any, Final

from raykeeper.actors.disk import storage_trace_events
from raykeeper.actors.replica_config import JSON
from raykeeper.links.ray_internals import session_log_folder
from raykeeper.server import server_trace_events
from raykeeper.zab import trace_events
from raykeeper.zab.effects import TraceEvent
from raykeeper.zab.trace_events import TraceName

PERIOD_S: Final = 1.0
LINES_MAX: Final = 50
"""Lines of one name in a period; warnings have no limit, unless they are in `LIMITED`."""
WARNINGS: Final = frozenset(
    {
        trace_events.MESSAGE_ILLEGAL,
        trace_events.LEVEL_REFUSED,
        storage_trace_events.LOG_TAIL_CUT,
        storage_trace_events.SNAPSHOT_INVALID,
        storage_trace_events.LOG_PART_DAMAGED,
        storage_trace_events.REPAIRED,
        trace_events.QUORUM_LOST,
        trace_events.LOG_UNCERTAIN,
        trace_events.VOTE_REPLACED,
        server_trace_events.LEVEL_RAISED,
        trace_events.MEMBERS_CHANGED,
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
        "step.slow",
    }
)
LIMITED: Final = frozenset({trace_events.LEVEL_REFUSED})
"""Warnings that others cause as often as they like: a server that is refused comes again."""
_EVENT, _FIELDS = "raykeeper_event", "raykeeper_fields"  # attributes of a record
_NEEDS_QUOTES = re.compile(r"[\s=\"]")


class ReplicaLogger:
    """Log lines and counters of one server."""

    def __init__(
        self,
        ensemble: str,
        server_id: int,
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Write to Python's loggers only; `attach_to_ray` adds the file.

        `call_later` calls a function after some seconds, in the thread that all lines but warnings
        come from.
        """
        self._logger = logging.getLogger(f"raykeeper.replica.{ensemble}.{server_id}")
        self._ensemble, self._server_id = ensemble, server_id
        self._call_later = call_later
        self._counts: Counter[str] = Counter()  # of this period, without warnings
        self._totals: Counter[str] = Counter()  # of the periods before, and of all warnings
        self._counting = Lock()
        self.file: Path | None = None
        """Where the lines are; None without a folder for them."""

    def attach_to_ray(self, form: str, file_bytes: int, files_kept: int) -> None:
        """Write to a file of the Ray session as well. Call it once.

        Args:
            form: `TEXT` or `JSON`.
            file_bytes: The file is renamed at this size.
            files_kept: So many renamed files are kept.
        """
        self.attach_to_folder(session_log_folder(), form, file_bytes, files_kept)

    def attach_to_folder(
        self, folder: Path | None, form: str, file_bytes: int, files_kept: int
    ) -> None:
        """Write to a file in `folder`, as `attach_to_ray` does."""
        logger = self._logger
        logger.setLevel(logging.INFO)
        logger.propagate = False
        form_of_lines = _formatter(form, self._ensemble, self._server_id)
        on_screen = logging.StreamHandler()
        on_screen.setLevel(logging.WARNING)
        on_screen.setFormatter(form_of_lines)
        logger.addHandler(on_screen)
        if folder is not None:
            self.file = folder / f"raykeeper-{self._ensemble}-{self._server_id}.log"
            in_file = RotatingFileHandler(
                self.file, maxBytes=file_bytes, backupCount=files_kept, encoding="utf-8"
            )
            in_file.setFormatter(form_of_lines)
            logger.addHandler(in_file)

    def totals(self) -> dict[str, int]:
        """Return how often each event was named so far, but for the last second."""
        with self._counting:
            return dict(self._totals)

    def trace(self, event: TraceEvent) -> None:
        """Write one line and count one, for an event of the core."""
        self.line(event.name, **trace_fields(event))

    def line(self, name: str, /, **fields: object) -> None:
        """Write one line and count one, for an event of the shell."""
        if name in WARNINGS and name not in LIMITED:
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
        with self._counting:
            self._totals[name] += count

    def _write(self, name: str, fields: dict[str, Any]) -> None:
        level = logging.WARNING if name in WARNINGS else logging.INFO
        if self._logger.isEnabledFor(level):
            shown = "".join(f" {key}={_format_value(value)}" for key, value in fields.items())
            told = {_EVENT: name, _FIELDS: fields}
            self._logger.log(level, "%s%s", name, shown, extra=told)

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


class _JsonFormatter(logging.Formatter):
    """Each line an object: time, level, pid, ensemble, server, event, and the event's fields.

    A field that is no number, text, list or object is told as its text. One that has a name of
    ours has a line below it.
    """

    def __init__(self, ensemble: str, server_id: int) -> None:
        super().__init__()
        self._own = {"pid": os.getpid(), "ensemble": ensemble, "server": server_id}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": at, "level": record.levelname, **self._own}
        line["event"] = getattr(record, _EVENT, record.getMessage())
        for key, value in getattr(record, _FIELDS, {}).items():
            line[f"{key}_" if key in line else key] = value
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _formatter(form: str, ensemble: str, server_id: int) -> logging.Formatter:
    if form == JSON:
        return _JsonFormatter(ensemble, server_id)
    return logging.Formatter(
        f"%(asctime)s %(levelname)s pid={os.getpid()} server={server_id} %(message)s"
    )


def _format_value(value: object) -> str:
    text = str(value)
    return f'"{text}"' if not text or _NEEDS_QUOTES.search(text) else text
