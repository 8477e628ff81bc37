"""What users do first, from an installed wheel, outside of the repository.

Each combination of Python and Ray has an environment of its own (environments.py): the program of
the README starts its own Ray; the programs of examples/ share one that `raykeeper up` started.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from tests.wheel.environments import (
    LIBRARIES,
    NEWEST,
    OLDEST,
    OLDEST_RAY,
    PYTHONS,
    ROOT,
    Combination,
    Installed,
    NoSuchRelease,
    build_wheel,
    find_python,
    version_of,
)

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]

EXPECTED = {
    "elected_service": r"""
tea: taken by process \d+ in epoch \d+
milk: taken by process (\d+) in epoch (\d+)
killing process \1, the leader
bread: taken by process (?!\1\b)\d+ in epoch (?!\2\b)\d+
salt: taken by process \d+ in epoch \d+
all orders: bread, milk, salt, tea
""",
    "cron": r"""
first holds the lock, token (\d+)
run 1 by first: done
process (\d+) stops in the middle of run 2
second holds the lock, token \d+; it is larger: True
run 2 by second: done
process \2 goes on
run 2 by first: refused, token \1 is an old one
second has gone, first holds the lock again
run 3 by first: done
the report: run 1 by first, run 2 by second, run 3 by first
""",
    "work_queue": r"""
a consumer was killed while it held a scene
anna rendered \d scenes, ben \d
all are done: True, 0 are left
""",
    "gang": r"""
rank 1 is going to be killed at step 13; every fifth step is a checkpoint
rank 0, generation (\d+): steps (11|16) to 20
rank 1, generation \1: steps \2 to 20
rank 2, generation \1: steps \2 to 20
""",
    "configuration": r"""
anna was told Settings\(rate=5, message='hello'\)
ben was told Settings\(rate=5, message='hello'\)
anna was told Settings\(rate=10, message='good morning'\)
ben was told Settings\(rate=10, message='good morning'\)
anna has Settings\(rate=40, message='good morning'\)
ben has Settings\(rate=40, message='good morning'\)
the newer program has NewerSettings\(rate=40, message='good morning', language='it'\)
""",
    "pool": r"""
in the pool: anna, ben, cleo
picture 1 by \w+
picture 2 by \w+
picture 3 by \w+
killing ben, process \d+
4 more are resized, by ben: 0
in the pool: anna, cleo
in the pool: anna, cleo, dora
picture 8 by \w+
picture 9 by \w+
picture 10 by \w+
""",
    "shards": r"""
anna: \w \w \w, ben: \w \w \w
cleo comes
anna: \w \w, ben: \w \w, cleo: \w \w
killing ben
anna: \w \w \w, cleo: \w \w \w
18 visits were written, 18 are there: \[3, 3, 3, 3, 3, 3\]
""",
    "pipeline": r"""
one worker is going to be killed before its result is there, one right after that
8 results of 8 orders
the total is 720, as it should be: True
""",
    "rounds": r"""
a worker is going to be killed in round 5
the others were told of it: True
the rod:( \d+\.\d){4}
as one process alone computes it: True
""",
    "async_service": r"""
96 transfers at once, 96 are done
while anna's account is locked: given up
who gave up has left 0 places in the queue
with a new limit: refused
the sum of all accounts is 400
""",
    "limits": r"""
8 tasks, 1 of them killed: at most 2 calls at once
30 calls in \d+\.\d s: (\d|10)\.\d a second
""",
}
"""What each program prints, as a pattern of all its lines."""
EXPECTED_WITH_LIBRARIES = {
    "serve_prices": r"""
two replicas sell tea for 3
the same replicas sell tea for 4: True
killing the replica that leads
the other one leads: True
Serve has started another replica, and it has joined
""",
    "train_best": r"""
a worker was killed at step 4; all went on behind step [34]
the best checkpoint is of step 6: 0\.166
it was written with two tokens, the later one is larger: True
a late write of the first rank 0 is refused
""",
    "data_export": r"""
tasks killed: 2
blocks committed: 12; files of tasks that died before: 1
each row is there once: True
""",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(sys.executable, tmp_path_factory.mktemp("wheel"))


def unavailable(reason: str, *, is_excused: bool) -> None:
    """Leave the tests of a combination out, which continuous integration must not do."""
    if os.environ.get("CI") == "true" and not is_excused:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="class")
def installed(request: pytest.FixtureRequest, wheel: Path) -> Iterator[Installed]:
    combination: Combination = request.cls.combination
    python = find_python(combination)
    if python is None:
        versions = " or ".join(combination.pythons)
        reason = f"there is no Python {versions} here; name one: make test-wheel "
        unavailable(f"{reason}{combination.variable}=...", is_excused=False)
    environment = Installed(str(python))
    try:
        environment.install(str(wheel), combination.ray)
        yield environment
    except NoSuchRelease as error:
        unavailable(f"Python {version_of(str(python))}: {error}", is_excused=True)
    finally:
        environment.remove()


@pytest.fixture(scope="class")
def exported(installed: Installed) -> Iterator[dict[str, str]]:
    """What `raykeeper up` says that programs need; its Ray lasts as long as the class."""
    printed = installed.run("raykeeper", "up")
    told = re.search(r"^for your programs: export (.+)$", printed, re.M)
    assert told is not None, printed
    yield dict(each.split("=", 1) for each in shlex.split(told[1]))
    installed.run("raykeeper", "down", "--ray")


@pytest.fixture(scope="class")
def copies(installed: Installed) -> Path:
    """The programs, as a user gets them from the package."""
    folder = installed.folder / "programs"
    installed.run("python", "-m", "raykeeper.examples", folder)
    return folder


class FirstSteps:
    """What users do first. The classes below do it in their environments."""

    combination: ClassVar[Combination]

    def test_the_package_is_the_installed_one(self, installed: Installed) -> None:
        program = "import raykeeper as r, ray; print(r.__version__, ray.__version__, r.__file__)"
        version, ray_version, file = installed.run("python", "-c", program).split()
        assert Path(file).is_relative_to(installed.folder)
        assert (Path(file).parent / "py.typed").exists()
        assert version in installed.run("raykeeper", "--version")
        if self.combination is OLDEST:
            assert ray_version.startswith(OLDEST_RAY)

    def test_the_program_of_the_readme_runs(self, installed: Installed) -> None:
        readme = (ROOT / "README.md").read_text()
        program = re.search(r"^```python\n(.*?)^```$", readme, re.M | re.S)
        assert program is not None
        script = installed.folder / "readme.py"
        script.write_text(program[1])
        told = ["during the call ['worker-1']", "after the call []"]
        lines = installed.run("python", script).splitlines()
        assert [line for line in lines if line in told] == told

    def test_status_finds_what_up_started(
        self, installed: Installed, exported: dict[str, str]
    ) -> None:
        for environment in (exported, {}):
            status = installed.run("raykeeper", "status", **environment)
            assert len(re.findall("leader|follower", status)) == 3

    @pytest.mark.parametrize("name", EXPECTED)
    def test_a_program_runs(
        self, installed: Installed, exported: dict[str, str], copies: Path, name: str
    ) -> None:
        assert_story(name, installed.run("python", copies / f"{name}.py", **exported))

    def test_a_program_runs_out_of_the_package(
        self, installed: Installed, exported: dict[str, str]
    ) -> None:
        assert_story("work_queue", installed.run("python", "-m", "raykeeper.examples.work_queue"))

    def test_a_larger_system_finds_its_documents(
        self, installed: Installed, exported: dict[str, str]
    ) -> None:
        story = installed.run("python", "-m", "raykeeper.examples.systems", "katta", **exported)
        assert "12 shards served, by worker: worker-1 4, worker-2 4, worker-3 4" in story


class TestOldest(FirstSteps):
    """The oldest Python with the oldest Ray."""

    combination = OLDEST


class TestNewest(FirstSteps):
    """The newest Python with the newest Ray."""

    combination = NEWEST


class TestLibraries:
    """The oldest Python with the newest Ray Serve, Train and Data."""

    combination = LIBRARIES

    @pytest.mark.parametrize("name", EXPECTED_WITH_LIBRARIES)
    def test_a_program_runs(
        self, installed: Installed, exported: dict[str, str], name: str
    ) -> None:
        module = f"raykeeper.examples.libraries.{name}"
        output = installed.run("python", "-m", module, **exported)
        assert_story(name, output, EXPECTED_WITH_LIBRARIES)


def test_the_newest_python_that_is_claimed_is_the_one_tried() -> None:
    """Where there is no interpreter of it, that is told, and the newest one that is there tried."""
    newest, python = PYTHONS[-1], find_python(NEWEST)
    tried = version_of(python) if python is not None else "none"
    if tried != newest:
        told = f"Python {newest} is claimed, and there is none here; tried is {tried}"
        pytest.skip(f"{told}: make test-wheel {NEWEST.variable}=/path/to/python{newest}")
    assert tried in NEWEST.pythons


def test_every_program_is_expected() -> None:
    for folder, expected in (("", EXPECTED), ("libraries", EXPECTED_WITH_LIBRARIES)):
        programs = {p.stem for p in (ROOT / "examples" / folder).glob("[!_]*.py")}
        assert programs == set(expected)


def assert_story(name: str, output: str, expected: Mapping[str, str] = EXPECTED) -> None:
    # What Ray tells of itself, and of its workers, begins with who says it, in parentheses.
    lines = [line for line in output.splitlines() if not re.match(r"(\x1b\[\d+m)?\(", line)]
    told = "\n".join(lines)
    assert re.fullmatch(expected[name].strip(), told), f"{told}\n\nof\n\n{output}"
