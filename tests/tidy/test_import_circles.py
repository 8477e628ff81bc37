"""No circle of imports between the modules of the product.

Every import counts, also one inside a function, which hides a circle from the interpreter but not
from a reader, and one under `TYPE_CHECKING`: two modules that need each other's types cannot be
understood one after the other either. The implicit import of a package's `__init__` does not count,
since every module of the package has it.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.tidy.test_tidy import ROOT, SOURCES


def module_of(file: Path) -> str:
    """Return the dotted name of a module of the product."""
    path = file.relative_to(ROOT).with_suffix("")
    parts = path.parts[:-1] if path.name == "__init__" else path.parts
    return ".".join(("raykeeper", *parts))


def imported(source: str) -> Iterator[str]:
    """Yield every name that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph_of(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return for each module those of these modules that it imports."""
    graph: dict[str, list[str]] = {}
    for module, source in sources.items():
        found: set[str] = set()
        for name in imported(source):
            parent = name.rpartition(".")[0]
            found |= {name} if name in sources else {parent} & sources.keys()
        graph[module] = sorted(found - {module})
    return graph


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other (Tarjan's algorithm)."""
    found: list[list[str]] = []
    stack: list[str] = []
    lowest: dict[str, int] = {}

    def visit(module: str) -> int:
        lowest[module] = index = len(lowest)
        stack.append(module)
        for other in graph[module]:
            if other not in lowest:
                lowest[module] = min(lowest[module], visit(other))
            elif other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == index:
            first = stack.index(module)
            group = stack[first:]
            del stack[first:]
            if len(group) > 1:
                found.append(sorted(group))
        return lowest[module]

    for module in graph:
        if module not in lowest:
            visit(module)
    return found


def test_no_modules_import_each_other() -> None:
    sources = {module_of(file): file.read_text() for file in SOURCES}
    assert circles(graph_of(sources)) == []


def test_a_circle_is_found() -> None:
    sources = {
        "raykeeper.a": "from raykeeper.b import f\nfrom raykeeper import d",
        "raykeeper.b": "def f():\n    import raykeeper.c",
        "raykeeper.c": "if TYPE_CHECKING:\n    from raykeeper.a import g",
        "raykeeper.d": "from raykeeper.e import h\nimport os",
        "raykeeper.e": "",
    }
    assert circles(graph_of(sources)) == [["raykeeper.a", "raykeeper.b", "raykeeper.c"]]
