"""The documents speak of what is there: every error, every test they name, every link."""

import ast
import re
from pathlib import Path

from raykeeper.commands.command_line import app
from raykeeper.commands.shell_usage import USAGE
from tests.tidy.test_tidy import ROOMS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TEST_NAME = re.compile(r"`(tests/[\w/]+\.(?:py|txt))(?:::(\w+))?`")
PROMISE = re.compile(r'(?<=")([A-Z][A-Za-z]+)(?=: )')
SOURCE = re.compile(rf"`((?:{'|'.join(ROOMS)})/[\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?")
SHELL_COMMAND = re.compile(r"raykeeper shell(?: --json)?(?: -n \w+)? ([a-z]+)")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[\w-]+)?\)")


def error_classes(sources: dict[str, str]) -> set[str]:
    """The names of all classes that come from `RayKeeperError`, with the root itself."""
    parents: dict[str, set[str]] = {}
    for source in sources.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                parents.setdefault(node.name, set()).update(
                    ast.unparse(base).rpartition(".")[2] for base in node.bases
                )
    found = {"RayKeeperError"}
    while more := {name for name, bases in parents.items() if bases & found} - found:
        found |= more
    return found


def missing_tests(text: str, root: Path) -> list[str]:
    """Tests that a page names and that do not exist."""
    missing = []
    for path, name in TEST_NAME.findall(text):
        file = root / path
        if not file.is_file() or (name and f"def {name}(" not in file.read_text()):
            missing.append(f"{path}::{name}")
    return missing


def missing_sources(text: str, root: Path) -> list[str]:
    """Source files that a page names and that do not exist, or lack a class named with them."""
    missing = []
    for path, classes in SOURCE.findall(text):
        file = root / path
        names = re.findall(r"\w+", classes)
        if not file.is_file():
            missing.append(path)
        elif lacking := [name for name in names if f"class {name}" not in file.read_text()]:
            missing.append(f"{path}: {lacking}")
    return missing


def broken_links(page: Path) -> list[str]:
    return [
        f"{page.name}: {target}"
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]


def test_every_error_is_documented() -> None:
    sources = {str(p): p.read_text() for room in ROOMS for p in (ROOT / room).rglob("*.py")}
    page = (ROOT / "docs/ERRORS.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    assert documented == error_classes(sources)


def promises(sources: list[str]) -> set[str]:
    """The names with which the words of assertions begin."""
    return {
        name
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert | ast.Raise)
        for name in PROMISE.findall(ast.unparse(node).replace("'", '"'))
    }


def test_every_promise_of_the_simulator_is_documented() -> None:
    files = [p for p in (ROOT / "tests/simulation").rglob("*.py") if "test_" not in p.name]
    text = (ROOT / "docs/TESTING.md").read_text()
    _, _, section = text.partition("### The promises by name")
    rows = re.findall(r"^\| (`.+?) \|", section.partition("\n#")[0], re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == promises([p.read_text() for p in files])


def test_every_test_named_in_a_page_exists() -> None:
    assert [test for page in PAGES for test in missing_tests(page.read_text(), ROOT)] == []


def test_every_source_named_in_a_page_exists() -> None:
    assert [file for page in PAGES for file in missing_sources(page.read_text(), ROOT)] == []


def test_every_link_leads_somewhere() -> None:
    assert [link for page in PAGES for link in broken_links(page)] == []


def test_every_command_is_documented() -> None:
    commands = [each.name for each in app.registered_commands]
    readme = (ROOT / "README.md").read_text()
    assert len(commands) > 1
    assert [c for c in commands if f"raykeeper {c}" not in readme] == []


def strays(tests: list[str], sources: set[str]) -> list[str]:
    """Unit tests of no module; `test_core_time.py` may test one side of `core.py`."""
    found = []
    for test in tests:
        folder, _, name = test.removeprefix("tests/unit/").rpartition("/")
        words = name.removeprefix("test_").removesuffix(".py").split("_")
        modules = {f"{folder}/{'_'.join(words[:n])}.py" for n in range(1, len(words) + 1)}
        if not modules & sources:
            found.append(test)
    return found


def test_every_command_of_the_shell_in_a_page_exists() -> None:
    named = {word: page.name for page in PAGES for word in SHELL_COMMAND.findall(page.read_text())}
    assert len(named) > 1
    assert {word: page for word, page in named.items() if word not in USAGE} == {}


def test_unit_tests_mirror_the_rooms() -> None:
    tests = [p.relative_to(ROOT).as_posix() for p in (ROOT / "tests/unit").rglob("test_*.py")]
    sources = {
        p.relative_to(ROOT).as_posix() for room in ROOMS for p in (ROOT / room).rglob("*.py")
    }
    assert strays(sorted(tests), sources) == []


def test_the_checks_can_fail(tmp_path: Path) -> None:
    source = "class RayKeeperError(Exception): ...\nclass A(RayKeeperError): ...\nclass B(A): ..."
    assert error_classes({"a.py": source}) == {"RayKeeperError", "A", "B"}
    checks = (
        "assert a, f'Aa: {b}'\nassert a, (f\"Bb: {b} Cc: \" 'd')\nraise E('Dd: g')\nh = 'Ee: j'"
    )
    assert promises([checks]) == {"Aa", "Bb", "Dd"}
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_b() -> None: ...")
    (tmp_path / "tests/e.txt").write_text("")
    text = "`tests/test_a.py::test_b` `tests/test_a.py::test_c` `tests/e.txt` `tests/f.txt`"
    assert missing_tests(text, tmp_path) == ["tests/test_a.py::test_c", "tests/f.txt::"]
    (tmp_path / "zab").mkdir()
    (tmp_path / "zab/a.py").write_text("class A: ...")
    text = "`zab/a.py`: `A`, `B` and `zab/b.py`"
    assert missing_sources(text, tmp_path) == ["zab/a.py: ['B']", "zab/b.py"]
    tests = ["tests/unit/zab/test_a_b.py", "tests/unit/zab/test_b.py"]
    assert strays(tests, {"zab/a.py", "znodes/b.py"}) == ["tests/unit/zab/test_b.py"]
    page = tmp_path / "page.md"
    page.write_text("[a](tests/test_a.py) [b](nowhere.md#part) [c](https://example.org)")
    assert broken_links(page) == ["page.md: nowhere.md"]
