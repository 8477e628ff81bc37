"""The tables of `sessions`, `locks`, `watches`, `tree`: rows to read, or a document for `--json`.

Identities, paths and addresses are what clients say, so characters that a terminal would obey are
shown as Python writes them (`escaped`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.clusters.wait_graph import find_cycles, waits_of
from raykeeper.commands.output import Document, escaped, print_table
from raykeeper.zab.ids import format_zxid
from raykeeper.znodes.requests import SessionId

DOWN: Final = "down"
"""The role of a server that does not answer; see `ServerState`."""

if TYPE_CHECKING:
    from raykeeper.clusters.admin import (
        ClientPlace,
        LocksTable,
        ServerState,
        SessionEntry,
        SessionsTable,
        TreeTable,
        WatchesTable,
    )
    from raykeeper.server.admin_queries import ContenderRow, LockRow, TreeRow
    from raykeeper.server.connection_stats import ConnectionStats


def show_sessions(console: Console, table: "SessionsTable") -> None:
    """Print a row for each session, and what is not shown."""
    if table.told_by is None:
        console.print(f"{_count(table.total, 'connection')}; no server can list the sessions")
    else:
        console.print(f"{_count(table.total, 'session')}, as server {table.told_by} knows them")
    rows = _new_table(
        ("session", "client", "server", "since (UTC)", "users"),
        ("timeout", "ephemerals", "watches", "waiting"),
    )
    nowhere = _nowhere(table.servers)
    for entry in table.rows:
        session, connection = entry.session, entry.connection
        rows.add_row(
            "none" if session is None else session_text(session.session_id),
            client_text(connection) if connection else escaped(session.host if session else ""),
            nowhere if entry.server_id is None else str(entry.server_id),
            _short_time(connection.opened_at_ms) if connection else "",
            escaped(", ".join(session.users)) if session else "",
            f"{session.timeout_ms / 1000:g} s" if session else "",
            str(session.ephemerals) if session else "",
            str(connection.watches) if connection else "",
            str(connection.outstanding) if connection else "",
        )
    left_out = _left_out(table.left_out, "session", "--limit or --after")
    _print_rows(console, rows, left_out, table.servers)


def sessions_document(name: str, table: "SessionsTable") -> Document:
    """Return the same rows."""
    return {
        "name": name,
        "servers": servers_document(table.servers),
        "told_by": table.told_by,
        "sessions": [_session_document(entry) for entry in table.rows],
        "total": table.total,
        "left_out": table.left_out,
    }


def show_locks(console: Console, table: "LocksTable") -> None:
    """Print the holders of each lock and those who wait, in the order of its queue."""
    if table.told_by is None:
        console.print("no server can tell the locks")
    else:
        locks = _count(len(table.rows) + table.left_out, "lock")
        at_least = "" if table.is_all else "at least "
        console.print(f"{at_least}{locks}, as server {table.told_by} knows them")
    rows = _new_table(
        ("lock", "kind", "state", "session", "since (UTC)", "token", "server", "client"),
        (),
    )
    rows.add_column("identifier", no_wrap=True)
    for lock in table.rows:
        place = escaped(lock.path), _kind_text(lock)
        for each in lock.contenders:
            rows.add_row(*place, *_contender_cells(each, table))
            place = "", ""
        if hidden := lock.holders + lock.waiting - len(lock.contenders):
            holding = lock.holders - sum(each.holds for each in lock.contenders)
            also = f", {holding} of them hold it" if holding > 0 else ""
            rows.add_row("", "", f"{hidden} more{also}")
    _print_rows(console, rows, _left_out(table.left_out, "lock", "--limit"), table.servers)
    for sessions in find_cycles(table.rows):
        waiting = ", ".join(map(session_text, sessions))
        console.print(f"these sessions wait for each other: {waiting}", style="yellow")


def locks_document(name: str, table: "LocksTable") -> Document:
    """Return the same locks."""
    return {
        "name": name,
        "servers": servers_document(table.servers),
        "told_by": table.told_by,
        "locks": [
            {
                "path": lock.path,
                "kind": lock.kind,
                "permits": lock.permits,
                "holders": lock.holders,
                "waiting": lock.waiting,
                "contenders": [
                    {**_contender_document(each, table), "waits_for": waits}
                    for each, waits in zip(lock.contenders, waits_of(lock), strict=True)
                ],
            }
            for lock in table.rows
        ],
        "cycles": [[*map(session_text, sessions)] for sessions in find_cycles(table.rows)],
        "left_out": table.left_out,
        "is_all": table.is_all,
    }


def show_watches(console: Console, table: "WatchesTable") -> None:
    """Print a row for each watch."""
    told = f"{_count(len(table.rows) + table.left_out, 'watch', 'watches')} of {table.total}"
    console.print(f"{told} on the servers that answer")
    rows = _new_table(("server", "session", "kind", "path", "client"), ())
    for server, watch in table.rows:
        place = table.clients.get(watch.session_id)
        rows.add_row(
            str(server),
            session_text(watch.session_id) if watch.session_id else "none",
            watch.kind,
            escaped(watch.path),
            "" if place is None else client_text(place.connection),
        )
    left_out = _left_out(table.left_out, "watch", "--limit, --session or a path", "watches")
    _print_rows(console, rows, left_out, table.servers)


def watches_document(name: str, table: "WatchesTable") -> Document:
    """Return the same watches."""
    watches = []
    for server, watch in table.rows:
        watches.append(
            {
                "server_id": server,
                "session_id": session_text(watch.session_id) if watch.session_id else None,
                "kind": watch.kind,
                "path": watch.path,
                **_client_document(table.clients.get(watch.session_id)),
            }
        )
    return {
        "name": name,
        "servers": servers_document(table.servers),
        "watches": watches,
        "total": table.total,
        "left_out": table.left_out,
    }


def show_tree(console: Console, table: "TreeTable") -> None:
    """Print the subtree and its largest parts, each below the part that it belongs to."""
    if table.row is None:
        console.print("no server can tell the sizes of the tree")
        show_servers(console, table.servers)
        return
    moment = f"at {format_zxid(table.begun_at)}"
    if table.ended_at != table.begun_at:
        moment = f"between {format_zxid(table.begun_at)} and {format_zxid(table.ended_at)}"
    console.print(f"as server {table.told_by} knew it {moment}")
    rows = _new_table(("znode",), ("znodes", "bytes", "own bytes", "children", "ephemerals"))
    _add_tree_rows(rows, table.row, 0)
    _print_rows(console, rows, "", table.servers)


def tree_document(name: str, table: "TreeTable") -> Document:
    """Return the same sizes."""
    return {
        "name": name,
        "servers": servers_document(table.servers),
        "told_by": table.told_by,
        "begun_at": format_zxid(table.begun_at),
        "ended_at": format_zxid(table.ended_at),
        "tree": msgspec.to_builtins(table.row),
    }


def show_servers(console: Console, servers: Sequence["ServerState"]) -> None:
    """Print which servers could not tell anything, or only what may be old."""
    for problem in server_problems(servers):
        console.print(problem)


def server_problems(servers: Sequence["ServerState"]) -> list[Text]:
    """Return a line for each server with a problem, and one if none has a leader."""
    lines = []
    for state in servers:
        if state.problem:
            problem = escaped(state.problem)
            what = f"is down: {problem}" if state.role == DOWN else problem
            lines.append(f"server {state.server_id} {what}")
    if not any(state.is_active for state in servers):
        lines.append("no server has a leader: what is shown may be old")
    return [Text(line, style="yellow") for line in lines]


def servers_document(servers: Sequence["ServerState"]) -> list[dict[str, Any]]:
    """Return what each server said of itself."""
    return [
        {
            "server_id": state.server_id,
            "role": state.role,
            "has_leader": state.is_active,
            "last_zxid": format_zxid(state.zxid),
            "problem": state.problem,
        }
        for state in servers
    ]


def client_text(connection: "ConnectionStats") -> str:
    """Return who is at the other end: the line of a native client, the address of another."""
    place = connection.host if not connection.port else f"{connection.host}:{connection.port}"
    if connection.port:
        shown = f"client of ZooKeeper at {place}"
    else:
        shown = connection.identity or place or "unknown"
    state = "" if connection.phase == "connected" else f" ({connection.phase})"
    return escaped(f"{shown}{state}")


def session_text(session_id: int) -> str:
    """Return a session id as the shell shows it."""
    return f"{session_id:#x}"


def session_argument(text: str) -> SessionId:
    """Return the session id in an argument, decimal or as the tables show it.

    Raises:
        typer.BadParameter: it is none.
    """
    try:
        return SessionId(int(text, 0))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no session id such as 0x1f") from None


def _session_document(entry: "SessionEntry") -> dict[str, Any]:
    session, connection = entry.session, entry.connection
    document: dict[str, Any] = {
        "session_id": None if session is None else session_text(session.session_id),
        "server_id": entry.server_id,
        "identity": connection.identity if connection else "",
        "host": connection.host if connection else session.host if session else "",
        "port": connection.port if connection else 0,
        "phase": connection.phase if connection else None,
        "connected_at": _iso_time(connection.opened_at_ms) if connection else None,
        "timeout_ms": session.timeout_ms if session else connection.timeout_ms if connection else 0,
        "users": session.users if session else [],
        "ephemerals": session.ephemerals if session else 0,
    }
    for field in ("watches", "outstanding", "packets_received", "packets_sent"):
        document[field] = getattr(connection, field) if connection else None
    return document


def _kind_text(lock: "LockRow") -> str:
    if lock.permits is None:
        return lock.kind
    return f"{lock.kind} of {lock.permits or 'an unknown number'}"


def _contender_cells(each: "ContenderRow", table: "LocksTable") -> list[str]:
    place = table.clients.get(each.session_id)
    nowhere = _nowhere(table.servers) if each.session_id else ""
    identifier = "(hidden by its ACL)" if each.identifier is None else each.identifier
    if place is not None and place.connection.identity == identifier:
        identifier = ""  # it is the client's line
    state = "holds" if each.holds else "waits"
    return [
        f"{state} ({each.mode})" if each.mode else state,
        session_text(each.session_id) if each.session_id else "none",
        _short_time(each.since_ms),
        format_zxid(each.token),
        nowhere if place is None else str(place.server_id),
        "" if place is None else client_text(place.connection),
        escaped(identifier),
    ]


def _contender_document(each: "ContenderRow", table: "LocksTable") -> dict[str, Any]:
    place = table.clients.get(each.session_id)
    return {
        "name": each.name,
        "state": "holds" if each.holds else "waits",
        "mode": each.mode,
        "session_id": session_text(each.session_id) if each.session_id else None,
        "since": _iso_time(each.since_ms),
        "token": format_zxid(each.token),
        "identifier": each.identifier,
        "server_id": None if place is None else place.server_id,
        **_client_document(place),
    }


def _client_document(place: "ClientPlace | None") -> dict[str, Any]:
    if place is None:
        return {"identity": "", "host": "", "port": 0}
    connection = place.connection
    return {"identity": connection.identity, "host": connection.host, "port": connection.port}


def _nowhere(servers: Sequence["ServerState"]) -> str:
    """Return where a session without a known connection is: a silent server may have it."""
    return "unknown" if any(each.role == DOWN for each in servers) else "none"


def _add_tree_rows(rows: Table, row: "TreeRow", level: int) -> None:
    name = row.path[row.path.rindex("/") + 1 :] if level else row.path
    numbers = (row.znodes, row.data_bytes, row.value_bytes, row.children, row.ephemerals)
    rows.add_row(f"{'  ' * level}{escaped(name)}", *map(str, numbers))
    for each in row.rows:
        _add_tree_rows(rows, each, level + 1)
    if row.left_out:
        more = f"{'  ' * (level + 1)}{row.left_out} more"
        rows.add_row(more, str(row.left_out_znodes), str(row.left_out_bytes))


def _new_table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in texts:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _left_out(number: int, what: str, how: str, plural: str = "") -> str:
    return f"{_count(number, what, plural)} more; see {how}" if number else ""


def _print_rows(
    console: Console, rows: Table, left_out: str, servers: Sequence["ServerState"]
) -> None:
    """Print a table, what it leaves out, and which servers could not tell anything."""
    print_table(console, rows)
    if left_out:
        console.print(left_out, style="yellow")
    show_servers(console, servers)


def _count(number: int, what: str, plural: str = "") -> str:
    return f"{number} {what if number == 1 else plural or f'{what}s'}"


def _short_time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%m-%d %H:%M:%S}"


def _iso_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
