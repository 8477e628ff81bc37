"""A page over pure servers that is shown in a tab.

Every tab is asserted to have had no error of a script and no breach of the policy.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.harness.chromium import Browser, Tab
from tests.harness.page_stage import TOKEN, Page, PureSource, open_page

VIEWS = ("overview", "tree", "locks", "sessions", "watches", "events")


class Shown:
    """A page in a tab."""

    def __init__(self, page: Page, tab: Tab) -> None:
        self.page = page
        self.tab = tab
        self.source = page.source

    async def open(self, view: str) -> None:
        """Open a view by a click."""
        await self.tab.click("nav a", view.capitalize())
        await self.tab.until(f"document.querySelector('#view').dataset.view === {view!r}")

    async def look(self, ms: int = 0) -> None:
        """Let time pass, and have the servers looked at."""
        self.source.pass_time(ms)
        await self.page.server.feed.look()

    async def texts(self, selector: str) -> list[str]:
        """Return what is to be read in elements, at once."""
        found = await self.tab.evaluate(
            f"[...document.querySelectorAll({selector!r})].map(each => each.innerText)"
        )
        return list(found)

    async def keys(self, *keys: str) -> str:
        """Press keys; return what has the focus then."""
        for key in keys:
            await self.tab.press(key)
        return await self.tab.focused()


@asynccontextmanager
async def shown(
    browser: Browser, source: PureSource | None = None, **settings: Any
) -> AsyncIterator[Shown]:
    """Serve a page, and show it to a viewer who has signed in."""
    async with open_page(source, **settings) as page, browser.tab() as tab:
        await tab.goto(f"{page.url}/?token={TOKEN}")
        await tab.until("document.querySelector('#servers table')")
        yield Shown(page, tab)
        # A 4xx that a test provokes is logged as well.
        told = [each for each in tab.complaints if not each.startswith("Failed to load resource")]
        assert told == []


async def with_znodes(source: PureSource, znodes: dict[str, bytes]) -> None:
    async with await source.connect() as client:
        for path, value in znodes.items():
            await client.create(path, value)
