"""Texts are printed unchanged, and `--json` prints one document in ASCII."""

import json
import logging
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from raykeeper.commands import output
from raykeeper.commands.output import (
    EscapedFormatter,
    make_console,
    print_document,
    print_error,
    print_table,
    print_text,
    session_field,
    time_field,
    value_fields,
)
from raykeeper.zab.errors import RayKeeperError
from tests.unit.commands.printed import printed

TEXTS = [
    "pip install 'raykeeper[bench]'",
    "/a/[/]",
    "[red]",
    "[/red] closed, never opened",
    ":smile:",
    "a backslash \\[red]\\",
    "[link=https://a.example]x[/link]",
    "long " * 30,
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_printed_as_it_is(text: str) -> None:
    assert printed(lambda console: console.print(text)) == f"{text}\n"
    assert printed(lambda console: console.print(text, style="red")) == f"{text}\n"


@pytest.mark.parametrize("text", TEXTS)
def test_the_message_of_an_error_is_printed_as_it_is(text: str) -> None:
    assert printed(lambda console: print_error(console, RayKeeperError(text))) == f"error: {text}\n"


def test_no_character_of_an_error_is_obeyed() -> None:
    error = RayKeeperError("/x\x1b[2J\u202e\nnext \udcff line")
    told = "error: /x\\x1b[2J\\u202e\nnext \\udcff line\n"
    assert printed(lambda console: print_error(console, error)) == told


@pytest.mark.parametrize("text", TEXTS)
def test_a_cell_is_printed_as_it_is(text: str) -> None:
    table = Table(box=None, show_header=False, padding=0)
    table.add_row(text, "next")
    assert printed(lambda console: print_table(console, table)) == f"{text}next\n"


def test_a_long_table_is_printed_as_rich_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS[:-1], "", "größe", "木の幹", Text("styled", style="red"), "e\u0301"]
    table = Table(box=None, pad_edge=False)
    table.add_column("left", no_wrap=True)
    table.add_column("number 木", justify="right", no_wrap=True)
    table.add_column("last", no_wrap=True)
    for number in range(output.RICH_ROWS_MAX + 1):
        text = texts[number % len(texts)]
        table.add_row(text, str(3**number)[:20], texts[-1 - number % len(texts)])
    by_lines = printed(lambda console: print_table(console, table))
    monkeypatch.setattr(output, "RICH_ROWS_MAX", 1_000)
    assert by_lines == printed(lambda console: print_table(console, table))
    assert len(by_lines.splitlines()) == table.row_count + 1


def test_a_cell_of_a_long_table_keeps_its_style() -> None:
    table = Table("a", "b", box=None, pad_edge=False)
    for _ in range(output.RICH_ROWS_MAX + 1):
        table.add_row(Text("bad", style="red"), "good")
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", width=80)
    print_table(console, table)
    assert "\x1b[31mbad\x1b[0m  good" in console.file.getvalue()  # type: ignore[attr-defined]


HOSTILE = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066, 0xFEFF, 0xDCFF]))
"""Characters that a terminal obeys, turns the line by, or cannot show."""


def _in_a_table(rows: int, cell: str | Text) -> Callable[[Console], None]:
    table = Table("a", box=None)
    for _ in range(rows):
        table.add_row(cell)
    return lambda console: print_table(console, table)


@pytest.mark.parametrize(
    "show",
    [
        lambda console: console.print(HOSTILE),
        lambda console: console.print(HOSTILE, style="red"),
        lambda console: console.print(Text(HOSTILE)),
        lambda console: console.print(Group(HOSTILE, Text(HOSTILE))),
        lambda console: print_error(console, RayKeeperError(HOSTILE)),
        _in_a_table(1, HOSTILE),
        _in_a_table(1, Text(HOSTILE)),
        _in_a_table(output.RICH_ROWS_MAX + 1, HOSTILE),
        _in_a_table(output.RICH_ROWS_MAX + 1, Text(HOSTILE)),
    ],
)
def test_a_terminal_obeys_no_text_however_it_is_printed(show: Callable[[Console], None]) -> None:
    shown = printed(show)
    assert "\\" in shown
    assert all(each.isprintable() for each in shown.replace("\n", ""))


def test_neither_does_it_obey_a_line_or_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    print_text(f"a\n{HOSTILE}")
    printed = capsys.readouterr().out.removesuffix("\n")
    assert printed.isprintable() and printed.startswith("a\\n\\x00")
    record = logging.makeLogRecord({"msg": f"{HOSTILE} %s", "args": ("\x1b",)})
    assert EscapedFormatter("%(message)s").format(record).replace("\n", "").isprintable()


def test_errors_have_a_console_of_their_own() -> None:
    assert make_console(stderr=True).stderr
    assert not make_console().stderr


DOCUMENT = {"path": "/größe/[red]", "value": "\x1b[31m\n", "stat": {"version": 1}, "none": None}


def test_a_document_is_printed_as_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(DOCUMENT)
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == DOCUMENT


def test_an_event_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(DOCUMENT, in_one_line=True)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == DOCUMENT


@pytest.mark.parametrize(
    ("value", "text", "base64"), [(b"", "", None), (b"text", "text", None), (b"\xff", None, "/w==")]
)
def test_a_value_is_printed_in_a_document(
    value: bytes, text: str | None, base64: str | None
) -> None:
    assert value_fields(value) == {"value": text, "value_base64": base64}


def test_times_and_sessions_are_printed_in_a_document() -> None:
    assert time_field(1_500) == "1970-01-01T00:00:01.500+00:00"
    assert (session_field(255), session_field(0)) == ("0xff", None)
