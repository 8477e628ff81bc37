"""Tests as text files of commands and of the output that they print.

In the way of etcd-io/raft's data-driven tests: a file is a row of blocks, each of commands, a line
`----`, and the output of the commands up to the next empty line or the end of the file:

    # A comment may stand between blocks and between commands. It is kept.
    for seed in 0..7
    for size in small large

    # 1. The leader writes twice, with a disk of this seed.
    world seed=$seed
    write S3 count=2
        text for the command `write`, indented by four spaces
    ----
    S3 appends 1:1 1:2

The commands are the public methods of an object that the test makes. The words of a line are the
arguments of the method, `name=value` those that it takes by name; quotes are the shell's. The
annotations of the method say how a word is read (`int`, `str`, and what the test adds). A method
with a parameter `lines` takes the indented lines below its command as text; one with a parameter
`then` takes them as commands, which it may carry out at any time. The last parameter `rest` takes
the rest of the line as it stands. A method returns the lines that it prints, as one text, or None.

`for` lines stand before the first block. The file is run once for each combination of their values,
with a new object each time, and the output must be the same for all.

`pytest --rewrite` (the fixture `rewrite`) writes the present output into the file.
"""

import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import ndiff
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, Final

SEPARATOR: Final = "----"
INDENT: Final = "    "
LOOP: Final = re.compile(r"for (\w+) in (\S.*)")
RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
NAMED: Final = re.compile(r"([a-z]\w*)=(.*)", re.DOTALL)
LINES: Final = "lines"
THEN: Final = "then"
REST: Final = "rest"

Readers = Mapping[Any, Callable[[str], Any]]
"""How a word is read, by the annotation of the parameter; `ValueError` refuses the word."""


Then = Callable[[], list[str]]
"""The commands below a command: carries them out, and returns the lines that they print."""
NumberedLine = tuple[int, str]


class DataFileError(Exception):
    """A file is malformed, or a command does not exist or does not take what it is given.

    The text begins with the path and the line.
    """


@dataclass
class Command:
    number: int
    """Its line in the file, from 1."""
    text: str
    lines: list[NumberedLine]


@dataclass
class Block:
    number: int
    """The line of its `----`, from 1."""
    commands: list[Command]
    output: list[str]


class DataFile:
    """A file that was read.

    Raises:
        DataFileError: the file is malformed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loops: dict[str, list[str]] = {}
        self.blocks: list[Block] = []
        self._lines = path.read_text().split("\n")
        n = 0
        while n < len(self._lines):
            line = self._lines[n]
            if not line or line.startswith("#"):
                n += 1
            elif loop := LOOP.fullmatch(line):
                if self.blocks:
                    raise self.error(n + 1, "a `for` stands before the first block")
                self.loops[loop[1]] = values_of(loop[2])
                n += 1
            else:
                n = self._read_block(n)

    def error(self, number: int, text: str) -> DataFileError:
        return DataFileError(f"{self.path}:{number}: {text}")

    def text(self) -> str:
        """Return the text of the file with the output that the blocks have now."""
        found: list[str] = []
        n = 0
        for block in self.blocks:
            found += [*self._lines[n : block.number], *block.output]
            n = self._end_of_output(block.number)
        return "\n".join(found + self._lines[n:])

    def read_commands(self, lines: Sequence[NumberedLine]) -> list[Command]:
        """Return the commands of some lines, each with the indented lines below it."""
        commands: list[Command] = []
        for number, line in lines:
            if line.startswith(INDENT):
                if not commands:
                    raise self.error(number, "an indented line without a command above it")
                commands[-1].lines.append((number, line.removeprefix(INDENT)))
            elif line[0].isspace():
                raise self.error(number, "lines of a command are indented by four spaces")
            elif not line.startswith("#"):
                commands.append(Command(number, line, []))
        return commands

    def _read_block(self, start: int) -> int:
        """Read the block that begins at index `start`, and return the index behind its output."""
        n = start
        while n < len(self._lines) and self._lines[n] != SEPARATOR:
            n += 1
            if n == len(self._lines) or not self._lines[n]:
                raise self.error(n + 1, f"a block ends before its `{SEPARATOR}`")
        commands = self.read_commands(list(enumerate(self._lines, 1))[start:n])
        if not commands:
            raise self.error(n + 1, f"no command above `{SEPARATOR}`")
        end = self._end_of_output(n + 1)
        self.blocks.append(Block(n + 1, commands, self._lines[n + 1 : end]))
        return end

    def _end_of_output(self, n: int) -> int:
        while n < len(self._lines) and self._lines[n]:
            n += 1
        return n


def check(
    path: Path, make: Callable[[], object], readers: Readers | None = None, *, rewrite: bool
) -> None:
    """Run a file, once for each combination of its `for` values, and compare the output.

    Args:
        path: the file.
        make: returns a new object whose public methods are the commands.
        readers: how words are read, besides `int` and `str`.
        rewrite: write the output of the first combination into the file instead of comparing it.

    Raises:
        AssertionError: the output of a block is another one.
        DataFileError: the file is malformed, or a command is unknown or misused.
    """
    file = DataFile(path)
    must_write = rewrite
    for values in product(*file.loops.values()):
        named = dict(zip(file.loops, values, strict=True))
        target = make()
        for block in file.blocks:
            found = [
                line
                for command in block.commands
                for line in call(file, target, command, named, readers or {})
            ]
            if must_write:
                block.output = found
            elif found != block.output:
                raise AssertionError(describe_difference(file, block, found, named))
        must_write = False
    if rewrite and (text := file.text()) != path.read_text():
        path.write_text(text)


def call(
    file: DataFile, target: object, command: Command, named: Mapping[str, str], readers: Readers
) -> list[str]:
    """Carry out one command, and return the lines that it prints."""

    def then() -> list[str]:
        below = file.read_commands(command.lines)
        return [line for each in below for line in call(file, target, each, named, readers)]

    try:
        name, _, text = Template(command.text).substitute(named).partition(" ")
        lines = [Template(line).substitute(named) for _, line in command.lines]
    except KeyError as error:
        raise file.error(command.number, f"no `for` gives ${error.args[0]} a value") from None
    except ValueError as error:
        raise file.error(command.number, f"cannot read the line: {error}") from None
    method = None if name.startswith("_") else getattr(target, name, None)
    if not inspect.ismethod(method):
        raise file.error(command.number, f"unknown command {name!r}")
    try:
        arguments = read_arguments(method, text, {LINES: lines, THEN: then}, readers)
        if lines and not arguments.arguments.keys() & {LINES, THEN}:
            raise TypeError("takes no indented lines")
    except (TypeError, ValueError) as error:
        raise file.error(command.number, f"{name}: {error}") from None
    try:
        printed: str | None = method(*arguments.args, **arguments.kwargs)
    except Exception as error:
        error.add_note(f"{file.path}:{command.number}: {command.text}{describe_values(named)}")
        raise
    found = printed.split("\n") if printed else []
    if "" in found:
        raise file.error(command.number, f"{name} printed an empty line, which ends an output")
    return found


def read_arguments(
    method: Callable[..., Any], text: str, below: Mapping[str, Any], readers: Readers
) -> inspect.BoundArguments:
    """Read the text behind a command as the arguments of a method.

    Raises:
        TypeError, ValueError: the method does not take them.
    """
    signature = inspect.signature(method, eval_str=True)
    count = len(signature.parameters) - 1 if REST in signature.parameters else None
    words = shlex.split(text) if count is None else text.split(None, count)
    taken = {**below, REST: "".join(words[count:])} if count is not None else below
    named = {name: value for name, value in taken.items() if name in signature.parameters}
    positional: list[str] = []
    for word in words[:count]:
        if match := NAMED.fullmatch(word):
            if match[1] in taken or match[1] not in signature.parameters:
                raise TypeError(f"takes no argument {match[1]!r}")
            named[match[1]] = match[2]
        else:
            positional.append(word)
    bound = signature.bind(*positional, **named)
    known = {str: str, int: int, **readers}
    for name, value in bound.arguments.items():
        if name not in taken:
            reader = known[signature.parameters[name].annotation]
            is_tuple = isinstance(value, tuple)
            bound.arguments[name] = tuple(map(reader, value)) if is_tuple else reader(value)
    return bound


def values_of(text: str) -> list[str]:
    """Return the words of a text; `2..4` stands for 2, 3, 4."""
    found: list[str] = []
    for word in shlex.split(text):
        if span := RANGE.fullmatch(word):
            found += map(str, range(int(span[1]), int(span[2]) + 1))
        else:
            found.append(word)
    return found


def describe_difference(
    file: DataFile, block: Block, found: list[str], named: Mapping[str, str]
) -> str:
    commands = "\n".join(command.text for command in block.commands)
    difference = "\n".join(line for line in ndiff(block.output, found) if line[0] != "?")
    where = f"{file.path}:{block.number}: another output{describe_values(named)}"
    return f"{where} (pytest --rewrite accepts it)\n{commands}\n{SEPARATOR}\n{difference}"


def describe_values(named: Mapping[str, str]) -> str:
    return "".join(f", {name}={value}" for name, value in named.items())
