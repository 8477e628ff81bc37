"""`raykeeper bench`: one command for each experiment, with its sizes as options.

Each command writes `<experiment>.csv` and `<experiment>.png` into the folder of the results, and
`<experiment>-machine.csv`, which describes the machine.
"""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import typer
from msgspec import Meta, Struct
from rich.console import Console
from rich.table import Table

from raykeeper.bench import plots, results
from raykeeper.bench.experiment_run import ExperimentRun
from raykeeper.bench.experiments import EXPERIMENTS
from raykeeper.bench.experiments.contract import AnyExperiment
from raykeeper.bench.results import Row
from raykeeper.bench.systems.contract import System
from raykeeper.bench.systems.etcd import Etcd
from raykeeper.bench.systems.raykeeper import Raykeeper
from raykeeper.bench.systems.zookeeper import ZooKeeper
from raykeeper.bench.systems.zookeeper_loads import CLIENTS, missing_client
from raykeeper.clusters.config import DEFAULTS, ConfigError, make_config
from raykeeper.commands.output import AsJson, make_console, print_document, print_table

DEFAULT_FOLDER = Path("~/.raykeeper/bench")
PEERS: dict[str, Callable[[], System]] = {"zookeeper": ZooKeeper, "etcd": Etcd}

app = typer.Typer(no_args_is_help=True, help="Measure: the paper's evaluation, and more.")

Against = Annotated[
    list[str] | None, typer.Option(help=f"Measure it too, in turn: {', '.join(PEERS)}.")
]
Links = Annotated[
    list[str] | None,
    typer.Option(help="The setting `links` of our ensembles; of several, in turn."),
]
ZooKeeperClients = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Measure these on our port for ZooKeeper's clients too: {', '.join(CLIENTS)}."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder of the results.")]
Scratch = Annotated[
    Path | None, typer.Option(help="Where servers keep their data; else a temporary folder.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="A tiny load, to see that it works; numbers mean nothing.")
]
COMMON: dict[str, tuple[Any, Any]] = {
    "against": (Against, None),
    "links": (Links, None),
    "zookeeper_clients": (ZooKeeperClients, None),
    "out": (Out, DEFAULT_FOLDER),
    "scratch": (Scratch, None),
    "quick": (Quick, False),
    "as_json": (AsJson, False),
}


SYSTEM_OPTIONS = ("against", "links", "zookeeper_clients")


def run_experiment(experiment: AnyExperiment, console: Console, given: Mapping[str, Any]) -> None:
    """Run an experiment, and write and print its results.

    Raises:
        ConfigError: an option is invalid. Nothing was started.
        BenchError: a system or a generator failed. Every started process has ended.
    """
    sizes = sizes_of(experiment, given, is_quick=given["quick"])
    systems: list[System] = []
    if not experiment.is_alone:
        against, links, guests = (given[name] or [] for name in SYSTEM_OPTIONS)
        systems = systems_of(against, links, guests, console)
    scratch, out = given["scratch"], given["out"].expanduser()
    for folder in (out, scratch):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    # Several servers on one machine are intended here: no warning.
    logging.getLogger("raykeeper.clusters").setLevel(logging.ERROR)
    console.file = console.file  # pin standard output, which `private_ray` redirects
    console.print(experiment.title)
    with ExperimentRun(systems, console, scratch) as run:
        facts = results.machine_facts(run.folder)
        rows = list(experiment.run(run, sizes))
    written = [out / f"{experiment.name}.csv", out / f"{experiment.name}-machine.csv"]
    results.write_csv(written[0], rows)
    circumstances = {**facts, **_sizes_as_text(sizes)}
    results.write_csv(
        written[1], [{"fact": name, "value": value} for name, value in circumstances.items()]
    )
    if plots.can_plot():
        written.append(out / f"{experiment.name}.png")
        experiment.plot(written[-1], rows)
    else:
        console.print("no plot: matplotlib is not installed (pip install 'raykeeper[bench]')")
    found = list(results.ratios(rows, experiment.by, experiment.values))
    if given["as_json"]:
        print_document(
            {
                "experiment": experiment.name,
                "circumstances": circumstances,
                "rows": rows,
                "ratios": [ratio._asdict() for ratio in found],
                "files": [str(path) for path in written],
            }
        )
        return
    _show(console, experiment, rows, found)
    console.print(f"{', '.join(path.name for path in written)} are in {out}")


def sizes_of(experiment: AnyExperiment, given: Mapping[str, Any], *, is_quick: bool) -> Struct:
    """Return the quick or the full sizes, overridden by the options `given`.

    Raises:
        ConfigError: an option is invalid.
    """
    sizes: Struct = experiment.quick if is_quick else experiment.sizes()
    hints = get_type_hints(experiment.sizes, include_extras=True)
    checked: dict[str, Any] = {}
    for name in experiment.sizes.__struct_fields__:
        value = given.get(name)
        if value is None:
            continue
        words = value.split(",") if isinstance(getattr(sizes, name), tuple) else value
        try:
            checked[name] = msgspec.convert(words, hints[name], strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"--{name.replace('_', '-')}: {error}") from None
    return msgspec.structs.replace(sizes, **checked)


def systems_of(
    against: Sequence[str], links: Sequence[str], guests: Sequence[str], console: Console
) -> list[System]:
    """Return our systems and their peers; what is not installed is left out, with a note.

    `guests` are those of ZooKeeper's clients that are measured on our port for them.

    Raises:
        ConfigError: a peer or a client is unknown, or a value of `links` is invalid.
    """
    for each in links:
        make_config({"links": each})
    carriers = list(dict.fromkeys(links)) or [DEFAULTS.links]
    clients = []
    for client in dict.fromkeys(guests):
        if client not in CLIENTS:
            raise ConfigError(
                f"--zookeeper-clients: expected {' or '.join(CLIENTS)}, not {client[:80]!r}"
            )
        if reason := missing_client(client):
            console.print(f"{client} is left out: {reason}")
        else:
            clients.append(client)
    systems: list[System] = [Raykeeper(carrier, clients) for carrier in carriers]
    for name in dict.fromkeys(against):
        if name not in PEERS:
            raise ConfigError(f"--against: expected {' or '.join(PEERS)}, not {name[:80]!r}")
        system = PEERS[name]()
        if reason := system.missing():
            console.print(f"{name} is left out: {reason}")
        else:
            systems.append(system)
    return systems


def _sizes_as_text(sizes: Struct) -> Mapping[str, results.Value]:
    return {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in msgspec.structs.asdict(sizes).items()
    }


def _show(
    console: Console,
    experiment: AnyExperiment,
    rows: Sequence[Row],
    found: Sequence[results.Ratio],
) -> None:
    shown = [row for row in rows if row.get("kind") != "sample"]
    columns = list(dict.fromkeys(name for row in shown for name in row))
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in shown:
        table.add_row(*(_text(row.get(column, "")) for column in columns))
    print_table(console, table)
    if found:
        better = "less is better" if experiment.is_less_better else "more is better"
        ratios = Table(box=None, pad_edge=False, title=f"ours in units of theirs ({better})")
        for column in ("of", "what", "ours", "theirs", "", "", "ratio"):
            ratios.add_column(column, no_wrap=True)
        for each in found:
            numbers = (_text(each.our_value), _text(each.their_value), f"{each.ratio:.2f}")
            ratios.add_row(each.of, each.value, each.ours, each.theirs, *numbers)
        print_table(console, ratios)


def _text(value: results.Value) -> str:
    return (
        f"{value:,.4g}"
        if isinstance(value, float) and abs(value) < 10_000
        else (f"{value:,.0f}" if isinstance(value, float) else str(value))
    )


def _command_of(experiment: AnyExperiment) -> Callable[..., None]:
    """Return a function with an argument for each option, as Typer expects."""

    def command(**given: Any) -> None:
        run_experiment(experiment, make_console(stderr=given["as_json"]), given)

    hints = get_type_hints(experiment.sizes, include_extras=True)
    options = {
        name: option
        for name, option in COMMON.items()
        if not (experiment.is_alone and name in SYSTEM_OPTIONS)
    }
    full = experiment.sizes()
    for name in experiment.sizes.__struct_fields__:
        default = _sizes_as_text(full)[name]
        said = next(
            m.description
            for m in hints[name].__metadata__
            if isinstance(m, Meta) and m.description is not None
        )
        option = typer.Option(help=f"{said} [{default}]", show_default=False)
        options[name] = (Annotated[str | None, option], None)
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for name, (kind, default) in options.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    command.__doc__ = experiment.title
    return command


for _experiment in EXPERIMENTS:
    app.command(_experiment.name)(_command_of(_experiment))
