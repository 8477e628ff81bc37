"""The command `raykeeper`: up, status, down, demo, chaos, shell and bench.

Exit codes: 0 it is done; 1 it failed; 2 wrong usage or settings; 3 no such ensemble, or no Ray
cluster; 4 the ensemble does not answer or has no leader; 130 interrupted. An error is one line on
stderr, never a traceback.
"""

import logging
import os
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raykeeper.bench.command import app as bench_app
from raykeeper.client import ClientState
from raykeeper.client.errors import (
    ConnectionLossError,
    EnsembleNotFoundError,
    OperationTimeoutError,
    SessionExpiredError,
    WrongContextError,
)
from raykeeper.clusters.config import DEFAULTS, ConfigError, resolve_config
from raykeeper.clusters.ensemble import (
    Ensemble,
    EnsembleStatus,
    NoLeaderError,
    attach,
    list_ensembles,
    problems_of,
)
from raykeeper.clusters.launch import launch
from raykeeper.clusters.local_head import find_head, start_head, stop_head
from raykeeper.clusters.local_ray import RayNotFoundError, is_ray_here, join_ray
from raykeeper.clusters.shell import Shell, ShellUsageError
from raykeeper.zab.errors import RayKeeperError
from raykeeper.zab.ids import ServerId, show_zxid

OK, FAILED, USAGE, NOT_FOUND, NO_QUORUM, INTERRUPTED = 0, 1, 2, 3, 4, 130
_CODES: list[tuple[tuple[type[RayKeeperError], ...], int]] = [
    ((ConfigError, ShellUsageError), USAGE),
    ((EnsembleNotFoundError, RayNotFoundError, WrongContextError), NOT_FOUND),
    ((NoLeaderError, ConnectionLossError, OperationTimeoutError, SessionExpiredError), NO_QUORUM),
    ((RayKeeperError,), FAILED),
]

_POLL_S = 0.2
_WIDTH_MAX = 500

app = typer.Typer(
    help="ZooKeeper's coordination kernel for Ray.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench_app, name="bench")
out = Console()
err = Console(stderr=True)

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Ray cluster; else RAY_ADDRESS, the head of `raykeeper up`, or the last one started.",
    ),
]
Name = Annotated[str | None, typer.Argument(help="Ensemble; may be left out when only one runs.")]


def main() -> None:
    """Run the command line and exit with its code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        app()
    except RayKeeperError as error:
        err.print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(next(code for kinds, code in _CODES if isinstance(error, kinds)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@app.command()
def up(
    file: Annotated[
        Path | None, typer.Argument(help="Settings, such as ray-config.yaml; else the defaults.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Overrules the file.")] = None,
    servers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    observers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Overrules the file.")] = None,
    address: Address = None,
) -> None:
    """Launch an ensemble, or complete it; start Ray on this machine if there is none."""
    given = {"name": name, "servers": servers, "observers": observers, "data_dir": data_dir}
    config = resolve_config(file, {k: v for k, v in given.items() if v is not None})
    if address is None and find_head() is None and not is_ray_here():
        out.print("no Ray cluster runs here; starting a head on this machine …")
        head = start_head()
        out.print(f"Ray runs at {head.address} until `raykeeper down --ray`", highlight=False)
    _join(address)
    ensemble = launch(config)
    _show(ensemble.status())
    _tell_folder(ensemble)


@app.command()
def status(name: Name = None, address: Address = None) -> None:
    """Show the servers of an ensemble. Exits with 4 when it has no leader."""
    _join(address)
    report = _find(name).status()
    _show(report)
    if report.leader is None:
        raise typer.Exit(NO_QUORUM)


@app.command()
def down(
    name: Name = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Also end the Ray that `raykeeper up` started.")
    ] = False,
    address: Address = None,
) -> None:
    """Stop an ensemble and keep its data."""
    head = find_head()
    if not ray:
        _join(address)
        _stop(_find(name))
        return
    if head is None:
        raise RayNotFoundError("no Ray started by `raykeeper up` runs here")
    _join(head.address)
    for each in [name] if name is not None else list_ensembles():
        _stop(attach(each))
    stop_head(head)
    out.print(f"ended Ray at {head.address}", highlight=False)


@app.command()
def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--input", help="Folder with text files; else the project's own documents."),
    ] = None,
) -> None:
    """Count words with six workers while a coordinator and a leader are killed."""
    from raykeeper.clusters.demo.run import run_demo

    if not run_demo(folder, out):
        raise typer.Exit(FAILED)


@app.command()
def chaos(
    minutes: Annotated[float, typer.Option(help="How long faults are injected.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Decides the faults; else one is drawn.")] = None,
    judge: Annotated[
        Path | None,
        typer.Option(help="Run nothing: judge the records that a run kept in this folder."),
    ] = None,
) -> None:
    """Kill and freeze the processes of a throw-away ensemble under load, and judge the answers.

    Exits with 1 when an acknowledged write was lost or a promise broken.
    """
    if judge is not None:
        from raykeeper.clusters.chaos.verdict import judge_records, show_verdict

        judgement = judge_records(judge)
        show_verdict(out, judgement, {"records": str(judge)})
    else:
        from raykeeper.clusters.chaos.run import check_settings, run_chaos

        settings = check_settings(minutes, random.randrange(1_000_000) if seed is None else seed)
        judgement = run_chaos(settings, out)
    if not judgement.is_clean:
        raise typer.Exit(FAILED)


@app.command(context_settings={"allow_interspersed_args": False})
def shell(
    command: Annotated[
        list[str] | None, typer.Argument(help="ls, get, stat, set, create, delete or watch.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Ensemble.")] = None,
    timeout_s: Annotated[float, typer.Option(help="How long a command may take.")] = 10.0,
    address: Address = None,
) -> None:
    """Look at znodes and change them: one COMMAND, or a prompt."""
    _join(address)
    ensemble = _find(name)
    with ensemble.connect(timeout_s=timeout_s) as client:
        prompt = Shell(client, out)
        try:
            if not command:
                import readline  # noqa: F401  # gives input() its history and editing

                prompt.interact(lambda: input(f"{ensemble.name}> "))
                return
            prompt.run(command)
            while command[0] == "watch" and client.state != ClientState.LOST:
                time.sleep(_POLL_S)
        finally:
            prompt.leave()
        if command[0] == "create" and any("e" in w for w in command[1:] if w.startswith("-")):
            err.print("the session ends with this command, and the ephemeral znode with it")


def _join(address: str | None) -> None:
    """Join a cluster: the one named, RAY_ADDRESS, our own head, or the last one started."""
    head = find_head()
    if address is None and head is not None and not os.environ.get("RAY_ADDRESS"):
        address = head.address
    is_ours = head is not None and address == head.address
    join_ray(address, is_quiet=True, uses_token=is_ours)


def _find(name: str | None) -> Ensemble:
    if name is None:
        known = list_ensembles()
        name = known[0] if len(known) == 1 else DEFAULTS.name
    return attach(name)


def _stop(ensemble: Ensemble) -> None:
    ensemble.shutdown()
    out.print(f"stopped ensemble {ensemble.name!r}; its data is kept", highlight=False)


def _tell_folder(ensemble: Ensemble) -> None:
    """Where the data is: an ensemble that ran before need not have the folder of the settings."""
    described = ensemble.describe()
    if described is not None:
        folder = Path(described.folder).parent
        out.print(f"data in {folder}", markup=False, highlight=False, soft_wrap=True)


def _linked_to(carriers: Mapping[ServerId, str]) -> str:
    """Which servers by which carrier, such as `1, 3 by stream`."""
    peers: dict[str, list[str]] = {}
    for peer, carrier in carriers.items():
        peers.setdefault(carrier, []).append(str(peer))
    return ", ".join(f"{', '.join(ids)} by {carrier}" for carrier, ids in peers.items()) or "none"


def _show(report: EnsembleStatus) -> None:
    out.print(f"ensemble {report.name}", highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in ("server", "role", "epoch", "zxid", "pid", "Ray node", "linked to", "clients"):
        table.add_column(heading, no_wrap=True)
    for heading in ("sessions", "znodes", "watches", "waiting"):
        table.add_column(heading, justify="right", no_wrap=True)
    for server in report.servers:
        color = {"leader": "green", "down": "red", "looking": "yellow"}.get(server.role, "")
        role = f"[{color}]{server.role}[/]" if color else server.role
        if server.role == "down":
            table.add_row(str(server.server_id), role)
            continue
        numbers = (server.sessions, server.znodes, server.watches, server.outstanding)
        table.add_row(
            str(server.server_id),
            role,
            str(server.epoch),
            show_zxid(server.last_zxid),
            str(server.pid),
            server.node_id[:8],
            _linked_to(server.carriers),
            ", ".join(f"{number} by {by}" for by, number in sorted(server.clients.items())) or "0",
            *(str(number) for number in numbers),
        )
    # Numbers that are cut off would mislead; a narrow terminal wraps the lines.
    table.width = out.measure(table, options=out.options.update(max_width=_WIDTH_MAX)).maximum
    out.print(table, soft_wrap=True)
    if report.leader is None:
        out.print(f"[yellow]no leader:[/yellow] {escape(report.reason or '')}", soft_wrap=True)
    else:
        for problem in problems_of(report.servers):
            out.print(escape(problem), style="yellow", highlight=False, soft_wrap=True)
