"""What a user of the recipes holds shows what docs/RECIPES.md names, and nothing that is inside."""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from pathlib import Path
from typing import Any

from raykeeper.client import ray_tools, recipes
from raykeeper.client.ray_tools.tool import Tool
from raykeeper.client.recipes.recipe import Recipe

PAGE = Path(__file__).parents[2] / "docs/RECIPES.md"
ROW = re.compile(r"^\| (`[^|]+`) \| (`[^|]+`) \|$", re.M)
NAME = re.compile(r"`([\w.]+)`")
INSIDE = {"ray_tools.Bucket"}
"""Recipes that nobody is given."""


def documented(page: str) -> dict[str, set[str]]:
    """The names of each class, as the section "Names" has them."""
    _, _, section = page.partition("\n## Names\n")
    found: dict[str, set[str]] = {}
    for row in ROW.finditer(section.partition("\n## ")[0]):
        for kind in NAME.findall(row[1]):
            assert kind not in found, f"{kind} stands there twice"
            found[kind] = set(NAME.findall(row[2]))
    return found


def names_of(kind: type) -> set[str]:
    """The public names of an object of a class: methods, properties, what `self` is given."""
    found: set[str] = set()
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] == kind.__module__.partition(".")[0]:
            found |= vars(each).keys() | vars(each).get("__annotations__", {}).keys()
            for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(each)))):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                    found |= {node.attr} if isinstance(node.ctx, ast.Store) else set()
    return {name for name in found if not name.startswith("_")}


def classes() -> dict[str, type]:
    """All that are defined in the modules of recipes and guards, and in `ray_tools`."""
    modules = {"raykeeper.client.fencing": ""}
    for package, prefix in ((recipes, ""), (ray_tools, "ray_tools.")):
        for each in pkgutil.iter_modules(package.__path__):
            modules[f"{package.__name__}.{each.name}"] = prefix
    return {
        prefix + name: kind
        for module, prefix in modules.items()
        for name, kind in vars(importlib.import_module(module)).items()
        if inspect.isclass(kind) and kind.__module__ == module and not name.startswith("_")
    }


def is_held(kind: type) -> bool:
    """Whether a user gets one: a recipe or tool of which no other one is a special case."""
    return issubclass(kind, Recipe | Tool) and not kind.__subclasses__()


def test_held_objects_show_the_names_of_the_page() -> None:
    page = documented(PAGE.read_text())
    known = classes()
    assert sorted(page.keys() - known.keys()) == []
    held = {name for name, kind in known.items() if is_held(kind)}
    assert sorted(held - page.keys() - INSIDE) == [], "they are not in the section Names"
    shown: dict[str, set[str]] = {name: names_of(known[name]) for name in page}
    assert shown == page


def test_the_check_can_fail() -> None:
    class Base:
        def close(self) -> None:
            self.event: Any = None

    class Held(Base):
        path: str

        @property
        def token(self) -> int:
            self._guard = 1
            return self._guard

    assert names_of(Held) == {"close", "event", "path", "token"}
    rows = "| class | names |\n|---|---|\n| `A`, `x.B` | `c`, `d` |"
    assert documented(f"\n## Names\n{rows}\n\n## E\n| `F` | `g` |\n") == {
        "A": {"c", "d"},
        "x.B": {"c", "d"},
    }
