"""Fixtures of the tests of the client."""

from collections.abc import Iterator

import pytest

from tests.unit.client.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """An ensemble and a loop whose time stands still."""
    stage = Stage()
    yield stage
    stage.end()
