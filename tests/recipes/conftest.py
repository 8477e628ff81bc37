"""What the tests of recipes share."""

from collections.abc import Iterator

import pytest

from tests.harness.recipe_stage import RecipeStage


@pytest.fixture
def stage() -> Iterator[RecipeStage]:
    """A stage on which nothing may fail behind the test's back."""
    stage = RecipeStage()
    yield stage
    assert stage.reported == []
