"""What an ensemble does and lacks: `status`, `doctor`, `top`, `events`, `ui`, `grafana`."""

import math
import time
from pathlib import Path
from typing import Annotated

import typer

from raykeeper.commands.declarations.joining import find_ensemble, join
from raykeeper.commands.declarations.options import DAY_S, Address, Name, WalkTimeout
from raykeeper.commands.exit_codes import NO_QUORUM, exit_unless
from raykeeper.commands.output import AsJson, make_console, print_document
from raykeeper.commands.packages import needed_package

out = make_console()


def status(name: Name = None, address: Address = None, as_json: AsJson = False) -> None:
    """Show the servers of an ensemble. Exits with 4 when it has no leader."""
    from raykeeper.commands.keeper_reports import keeper_document, show_keeper
    from raykeeper.commands.reports import show_status, status_document

    join(address)
    ensemble = find_ensemble(name)
    report, keeper = ensemble.status(), ensemble.keeper()
    if as_json:
        print_document({**status_document(report), "keeper": keeper_document(keeper)})
    else:
        show_status(out, report)
        show_keeper(out, keeper)
    if report.leader is None:
        raise typer.Exit(NO_QUORUM)


def doctor(
    name: Name = None,
    timeout_s: Annotated[
        float,
        typer.Option(min=5.0, max=DAY_S, help="How long servers and nodes may take together."),
    ] = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong with an ensemble: what it means, what to do. Exits with 0, 1 or 2."""
    from raykeeper.clusters.doctor import diagnose
    from raykeeper.commands.doctor import diagnosis_document, exit_code, show_diagnosis

    join(address)
    diagnosis = diagnose(find_ensemble(name), timeout_s=timeout_s)
    if as_json:
        print_document(diagnosis_document(diagnosis))
    else:
        show_diagnosis(out, diagnosis)
    raise typer.Exit(exit_code(diagnosis))


def top(
    name: Name = None,
    interval_s: Annotated[float, typer.Option(min=0.1, max=DAY_S, help="Between two looks.")] = 2.0,
    looks: Annotated[
        int | None, typer.Option(min=1, help="End after so many; else when interrupted.")
    ] = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Show what each server does: requests and their times, lag, connections, the tree; live."""
    from raykeeper.clusters.admin import admin_of
    from raykeeper.commands.top import run_top

    join(address)
    found = find_ensemble(name).name
    is_told = run_top(
        found,
        lambda before: admin_of(found).load(before),  # a server may have moved since
        lambda: time.sleep(interval_s),
        out,
        looks=looks,
        as_json=as_json,
    )
    exit_unless(is_told)


def events(
    name: Name = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones until interrupted.")
    ] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List what the keeper of an ensemble has decided, the oldest first."""
    from raykeeper.client import ClientState
    from raykeeper.clusters.keeper_journal import Journal
    from raykeeper.commands.event_follower import follow_entries
    from raykeeper.commands.keeper_reports import (
        events_document,
        print_new_events,
        show_events,
    )

    join(address)
    ensemble = find_ensemble(name)
    # Without a leader too: that is when somebody asks what the keeper has done.
    with ensemble.connect(read_only=True) as client:
        if follow:
            for new in follow_entries(client):
                print_new_events(out, new, as_json=as_json)
        entries = Journal(client).read_entries()
        has_leader = client.state == ClientState.CONNECTED
    known = {"has_keeper": ensemble.keeper() is not None, "has_leader": has_leader}
    if as_json:
        print_document(events_document(ensemble.name, entries, **known))
    else:
        show_events(out, entries, **known)


def ui(
    name: Name = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: one that is free.")] = 8267,
    edit: Annotated[
        bool, typer.Option("--edit", help="Let viewers create, change and delete znodes.")
    ] = False,
    interval_s: Annotated[float, typer.Option(min=0.1, help="Between two looks.")] = 2.0,
    looks: Annotated[int, typer.Option(min=2, help="Looks that the plots show.")] = 300,
    viewers: Annotated[
        int, typer.Option(min=1, help="So many pages, and sessions of viewers, at most.")
    ] = 20,
    idle_s: Annotated[
        float, typer.Option(min=1.0, help="When the session of an idle viewer is closed.")
    ] = 900.0,
    timeout_s: WalkTimeout = 30.0,
    backups: Annotated[
        list[str] | None,
        typer.Option(metavar="PLACE", help="Show the backups or the archive there; repeatable."),
    ] = None,
    backup_files: Annotated[
        int, typer.Option(min=1, help="So many files of each place are read at most.")
    ] = 200,
    backup_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="How long reading a place may take.")
    ] = 10.0,
    address: Address = None,
) -> None:
    """Serve a page on this machine that shows an ensemble, and the same data as JSON."""
    if not all(map(math.isfinite, (interval_s, idle_s, timeout_s, backup_timeout_s))):
        raise typer.BadParameter("a time is a number of seconds, not nan or inf")
    with needed_package("aiohttp", "ui"):
        from raykeeper.commands.ui.command import serve_page
    from raykeeper.commands.ui.settings import PageSettings

    join(address)
    settings = PageSettings(
        may_edit=edit,
        interval_s=interval_s,
        looks_kept=looks,
        viewers_max=viewers,
        idle_s=idle_s,
        backups=tuple(dict.fromkeys(backups or ())),
        backup_files_max=backup_files,
        backup_timeout_s=backup_timeout_s,
    )
    serve_page(find_ensemble(name), settings, port, timeout_s, out)


def grafana(
    install: Annotated[
        bool, typer.Option("--install", help="Write it where Ray's Grafana loads dashboards from.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Write it into this folder; else where Ray looks for it.")
    ] = None,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Print the alert rules for Prometheus instead.")
    ] = False,
    address: Address = None,
) -> None:
    """Print the Grafana dashboard of the metrics, or install it for Ray's Grafana."""
    from raykeeper.commands.grafana.provisioning import (
        alerts_text,
        dashboard_text,
        install_dashboard,
        session_folder,
        told_folder,
    )

    if alerts and (install or folder is not None):
        raise typer.BadParameter("--alerts prints, and Ray has no place for alert rules")
    if alerts or not (install or folder is not None):
        typer.echo(alerts_text() if alerts else dashboard_text(), nl=False)
        return
    found = folder or told_folder()
    if found is None:
        from raykeeper.links.ray_internals import session_log_folder

        join(address)
        found = session_folder(session_log_folder())
    out.print(f"wrote {install_dashboard(found)}; Grafana shows it within half a minute")
