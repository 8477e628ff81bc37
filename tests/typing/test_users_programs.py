"""Programs of users, as type checkers see them: against the wheel, outside of the repository.

The programs are in programs/. They say what each call gives (`assert_type`), and mistakes.py has on
each marked line what must be refused: a mark (`# type: ignore`) without an error is an error.
"""

import ast
import json
import shutil
import subprocess
import sys
import venv
import zipfile
from itertools import chain
from pathlib import Path

import pytest

from raykeeper.client.recipe_methods import RecipeMethods
from tests.tidy.test_public_names import PAGE, documented
from tests.wheel.environments import build_wheel

PROGRAMS = Path(__file__).parent / "programs"
PYRIGHT_CONFIG = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}
CHECKERS = {
    "mypy": ["mypy", "--strict", "--cache-dir", ".mypy_cache", "--python-executable"],
    "pyright": ["pyright", "--pythonpath"],
}


class Checkout:
    """A user's folder, and an environment with the wheel and what it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        (self.folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT_CONFIG))
        venv.create(folder / "venv", symlinks=True)
        self._python = folder / "venv/bin/python"
        (installed,) = (folder / "venv").glob("lib/python*/site-packages")
        with zipfile.ZipFile(build_wheel(sys.executable, folder)) as wheel:
            wheel.extractall(installed)
        # Ray and all else come from here. What is found first is the wheel.
        ours = [path for path in sys.path if path.endswith("site-packages")]
        (installed / "dependencies.pth").write_text("\n".join(ours))

    def check(self, checker: str) -> tuple[int, str]:
        """How a type checker ends for all that is in the folder, and what it prints."""
        command = [sys.executable, "-m", *CHECKERS[checker], str(self._python), "."]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=280, check=False
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One for all tests here."""
    return Checkout(tmp_path_factory.mktemp("user"))


@pytest.mark.parametrize("checker", CHECKERS)
def test_programs_have_their_declared_types(checkout: Checkout, checker: str) -> None:
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, checkout.folder)
    code, printed = checkout.check(checker)
    assert code == 0, printed
    # That it can fail: a type that is another one, and a mark where nothing is wrong.
    wrong = checkout.folder / "wrong.py"
    wrong.write_text(
        "from raykeeper.client import connect\n"
        'number: int = connect("coord").lock("/a").acquire().path\n'
        'connect("coord").close()  # type: ignore\n'
    )
    code, printed = checkout.check(checker)
    wrong.unlink()
    assert code == 1 and "wrong.py:2:" in printed and "wrong.py:3:" in printed, printed


def attributes(program: str) -> set[str]:
    """What is looked up in objects."""
    tree = ast.parse((PROGRAMS / f"{program}.py").read_text())
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_programs_use_every_operation() -> None:
    blocking, awaiting, tasks = map(attributes, ("blocking", "awaiting", "tasks"))
    recipes = {name for name in vars(RecipeMethods) if not name.startswith("_")}
    assert recipes - blocking == set()
    assert recipes - awaiting == set()
    names = set(chain.from_iterable(documented(PAGE.read_text()).values()))
    assert names - blocking - awaiting - tasks == set()
