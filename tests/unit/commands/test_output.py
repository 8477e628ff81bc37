"""Texts are printed unchanged, and `--json` prints one document in ASCII."""

import json

import pytest
from rich.table import Table

from raykeeper.commands.output import (
    make_console,
    print_document,
    print_error,
    print_table,
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


@pytest.mark.parametrize("text", TEXTS)
def test_a_cell_is_printed_as_it_is(text: str) -> None:
    table = Table(box=None, show_header=False, padding=0)
    table.add_row(text, "next")
    assert printed(lambda console: print_table(console, table)) == f"{text}next\n"


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
