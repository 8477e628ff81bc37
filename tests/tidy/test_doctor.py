"""docs/OPERATIONS.md lists every finding of the doctor, with the words that the command prints.

`python -m tests.tidy.test_doctor` prints the rows, for the page.
"""

import re
import sys
from pathlib import Path

from raykeeper.clusters.doctor.rules.findings import Rule
from raykeeper.clusters.doctor.rules.table import RULES

PAGE = Path(__file__).parents[2] / "docs/OPERATIONS.md"


def row_of(rule: Rule) -> str:
    advice = rule.advice.replace("{name}", "NAME")
    return f"| `{rule.name}` | {rule.severity.value} | {rule.meaning} | {advice} |"


def rows_in(page: str) -> list[str]:
    _, _, section = page.partition("\n## What is wrong\n")
    return re.findall(r"^\| `[a-z_]+\.[a-z_]+` .*\|$", section.partition("\n## ")[0], re.M)


def test_the_page_has_every_finding_in_the_order_in_which_they_are_shown() -> None:
    assert rows_in(PAGE.read_text()) == [row_of(rule) for rule in RULES]


def test_a_row_that_is_missing_or_other_is_seen() -> None:
    rows = [row_of(rule) for rule in RULES]
    page = "\n## What is wrong\n" + "\n".join(rows) + "\n## Next\n"
    assert rows_in(page) == rows
    assert rows_in(page.replace(rows[3] + "\n", "")) != rows
    assert rows_in(page.replace("| error |", "| warning |", 1)) != rows


if __name__ == "__main__":
    sys.stdout.write("".join(f"{row_of(rule)}\n" for rule in RULES))
