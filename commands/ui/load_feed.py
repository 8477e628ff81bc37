"""Looks at the load of an ensemble again and again, and keeps what it saw for the plots.

One feed serves all pages, so a hundred of them cost the servers no more than one. A page that is
slow skips what is not kept any more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from raykeeper.clusters.admin import LoadTable
from raykeeper.commands.output import Document
from raykeeper.commands.top import load_document
from raykeeper.commands.ui.observed_changes import observe_changes
from raykeeper.commands.ui.source import Source
from raykeeper.zab.errors import RayKeeperError

CHANGES_KEPT: Final = 200


class LoadFeed:
    """The looks, numbered from 1."""

    def __init__(self, source: Source, interval_s: float, looks_kept: int) -> None:
        """Look every `interval_s`, once `run` runs; keep the newest `looks_kept` looks."""
        self.interval_s = interval_s
        self.looks: deque[Document] = deque(maxlen=looks_kept)
        """Each with its number, its time and either `load`, as of `raykeeper top`, or `problem`."""
        self.changes: deque[Document] = deque(maxlen=CHANGES_KEPT)
        """What happened to the servers meanwhile: number, time, text."""
        self._source = source
        self._number = self._changes_seen = 0
        self._last: LoadTable | None = None
        self._looked = asyncio.Event()
        self.is_over = False

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self.interval_s)

    async def look(self) -> None:
        """Look once."""
        load, problem = None, ""
        try:
            load = await self._source.ask(_look_after(self._last))
        except RayKeeperError as error:
            problem = str(error)
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        happened = self._happened(load, problem)
        for text in happened:
            self._changes_seen += 1
            self.changes.append({"number": self._changes_seen, "time": time, "text": text})
        self._last = load or self._last
        self._number += 1
        document = None if load is None else load_document(self._source.name, load)
        look: dict[str, Any] = {"number": self._number, "time": time, "problem": problem}
        self.looks.append({**look, "load": document, "changes": happened})
        self._looked.set()
        self._looked = asyncio.Event()

    async def after(self, number: int) -> list[Document]:
        """Return the looks after that one, at once or when there is one; none at the end."""
        if number > self._number:
            number = 0  # of a feed before this one
        while not self.is_over:
            found = [each for each in self.looks if each["number"] > number]
            if found:
                return found
            await self._looked.wait()
        return []

    def close(self) -> None:
        """Let nobody wait any more."""
        self.is_over = True
        self._looked.set()

    def _happened(self, load: LoadTable | None, problem: str) -> list[str]:
        if load is None:
            is_news = not self.looks or self.looks[-1]["problem"] != problem
            return [f"the ensemble cannot be asked: {problem}"] if is_news else []
        again = ["the ensemble answers again"] if self.looks and self.looks[-1]["problem"] else []
        return again + ([] if self._last is None else observe_changes(self._last, load))


def _look_after(last: LoadTable | None) -> Callable[[Any], LoadTable]:
    return lambda admin: admin.load(last)
