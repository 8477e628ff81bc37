"""`docs/COMPATIBILITY.md` leaves nothing of ZooKeeper out, and shows what it says by tests."""

import re
from pathlib import Path

from tests.tidy.test_docs import TEST_NAME, missing_tests

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/COMPATIBILITY.md"
VERDICTS = ("same", "better", "not offered")
ROWS = {
    "Data model": 12,
    "Kinds of znodes": 10,
    "Operations": 29,
    "Error codes": 17,
    "Transactions and reads of several znodes": 6,
    "Consistency, sync and order": 7,
    "Watches": 22,
    "Authentication and access control": 18,
    "Quotas": 12,
    "Sessions": 14,
    "Read-only mode and observers": 9,
    "Reconfiguration and quorums": 8,
    "Flow control": 8,
    "Client": 11,
    "ZooKeeper's own clients": 26,
}
"""How many there are at least, so that none is lost. A feature may take several."""
ROW = re.compile(r"^\|([^|]+)\|([^|]+)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)


def rows(text: str) -> dict[str, list[tuple[str, ...]]]:
    """By section: what ZooKeeper does, the verdict, how or why not, tests."""
    found = {}
    for part in text.split("\n## ")[1:]:
        title, _, body = part.partition("\n")
        # The first two are the heads of the table and the line below it.
        found[title] = [tuple(cell.strip() for cell in row) for row in ROW.findall(body)[2:]]
    return found


def faults(text: str, root: Path) -> list[str]:
    """Rows whose verdict nobody knows, nothing shows or nobody gives a reason for."""
    found = []
    for section, table in rows(text).items():
        for feature, verdict, how, tests in table:
            if verdict not in VERDICTS:
                found.append(f"{section}: {feature}: {verdict!r} is no verdict")
            if verdict in ("same", "better") and not TEST_NAME.search(tests):
                found.append(f"{section}: {feature}: no test")
            if verdict != "same" and not how:
                found.append(f"{section}: {feature}: it is {verdict}, and how or why is not said")
            found += [f"{section}: {test} is missing" for test in missing_tests(tests, root)]
    return found


def test_every_feature_of_zookeeper_has_a_row() -> None:
    found = {section: len(table) for section, table in rows(PAGE.read_text()).items()}
    assert list(found) == list(ROWS)
    assert {section: n for section, n in found.items() if n < ROWS[section]} == {}


def test_every_row_names_a_test_or_says_why_not() -> None:
    assert faults(PAGE.read_text(), ROOT) == []


def test_the_checks_can_fail(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_b() -> None: ...")
    lines = [
        "# Page\n\n## One\n\n| a | b | c | d |\n|---|---|---|---|",
        "| fine | same |  | `tests/test_a.py::test_b` |",
        "| no test | better | how |  |",
        "| no reason | not offered |  |  |",
        "| unknown | perhaps | how |  |",
        "| gone | same |  | `tests/test_a.py::test_c` |",
    ]
    text = "\n".join(lines)
    assert [row[0] for row in rows(text)["One"]] == [
        *("fine", "no test", "no reason", "unknown", "gone")
    ]
    assert faults(text, tmp_path) == [
        "One: no test: no test",
        "One: no reason: it is not offered, and how or why is not said",
        "One: unknown: 'perhaps' is no verdict",
        "One: tests/test_a.py::test_c is missing",
    ]
