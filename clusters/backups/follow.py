"""Archive the log of a running ensemble as it grows, at most a second behind.

    1  open the archive (archive_writer.py), or begin one;
    2  choose a server in step, and read its log from where the archive ends;
    3  again and again: ask that server what it has applied, and archive the log up to there;
    4  now and then: join small pieces, take a whole backup, remove what retention lets go.

A server that ends, falls out of step, or leads while another one follows, is left for another one;
the archive goes on from its own end, so nothing is missing or comes twice. What a server has pruned
before it was archived is lost to the archive: a whole backup is taken, and this is told. A whole
backup is taken beside the log, also the first one, so the archive never waits for it. While no
server is in step, or the archive cannot be written, the same is tried again.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from raykeeper.actors.disk.storage_errors import LogPruned
from raykeeper.client.errors import EnsembleNotFoundError
from raykeeper.clusters.backups.archive_writer import ArchiveWriter
from raykeeper.clusters.backups.backup_format import BackupFormatError
from raykeeper.clusters.backups.house_keeping import FollowSettings, HouseKeeper
from raykeeper.clusters.backups.pace import MB, LogGrowth
from raykeeper.clusters.backups.places import BackupPlaceError, place_at
from raykeeper.clusters.backups.server_choice import (
    ask_servers,
    checked_rate,
    choose_server,
    in_order,
    newest_applied,
)
from raykeeper.clusters.backups.source import (
    READ_ERRORS,
    STEP_TIMEOUT_S,
    SourceBehindError,
    SourceFiles,
    reason_of,
)
from raykeeper.clusters.config import DEFAULTS
from raykeeper.zab.ids import ServerId, Zxid, format_zxid

_RETRY_S: Final = 1.0
_CALM_S: Final = 60.0
"""It is told again that the log grows faster than the rate when it did not for so long."""
_LOOK_ROUND_S: Final = 5.0
"""How often the other servers are asked while the one that is read leads."""


class FollowEvent(Struct, frozen=True):
    """What an operator should know of an archive that is kept."""

    kind: str
    """begun, resumed, archived, full, pruned, server, removed, faster, problem."""
    text: str
    zxid: Zxid | None
    """The end of the archive."""


Say = Callable[[FollowEvent], None]


def follow(
    name: str,
    url: str | Path,
    settings: FollowSettings | None = None,
    *,
    say: Say | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Keep an archive of an ensemble until `stop` is set, or the caller is interrupted.

    Args:
        name: The ensemble.
        url: The folder of the archive, a path of this machine or a URL of fsspec; it is made if it
            is missing, and continued if it is there.
        settings: How the archive is kept.
        say: Called with what an operator should know, and with each piece that is archived; from
            one thread at a time.
        stop: Set it to end.

    Raises:
        EnsembleNotFoundError: no server of the ensemble runs at the beginning.
        BackupPlaceError: the folder is not fit for the archive, or cannot be written at the
            beginning. Later this is told, and tried again.
        ConfigError: the rate is out of bounds.
        BackupFormatError: a whole backup in it is damaged.
    """
    if settings is not None and settings.mb_per_s is not None:
        checked_rate(settings.mb_per_s)
    at_least = newest_applied(ask_servers(name))
    tell = say or (lambda _: None)
    stop = stop or threading.Event()
    _Follower(name, str(url), settings or FollowSettings(), tell, stop).run(at_least)


class _Follower:
    """Keeps one archive."""

    def __init__(
        self, name: str, url: str, settings: FollowSettings, say: Say, stop: threading.Event
    ) -> None:
        self._name = name
        self._place = place_at(url)
        self._settings = settings
        self._tell = say
        self._stop = stop
        self._archive: ArchiveWriter | None = None
        self._source: SourceFiles | None = None
        self._left: ServerId | None = None
        """The server that was left last: another one is chosen if there is one."""
        self._is_begun = False
        self._problem = ""
        self._house = HouseKeeper(name, settings)
        self._mb_per_s = DEFAULTS.backup_mb_per_s
        self._growth = LogGrowth()
        self._fast_at: float | None = None
        """When the log grew faster than the rate, the last time."""
        self._grown_at = self._looked_at = time.monotonic()

    def run(self, at_least: Zxid) -> None:
        """Go on until it is stopped."""
        try:
            while not self._stop.is_set():
                due = time.monotonic() + self._settings.interval_s
                self._step(at_least)
                self._stop.wait(max(0.0, due - time.monotonic()))
        finally:
            self._house.close()
            self._close_source()

    def _step(self, at_least: Zxid) -> None:
        try:
            if self._source is None:
                self._begin(at_least)
            self._archive_new()
        except READ_ERRORS as error:
            self._leave(reason_of(error))
        except EnsembleNotFoundError as error:
            self._leave(str(error))
        except (BackupPlaceError, BackupFormatError) as error:
            if self._archive is None:
                raise
            self._leave(str(error), of_server=False)
            self._stop.wait(_RETRY_S)
        else:
            self._problem = ""
        if self._archive is not None:
            for kind, text in self._house.keep(self._archive):
                self._say(kind, text)

    def _begin(self, at_least: Zxid) -> None:
        """Choose a server, and find the place in its log; a new one if there is none any more."""
        answers = ask_servers(self._name)
        avoided = [] if self._left is None else [self._left]
        server = choose_server(self._name, answers, avoided) or choose_server(self._name, answers)
        if server is None:
            raise SourceBehindError("no server is in step")
        if self._archive is None:
            self._archive = ArchiveWriter(self._place, self._name, server.ensemble_uuid)
        archive = self._archive
        if archive.uuid != server.ensemble_uuid:
            raise BackupPlaceError(
                f"{self._name!r} is another ensemble now ({server.ensemble_uuid}); it needs "
                "an archive of its own"
            )
        self._source = source = SourceFiles(self._name, server, self._settings.mb_per_s)
        self._mb_per_s = self._house.mb_per_s = self._settings.mb_per_s or server.mb_per_s
        points = archive.resume_points
        if self._is_begun and archive.end is not None:
            points = [archive.end]
        problem = ""
        for point in points:
            try:
                source.open_log(point, holds=True)
            except LogPruned as error:
                problem = str(error)
                continue
            archive.end = point
            source.open_log(point, holds=False)
            how = "server" if self._is_begun else "resumed"
            self._say(how, f"goes on from {format_zxid(point)}, reads server {server.server_id}")
            break
        else:
            # The log goes on at once, while a whole backup is taken, which ends later in it.
            first = source.position(at_least).zxid
            source.open_log(first, holds=False)
            archive.restart(first)
            self._house.take_full_soon()
            if points:
                text = f"what follows {format_zxid(points[-1])} is missing in the archive"
                self._say("pruned", f"{problem}: {text}, which goes on with a whole backup")
            else:
                text = f"begins at {format_zxid(first)} with a whole backup"
                self._say("begun", f"{text}, reads server {server.server_id}")
        self._is_begun = True
        self._grown_at = self._looked_at = time.monotonic()

    def _archive_new(self) -> None:
        """Archive what the server has applied since."""
        archive, source = self._archive, self._source
        assert archive is not None and archive.end is not None and source is not None
        position, role = source.now()
        if position is None:
            raise SourceBehindError(f"it is not in step: {role}")
        now, before = time.monotonic(), archive.end
        self._set_pace(source, position.zxid, now)
        if position.zxid > before:
            logs = self._growth.counted(source.read_log(position.zxid))
            archive.add_log(logs, source, position)
        if archive.end > before:
            self._say("archived", f"archived up to {format_zxid(archive.end)}")
        if archive.end >= position.zxid:
            self._grown_at = now
        elif now > self._grown_at + STEP_TIMEOUT_S and archive.end == before:
            raise SourceBehindError(
                f"its log ends at {format_zxid(before)}, before {format_zxid(position.zxid)}"
            )
        if role == "leader" and now > self._looked_at + _LOOK_ROUND_S:
            self._looked_at = now
            if in_order(ask_servers(self._name), [source.server.server_id]):
                self._left = source.server.server_id
                self._close_source()

    def _set_pace(self, source: SourceFiles, applied: Zxid, now: float) -> None:
        """Read twice as fast as the log grows, and by the rate more; tell when it grows by more."""
        self._growth.look(applied, now)
        grown = self._growth.bytes_per_s
        source.pace.bytes_per_s = self._mb_per_s * MB + 2 * grown
        if grown > self._mb_per_s * MB:
            was_told = self._fast_at is not None and now < self._fast_at + _CALM_S
            self._fast_at = now
            if not was_told:
                text = f"{grown / MB:.1f} MB a second, more than the rate of {self._mb_per_s:g} MB"
                self._say("faster", f"the log grows by {text}; it is archived as fast as it grows")

    def _leave(self, reason: str, *, of_server: bool = True) -> None:
        """Leave the server, and tell the problem unless it was told just before."""
        if self._source is not None:
            server = self._source.server.server_id
            self._left = server if of_server else None
            reason = f"server {server}: {reason}" if of_server else reason
        self._close_source()
        if reason != self._problem:
            self._problem = reason
            self._say("problem", reason)

    def _close_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _say(self, kind: str, text: str) -> None:
        end = None if self._archive is None else self._archive.end
        self._tell(FollowEvent(kind, text, end))
