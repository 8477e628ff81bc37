"""The output of the command line: consoles that obey no text of others, and JSON documents.

Names, paths, values and messages may contain brackets and colons, which Rich would interpret as
markup and emoji. Colors are given as a `style`, never within a text. They may also contain what a
terminal would obey; a console shows that as Python writes it, whoever prints it.

`--json` prints one document on standard output. docs/COMMAND_LINE.md lists all fields; their names
and meanings are as stable as the Python interface. A zxid is a string, `<epoch>:<counter>`; a time
is ISO 8601 in UTC; a value is a string if it is UTF-8, else base64.
"""

import base64
import json
import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_WIDTH_MAX = 500
RICH_ROWS_MAX: Final = 500
"""Rich lays out a table before it prints its first line: ten thousand rows take it ten seconds."""

Document = Mapping[str, Any]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, and all else to standard error.")
]


class _Console(Console):
    """Escapes every text: Rich drops some control characters and passes on the others.

    A cell of a table, or one line among others, is escaped by its caller: its line breaks, too.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(escaped_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for each in super().render(renderable, options):
            is_plain = each.control or each.text == "\n" or each.text.isprintable()
            yield each if is_plain else Segment(escaped_lines(each.text), each.style)


def make_console(*, stderr: bool = False) -> Console:
    """Return a console without markup, emoji and highlighting, which wraps no line."""
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)


def escaped(text: str) -> str:
    """Return a text with the characters that a terminal would obey as Python writes them.

    These are control characters, those that turn the direction of writing, and lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def escaped_lines(text: str) -> str:
    """Return a text escaped line by line."""
    return text if text.isprintable() else "\n".join(map(escaped, text.split("\n")))


class EscapedFormatter(logging.Formatter):
    """Formats a log line so that a terminal obeys no character of it."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped_lines(super().format(record))


def print_error(console: Console, error: Exception) -> None:
    """Print the message of an error; a message of one line stays on one line.

    It may name what others have named, so a terminal obeys no character of it.
    """
    console.print(Text("error:", style="red"), Text(escaped_lines(str(error))))


def print_table(console: Console, table: Table) -> None:
    """Print a table without borders in its full width, a long one line by line."""
    if table.row_count > RICH_ROWS_MAX and table.show_header:
        _print_lines(console, table)
        return
    widen_table(console, table)
    console.print(table)


def _print_lines(console: Console, table: Table) -> None:
    """Print the lines that Rich prints for a table of one-line cells, twenty times as fast."""
    columns = [[column.header, *column.cells] for column in table.columns]
    sizes = [[cell_len(str(cell)) for cell in cells] for cells in columns]
    widths = [max(each) for each in sizes]
    for number in range(table.row_count + 1):
        line = Text(style="table.header" if number == 0 else "")
        for index, column in enumerate(table.columns):
            cell = columns[index][number]
            space = " " * (widths[index] - sizes[index][number])
            line.append("  " if index else "")
            if column.justify == "right":
                line.append(space)
            line.append(cell if isinstance(cell, Text) else escaped(str(cell)))
            if column.justify != "right":
                line.append(space)
        console.print(line)


def widen_table(console: Console, table: Table) -> None:
    """Give a table its full width: truncated numbers would mislead."""
    widest = console.options.update(max_width=_WIDTH_MAX)
    table.width = console.measure(table, options=widest).maximum


def value_fields(value: bytes) -> Document:
    """Return the fields of a value in a document: a string, or base64 if it is not UTF-8."""
    try:
        return {"value": value.decode(), "value_base64": None}
    except UnicodeDecodeError:
        return {"value": None, "value_base64": base64.b64encode(value).decode()}


def time_field(time_ms: int) -> str:
    """Return a time of the ensemble in a document."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def session_field(session_id: int) -> str | None:
    """Return a session id in a document, None for none."""
    return f"{session_id:#x}" if session_id else None


def print_text(line: str, *, is_error: bool = False) -> None:
    """Print a line as it is, however long, but for what a terminal would obey."""
    typer.echo(escaped(line), err=is_error)


def print_line(document: Document) -> None:
    """Print a document on a line, one of several."""
    print_document(document, in_one_line=True)


def print_document(document: Document, *, in_one_line: bool = False) -> None:
    """Print a document in ASCII, which is the same in every terminal."""
    typer.echo(json.dumps(document, indent=None if in_one_line else 2))
