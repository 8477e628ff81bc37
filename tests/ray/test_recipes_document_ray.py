"""docs/RECIPES.md: the examples that need Ray run as they stand, and types cross to workers."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raykeeper.clusters import Ensemble, launch
from tests.ray import programs
from tests.recipes.test_recipes_document import examples
from tests.recipes.test_value_types import LEFT_OUT, check_outcomes


@pytest.fixture(scope="module")
def coord(ray_session: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """The ensemble of the document."""
    data_dir: Path = tmp_path_factory.mktemp("data")
    ensemble = launch(name="coord", servers=1, data_dir=data_dir)
    yield ensemble
    ensemble.shutdown()


@pytest.mark.parametrize(("title", "code"), list(examples(with_ray=True)))
def test_an_example_runs(coord: Ensemble, title: str, code: str) -> None:
    exec(compile(code, f"RECIPES.md: {title}", "exec"), {"__name__": "__main__"})


def test_types_of_a_drivers_script_arrive_whole_or_are_refused(
    coord: Ensemble, driver_environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "tests.recipes.driver_types"]
    done = programs.run([*command, "ray", coord.name], driver_environment, cwd=programs.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    here, there, left_out = json.loads(done.stdout.splitlines()[-1])
    check_outcomes(here, there)
    assert left_out == LEFT_OUT
