"""What `status` and `events` show of the keeper: lines, or parts of a document for `--json`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

from raykeeper.clusters.healing.vocabulary import Entry, MoveStep
from raykeeper.clusters.keeper_status import describe
from raykeeper.commands.output import Document, print_document

if TYPE_CHECKING:
    from raykeeper.clusters.keeper_status import KeeperStatus

_MOVES_SHOWN = 3
"""Moves that `status` shows; `events` shows all."""


def show_keeper(console: Console, keeper: "KeeperStatus | None") -> None:
    """Print the newest moves, the one under way, and why a server does not move."""
    if keeper is None:
        return
    ended = [
        each for each in keeper.entries if each.decision.step in (MoveStep.DONE, MoveStep.UNDONE)
    ]
    for entry in ended[-_MOVES_SHOWN:]:
        console.print(_status_line(entry))
    if keeper.entries and keeper.entries[-1].decision.step in (MoveStep.BEGUN, MoveStep.STARTED):
        console.print(_status_line(keeper.entries[-1]), style="yellow")
    for folder in keeper.stale_folders:
        console.print(folder)
    if keeper.problem:
        console.print(f"keeper: {keeper.problem}", style="yellow")
    elif not keeper.leads:
        console.print("keeper: it waits to be elected", style="yellow")


def keeper_document(keeper: "KeeperStatus | None") -> Document | None:
    """Return the fields of `KeeperStatus`; null without a keeper."""
    if keeper is None:
        return None
    return {
        "leads": keeper.leads,
        "problem": keeper.problem,
        "events": [_entry_document(entry) for entry in keeper.entries],
        "stale_folders": keeper.stale_folders,
    }


def show_events(
    console: Console, entries: Sequence[Entry], *, has_keeper: bool, has_leader: bool
) -> None:
    """Print a line for each decision, and whether others may be missing."""
    for entry in entries:
        console.print(_event_line(entry))
    if not entries:
        console.print("no decision of a keeper is known")
    if not has_keeper:
        console.print("no keeper runs now: nothing is decided", style="yellow")
    if not has_leader:
        console.print("no server has a leader: what is shown may be old", style="yellow")


def print_new_events(console: Console, entries: Sequence[Entry], *, as_json: bool) -> None:
    """Print decisions while they are followed: a line for each, or a document on a line."""
    for entry in entries:
        if as_json:
            print_document(_entry_document(entry), in_one_line=True)
        else:
            console.print(_event_line(entry))


def events_document(
    name: str, entries: Sequence[Entry], *, has_keeper: bool, has_leader: bool
) -> Document:
    """Return the same decisions."""
    events = [_entry_document(entry) for entry in entries]
    return {"name": name, "has_keeper": has_keeper, "has_leader": has_leader, "events": events}


def _event_line(entry: Entry) -> str:
    return f"{_time(entry):%Y-%m-%d %H:%M:%S} UTC  {describe(entry)}"


def _status_line(entry: Entry) -> str:
    """Return such as `server 3 moved a→b 14:02 UTC: its node was lost for 5 min`."""
    what, colon, why = describe(entry).partition(": ")
    return f"{what} {_time(entry):%m-%d %H:%M} UTC{colon}{why}"


def _entry_document(entry: Entry) -> dict[str, Any]:
    time = _time(entry).isoformat(timespec="milliseconds")
    fields: dict[str, Any] = msgspec.to_builtins(entry.decision)
    return {"number": entry.number, "time": time, **fields, "text": describe(entry)}


def _time(entry: Entry) -> datetime:
    return datetime.fromtimestamp(entry.time_ms / 1000, UTC)
