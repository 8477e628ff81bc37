"""What `raykeeper top` shows."""

import json
import re
from io import StringIO

import pytest

from raykeeper.clusters.admin import EnsembleAdmin, LoadTable
from raykeeper.commands.output import make_console
from raykeeper.commands.top import run_top
from raykeeper.zab.ids import ServerId
from tests.harness.admin_servers import AdminServers
from tests.harness.pure_servers import OPTIONS, PureServers
from tests.unit.commands.printed import printed


class Ensemble:
    """Three servers, of which 3 leads; between two looks a client of server 1 reads and writes."""

    def __init__(self) -> None:
        self.servers = PureServers(3, options=OPTIONS)
        self.asked = AdminServers(self.servers)
        self.caller = self.servers[1].caller(1)
        self.pauses = 0

    def look(self, before: LoadTable | None) -> LoadTable:
        return EnsembleAdmin(self.asked).load(before)

    def pause(self) -> None:
        self.pauses += 1
        for _ in range(4):
            self.caller.ask(self.caller.get("/"), self.caller.set("/", b"12"))
        self.servers.pass_time(2_000)


def test_each_look_is_a_table_of_the_servers() -> None:
    of = Ensemble()
    text = printed(lambda console: run_top("co[red]rd", of.look, of.pause, console, looks=2))
    first, second = (part.splitlines() for part in text.split("ensemble ")[1:])
    assert of.pauses == 1
    assert re.fullmatch(r"co\[red\]rd, \d\d:\d\d:\d\d UTC: server 3 leads", first[0])
    assert first[2].split() == ["1", "follower", "1:1", "0", "0", "1", "1", "0", "4", "44"]
    assert second[2].split()[:9] == [
        *("1", "follower", "1:5", "0", "2", "0.00", "2", "0.00", "4"),
    ]
    assert second[3].split()[:6] == ["2", "follower", "1:5", "0", "0", "0"]


def test_a_server_that_does_not_answer_is_a_row_with_its_reason() -> None:
    of = Ensemble()
    of.asked.silent[3] = "no answer \x1b within 2 s"
    text = printed(lambda console: run_top("c", of.look, of.pause, console, looks=1))
    assert run_top("c", of.look, of.pause, make_console(), looks=1)
    of.asked.silent |= dict.fromkeys(map(ServerId, (1, 2)), "late")
    assert not run_top("c", of.look, of.pause, make_console(), looks=1)
    heading, _, _, _, row, problem = text.splitlines()
    assert heading.endswith("no leader")
    assert (row.split(), problem) == (["3", "down"], "server 3 is down: no answer \\x1b within 2 s")


def test_on_a_terminal_the_table_stays_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, whatever the tests write to
    monkeypatch.setenv("TERM", "xterm")
    of = Ensemble()
    console = make_console()
    console.file = text = StringIO()
    console.width = 40
    run_top("c", of.look, of.pause, console, looks=3)
    assert text.getvalue().count("server 3 leads") == 3 + 1  # Rich draws the last one once more
    up = "\x1b[1A\x1b[2K" * 4  # over the lines of the table, to its heading
    assert text.getvalue().count(up) == 3
    assert "…" not in text.getvalue()


def test_a_document_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    of = Ensemble()
    run_top("coord", of.look, of.pause, make_console(), looks=2, as_json=True)
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["name"], first["leader"]) == ("coord", 3)
    assert [each["rates"] for each in first["servers"]] == [None] * 3
    one = second["servers"][0]
    assert (one["role"], one["has_leader"], one["last_zxid"], one["lag"]) == (
        *("follower", True, "1:5", 0),
    )
    assert (one["rates"]["reads"], one["rates"]["updates"]) == (2, 2)
    assert (one["stats"]["znodes"], one["stats"]["connections"]) == (4, 1)
    of.asked.silent[3] = "late"
    run_top("coord", of.look, of.pause, make_console(), looks=1, as_json=True)
    (document,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    last = document["servers"][2]
    assert (last["role"], last["problem"], last["stats"]) == ("down", "late", None)
