"""The children of a large znode, in parts, so that no single step has to look at all of them.

Listing a million children takes some 20 ms, in which the server would do nothing else. A fuzzy
walk needs no list as of one moment, so it lists one part at a time (see `snapshot`).
"""

from collections.abc import Iterator
from typing import Final
from zlib import crc32

PARTED_FROM: Final = 4_096
"""A znode with more children than this keeps them in parts; fewer stay in one dict."""

PARTS: Final = 64


class PartedChildren:
    """A set of paths in `PARTS` dicts, chosen by a hash that is the same in every process."""

    __slots__ = ("count", "parts")

    def __init__(self, paths: dict[str, None]) -> None:
        self.parts: tuple[dict[str, None], ...] = tuple({} for _ in range(PARTS))
        self.count = 0
        for path in paths:
            self.add(path)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        for part in self.parts:
            yield from part

    def add(self, path: str) -> None:
        """Put in `path`; again changes nothing."""
        part = self.parts[crc32(path.encode()) % PARTS]
        before = len(part)
        part[path] = None
        self.count += len(part) - before

    def remove(self, path: str) -> None:
        """Take out `path`, which is there."""
        del self.parts[crc32(path.encode()) % PARTS][path]
        self.count -= 1


Children = dict[str, None] | PartedChildren
