"""The command `raykeeper`: what it prints and with which code it ends."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from raykeeper.actors.ray_actors import find_replica
from raykeeper.client import make_acl
from raykeeper.clusters import Ensemble
from raykeeper.links.contract import STREAM
from raykeeper.zab.feature_levels import LEVEL_MAX
from raykeeper.zab.ids import ServerId
from tests.harness.jute_port import JutePort
from tests.harness.kazoo_clients import kazoo_clients
from tests.ray import programs
from tests.ray.conftest import Launch, Run, eventually, new_name

_PAIRS = ("1, 2", "1, 3", "2, 3")
# Ray itself leaves half a second after the interpreter wanted to end.
_LEAVES_RAY = """
import sys
from raykeeper.commands.command_line import main
sys.argv = ["raykeeper", "status"]
try:
    main()
finally:
    import ray
    print(ray.is_initialized())
"""


def test_status_shows_every_server(
    shared: Ensemble, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_linked() -> bool:
        servers = shared.status().servers
        peers = [list(server.carriers.values()) for server in servers]
        return peers == [[STREAM] * 2] * 3 and sum(s.clients.get(STREAM, 0) for s in servers) == 1

    with shared.connect():
        eventually(is_linked)
        code, out, _ = run("status", shared.name)
    assert code == 0
    assert f"ensemble {shared.name}" in out
    assert len(re.findall(r"^[123]\s+(leader|follower)\s", out, re.MULTILINE)) == 3
    linked = re.findall(r"  ([123], [123] by stream)  (1 by stream|0) ", out)
    assert sorted(peers for peers, _ in linked) == [f"{pair} by stream" for pair in _PAIRS]
    assert sorted(clients for _, clients in linked) == ["0", "0", "1 by stream"]
    code, out, _ = run("status")  # the only one there is
    assert (code, out.splitlines()[0]) == (0, f"ensemble {shared.name}")
    monkeypatch.setenv("COLUMNS", "40")
    assert "…" not in run("status")[1]


def test_status_says_why_there_is_no_leader(
    launch_one: Launch, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    ensemble = launch_one(servers=2)
    assert "an even number of voting servers: 2 bear the loss of none" in caplog.text
    ray.kill(find_replica(ensemble.name, ServerId(1)), no_restart=True)
    eventually(lambda: ensemble.status().leader is None)
    code, out, _ = run("status", ensemble.name)
    assert code == 4
    reason = "heard server 2; 2 of 2 voters are needed, 1 can vote"
    assert f"no leader: {reason}" in out
    code, out, _ = run("status", "--json", ensemble.name)
    assert (code, json.loads(out)["leader"]) == (4, None)
    assert json.loads(out)["reason"].startswith(reason)
    code, _, err = run("shell", "--timeout-s", "1", "-n", ensemble.name, "ls", "/")
    assert (code, len(err.splitlines())) == (4, 1)


def test_status_shows_a_server_that_is_down(launch_one: Launch, run: Run) -> None:
    ensemble = launch_one()
    ray.kill(find_replica(ensemble.name, ServerId(1)), no_restart=True)
    # Server 1 may have led; until the others have a leader the reason follows.

    def tells() -> bool:
        code, out, _ = run("status", ensemble.name)
        return code == 0 and out.endswith("server 1 is down: not started\n")

    eventually(tells)


def test_shell_commands_print_their_results(shared: Ensemble, run: Run) -> None:
    def shell(*words: str) -> tuple[int, str, str]:
        return run("shell", "-n", shared.name, *words)

    assert shell("create", "-p", "/a/b", "some text") == (0, "/a/b\n", "")
    assert shell("get", "/a/b")[:2] == (0, "some text")
    assert run("shell", "get", f"{shared.name}/a/b")[:2] == (0, "some text")
    assert shell("set", "/a/b", "more", "0")[:2] == (0, "version 1\n")
    assert shell("create", "-s", "/a/n-")[1] == "/a/n-0000000001\n"
    assert shell("ls", "/a")[1] == "b\nn-0000000001\n"
    out = shell("stat", "/a/b")[1]
    assert re.search(r"^ *version +1 *$", out, re.MULTILINE)
    assert re.search(r"^ *ephemeral_owner +none *$", out, re.MULTILINE)
    assert "session ends with this command" in shell("create", "-e", "/gone")[2]
    long = "/" + "n" * 300
    assert shell("create", long)[1] == f"{long}\n"
    assert shell("ls")[1] == f"a\n{long[1:]}\nzookeeper\n"
    assert shell("delete", long)[0] == 0
    assert shell("delete", "-r", "/a")[0] == 0
    assert shell("ls")[1] == "zookeeper\n"


def test_texts_are_printed_as_they_are(shared: Ensemble, run: Run) -> None:
    text = "'raykeeper[bench]' [red]no markup[/] :smile:"
    path = "/[red]a:smile:"
    words = ("shell", "-n", shared.name)
    assert run(*words, "create", path, text) == (0, f"{path}\n", "")
    assert run(*words, "get", path)[:2] == (0, text)
    assert path[1:] in run(*words, "ls")[1].splitlines()
    assert run(*words, "ls", "/[/")[2].startswith("error: /[/: bad arguments")
    assert run(*words, "delete", path)[0] == 0
    code, _, err = run("status", "[bench]")
    assert code == 3
    assert err.startswith('error: there is no ensemble "[bench]"; ')


def test_json_prints_one_document(shared: Ensemble, run: Run) -> None:
    """One document on standard output, and nothing else."""

    def document(*words: str) -> Any:
        code, out, _ = run(*words)
        assert code == 0
        return json.loads(out)

    shell = ("shell", "--json", "-n", shared.name)
    status = document("status", "--json", shared.name)
    assert (status["name"], status["leader"] in (1, 2, 3)) == (shared.name, True)
    assert [re.fullmatch(r"\d+:\d+", s["last_zxid"]) is None for s in status["servers"]] == [
        False
    ] * 3
    assert status["feature_level"]["newest"] == LEVEL_MAX
    assert document(*shell, "create", "/j", "text") == {"path": "/j"}
    assert document(*shell, "ls", "/j") == {"path": "/j", "children": []}
    told = document(*shell, "get", "/j")
    assert (told["value"], told["value_base64"], told["stat"]["version"]) == ("text", None, 0)
    assert document(*shell, "stat", "/j") == {"path": "/j", "stat": told["stat"]}
    changed = document(*shell, "set", "/j", "more")
    assert (changed["path"], changed["stat"]["version"]) == ("/j", 1)
    assert document(*shell, "delete", "/j") == {"path": "/j"}
    assert run(*shell, "get", "/j") == (1, "", "error: /j: no such znode\n")
    assert run("shell", "--json")[:2] == (2, "")


def test_a_subtree_is_copied(shared: Ensemble, run: Run) -> None:
    with shared.connect() as client:
        client.create("/from/a", b"12", makepath=True)
        client.create("/from/e", ephemeral=True)
        words = ("copy", f"{shared.name}/from", f"{shared.name}/to")
        code, out, _ = run(*words, "--json")
        told = json.loads(out)
        assert (code, told["created"], told["ephemerals"], told["value_bytes"]) == (0, 2, 1, 2)
        assert client.get("/to/a")[0] == b"12"
        code, _, error = run(*words)
        assert (code, "/to" in error, "merge" in error) == (1, True, True)
        code, out, _ = run("copy", "/from", "/to", "--merge", "--dry-run")
        assert (code, out.splitlines()[0].partition(" in ")[0]) == (
            0,
            "would copy 2 znodes with 2 bytes",
        )
        for path in ("/from", "/to"):
            client.delete(path, recursive=True)
    assert run("copy", "no-such-one/a", "/b")[0] == 3


def test_a_tree_moves_from_zookeeper_and_back(shared: Ensemble, run: Run) -> None:
    """What is copied has tests of its own (tests/contract/migration/test_migration.py)."""
    with shared.connect() as client, JutePort() as port, kazoo_clients() as connect:
        kazoo = connect(port.address)
        kazoo.create("/app/a", b"12", makepath=True)
        there = f"{port.address}/app", shared.name, "--to", "/moved"
        code, out, _ = run("import", "zookeeper", *there, "--dry-run")
        assert (code, out.partition(" in ")[0]) == (0, "would copy 2 znodes with 2 bytes")
        code, out, _ = run("import", "zookeeper", *there, "--json")
        told = json.loads(out)
        assert (code, told["created"], told["skipped"], told["refused"]) == (0, 2, 0, [])
        assert client.get("/moved/a")[0] == b"12"
        again = there[0], f"{shared.name}/moved"  # the same place
        assert ", 2 skipped because" in run("import", "zookeeper", *again)[1]
        client.create("/moved/scrypt", acl=[make_acl("scrypt", "ann:hash", all=True)])
        back = shared.name, "zookeeper", f"{port.address}/back", "--path", "/moved"
        assert run("export", *back, "--dry-run")[0] == 1, "it may not be read"
        code, _, error = run("export", *back)
        assert (code, "not authorized" in error, "goes on from here" in error) == (1, True, True)
        client.delete("/moved/scrypt")
        assert run("export", *back)[0] == 0
        assert kazoo.get("/back/a")[0] == b"12"
        client.delete("/moved", recursive=True)
    assert run("import", "zookeeper", port.address, shared.name, "--timeout-s", "0.3")[0] == 4
    assert run("import", "zookeeper", port.address, "no-such-one")[0] == 3
    assert run("import", "zookeeper", "a:b", shared.name)[0] == 2


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["get", "/missing"], 1, "/missing: no such znode"),
        (["get", "/a//b"], 2, "bad arguments"),
        (["get", "no-slash"], 2, "not 'no-slash'; a path in it begins with /"),
        (["get", "/a", "--json"], 2, "--json belongs before it: `raykeeper shell --json get"),
        (["get"], 2, "usage: get PATH"),
        (["create", "-x", "/a"], 2, "usage: create [-e] [-s] [-p] PATH [VALUE]"),
        (["set", "/a", "v", "old"], 2, "usage: set PATH VALUE [VERSION]"),
        (["rm", "/a"], 2, "no command 'rm'; there are ls, get"),
    ],
)
def test_shell_errors_set_the_exit_code(
    shared: Ensemble, run: Run, words: list[str], code: int, error: str
) -> None:
    ended, out, err = run("shell", "-n", shared.name, *words)
    assert (ended, out) == (code, "")
    assert err.startswith("error: ")
    assert error in err
    assert len(err.splitlines()) == 1


def test_the_shell_has_a_prompt(
    shared: Ensemble, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter(["create /p one", "", "watch /p", "set /p two", 'get "', "nonsense", "quit"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    code, out, _ = run("shell", "-n", shared.name)
    assert code == 0
    assert "No closing quotation" in out
    assert "no command 'nonsense'" in out
    assert out.index("changed /p at") < out.index("version 1")


def test_an_interrupt_is_not_reported_as_a_lost_session(
    shared: Ensemble, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter(["watch /interrupted"])

    def read_line(prompt: str) -> str:
        for line in typed:
            return line
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", read_line)
    code, out, _ = run("shell", "-n", shared.name)
    assert code == 130
    assert "session lost" not in out


def test_errors_are_found_before_anything_starts(
    ray_session: str, run: Run, tmp_path: Path
) -> None:
    code, _, err = run("status", "nowhere")
    assert (code, err.count("\n")) == (3, 1)
    assert 'no ensemble "nowhere"' in err
    file = tmp_path / "wrong.yaml"
    file.write_text("name: a\nserver: 3\n")
    code, _, err = run("up", str(file))
    assert (code, err) == (
        2,
        f"error: {file}:2: unknown setting 'server'; did you mean servers?\n",
    )
    assert run("no-such-command")[0] == 2
    assert run("down", "--ray")[0] == 3


def test_up_starts_and_down_stops(ray_session: str, run: Run, tmp_path: Path) -> None:
    name = new_name()
    code, out, _ = run("up", "--name", name, "--servers", "1", "--data-dir", str(tmp_path / "d"))
    assert code == 0
    assert f"data in {tmp_path}/d/{name}" in out
    # It runs already, and where its data is; that can be stated, and other settings are refused.
    code, again, _ = run("up", "--name", name)
    assert (code, again.splitlines()[-1]) == (0, out.splitlines()[-1])
    other = ("up", "--name", name, "--servers", "3", "--data-dir", str(tmp_path / "e"))
    code, out, err = run(*other)
    assert (code, err) == (
        2,
        f"error: ensemble '{name}' runs with other settings: servers, data_dir\n",
    )
    rows = [line.split() for line in out.splitlines()]
    assert ["servers", "1", "3"] in rows
    assert ["data_dir", f"{tmp_path}/d", f"{tmp_path}/e"] in rows
    assert "to change servers: " in out
    code, out, _ = run(*other, "--json")
    assert code == 2
    servers, folder = json.loads(out)["differences"]
    assert (servers["runs_with"], servers["asked_for"]) == ({"1": 1}, 3)
    assert folder["how"].startswith(f"run `raykeeper down {name}`, move the folder {name} ")
    assert not (tmp_path / "e").exists()
    code, out, _ = run("up", "--json", "--name", name, "--servers", "1")
    document = json.loads(out)
    assert (code, document["name"], document["leader"]) == (0, name, 1)
    assert (document["started_ray"], document["folder"]) == (None, f"{tmp_path}/d/{name}")
    code, out, err = run("down", "--json", name)
    assert (code, json.loads(out)) == (0, {"stopped": [name], "ended_ray": None})
    assert err == f"stopped ensemble '{name}'; its data is kept\n"
    assert run("status", name)[0] == 3


def test_observers_come_from_the_file_or_the_command_line(
    ray_session: str, run: Run, tmp_path: Path
) -> None:
    """The command line overrules the file; status shows who has no vote."""
    name = new_name()
    file = tmp_path / "ray-config.yaml"
    file.write_text(f"name: {name}\nservers: 3\nobservers: 2\ndata_dir: {tmp_path}/d\n")

    def observers() -> list[str]:
        return re.findall(r"^(\d)\s+observer\s", run("status", name)[1], re.MULTILINE)

    assert run("up", str(file))[0] == 0
    eventually(lambda: observers() == ["4", "5"])
    code, _, err = run("up", str(file), "--observers", "1")
    assert (code, err.endswith(": observers\n")) == (2, True)
    assert run("down", name)[0] == 0


@pytest.mark.smoke
def test_a_failed_up_leaves_no_ray(
    bare_machine: dict[str, str], command: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = command("up", "--servers", "1", "--data-dir", str(tmp_path / "file/data"))
    assert done.returncode == 1, done.stderr
    *_, told, error = done.stderr.splitlines()
    assert told == "nothing was launched, so the Ray that was started for it ends again"
    assert error.startswith("error: ") and str(tmp_path) in error
    home = Path(bare_machine["HOME"])
    assert not (home / ".raykeeper/head.json").exists()
    ours = [p for p in psutil.process_iter() if _home_of(p) == str(home)]
    assert ours == []
    assert command("status").returncode == 3


def _home_of(process: psutil.Process) -> str:
    try:
        return process.environ().get("HOME", "")
    except psutil.Error:
        return ""


@pytest.mark.smoke
def test_up_starts_ray_where_there_is_none(
    bare_machine: dict[str, str], command: Callable[..., Any]
) -> None:
    done = command("status")
    assert done.returncode == 3
    assert "no Ray cluster runs here: start one with `raykeeper up`" in done.stderr
    done = command("up", "--servers", "1")
    assert done.returncode == 0, done.stderr
    assert "until `raykeeper down --ray`" in done.stdout
    printed = dict(word.split("=") for word in re.findall(r"RAY_\w+=\S+", done.stdout))
    home = Path(bare_machine["HOME"])
    record = json.loads((home / ".raykeeper/head.json").read_text())
    head = psutil.Process(record["pid"])
    processes = [head, *head.children(recursive=True)]
    assert {each.nice() for each in processes} == {head.nice()}, "Ray's workers are no later"
    assert (home / ".raykeeper/data/coord/1/identity").is_file()
    assert command("shell", "create", "/a", "kept").stdout == "/a\n"
    assert command("shell", "get", "coord/a").stdout == "kept"
    done = programs.run([sys.executable, "-c", _LEAVES_RAY], bare_machine)
    assert done.stdout.splitlines()[-1] == "False", done.stderr
    # A program that is told what `up` prints, and a command that is told the address alone.
    assert printed["RAY_ADDRESS"] == record["address"]
    program = "import ray, raykeeper.client as c; ray.init(); c.connect('coord').create('/b')"
    exported = {**bare_machine, **printed}
    subprocess.run([sys.executable, "-c", program], env=exported, check=True, timeout=100)
    named = command("status", RAY_ADDRESS=record["address"])
    assert (named.returncode, named.stderr) == (0, "")
    done = command("down", "--ray")
    assert (done.returncode, done.stderr) == (0, "")
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    assert command("status").returncode == 3
