"""What `raykeeper members` shows: a table, a document, and the progress of a change."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.commands.output import Document, escaped, print_table
from raykeeper.zab.ids import FOUNDING_DISK, format_zxid

if TYPE_CHECKING:
    from raykeeper.clusters.members_status import MembersStatus, MemberStatus

_COLORS = {"leader": "green", "down": "red", "failed": "red", "looking": "yellow"}
_WAITING = "waiting: "


def show_members(console: Console, report: "MembersStatus") -> None:
    """Print a row for each member and each other server that runs; below, an open change."""
    list_of = f"list of version {format_zxid(report.version)}" if report.version else "as founded"
    console.print(f"ensemble {report.name}: {list_of}")
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "member", "role", "Ray node", "disk"):
        table.add_column(heading, no_wrap=True)
    table.add_column("behind", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for each in report.servers:
        table.add_row(
            str(each.server_id),
            each.kind,
            Text(each.role, style=_COLORS.get(each.role, "")),
            each.node_name,
            _disk(each),
            "" if each.lag is None else str(each.lag),
            Text(escaped(each.problem), style="yellow"),
        )
    print_table(console, table)
    for line in change_lines(report):
        console.print(Text(escaped(line), style="yellow"))


def change_lines(report: "MembersStatus") -> list[str]:
    """Return what is said of a change: the step that is open, and the plan with who is at it."""
    lines = []
    if report.doubt:
        lines.append(f"no leader: {report.doubt}")
    if report.open_step:
        lines.append(f"the leader is at a step: {report.open_step}")
    plan, name = report.plan, report.name
    if plan is None:
        return lines
    back = "is undone" if plan.is_undone else "has not ended"
    lines.append(
        f"a change of the members {back}: {plan.text}, to {plan.target}, begun by {plan.begun_by}"
    )
    if report.at_it:
        lines.append(f"{report.at_it} is at it")
    elif report.holder_problem:
        lines.append(f"who is at it is not known: {report.holder_problem}")
    else:
        lines.append(
            f"nobody is at it: `raykeeper members resume {name}` goes on, `raykeeper members undo "
            f"{name}` goes back"
        )
    return lines


def members_document(report: "MembersStatus") -> Document:
    """Return the fields of `MembersStatus`; server ids as keys are strings."""
    document = dict(msgspec.to_builtins(report, str_keys=True))
    document["version"] = format_zxid(report.version)
    document["voters"], document["observers"] = report.voters, report.observers
    return document


def _disk(member: "MemberStatus") -> str:
    """Return the disk of a voter as it is named elsewhere."""
    if member.disk is None:
        return ""
    return "founding" if member.disk == FOUNDING_DISK else member.disk[:8]


@contextmanager
def shown_change(console: Console) -> Iterator[Callable[[str], None]]:
    """Return what takes the lines of a change: acts stay, on a terminal what it waits for goes."""
    if not console.is_terminal:
        yield lambda line: console.print(Text(escaped(line)))
        return
    with console.status("") as status:

        def tell(line: str) -> None:
            text = Text(escaped(line.removeprefix(_WAITING)))
            if line.startswith(_WAITING):
                status.update(text)
            else:
                console.print(text)
                status.update("")

        yield tell
