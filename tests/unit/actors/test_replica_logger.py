"""The log of a replica: its lines, its levels, and the fields of every trace event."""

import json
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from raykeeper.actors.disk import storage_trace_events
from raykeeper.actors.replica_config import JSON, TEXT
from raykeeper.actors.replica_logger import LINES_MAX, PERIOD_S, ReplicaLogger, trace_fields
from raykeeper.server import server_trace_events
from raykeeper.zab import trace_events
from raykeeper.zab.effects import TraceEvent
from raykeeper.zab.trace_events import TraceName


class Later:
    """Calls functions when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, function: Callable[[], None]) -> None:
        self.waiting.append((seconds, function))

    def end_period(self) -> None:
        ((seconds, function),) = self.waiting
        assert seconds == PERIOD_S
        self.waiting.clear()
        function()


@pytest.mark.parametrize(
    ("detail", "line"),
    [
        (None, "election.started"),
        (3, "election.started round=3"),
        ({"last": "1:2", "why": "cut off"}, 'election.started last=1:2 why="cut off"'),
        ({"reason": ""}, 'election.started reason=""'),
    ],
)
def test_a_line_is_a_name_and_fields(
    detail: Any, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="raykeeper"):
        ReplicaLogger("coord", 1, Later()).trace(TraceEvent(trace_events.ELECTION_STARTED, detail))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("INFO", line)]


def test_events_for_operators_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    log = ReplicaLogger("coord", 1, Later())
    with caplog.at_level(logging.WARNING, logger="raykeeper"):
        log.line("link.up", peer=2)
        log.trace(TraceEvent(trace_events.MESSAGE_ILLEGAL, (2, "gap")))
        log.fatal("a step failed", AssertionError("cursor"))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "message.illegal peer=2 reason=gap"),
        ("CRITICAL", "a step failed"),
    ]


def test_of_a_crowd_some_lines_are_written_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = Later()
    log = ReplicaLogger("coord", 1, later)
    with caplog.at_level(logging.INFO, logger="raykeeper"):
        for number in range(LINES_MAX + 7):
            log.line("session.opened", session=number)
            log.line("link.up", peer=2) if number < 3 else None
        later.end_period()
        assert later.waiting == []
        log.line("session.opened", session=99)
        later.end_period()
    lines = [record.getMessage() for record in caplog.records]
    opened = [line for line in lines if line.startswith("session.opened session=")]
    assert opened == [f"session.opened session={n}" for n in [*range(LINES_MAX), 99]]
    assert lines[-2:] == ["session.opened.left_out lines=7", "session.opened session=99"]
    assert lines.count("link.up peer=2") == 3
    assert len(lines) == LINES_MAX + 1 + 3 + 1


def test_no_warning_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    later = Later()
    log = ReplicaLogger("coord", 1, later)
    with caplog.at_level(logging.INFO, logger="raykeeper"):
        log.line("link.up", peer=2)
        for number in range(LINES_MAX + 7):
            log.line("replica.restarts", reason=number)
        later.end_period()
    assert len(caplog.records) == 1 + LINES_MAX + 7


def test_a_warning_that_others_cause_has_the_limit_of_the_other_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = Later()
    log = ReplicaLogger("coord", 1, later)
    with caplog.at_level(logging.INFO, logger="raykeeper"):
        for _ in range(LINES_MAX + 7):
            log.trace(TraceEvent(trace_events.LEVEL_REFUSED, (2, "an old program")))
        later.end_period()
    refused = [r for r in caplog.records if r.getMessage().startswith("level.refused peer=2")]
    assert len(refused) == LINES_MAX and {r.levelname for r in refused} == {"WARNING"}
    assert caplog.records[-1].getMessage() == "level.refused.left_out lines=7"
    assert log.totals() == {"level.refused": LINES_MAX + 7}


def test_a_warning_does_not_end_the_period(caplog: pytest.LogCaptureFixture) -> None:
    later = Later()
    log = ReplicaLogger("coord", 1, later)
    with caplog.at_level(logging.INFO, logger="raykeeper"):
        for number in range(LINES_MAX + 7):
            log.line("session.opened", session=number)
            log.line("request.slow", took_ms=number)
        later.end_period()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == "session.opened.left_out lines=7"


def test_every_trace_event_names_its_fields_and_no_two_are_alike() -> None:
    names = [
        value
        for module in (trace_events, server_trace_events, storage_trace_events)
        for name, value in vars(module).items()
        if name.isupper()
    ]
    assert all(isinstance(name, TraceName) for name in names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "detail", "fields"),
    [
        (trace_events.ELECTION_STARTED, 3, {"round": 3}),
        (trace_events.ELECTION_DECIDED, (1, 2), {"round": 1, "leader": 2}),
        (server_trace_events.READS_PAUSED, None, {}),
        # What names its parts itself.
        (storage_trace_events.LOG_TAIL_CUT, {"offset": 9}, {"offset": 9}),
        # Less than there could be, and what nobody has named.
        (server_trace_events.WRITE_GAP, 7, {"session": 7}),
        (trace_events.ELECTION_ROUND, (1, 2), {"detail": (1, 2)}),
        ("unheard.of", 5, {"detail": 5}),
    ],
)
def test_details_of_a_trace_event_become_named_fields(
    name: str, detail: Any, fields: dict[str, Any]
) -> None:
    assert trace_fields(TraceEvent(name, detail)) == fields


def read_lines(log: ReplicaLogger) -> list[str]:
    assert log.file is not None
    return log.file.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def in_folder(tmp_path: Path, name: str) -> Iterator[Callable[..., ReplicaLogger]]:
    """Attach a log to a folder; its files are closed after the test."""

    def attach(form: str, file_bytes: int = 1 << 20, files_kept: int = 3) -> ReplicaLogger:
        log = ReplicaLogger(name, 2, Later())
        log.attach_to_folder(tmp_path, form, file_bytes, files_kept)
        return log

    yield attach
    logger = logging.getLogger(f"raykeeper.replica.{name}.2")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def test_lines_are_text_in_a_file(in_folder: Callable[..., ReplicaLogger], name: str) -> None:
    log = in_folder(TEXT)
    log.line("link.up", peer=3, why="came back")
    (line,) = read_lines(log)
    assert line.endswith(f' INFO pid={os.getpid()} server=2 link.up peer=3 why="came back"')
    assert log.file is not None and log.file.name == f"raykeeper-{name}-2.log"


def test_lines_are_objects_in_a_file(in_folder: Callable[..., ReplicaLogger], name: str) -> None:
    log = in_folder(JSON)
    log.trace(TraceEvent(trace_events.ELECTION_DECIDED, (1, 2)))
    log.line("replica.waits", reason=ValueError('a "b"\nc'), level=5)
    log.fatal("a step failed", AssertionError("cursor"))
    decided, waits, fatal = (json.loads(line) for line in read_lines(log))
    assert datetime.fromisoformat(decided.pop("time")).tzinfo is not None
    own = {"pid": os.getpid(), "ensemble": name, "server": 2}
    assert decided == {"level": "INFO", **own, "event": "election.decided", "round": 1, "leader": 2}
    assert (waits["level"], waits["reason"], waits["level_"]) == ("WARNING", 'a "b"\nc', 5)
    assert (fatal["level"], fatal["event"]) == ("CRITICAL", "a step failed")
    assert fatal["traceback"].endswith("AssertionError: cursor")


@pytest.mark.parametrize("kept", [1, 2])
def test_a_file_is_renamed_at_its_size_and_some_are_kept(
    in_folder: Callable[..., ReplicaLogger], kept: int
) -> None:
    log = in_folder(TEXT, 2_000, kept)
    for number in range(200):
        log.line(f"link.up{number}", peer=3)
    assert log.file is not None
    files = sorted(path.name for path in log.file.parent.iterdir())
    assert files == [log.file.name, *(f"{log.file.name}.{n}" for n in range(1, kept + 1))]
    assert all(path.stat().st_size <= 2_000 for path in log.file.parent.iterdir())


def test_totals_have_the_warnings_at_once_and_the_others_after_their_period() -> None:
    later = Later()
    log = ReplicaLogger("coord", 1, later)
    for _ in range(LINES_MAX + 7):
        log.line("link.up", peer=2)
    log.line("replica.waits", reason="x")
    assert log.totals() == {"replica.waits": 1}
    later.end_period()
    assert log.totals() == {"replica.waits": 1, "link.up": LINES_MAX + 7}
