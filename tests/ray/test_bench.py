"""Every experiment of `raykeeper bench` on a tiny load: on our own ensemble and on the others."""

import re
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from raykeeper.bench.experiment_run import ExperimentRun
from raykeeper.bench.experiments import EXPERIMENTS
from raykeeper.bench.experiments.barriers import clients_of
from raykeeper.bench.experiments.bytes_per_write import BYTES
from raykeeper.bench.experiments.contract import AnyExperiment
from raykeeper.bench.experiments.failures import FailureTarget
from raykeeper.bench.experiments.latency import LATENCY
from raykeeper.bench.experiments.throughput import FIGURE5
from raykeeper.bench.plots import can_plot
from raykeeper.bench.results import Row, write_csv
from raykeeper.bench.systems.contract import System
from raykeeper.bench.systems.etcd import Etcd
from raykeeper.bench.systems.raykeeper import Raykeeper
from raykeeper.bench.systems.zookeeper import ZooKeeper
from raykeeper.bench.systems.zookeeper_loads import CLIENTS, missing_client
from tests.ray.programs import run_raykeeper

PNG = b"\x89PNG\r\n"
REQUESTS = ("create", "set", "get", "linearizable get", "watch notification")
LOCK = "lock and unlock"  # of libraries that have recipes
COLUMNS = {
    "figure5": {
        "reads": (0, 100),
        "ops_per_s": None,
        "warmed_s": None,
        "warm_ops_per_s": None,
        "leader_us": None,
        "follower_us": None,
        "client_us": None,
        "most_per_s": None,
    },
    "figure6": {"reads": (0, 100), "ops_per_s": None, "warmed_s": None},
    "figure7": {"txns_per_s": None},
    "figure8": {"kind": ("sample", "kill"), "victim": tuple(FailureTarget), "warmed_s": None},
    "table2": {"workers": (1, 3), "creates_per_s": None, "warmed_s": None},
    "table3": {
        "clients": (2, 3),
        "barriers": (2, 4),
        "seconds": None,
        "ops_per_s": None,
        "warmed_s": None,
    },
    "znodes": {"way": ("one_by_one", "pipelined"), "seconds": None, "warmed_s": None},
    "latency": {
        "request": (*REQUESTS, LOCK),
        "warmed_s": None,
    },
    "million": {
        "restart_s": None,
        "leader_mb": None,
        "set_p50_without_ms": None,
        "fill_warmed_s": None,
        "warmed_s": None,
    },
    "bytes": {"writes": None, "log_bytes": None, "peer_bytes": None, "client_bytes": None},
    "failover": {"gap_ms": None, "median_ms": None, "warmed_s": None},
    "crowds": {
        "crowd": ("watchers", "contenders", "members"),
        "phase": ("alone", "busy", "idle", "forming", "changes"),
        "errors": (0,),
    },
    "returns": {"returned": None, "lost": (0,), "over_calls": (0,), "away_max_ms": None},
    "hostile": {
        "bounds": ("default", "raised"),
        "phase": (
            *("alone", "busy", "silent", "slow", "lengths", "unread", "opening", "connections"),
            "after",
        ),
        "opened": None,
        "server_mb": None,
        "errors": (0,),
    },
    "idle": {"sessions": (50,), "base_cores": None, "client_us_each": None},
}


OF_SYSTEMS = [experiment for experiment in EXPERIMENTS if not experiment.is_alone]


@pytest.fixture(scope="module")
def ours(ray_session: str) -> Raykeeper:
    return Raykeeper()


def measure(system: System, experiment: AnyExperiment, folder: Path) -> list[Row]:
    """The rows of the experiment; nothing that was started is left."""
    children = set(psutil.Process().children())
    with ExperimentRun([system], Console(file=StringIO()), folder) as run:
        rows = list(experiment.run(run, experiment.quick))
    assert list(folder.iterdir()) == []
    if system.name != "raykeeper":  # Ray lives on
        assert set(psutil.Process().children()) == children
    return rows


def check(system: System, experiment: AnyExperiment, rows: list[Row], folder: Path) -> None:
    """All columns are there, of every client that is of interest; the results are written."""
    clients = system.clients[:1] if experiment.name == "million" else system.clients
    if experiment.name == "table3":
        clients = clients_of(system)
    assert {row["client"] for row in rows} == set(clients)
    expected: dict[str, Any] = COLUMNS[experiment.name]
    for name, values in expected.items():
        found = [row[name] for row in rows if name in row]
        assert found, name
        if values is None:
            assert all(float(value) > 0 for value in found), (name, found)
        else:
            assert set(found) == set(values) - ({LOCK} if system.name == "etcd" else set())
    write_csv(folder / "a.csv", rows)
    assert len((folder / "a.csv").read_text().splitlines()) == len(rows) + 1
    if can_plot():
        experiment.plot(folder / "a.png", rows)
        assert (folder / "a.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("experiment", OF_SYSTEMS, ids=lambda experiment: experiment.name)
def test_an_experiment_runs_on_raykeeper(
    ours: Raykeeper, experiment: AnyExperiment, tmp_path: Path
) -> None:
    if experiment is BYTES and shutil.which("ss") is None:
        pytest.skip("there is no ss")
    (tmp_path / "data").mkdir()
    rows = measure(ours, experiment, tmp_path / "data")
    check(ours, experiment, rows, tmp_path)


# The others load these systems, and kill their servers, no differently than one of these.
ON_ZOOKEEPER = ("figure5", "table3", "znodes", "latency", "million", "failover")
ON_ETCD = ("figure5", "znodes", "latency", "failover")


@pytest.mark.parametrize(
    ("system", "name"),
    [
        *((ZooKeeper(), name) for name in ON_ZOOKEEPER),
        *((Etcd(), name) for name in ON_ETCD),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_experiment_runs_on_another_system(system: System, name: str, tmp_path: Path) -> None:
    if reason := system.missing():
        pytest.skip(reason)
    (tmp_path / "data").mkdir()
    (experiment,) = [each for each in EXPERIMENTS if each.name == name]
    rows = measure(system, experiment, tmp_path / "data")
    check(system, experiment, rows, tmp_path)


def test_clients_of_zookeeper_are_measured_on_our_port(ray_session: str, tmp_path: Path) -> None:
    guests = [client for client in CLIENTS if not missing_client(client)]
    with ExperimentRun([Raykeeper("auto", guests)], Console(file=StringIO()), tmp_path) as run:
        rows = list(LATENCY.run(run, LATENCY.quick))
    found = {(row["client"], row["request"]) for row in rows}
    expected = {(client, each) for client in ("auto", *guests) for each in (*REQUESTS, LOCK)}
    assert found == expected - {("java", LOCK)}


def test_links_are_measured_side_by_side(ray_session: str, tmp_path: Path) -> None:
    with ExperimentRun(
        [Raykeeper("ray"), Raykeeper("direct")], Console(file=StringIO()), tmp_path
    ) as run:
        rows = list(FIGURE5.run(run, FIGURE5.quick))
    found = {(row["client"], row["reads"]) for row in rows}
    assert found == {(links, reads) for links in ("ray", "direct") for reads in (0, 100)}


def test_the_command_writes_and_shows_the_results(tmp_path: Path) -> None:
    done = run_raykeeper("bench", "latency", "--quick", "--requests", "10", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^raykeeper +auto +3 +watch notification ", done.stdout, re.MULTILINE)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"latency.csv", "latency-machine.csv"} <= names
    assert ("latency.png" in names) == can_plot()
    assert "requests,10\n" in (tmp_path / "latency-machine.csv").read_text()


def test_the_core_is_measured_alone(tmp_path: Path) -> None:
    """Without an option, its results are in the user's folder, and nothing is left here."""
    home, here = tmp_path / "home", tmp_path / "here"
    for folder in (home, here):
        folder.mkdir()
    words = ("growth", "--quick", "--counts", "100,200")
    done = run_raykeeper("bench", *words, cwd=here, HOME=str(home))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^raykeeper +core +watches +200 +add_watch ", done.stdout, re.MULTILINE)
    assert f" are in {home}/.raykeeper/bench\n" in done.stdout
    assert list(here.iterdir()) == []
    names = {path.name for path in (home / ".raykeeper/bench").iterdir()}
    assert {"growth.csv", "growth-machine.csv"} <= names
    assert ("growth.png" in names) == can_plot()


def test_the_command_refuses_senseless_options() -> None:
    done = run_raykeeper("bench", "figure5", "--reads", "101")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --reads: ")
