"""The rules of the architecture, and for each a snippet that breaks it."""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
ROOMS = (
    *("actors", "bench", "chaos", "client", "clusters", "commands", "jute", "links", "server"),
    *("zab", "znodes"),
)
LINES_MAX, FUNCTION_LINES_MAX = 500, 60
WHY_LONG = "The file is long because"
"""How the docstring of a file with more lines begins to say what keeps it whole."""
VAGUE = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}

# Which modules each room may import, the whole library's root of errors apart. The first pattern
# that fits a file counts, so a pure file stands before its room.
CORE = [
    *("raykeeper.zab.ids", "raykeeper.zab.errors", "raykeeper.zab.feature_levels"),
    *("raykeeper.zab.member_list", "msgspec"),
]
PURE_STDLIB = [
    *(
        "__future__",
        "abc",
        "base64",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
    ),
    *(
        "heapq",
        "ipaddress",
        "itertools",
        "math",
        "operator",
        "random",
        "re",
        "string",
        "struct",
        "types",
    ),
    *("typing", "weakref", "zlib"),
]
PURE = {
    "zab/*": [*CORE, "raykeeper.zab"],
    "znodes/*": [*CORE, "raykeeper.znodes"],
    "jute/*": [
        *(*CORE, "raykeeper.jute", "raykeeper.znodes.acl", "raykeeper.znodes.stat"),
    ],
    "server/*": [
        *(*CORE, "raykeeper.zab", "raykeeper.znodes", "raykeeper.jute", "raykeeper.server"),
    ],
    "client/core/*": [
        *(*CORE, "raykeeper.znodes", "raykeeper.links.limits", "raykeeper.client.core"),
        "raykeeper.client.errors",
    ],
    "clusters/healing/*": [*CORE, "raykeeper.clusters.healing"],
    "clusters/member_steps/*": [*CORE, "raykeeper.clusters.member_steps"],
    "clusters/doctor/rules/*": [*CORE, "raykeeper.clusters.doctor.rules"],
    "chaos/checks/*": [*CORE, "raykeeper.znodes", "raykeeper.chaos.checks"],
}
SHELLS = {
    "links/ray_calls.py": [*CORE, "raykeeper.links", "ray"],
    "links/ray_internals.py": [*CORE, "raykeeper.links.daemon_threads", "ray"],
    "links/ray_metrics.py": [*CORE, "ray"],
    "links/*": [*CORE, "raykeeper.links"],
    "actors/running_versions.py": ["raykeeper", "ray"],
    "actors/admin_server.py": [*CORE, "raykeeper.links", "raykeeper.server", "aiohttp"],
    "actors/*": [
        *(f"raykeeper.{room}" for room in ("zab", "znodes", "server", "links", "actors")),
        *("msgspec", "psutil", "ray"),
    ],
    "client/*": [
        *(*CORE, "raykeeper.znodes", "raykeeper.links", "raykeeper.client"),
        *("ray", "uvloop"),
    ],
    "bench/*": [
        *("raykeeper", "msgspec", "psutil", "ray", "rich", "typer"),
        *("grpc", "kazoo", "matplotlib", "uvloop"),
    ],
    "chaos/*": ["raykeeper", "msgspec", "psutil", "ray", "rich", "yaml"],
    "clusters/backups/places.py": [*CORE, "raykeeper.actors.disk", "fsspec"],
    "clusters/*": ["raykeeper", "msgspec", "psutil", "ray", "rich", "yaml"],
    "commands/migration/zookeeper_*": ["raykeeper", "msgspec", "kazoo"],
    "commands/ui/*": ["raykeeper", "msgspec", "aiohttp", "rich"],
    "commands/*": ["raykeeper", "msgspec", "ray", "rich", "typer"],
}
RAY_PRIVATE = re.compile(r"ray(\.\w+)*\.(_(?!_)\w*|core\.generated)(\.\w+)*")
BANNED_CALLS = {"open", "print", "input", "id", "hash", "float", "eval", "exec", "globals"}


def rule_for(path: str) -> tuple[list[str], bool]:
    """The modules that a file may import, and whether it is pure."""
    for pattern, allowed in PURE.items():
        if fnmatch(path, pattern):
            return allowed + PURE_STDLIB, True
    allowed = next(allowed for pattern, allowed in SHELLS.items() if fnmatch(path, pattern))
    return allowed + sorted(sys.stdlib_module_names), False


def imports(path: str, tree: ast.Module) -> Iterator[str]:
    allowed, is_pure = rule_for(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"{path}:{node.lineno}: relative import"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module in {f"raykeeper.{room}" for room in ROOMS}:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            if is_pure and node.module == "random" and [a.name for a in node.names] != ["Random"]:
                yield f"{path}:{node.lineno}: only `Random` may be taken from random"
        for name in names:
            if not any(name == a or name.startswith((f"{a}.", f"{a}_")) for a in allowed):
                yield f"{path}:{node.lineno}: may not import {name}"
            if is_pure and isinstance(node, ast.Import) and name == "random":
                yield f"{path}:{node.lineno}: the global random; take a `Random`"
    for node in tree.body:
        if path.startswith("client/") and re.match(r"(import|from) ray\b", ast.unparse(node)):
            yield f"{path}:{node.lineno}: client/ imports ray lazily, inside a function"


def purity(path: str, tree: ast.Module) -> Iterator[str]:
    """What the pure rooms do not do, as far as syntax shows it."""
    if not rule_for(path)[1]:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in BANNED_CALLS:
                yield f"{path}:{node.lineno}: {node.func.id}() in a pure file"
        elif isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield f"{path}:{node.lineno}: the float {node.value}"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield f"{path}:{node.lineno}: / makes a float, // does not"
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield f"{path}:{node.lineno}: async in a pure file"
        elif isinstance(node, ast.For | ast.comprehension) and (
            isinstance(node.iter, ast.Set | ast.SetComp)
            or re.match(r"(frozen)?set\(", ast.unparse(node.iter))
        ):
            yield f"{path}:{node.iter.lineno}: iteration over a set; sort it"


def sizes(path: str, tree: ast.Module) -> Iterator[str]:
    lines = max((node.end_lineno or 0 for node in tree.body), default=0)
    if lines > LINES_MAX and WHY_LONG not in (ast.get_docstring(tree) or ""):
        yield f"{path}: {lines} lines, and its docstring does not say why"
    if Path(path).stem in VAGUE:
        yield f"{path}: a module is named by its idea"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines"


def prints(path: str, tree: ast.Module) -> Iterator[str]:
    if any(ast.unparse(node).startswith("if __name__ == ") for node in tree.body):
        return  # a script
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            yield f"{path}:{node.lineno}: print outside the command line"


def public_ray(path: str, tree: ast.Module) -> Iterator[str]:
    """Only one file uses what Ray keeps private, so that one file says what is done without it."""
    if path == "links/ray_internals.py":
        return
    lines: set[int] = set()
    for node in ast.walk(tree):
        used: list[str] = []
        if isinstance(node, ast.Import):
            used = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            used = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            used = [ast.unparse(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used = [node.value]  # the name of a module, for importlib
        lines |= {node.lineno for name in used if RAY_PRIVATE.fullmatch(name)}  # type: ignore[attr-defined]
    for line in sorted(lines):
        yield f"{path}:{line}: private to Ray; only links/ray_internals.py takes such"


def plain_texts(path: str, tree: ast.Module) -> Iterator[str]:
    """No text is read as Rich's markup: one console for all, and colors as a style."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Console":
            if path != "commands/output.py":
                yield f"{path}:{node.lineno}: a console of its own; take make_console"
        elif isinstance(node, ast.Constant) and MARKUP.search(str(node.value)):
            yield f"{path}:{node.lineno}: markup in a text; give a style"


def documented(path: str, tree: ast.Module) -> Iterator[str]:
    """Every module says what it is, except an empty `__init__`."""
    if tree.body and not ast.get_docstring(tree):
        yield f"{path}: no module docstring"


MARKUP = re.compile(r"\[(red|green|yellow)\]")
Rule = Callable[[str, ast.Module], Iterator[str]]
RULES: list[Rule] = [imports, purity, sizes, prints, public_ray, plain_texts, documented]
SOURCES = sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("rule", RULES)
def test_rooms_keep_their_rules(rule: Rule) -> None:
    found = []
    for file in SOURCES:
        path = file.relative_to(ROOT).as_posix()
        found += rule(path, ast.parse(file.read_text()))
    assert found == []


def test_other_files_keep_the_sizes() -> None:
    found = []
    for folder in ("tests", "examples"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            found += sizes(file.relative_to(ROOT).as_posix(), ast.parse(file.read_text()))
    assert found == []


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        (imports, "zab/a.py", "from . import b"),
        (imports, "zab/a.py", "import time"),
        (imports, "zab/a.py", "import random"),
        (imports, "zab/a.py", "from random import randint"),
        (imports, "zab/a.py", "from raykeeper.znodes.stat import Stat"),
        (imports, "zab/a.py", "def f():\n    import os"),
        (imports, "znodes/a.py", "from raykeeper.zab.messages import Ack"),
        (imports, "znodes/a.py", "import raykeeper.zabel"),
        (imports, "links/frames.py", "import ray"),
        (imports, "links/ray_calls.py", "from raykeeper.znodes.stat import Stat"),
        (imports, "server/server.py", "import logging"),
        (imports, "server/server.py", "from raykeeper.actors.disk.storage import Storage"),
        (imports, "actors/replica.py", "import raykeeper.clusters"),
        (imports, "client/core/client_core.py", "import threading"),
        (imports, "client/handle.py", "import ray"),
        (imports, "client/handle.py", "from ray.exceptions import RayActorError"),
        (imports, "client/handle.py", "import raykeeper.actors.replica"),
        (imports, "clusters/launch.py", "import numpy"),
        (purity, "zab/a.py", "x = id(y)"),
        (purity, "zab/a.py", "x = 1.5"),
        (purity, "znodes/a.py", "x = 1 / 2"),
        (purity, "znodes/a.py", "for x in set(y): pass"),
        (purity, "server/server.py", "x = [y for y in {1, 2}]"),
        (purity, "server/server.py", "async def f(): pass"),
        (sizes, "zab/a.py", "x = 1\n" * 501),
        (sizes, "zab/a.py", "def f():\n" + "    x = 1\n" * 60),
        (sizes, "links/utils.py", ""),
        (prints, "actors/replica.py", "print(1)"),
        (public_ray, "client/a.py", "def f():\n    import ray._private.worker"),
        (public_ray, "clusters/a.py", "from ray._common.utils import get_ray_address_file"),
        (public_ray, "actors/a.py", "from ray import _raylet"),
        (public_ray, "actors/a.py", "import ray\nx = ray._raylet.current_task_id"),
        (public_ray, "actors/a.py", "from ray.core.generated import gcs_pb2"),
        (public_ray, "actors/a.py", "x = import_module('ray._raylet')"),
        (plain_texts, "bench/command.py", "console = Console()"),
        (plain_texts, "clusters/launch.py", "x = f'[red]{y}[/red]'"),
        (documented, "zab/a.py", "x = 1"),
    ],
)
def test_a_rule_can_fail(rule: Rule, path: str, source: str) -> None:
    assert len(list(rule(path, ast.parse(source)))) == 1


def test_imported_packages_are_installed() -> None:
    """Bench, admin server, page, migration, URLs of backups: their users must ask for imports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [Requirement(each) for each in project["dependencies"]]
    imported = set()
    for source in (*SOURCES, *(ROOT / "examples").rglob("*.py")):
        if source.is_relative_to(ROOT / "bench"):
            continue
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    extras = project["optional-dependencies"]
    names = ("admin", "backup", "ui", "zookeeper")
    asked_for = {Requirement(e).name for name in names for e in extras[name]}
    assert asked_for == {"aiohttp", "fsspec", "kazoo"} <= imported
    ours = {"raykeeper", *sys.stdlib_module_names, *asked_for}
    assert imported - ours == {each.name.replace("pyyaml", "yaml") for each in required}
    (uvloop,) = (each for each in required if each.marker)
    for is_there, system, python in (
        *((True, "linux", "CPython"), (True, "darwin", "CPython")),
        *((False, "win32", "CPython"), (False, "linux", "PyPy")),
    ):
        where = {"sys_platform": system, "platform_python_implementation": python}
        assert uvloop.name == "uvloop" and uvloop.marker is not None
        assert uvloop.marker.evaluate(where) is is_there


def test_the_packages_are_the_folders() -> None:
    """One symlink for each folder makes it a package: in a checkout, a wheel, mypy and editors."""
    links = {
        p.name: p.readlink().as_posix() for p in (ROOT / "raykeeper").iterdir() if p.is_symlink()
    }
    folders = sorted([*ROOMS, "docs", "examples"])
    assert links == {name: f"../{name}" for name in (*folders, "ray-config.yaml")}
    for room in (*ROOMS, "examples"):
        packages = {p.parent for p in (ROOT / room).rglob("*.py")}
        assert [p for p in sorted(packages) if not (p / "__init__.py").exists()] == []
