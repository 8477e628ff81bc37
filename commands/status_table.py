"""The table of `raykeeper status`."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raykeeper.clusters.ensemble import EnsembleStatus, problems_of
from raykeeper.zab.ids import ServerId, show_zxid

_WIDTH_MAX = 500


def show_status(out: Console, report: EnsembleStatus) -> None:
    """Print a table of the servers, and below it what is wrong with them."""
    out.print(f"ensemble {report.name}", highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "role", "epoch", "zxid", "pid", "Ray node", "linked to", "clients"):
        table.add_column(heading, no_wrap=True)
    for heading in ("sessions", "znodes", "watches", "waiting"):
        table.add_column(heading, justify="right", no_wrap=True)
    for server in report.servers:
        color = {"leader": "green", "down": "red", "looking": "yellow"}.get(server.role, "")
        role = f"[{color}]{server.role}[/]" if color else server.role
        if server.role == "down":
            table.add_row(str(server.server_id), role)
            continue
        numbers = (server.sessions, server.znodes, server.watches, server.outstanding)
        table.add_row(
            str(server.server_id),
            role,
            str(server.epoch),
            show_zxid(server.last_zxid),
            str(server.pid),
            server.node_id[:8],
            _linked_to(server.carriers),
            ", ".join(f"{number} by {by}" for by, number in sorted(server.clients.items())) or "0",
            *(str(number) for number in numbers),
        )
    # Numbers that are cut off would mislead; a narrow terminal wraps the lines.
    table.width = out.measure(table, options=out.options.update(max_width=_WIDTH_MAX)).maximum
    out.print(table, soft_wrap=True)
    if report.leader is None:
        out.print(f"[yellow]no leader:[/yellow] {escape(report.reason or '')}", soft_wrap=True)
    else:
        for problem in problems_of(report.servers):
            out.print(escape(problem), style="yellow", highlight=False, soft_wrap=True)


def _linked_to(carriers: Mapping[ServerId, str]) -> str:
    """Which servers by which carrier, such as `1, 3 by stream`."""
    peers: dict[str, list[str]] = {}
    for peer, carrier in carriers.items():
        peers.setdefault(carrier, []).append(str(peer))
    return ", ".join(f"{', '.join(ids)} by {carrier}" for carrier, ids in peers.items()) or "none"
