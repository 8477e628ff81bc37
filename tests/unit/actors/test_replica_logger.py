"""The log of a replica: its lines, its levels, and the fields of every trace event."""

import logging
from typing import Any

import pytest

from raykeeper.actors.disk import storage_trace_events
from raykeeper.actors.replica_logger import ReplicaLogger, trace_fields
from raykeeper.server import server_trace_events
from raykeeper.zab import trace_events
from raykeeper.zab.effects import TraceEvent
from raykeeper.zab.trace_events import TraceName


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
        ReplicaLogger("coord", 1).trace(TraceEvent(trace_events.ELECTION_STARTED, detail))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("INFO", line)]


def test_events_for_operators_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    log = ReplicaLogger("coord", 1)
    with caplog.at_level(logging.WARNING, logger="raykeeper"):
        log.line("link.up", peer=2)
        log.trace(TraceEvent(trace_events.MESSAGE_ILLEGAL, (2, "gap")))
        log.fatal("a step failed", AssertionError("cursor"))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "message.illegal peer=2 reason=gap"),
        ("CRITICAL", "a step failed"),
    ]


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
