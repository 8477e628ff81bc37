"""Loads the state that a backup, or an archive, has as of a zxid or a time, and checks all of it.

The state is built in memory, as a server does it, because a state must be complete before its
sessions can be taken out of it and its digest be compared. All that is read is checked to the end
of its file, also behind the place that is asked for, since the digests are of the ends of files. If
the place is before such an end, the state is built once more, up to that place.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from raykeeper.actors.disk.backup_frames import LogFrame
from raykeeper.clusters.backups.archive import ArchiveContents, chain_after, contents_of
from raykeeper.clusters.backups.backup import BackupProgress, Tell
from raykeeper.clusters.backups.backup_format import (
    BackupFile,
    BackupFormatError,
    Closing,
    Opening,
    read_closing,
)
from raykeeper.clusters.backups.places import BackupPlaceError, Place, opened_input
from raykeeper.zab.ids import ZERO, Epoch, Millis, Zxid, epoch_of, format_zxid
from raykeeper.znodes.snapshot import SnapshotFormatError, SnapshotLoader
from raykeeper.znodes.state import State

ShowTime = Callable[[Millis], str]


class RestorePointError(BackupFormatError):
    """Raised when a backup or an archive does not have the place that is asked for.

    Nothing was written. The message says from where to where it reaches.
    """


class Point(Struct, frozen=True):
    """A place in the history: the end of what there is, a zxid, or a time."""

    zxid: Zxid | None = None
    time_ms: Millis | None = None


class LoadedState(Struct):
    """A state, and what is known of the ensemble that had it."""

    state: State
    opening: Opening
    epoch: Epoch
    """The newest epoch that the backup, or the whole archive, knows."""


def load_state(place: Place, point: Point, tell: Tell, show_time: ShowTime) -> LoadedState:
    """Return the state at `point`. Takes as much memory as a server.

    Args:
        place: A backup file, or the folder of an archive.
        point: Which state.
        tell: Told the progress.
        show_time: Makes a text of a time, for messages.

    Raises:
        BackupFormatError: a file is no backup, of another format, cut, or altered; or the files
            are of several ensembles, or do not give the state that a server had.
        RestorePointError: a BackupFormatError: there is no such place in what is there.
        BackupPlaceError: the place does not exist or cannot be read.
    """
    if place.is_folder():
        contents = contents_of(place.names())
        if not contents.full:
            raise BackupFormatError(
                f"{place.name} holds no whole backup; expected a backup file, or a folder that "
                "`raykeeper backup --follow` writes"
            )
        chains = _chains(place, contents, point)
        epoch = _newest_epoch(place, contents)
    elif place.exists():
        chains, epoch = iter([[place]]), Epoch(0)
    else:
        raise BackupPlaceError(f"{place.name} does not exist")
    missed: RestorePointError | None = None
    for files in chains:
        try:
            builder = _Builder(files, point, tell, show_time)
            loaded = builder.load()
        except RestorePointError as error:
            missed = missed or error
            continue
        loaded.epoch = max(loaded.epoch, epoch)
        return loaded
    assert missed is not None
    raise missed


def _chains(place: Place, contents: ArchiveContents, point: Point) -> Iterator[list[Place]]:
    """Yield each whole backup with the log behind it, the one that should have `point` first."""
    full = contents.full
    wanted = len(full) - 1
    while wanted > 0 and _ends_behind(place.child(full[wanted].name), full[wanted].zxid, point):
        wanted -= 1
    # If the log behind that one ends too early, the next one may have a part of its own.
    for index in (wanted, wanted + 1):
        if index < len(full):
            chain = chain_after(full[index].zxid, contents.pieces)
            names = [full[index].name, *(piece.name for piece in chain)]
            yield [place.child(name) for name in names]


def _ends_behind(file: Place, zxid: Zxid, point: Point) -> bool:
    if point.zxid is not None:
        return zxid > point.zxid
    return point.time_ms is not None and _closing_of(file).time_ms > point.time_ms


def _closing_of(file: Place) -> Closing:
    with opened_input(file) as opened:
        return read_closing(opened, opened.size, file.name)


def _newest_epoch(place: Place, contents: ArchiveContents) -> Epoch:
    """Return the newest epoch in an archive, also behind the place that is restored."""
    newest = [contents.full[-1].name, *(each.name for each in contents.pieces[-1:])]
    zxids = [each.zxid for each in contents.full] + [each.last for each in contents.pieces]
    told = [_closing_of(place.child(name)).epoch for name in newest]
    return max([*told, *map(epoch_of, zxids)])


class _Builder:
    """Builds the state at a point from a whole backup and the log behind it."""

    def __init__(
        self, files: Sequence[Place], point: Point, tell: Tell, show_time: ShowTime
    ) -> None:
        self._files = files
        self._point = point
        self._tell = tell
        self._show_time = show_time
        self._name = files[0].name
        self._opening: Opening | None = None
        self._epoch = Epoch(0)
        self._begin = ZERO
        """The first zxid as of which the files have a state."""
        self._stop: Zxid | None = point.zxid
        """The last transaction that is wanted, once it is known."""

    def load(self) -> LoadedState:
        """Return the state at the point.

        Raises:
            BackupFormatError: a file is not what it must be.
            RestorePointError: the files do not have the point.
            BackupPlaceError: a file cannot be read.
        """
        state, read = self._build(self._files, checks=True)
        if self._stop is not None and state.zxid > self._stop >= self._begin:
            del state  # not two of them in memory
            state, _ = self._build(self._files[:read], checks=False)
        self._check_reached(state)
        assert self._opening is not None
        return LoadedState(state, self._opening, self._epoch)

    def _build(self, files: Sequence[Place], *, checks: bool) -> tuple[State, int]:
        """Build the state at the end of the file that has the point, and check that; or else at it.

        Returns:
            The state, and the number of files that were read.
        """
        state: State | None = None
        for number, place in enumerate(files, 1):
            with opened_input(place) as opened:
                file = BackupFile(opened, place.name)
                state = self._add_file(file, opened.size, state, checks=checks)
            assert file.closing is not None
            self._epoch = max(self._epoch, file.closing.epoch)
            if checks:
                _check_digest(state, file.closing, place.name)
            if self._stop is not None and state.zxid >= self._stop:
                return state, number
        assert state is not None
        return state, len(files)

    def _add_file(self, file: BackupFile, size: int, state: State | None, *, checks: bool) -> State:
        if state is None:
            self._check_begin(file)
        else:
            self._check_follows(file, state)
        loader = SnapshotLoader()
        for frame in file.frames():
            if isinstance(frame, bytes):
                try:
                    loader.load(frame)
                except SnapshotFormatError as error:
                    raise SnapshotFormatError(f"{file.name}: {error}") from error
            else:
                state = self._begun(file, loader) if state is None else state
                self._apply(state, frame, file.name, checks=checks)
            self._tell(BackupProgress("check" if checks else "load", file.bytes_read, size))
        return self._begun(file, loader) if state is None else state

    def _check_begin(self, file: BackupFile) -> None:
        opening = self._opening = file.opening
        if not opening.has_snapshot and opening.after:
            raise BackupFormatError(
                f"{file.name} is a piece of an archive, which begins after "
                f"{format_zxid(opening.after)}; name the folder of the archive"
            )
        self._begin = opening.consistent_at

    def _check_follows(self, file: BackupFile, state: State) -> None:
        assert self._opening is not None
        if file.opening.ensemble_uuid != self._opening.ensemble_uuid:
            raise BackupFormatError(
                f"{file.name} is of ensemble {file.opening.ensemble!r} "
                f"({file.opening.ensemble_uuid}), and {self._name} of "
                f"{self._opening.ensemble!r} ({self._opening.ensemble_uuid})"
            )
        if file.opening.after > state.zxid:
            raise BackupFormatError(
                f"{file.name} goes on from {format_zxid(file.opening.after)}, but what is before "
                f"it ends at {format_zxid(state.zxid)}"
            )

    def _begun(self, file: BackupFile, loader: SnapshotLoader) -> State:
        """Return the state that a whole backup begins with."""
        opening = file.opening
        if not opening.has_snapshot:
            return State()
        try:
            state = loader.finish(opening.after, opening.consistent_at)
        except SnapshotFormatError as error:
            raise SnapshotFormatError(f"{file.name}: {error}") from error
        if self._point.time_ms is not None and state.time_ms > self._point.time_ms:
            self._stop = ZERO  # before everything that is here
        return state

    def _apply(self, state: State, frame: LogFrame, name: str, *, checks: bool) -> None:
        time_ms = self._point.time_ms
        for number, data in enumerate(frame.txns):
            zxid = Zxid(frame.first + number)
            if zxid <= state.zxid:
                continue
            if not checks and self._stop is not None and zxid > self._stop:
                return
            before = state.zxid
            try:
                txn = state.apply(zxid, data)
            except Exception as error:  # assertions of the tree, and errors of the decoder
                raise BackupFormatError(
                    f"{name}: transaction {format_zxid(zxid)} does not fit to what is before it: "
                    f"{type(error).__name__} {error}"
                ) from error
            if self._stop is None and time_ms is not None and txn.time_ms > time_ms:
                self._stop = before

    def _check_reached(self, state: State) -> None:
        """Check that the state is that of the point."""
        where = f"it reaches from {format_zxid(self._begin)} to {format_zxid(state.zxid)}"
        time_ms = self._point.time_ms
        if time_ms is not None:
            if self._stop is None and state.time_ms < time_ms:
                raise RestorePointError(
                    f"{self._name} and what follows it end at {self._show_time(state.time_ms)}, "
                    f"before {self._show_time(time_ms)}; to restore that end, name no time"
                )
            if self._stop is not None and self._stop < self._begin:
                raise RestorePointError(
                    f"{self._name} begins after {self._show_time(time_ms)}; {where}"
                )
        elif self._stop is not None and state.zxid != self._stop:
            raise RestorePointError(
                f"{self._name} has no state as of {format_zxid(self._stop)}; {where}"
            )


def _check_digest(state: State, closing: Closing, name: str) -> None:
    """Check that the state at the end of a file is the one that a server had there."""
    if state.zxid < state.consistent_at:
        raise BackupFormatError(
            f"{name} ends at {format_zxid(state.zxid)}, before its snapshot is consistent"
        )
    if closing.digest is None or state.zxid != closing.zxid:
        return
    state.tree.hash_loaded(len(state.tree.unhashed))  # once; later digests are cheap
    digest = state.digest()
    if digest != closing.digest:
        raise BackupFormatError(
            f"{name} gives another state as of {format_zxid(state.zxid)} than the ensemble had: "
            f"digest {digest:#018x}, not {closing.digest:#018x}"
        )
