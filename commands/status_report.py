"""The report of `raykeeper status` and `up` on an ensemble: a table, or a document."""

from collections.abc import Mapping

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.clusters.ensemble import EnsembleStatus, problems_of
from raykeeper.commands.consoles import print_table
from raykeeper.commands.documents import Document
from raykeeper.zab.ids import ServerId, format_zxid

_COLORS = {"leader": "green", "down": "red", "looking": "yellow", "unreached": "yellow"}


def show_status(console: Console, report: EnsembleStatus) -> None:
    """Print a table of the servers, and their problems below it."""
    console.print(f"ensemble {report.name}")
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "role", "epoch", "zxid", "pid", "Ray node", "linked to", "clients"):
        table.add_column(heading, no_wrap=True)
    for heading in ("sessions", "znodes", "watches", "waiting"):
        table.add_column(heading, justify="right", no_wrap=True)
    for server in report.servers:
        role = Text(server.role, style=_COLORS.get(server.role, ""))
        if server.role in ("down", "unreached"):
            table.add_row(str(server.server_id), role)
            continue
        numbers = (server.sessions, server.znodes, server.watches, server.outstanding)
        table.add_row(
            str(server.server_id),
            role,
            str(server.epoch),
            format_zxid(server.last_zxid),
            str(server.pid),
            server.node_id[:8],
            _linked_to(server.carriers),
            ", ".join(f"{number} by {by}" for by, number in sorted(server.clients.items())) or "0",
            *(str(number) for number in numbers),
        )
    print_table(console, table)
    if report.leader is None:
        console.print(Text("no leader:", style="yellow"), report.reason or "")
    else:
        for problem in problems_of(report.servers):
            console.print(problem, style="yellow")


def status_document(report: EnsembleStatus) -> Document:
    """Return the fields of `EnsembleStatus` and `ServerStatus`; server ids as keys are strings."""
    document = msgspec.to_builtins(report, str_keys=True)
    for shown, server in zip(document["servers"], report.servers, strict=True):
        shown["last_zxid"] = format_zxid(server.last_zxid)
    return dict(document)


def _linked_to(carriers: Mapping[ServerId, str]) -> str:
    """Format the linked servers by carrier, such as `1, 3 by stream`."""
    peers: dict[str, list[str]] = {}
    for peer, carrier in carriers.items():
        peers.setdefault(carrier, []).append(str(peer))
    return ", ".join(f"{', '.join(ids)} by {carrier}" for carrier, ids in peers.items()) or "none"
