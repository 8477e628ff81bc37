"""CSV files and ratios."""

from pathlib import Path

import pytest

from raykeeper.bench.results import Ratio, Row, machine_facts, ratios, write_csv

OURS: Row = {"system": "raykeeper", "client": "ray", "reads": 50, "rate": 900.0, "ms": 1.0}
JAVA: Row = {"system": "zookeeper", "client": "java", "reads": 50, "rate": 300.0, "ms": 4}
DIRECT: Row = {**OURS, "client": "direct", "rate": 1800.0}
KAZOO: Row = {"system": "zookeeper", "client": "kazoo", "reads": 50, "rate": 100.0}
OTHER: Row = {"system": "zookeeper", "client": "java", "reads": 90, "rate": 1.0}


def test_a_csv_file_has_the_columns_of_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, [{"a": 1, "b": 0.123456789}, {"a": 'x,"y"', "c": 2}])
    assert path.read_text() == 'a,b,c\n1,0.123457,\n"x,""y""",,2\n'


def test_an_experiment_without_rows_leaves_an_empty_file(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [])
    assert (tmp_path / "a.csv").read_text() == "\n"


@pytest.mark.parametrize(
    ("rows", "values", "expected"),
    [
        # Of those that agree in `by`, ours is compared with each; a column may be missing.
        (
            [OURS, JAVA, KAZOO, OTHER],
            ("rate", "ms"),
            [
                Ratio("50 reads", "rate", "raykeeper (ray)", "zookeeper (java)", 900.0, 300.0, 3.0),
                Ratio("50 reads", "ms", "raykeeper (ray)", "zookeeper (java)", 1.0, 4.0, 0.25),
                Ratio(
                    "50 reads", "rate", "raykeeper (ray)", "zookeeper (kazoo)", 900.0, 100.0, 9.0
                ),
            ],
        ),
        (
            [OURS, DIRECT, KAZOO],
            ("rate",),
            [
                Ratio(
                    "50 reads", "rate", "raykeeper (ray)", "zookeeper (kazoo)", 900.0, 100.0, 9.0
                ),
                Ratio(
                    "50 reads",
                    "rate",
                    "raykeeper (direct)",
                    "zookeeper (kazoo)",
                    1800.0,
                    100.0,
                    18.0,
                ),
            ],
        ),
        ([OURS, DIRECT], ("rate",), []),
        ([JAVA], ("rate",), []),
        ([OURS, {**JAVA, "rate": 0.0}], ("rate",), []),  # nothing to divide by
    ],
)
def test_ratios_are_formatted(
    rows: list[Row], values: tuple[str, ...], expected: list[Ratio]
) -> None:
    assert list(ratios(rows, ("reads",), values)) == expected


def test_the_facts_of_the_machine_leave_nothing_behind(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path)
    assert isinstance(facts["cores"], int) and facts["cores"] > 0
    assert isinstance(facts["fdatasync_ms"], float) and facts["fdatasync_ms"] >= 0
    assert list(tmp_path.iterdir()) == []
