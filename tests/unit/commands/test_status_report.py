"""What `raykeeper status` tells of an ensemble."""

import json
import re

from raykeeper.clusters.ensemble import EnsembleStatus, ServerStatus
from raykeeper.commands.status_report import show_status, status_document
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
        *("2 by stream, 3 by ray", "3 by stream", "3", "4", "0", "0"),
    ]
    assert down.split() == ["2", "down"]
    assert problem == "server 2 is down: no folder [red]/data[/]"


def test_a_leader_that_ray_does_not_reach() -> None:
    problem = "leads, but Ray does not reach it: no answer within 2 s"
    unreached = ServerStatus(ServerId(2), "unreached", problem=problem)
    _, _, row, told = shown(ServerId(2), None, unreached)
    assert (row.split(), told) == (["2", "unreached"], f"server 2 {problem}")


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
    assert (down["role"], down["problem"]) == ("down", DOWN.problem)
