"""Every known protocol bug has a row in `docs/PROTOCOL_BUGS.md`: with a test, or why there is none.

That the tests which a row names exist is checked for all documents in `test_docs.py`.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/PROTOCOL_BUGS.md"
ISSUES = {
    # Transactions that were lost, or came back.
    *(2845, 3911, 4646, 4643, 4785, 4823, 3642, 5094, 2872, 3104, 4925, 4712, 4541, 1154, 1549),
    *(4837, 3701, 4352, 3526, 2325, 3056, 261, 3231, 1653, 2354, 2307, 4269),
    # Elections, and work that stood still.
    *(
        4685,
        4394,
        3023,
        1732,
        1818,
        3109,
        1277,
        2959,
        1699,
        2819,
        2172,
        3829,
        2247,
        3496,
        2201,
        3531,
        4537,
        1863,
    ),
    # Sessions, ephemerals, snapshots, watches.
    *(2355, 3144, 3145, 3125, 3249, 3127, 3306, 4689, 4846, 3471, 1624, 706, 1667),
    *(4466, 4475, 4471, 4472, 1675),
}
NOT_YET = "Does not apply yet"
ROW = re.compile(r"^\| (\d[^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
TEST = re.compile(r"`tests/[\w/]+(?:\.py::|/(?=\w+\.txt))(\w+)(?:\.txt)?`")
"""A test in Python, or a scenario that is a text."""
TEXTS = sorted((ROOT / "tests/paper").glob("*/*.txt"))


def rows(text: str) -> dict[int, tuple[str, list[str]]]:
    """What we do, and the tests named, by issue."""
    return {
        int(number): (here, TEST.findall(tests))
        for issues, _, here, tests in ROW.findall(text)
        for number in re.findall(r"\d+", issues)
    }


def unproven(found: dict[int, tuple[str, list[str]]]) -> list[int]:
    """Issues without a test that bears their number, although they apply."""
    return [
        number
        for number, (here, tests) in found.items()
        if not any(f"_{number}_" in f"{test}_" for test in tests) and NOT_YET not in here
    ]


def test_every_known_bug_has_a_row_with_a_test_of_its_name() -> None:
    found = rows(PAGE.read_text())
    assert found.keys() == ISSUES
    assert unproven(found) == []


def test_every_numbered_scenario_is_in_the_page() -> None:
    named = {
        test
        for path in (ROOT / "tests/paper").glob("test_*.py")
        for test in re.findall(r"def (test_(?:zookeeper|tla)_\w+)\(", path.read_text())
    }
    named |= {path.stem for path in TEXTS if path.stem.startswith(("zookeeper_", "tla_"))}
    assert len(named) > 50
    assert named - set(TEST.findall(PAGE.read_text())) == set()


def test_every_scenario_lists_its_steps() -> None:
    silent = [
        name
        for path in (ROOT / "tests/paper").glob("test_*.py")
        for name, text in scenarios(path.read_text()).items()
        if "\n1. " not in text
    ] + [path.stem for path in TEXTS if "\n# 1. " not in path.read_text()]
    assert silent == []


def scenarios(source: str) -> dict[str, str]:
    """The docstrings of the tests named after an issue."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_zookeeper_")
    }


def test_the_checks_can_fail() -> None:
    text = "| 12, 13 | a | b | `tests/paper/test_a.py::test_zookeeper_12_c` |\n"
    text += "| 14 (open) | a | Does not apply yet: d | |\n"
    text += "| 15, 16 | a | b | `tests/paper/scenarios/zookeeper_15_d.txt` |\n"
    found = rows(text)
    assert found.keys() == {12, 13, 14, 15, 16}
    assert unproven(found) == [13, 16]
    source = "def test_zookeeper_1_a() -> None:\n    'One.'\ndef test_b() -> None: ..."
    assert scenarios(source) == {"test_zookeeper_1_a": "One."}
