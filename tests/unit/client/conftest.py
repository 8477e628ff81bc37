"""Fixtures of the tests of the client."""

from collections.abc import Iterator

import pytest

from tests.harness.client_stage import ClientStage


@pytest.fixture
def stage() -> Iterator[ClientStage]:
    """Return an ensemble and a loop whose time stands still."""
    stage = ClientStage()
    yield stage
    stage.end()
