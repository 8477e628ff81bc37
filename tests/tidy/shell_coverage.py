"""What of the shells no test without Ray executes: python -m tests.tidy.shell_coverage FOLDER...

`make shell-coverage` runs the tests of these folders so, on all cores. The functions in which a
line was not executed are compared with the list in `not_executed.toml`: one that is not in it needs
a test, or a reason; one that is in it and was executed after all leaves it.
"""

import ast
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from coverage import Coverage

from tests.tidy.shell_measuring import FOLDER, ROOMS
from tests.tidy.test_tidy import PURE

LIST = Path(__file__).with_name("not_executed.toml")
Function = tuple[str, str]
"""A file of the repository, and the qualified name of a function in it."""


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments; its exit code, or 1 when the list is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "logical"]
        command += ["-p", "tests.tidy.shell_measuring", *arguments]
        environment = {**os.environ, FOLDER: folder}
        code = subprocess.run(command, check=False, env=environment).returncode
        if code:
            return code
        measured = Coverage(data_file=str(Path(folder) / "lines"))
        measured.combine([folder])
        missing = {path: lines_missing(measured, path) for path in shells()}
    found = {(path, name) for path, lines in missing.items() for name in functions_at(path, lines)}
    problems = list(differences(found, *listed()))
    for problem in problems:
        print(problem)
    return int(bool(problems))


def shells() -> Iterator[str]:
    """The files with a clock, a disk, a socket, a thread or Ray."""
    for room in ROOMS:
        for file in sorted(Path(room).rglob("*.py")):
            if not any(fnmatch(file.as_posix(), folder) for folder in PURE):
                yield file.as_posix()


def lines_missing(measured: Coverage, path: str) -> list[int]:
    """Lines of a file with a statement that was not executed."""
    return list(measured.analysis2(str(Path(path).resolve()))[3])


def functions_at(path: str, lines: list[int]) -> set[str]:
    """The innermost functions around some lines; "" for the module itself."""
    spans = list(_spans(ast.parse(Path(path).read_text()), ""))
    return {
        min(
            (span for span in spans if span[0] <= line <= span[1]),
            key=lambda span: span[1] - span[0],
            default=(0, 0, ""),
        )[2]
        for line in lines
    }


def _spans(node: ast.AST, name: str) -> Iterator[tuple[int, int, str]]:
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{name}.{child.name}" if name else child.name
            if not isinstance(child, ast.ClassDef):
                yield child.lineno, child.end_lineno or child.lineno, inner
        yield from _spans(child, inner)


def listed() -> tuple[set[Function], set[Function]]:
    """The functions in the list: with lines that are never executed, and now and then."""
    never, by_chance = set(), set()
    for group in tomllib.loads(LIST.read_text())["group"]:
        into = by_chance if group.get("by_chance", False) else never
        for path, names in group["functions"].items():
            into.update((path, name) for name in names)
    return never, by_chance


def differences(
    found: set[Function], never: set[Function], by_chance: set[Function]
) -> Iterator[str]:
    """What is wrong with the list; a name that ends with ".*" stands for all below it."""
    used = set()
    for path, name in sorted(found):
        covering = {entry for entry in never | by_chance if _covers(entry, (path, name))}
        used |= covering
        if not covering:
            yield f"{path}: {name or 'the module'}: not executed, and not in {LIST.name}"
    for path, name in sorted(never - used):
        yield f"{path}: {name}: executed, and still in {LIST.name}"


def _covers(entry: Function, function: Function) -> bool:
    if entry[0] != function[0]:
        return False
    name = entry[1]
    return name == function[1] or (name.endswith("*") and function[1].startswith(name[:-1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
