"""`raykeeper top`: what each server does, again and again.

On a terminal the table stays in its place; elsewhere each look is printed below the one before.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from raykeeper.commands.output import Document, print_document, widen_table
from raykeeper.commands.tables import server_problems, servers_document
from raykeeper.zab.ids import format_zxid

if TYPE_CHECKING:
    from raykeeper.clusters.admin import LoadTable, ServerLoad


def run_top(
    name: str,
    look: Callable[["LoadTable | None"], "LoadTable"],
    pause: Callable[[], object],
    console: Console,
    *,
    looks: int | None = None,
    as_json: bool = False,
) -> bool:
    """Show the load of an ensemble, `looks` times or until it is interrupted.

    Return whether a server told anything at the last look.

    Args:
        name: Of the ensemble.
        look: Returns the load, given that of the look before.
        pause: Waits until the next look.
        console: Where it is shown; of a document the standard output.
        looks: None for no end.
        as_json: Print each look as a document on a line.
    """
    load = None
    with _show_in_place(console) as show:
        for number in count() if looks is None else range(looks):
            if number:
                pause()
            load = look(load)
            if as_json:
                print_document(load_document(name, load), in_one_line=True)
            else:
                show(load_report(name, load, console))
    return load is not None and bool(load.loads)


@contextmanager
def _show_in_place(console: Console) -> Iterator[Callable[[Group], None]]:
    if not console.is_terminal:
        yield console.print
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda report: live.update(report, refresh=True)


def load_report(name: str, load: "LoadTable", console: Console) -> Group:
    """Return a table of the servers, with what is wrong below it.

    On a narrow terminal its right columns are cut off, and no number is abbreviated.
    """
    seen = f"{datetime.now(UTC):%H:%M:%S} UTC"
    leads = "no leader" if load.leader is None else f"server {load.leader} leads"
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "role", "zxid"):
        table.add_column(heading, no_wrap=True)
    for heading in _NUMBERS:
        table.add_column(heading, justify="right", no_wrap=True)
    for state in load.servers:
        each = load.loads.get(state.server_id)
        place = str(state.server_id), state.role
        if each is None:
            table.add_row(*place)
        else:
            zxid = format_zxid(each.stats.last_zxid)
            table.add_row(*place, zxid, *(number(each) for number in _NUMBERS.values()))
    widen_table(console, table)
    problems = server_problems(load.servers)
    return Group(f"ensemble {name}, {seen}: {leads}", table, *problems)


def load_document(name: str, load: "LoadTable") -> Document:
    """Return the same numbers; a server that did not answer has none."""
    return {
        "name": name,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "leader": load.leader,
        "servers": [
            {**state, **_numbers_document(load.loads.get(state["server_id"]))}
            for state in servers_document(load.servers)
        ],
    }


def _numbers_document(each: "ServerLoad | None") -> dict[str, Any]:
    if each is None:
        return {"stats": None, "rates": None, "lag": None}
    fields = {field: getattr(each.stats, field) for field in _STATS}
    return {"stats": fields, "rates": msgspec.to_builtins(each.rates), "lag": each.lag}


def _rate(field: str) -> Callable[["ServerLoad"], str]:
    return lambda each: "" if each.rates is None else str(getattr(each.rates, field))


def _milliseconds(field: str) -> Callable[["ServerLoad"], str]:
    def show(each: "ServerLoad") -> str:
        us = None if each.rates is None else getattr(each.rates, field)
        return "" if us is None else f"{us / 1000:.2f}"

    return show


def _stat(field: str) -> Callable[["ServerLoad"], str]:
    return lambda each: str(getattr(each.stats, field))


_NUMBERS: dict[str, Callable[["ServerLoad"], str]] = {
    "lag": lambda each: "" if each.lag is None else str(each.lag),
    "reads/s": _rate("reads"),
    "ms": _milliseconds("read_us"),
    "writes/s": _rate("updates"),
    "ms ": _milliseconds("update_us"),
    "in/s": _rate("packets_received"),
    "out/s": _rate("packets_sent"),
    "waiting": _stat("outstanding"),
    "clients": _stat("connections"),
    "sessions": _stat("sessions"),
    "watches": _stat("watches"),
    "znodes": _stat("znodes"),
    "bytes": _stat("data_bytes"),
}
_STATS = (
    *("epoch", "uptime_ms", "sessions", "local_sessions", "connections", "znodes", "ephemerals"),
    *("data_bytes", "watches", "outstanding", "packets_received", "packets_sent"),
)
