"""The fields of notes: every note has an entry, and a line shows its parts by name."""

from typing import Any

import pytest

from raykeeper.actors.disk import storage_notes
from raykeeper.actors.note_fields import FIELDS, fields_of
from raykeeper.server import server_notes
from raykeeper.zab import notes
from raykeeper.zab.effects import Note


def test_every_note_has_its_fields() -> None:
    names = {
        value
        for module in (notes, server_notes, storage_notes)
        for name, value in vars(module).items()
        if name.isupper()
    }
    assert set(FIELDS) == names


@pytest.mark.parametrize(
    ("name", "detail", "fields"),
    [
        (notes.ELECTION_STARTED, 3, {"round": 3}),
        (notes.ELECTION_DECIDED, (1, 2), {"round": 1, "leader": 2}),
        (server_notes.READS_HELD, None, {}),
        # What names its parts itself.
        (storage_notes.LOG_TAIL_CUT, {"offset": 9}, {"offset": 9}),
        # Less than there could be, and what nobody has named.
        (server_notes.WRITE_GAP, 7, {"session": 7}),
        (notes.ELECTION_ROUND, (1, 2), {"detail": (1, 2)}),
        ("unheard.of", 5, {"detail": 5}),
    ],
)
def test_names_the_parts(name: str, detail: Any, fields: dict[str, Any]) -> None:
    assert fields_of(Note(name, detail)) == fields
