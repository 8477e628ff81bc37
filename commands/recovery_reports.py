"""The reports of `raykeeper recover`: who holds what, what is lost, and what was founded."""

from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.commands.output import Document, escaped, print_table, time_field
from raykeeper.zab.ids import format_zxid

if TYPE_CHECKING:
    from raykeeper.clusters.recovery.evidence import HeldFolder
    from raykeeper.clusters.recovery.founding import NewHistory
    from raykeeper.clusters.recovery.judgement import Judgement


def show_judgement(console: Console, judgement: "Judgement") -> None:
    """Print a table of the folders, and what follows from it."""
    from raykeeper.clusters.recovery.judgement import format_time

    console.print(f"ensemble {judgement.name}, {judgement.servers} voting servers")
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "node", "disk", "epoch", "last zxid", "at", "snapshot", "vote"):
        table.add_column(heading, no_wrap=True)
    table.add_column("state")
    for index, each in enumerate(judgement.folders):
        epochs = each.epochs
        table.add_row(
            str(each.server_id),
            each.node,
            "?" if each.identity is None else each.identity.disk_uuid[:8],
            "?" if epochs is None else f"{epochs.current} of {epochs.accepted}",
            format_zxid(each.last) if each.last else "?",
            format_time(each.last_ms) if each.last_ms else "",
            format_zxid(each.snapshot) if each.snapshot else "none",
            "yes" if index in judgement.votes else "no",
            _state(judgement, each),
        )
    if judgement.folders:
        print_table(console, table)
        for each in judgement.folders:
            console.print(f"server {each.server_id}: {each.folder} on {each.node}")
    for server in judgement.missing:
        console.print(Text(f"no healthy disk has the vote of server {server}", style="yellow"))
    for text in judgement.unread:
        console.print(Text(escaped(f"not read: {text}"), style="yellow"))
    console.print(judgement.launch)
    if not judgement.refusal and judgement.best is not None:
        best = judgement.best
        console.print(
            f"a new history would begin with {best.folder} on {best.node}, up to "
            f"{format_zxid(best.last)}: {best.znodes} znodes"
        )
    elif not judgement.has_majority:
        console.print(f"nothing can be founded: {judgement.refusal}")
    for text in () if judgement.refusal else judgement.losses:
        console.print(f"  {text}", style="yellow")


def _state(judgement: "Judgement", held: "HeldFolder") -> Text:
    if held.problem:
        return Text(escaped(held.problem), style="red")
    words = ["torn at its end" if held.is_uncertain else "healthy"]
    if held.is_set_aside:
        words.append("set aside")
    if held.uuid in judgement.superseded:
        words.append("of an ended history")
    if held is judgement.best and not judgement.has_majority:
        words.append("the best one")
    return Text(", ".join(words), style="yellow" if held.is_uncertain else "green")


def judgement_document(judgement: "Judgement") -> Document:
    """Return the fields of `Judgement`; zxids as texts, and `has_vote` with each folder."""
    return {
        "name": judgement.name,
        "servers": judgement.servers,
        "ensemble_uuid": judgement.uuid or None,
        "superseded": judgement.superseded,
        "folders": [
            {
                "server_id": each.server_id,
                "node": each.node,
                "folder": each.folder,
                "is_set_aside": each.is_set_aside,
                "ensemble_uuid": each.uuid or None,
                "disk": None if each.identity is None else each.identity.disk_uuid,
                "accepted_epoch": None if each.epochs is None else each.epochs.accepted,
                "current_epoch": None if each.epochs is None else each.epochs.current,
                "last": format_zxid(each.last),
                "last_at": time_field(each.last_ms) if each.last_ms else None,
                "committed": format_zxid(each.committed),
                "snapshot": format_zxid(each.snapshot),
                "znodes": each.znodes,
                "sessions": each.sessions,
                "is_uncertain": each.is_uncertain,
                "has_vote": index in judgement.votes,
                "problem": each.problem or None,
            }
            for index, each in enumerate(judgement.folders)
        ],
        "missing": list(judgement.missing),
        "has_majority": judgement.has_majority,
        "best": None if judgement.best is None else judgement.best.folder,
        "launch": judgement.launch,
        "losses": judgement.losses,
        "unread": judgement.unread,
        "refusal": judgement.refusal or None,
    }


def show_new_history(console: Console, name: str, made: "NewHistory") -> None:
    """Print what was founded, and what to do now."""
    console.print(
        f"founded a new history of ensemble {name}: uuid {made.uuid}, epoch {made.epoch}, "
        f"everything up to {format_zxid(made.zxid)}"
    )
    for server, node in sorted(made.nodes.items()):
        console.print(f"server {server} has its folder on {node}")
    for path in made.set_aside:
        console.print(f"set aside: {path}")
    for text in made.left_alone:
        console.print(Text(escaped(f"left alone: {text}"), style="yellow"))
    console.print(f"start it with `raykeeper up`, and the settings of before; its name is {name}")


def new_history_document(made: "NewHistory") -> Document:
    """Return the fields of `NewHistory`."""
    document = msgspec.to_builtins(made, str_keys=True)
    return {**document, "zxid": format_zxid(made.zxid)}
