"""The consoles of the command line, which print every text unchanged.

Names, paths, values and messages may contain brackets and colons, which Rich would interpret as
markup and emoji. Colors are given as a `style`, never within a text.
"""

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH_MAX = 500


def make_console(*, stderr: bool = False) -> Console:
    """Return a console without markup, emoji and highlighting, which wraps no line."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)


def print_error(console: Console, error: Exception) -> None:
    """Print the message of an error; a message of one line stays on one line."""
    console.print(Text("error:", style="red"), Text(str(error)))


def print_table(console: Console, table: Table) -> None:
    """Print a table in its full width: truncated numbers would mislead."""
    widest = console.options.update(max_width=_WIDTH_MAX)
    table.width = console.measure(table, options=widest).maximum
    console.print(table)
