"""What a command prints, as text."""

from collections.abc import Callable
from io import StringIO

from rich.console import Console

from raykeeper.commands.output import make_console


def printed(show: Callable[[Console], None]) -> str:
    """What `show` prints to a console of the command line, on a narrow terminal."""
    console = make_console()
    console.file = text = StringIO()
    console.width = 40
    show(console)
    return text.getvalue()
