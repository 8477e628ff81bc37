"""An archive: a folder of backup files that together hold the log, and what it holds.

    full-<zxid>.rkb            a whole backup that ends at that zxid
    log-<after>-<last>.rkb     the log behind the one zxid, up to the other, without a snapshot

Zxids are written in 16 hexadecimal digits, so names sort as the log does. A piece that begins at or
before the place where another ends goes on from there without a hole, also where an epoch ends.
Pieces may overlap, as they do while small ones are joined; they never contradict each other, for a
zxid names one transaction.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import Zxid

SUFFIX: Final = ".rkb"
_FULL = re.compile(r"full-([0-9a-f]{16})\.rkb")
_PIECE = re.compile(r"log-([0-9a-f]{16})-([0-9a-f]{16})\.rkb")


class FullFile(Struct, frozen=True, order=True):
    """A whole backup in an archive."""

    zxid: Zxid
    """The last one in it."""
    name: str


class PieceFile(Struct, frozen=True, order=True):
    """A piece of the log in an archive: the transactions of (after, last]."""

    after: Zxid
    last: Zxid
    name: str


class ArchiveContents(Struct, frozen=True):
    """The files of an archive, in the order of their zxids."""

    full: list[FullFile]
    pieces: list[PieceFile]

    def end(self) -> Zxid | None:
        """Return where the log ends that goes on from the newest whole backup; None without one."""
        if not self.full:
            return None
        chain = chain_after(self.full[-1].zxid, self.pieces)
        return chain[-1].last if chain else self.full[-1].zxid


def full_name(zxid: Zxid) -> str:
    """Return the name of a whole backup that ends at `zxid`."""
    return f"full-{zxid:016x}{SUFFIX}"


def piece_name(after: Zxid, last: Zxid) -> str:
    """Return the name of a piece of the log."""
    return f"log-{after:016x}-{last:016x}{SUFFIX}"


def contents_of(names: Iterable[str]) -> ArchiveContents:
    """Return the files of an archive among the files `names`."""
    full, pieces = [], []
    for name in names:
        if match := _FULL.fullmatch(name):
            full.append(FullFile(Zxid(int(match[1], 16)), name))
        elif match := _PIECE.fullmatch(name):
            pieces.append(PieceFile(Zxid(int(match[1], 16)), Zxid(int(match[2], 16)), name))
    return ArchiveContents(sorted(full), sorted(pieces))


def chain_after(zxid: Zxid, pieces: Sequence[PieceFile]) -> list[PieceFile]:
    """Return the pieces by which the log goes on from `zxid`, in order, as few as possible.

    Takes `pieces` in the order of `contents_of`.
    """
    chain: list[PieceFile] = []
    last, best = zxid, None
    for piece in pieces:
        if piece.after > last:
            if best is None or best.last < piece.after:
                break
            chain.append(best)
            last, best = best.last, None
        if piece.last > last and (best is None or piece.last > best.last):
            best = piece
    return chain if best is None else [*chain, best]
