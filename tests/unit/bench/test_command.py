"""Options become sizes; what makes no sense is refused before anything starts."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from raykeeper.bench import command
from raykeeper.bench.command import sizes_of, systems_of
from raykeeper.bench.experiments import EXPERIMENTS
from raykeeper.bench.experiments.contract import AnyExperiment
from raykeeper.bench.experiments.throughput import FIGURE5, ThroughputSizes
from raykeeper.bench.systems.zookeeper import ZooKeeper
from raykeeper.clusters.config import ConfigError


def test_sizes_are_full_by_default() -> None:
    assert sizes_of(FIGURE5, {"servers": None}, is_quick=False) == ThroughputSizes()


def test_an_option_overrules_the_quick_size() -> None:
    given = {"servers": "1,3", "seconds": "2.5", "clients": "7"}
    sizes = sizes_of(FIGURE5, given, is_quick=True)
    assert isinstance(sizes, ThroughputSizes)
    assert (sizes.servers, sizes.seconds, sizes.clients) == ((1, 3), 2.5, 7)
    assert sizes.warm_most_s == FIGURE5.quick.warm_most_s


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("servers", "0"),
        ("servers", "3,"),
        ("servers", "three"),
        ("reads", "101"),
        ("seconds", "0"),
        ("seconds", "nan"),
        ("clients", "1.5"),
        ("value_bytes", "-1"),
    ],
)
def test_a_senseless_size_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^--{name.replace('_', '-')}: "):
        sizes_of(FIGURE5, {name: value}, is_quick=False)


def test_the_systems_are_ours_and_each_other_once() -> None:
    systems = systems_of([], [], [], Console(file=StringIO()))
    assert [system.name for system in systems] == ["raykeeper"]


def test_each_kind_of_links_is_measured_once() -> None:
    systems = systems_of([], ["ray", "auto", "ray"], [], Console(file=StringIO()))
    assert [(system.name, system.clients) for system in systems] == [
        ("raykeeper", ("ray",)),
        ("raykeeper", ("auto",)),
    ]


def test_clients_of_zookeeper_are_measured_on_our_port_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "missing_client", lambda client: "no jar" * (client == "java"))
    told = StringIO()
    (system,) = systems_of([], [], ["java", "kazoo", "kazoo"], Console(file=told, width=200))
    assert system.clients == ("auto", "kazoo")
    assert told.getvalue() == "java is left out: no jar\n"
    with pytest.raises(ConfigError, match="--zookeeper-clients: expected java or kazoo, not 'c'"):
        systems_of([], [], ["c"], Console(file=StringIO()))


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(ConfigError, match="zookeeper or etcd, not 'consul'"):
        systems_of(["consul"], [], [], Console(file=StringIO()))


def test_an_impossible_kind_of_links_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^links: "):
        systems_of([], ["pigeons"], [], Console(file=StringIO()))


def test_a_missing_system_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(command.PEERS, "zookeeper", lambda: ZooKeeper(tmp_path))
    told = StringIO()
    systems = systems_of(["zookeeper"], [], [], Console(file=told, width=200))
    assert [system.name for system in systems] == ["raykeeper"]
    assert told.getvalue().startswith("zookeeper is left out: there is no ")


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_size_is_an_option_with_help(experiment: AnyExperiment) -> None:
    (found,) = [c for c in command.app.registered_commands if c.name == experiment.name]
    assert found.callback is not None
    hints = found.callback.__annotations__
    assert set(experiment.sizes.__struct_fields__) < set(hints)
    for name in experiment.sizes.__struct_fields__:
        (option,) = hints[name].__metadata__
        assert "None" not in option.help


def test_every_experiment_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/BENCHMARKS.md").read_text()
    told = set(re.findall(r"`raykeeper bench (\w+)`", page))
    assert told == {experiment.name for experiment in EXPERIMENTS}


def test_names_are_different() -> None:
    assert len({experiment.name for experiment in EXPERIMENTS}) == len(EXPERIMENTS)
