"""One browser for the tests of a file, on the event loop that they share."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.harness.chromium import Browser, find_chromium, open_browser

FOLDER = Path(__file__).parent
WITHOUT = "Chromium is not installed: the page is not tried in a browser"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests without a browser; the summary says so in a line for each file."""
    if find_chromium() is None:
        for item in items:
            if item.path.is_relative_to(FOLDER):
                item.add_marker(pytest.mark.skip(reason=WITHOUT))


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def browser(runner: asyncio.Runner) -> Iterator[Browser]:
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(open_browser()))
    runner.run(stack.aclose())
