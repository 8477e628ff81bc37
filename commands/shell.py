"""`raykeeper shell`: znode commands, from a prompt or one from the command line.

ZooKeeper: `zkCli.sh`. A terminal shows a value as text if it is UTF-8, else as Python bytes, and
obeys no character of it. A command whose output goes elsewhere writes names and values as they are.
"""

import shlex
from collections.abc import Callable
from typing import Final

import typer
from rich.console import Console
from rich.table import Table

from raykeeper.client import Client, EventType, Stat, WatchedEvent
from raykeeper.client.errors import NoNodeError
from raykeeper.client.session_options import split_ensemble_name
from raykeeper.commands.output import (
    Document,
    print_document,
    print_table,
    session_field,
    time_field,
    value_fields,
)
from raykeeper.commands.shell_usage import USAGE
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Zxid, format_zxid

_TIMES: Final = ("ctime", "mtime")
"""0 in the Stat of a znode that no transaction has made, or set."""
_FLAGS: Final = {"create": "esp", "delete": "r"}
_ENDINGS = ("quit", "exit")


class ShellUsageError(RayKeeperError):
    """Raised when a command of the shell does not exist or has wrong arguments.

    Nothing was sent. The caller should show the message, which contains the usage.
    """


class Shell:
    """Runs commands with one client. The commands are the methods `_do_<name>`."""

    def __init__(
        self, client: Client, console: Console, name: str = "", *, as_json: bool = False
    ) -> None:
        """`name` is that of the ensemble, which a PATH may begin with."""
        self._client = client
        self._name = name
        self._console = console
        self._as_json = as_json
        self._is_over = False
        self._is_exact = not console.is_terminal
        """Whether a program reads what is printed."""

    def interact(self, read_line: Callable[[], str]) -> None:
        """Run the lines that `read_line` returns until it raises EOFError or returns `quit`.

        Raises:
            SessionExpiredError: the session is over, and with it the shell.
        """
        self._is_exact = False
        while not self._is_over:
            try:
                line = read_line()
                words = shlex.split(line)
                if not words:
                    continue
                if words[0] in _ENDINGS:
                    self._is_over = True
                else:
                    self.run(words)
            except EOFError:
                self._is_over = True
            except ValueError as error:  # shlex: an open quotation mark
                self._print_error(str(error))
            except RayKeeperError as error:
                self._print_error(str(error))
                if self._client.state == "LOST":
                    raise

    def leave(self) -> None:
        """Print no more events: the session ends because the user wants it."""
        self._is_over = True

    def run(self, words: list[str]) -> None:
        """Run one command.

        Raises:
            ShellUsageError: the command does not exist, or has wrong arguments.
            KeeperError: the ensemble refused the command.
        """
        named, words = split_place(words)
        if named not in ("", self._name):
            raise ShellUsageError(
                f"this is ensemble {self._name!r}, not {named!r}; a path in it begins with /"
            )
        name, *arguments = words
        if name == "help":
            self._console.print("\n".join([*USAGE.values(), "quit"]))
        elif name in USAGE:
            getattr(self, f"_do_{name}")(arguments)
        else:
            raise ShellUsageError(f"no command {name!r}; there are {', '.join(USAGE)}, help, quit")

    def _do_ls(self, arguments: list[str]) -> None:
        (path,) = _positional("ls", arguments or ["/"], 1, 1)
        names = sorted(self._client.get_children(path))
        self._print_document({"path": path, "children": names}, *names)

    def _do_get(self, arguments: list[str]) -> None:
        (path,) = _positional("get", arguments, 1, 1)
        value, stat = self._client.get(path)
        document = {"path": path, **value_fields(value), "stat": stat_document(stat)}
        if self._is_exact and not self._as_json:
            typer.echo(value, self._console.file, nl=False)
        else:
            self._print_document(document, shown_value(value))

    def _do_stat(self, arguments: list[str]) -> None:
        (path,) = _positional("stat", arguments, 1, 1)
        stat = self._client.exists(path)
        if stat is None:
            raise NoNodeError(path)
        fields = stat_document(stat)
        table = Table(box=None, show_header=False)
        for field, value in fields.items():
            is_none = value is None or (field in _TIMES and getattr(stat, field) == 0)
            table.add_row(field, "none" if is_none else str(value))
        self._print_document({"path": path, "stat": fields}, table)

    def _do_set(self, arguments: list[str]) -> None:
        path, value, *version = _positional("set", arguments, 2, 3)
        stat = self._client.set(path, value.encode(), _version("set", version))
        self._print_document({"path": path, "stat": stat_document(stat)}, f"version {stat.version}")

    def _do_create(self, arguments: list[str]) -> None:
        flags, rest = _flags("create", arguments)
        path, *value = _positional("create", rest, 1, 2)
        real = self._client.create(
            path,
            value[0].encode() if value else b"",
            ephemeral="e" in flags,
            sequence="s" in flags,
            makepath="p" in flags,
        )
        self._print_document({"path": real}, real)

    def _do_delete(self, arguments: list[str]) -> None:
        flags, rest = _flags("delete", arguments)
        path, *version = _positional("delete", rest, 1, 2)
        self._client.delete(path, _version("delete", version), recursive="r" in flags)
        self._print_document({"path": path})

    def _do_watch(self, arguments: list[str]) -> None:
        (path,) = _positional("watch", arguments, 1, 1)
        # One that stays: of a znode that goes and comes within a transaction it tells both.
        self._client.add_watch(path, self._tell_event)

    def _tell_event(self, event: WatchedEvent) -> None:
        if self._is_over:
            return  # the end of the session, which the user asked for
        kind = event.type.name.lower() if event.type != EventType.NONE else "session_lost"
        zxid = format_zxid(event.zxid)
        if self._as_json:
            print_document({"type": kind, "path": event.path, "zxid": zxid}, in_one_line=True)
        else:
            self._print_document({}, f"{kind.replace('_', ' ')} {event.path} at {zxid}")

    def _print_document(self, document: Document, *shown: str | Table) -> None:
        """Print the document if `--json` is set, else the texts and tables `shown`."""
        if self._as_json:
            print_document(document)
            return
        for each in shown:
            if isinstance(each, Table):
                print_table(self._console, each)
            elif self._is_exact:
                typer.echo(each, self._console.file)
            else:
                self._console.print(each)

    def _print_error(self, text: str) -> None:
        self._console.print(text, style="red")


def split_place(words: list[str]) -> tuple[str, list[str]]:
    """Return the ensemble that the PATH of a command names, "" for none, and the words without it.

    Raises:
        BadArgumentsError: ENSEMBLE/PATH has no path of a znode in it.
    """
    at = 1
    while words[0] in _FLAGS and words[at : at + 1] and _is_flags(words[at]):
        at += 1
        if words[at - 1] == "--":
            break
    place = "".join(words[at : at + 1])
    if words[0] not in USAGE or not place or place.startswith(("/", "-")):
        return "", words
    name, path = split_ensemble_name(place)
    return name, [*words[:at], path or "/", *words[at + 1 :]]


def shown_value(value: bytes) -> str:
    """Return a value as text if it is UTF-8, else as Python bytes, for a console."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return repr(value)


def stat_document(stat: Stat) -> Document:
    """Return the fields of a Stat, with zxids as epoch:counter and times in ISO form."""
    return {field: _shown_field(field, getattr(stat, field)) for field in stat.__struct_fields__}


def _shown_field(field: str, value: int) -> str | int | None:
    if field in ("czxid", "mzxid", "pzxid"):
        return format_zxid(Zxid(value))
    if field in _TIMES:
        return time_field(value)
    if field == "ephemeral_owner":
        return session_field(value)
    return value


def _is_flags(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _flags(command: str, arguments: list[str]) -> tuple[set[str], list[str]]:
    flags: set[str] = set()
    given = arguments
    while arguments and _is_flags(arguments[0]):
        letters = arguments[0][1:]
        arguments = arguments[1:]
        if letters == "-":
            break
        if set(letters) - set(_FLAGS[command]):
            raise _usage_error(command, given)
        flags |= set(letters)
    return flags, arguments


def _positional(command: str, arguments: list[str], least: int, most: int) -> list[str]:
    if not least <= len(arguments) <= most:
        raise _usage_error(command, arguments)
    return arguments


def _version(command: str, words: list[str]) -> int:
    if not words:
        return -1
    try:
        return int(words[0])
    except ValueError:
        raise _usage_error(command, words) from None


def _usage_error(command: str, arguments: list[str]) -> ShellUsageError:
    told = f"usage: {USAGE[command]}"
    if options := [each for each in arguments if each.startswith("--")]:
        told += f"; {options[0]} belongs before it: `raykeeper shell {options[0]} {command} …`"
    return ShellUsageError(told)
