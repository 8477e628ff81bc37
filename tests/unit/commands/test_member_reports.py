"""What `raykeeper members` shows: the table, the change below it, the document, the progress."""

import json
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from raykeeper.clusters.member_steps.vocabulary import Members, Plan
from raykeeper.clusters.members_status import MembersStatus, MemberStatus
from raykeeper.commands.member_reports import (
    change_lines,
    members_document,
    show_members,
    shown_change,
)
from raykeeper.zab.ids import FOUNDING_DISK, DiskId, ServerId, Zxid

S1, S2, S3 = (ServerId(number) for number in (1, 2, 3))
PLAN = Plan(
    text="add server 3",
    begun_by="pid 7 on here",
    before=Members((S1, S2)),
    target=Members((S1, S2, S3)),
    newcomers=(S3,),
)
REPORT = MembersStatus(
    name="coord",
    version=Zxid((2 << 42) + 5),
    leader=S1,
    servers=[
        MemberStatus(
            server_id=S1,
            kind="voter",
            role="leader",
            node_id="n1",
            node_name="host-a",
            disk=FOUNDING_DISK,
            lag=0,
        ),
        MemberStatus(
            server_id=S2,
            kind="voter",
            role="down",
            disk=DiskId("0123456789"),
            problem="is [red]dead\x1b",
        ),
        MemberStatus(server_id=S3, kind="none", role="observer", node_name="host-c", lag=12),
    ],
)


def shown(report: MembersStatus) -> list[str]:
    console = Console(file=StringIO(), width=200, markup=False, highlight=False)
    show_members(console, report)
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_has_a_row_for_each_server() -> None:
    assert shown(REPORT) == [
        "ensemble coord: list of version 2:5",
        "server  member  role      Ray node  disk      behind",
        "1       voter   leader    host-a    founding       0",
        "2       voter   down                01234567          is [red]dead\\x1b",
        "3       none    observer  host-c                  12",
    ]
    assert shown(replace(REPORT, version=Zxid(0)))[0] == "ensemble coord: as founded"


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        (REPORT, []),
        (replace(REPORT, doubt="nobody leads"), ["no leader: nobody leads"]),
        (
            replace(REPORT, open_step="server 3 joins", plan=PLAN, at_it="pid 7 on here"),
            [
                "the leader is at a step: server 3 joins",
                "a change of the members has not ended: add server 3, to voters 1, 2, 3, begun by "
                "pid 7 on here",
                "pid 7 on here is at it",
            ],
        ),
        (
            replace(REPORT, plan=replace(PLAN, is_undone=True)),
            [
                "a change of the members is undone: add server 3, to voters 1, 2, 3, begun by "
                "pid 7 on here",
                "nobody is at it: `raykeeper members resume coord` goes on, `raykeeper members "
                "undo coord` goes back",
            ],
        ),
        (
            replace(REPORT, plan=PLAN, holder_problem="no server accepted the session"),
            [
                "a change of the members has not ended: add server 3, to voters 1, 2, 3, begun by "
                "pid 7 on here",
                "who is at it is not known: no server accepted the session",
            ],
        ),
    ],
)
def test_a_change_is_told_below_the_table(report: MembersStatus, lines: list[str]) -> None:
    assert change_lines(report) == lines
    assert shown(report)[5:] == lines


def test_the_document_has_all_fields() -> None:
    document = members_document(replace(REPORT, plan=PLAN))
    assert (document["version"], document["voters"], document["observers"]) == ("2:5", [1, 2], [])
    assert document["servers"][1]["disk"] == "0123456789"
    target = json.loads(json.dumps(document))["plan"]["target"]
    assert target == {"voters": [1, 2, 3], "observers": []}


def test_acts_are_lines_and_waits_are_too_without_a_terminal() -> None:
    console = Console(file=StringIO(), width=200)
    with shown_change(console) as tell:
        tell("started server 4")
        tell("waiting: it lags\x1b")
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == "started server 4\nwaiting: it lags\\x1b\n"


def test_on_a_terminal_acts_stay_above_what_it_waits_for() -> None:
    console = Console(file=StringIO(), width=200, force_terminal=True)
    with shown_change(console) as tell:
        tell("waiting: it lags")
        tell("started server 4")
    assert isinstance(console.file, StringIO)
    assert "started server 4\n" in console.file.getvalue()
    assert "it lags" in console.file.getvalue()
    assert "waiting" not in console.file.getvalue()
