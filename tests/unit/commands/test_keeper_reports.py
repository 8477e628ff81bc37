"""What `status` and `events` show of the keeper."""

import json

import pytest
from msgspec.structs import replace

from raykeeper.clusters.healing.vocabulary import Entry, MoveStep
from raykeeper.clusters.keeper_status import KeeperStatus
from raykeeper.commands.keeper_reports import (
    events_document,
    keeper_document,
    print_new_events,
    show_events,
    show_keeper,
)
from raykeeper.commands.output import make_console
from raykeeper.zab.ids import Millis, ServerId
from tests.harness.decisions import BEGUN
from tests.unit.commands.printed import printed

BEGUN_MS = Millis(1_795_442_520_000)  # 2026-11-23 14:02 UTC


def entry(number: int, step: MoveStep, server: int = 3) -> Entry:
    decision = replace(
        BEGUN,
        step=step,
        server=ServerId(server),
        source_name="[red]a[/]",
        detail="b was lost too" if step is MoveStep.UNDONE else "",
    )
    return Entry(number, Millis(BEGUN_MS + 1_000 * number), decision)


MOVE = [entry(0, MoveStep.BEGUN), entry(1, MoveStep.STARTED), entry(2, MoveStep.DONE)]
DONE = "server 3 moved [red]a[/]→b 11-23 14:02 UTC: its node was lost for 5 min"


@pytest.mark.parametrize(
    ("keeper", "lines"),
    [
        (None, []),
        (KeeperStatus(leads=True), []),
        (KeeperStatus(leads=True, entries=MOVE), [DONE]),
        (
            KeeperStatus(leads=True, entries=[*MOVE, entry(3, MoveStep.UNDONE)]),
            [DONE, "server 3 did not move [red]a[/]→b 11-23 14:02 UTC: b was lost too"],
        ),
        # The newest three, and the one under way.
        (
            KeeperStatus(
                leads=True,
                entries=[
                    *(entry(i, MoveStep.DONE, i) for i in range(1, 6)),
                    entry(6, MoveStep.STARTED),
                ],
            ),
            [
                *(DONE.replace("3 moved", f"{i} moved") for i in (3, 4, 5)),
                "server 3 was started on b, and waits for its vote 11-23 14:02 UTC",
            ],
        ),
        (KeeperStatus(leads=False), ["keeper: it waits to be elected"]),
        (KeeperStatus(leads=False, problem="no answer"), ["keeper: no answer"]),
        (
            KeeperStatus(leads=True, problem="no node", stale_folders=["server 3: /data"]),
            ["server 3: /data", "keeper: no node"],
        ),
    ],
)
def test_status_shows_what_the_keeper_did_and_why_it_waits(
    keeper: KeeperStatus | None, lines: list[str]
) -> None:
    assert printed(lambda console: show_keeper(console, keeper)).splitlines() == lines


KNOWN = {"has_keeper": True, "has_leader": True}


def test_events_are_lines() -> None:
    assert printed(lambda console: show_events(console, MOVE, **KNOWN)).splitlines() == [
        "2026-11-23 14:02:00 UTC  server 3 is to move [red]a[/]→b: its node was lost for 5 min",
        "2026-11-23 14:02:01 UTC  server 3 was started on b, and waits for its vote",
        "2026-11-23 14:02:02 UTC  server 3 moved [red]a[/]→b: its node was lost for 5 min",
    ]
    empty = printed(lambda console: show_events(console, [], **KNOWN))
    assert empty == "no decision of a keeper is known\n"
    unknown = printed(lambda console: show_events(console, [], has_keeper=False, has_leader=False))
    assert unknown.splitlines()[1:] == [
        "no keeper runs now: nothing is decided",
        "no server has a leader: what is shown may be old",
    ]


def test_documents_have_the_same() -> None:
    document = events_document("coord", MOVE[2:], **KNOWN)
    assert document == {
        "name": "coord",
        **KNOWN,
        "events": [
            {
                "number": 2,
                "time": "2026-11-23T14:02:02.000+00:00",
                "step": "done",
                "server": 3,
                "cause": "lost",
                "source": "1f",
                "source_name": "[red]a[/]",
                "target": "2e",
                "target_name": "b",
                "reason": "its node was lost for 5 min",
                "actor": "",
                "detail": "",
                "text": "server 3 moved [red]a[/]→b: its node was lost for 5 min",
            }
        ],
    }
    assert keeper_document(None) is None
    keeper = KeeperStatus(leads=True, problem="p", entries=MOVE[2:], stale_folders=["f"])
    assert keeper_document(keeper) == {
        "leads": True,
        "problem": "p",
        "events": document["events"],
        "stale_folders": ["f"],
    }


def test_new_events_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(lambda console: print_new_events(console, MOVE[2:], as_json=False))
    assert (
        lines
        == "2026-11-23 14:02:02 UTC  server 3 moved [red]a[/]→b: its node was lost for 5 min\n"
    )
    assert printed(lambda console: print_new_events(console, [], as_json=False)) == ""
    print_new_events(make_console(), MOVE, as_json=True)
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents == list(events_document("coord", MOVE, **KNOWN)["events"])
