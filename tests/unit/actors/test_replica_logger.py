"""The log of a replica: its lines, its levels, and the fields of every trace event."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from raykeeper.actors.disk import storage_trace_events
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
