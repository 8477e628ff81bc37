"""What backups are in a place: from the manifests of the files, without the states or the log.

Of each file the opening and the end are read, some hundred bytes, so a file that is altered in
between is not recognized here; a restore does that. A file that is damaged or cannot be read is
told as that, beside the others.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct, field

from raykeeper.actors.disk.file_operations import TEMP_SUFFIX
from raykeeper.clusters.backups.archive import SUFFIX, FullFile, PieceFile, contents_of
from raykeeper.clusters.backups.backup_format import (
    BackupFile,
    BackupFormatError,
    Closing,
    Opening,
    Seekable,
    read_closing,
)
from raykeeper.clusters.backups.places import BackupPlaceError, Place, opened_input
from raykeeper.zab.ids import ZERO, Zxid, format_zxid

MANIFEST_BYTES_MAX: Final = 64 << 10
"""Of an opening or an end. They have some hundred bytes; what says more is no manifest."""


class CatalogEntry(Struct, frozen=True, kw_only=True):
    """A backup file, as far as it can be read."""

    name: str
    kind: Literal["whole", "piece", "unknown"]
    bytes: int | None = None
    """Its size; None if it cannot be opened."""
    opening: Opening | None = None
    closing: Closing | None = None
    problem: str = ""
    """Why it cannot be restored from; "" if nothing is known against it."""

    @property
    def after(self) -> Zxid | None:
        """A whole backup has the states from this zxid on, a piece the log behind it."""
        if self.opening is None:
            return None
        return self.opening.consistent_at if self.kind == "whole" else self.opening.after


class Catalog(Struct, kw_only=True):
    """What was found in a place. Another thread may read it while it is being filled."""

    entries: list[CatalogEntry] = field(default_factory=list)
    """As they were read: the newest piece of an archive, its whole backups, files with other names,
    the other pieces; the last zxids and names first in each."""
    is_archive: bool = False
    end: Zxid | None = None
    """Of an archive: where the log ends that goes on from the newest whole backup, without the
    files that are known to be damaged. None without a whole backup."""
    left_out: int = 0
    """Backup files that were not looked at, because of the limits."""
    other_files: int = 0
    """Files in the folder whose names do not end as those of backups."""
    problem: str = ""
    """What is wrong with the whole place."""


def fill_catalog(
    catalog: Catalog, place: Place, files_max: int, is_over: Callable[[], bool]
) -> None:
    """Add what is in a backup file, or in a folder of backup files, to an empty catalog.

    Args:
        catalog: Filled file by file.
        place: The file or the folder. Folders in it are not looked into.
        files_max: How many files are read at most.
        is_over: Asked before each file, whether the time for it is over.

    Raises:
        BackupPlaceError: there is no such place, or it cannot be read at all.
    """
    if not place.exists():
        raise BackupPlaceError(f"{place.name} does not exist")
    if not place.is_folder():
        name = place.name.rstrip("/").rpartition("/")[2]
        catalog.entries.extend(_entries(place, name))
        return
    found = place.names()
    names = [name for name in found if name.endswith(SUFFIX)]
    catalog.other_files = sum(not name.endswith((SUFFIX, TEMP_SUFFIX)) for name in found)
    contents = contents_of(names)
    catalog.is_archive = bool(contents.full or contents.pieces)
    fulls = [each.name for each in reversed(contents.full)]
    pieces = [each.name for each in sorted(contents.pieces, key=_last_first)]
    others = sorted({*names} - {*fulls, *pieces}, reverse=True)
    # With the newest piece, the time at which the archive ends is known whatever the limits are.
    order = [*pieces[:1], *fulls, *others, *pieces[1:]]
    catalog.left_out = len(order)
    for name in order[:files_max]:
        if is_over():
            break
        catalog.entries.extend(_entries(place.child(name), name))
        catalog.left_out -= 1
    if catalog.is_archive:
        _find_end(catalog, names)


def _last_first(piece: PieceFile) -> tuple[int, int]:
    return -piece.last, -piece.after


def _find_end(catalog: Catalog, names: list[str]) -> None:
    """Set where an archive ends, and tell a hole before the newest piece."""
    damaged = {each.name for each in catalog.entries if each.problem}
    contents = contents_of(name for name in names if name not in damaged)
    catalog.end = contents.end()
    if catalog.end is None:
        catalog.problem = "the archive has no whole backup that can be read"
        return
    newest = max((each.last for each in contents.pieces), default=ZERO)
    if newest > catalog.end:
        catalog.problem = (
            f"the log of the archive has a hole behind {format_zxid(catalog.end)}; "
            f"pieces reach up to {format_zxid(newest)}"
        )


def _entries(file: Place, name: str) -> list[CatalogEntry]:
    """Return the entry of a file; none if retention has removed it meanwhile."""
    size = opening = closing = None
    problem = ""
    try:
        with opened_input(file) as opened:
            size = opened.size
            manifests = _Manifests(opened, file.name)
            opening = BackupFile(manifests, file.name).opening
            closing = read_closing(manifests, size, file.name)
            _check_name(file, name, opening, closing)
    except (BackupPlaceError, BackupFormatError) as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        problem = str(error)
    return [
        CatalogEntry(
            name=name,
            kind=_kind_of(name, opening),
            bytes=size,
            opening=opening,
            closing=closing,
            problem=problem,
        )
    ]


def _named(name: str) -> FullFile | PieceFile | None:
    contents = contents_of([name])
    named: list[FullFile | PieceFile] = [*contents.full, *contents.pieces]
    return named[0] if named else None


def _kind_of(name: str, opening: Opening | None) -> Literal["whole", "piece", "unknown"]:
    named = _named(name)
    if named is not None:
        return "whole" if isinstance(named, FullFile) else "piece"
    if opening is None:
        return "unknown"
    return "whole" if opening.has_snapshot or opening.after == ZERO else "piece"


def _check_name(file: Place, name: str, opening: Opening, closing: Closing) -> None:
    """Check that a file of an archive has what its name says, by which a restore chooses it."""
    named = _named(name)
    if isinstance(named, FullFile):
        is_true = named.zxid == closing.zxid
    elif isinstance(named, PieceFile):
        is_true = (named.after, named.last) == (opening.after, closing.zxid)
    else:
        return
    if not is_true:
        raise BackupFormatError(
            f"{file.name} has another name than its content, which goes from "
            f"{format_zxid(opening.after)} to {format_zxid(closing.zxid)}"
        )


class _Manifests:
    """A file of which only manifests are read: a forged length takes no memory."""

    def __init__(self, file: Seekable, name: str) -> None:
        self._file = file
        self._name = name

    def read(self, size: int, /) -> bytes:
        if size > MANIFEST_BYTES_MAX:
            raise BackupFormatError(
                f"{self._name} is altered: a manifest of {size} bytes, of {MANIFEST_BYTES_MAX} "
                "at most"
            )
        return self._file.read(size)

    def seek(self, offset: int, /) -> None:
        self._file.seek(offset)
