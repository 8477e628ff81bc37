"""What the shell shows of values and Stats. Its commands run in tests/ray/test_command_line.py."""

import pytest
from msgspec.structs import replace

from raykeeper.client import Stat
from raykeeper.commands.shell import shown_value, stat_document
from raykeeper.zab.ids import Epoch, Millis, make_zxid


@pytest.mark.parametrize(
    ("value", "shown"),
    [(b"", ""), (b"text", "text"), ("Größe".encode(), "Größe"), (b"\xff\x00", r"b'\xff\x00'")],
)
def test_a_value_is_printed(value: bytes, shown: str) -> None:
    assert shown_value(value) == shown


def test_a_stat_is_printed_in_a_document() -> None:
    first, last = make_zxid(Epoch(1), 2), make_zxid(Epoch(3), 4)
    stat = Stat(first, last, Millis(0), Millis(1_500), 1, 2, 0, 255, 3, 4, last)
    assert stat_document(stat) == {
        "czxid": "1:2",
        "mzxid": "3:4",
        "ctime": "1970-01-01T00:00:00.000+00:00",
        "mtime": "1970-01-01T00:00:01.500+00:00",
        "version": 1,
        "cversion": 2,
        "aversion": 0,
        "ephemeral_owner": "0xff",
        "data_length": 3,
        "num_children": 4,
        "pzxid": "3:4",
    }
    assert stat_document(replace(stat, ephemeral_owner=0))["ephemeral_owner"] is None
