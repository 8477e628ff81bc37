"""What is in an ensemble: `sessions`, `locks`, `watches`, `tree`; in a server's folder: `log`."""

import time
from typing import Annotated

import typer

from raykeeper.commands.declarations.joining import find_ensemble, find_place, join
from raykeeper.commands.declarations.options import Address, Limit, Name, Place, WalkTimeout
from raykeeper.commands.exit_codes import exit_unless
from raykeeper.commands.inspection.command import Folder
from raykeeper.commands.output import AsJson, make_console, print_document, print_line, print_text

out = make_console()


def sessions(
    name: Name = None,
    limit: Limit = 1_000,
    after: Annotated[
        str, typer.Option(help="Only sessions that were opened after this one, such as 0x1f.")
    ] = "0",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List who is connected: each session with its process, its server and what it waits for."""
    from raykeeper.clusters.admin import admin_of
    from raykeeper.commands.tables import session_argument, sessions_document, show_sessions

    first = session_argument(after)
    join(address)
    ensemble = find_ensemble(name).name
    table = admin_of(ensemble).sessions(limit, first)
    if as_json:
        print_document(sessions_document(ensemble, table))
    else:
        show_sessions(out, table)
    exit_unless(table.told_by is not None)


def locks(
    place: Place = None,
    limit: Limit = 1_000,
    contenders: Annotated[
        int, typer.Option(min=1, max=1_000, help="Show so many of each queue at most.")
    ] = 10,
    timeout_s: WalkTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List who holds a lock and who waits for it, since when, and in which task or actor."""
    from raykeeper.commands.tables import locks_document, show_locks

    join(address)
    ensemble, path, admin = find_place(place, timeout_s)
    table = admin.locks(path or "/", limit, contenders)
    if as_json:
        print_document(locks_document(ensemble, table))
    else:
        show_locks(out, table)
    exit_unless(table.told_by is not None)


def watches(
    place: Place = None,
    session: Annotated[
        str | None, typer.Option(help="Only watches of this session, such as 0x1f.")
    ] = None,
    limit: Limit = 1_000,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List who watches: all watches, or those that a change of a znode concerns."""
    from raykeeper.commands.tables import session_argument, show_watches, watches_document

    only = None if session is None else session_argument(session)
    join(address)
    ensemble, path, admin = find_place(place)
    table = admin.watches(path, only, limit)
    if as_json:
        print_document(watches_document(ensemble, table))
    else:
        show_watches(out, table)
    # Without a row nobody watches only if every server has said so.
    exit_unless(bool(table.rows) or table.is_complete)


def tree(
    place: Place = None,
    depth: Annotated[
        int, typer.Option(min=0, max=20, help="Levels below PLACE that are shown.")
    ] = 1,
    largest: Annotated[
        int, typer.Option(min=1, max=1_000, help="Show so many children of each znode at most.")
    ] = 20,
    timeout_s: WalkTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Show the sizes of a subtree and of its largest parts."""
    from raykeeper.commands.tables import show_tree, tree_document

    join(address)
    ensemble, path, admin = find_place(place, timeout_s)
    table = admin.tree_sizes(path or "/", depth, largest)
    if as_json:
        print_document(tree_document(ensemble, table))
    else:
        show_tree(out, table)
    exit_unless(table.told_by is not None)


def log(
    folder: Folder,
    path: Annotated[str | None, typer.Option(help="Only changes of this znode.")] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="With --path: also of the znodes below it.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    since: Annotated[
        str | None, typer.Option(help="From this time on (ISO 8601, UTC), or how long ago: 2h.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to this time.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only so many, the newest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell from the log of a server who changed what, from where, with what outcome."""
    from raykeeper.actors.disk.folder_reader import FolderReader
    from raykeeper.commands.inspection.arguments import parse_path, parse_session, parse_time
    from raykeeper.commands.inspection.audit_log import (
        Wanted,
        entry_document,
        entry_line,
        print_log,
        reach_document,
        reach_lines,
    )
    from raykeeper.zab.ids import Millis

    now = Millis(time.time_ns() // 1_000_000)
    wanted = Wanted(
        None if path is None else parse_path("--path", path),
        recursive,
        None if session is None else parse_session("--session", session),
        None if since is None else parse_time("--since", since, now),
        None if until is None else parse_time("--until", until, now),
    )
    reader = FolderReader(folder)
    if as_json:
        reach = print_log(reader, wanted, lambda entry: print_line(entry_document(entry)), last)
        print_line(reach_document(reach, wanted))
    else:
        reach = print_log(reader, wanted, lambda entry: print_text(entry_line(entry)), last)
        for line in reach_lines(reach, wanted):
            print_text(line, is_error=True)
    exit_unless(reach.is_conclusive(wanted))
