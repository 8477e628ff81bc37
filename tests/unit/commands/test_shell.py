"""What the shell shows of values and Stats. Its commands run in tests/ray/test_command_line.py."""

import base64
import json

import pytest
from msgspec.structs import replace

from raykeeper.client import Stat
from raykeeper.client.errors import BadArgumentsError
from raykeeper.commands.output import make_console
from raykeeper.commands.shell import Shell, shown_value, stat_document
from raykeeper.zab.ids import Epoch, Millis, make_zxid
from tests.contract.client_handles import Room, open_blocking
from tests.unit.commands.printed import printed


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


NAMES = ["größe", "<script>alert(1)<", "[red]x[", "-e", "a b", "$x", "木", "\u202ekcab", "%2e"]
"""Of znodes; the last part of a path has no slash."""


def test_a_value_of_a_mebibyte_of_binary_is_printed_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    value = bytes(range(256)) * 4096
    with open_blocking(Room())() as client:
        client.create("/large", value)
        shell = Shell(client, make_console())
        assert printed(lambda console: Shell(client, console).run(["get", "/large"])) == (
            f"{value!r}\n"
        )
        assert Shell(client, make_console(), as_json=True).run(["get", "/large"]) is None
        document = json.loads(capsys.readouterr().out)
        assert document["value"] is None
        assert base64.b64decode(document["value_base64"]) == value
        with pytest.raises(BadArgumentsError, match="1048577 bytes, at most 1048576"):
            shell.run(["set", "/large", "x" * (len(value) + 1)])


@pytest.mark.parametrize("name", NAMES)
def test_an_odd_name_is_created_listed_and_deleted_as_it_is(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_blocking(Room())() as client:
        told = printed(lambda console: Shell(client, console).run(["create", f"/{name}"]))
        assert told == f"/{name}\n"
        Shell(client, make_console(), as_json=True).run(["ls", "/"])
        assert name in json.loads(capsys.readouterr().out)["children"]
        assert f"{name}\n" in printed(lambda console: Shell(client, console).run(["ls"]))
        Shell(client, make_console()).run(["delete", f"/{name}"])
        assert client.exists(f"/{name}") is None


@pytest.mark.parametrize("path", ["x", "", "/a/", "/a//b", "/../x", "/\x1b[2J", "/\x00"])
def test_a_path_that_is_none_is_refused_with_the_reason(path: str) -> None:
    with (
        open_blocking(Room())() as client,
        pytest.raises(BadArgumentsError, match="bad arguments"),
    ):
        Shell(client, make_console()).run(["create", path])
