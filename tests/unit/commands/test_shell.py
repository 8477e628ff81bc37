"""What the shell shows of values and Stats. Its commands run in tests/ray/test_command_line.py."""

import base64
import json
import re
from io import BytesIO, StringIO, TextIOWrapper
from queue import Queue

import pytest
from msgspec.structs import replace

from raykeeper.client import Stat
from raykeeper.client.errors import BadArgumentsError
from raykeeper.commands.output import escaped_lines, make_console
from raykeeper.commands.shell import (
    Shell,
    ShellUsageError,
    shown_value,
    split_place,
    stat_document,
)
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


def test_a_znode_that_no_transaction_made_has_no_times() -> None:
    with open_blocking(Room())() as client:
        shown = printed(lambda console: Shell(client, console).run(["stat", "/"]))
    rows = dict(line.split() for line in shown.splitlines())
    assert (rows["ctime"], rows["mtime"], rows["czxid"]) == ("none", "none", "0:0")


NAMES = ["größe", "<script>alert(1)<", "[red]x[", "-e", "a b", "$x", "木", "\u202ekcab", "%2e"]
"""Of znodes; the last part of a path has no slash."""


def test_a_value_of_a_mebibyte_of_binary_is_printed_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    value = bytes(range(256)) * 4096
    with open_blocking(Room())() as client:
        client.create("/large", value)
        shell = Shell(client, make_console())
        lines = iter(["get /large", "quit"])
        assert printed(lambda console: Shell(client, console).interact(lambda: next(lines))) == (
            f"{value!r}\n"
        )
        assert Shell(client, make_console(), as_json=True).run(["get", "/large"]) is None
        document = json.loads(capsys.readouterr().out)
        assert document["value"] is None
        assert base64.b64decode(document["value_base64"]) == value
        with pytest.raises(BadArgumentsError, match="1048577 bytes, at most 1048576"):
            shell.run(["set", "/large", "x" * (len(value) + 1)])


VALUES = [b"", b"text", b"a\r\nb\x08\x0c\x07\x1b[2J\t", "\u202e größe".encode(), b"\xff\x00\n"]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_exact_for_a_program_and_harmless_on_a_terminal(
    value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_blocking(Room())() as client:
        client.create("/v", value)
        console, file = make_console(), BytesIO()
        console.file = TextIOWrapper(file, encoding="utf-8", write_through=True)
        Shell(client, console).run(["get", "/v"])
        assert file.getvalue() == value
        file.truncate(file.seek(0))
        lines = iter(["get /v", "quit"])  # at a prompt somebody reads
        Shell(client, console).interact(lambda: next(lines))
        assert file.getvalue().decode() == f"{escaped_lines(shown_value(value))}\n"
        monkeypatch.setenv("FORCE_COLOR", "1")
        terminal = make_console()
        terminal.file = text = StringIO()
        Shell(client, terminal).run(["get", "/v"])
        assert text.getvalue() == f"{escaped_lines(shown_value(value))}\n"
        assert all(each.isprintable() for each in text.getvalue().replace("\n", ""))


class Lines(Queue[str]):
    """A file whose lines are awaited."""

    def write(self, text: str) -> None:
        self.put(text.strip())

    def flush(self) -> None:
        pass


def test_a_watch_goes_on_after_a_znode_went_and_came_in_one_transaction() -> None:
    room = Room()
    with open_blocking(room)() as client, open_blocking(room)() as other:
        client.create("/w")
        console = make_console()
        console.file = lines = Lines()  # type: ignore[assignment]
        Shell(client, console).run(["watch", "/w"])
        with other.transaction() as t:
            t.delete("/w")
            t.create("/w")
        other.create("/w/child")
        other.set("/w", b"x")
        other.delete("/w", recursive=True)
        other.create("/w")
        told = ["deleted", "created", "child", "changed", "child", "deleted", "created"]
        assert [lines.get(timeout=60).split()[0] for _ in told] == told


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


@pytest.mark.parametrize(
    ("words", "name", "left"),
    [
        ("ls", "", "ls"),
        ("ls /a/b", "", "ls /a/b"),
        ("ls ops", "ops", "ls /"),
        ("get ops/app/x", "ops", "get /app/x"),
        ("set ops/x a/b 3", "ops", "set /x a/b 3"),
        ("create -e -s ops/x v/w", "ops", "create -e -s /x v/w"),
        ("create -- ops/x", "ops", "create -- /x"),
        ("delete -r ops/x", "ops", "delete -r /x"),
        ("create -e", "", "create -e"),
        ("rm ops/x", "", "rm ops/x"),
        ("watch ops/x", "ops", "watch /x"),
    ],
)
def test_a_path_may_begin_with_its_ensemble(words: str, name: str, left: str) -> None:
    assert split_place(words.split()) == (name, left.split())


def test_a_place_in_another_ensemble_is_refused_and_one_in_this_is_taken() -> None:
    with open_blocking(Room())() as client:
        shell = Shell(client, make_console(), "ops")
        with pytest.raises(ShellUsageError, match="this is ensemble 'ops', not 'apps'; a path in"):
            shell.run(["create", "apps/x"])
        with pytest.raises(BadArgumentsError, match="/a//b: bad arguments"):
            shell.run(["create", "ops/a//b"])
        shell.run(["create", "ops/x"])
        assert client.exists("/x") is not None


@pytest.mark.parametrize("words", ["get /x --json", "stat --json /x", "delete /x --json 1"])
def test_an_option_of_the_command_line_behind_a_command_is_told_where_it_belongs(
    words: str,
) -> None:
    command = words.split()[0]
    told = f"--json belongs before it: `raykeeper shell --json {command} …`"
    with open_blocking(Room())() as client, pytest.raises(ShellUsageError, match=re.escape(told)):
        Shell(client, make_console()).run(words.split())


@pytest.mark.parametrize("path", ["", "/a/", "/a//b", "/../x", "/\x1b[2J", "/\x00"])
def test_a_path_that_is_none_is_refused_with_the_reason(path: str) -> None:
    with (
        open_blocking(Room())() as client,
        pytest.raises(BadArgumentsError, match="bad arguments"),
    ):
        Shell(client, make_console()).run(["create", path])
