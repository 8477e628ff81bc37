"""The reports of `raykeeper status`, `demo` and `chaos`."""

import json
import re
from pathlib import Path

from msgspec import structs

from raykeeper.chaos.checks.faults import FaultResult
from raykeeper.chaos.checks.goals import Row
from raykeeper.chaos.checks.judge import HistoryReport
from raykeeper.chaos.lose_nodes import LossReport, LossSettings
from raykeeper.chaos.upgrade import UpgradeReport
from raykeeper.clusters.ensemble_status import EnsembleStatus, ServerStatus
from raykeeper.clusters.feature_level import FeatureLevelStatus
from raykeeper.clusters.running_settings import SettingDifference, SettingsDifferError
from raykeeper.commands.demo.run import DemoReport, FileCount
from raykeeper.commands.reports import (
    counts_document,
    differences_document,
    losses_document,
    show_counts,
    show_differences,
    show_losses,
    show_status,
    show_upgrade,
    show_verdict,
    status_document,
    upgrade_document,
    verdict_document,
)
from raykeeper.zab.ids import Epoch, ServerId, make_zxid
from tests.unit.commands.printed import printed

LEADER = ServerStatus(
    ServerId(1),
    "leader",
    epoch=Epoch(2),
    last_zxid=make_zxid(Epoch(2), 5),
    pid=77,
    node_id="a" * 56,
    sessions=3,
    znodes=4,
    carriers={ServerId(2): "stream", ServerId(3): "ray"},
    clients={"stream": 3},
    clients_max=500,
    sessions_max=900,
)
DOWN = ServerStatus(ServerId(2), "down", problem="no folder [red]/data[/]")


def shown(leader: ServerId | None, reason: str | None, *servers: ServerStatus) -> list[str]:
    report = EnsembleStatus("co[red]ord", list(servers), leader, reason)
    return printed(lambda console: show_status(console, report)).splitlines()


def test_a_table_of_the_servers_is_as_wide_as_it_is() -> None:
    name, _, leader, down, problem = shown(ServerId(1), None, LEADER, DOWN)
    assert name == "ensemble co[red]ord"
    assert re.split(" {2,}", leader) == [
        *("1", "leader", "2", "2:5", "77", "aaaaaaaa"),
        *("2 by stream, 3 by ray", "3 by stream of 500", "3 of 900", "4", "0", "0"),
    ]
    assert down.split() == ["2", "down"]
    assert problem == "server 2 is down: no folder [red]/data[/]"


def test_a_server_that_has_just_begun_is_starting_and_has_no_epoch() -> None:
    begun = ServerStatus(ServerId(3), "looking", pid=9, node_id="b" * 56)
    row = shown(ServerId(1), None, LEADER, begun)[3]
    assert row.split()[:4] == ["3", "starting", "9", "bbbbbbbb"]


def test_the_feature_level_is_shown_with_what_a_newer_one_waits_for() -> None:
    def last(level: FeatureLevelStatus) -> str:
        report = EnsembleStatus("coord", [LEADER], ServerId(1), None, level)
        return printed(lambda console: show_status(console, report)).splitlines()[-1]

    assert last(FeatureLevelStatus(2, 2, "")) == "feature level 2"
    waiting = FeatureLevelStatus(1, 2, "the new version on server 3")
    assert last(waiting) == "feature level 1; 2 waits for the new version on server 3"


def test_a_server_that_starts_has_no_limits_yet() -> None:
    row = shown(None, "an election is under way", ServerStatus(ServerId(1), "looking"))[2]
    assert re.split(" {2,}", row)[-5:] == ["0", "0", "0", "0", "0"]


def test_the_ports_for_clients_of_zookeeper_are_one_address_list() -> None:
    servers = [
        structs.replace(LEADER, zookeeper=f"10.0.0.{n}:2181", zookeeper_tls=f"10.0.0.{n}:2281")
        for n in (1, 2)
    ]
    assert shown(ServerId(1), None, *servers)[-2:] == [
        "for clients of ZooKeeper: 10.0.0.1:2181,10.0.0.2:2181",
        "for clients of ZooKeeper over TLS: 10.0.0.1:2281,10.0.0.2:2281",
    ]


def test_a_drained_server_is_told_below_the_table() -> None:
    drained = structs.replace(LEADER, clients_to_move=2)
    assert shown(ServerId(1), None, drained)[-1] == (
        "server 1 is drained: it takes no clients, and has 2 to move"
    )


def test_a_leader_that_ray_cannot_reach_is_printed() -> None:
    problem = "leads, but Ray does not reach it: no answer within 2 s"
    unreached = ServerStatus(ServerId(2), "unreached", problem=problem)
    _, _, row, told = shown(ServerId(2), None, unreached)
    assert (row.split(), told) == (["2", "unreached"], f"server 2 {problem}")


DIFFERENT = SettingsDifferError(
    "coord",
    [
        SettingDifference("tick_ms", {ServerId(1): 500, ServerId(2): 600}, 700, "stop it first"),
        SettingDifference("placement", {ServerId(1): "auto"}, {"label": "slot"}, "stop it"),
    ],
)


def test_every_difference_is_printed_with_how_to_change_it() -> None:
    lines = printed(lambda console: show_differences(console, DIFFERENT)).splitlines()
    assert [line.rstrip() for line in lines] == [
        "ensemble coord runs with other settings; nothing was changed",
        "setting    runs with                          asked for",
        "tick_ms    500 (server 1) and 600 (server 2)  700",
        "placement  auto                               {label: slot}",
        "to change tick_ms: stop it first",
        "to change placement: stop it",
        "without these settings, `up` attaches the ensemble as it runs",
    ]


def test_the_document_of_differences_has_every_field() -> None:
    document = json.loads(json.dumps(differences_document(DIFFERENT)))
    assert document["name"] == "coord"
    assert document["differences"][0] == {
        "setting": "tick_ms",
        "runs_with": {"1": 500, "2": 600},
        "asked_for": 700,
        "how": "stop it first",
    }


def test_a_reason_is_printed_as_it_is() -> None:
    assert shown(None, "heard [/] nobody", DOWN)[-1] == "no leader: heard [/] nobody"


def test_a_document_has_the_fields_of_the_python_interface() -> None:
    report = EnsembleStatus("coord", [LEADER, DOWN], ServerId(1), None)
    document = json.loads(json.dumps(status_document(report)))
    assert list(document) == list(EnsembleStatus.__struct_fields__)
    assert (document["name"], document["leader"], document["reason"]) == ("coord", 1, None)
    leader, down = document["servers"]
    assert list(leader) == list(down) == list(ServerStatus.__struct_fields__)
    assert (leader["last_zxid"], leader["pid"], leader["epoch"]) == ("2:5", 77, 2)
    assert (leader["carriers"], leader["clients"]) == (
        {"2": "stream", "3": "ray"},
        {"stream": 3},
    )
    assert (leader["clients_max"], leader["sessions_max"]) == (500, 900)
    assert (down["role"], down["problem"]) == ("down", DOWN.problem)


RIGHT_COUNT = FileCount("a[red].md", 3, 2, 3, True)
WRONG_COUNT = FileCount("b.md", 3, 2, 4, False)


def counts_shown(*files: FileCount) -> list[list[str]]:
    text = printed(lambda console: show_counts(console, DemoReport(list(files), 1.25)))
    return [line.split(maxsplit=3) for line in text.splitlines()]


def test_right_counts_are_printed() -> None:
    assert counts_shown(RIGHT_COUNT)[1:] == [
        ["a[red].md", "3", "2", "the same"],
        ["3", "words,", "counted", "right in 1.2 s although two processes were killed"],
    ]


def test_wrong_counts_are_printed() -> None:
    assert counts_shown(RIGHT_COUNT, WRONG_COUNT)[2:] == [
        ["b.md", "3", "2", "4"],
        ["wrong", "counts", "in", "b.md"],
    ]


def test_the_counts_have_a_document() -> None:
    document = counts_document(DemoReport([RIGHT_COUNT, WRONG_COUNT], 1.25))
    file = {"file": "b.md", "words": 3, "different": 2, "plain_words": 4, "is_right": False}
    assert document["files"][1] == file
    assert {k: v for k, v in document.items() if k != "files"} == {
        "is_right": False,
        "words": 6,
        "seconds": 1.25,
    }


WRONG = HistoryReport(
    operations=3,
    unknown=1,
    acked_writes=2,
    sessions=4,
    longest_gap_ns=1_500_000_000,
    lost=["lost: /x"],
    violations=["/[red]"],
    undecided=["/y"],
    faults={
        "kill leader": FaultResult(2, longest_gap_ns=400_000_000),
        "transfer": FaultResult(5, 1, ["[busy]", "late", "[busy]"], 1_500_000_000),
    },
)


def judgement_shown(judgement: HistoryReport) -> str:
    return printed(lambda console: show_verdict(console, judgement, {"seed": "7"}))


def test_numbers_come_with_their_circumstances() -> None:
    told = judgement_shown(
        HistoryReport(operations=3, unknown=1, acked_writes=2, longest_gap_ns=1_500_000_000)
    )
    rows = [tuple(part.strip() for part in line.split("  ", 1)) for line in told.splitlines()]
    assert rows == [
        ("seed", "7"),
        ("operations", "3, 1 of them with an unknown outcome"),
        ("acknowledged writes", "2"),
        ("sessions", "0"),
        ("longest gap in writes", "1.5 s"),
        ("lost acknowledged writes", "0"),
        ("violations", "0"),
    ]


def test_violations_are_printed_up_to_a_bound() -> None:
    many = [f"violation [{number}]" for number in range(100)]
    told = judgement_shown(HistoryReport(lost=["lost: /x"], violations=many, undecided=["/y"]))
    assert "undecided znodes          1, judged by all other checks only" in told
    assert told.splitlines()[-20:] == ["lost: /x", *many[:19]]


def test_each_fault_has_a_row_and_its_refusals_are_told() -> None:
    lines = judgement_shown(WRONG).splitlines()
    assert ["faults", "7"] in [re.split(" {2,}", line.strip()) for line in lines]
    start = lines.index("")
    assert [re.split(" {2,}", line.strip()) for line in lines[start + 1 :]] == [
        ["fault", "times", "refused", "operator killed", "longest gap in writes"],
        ["kill leader", "2", "0", "0", "0.4 s"],
        ["transfer", "5", "3", "1", "1.5 s"],
        ["transfer refused, 2 times: [busy]"],
        ["transfer refused, 1 times: late"],
        ["lost: /x"],
        ["/[red]"],
    ]


def test_errors_of_clients_are_shown_if_none_was_allowed() -> None:
    assert "client errors" not in judgement_shown(WRONG)
    assert "client errors             0" in judgement_shown(HistoryReport(client_errors=[]))
    told = judgement_shown(HistoryReport(client_errors=["session lost: [a]"]))
    lines = [line.rstrip() for line in told.splitlines()]
    assert lines[-2:] == ["client errors             1", "session lost: [a]"]


def test_a_document_holds_all_violations() -> None:
    assert verdict_document(WRONG, seed=7, records=Path("/r")) == {
        "is_clean": False,
        "seed": 7,
        "faults": {"kill leader": 2, "transfer": 5},
        "fault_results": {
            "kill leader": {
                "number": 2,
                "operators_killed": 0,
                "refusals": [],
                "longest_gap_s": 0.4,
            },
            "transfer": {
                "number": 5,
                "operators_killed": 1,
                "refusals": ["[busy]", "late", "[busy]"],
                "longest_gap_s": 1.5,
            },
        },
        "operations": 3,
        "unknown_outcomes": 1,
        "acknowledged_writes": 2,
        "sessions": 4,
        "longest_gap_s": 1.5,
        "lost_writes": ["lost: /x"],
        "violations": ["/[red]"],
        "client_errors": None,
        "undecided_znodes": ["/y"],
        "records": "/r",
    }


LOST_NODES = LossReport(
    [Row("vote [red]back after", "9.00 s", "15.00 s"), Row("violations", "1", "0", is_met=False)],
    WRONG,
    ["server 2 has its disk on b; /old on a is out of date and left alone"],
    Path("/r"),
)
TRIED = LossSettings(tree_mb=100, heal_after_s=5.0, seed=7)


def test_lost_nodes_have_rows_with_their_goals_and_the_lines_of_a_launch() -> None:
    lines = printed(lambda console: show_losses(console, LOST_NODES, TRIED)).splitlines()
    rows = [re.split(" {2,}", line.strip()) for line in lines]
    assert rows[1:4] == [["seed", "7"], ["tree mb", "100"], ["heal after s", "5.0"]]
    assert ["vote [red]back after", "9.00 s", "15.00 s"] in rows
    assert ["violations", "1", "0"] in rows
    assert lines[-3:] == [*LOST_NODES.lines, *WRONG.lost, *WRONG.violations]


def test_the_document_of_lost_nodes_has_the_same_figures() -> None:
    assert losses_document(LOST_NODES, TRIED) == {
        "is_met": False,
        "seed": 7,
        "tree_mb": 100,
        "heal_after_s": 5.0,
        "operations": 3,
        "acknowledged_writes": 2,
        "rows": [
            {
                "name": "vote [red]back after",
                "measured": "9.00 s",
                "goal": "15.00 s",
                "is_met": True,
            },
            {"name": "violations", "measured": "1", "goal": "0", "is_met": False},
        ],
        "lines": LOST_NODES.lines,
        "lost_writes": ["lost: /x"],
        "violations": ["/[red]"],
        "records": "/r",
    }


def test_the_files_of_log_lines_are_told_together() -> None:
    one, two, other = (
        structs.replace(LEADER, log_file=f"/ray/{folder}/raykeeper-co-ord-{number}.log")
        for folder, number in (("logs", 1), ("logs", 2), ("more", 3))
    )
    assert shown(ServerId(1), None, one, two, other)[-2:] == [
        "log lines: /ray/logs/raykeeper-co-ord-{1,2}.log",
        "log lines: /ray/more/raykeeper-co-ord-3.log",
    ]


UPGRADED = UpgradeReport(
    [
        Row("feature level", "1 before, 2 after", "2"),
        Row("then", "[leader]", "refused", is_met=False),
    ],
    WRONG,
    Path("/r"),
)


def test_an_upgrade_has_the_rows_of_a_verdict_and_what_it_missed() -> None:
    lines = printed(lambda console: show_upgrade(console, UPGRADED, 7)).splitlines()
    rows = [re.split(" {2,}", line.strip()) for line in lines]
    assert rows[:3] == [
        ["seed", "7"],
        ["feature level", "1 before, 2 after"],
        ["then", "[leader], not refused"],
    ]
    assert rows[-1] == WRONG.violations
    document = upgrade_document(UPGRADED, 7)
    assert (document["is_met"], document["seed"], document["records"]) == (False, 7, "/r")
    assert [row["is_met"] for row in document["rows"]] == [True, False]
