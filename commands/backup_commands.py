"""`raykeeper backup` and `raykeeper restore`: what they show while they run, and at the end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.status import Status

from raykeeper.clusters.backups.backup import BackupProgress, BackupReport, Tell
from raykeeper.clusters.backups.follow import FollowEvent, follow
from raykeeper.clusters.backups.house_keeping import FollowSettings
from raykeeper.clusters.backups.restore import RestoreReport, format_time
from raykeeper.commands.output import Document, print_document, print_line
from raykeeper.zab.ids import Millis, format_zxid


@contextmanager
def shown_progress(console: Console) -> Iterator[Tell]:
    """Show the steps of a backup or restore on a terminal, each with its bytes, in the block."""
    columns = (
        TextColumn("{task.description}", markup=False),
        *(BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn()),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks: dict[str, int] = {}

        def tell(told: BackupProgress) -> None:
            if told.step not in tasks:
                tasks[told.step] = progress.add_task(told.step, total=told.total)
            task = progress.tasks[tasks[told.step]]
            total = None if told.total is None else max(told.total, told.done)
            progress.update(task.id, completed=told.done, total=total)

        yield tell


def print_backup(out: Console, report: BackupReport, *, as_json: bool) -> None:
    """Print what was backed up."""
    if as_json:
        print_document(backup_document(report))
        return
    out.print(
        f"wrote {report.place}: {report.ensemble} as of {format_zxid(report.zxid)}, "
        f"{report.bytes:,} bytes in {report.seconds:.1f} s, read from server {report.server_id}"
    )
    if report.digest is None:
        out.print("without a digest: the server did not know it yet")


def backup_document(report: BackupReport) -> Document:
    """Return the document of a backup."""
    return {
        "place": report.place,
        "ensemble": report.ensemble,
        "server_id": report.server_id,
        "zxid": format_zxid(report.zxid),
        "time": format_time(report.time_ms),
        "digest": None if report.digest is None else f"{report.digest:#018x}",
        "bytes": report.bytes,
        "txns": report.txns,
        "seconds": report.seconds,
    }


def follow_and_tell(
    name: str, folder: str, settings: FollowSettings, out: Console, *, as_json: bool
) -> None:
    """Keep an archive until interrupted, and print what happens to it.

    On a terminal the last line shows how far the log is archived; elsewhere, and with `as_json`,
    each piece has no line.
    """
    with out.status("") if out.is_terminal and not as_json else nullcontext() as status:
        follow(name, folder, settings, say=teller(out, status, as_json=as_json))


def teller(out: Console, status: Status | None, *, as_json: bool) -> Callable[[FollowEvent], None]:
    """Return what prints the events of an archive."""

    def tell(event: FollowEvent) -> None:
        if event.kind == "archived":
            if status is not None:
                status.update(event.text)
        elif as_json:
            print_line(event_document(event))
        else:
            out.print(f"{format_time(Millis(time.time_ns() // 1_000_000))} {event.text}")

    return tell


def event_document(event: FollowEvent) -> Document:
    """Return the document of an event of an archive."""
    return {
        "time": format_time(Millis(time.time_ns() // 1_000_000)),
        "kind": event.kind,
        "text": event.text,
        "zxid": None if event.zxid is None else format_zxid(event.zxid),
    }


def print_restore(out: Console, report: RestoreReport, *, as_json: bool) -> None:
    """Print what was restored."""
    if as_json:
        print_document(restore_document(report))
        return
    out.print(
        f"restored {report.origin} as of {format_zxid(report.zxid)} "
        f"({format_time(report.time_ms)}) as {report.ensemble.name}, which runs: "
        f"{report.znodes:,} znodes, {report.sessions_ended} sessions ended; all zxids will be "
        f"above {format_zxid(report.first_zxid)}"
    )
    if report.salted_acls:
        out.print(
            f"{report.salted_acls} znodes have ACL entries of the scheme scrypt: the passwords of "
            f"{report.origin} prove them here, so trust this ensemble's nodes as those"
        )


def restore_document(report: RestoreReport) -> Document:
    """Return the document of a restore."""
    return {
        "ensemble": report.ensemble.name,
        "origin": report.origin,
        "zxid": format_zxid(report.zxid),
        "time": format_time(report.time_ms),
        "first_zxid": format_zxid(report.first_zxid),
        "znodes": report.znodes,
        "sessions_ended": report.sessions_ended,
        "salted_acls": report.salted_acls,
        "seconds": report.seconds,
    }
