"""The site has every page and every public name, and a docstring says what each public name is.

That its links lead somewhere is checked by `mkdocs build --strict`, a part of `make check`.
"""

import builtins
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_origin

from raykeeper.client.ray_tools.tool import ToolFlow
from raykeeper.client.recipes.recipe import operation

ROOT = Path(__file__).parents[2]
PUBLIC = (
    "raykeeper.client",
    "raykeeper.client.errors",
    "raykeeper.client.ray_tools",
    "raykeeper.clusters",
    "raykeeper.clusters.doctor",
)
IDENTIFIER = re.compile(r"^::: ([\w.]+)$", re.M)
SECTION = re.compile(r"^(Args|Raises|Returns|Yields):\n((?:(?: {4}.*)?\n?)*)", re.M)
ENTRY = re.compile(r"^ {4}\*{0,2}(\w+):", re.M)
RAISED = re.compile(r"^\s*raise ([A-Z]\w+)", re.M)


def public_names() -> dict[str, Any]:
    """What users may import, by its full name."""
    return {
        f"{module}.{name}": getattr(importlib.import_module(module), name)
        for module in PUBLIC
        for name in importlib.import_module(module).__all__
    }


def members(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    """The public attributes of a class that our own code defines, by their full names."""
    for each in kind.__mro__:
        if each.__module__.startswith("raykeeper."):
            for attribute, value in vars(each).items():
                if not attribute.startswith("_"):
                    yield f"{name}.{attribute}", value


def written(value: Any) -> Callable[..., Any] | None:
    """The function as it is written: below a recipe method, property or class method."""
    if isinstance(value, operation):
        value = value._function
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    return inspect.unwrap(value) if inspect.isfunction(value) else None


def functions() -> dict[str, Callable[..., Any]]:
    """All public functions, methods and properties."""
    found: dict[str, Callable[..., Any]] = {}
    for name, value in public_names().items():
        pairs = members(name, value) if inspect.isclass(value) else [(name, value)]
        for path, each in pairs:
            function = written(each)
            if function is not None:
                found.setdefault(path, function)
    return found


def sections(docstring: str) -> dict[str, list[str]]:
    """The names that the sections `Args:` and `Raises:` of a docstring begin entries with."""
    return {title: ENTRY.findall(text) for title, text in SECTION.findall(docstring)}


SAME_EVERYWHERE = {
    *("path", "paths", "value", "version", "timeout_s", "identifier", "data", "acl", "acls"),
    *("name", "size", "self", "cls"),
}
"""Parameters that docs/reference/client.md explains for all functions."""


def unexplained(docstring: str, parameters: Iterable[str]) -> list[str]:
    """The parameters that a docstring does not mention, unless it refers to another function."""
    if re.match(r"`\w+`", docstring) or re.search(r"(?i)\b(as|see) `[\w.]+`", docstring):
        return []  # "`get` without waiting", "See `connect`"
    return [
        each
        for each in parameters
        if each not in SAME_EVERYWHERE
        and not each.startswith("_")
        and not re.search(rf"\b{each}\b", docstring)
    ]


def faults(name: str, function: Callable[..., Any]) -> list[str]:
    """What the docstring of a function leaves out, or says of what is not there."""
    docstring = inspect.getdoc(function) if function.__doc__ else None
    if not docstring:
        return [f"{name}: no docstring"]
    parts = sections(docstring)
    signature = inspect.signature(function)
    # Callers of a tool's operation do not see its client.
    unseen = {"client"} if get_origin(signature.return_annotation) is ToolFlow else set()
    parameters = [each for each in signature.parameters if each not in unseen]
    found = [
        f"{name}: no parameter {each}" for each in parts.get("Args", []) if each not in parameters
    ]
    found += [f"{name}: {each} is not explained" for each in unexplained(docstring, parameters)]
    documented = parts.get("Raises", [])
    for each in sorted(set(RAISED.findall(inspect.getsource(function)))):
        kind = function.__globals__.get(each)
        bases = (
            [base.__name__ for base in inspect.getmro(kind)] if inspect.isclass(kind) else [each]
        )
        if not set(bases) & set(documented):
            found.append(f"{name}: raises {each}")
    page = (ROOT / "docs/ERRORS.md").read_text()
    errors = set(re.findall(r"^\| `(\w+)`", page, re.M)) | vars(builtins).keys()
    found += [f"{name}: no error {each}" for each in documented if each not in errors]
    return found


def identifiers() -> list[str]:
    """Return the full names that the pages of the reference show."""
    pages = (ROOT / "docs/reference").glob("*.md")
    return [name for page in pages for name in IDENTIFIER.findall(page.read_text())]


def test_every_public_name_is_in_the_reference() -> None:
    shown = [
        getattr(importlib.import_module(module), name)
        for module, _, name in (path.rpartition(".") for path in identifiers())
    ]
    missing = [name for name, value in public_names().items() if not any(s is value for s in shown)]
    assert missing == []


def test_the_reference_shows_no_module_for_its_function() -> None:
    # Of a function that is named as its module the site would show the module.
    files = {
        name: ROOT / f"{name.removeprefix('raykeeper.').replace('.', '/')}.py"
        for name in identifiers()
    }
    assert [name for name, file in files.items() if file.exists()] == []


def test_every_public_class_has_a_docstring() -> None:
    classes = {name: value for name, value in public_names().items() if inspect.isclass(value)}
    assert [name for name, value in classes.items() if not vars(value).get("__doc__")] == []


def test_docstrings_of_public_functions_say_what_they_take_and_raise() -> None:
    assert [
        fault for name, function in functions().items() for fault in faults(name, function)
    ] == []


def test_the_reference_shows_results_instead_of_flows() -> None:
    source = (ROOT / "docs/site/unwrapped_flows.py").read_text()
    unwrapped = set(re.findall(r'"(\w+)"', source.partition("FLOWS = ")[2].partition("\n")[0]))
    methods = [
        value._function
        for name, kind in public_names().items()
        if inspect.isclass(kind)
        for _, value in members(name, kind)
        if isinstance(value, operation)
    ]
    returned = {re.findall(r"-> (\w+)", inspect.getsource(each))[0] for each in methods}
    assert returned <= unwrapped


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    pages = [p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in navigation] == []


def test_the_checks_can_fail() -> None:
    def no_docstring() -> None: ...

    def silent(path: str, given: int) -> None:
        """Do it."""

    def silent_async(given: int) -> None:
        """`silent` without waiting."""

    def wrong(given: int) -> None:
        """Do it.

        Args:
            other: not there.

        Raises:
            NoSuchError: never.
        """
        if given:
            raise ValueError(given)

    assert faults("f", no_docstring) == ["f: no docstring"]
    assert faults("f", silent) == ["f: given is not explained"]
    assert faults("f", silent_async) == []
    assert faults("f", wrong) == [
        "f: no parameter other",
        "f: given is not explained",
        "f: raises ValueError",
        "f: no error NoSuchError",
    ]
