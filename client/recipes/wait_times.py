"""How long the recipes of this process waited for others, by recipe, operation and path prefix.

The prefix is the first part of the path, `/locks` of `/locks/gpu-7`. A process with more than
`PREFIXES_MAX` of them counts the others together, so that paths that nobody bounds bound the memory
and the number of series.
"""

from threading import Lock
from typing import Final

PREFIXES_MAX: Final = 50
OTHER_PREFIXES: Final = "other"
BOUNDS_MS: Final = tuple(1 << power for power in range(0, 21, 2))
"""The upper bounds of the counts: from a millisecond, each four times the last, to 17 minutes."""


class WaitTimes:
    """The waits of one process; any thread may add."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._prefixes: set[str] = set()
        self._counts: dict[tuple[str, str, str], list[int]] = {}

    def add(self, recipe: str, operation: str, path: str, took_ms: int) -> None:
        """Count a wait of `operation` of `recipe` at `path`."""
        place = next((n for n, bound in enumerate(BOUNDS_MS) if took_ms < bound), len(BOUNDS_MS))
        with self._lock:
            key = (recipe, operation, self._prefix_of(path))
            counts = self._counts.get(key)
            if counts is None:
                counts = self._counts[key] = [0] * (len(BOUNDS_MS) + 2)
            counts[place] += 1
            counts[-1] += took_ms

    def below(self) -> dict[tuple[str, str, str], tuple[list[int], int]]:
        """Return, by recipe, operation and prefix, the counts below each bound, and all, and ms."""
        with self._lock:
            return {
                key: ([sum(counts[: n + 1]) for n in range(len(BOUNDS_MS) + 1)], counts[-1])
                for key, counts in self._counts.items()
            }

    def _prefix_of(self, path: str) -> str:
        prefix = "/" + path.split("/", 2)[1] if path.startswith("/") else path
        if prefix in self._prefixes:
            return prefix
        if len(self._prefixes) >= PREFIXES_MAX:
            return OTHER_PREFIXES
        self._prefixes.add(prefix)
        return prefix


wait_times: Final = WaitTimes()
"""Those of this process."""
