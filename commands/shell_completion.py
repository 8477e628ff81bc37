"""Completion at the prompt of `raykeeper shell`: its commands, and the paths of znodes.

The prompt has a session, so the children of a znode are one read away. It is bounded: a long list
is not read, and an ensemble that does not answer in time offers nothing.
"""

import shlex
from collections.abc import Callable
from typing import Final

from raykeeper.client import Client
from raykeeper.commands.shell_usage import USAGE
from raykeeper.zab.errors import RayKeeperError

CHILDREN_MAX: Final = 1_000
"""Of a znode with more no child is offered."""
ANSWER_S: Final = 1.0
_WORDS: Final = (*USAGE, "help", "quit")


class PromptCompleter:
    """What the key Tab offers; `complete` is for `readline.set_completer`."""

    def __init__(self, client: Client, line_before: Callable[[], str]) -> None:
        """`line_before` returns the line up to the word that is completed."""
        self._client = client
        self._line_before = line_before
        self._offered: list[str] = []

    def complete(self, word: str, number: int) -> str | None:
        """Return the next way to complete a word, None after the last one."""
        if number == 0:
            is_first = not self._line_before().strip()
            self._offered = self._commands(word) if is_first else self._paths(word)
        return self._offered[number] if number < len(self._offered) else None

    def _commands(self, word: str) -> list[str]:
        return [f"{each} " for each in _WORDS if each.startswith(word)]

    def _paths(self, word: str) -> list[str]:
        parent, slash, begun = word.rpartition("/")
        if not slash or parent.endswith("/"):
            return []
        try:
            names = self._children(parent or "/")
        except (RayKeeperError, TimeoutError):
            return []
        # A name that the prompt would have to quote is not offered.
        plain = (each for each in names if each.startswith(begun) and shlex.quote(each) == each)
        return [f"{parent}/{each}" for each in sorted(plain)]

    def _children(self, path: str) -> list[str]:
        stat = self._client.exists_async(path).result(ANSWER_S)
        if stat is None or stat.num_children > CHILDREN_MAX:
            return []
        return self._client.get_children_async(path).result(ANSWER_S)


def install_completion(client: Client) -> None:
    """Have Tab complete the lines that `input` reads."""
    import readline

    readline.set_completer_delims(" \t\n")
    readline.parse_and_bind("tab: complete")
    completer = PromptCompleter(client, lambda: readline.get_line_buffer()[: readline.get_begidx()])
    readline.set_completer(completer.complete)
