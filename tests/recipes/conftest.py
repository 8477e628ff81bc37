"""What the tests of recipes share."""

from collections.abc import Iterator

import pytest

from tests.recipes.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stage on which nothing may fail behind the test's back."""
    stage = Stage()
    yield stage
    assert stage.reported == []
