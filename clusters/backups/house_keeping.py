"""What an archive needs besides the log: whole backups, joined pieces, the end of what is too old.

One thing at a time is done, in a thread of its own, because each may take longer than the log may
wait; a whole backup has a reader of its own.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from raykeeper.clusters.backups.archive_writer import PIECE_BYTES, ArchiveWriter
from raykeeper.clusters.backups.pace import Pace
from raykeeper.clusters.backups.server_choice import ask_servers, choose_server
from raykeeper.clusters.backups.source import READ_ERRORS, Source, SourceFiles, reason_of
from raykeeper.clusters.config import DEFAULTS
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import Millis

_JOIN_S: Final = 60.0
_REMOVE_S: Final = 60.0
_RETRY_S: Final = 60.0
_MS: Final = 1000

Report = tuple[str, str]
"""The kind and the text of what was done."""


class FollowSettings(Struct, frozen=True):
    """How an archive is kept."""

    interval_s: float = 0.5
    """Between two looks at the log. The archive is so much behind, and the time of a write."""
    full_every_s: float = 86_400.0
    """How often a whole backup is taken. A restore reads one, and the log behind it."""
    keep_s: float = 7 * 86_400.0
    """How far back every moment can be restored; what is not needed for that is removed."""
    mb_per_s: float | None = None
    """Megabytes (of 1 000 000 bytes) in a second that are read of the servers; None for the setting
    `backup_mb_per_s` of the ensemble. The log is read by so much faster than it grows."""


class OpenedSource(Source, Protocol):
    """A source that is closed at the end."""

    def close(self) -> None:
        """End what reads it, also while it is being read."""


class HouseKeeper:
    """Does what is due for an archive, one thing after the other."""

    def __init__(
        self,
        ensemble: str,
        settings: FollowSettings,
        open_source: Callable[[], OpenedSource | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`open_source` opens what a whole backup is taken of; None: the files of a server."""
        self._ensemble = ensemble
        self._settings = settings
        self._open_source = open_source or self._open_files
        self._clock = clock
        self._wall = wall
        self._thread: threading.Thread | None = None
        self._reports: list[Report] = []
        self._source: OpenedSource | None = None
        self.mb_per_s = DEFAULTS.backup_mb_per_s
        """How fast pieces are joined."""
        self._full_due: float | None = None
        self._joined_at = self._removed_at = clock()

    def keep(self, archive: ArchiveWriter) -> list[Report]:
        """Begin what is due if nothing is under way; return what was done since the last call."""
        if self._thread is not None and self._thread.is_alive():
            return []
        reports, self._reports, self._thread = self._reports, [], None
        task = self._due(archive)
        if task is not None:
            self._thread = threading.Thread(target=self._run, args=(task,), daemon=True)
            self._thread.start()
        return reports

    def take_full_soon(self) -> None:
        """Have a whole backup be due now, another one than the one that may be under way."""
        self._full_due = self._clock()

    def close(self) -> None:
        """End what is under way."""
        source = self._source
        if source is not None:
            source.close()
        if self._thread is not None:
            self._thread.join()

    def _due(self, archive: ArchiveWriter) -> Callable[[], Report | None] | None:
        now, every_s = self._clock(), self._settings.full_every_s
        if self._full_due is None:  # those of an earlier run count
            age_s = max(0.0, self._wall() - (archive.newest_time_ms or 0) / _MS)
            self._full_due = now + every_s - min(age_s, every_s)
        is_much = archive.small_bytes >= PIECE_BYTES
        if archive.small_count > 1 and (is_much or now >= self._joined_at + _JOIN_S):
            self._joined_at = now
            return lambda: self._join(archive)
        if now >= self._removed_at + _REMOVE_S:
            self._removed_at = now
            return lambda: self._remove(archive)
        if now >= self._full_due:
            self._full_due = retry_at = now + _RETRY_S  # until it is done
            return lambda: self._take_full(archive, now, retry_at)
        return None

    def _run(self, task: Callable[[], Report | None]) -> None:
        try:
            report = task()
        except READ_ERRORS as error:
            report = "problem", f"no whole backup was taken: {reason_of(error)}"
        except RayKeeperError as error:
            report = "problem", str(error)
        if report is not None:
            self._reports.append(report)

    def _take_full(self, archive: ArchiveWriter, begun_at: float, retry_at: float) -> Report | None:
        source = None if archive.end is None else self._open_source()
        if source is None or archive.end is None:
            return None
        known = len(archive.full)
        self._source = source
        try:
            full = archive.add_full(source, archive.end)
        finally:
            source.close()
            self._source = None
        # Counterexample for no look: the log has a hole since this one was begun, and the whole
        # backup behind the hole, which was asked for meanwhile, would come a day later.
        if self._full_due == retry_at:
            self._full_due = begun_at + self._settings.full_every_s
        is_new = len(archive.full) > known
        return (
            ("full", f"took {full.name}, of server {source.server.server_id}") if is_new else None
        )

    def _open_files(self) -> OpenedSource | None:
        server = choose_server(self._ensemble, ask_servers(self._ensemble))
        if server is None:
            return None
        return SourceFiles(self._ensemble, server, self._settings.mb_per_s)

    def _remove(self, archive: ArchiveWriter) -> Report | None:
        before_ms = Millis(round((self._wall() - self._settings.keep_s) * _MS))
        names = archive.remove_older(before_ms)
        return ("removed", f"removed {len(names)} files that are too old") if names else None

    def _join(self, archive: ArchiveWriter) -> None:
        archive.join_small(Pace(self.mb_per_s).keep)
