"""The list of what no test without Ray executes: it names functions that are there."""

from pathlib import Path

from tests.tidy.shell_coverage import differences, functions_at, listed, shells

HERE = "tests/tidy/test_shell_coverage.py"


class Sample:
    """Somebody's code."""

    def outer(self) -> int:
        def inner() -> int:
            return 1

        return inner()


def line_of(text: str) -> int:
    lines = Path(HERE).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.strip() == text)


def test_each_name_in_the_list_is_a_function() -> None:
    never, by_chance = listed()
    assert not never & by_chance
    files = set(shells())
    for path, name in never | by_chance:
        assert path in files, path
        lines = range(1, len(Path(path).read_text().splitlines()) + 1)
        assert name == "*" or name in functions_at(path, list(lines)), (path, name)


def test_a_line_belongs_to_the_innermost_function() -> None:
    assert functions_at(HERE, [line_of("return 1")]) == {"Sample.outer.inner"}
    assert functions_at(HERE, [line_of("return inner()")]) == {"Sample.outer"}
    assert functions_at(HERE, [line_of("from pathlib import Path")]) == {""}


def test_new_and_executed_functions_are_reported() -> None:
    found = {("a.py", "f"), ("a.py", "g.h"), ("b.py", "")}
    assert list(differences(found, {("a.py", "*")}, {("b.py", "")})) == []
    assert list(differences(found, {("a.py", "f"), ("a.py", "g.*")}, {("b.py", "*")})) == []
    told = list(differences(found, {("a.py", "f"), ("c.py", "k")}, {("d.py", "by chance")}))
    assert [line.split(": ")[:2] for line in told] == [
        ["a.py", "g.h"],
        ["b.py", "the module"],
        ["c.py", "k"],
    ]
