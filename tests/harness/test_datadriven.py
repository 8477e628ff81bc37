"""Data-driven tests: what a file says, how it is compared and rewritten, what is refused."""

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from tests.harness.datadriven import DataFileError, Then, check

ROOT = Path(__file__).parents[2]
FILE = """\
# What the file shows.
for size in 2..3 5

# 1. A comment of the first block.
open 'two words' size=$size
# A comment between commands.
say
    one line
      and one with $$5
----
one line
  and one with $5


# 2. The object remembers.
show
shout b c
----
two words
B
C

# 3. The rest of a line is taken as it stands.
repeat 2  it's count=3
repeat 0
----
it's count=3
it's count=3

# 4. The last block prints nothing.
open again
----

# The end.
"""


class Words:
    """A small vocabulary."""

    sizes: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.text = ""

    def open(self, text: str, size: int = 1) -> None:
        self.text = text
        self.sizes.append(size)

    def say(self, lines: list[str]) -> str:
        return "\n".join(lines)

    def twice(self, then: Then) -> str:
        return "\n".join(then() + then())

    def show(self) -> str:
        return self.text

    def shout(self, *words: bytes) -> str:
        return "\n".join(word.decode().upper() for word in words)

    def repeat(self, count: int, rest: str) -> str:
        return "\n".join([rest] * count)

    def size(self) -> str:
        return str(self.sizes[-1])

    def fail(self) -> None:
        raise RuntimeError("a property is violated")

    def _hidden(self) -> None: ...


def run(path: Path, *, rewrite: bool = False) -> None:
    check(path, Words, {bytes: str.encode}, rewrite=rewrite)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.txt"


def test_a_file_is_run_once_for_each_combination(path: Path) -> None:
    path.write_text(FILE)
    Words.sizes.clear()
    run(path)
    assert Words.sizes == [2, 1, 3, 1, 5, 1]


def test_another_output_is_shown_with_file_and_line(path: Path) -> None:
    path.write_text("show\nshout b c\n----\nB\nX\n")
    with pytest.raises(AssertionError) as caught:
        run(path)
    assert str(caught.value).split("\n") == [
        *(f"{path}:3: another output (pytest --rewrite accepts it)", "show", "shout b c", "----"),
        *("  B", "- X", "+ C"),
    ]


def test_the_output_must_be_the_same_for_all_values(path: Path) -> None:
    path.write_text("for n in 1 2\n\nopen a size=$n\nsize\n----\n1\n")
    with pytest.raises(AssertionError, match=":5: another output, n=2 "):
        run(path)
    with pytest.raises(AssertionError, match=":5: another output, n=2 "):
        run(path, rewrite=True)


@pytest.mark.parametrize("text", [FILE, FILE.strip("\n"), FILE.replace("one with", "")])
def test_rewriting_leaves_an_up_to_date_file_as_it_is(path: Path, text: str) -> None:
    path.write_text(text)
    before = path.read_bytes()
    os.utime(path, ns=(0, 0))
    run(path, rewrite=True)
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == 0


def test_rewriting_changes_nothing_but_the_output(path: Path) -> None:
    wrong = FILE.replace("\ntwo words\nB\nC\n", "\nB\n").replace(
        "again\n----\n", "again\n----\nx\n"
    )
    assert wrong != FILE
    path.write_text(wrong)
    run(path, rewrite=True)
    assert path.read_text() == FILE
    run(path)


def test_rewriting_fills_in_a_new_file(path: Path) -> None:
    path.write_text("shout a\n----\n\nshout b\n----")
    run(path, rewrite=True)
    assert path.read_text() == "shout a\n----\nA\n\nshout b\n----\nB"


@pytest.mark.parametrize(
    ("text", "number", "reason"),
    [
        ("show\n", 2, "a block ends before its `----`"),
        ("show\n\nshow\n----\n", 2, "a block ends before its `----`"),
        ("# a\n----\n", 2, "no command above `----`"),
        ("    a\n----\n", 1, "an indented line without a command"),
        ("say\n  a\n----\n", 2, "indented by four spaces"),
        ("show\n----\n\nfor n in 1 2\n", 4, "a `for` stands before the first block"),
        ("show\nnothing\n----\n", 2, "unknown command 'nothing'"),
        ("_hidden\n----\n", 1, "unknown command '_hidden'"),
        ("text\n----\n", 1, "unknown command 'text'"),
        ("open\n----\n", 1, "open: missing a required argument: 'text'"),
        ("open a 1 2\n----\n", 1, "open: too many positional arguments"),
        ("open a n=1\n----\n", 1, "open: takes no argument 'n'"),
        ("say lines=a\n----\n", 1, "say: takes no argument 'lines'"),
        ("open a size=b\n----\n", 1, "open: invalid literal for int"),
        ("show\n    a\n----\n", 1, "show: takes no indented lines"),
        ("twice\n    show\n    show a\n----\n", 3, "show: too many positional"),
        ("open 'a\n----\n", 1, "open: No closing quotation"),
        ("repeat\n----\n", 1, "repeat: missing a required argument: 'count'"),
        ("open $n\n----\n", 1, r"no `for` gives \$n a value"),
        ("say\n    a\n    \n----\n", 1, "say printed an empty line"),
    ],
)
@pytest.mark.parametrize("rewrite", [False, True])
def test_what_is_wrong_is_told_with_file_and_line(
    path: Path, text: str, number: int, reason: str, rewrite: bool
) -> None:
    path.write_text(text)
    with pytest.raises(DataFileError, match=f"^{path}:{number}: .*{reason}"):
        run(path, rewrite=rewrite)
    assert path.read_text() == text


def test_a_command_carries_out_those_below_it(path: Path) -> None:
    text = "for n in 7\n\ntwice\n    # Two lines.\n    say\n        $n\n    shout b\n----\n"
    path.write_text(f"{text}7\nB\n7\nB\n")
    run(path)


def test_an_error_of_a_command_names_its_place(path: Path) -> None:
    path.write_text("for n in 1\n\nshow\nfail\n----\n")
    with pytest.raises(RuntimeError, match="a property is violated") as caught:
        run(path)
    assert caught.value.__notes__ == [f"{path}:4: fail, n=1"]
    path.write_text("twice\n# A comment.\n    twice\n        fail\n----\n")
    with pytest.raises(RuntimeError) as caught:
        run(path)
    assert caught.value.__notes__ == [f"{path}:{n}" for n in ("4: fail", "3: twice", "1: twice")]


SUITE = """
from pathlib import Path
from tests.harness.datadriven import check
class Words:
    def show(self) -> str:
        return "a"
def test_words(rewrite: bool) -> None:
    check(Path(__file__).with_name("words.txt"), Words, rewrite=rewrite)
"""


@pytest.mark.parametrize(
    ("ci", "code", "after"),
    [("", pytest.ExitCode.OK, "a"), ("true", pytest.ExitCode.USAGE_ERROR, "b")],
)
def test_the_option_rewrites_but_not_with_ci(path: Path, ci: str, code: int, after: str) -> None:
    path.write_text("show\n----\nb\n")
    (path.parent / "conftest.py").write_text("from tests.conftest import *\n")
    test = path.with_name("test_words.py")
    test.write_text(SUITE)
    project = ("-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *project, "--rewrite", str(test)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert path.read_text() == f"show\n----\n{after}\n"
