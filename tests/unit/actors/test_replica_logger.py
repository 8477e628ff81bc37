"""ReplicaLogger: what a note looks like as a line."""

import logging
from typing import Any

import pytest

from raykeeper.actors.replica_logger import ReplicaLogger
from raykeeper.zab import trace_events
from raykeeper.zab.effects import TraceEvent


@pytest.mark.parametrize(
    ("detail", "line"),
    [
        (None, "election.started"),
        (3, "election.started round=3"),
        ({"last": "1:2", "why": "cut off"}, 'election.started last=1:2 why="cut off"'),
        ({"reason": ""}, 'election.started reason=""'),
    ],
)
def test_a_note_is_a_name_and_fields(
    detail: Any, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="raykeeper"):
        ReplicaLogger("coord", 1).note(TraceEvent(trace_events.ELECTION_STARTED, detail))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("INFO", line)]


def test_what_an_operator_should_see_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    log = ReplicaLogger("coord", 1)
    with caplog.at_level(logging.WARNING, logger="raykeeper"):
        log.line("link.up", peer=2)
        log.note(TraceEvent(trace_events.MESSAGE_ILLEGAL, (2, "gap")))
        log.fatal("a step failed", AssertionError("cursor"))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "message.illegal peer=2 reason=gap"),
        ("CRITICAL", "a step failed"),
    ]
