"""Fixtures of the tests of the client."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.harness.client_stage import ClientStage
from tests.harness.event_loops import VirtualLoop


@pytest.fixture
def stage() -> Iterator[ClientStage]:
    """Return an ensemble and a loop whose time stands still."""
    stage = ClientStage()
    yield stage
    stage.end()


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """Run the test on a loop with virtual time, if the test is a coroutine and asks for `loop`."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner


@pytest.fixture
def loop(runner: asyncio.Runner) -> asyncio.AbstractEventLoop:
    return runner.get_loop()
