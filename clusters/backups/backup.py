"""Take a backup of a running ensemble: one file, with all that was acknowledged before it began.

    1  choose a server in step (server_choice.py), and start a reader beside it (backup_reader.py);
    2  open its newest snapshot, which fixes where the log begins;
    3  ask where the server is now, with the digest of its state there: the backup ends there;
    4  hold the log open from 2 to 3, so that the server may remove what it likes;
    5  copy the snapshot, then the log, a few pieces ahead of what is written, at a pace (pace.py).

If the server's node or disk fails meanwhile, another server is read, from the beginning.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from raykeeper import __version__
from raykeeper.actors.backup_reader import OpenedSnapshot
from raykeeper.clusters.backups.backup_format import BackupWriter, Closing, Opening
from raykeeper.clusters.backups.places import (
    BackupPlaceError,
    OutputFile,
    created_output,
    place_at,
)
from raykeeper.clusters.backups.server_choice import (
    Position,
    ReadServer,
    ask_servers,
    checked_rate,
    choose_server,
    newest_applied,
)
from raykeeper.clusters.backups.source import (
    READ_ERRORS,
    STEP_TIMEOUT_S,
    Source,
    SourceBehindError,
    SourceFiles,
    reason_of,
)
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ZERO, Millis, ServerId, Zxid, format_zxid
from raykeeper.znodes.snapshot import time_in
from raykeeper.znodes.txns import decode_txn

_POLL_S: Final = 0.05


class BackupError(RayKeeperError):
    """Raised when no server could be read to the end of a backup.

    The message has the reason of each server. Nothing was left at the place of the backup. The
    caller may try again.
    """


class BackupProgress(Struct, frozen=True):
    """How far a backup or a restore is."""

    step: str
    """What is being done: `snapshot`, `log`, and others of a restore."""
    done: int
    """Bytes."""
    total: int | None
    """None if it is not known."""


class BackupReport(Struct, frozen=True):
    """A backup that was taken."""

    place: str
    ensemble: str
    server_id: ServerId
    """The server whose files were read."""
    zxid: Zxid
    """The last transaction in it."""
    time_ms: Millis
    """The time of that transaction."""
    digest: int | None
    """Of the state as of `zxid`; None if the server did not know it yet, soon after a start."""
    bytes: int
    """Of the file."""
    txns: int
    """In the part of the log that is in the file."""
    seconds: float


Tell = Callable[[BackupProgress], None]


def take_backup(
    name: str, url: str | Path, tell: Tell | None = None, mb_per_s: float | None = None
) -> BackupReport:
    """Write a backup of an ensemble, which has a leader, to a path or URL; see `Ensemble.backup`.

    Raises:
        ConfigError: the rate is out of bounds.
        EnsembleNotFoundError: no server of the ensemble runs.
        BackupPlaceError: the place has something already, or cannot be written.
        BackupError: no server could be read to the end.
    """
    began = time.monotonic()
    rate = None if mb_per_s is None else checked_rate(mb_per_s)
    place = place_at(url)
    if place.exists():
        raise BackupPlaceError(f"{place.name} exists already; a backup replaces nothing")
    failed: dict[ServerId, str] = {}
    while True:
        answers = ask_servers(name)
        server = choose_server(name, answers, failed)
        if server is None:
            told = "; ".join(f"server {each}: {why}" for each, why in failed.items())
            raise BackupError(f"no server of {name!r} can be read: {told or 'none is in step'}")
        try:
            with SourceFiles(name, server, rate) as files, created_output(place) as output:
                plan = plan_whole(files, newest_applied(answers))
                closing, size = copy_whole(name, files, plan, output, tell or _tell_nobody)
        except READ_ERRORS as error:
            failed[server.server_id] = reason_of(error)
            continue
        return BackupReport(
            place=place.name,
            ensemble=name,
            server_id=server.server_id,
            zxid=closing.zxid,
            time_ms=closing.time_ms,
            digest=closing.digest,
            bytes=size,
            txns=closing.txns,
            seconds=time.monotonic() - began,
        )


class WholePlan(Struct, frozen=True):
    """What a whole backup of a source will hold; the source holds its files open."""

    snapshot: OpenedSnapshot | None
    position: Position
    """Where it ends."""
    log_bytes: int
    """Of the files with the log behind the snapshot."""


def plan_whole(files: Source, at_least: Zxid) -> WholePlan:
    """Open what a whole backup up to `at_least`, or more, needs.

    Raises:
        SourceBehindError: the server does not reach `at_least`.
        StorageError, RayError: its files cannot be read.
    """
    snapshot = files.open_snapshot()
    consistent_at = ZERO if snapshot is None else snapshot.consistent_at
    position = files.position(max(at_least, consistent_at))
    log_bytes = files.open_log(ZERO if snapshot is None else snapshot.zxid, holds=True)
    return WholePlan(snapshot, position, log_bytes)


def copy_whole(
    name: str, files: Source, plan: WholePlan, output: OutputFile, tell: Tell
) -> tuple[Closing, int]:
    """Copy the snapshot and the log behind it; return what it is, and the bytes.

    Raises:
        SourceBehindError: the disk of the server does not get what it has applied.
        StorageError, RayError: its files cannot be read.
        BackupPlaceError: the output cannot be written.
    """
    snapshot, position = plan.snapshot, plan.position
    after, consistent_at = (
        (ZERO, ZERO) if snapshot is None else (snapshot.zxid, snapshot.consistent_at)
    )
    writer = BackupWriter(
        output.write,
        opening_of(name, files.server, after, consistent_at, has_snapshot=snapshot is not None),
    )
    time_ms = Millis(0)
    if snapshot is not None:
        for chunk in files.snapshot_chunks():
            if not writer.snapshot_bytes:
                time_ms = time_in(chunk.data)
            writer.add_chunk(chunk)
            tell(BackupProgress("snapshot", writer.snapshot_bytes, snapshot.size))
    time_ms = copy_log(files, position.zxid, writer, plan.log_bytes, tell) or time_ms
    closing = writer.finish(time_ms=time_ms, epoch=position.epoch, digest=position.digest)
    return closing, writer.bytes


def copy_log(
    files: Source, upto: Zxid, writer: BackupWriter, total: int | None, tell: Tell
) -> Millis:
    """Copy the log up to `upto`, which the server has applied; return the time of the last.

    A server may have applied what its own disk does not have yet, since others have it.

    Raises:
        SourceBehindError: its disk does not get it in time.
        StorageError, RayError: its files cannot be read.
        BackupPlaceError: the output cannot be written.
    """
    deadline = time.monotonic() + STEP_TIMEOUT_S
    time_ms = Millis(0)
    while writer.last < upto:
        before = writer.last
        for log in files.read_log(upto):
            writer.add_log(log)
            time_ms = decode_txn(log.last_txn).time_ms
            tell(BackupProgress("log", writer.log_bytes, total))
        if writer.last > before:
            deadline = time.monotonic() + STEP_TIMEOUT_S
        elif time.monotonic() > deadline:
            raise SourceBehindError(
                f"its log ends at {format_zxid(writer.last)}, before {format_zxid(upto)}"
            )
        else:
            time.sleep(_POLL_S)
    return time_ms


def opening_of(
    name: str, server: ReadServer, after: Zxid, consistent_at: Zxid, *, has_snapshot: bool
) -> Opening:
    """Return the opening of a file that is written now from a server's files."""
    return Opening(
        ensemble=name,
        ensemble_uuid=server.ensemble_uuid,
        server_id=server.server_id,
        program=__version__,
        created_ms=Millis(time.time_ns() // 1_000_000),
        has_snapshot=has_snapshot,
        after=after,
        consistent_at=consistent_at,
        first_uuid=server.first_uuid,
    )


def _tell_nobody(_: BackupProgress) -> None:
    pass
