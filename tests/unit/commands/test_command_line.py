"""What a command loads, which is most of the time it takes: no more than it needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

import raykeeper
from raykeeper.commands.command_line import app, main

_MODULES_OF = """
import json, sys
from raykeeper.commands.command_line import main
sys.argv = ["raykeeper", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    code = ended.code
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def modules_of(*words: str) -> tuple[int, set[str]]:
    """The exit code of a command, and what its process has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", _MODULES_OF, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    return code, set(modules)


def rooms(modules: set[str]) -> set[str]:
    return {name for name in modules if name.count(".") == 1 and name.startswith("raykeeper.")}


def completed(words: str) -> tuple[list[str], set[str]]:
    """What is offered for the last word in bash, and what has been loaded for it."""
    environment = {
        **os.environ,
        "_RAYKEEPER_COMPLETE": "complete_bash",
        "COMP_WORDS": f"raykeeper {words}",
        "COMP_CWORD": str(len(words.split(" "))),
    }
    done = subprocess.run(
        [sys.executable, "-X", "importtime", Path(sys.executable).parent / "raykeeper"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    return done.stdout.split(), loaded


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("sta", ["status"]),
        ("d", ["down", "drain-server", "drain", "doctor", "demo"]),
        ("status --js", ["--json"]),
        ("shell s", ["stat", "set"]),
        ("shell ls /", []),
        ("locks --con", ["--contenders"]),
    ],
)
def test_completion_loads_neither_ray_nor_the_library(words: str, offered: list[str]) -> None:
    found, modules = completed(words)
    assert found == offered
    assert "raykeeper.commands.command_line" in modules
    assert rooms(modules) <= {"raykeeper.commands", "raykeeper.zab"}
    assert "ray" not in modules


def test_the_experiments_are_completed() -> None:
    assert completed("bench fig")[0] == ["figure5", "figure6", "figure7", "figure8"]


def test_the_version_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["raykeeper", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"raykeeper {raykeeper.__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["status", "--help"], ["no-such-command"]])
def test_help_loads_neither_ray_nor_the_library(words: list[str]) -> None:
    _, modules = modules_of(*words)
    assert rooms(modules) == {"raykeeper.commands", "raykeeper.zab"}
    assert modules & {"ray", "yaml", "asyncio"} == set()


def test_the_help_groups_the_commands() -> None:
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    panels = [each.rich_help_panel for each in command.commands.values()]  # type: ignore[attr-defined]
    assert None not in panels and len(set(panels)) == 6
    assert max(map(panels.count, panels)) <= 10


def test_status_loads_neither_server_nor_experiments() -> None:
    code, modules = modules_of("status", "--address", "127.0.0.1:1")
    assert code == 3
    assert "raykeeper.clusters.ensemble" in modules
    assert modules & {"raykeeper.server.server", "raykeeper.actors.replica"} == set()
    assert not any(name.startswith("raykeeper.bench") for name in modules)
    below = {each for each in modules if each.startswith("raykeeper.clusters.healing.")}
    # What the keeper tells; not how it decides.
    assert {each.rpartition(".")[2] for each in below} <= {"vocabulary", "wording"}


def test_experiments_are_listed_without_a_plot() -> None:
    code, modules = modules_of("bench", "--help")
    assert code == 0
    assert "raykeeper.bench.experiments" in modules
    assert modules & {"matplotlib", "kazoo", "grpc"} == set()


def test_an_experiment_prints_one_document(tmp_path: Path) -> None:
    """One document on standard output and nothing else; nothing is left in the current folder."""
    words = ("bench", "growth", "--quick", "--counts", "100", "--json")
    here = tmp_path / "here"
    here.mkdir()
    done = subprocess.run(
        [Path(sys.executable).parent / "raykeeper", *words],
        cwd=here,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    document = json.loads(done.stdout)
    assert document["experiment"] == "growth"
    assert document["circumstances"]["counts"] == "100"
    assert {row["count"] for row in document["rows"]} == {100}
    files = [tmp_path / ".raykeeper/bench" / f"growth{rest}.csv" for rest in ("", "-machine")]
    assert document["files"][:2] == [str(file) for file in files if file.is_file()]
    assert list(here.iterdir()) == []


def test_installed_completion_offers_the_ensembles_that_are_known(tmp_path: Path) -> None:
    """In a real bash, whose completion typer writes into the home folder."""
    (tmp_path / ".raykeeper/data/coord").mkdir(parents=True)
    (tmp_path / ".raykeeper/names.json").write_text('["cold", "apps"]')
    program = Path(sys.executable).parent / "raykeeper"
    script = f"""
        export HOME={tmp_path} PATH={program.parent}:$PATH
        raykeeper --install-completion >&2
        . "$HOME/.bashrc"
        try() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _raykeeper_completion raykeeper
            echo "${{COMPREPLY[*]}}"; }}
        try raykeeper status co
        try raykeeper tree c
        try raykeeper shell --name a
        try raykeeper copy c
        try raykeeper doc
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.splitlines() == [
        *("cold coord", "cold coord", "apps", "cold coord", "doctor"),
    ], done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["tree", "--timeout-s", "0"],
        ["locks", "--timeout-s", "-1"],
        ["doctor", "--timeout-s", "1"],
        ["doctor", "--timeout-s", "inf"],
        ["copy", "/a", "/b", "--timeout-s", "inf"],
        ["import", "zookeeper", "zk", "coord", "--timeout-s", "0"],
        ["export", "coord", "zookeeper", "zk", "--timeout-s", "nan"],
        ["shell", "--timeout-s", "0"],
        ["drain", "node", "--timeout-s", "-1"],
        ["drain-server", "2", "--clients-per-s", "0"],
        ["drain-server", "two"],
        ["sessions", "--limit", "0"],
        ["sessions", "--after", "first"],
        ["watches", "--session", ""],
        ["tree", "--depth", "21"],
        ["top", "--interval-s", "0"],
        ["backup", "coord", "b.rkb", "--rate", "0"],
        ["backup", "coord", "b", "--follow", "--rate", "nan"],
        ["ui", "--interval-s", "0"],
        ["ui", "--idle-s", "nan"],
        ["ui", "--timeout-s", "inf"],
        ["ui", "--port", "65536"],
        ["ui", "--viewers", "0"],
        ["ui", "--backup-files", "0"],
        ["ui", "--backup-timeout-s", "nan"],
    ],
)
def test_a_number_out_of_range_is_refused_before_ray_is_looked_for(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # nobody is there
    monkeypatch.setattr(sys, "argv", ["raykeeper", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "Invalid value" in printed.err


@pytest.mark.parametrize("file", ["missing.yaml", "folder/settings"])
def test_a_missing_settings_file_is_not_taken_for_a_name(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["raykeeper", "recover", file])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == "" and file in printed.err and "No such file" in printed.err


def test_the_dashboard_and_the_alerts_are_printed_without_ray() -> None:
    for words in (["grafana"], ["grafana", "--alerts"]):
        code, modules = modules_of(*words)
        assert code in (None, 0)
        assert "ray" not in modules


def test_the_dashboard_is_written_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["raykeeper", "grafana", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return ended.value.code or 0, told.out, told.err

    code, out, _ = run("--folder", str(tmp_path))
    (file,) = tmp_path.iterdir()
    assert (code, out.startswith(f"wrote {file}; ")) == (0, True)
    monkeypatch.setenv("RAY_METRICS_GRAFANA_DASHBOARD_OUTPUT_DIR", str(tmp_path / "missing"))
    code, out, error = run("--install")
    assert (code, out) == (1, "")
    assert error.startswith(f"error: {tmp_path}/missing/{file.name} cannot be written")
    assert run("--alerts", "--install")[0] == 2


@pytest.mark.parametrize(
    ("package", "words", "told"),
    [
        ("kazoo", ["import", "zookeeper", "zk1", "coord"], "pip install 'raykeeper[zookeeper]'"),
        ("kazoo", ["export", "coord", "zookeeper", "zk1"], "pip install 'raykeeper[zookeeper]'"),
        ("aiohttp", ["ui"], "pip install 'raykeeper[ui]'"),
    ],
)
def test_a_command_without_its_package_says_what_to_install(
    package: str, words: list[str], told: str
) -> None:
    """In a process of its own: modules that are loaded anew here are others than those of tests."""
    program = f"import sys\nsys.modules[{package!r}] = None\n{_MODULES_OF}"
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1])[0] == 1
    assert done.stderr == f"error: this command needs {package}: {told}\n"


@pytest.mark.parametrize(
    ("hosts", "options"), [("zk1:x", []), ("zk1", ["--path", "a"]), ("zk1", ["--to", "/a/"])]
)
def test_wrong_places_of_a_migration_are_wrong_usage(hosts: str, options: list[str]) -> None:
    assert modules_of("import", "zookeeper", hosts, "coord", *options)[0] == 2
