"""`backup` and `restore`."""

import time
from pathlib import Path
from typing import Annotated

import typer

from raykeeper.commands.declarations.joining import find_ensemble, join
from raykeeper.commands.declarations.options import Address
from raykeeper.commands.output import AsJson, make_console

out = make_console()
err = make_console(stderr=True)


def backup(
    name: Annotated[str, typer.Argument(help="Ensemble.")],
    file: Annotated[
        str, typer.Argument(help="New file; with --follow, folder. A path, or a URL such as s3://…")
    ],
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Archive the log as it grows, until interrupted."),
    ] = False,
    keep_days: Annotated[
        float, typer.Option(min=0.0, help="With --follow: how far back every moment is kept.")
    ] = 7.0,
    full_every_h: Annotated[
        float, typer.Option(min=0.001, help="With --follow: hours between whole backups.")
    ] = 24.0,
    interval_s: Annotated[
        float, typer.Option(min=0.05, help="With --follow: between two looks at the log.")
    ] = 0.5,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=100_000,
            help="MB that are read in a second; else the setting backup_mb_per_s.",
        ),
    ] = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write a backup of a running ensemble into one file, or archive its log as it grows."""
    from raykeeper.clusters.backups.house_keeping import FollowSettings
    from raykeeper.commands.backup_commands import follow_and_tell, print_backup, shown_progress

    join(address)
    ensemble = find_ensemble(name)
    if follow:
        settings = FollowSettings(interval_s, full_every_h * 3600, keep_days * 86_400, rate)
        follow_and_tell(ensemble.name, file, settings, out, as_json=as_json)
        return
    with shown_progress(err) as tell:
        report = ensemble.backup(file, mb_per_s=rate, tell=tell)
    print_backup(out, report, as_json=as_json)


def restore(
    source: Annotated[str, typer.Argument(metavar="FILE", help="Backup, or folder of an archive.")],
    name: Annotated[str, typer.Option("--name", help="Of the new ensemble.")],
    at_zxid: Annotated[str | None, typer.Option(help="As of this zxid, such as 3:17.")] = None,
    at_time: Annotated[
        str | None, typer.Option(help="As of this time (ISO 8601, UTC), or how long ago: 2h.")
    ] = None,
    first_epoch: Annotated[
        int | None, typer.Option(help="Epoch of the restored state; else far above all others.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings, such as ray-config.yaml; else the defaults.")
    ] = None,
    servers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    observers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Overrules the file.")] = None,
    timeout_s: Annotated[float, typer.Option(help="How long the start may take.")] = 60.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Found a new ensemble with the znodes of a backup, and start it."""
    from datetime import UTC, datetime

    from raykeeper.clusters.backups.restore import restore as restore_backup
    from raykeeper.commands.backup_commands import print_restore, shown_progress
    from raykeeper.commands.inspection.arguments import parse_time, parse_zxid
    from raykeeper.zab.ids import Millis

    zxid = None if at_zxid is None else parse_zxid("--at-zxid", at_zxid)
    now = Millis(time.time_ns() // 1_000_000)
    time_ms = None if at_time is None else parse_time("--at-time", at_time, now)
    if zxid is not None and time_ms is not None:
        raise typer.BadParameter("--at-zxid and --at-time exclude each other")
    join(address)
    with shown_progress(err) as tell:
        report = restore_backup(
            source,
            name,
            at_zxid=zxid,
            at_time=None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC),
            first_epoch=first_epoch,
            config=config,
            timeout_s=timeout_s,
            tell=tell,
            servers=servers,
            observers=observers,
            data_dir=data_dir,
        )
    print_restore(out, report, as_json=as_json)
