"""docs/RECIPES.md: the examples that need Ray run as they stand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from raykeeper.clusters import Ensemble, launch
from tests.recipes.test_recipes_document import examples


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
