"""The input of the demo: text files, split into pieces that one worker counts at a time."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from raykeeper.zab.errors import RayKeeperError

SUFFIXES = (".md", ".rst", ".txt")
PIECES_WANTED = 48
PIECE_CHARS_MIN = 500
PIECE_CHARS_MAX = 200_000
PIECES_MAX = 200
OWN_TEXTS = Path(__file__).parents[2] / "docs"
"""The project's own documents, which the package contains too."""
_WORD = re.compile(r"\w+")
_GAP = re.compile(r"\s")


class InputError(RayKeeperError):
    """Raised when a folder has no text to count, or more than the demo accepts.

    The caller should name another folder.
    """


class Piece(Struct, frozen=True):
    """A part of a file that begins and ends between words, so that counts of pieces add up."""

    file: str
    start: int
    end: int


def find_texts(folder: Path) -> dict[str, str]:
    """Read the text files in `folder` and below it, except in hidden and build folders.

    Raises:
        InputError: there is no text.
    """
    texts = {}
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_skipped(name))
        for file in sorted(Path(place) / name for name in files):
            if file.suffix in SUFFIXES and not file.name.startswith("."):
                text = file.read_text(encoding="utf-8", errors="replace")
                texts[file.relative_to(folder).as_posix()] = text
    if not any(texts.values()):
        raise InputError(f"no text ({', '.join(SUFFIXES)}) in {folder}")
    return texts


def _is_skipped(folder: str) -> bool:
    return folder.startswith(".") or folder.endswith(".egg-info")


def cut(texts: dict[str, str]) -> list[Piece]:
    """Split the texts into pieces of about the same size, each within one file.

    Raises:
        InputError: there are too many pieces.
    """
    total = sum(map(len, texts.values()))
    size = min(max(total // PIECES_WANTED, PIECE_CHARS_MIN), PIECE_CHARS_MAX)
    pieces = [
        Piece(name, start, end) for name, text in texts.items() for start, end in _spans(text, size)
    ]
    if len(pieces) > PIECES_MAX:
        raise InputError(f"{len(pieces)} pieces of text; the demo accepts {PIECES_MAX}")
    return pieces


def _spans(text: str, size: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        gap = _GAP.search(text, start + size)
        end = gap.start() if gap else len(text)
        yield start, end
        start = end


def count_words(text: str) -> dict[str, int]:
    """Count each word, ignoring case."""
    return dict(Counter(word.lower() for word in _WORD.findall(text)))
