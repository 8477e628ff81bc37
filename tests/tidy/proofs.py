"""The index from each module to the tests that prove it: python -m tests.tidy.proofs.

It writes docs/PROOFS.md, whose head says what is listed; with `--check`, as in `make check`, it
fails if that page is old. tests/unit mirrors the rooms file for file, also with the text files of
its data folders; tests/recipes and tests/simulation/recipes have a file for each recipe.
"""

import ast
import sys
from collections import defaultdict
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/PROOFS.md"
LAYERS = (*("contract", "differential", "fuzz", "model", "paper", "ray", "recipes", "simulation"),)
MUTATIONS = "tests/simulation/mutations"
METHODS = "client/recipe_methods.py"
LISTED_MAX = 8

HEAD = """\
# Which tests prove which module

Written by `python -m tests.tidy.proofs`; `make check` fails while this page is old.
[TESTING.md](TESTING.md) says what each folder of tests shows.

*Own tests* carry the name of the module. *Also used by* are other tests that import something from
the module, or make the recipe by the method of a client; of more than eight there is the number.
*Mutations* break the module deliberately. Beside these, tests/simulation runs the whole server and
the whole core of the client with every seed, and tests/paper runs whole servers.

Paths begin at `tests/`, those of mutations at `tests/simulation/mutations/`.
"""


def rooms() -> list[str]:
    """The folders of the product."""
    folders = {file.parent.name for file in ROOT.glob("*/__init__.py")}
    return sorted(folders - {"raykeeper", "examples", "docs", "tests"})


def product_modules() -> list[str]:
    """The paths of all modules that define something."""
    files = chain.from_iterable((ROOT / room).rglob("*.py") for room in rooms())
    return sorted(file.relative_to(ROOT).as_posix() for file in files if file.name != "__init__.py")


def test_files() -> list[str]:
    """The paths of the tests, and of the scenarios of the simulator, below tests/."""
    found = chain.from_iterable(
        (ROOT / "tests" / layer).rglob("*.py") for layer in ("unit", *LAYERS)
    )
    texts = (ROOT / "tests/unit").rglob("data/*.txt")
    paths = (file.relative_to(ROOT / "tests").as_posix() for file in chain(found, texts))
    return sorted(
        path
        for path in paths
        if "/test_" in path
        or path.endswith(".txt")
        or (path.startswith("simulation/recipes/") and "__" not in path)
    )


def own_module(test: str, modules: set[str]) -> str | None:
    """The module whose name a test carries: the longest that its name begins with."""
    folder, _, name = test.rpartition("/")
    words = name.partition(".")[0].removeprefix("test_").split("_")
    if folder.startswith("unit/"):
        places = [folder.removeprefix("unit/").removesuffix("/data")]
    elif folder in ("recipes", "simulation/recipes"):
        places = ["client/recipes", "client/ray_tools", "client"]
    else:
        return None
    for count in range(len(words), 0, -1):
        for place in places:
            module = f"{place}/{'_'.join(words[:count])}.py"
            if module in modules:
                return module
    return None


def recipe_methods(source: str) -> dict[str, str]:
    """The module of the recipe that each method of a client makes."""
    tree = ast.parse(source)
    module_of = {
        alias.asname or alias.name: _path_of(node.module or "")
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and isinstance(each.value, ast.Call):
                    name = ast.unparse(each.value.func)
                    if name in module_of:
                        found[node.name] = module_of[name]
    return found


def used_modules(source: str, methods: dict[str, str]) -> set[str]:
    """The modules that a test imports from, and those of the recipes that it makes."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raykeeper."):
            found.add(_path_of(node.module or ""))
            found |= {_path_of(f"{node.module}.{alias.name}") for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # `match.group(1)` makes no group.
            is_number = any(isinstance(a, ast.Constant) and a.value == 1 for a in node.args)
            if node.func.attr in methods and node.args and not is_number:
                found.add(methods[node.func.attr])
    return found


def mutated_modules(source: str, modules: set[str]) -> set[str]:
    """The modules that a file of mutations breaks: owners of (owner, attribute, replacement)."""
    tree = ast.parse(source)
    module_of = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                path = _path_of(f"{node.module}.{alias.name}")
                path = path if path in modules else _path_of(node.module or "")
                module_of[alias.asname or alias.name] = path
    owners = {
        node.elts[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple)
        and len(node.elts) == 3
        and isinstance(node.elts[0], ast.Name)
    }
    return {module_of[owner] for owner in owners if module_of.get(owner) in modules}


def page() -> str:
    """The text of docs/PROOFS.md."""
    modules = product_modules()
    methods = recipe_methods((ROOT / METHODS).read_text())
    own: dict[str, list[str]] = defaultdict(list)
    also: dict[str, list[str]] = defaultdict(list)
    for test in test_files():
        mine = own_module(test, set(modules))
        if mine is not None:
            own[mine].append(test)
        if not test.startswith("unit/"):
            for module in used_modules((ROOT / "tests" / test).read_text(), methods):
                if module != mine:
                    also[module].append(test)
    mutations: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / MUTATIONS).glob("*.py")):
        for module in mutated_modules(file.read_text(), set(modules)):
            mutations[module].append(file.name)
    parts = [HEAD]
    for folder in sorted({module.rpartition("/")[0] for module in modules}):
        parts.append(f"## {folder}/\n\n| module | own tests | also used by | mutations |")
        parts.append("|---|---|---|---|")
        for module in modules:
            if module.rpartition("/")[0] == folder:
                cells = (
                    ", ".join(own[module]),
                    _listed(also[module]),
                    ", ".join(mutations[module]),
                )
                parts.append(f"| {module.rpartition('/')[2]} | {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


def _listed(tests: list[str]) -> str:
    return ", ".join(tests) if len(tests) <= LISTED_MAX else f"{len(tests)} files"


def _path_of(module: str) -> str:
    return module.removeprefix("raykeeper.").replace(".", "/") + ".py"


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit("docs/PROOFS.md is old: run `python -m tests.tidy.proofs`")
