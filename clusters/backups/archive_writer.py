"""Keeps an archive: adds what the log has got, joins small pieces, removes what is too old.

A file gets its name when it is complete, so an archive is whole at every moment, and the names say
where it ends. Invariants: the log goes on without a hole from each whole backup to the next, unless
a server has pruned what was not archived yet; and a file goes only when another one holds the same,
or when retention lets go of it. One program at a time writes an archive; a second one does the same
work again.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Final

from raykeeper.actors.disk.backup_frames import LogBody, LogFrame, log_body
from raykeeper.actors.disk.file_operations import TEMP_SUFFIX
from raykeeper.clusters.backups.archive import (
    SUFFIX,
    FullFile,
    PieceFile,
    chain_after,
    contents_of,
    full_name,
    piece_name,
)
from raykeeper.clusters.backups.backup import copy_whole, opening_of, plan_whole
from raykeeper.clusters.backups.backup_format import (
    BackupFile,
    BackupFormatError,
    BackupWriter,
    Closing,
    Opening,
    read_closing,
)
from raykeeper.clusters.backups.places import (
    BackupPlaceError,
    Place,
    created_output,
    opened_input,
)
from raykeeper.clusters.backups.server_choice import Position
from raykeeper.clusters.backups.source import Source
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.txns import decode_txn

PIECE_BYTES: Final = 16 << 20
"""Of transactions in a piece, a little more at most; small pieces are joined up to that."""
_SMALL_PART: Final = 4
"""A piece is small below this part of that. To join larger ones costs more than their number."""
_LOOKED_AT: Final = 1000
"""How many pieces of an earlier run are looked at, whether they are small."""


class ArchiveWriter:
    """The archive of one ensemble, open to be added to.

    One thread adds to the log; another one may do the rest meanwhile.
    """

    def __init__(self, place: Place, ensemble: str, uuid: str) -> None:
        """Look what is there; make the folder if it is missing, and remove what was cut.

        Raises:
            BackupPlaceError: it is the archive of another ensemble, or no folder, or it cannot be
                read or written.
            BackupFormatError: a whole backup is damaged.
        """
        if place.exists() and not place.is_folder():
            raise BackupPlaceError(f"{place.name} is no folder, as an archive is")
        self.place = place
        self.ensemble = ensemble
        self.uuid = uuid
        self._lock = threading.Lock()
        place.make_folder()
        self._remove_unfinished()
        contents = contents_of(place.names())
        self._full = [(each, self._closing(each.name).time_ms) for each in contents.full]
        self._pieces = contents.pieces
        self._small = self._settle_pieces()
        newest = [full.name for full in contents.full[-1:]]
        newest += [piece.name for piece in self._pieces[-1:]]
        for name in newest:
            self._check_owner(name, uuid)
        self.resume_points = self._resume_points()
        """Where the log may go on, the earliest first; none in an archive without a backup."""
        self.end: Zxid | None = self.resume_points[-1] if self.resume_points else None
        """The last transaction that is archived, with all before it."""

    @property
    def full(self) -> list[FullFile]:
        """The whole backups, oldest first."""
        return [each for each, _ in self._full]

    @property
    def newest_time_ms(self) -> Millis | None:
        """The time of the newest whole backup."""
        return self._full[-1][1] if self._full else None

    def add_full(self, source: Source, at_least: Zxid) -> FullFile:
        """Add a whole backup of what the source has applied now.

        The end of the archive stays where it is: the log goes on from there.

        Raises:
            READ_ERRORS: the source cannot be read.
            BackupPlaceError: the archive cannot be written.
        """
        plan = plan_whole(source, at_least)
        zxid = plan.position.zxid
        added = FullFile(zxid, full_name(zxid))
        if added not in self.full:
            with created_output(self.place.child(added.name)) as output:
                closing, _ = copy_whole(self.ensemble, source, plan, output, lambda _: None)
            with self._lock:
                self._full = sorted([*self._full, (added, closing.time_ms)])
        return added

    def restart(self, after: Zxid) -> None:
        """Have the log go on behind `after`: what was between is lost.

        A whole backup must follow, of `after` or later; without it, what is added is of no use.
        """
        with self._lock:
            self.end = after
            self._small = []

    def add_log(self, logs: Iterable[LogBody], source: Source, position: Position) -> None:
        """Add what follows the end of the archive, up to the position at most, in pieces.

        Raises:
            READ_ERRORS: the source cannot be read; the end says what was archived before.
            BackupPlaceError: the archive cannot be written; the same.
        """
        waiting: list[LogBody] = []
        size = 0
        for log in logs:
            waiting.append(log)
            size += log.txn_bytes
            if size >= PIECE_BYTES:
                self._add_piece(waiting, source, position)
                waiting, size = [], 0
        if waiting:
            self._add_piece(waiting, source, position)

    def join_small(self, keep_pace: Callable[[int], object] = lambda _: None) -> PieceFile | None:
        """Join the last small pieces to one; return it, or None if there is only one or none.

        Calls `keep_pace` with the bytes of each frame, after it was written.

        Raises:
            BackupPlaceError: the archive cannot be read or written; nothing is lost.
            BackupFormatError: a piece is damaged; it stays as it is.
        """
        with self._lock:
            small, size = [piece for piece, _ in self._small], self.small_bytes
        if len(small) < 2:
            return None
        after, last = small[0].after, small[-1].last
        joined = PieceFile(after, last, piece_name(after, last))
        with created_output(self.place.child(joined.name)) as output:
            self._copy_joined(small, output.write, keep_pace)
        with self._lock:
            later = [pair for pair in self._small if pair[0] not in small]
            self._small = [(joined, size), *later] if _is_small(size) else later
            self._pieces = sorted([*self._pieces, joined])
        self._remove_pieces(small)
        return joined

    @property
    def small_count(self) -> int:
        """How many pieces wait to be joined."""
        return len(self._small)

    @property
    def small_bytes(self) -> int:
        """Bytes of the transactions in these."""
        return sum(size for _, size in self._small)

    def remove_older(self, before_ms: Millis) -> list[str]:
        """Remove what is not needed to restore any time from `before_ms` on; return the names.

        The newest whole backup as of that time, or before it, stays, and the log behind it.

        Raises:
            BackupPlaceError: a file cannot be removed.
        """
        old = [each for each, time_ms in self._full if time_ms <= before_ms]
        if not old:
            return []
        oldest = old[-1]
        names = [each.name for each in self.full if each < oldest]
        names += [piece.name for piece in self._pieces if piece.last <= oldest.zxid]
        for name in names:
            self.place.child(name).remove()
        with self._lock:
            self._full = [pair for pair in self._full if pair[0].name not in names]
            self._pieces = [piece for piece in self._pieces if piece.name not in names]
            self._small = [pair for pair in self._small if pair[0].name not in names]
        return names

    def _add_piece(self, logs: list[LogBody], source: Source, position: Position) -> None:
        assert self.end is not None, "a whole backup comes first"
        last = logs[-1].last
        piece = PieceFile(self.end, last, piece_name(self.end, last))
        opening = opening_of(self.ensemble, source.server, self.end, self.end, has_snapshot=False)
        with created_output(self.place.child(piece.name)) as output:
            writer = BackupWriter(output.write, opening)
            for log in logs:
                writer.add_log(log)
            writer.finish(
                time_ms=decode_txn(logs[-1].last_txn).time_ms,
                epoch=position.epoch,
                digest=position.digest if last == position.zxid else None,
            )
        with self._lock:
            self.end = last
            self._pieces = sorted([*self._pieces, piece])
            is_small = _is_small(writer.log_bytes)
            self._small = [*self._small, (piece, writer.log_bytes)] if is_small else []

    def _copy_joined(
        self,
        small: list[PieceFile],
        write: Callable[[bytes], object],
        keep_pace: Callable[[int], object],
    ) -> None:
        writer: BackupWriter | None = None
        closing: Closing | None = None
        for piece in small:
            place = self.place.child(piece.name)
            with opened_input(place) as opened:
                file = BackupFile(opened, place.name)
                if writer is None:
                    writer = BackupWriter(write, file.opening)
                for frame in file.frames():
                    assert isinstance(frame, LogFrame), piece
                    if frame.last > writer.last:
                        skipped = max(0, writer.last - frame.first + 1)
                        first = Zxid(frame.first + skipped)
                        log = log_body(LogFrame(writer.last, first, frame.txns[skipped:]))
                        writer.add_log(log)
                        keep_pace(len(log.data))
            closing = file.closing
        assert writer is not None and closing is not None
        writer.finish(time_ms=closing.time_ms, epoch=closing.epoch, digest=closing.digest)

    def _resume_points(self) -> list[Zxid]:
        """Return the ends of the log behind the last two whole backups, the earlier one first.

        If the program ended when a whole backup was complete and the log before it was not yet, the
        log behind the one before goes on, and has no hole.
        """
        ends = set()
        for each in self.full[-2:]:
            chain = chain_after(each.zxid, self._pieces)
            ends.add(chain[-1].last if chain else each.zxid)
        return sorted(ends)

    def _remove_unfinished(self) -> None:
        """Remove the temporary files of a program that was killed, and the backup that it cut."""
        names = self.place.names()
        for name in names:
            if SUFFIX in name and name.endswith(TEMP_SUFFIX):
                self.place.child(name).remove()
        for file in contents_of(names).full[-1:]:
            if self._closing_or_none(file.name) is None:
                self.place.child(file.name).remove()

    def _settle_pieces(self) -> list[tuple[PieceFile, int]]:
        """Return the small pieces at the end of the archive, with their bytes.

        Removes what a program that was killed has left there: a piece that was cut, and pieces that
        were joined to another one.
        """
        found: list[tuple[PieceFile, int]] = []
        for piece in reversed(self._pieces[-_LOOKED_AT:]):
            closing = self._closing_or_none(piece.name)
            if closing is None:
                self._remove_pieces([piece])
                continue
            small = [each for each, _ in found]
            is_large = not _is_small(closing.log_bytes)
            if small and piece.after >= small[0].after and piece.last <= small[-1].last:
                self._remove_pieces([piece])
                continue
            if small and piece.after <= small[0].after and piece.last >= small[-1].last:
                self._remove_pieces(small)
                found = []
            elif small and piece.last != small[0].after:
                break
            if is_large:
                break
            found.insert(0, (piece, closing.log_bytes))
        return found

    def _remove_pieces(self, pieces: list[PieceFile]) -> None:
        with self._lock:
            self._pieces = [piece for piece in self._pieces if piece not in pieces]
        for piece in pieces:
            self.place.child(piece.name).remove()

    def _check_owner(self, name: str, uuid: str) -> None:
        opening = self._opening(name)
        if opening.ensemble_uuid != uuid:
            raise BackupPlaceError(
                f"{self.place.name} is the archive of ensemble {opening.ensemble!r} "
                f"({opening.ensemble_uuid}), not of {self.ensemble!r} ({uuid})"
            )

    def _opening(self, name: str) -> Opening:
        place = self.place.child(name)
        with opened_input(place) as opened:
            return BackupFile(opened, place.name).opening

    def _closing(self, name: str) -> Closing:
        place = self.place.child(name)
        with opened_input(place) as opened:
            return read_closing(opened, opened.size, place.name)

    def _closing_or_none(self, name: str) -> Closing | None:
        try:
            return self._closing(name)
        except BackupFormatError:
            return None


def _is_small(size: int) -> bool:
    return size < PIECE_BYTES / _SMALL_PART
