"""The fields of notes: every note has an entry, and a line shows its parts by name."""

from typing import Any

import pytest

from raykeeper.actors.disk import storage_notes
from raykeeper.actors.trace_fields import FIELDS, trace_fields
from raykeeper.server import server_trace_events
from raykeeper.zab import trace_events
from raykeeper.zab.effects import TraceEvent


def test_every_note_has_its_fields() -> None:
    names = {
        value
        for module in (trace_events, server_trace_events, storage_notes)
        for name, value in vars(module).items()
        if name.isupper()
    }
    assert set(FIELDS) == names


@pytest.mark.parametrize(
    ("name", "detail", "fields"),
    [
        (trace_events.ELECTION_STARTED, 3, {"round": 3}),
        (trace_events.ELECTION_DECIDED, (1, 2), {"round": 1, "leader": 2}),
        (server_trace_events.READS_PAUSED, None, {}),
        # What names its parts itself.
        (storage_notes.LOG_TAIL_CUT, {"offset": 9}, {"offset": 9}),
        # Less than there could be, and what nobody has named.
        (server_trace_events.WRITE_GAP, 7, {"session": 7}),
        (trace_events.ELECTION_ROUND, (1, 2), {"detail": (1, 2)}),
        ("unheard.of", 5, {"detail": 5}),
    ],
)
def test_names_the_parts(name: str, detail: Any, fields: dict[str, Any]) -> None:
    assert trace_fields(TraceEvent(name, detail)) == fields
