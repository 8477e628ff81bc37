"""The command `raykeeper`: its commands, and the exit codes of their errors.

docs/COMMAND_LINE.md lists the codes and the documents of `--json`. An error is one line on stderr,
never a traceback. Each command imports its modules when it runs, because importing Ray takes
longer than all the rest of `status`.

The file is long because it has every command with its options and nothing else.
"""

import gc
import logging
import math
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from raykeeper import __version__
from raykeeper.commands.completion import (
    complete_name,
    complete_place,
    forget_name,
    note_name,
)
from raykeeper.commands.inspection.command import Folder, inspection
from raykeeper.commands.output import (
    AsJson,
    make_console,
    print_document,
    print_error,
    print_line,
)
from raykeeper.commands.shell_usage import USAGE as SHELL_USAGE
from raykeeper.zab.errors import RayKeeperError

if TYPE_CHECKING:
    from rich.console import Console

    from raykeeper.clusters.admin import EnsembleAdmin
    from raykeeper.clusters.ensemble import Ensemble
    from raykeeper.clusters.local_head import LocalHead
    from raykeeper.clusters.running_settings import SettingsDifferError

OK, FAILED, USAGE, NOT_FOUND, NO_QUORUM, INTERRUPTED = 0, 1, 2, 3, 4, 130

_POLL_S = 0.2
_GARBAGE_MIN = 100_000
"""New objects before a garbage collection. With Python's 700, collections that find nothing take a
seventh of the time of all imports."""


class _ExperimentGroup(TyperGroup):
    """The commands of `raykeeper bench`, which are imported when one of them is requested."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._group().list_commands(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._group().get_command(ctx, cmd_name)

    def _group(self) -> Any:
        from raykeeper.bench.command import app as experiments

        return typer.main.get_command(experiments)


app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(
    typer.Typer(cls=_ExperimentGroup, no_args_is_help=True),
    name="bench",
    help="Measure: the paper's evaluation, and more.",
)
app.add_typer(
    inspection,
    name="inspect",
    help="Look into the folder of a server, which may run meanwhile. Writes nothing there.",
)
out = make_console()
err = make_console(stderr=True)

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Ray cluster; else RAY_ADDRESS, the head of `raykeeper up`, or the last one started.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="Show so many at most.")]
DAY_S: Final = 86_400.0
"""The longest time that an option takes: an infinite one is none that can be waited for."""
RequestTimeout = Annotated[
    float,
    typer.Option("--timeout-s", min=0.1, max=DAY_S, help="How long one request may take."),
]
WalkTimeout = Annotated[
    float,
    typer.Option("--timeout-s", min=0.1, max=DAY_S, help="How long a server may walk its tree."),
]
Place = Annotated[
    str | None,
    typer.Argument(
        metavar="PLACE",
        help="ENSEMBLE, ENSEMBLE/PATH, or /PATH in the only one.",
        autocompletion=complete_place,
    ),
]
Name = Annotated[
    str | None,
    typer.Argument(
        help="Ensemble; may be left out when only one runs.", autocompletion=complete_name
    ),
]


NameOrFile = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME|FILE",
        help="Ensemble, or its settings file.",
        autocompletion=complete_name,
    ),
]
System = Annotated[
    Literal["zookeeper"], typer.Argument(metavar="zookeeper", help="Only ZooKeeper is known.")
]
ZooKeeperHosts = Annotated[
    str, typer.Argument(metavar="HOSTS", help="Its addresses: zk1:2181,zk2:2181, or with /PATH.")
]
Merge = Annotated[
    bool,
    typer.Option("--merge", help="Copy onto what others have made, and replace it."),
]
MigrationTry = Annotated[
    bool, typer.Option("--dry-run", help="Write nothing; say what would be done and refused.")
]
Auth = Annotated[
    list[str] | None,
    typer.Option(help="digest:USER:PASSWORD, proven to both sides. May be repeated."),
]
Credentials = Annotated[
    Path | None, typer.Option(help='File with such lines, "digest USER:PASSWORD".')
]
Sequences = Annotated[
    bool, typer.Option(help="Let sequential numbers go on where those of the source are.")
]
DeleteGone = Annotated[
    bool,
    typer.Option(
        "--delete", help="Delete what an earlier run has copied and the source has no more."
    ),
]
StateFile = Annotated[
    Path | None, typer.Option(help="What was copied; else a file in ~/.raykeeper/moves.")
]
TlsCa = Annotated[
    str | None, typer.Option(help="Connect to HOSTS over TLS and trust this authority (PEM).")
]
TlsCert = Annotated[str | None, typer.Option(help="With --tls-ca: a certificate to show.")]
TlsKey = Annotated[str | None, typer.Option(help="Its key.")]


def main() -> None:
    """Run the command line and exit with its code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    gc.set_threshold(_GARBAGE_MIN)
    belongs_to_caller = _is_in_ray()
    try:
        app()
    except RayKeeperError as error:
        print_error(err, error)
        sys.exit(code_of(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if _is_in_ray() and not belongs_to_caller:
            # Without this, Ray sleeps for half a second when the interpreter ends.
            sys.modules["ray"].shutdown()


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        out.print(f"raykeeper {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """ZooKeeper's coordination kernel for Ray."""


@app.command()
def up(
    file: Annotated[
        Path | None, typer.Argument(help="Settings, such as ray-config.yaml; else the defaults.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Overrules the file.")] = None,
    servers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    observers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Overrules the file.")] = None,
    zookeeper_port: Annotated[
        int | None, typer.Option(help="For ZooKeeper's own clients. Overrules the file.")
    ] = None,
    own_ray: Annotated[
        bool, typer.Option("--own-ray", help="Start a Ray of your own though another one runs.")
    ] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Launch an ensemble, or complete it; start Ray on this machine if there is none."""
    from raykeeper.clusters.config import resolve_config
    from raykeeper.clusters.launch import launch
    from raykeeper.clusters.local_head import stopped_if_unused
    from raykeeper.clusters.running_settings import SettingsDifferError
    from raykeeper.commands.reports import show_status, status_document

    options: dict[str, Any] = {
        "name": name,
        "servers": servers,
        "observers": observers,
        "data_dir": data_dir,
        "zookeeper_port": zookeeper_port,
    }
    given = {k: v for k, v in options.items() if v is not None}
    resolve_config(file, given)  # a wrong setting is refused before Ray starts
    if own_ray and address is not None:
        raise typer.BadParameter("--own-ray starts a Ray, and --address names one")
    told = err if as_json else out
    head = _start_ray(told, own_ray) if address is None else None
    with stopped_if_unused(head):
        _join_for_up(address, own_ray)
        try:
            ensemble = launch(file, **given)
        except SettingsDifferError as error:
            _print_differences(error, as_json)
            raise typer.Exit(USAGE) from None
    note_name(ensemble.name)
    _tell_exports(told)
    report = ensemble.status()
    # An ensemble that was running already may have another folder than the default.
    described = ensemble.describe()
    folder = None if described is None else str(Path(described.folder).parent)
    if as_json:
        started_ray = None if head is None else head.address
        document = {"started_ray": started_ray, "folder": folder, **status_document(report)}
        print_document(document)
        return
    show_status(out, report)
    if folder is not None:
        out.print(f"data in {folder}")


def _print_differences(error: "SettingsDifferError", as_json: bool) -> None:
    from raykeeper.commands.reports import differences_document, show_differences

    if as_json:
        print_document(differences_document(error))
    else:
        show_differences(out, error)
    which = ", ".join(each.setting for each in error.differences)
    print_error(err, RayKeeperError(f"ensemble {error.name!r} runs with other settings: {which}"))


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("ray-config.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite it if it exists.")] = False,
) -> None:
    """Write a settings file for `up`: every setting with its default and what it does."""
    from raykeeper.commands.settings_file import write_settings

    write_settings(file, overwrites=force)
    out.print(f"wrote {file}; launch an ensemble with `raykeeper up {file}`")


@app.command()
def status(name: Name = None, address: Address = None, as_json: AsJson = False) -> None:
    """Show the servers of an ensemble. Exits with 4 when it has no leader."""
    from raykeeper.commands.keeper_reports import keeper_document, show_keeper
    from raykeeper.commands.reports import show_status, status_document

    _join(address)
    ensemble = _find(name)
    report, keeper = ensemble.status(), ensemble.keeper()
    if as_json:
        print_document({**status_document(report), "keeper": keeper_document(keeper)})
    else:
        show_status(out, report)
        show_keeper(out, keeper)
    if report.leader is None:
        raise typer.Exit(NO_QUORUM)


@app.command()
def doctor(
    name: Name = None,
    timeout_s: Annotated[
        float,
        typer.Option(min=5.0, max=DAY_S, help="How long servers and nodes may take together."),
    ] = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Find what is wrong with an ensemble: what it means, what to do. Exits with 0, 1 or 2."""
    from raykeeper.clusters.doctor import diagnose
    from raykeeper.commands.doctor import diagnosis_document, exit_code, show_diagnosis

    _join(address)
    diagnosis = diagnose(_find(name), timeout_s=timeout_s)
    if as_json:
        print_document(diagnosis_document(diagnosis))
    else:
        show_diagnosis(out, diagnosis)
    raise typer.Exit(exit_code(diagnosis))


@app.command()
def sessions(
    name: Name = None,
    limit: Limit = 1_000,
    after: Annotated[
        str, typer.Option(help="Only sessions that were opened after this one, such as 0x1f.")
    ] = "0",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List who is connected: each session with its process, its server and what it waits for."""
    from raykeeper.commands.tables import session_argument, sessions_document, show_sessions

    first = session_argument(after)
    _join(address)
    ensemble, _, admin = _find_place(name)
    table = admin.sessions(limit, first)
    if as_json:
        print_document(sessions_document(ensemble, table))
    else:
        show_sessions(out, table)
    _exit_unless(table.told_by is not None)


@app.command()
def locks(
    place: Place = None,
    limit: Limit = 1_000,
    contenders: Annotated[
        int, typer.Option(min=1, max=1_000, help="Show so many of each queue at most.")
    ] = 10,
    timeout_s: WalkTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List who holds a lock and who waits for it, since when, and in which task or actor."""
    from raykeeper.commands.tables import locks_document, show_locks

    _join(address)
    ensemble, path, admin = _find_place(place, timeout_s)
    table = admin.locks(path or "/", limit, contenders)
    if as_json:
        print_document(locks_document(ensemble, table))
    else:
        show_locks(out, table)
    _exit_unless(table.told_by is not None)


@app.command()
def watches(
    place: Place = None,
    session: Annotated[
        str | None, typer.Option(help="Only watches of this session, such as 0x1f.")
    ] = None,
    limit: Limit = 1_000,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List who watches: all watches, or those that a change of a znode concerns."""
    from raykeeper.commands.tables import (
        DOWN,
        session_argument,
        show_watches,
        watches_document,
    )

    only = None if session is None else session_argument(session)
    _join(address)
    ensemble, path, admin = _find_place(place)
    table = admin.watches(path, only, limit)
    if as_json:
        print_document(watches_document(ensemble, table))
    else:
        show_watches(out, table)
    _exit_unless(any(each.role != DOWN for each in table.servers))


@app.command()
def tree(
    place: Place = None,
    depth: Annotated[
        int, typer.Option(min=0, max=20, help="Levels below PLACE that are shown.")
    ] = 1,
    largest: Annotated[
        int, typer.Option(min=1, max=1_000, help="Show so many children of each znode at most.")
    ] = 20,
    timeout_s: WalkTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Show the sizes of a subtree and of its largest parts."""
    from raykeeper.client.errors import NoNodeError
    from raykeeper.commands.tables import show_tree, tree_document

    _join(address)
    ensemble, path, admin = _find_place(place, timeout_s)
    table = admin.tree_sizes(path or "/", depth, largest)
    if table.row is None and table.told_by is not None:
        raise NoNodeError(path)
    if as_json:
        print_document(tree_document(ensemble, table))
    else:
        show_tree(out, table)
    _exit_unless(table.told_by is not None)


@app.command()
def top(
    name: Name = None,
    interval_s: Annotated[float, typer.Option(min=0.1, max=DAY_S, help="Between two looks.")] = 2.0,
    looks: Annotated[
        int | None, typer.Option(min=1, help="End after so many; else when interrupted.")
    ] = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Show what each server does: requests and their times, lag, connections, the tree; live."""
    from raykeeper.clusters.admin import admin_of
    from raykeeper.commands.top import run_top

    _join(address)
    found = _find(name).name
    run_top(
        found,
        lambda before: admin_of(found).load(before),  # a server may have moved since
        lambda: time.sleep(interval_s),
        out,
        looks=looks,
        as_json=as_json,
    )


@app.command()
def events(
    name: Name = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones until interrupted.")
    ] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """List what the keeper of an ensemble has decided, the oldest first."""
    from raykeeper.clusters.keeper_journal import Journal
    from raykeeper.commands.event_follower import follow_entries
    from raykeeper.commands.keeper_reports import (
        events_document,
        print_new_events,
        show_events,
    )

    _join(address)
    ensemble = _find(name)
    # Without a leader too: that is when somebody asks what the keeper has done.
    with ensemble.connect(read_only=True) as client:
        if follow:
            for new in follow_entries(client):
                print_new_events(out, new, as_json=as_json)
        entries = Journal(client).read_entries()
    if as_json:
        print_document(events_document(ensemble.name, entries))
    else:
        show_events(out, entries)


@app.command()
def transfer(
    name: Name = None,
    to: Annotated[
        int | None, typer.Option(help="Server that is to lead; else one that has everything.")
    ] = None,
    timeout_s: Annotated[float, typer.Option(min=0.01, help="How long the leader tries.")] = 2.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Have another server lead, without an error or a lost write for anybody."""
    _join(address)
    ensemble = _find(name)
    before = ensemble.status().leader
    leader = ensemble.transfer_leadership(to, timeout_s=timeout_s)
    if as_json:
        print_document({"name": ensemble.name, "leader_before": before, "leader": leader})
    elif leader == before:
        out.print(f"server {leader} leads already")
    else:
        out.print(f"server {leader} leads, after server {before}")


@app.command()
def restart(
    name: Name = None,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="One server after the other, the leader last.")
    ] = False,
    since: Annotated[
        int | None, typer.Option(help="Go on with the restart that printed this number.")
    ] = None,
    wait_s: Annotated[
        float, typer.Option(min=1.0, help="How long to wait for a server, or for a majority.")
    ] = 120.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Restart the servers of an ensemble while it works on."""
    if not rolling:
        raise typer.BadParameter("say --rolling; to stop all servers at once, use `down` and `up`")
    _join(address)
    ensemble = _find(name)
    told = err if as_json else out
    began = int(time.time()) if since is None else since
    told.print(f"a restart that is interrupted goes on with --since {began}")
    restarted = ensemble.rolling_restart(since_s=began, wait_s=wait_s, tell=told.print)
    if as_json:
        print_document({"name": ensemble.name, "since": began, "restarted": restarted})
    else:
        out.print(f"restarted {len(restarted)} servers; all are in step")


@app.command()
def grafana(
    install: Annotated[
        bool, typer.Option("--install", help="Write it where Ray's Grafana loads dashboards from.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Write it into this folder; else where Ray looks for it.")
    ] = None,
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Print the alert rules for Prometheus instead.")
    ] = False,
    address: Address = None,
) -> None:
    """Print the Grafana dashboard of the metrics, or install it for Ray's Grafana."""
    from raykeeper.commands.grafana.provisioning import (
        alerts_text,
        dashboard_text,
        install_dashboard,
        session_folder,
        told_folder,
    )

    if alerts and (install or folder is not None):
        raise typer.BadParameter("--alerts prints, and Ray has no place for alert rules")
    if alerts or not (install or folder is not None):
        typer.echo(alerts_text() if alerts else dashboard_text(), nl=False)
        return
    found = folder or told_folder()
    if found is None:
        from raykeeper.links.ray_internals import session_log_folder

        _join(address)
        found = session_folder(session_log_folder())
    out.print(f"wrote {install_dashboard(found)}; Grafana shows it within half a minute")


@app.command()
def ui(
    name: Name = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: one that is free.")] = 8267,
    edit: Annotated[
        bool, typer.Option("--edit", help="Let viewers create, change and delete znodes.")
    ] = False,
    interval_s: Annotated[float, typer.Option(min=0.1, help="Between two looks.")] = 2.0,
    looks: Annotated[int, typer.Option(min=2, help="Looks that the plots show.")] = 300,
    viewers: Annotated[
        int, typer.Option(min=1, help="So many pages, and sessions of viewers, at most.")
    ] = 20,
    idle_s: Annotated[
        float, typer.Option(min=1.0, help="When the session of an idle viewer is closed.")
    ] = 900.0,
    timeout_s: WalkTimeout = 30.0,
    backups: Annotated[
        list[str] | None,
        typer.Option(metavar="PLACE", help="Show the backups or the archive there; repeatable."),
    ] = None,
    backup_files: Annotated[
        int, typer.Option(min=1, help="So many files of each place are read at most.")
    ] = 200,
    backup_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="How long reading a place may take.")
    ] = 10.0,
    address: Address = None,
) -> None:
    """Serve a page on this machine that shows an ensemble, and the same data as JSON."""
    from raykeeper.commands.ui.errors import PageError

    if not all(map(math.isfinite, (interval_s, idle_s, timeout_s, backup_timeout_s))):
        raise typer.BadParameter("a time is a number of seconds, not nan or inf")
    try:
        from raykeeper.commands.ui.command import serve_page
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise PageError("aiohttp is not installed: pip install 'raykeeper[ui]'") from None
    from raykeeper.commands.ui.settings import PageSettings

    _join(address)
    settings = PageSettings(
        may_edit=edit,
        interval_s=interval_s,
        looks_kept=looks,
        viewers_max=viewers,
        idle_s=idle_s,
        backups=tuple(dict.fromkeys(backups or ())),
        backup_files_max=backup_files,
        backup_timeout_s=backup_timeout_s,
    )
    serve_page(_find(name), settings, port, timeout_s, out)


@app.command()
def drain(
    node: Annotated[str, typer.Argument(help="Ray node: the beginning of its id, as in `status`.")],
    name: Name = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Let servers stay there, and move there, again.")
    ] = False,
    timeout_s: Annotated[
        float, typer.Option(min=0.0, max=DAY_S, help="How long to wait for the moves.")
    ] = 900.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Have the keeper move the voting servers away from a Ray node, and wait for it."""
    from raykeeper.clusters.draining import drain_node, end_drain

    _join(address)
    ensemble = _find(name)
    told = err if as_json else out
    if cancel:
        was_drained = end_drain(ensemble, node)
        told.print(f"{node} {'is drained no more' if was_drained else 'was not drained'}")
        document: dict[str, Any] = {"node": node, "was_drained": was_drained}
    else:
        moved = drain_node(ensemble, node, timeout_s, told.print)
        servers = f"server {', '.join(map(str, moved))}" if moved else "no voting server"
        told.print(f"{servers} had to leave {node}; none is there now")
        document = {"node": node, "moved": moved}
    if as_json:
        print_document(document)


@app.command()
def down(
    name: Name = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Also end the Ray that `raykeeper up` started.")
    ] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Stop an ensemble and keep its data."""
    from raykeeper.clusters.ensemble import attach, list_ensembles
    from raykeeper.clusters.local_head import find_head, stop_head
    from raykeeper.clusters.local_ray import RayNotFoundError, leave_ray

    head = find_head() if ray else None
    if ray and head is None:
        raise RayNotFoundError("no Ray started by `raykeeper up` runs here")
    _join(address if head is None else head.address)
    if head is None:
        ensembles = [_find(name)]
    else:
        ensembles = [attach(each) for each in ([name] if name is not None else list_ensembles())]
    told = err if as_json else out
    for ensemble in ensembles:
        ensemble.shutdown()
        told.print(f"stopped ensemble {ensemble.name!r}; its data is kept")
    if head is not None:
        leave_ray()  # otherwise this process waits 5 s at its end for the stopped Ray
        stop_head(head)
        told.print(f"ended Ray at {head.address}")
    if as_json:
        ended_ray = None if head is None else head.address
        print_document({"stopped": [each.name for each in ensembles], "ended_ray": ended_ray})


@app.command()
def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--input", help="Folder with text files; else Raykeeper's own documents."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count words with six workers while a coordinator and a leader are killed."""
    from raykeeper.commands.demo.run import run_demo
    from raykeeper.commands.reports import counts_document, show_counts

    report = run_demo(folder, err if as_json else out)
    if as_json:
        print_document(counts_document(report))
    else:
        show_counts(out, report)
    if report.wrong_files:
        raise typer.Exit(FAILED)


@app.command()
def chaos(
    minutes: Annotated[float, typer.Option(help="How long faults are injected.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Decides the faults; else one is drawn.")] = None,
    judge: Annotated[
        Path | None,
        typer.Option(help="Run nothing: judge the records that a run kept in this folder."),
    ] = None,
    lose_nodes: Annotated[bool, typer.Option(help="Lose two of five nodes instead.")] = False,
    tree_mb: Annotated[int, typer.Option(help="With --lose-nodes: the size of the tree.")] = 10,
    heal_after_s: Annotated[float, typer.Option(help="With --lose-nodes: the setting.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Kill and freeze the processes of a throw-away ensemble under load, and judge the answers.

    Exits with 1 when an acknowledged write was lost, a promise broken or a goal missed.
    """
    seed = random.randrange(1_000_000) if seed is None else seed
    if lose_nodes:
        _lose_nodes(tree_mb, heal_after_s, seed, as_json)
        return
    from raykeeper.chaos.history_file import judge_records
    from raykeeper.chaos.run import check_settings, run_chaos
    from raykeeper.commands.reports import show_verdict, verdict_document

    if judge is not None:
        judgement = judge_records(judge)
        document = verdict_document(judgement, records=judge)
        circumstances = {"records": str(judge)}
    else:
        settings = check_settings(minutes, seed)
        report = run_chaos(settings, err if as_json else out)
        judgement = report.history
        document = verdict_document(
            judgement, seed=settings.seed, faults=report.faults, records=report.records
        )
        each = ", ".join(f"{kind} {number}" for kind, number in sorted(report.faults.items()))
        inflicted = f"{sum(report.faults.values())}: {each}" if each else "0"
        circumstances = {"seed": str(settings.seed), "faults": inflicted}
    if as_json:
        print_document(document)
    else:
        show_verdict(out, judgement, circumstances)
    if not judgement.is_clean:
        raise typer.Exit(FAILED)


def _lose_nodes(tree_mb: int, heal_after_s: float, seed: int, as_json: bool) -> None:
    from raykeeper.chaos.lose_nodes import check_loss_settings, run_losses
    from raykeeper.commands.reports import losses_document, show_losses

    settings = check_loss_settings(tree_mb, heal_after_s, seed)
    report = run_losses(settings, err if as_json else out)
    if as_json:
        print_document(losses_document(report, settings))
    else:
        show_losses(out, report, settings)
    if not report.is_met:
        raise typer.Exit(FAILED)


def _complete_shell(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete only command names: a path would need a session; the prompt has one."""
    is_first = not ctx.params.get("command")
    return [name for name in SHELL_USAGE if name.startswith(incomplete)] if is_first else []


@app.command(context_settings={"allow_interspersed_args": False})
def shell(
    command: Annotated[
        list[str] | None,
        typer.Argument(help=f"{', '.join(SHELL_USAGE)}.", autocompletion=_complete_shell),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", "-n", help="Ensemble.", autocompletion=complete_name),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, max=DAY_S, help="How long a command may take.")
    ] = 10.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Look at znodes and change them: one COMMAND, or a prompt."""
    from raykeeper.client import ClientState
    from raykeeper.commands.shell import Shell, ShellUsageError
    from raykeeper.commands.shell_completion import install_completion

    if as_json and not command:
        raise ShellUsageError("--json needs a COMMAND")
    _join(address)
    ensemble = _find(name)
    with ensemble.connect(timeout_s=timeout_s) as client:
        prompt = Shell(client, out, as_json=as_json)
        try:
            if not command:
                install_completion(client)
                prompt.interact(lambda: input(f"{ensemble.name}> "))
                return
            prompt.run(command)
            while command[0] == "watch" and client.state != ClientState.LOST:
                time.sleep(_POLL_S)
        finally:
            prompt.leave()
        if command[0] == "create" and any("e" in w for w in command[1:] if w.startswith("-")):
            err.print("the session ends with this command, and the ephemeral znode with it")


@app.command()
def copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="What: ENSEMBLE/PATH, or /PATH.", autocompletion=complete_place
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="DST", help="Where to: ENSEMBLE/PATH, or /PATH.", autocompletion=complete_place
        ),
    ],
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Copy into an existing DST, or complete a copy; deletes nothing."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read both, and say what would be done.")
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option(help='File with lines such as "scrypt user:password", proven to both.'),
    ] = None,
    timeout_s: RequestTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Copy a subtree into another place or ensemble: values, ACLs, TTLs, no ephemeral znodes."""
    from raykeeper.client.session_options import split_ensemble_name
    from raykeeper.commands.subtree_copy import copy_and_tell, read_credentials

    (source_name, source_path), (target_name, target_path) = map(
        split_ensemble_name, (source, target)
    )
    proofs = [] if credentials is None else read_credentials(credentials)
    _join(address)
    from_, to = _find(source_name or None), _find(target_name or None)
    with from_.connect(timeout_s=timeout_s) as reader, to.connect(timeout_s=timeout_s) as writer:
        for client in (reader, writer):
            for scheme, credential in proofs:
                client.add_auth(scheme, credential)
        places = ((reader, source_path or "/"), (writer, target_path or "/"))
        copy_and_tell(*places, out, err, merge=merge, dry_run=dry_run, as_json=as_json)


@app.command("import")
def import_(
    system: System,
    hosts: ZooKeeperHosts,
    name: Annotated[str, typer.Argument(help="The ensemble.")],
    path: Annotated[str, typer.Option(help="The znode to import, below the path of HOSTS.")] = "/",
    to: Annotated[str, typer.Option(help="Where to, in the ensemble.")] = "/",
    merge: Merge = False,
    dry_run: MigrationTry = False,
    auth: Auth = None,
    credentials: Credentials = None,
    sequences: Sequences = True,
    delete: DeleteGone = False,
    state: StateFile = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    timeout_s: RequestTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Import a tree from ZooKeeper: values, ACLs, quotas, sequence numbers; no ephemeral znodes."""
    from raykeeper.commands.migration.order import Order, proofs_of, tls_of

    order = Order(state, merge, dry_run, sequences, delete, as_json)
    proofs, tls = proofs_of(auth, credentials), tls_of(tls_ca, tls_cert, tls_key)
    command, parsed = _load_migration(hosts, path, to)
    _join(address)
    ensemble = _find(name)
    limits = command.limits_of(ensemble)
    with (
        command.open_zookeeper(parsed, proofs, tls, timeout_s) as session,
        command.open_ensemble(ensemble, proofs, timeout_s) as client,
    ):
        report = command.import_tree((session, parsed, path), (client, to, limits), order, out, err)
    if report.refused:
        raise typer.Exit(FAILED)


@app.command("export")
def export(
    name: Annotated[str, typer.Argument(help="The ensemble.")],
    system: System,
    hosts: ZooKeeperHosts,
    path: Annotated[str, typer.Option(help="The znode to export.")] = "/",
    to: Annotated[str, typer.Option(help="Where to, below the path of HOSTS.")] = "/",
    merge: Merge = False,
    dry_run: MigrationTry = False,
    auth: Auth = None,
    credentials: Credentials = None,
    sequences: Sequences = True,
    delete: DeleteGone = False,
    state: StateFile = None,
    packet_bytes_max: Annotated[
        int, typer.Option(min=1024, help="jute.maxbuffer of the servers of HOSTS.")
    ] = (1 << 20) - 1,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    timeout_s: RequestTimeout = 30.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Export a tree to ZooKeeper: the way back of `import`."""
    from raykeeper.commands.migration.order import Order, proofs_of, tls_of

    order = Order(state, merge, dry_run, sequences, delete, as_json)
    proofs, tls = proofs_of(auth, credentials), tls_of(tls_ca, tls_cert, tls_key)
    command, parsed = _load_migration(hosts, path, to)
    _join(address)
    ensemble = _find(name)
    limits = command.limits_of(ensemble)
    with (
        command.open_ensemble(ensemble, proofs, timeout_s) as client,
        command.open_zookeeper(parsed, proofs, tls, timeout_s) as session,
    ):
        report = command.export_tree(
            (client, path, limits), (session, parsed, to), packet_bytes_max, order, out, err
        )
    if report.refused:
        raise typer.Exit(FAILED)


@app.command()
def recover(
    ensemble: NameOrFile = None,
    servers: Annotated[int | None, typer.Option(help="Else as the disks tell.")] = None,
    observers: Annotated[int | None, typer.Option(help="Else as the disks tell.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Overrules the file.")] = None,
    accept_data_loss: Annotated[
        bool,
        typer.Option(
            "--accept-data-loss", help="Found a new history from the best of what is left."
        ),
    ] = False,
    epoch_gap: Annotated[
        int, typer.Option(min=1, help="By how much its epoch exceeds all that are known.")
    ] = 10_000,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Tell what is left of a stopped ensemble that lost a majority of its disks, and recover it.

    Exits with 4 if no majority is left and nothing was founded.
    """
    from raykeeper.clusters.config import resolve_requested
    from raykeeper.clusters.recovery.founding import found_new_history
    from raykeeper.clusters.recovery.survey import RecoveryRefusedError, survey
    from raykeeper.commands.recovery_reports import (
        judgement_document,
        new_history_document,
        show_judgement,
        show_new_history,
    )

    file = _settings_file(ensemble)
    options = {"servers": servers, "observers": observers, "data_dir": data_dir}
    options |= {} if file is not None else {"name": ensemble}
    given = {key: value for key, value in options.items() if value is not None}
    config, stated = resolve_requested(file, given)
    _join(address)
    found = survey(config, stated)
    judgement, told = found.judgement, err if as_json else out
    if not as_json:
        show_judgement(out, judgement)
    made = None
    if accept_data_loss:
        if judgement.refusal:
            raise RecoveryRefusedError(f"nothing was changed: {judgement.refusal}")
        made = found_new_history(found, epoch_gap, told.print)
    if as_json:
        founded = None if made is None else new_history_document(made)
        print_document({**judgement_document(judgement), "founded": founded})
    elif made is not None:
        show_new_history(out, judgement.name, made)
    elif not judgement.refusal:
        out.print("nothing was changed; found a new history with --accept-data-loss")
    _exit_unless(judgement.has_majority or made is not None)


@app.command()
def backup(
    name: Annotated[str, typer.Argument(help="Ensemble.")],
    file: Annotated[
        str, typer.Argument(help="New file; with --follow, folder. A path, or a URL such as s3://…")
    ],
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Archive the log as it grows, until interrupted."),
    ] = False,
    keep_days: Annotated[
        float, typer.Option(min=0.0, help="With --follow: how far back every moment is kept.")
    ] = 7.0,
    full_every_h: Annotated[
        float, typer.Option(min=0.001, help="With --follow: hours between whole backups.")
    ] = 24.0,
    interval_s: Annotated[
        float, typer.Option(min=0.05, help="With --follow: between two looks at the log.")
    ] = 0.5,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write a backup of a running ensemble into one file, or archive its log as it grows."""
    from raykeeper.commands.backup_commands import follow_and_tell, print_backup, shown_progress

    _join(address)
    ensemble = _find(name)
    if follow:
        days = (keep_days, full_every_h / 24)
        follow_and_tell(ensemble.name, file, days, interval_s, out, as_json=as_json)
        return
    with shown_progress(err) as tell:
        report = ensemble.backup(file, tell=tell)
    print_backup(out, report, as_json=as_json)


@app.command()
def restore(
    source: Annotated[str, typer.Argument(metavar="FILE", help="Backup, or folder of an archive.")],
    name: Annotated[str, typer.Option("--name", help="Of the new ensemble.")],
    at_zxid: Annotated[str | None, typer.Option(help="As of this zxid, such as 3:17.")] = None,
    at_time: Annotated[
        str | None, typer.Option(help="As of this time (ISO 8601, UTC), or how long ago: 2h.")
    ] = None,
    first_epoch: Annotated[
        int | None, typer.Option(help="Epoch of the restored state; else far above all others.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings, such as ray-config.yaml; else the defaults.")
    ] = None,
    servers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    observers: Annotated[int | None, typer.Option(help="Overrules the file.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Overrules the file.")] = None,
    timeout_s: Annotated[float, typer.Option(help="How long the start may take.")] = 60.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Found a new ensemble with the znodes of a backup, and start it."""
    from datetime import UTC, datetime

    from raykeeper.clusters.backups.restore import restore as restore_backup
    from raykeeper.commands.backup_commands import print_restore, shown_progress
    from raykeeper.commands.inspection.arguments import parse_time, parse_zxid
    from raykeeper.zab.ids import Millis

    zxid = None if at_zxid is None else parse_zxid("--at-zxid", at_zxid)
    now = Millis(time.time_ns() // 1_000_000)
    time_ms = None if at_time is None else parse_time("--at-time", at_time, now)
    if zxid is not None and time_ms is not None:
        raise typer.BadParameter("--at-zxid and --at-time exclude each other")
    _join(address)
    with shown_progress(err) as tell:
        report = restore_backup(
            source,
            name,
            at_zxid=zxid,
            at_time=None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC),
            first_epoch=first_epoch,
            config=config,
            timeout_s=timeout_s,
            tell=tell,
            servers=servers,
            observers=observers,
            data_dir=data_dir,
        )
    print_restore(out, report, as_json=as_json)


@app.command()
def log(
    folder: Folder,
    path: Annotated[str | None, typer.Option(help="Only changes of this znode.")] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="With --path: also of the znodes below it.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    since: Annotated[
        str | None, typer.Option(help="From this time on (ISO 8601, UTC), or how long ago: 2h.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to this time.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only so many, the newest.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell from the log of a server who changed what, from where, with what outcome."""
    from raykeeper.actors.disk.folder_reader import FolderReader
    from raykeeper.commands.inspection.arguments import parse_path, parse_session, parse_time
    from raykeeper.commands.inspection.audit_log import (
        Wanted,
        entry_document,
        entry_line,
        print_log,
    )
    from raykeeper.zab.ids import Millis

    now = Millis(time.time_ns() // 1_000_000)
    wanted = Wanted(
        None if path is None else parse_path("--path", path),
        recursive,
        None if session is None else parse_session("--session", session),
        None if since is None else parse_time("--since", since, now),
        None if until is None else parse_time("--until", until, now),
    )
    reader = FolderReader(folder)
    if as_json:
        print_log(reader, wanted, lambda entry: print_line(entry_document(entry)), last)
    else:
        print_log(reader, wanted, lambda entry: typer.echo(entry_line(entry)), last)


def _settings_file(name_or_file: str | None) -> Path | None:
    """Return the settings file that an argument means, which may be missing; None: it is a name."""
    if name_or_file is None:
        return None
    file = Path(name_or_file)
    is_path = "/" in name_or_file or file.suffix in (".yaml", ".yml")
    return file if is_path or file.is_file() else None


def _load_migration(hosts: str, path: str, to: str) -> tuple[Any, Any]:
    """Return the module of both commands and the parsed HOSTS, and check the paths."""
    from raykeeper.clusters.config import ConfigError
    from raykeeper.commands.inspection.arguments import parse_path

    parse_path("--path", path)
    parse_path("--to", to)
    try:
        from raykeeper.commands.migration import command
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "kazoo":
            raise
        text = "this command needs kazoo: pip install 'raykeeper[zookeeper]'"
        raise ConfigError(text) from None
    return command, command.parse_hosts(hosts)


def _start_ray(told: "Console", own_ray: bool) -> "LocalHead | None":
    """Start a head for `up` if no Ray runs here or `own_ray` is set; else return None."""
    from raykeeper.clusters.local_head import find_head, start_head
    from raykeeper.clusters.local_ray import is_ray_connected

    if find_head() is not None or (is_ray_connected() and not own_ray):
        return None
    told.print("starting a Ray head on this machine …")
    head = start_head()
    told.print(f"Ray runs at {head.address} until `raykeeper down --ray`")
    return head


def _join_for_up(address: str | None, own_ray: bool) -> None:
    """Join the cluster that `up` launches in; an error tells how to start a Ray of one's own."""
    from raykeeper.clusters.local_head import find_head
    from raykeeper.clusters.local_ray import RayNotFoundError

    if own_ray:
        head = find_head()
        address = head.address if head is not None else None
    try:
        _join(address)
    except RayNotFoundError as error:
        if address is not None:
            raise
        advice = "start a Ray of your own with `raykeeper up --own-ray`"
        raise RayNotFoundError(f"{error}; or {advice}") from None


def _tell_exports(told: "Console") -> None:
    """Print how programs join this Ray, if `up` started it."""
    import ray

    from raykeeper.clusters.local_head import find_head

    head = find_head()
    if head is not None and head.address == ray.get_runtime_context().gcs_address:
        told.print(f"for your programs: {head.export_line()}")


def _join(address: str | None) -> None:
    """Join the cluster at `address`, at RAY_ADDRESS, of our own head, or the last one started."""
    from raykeeper.clusters.local_head import find_head
    from raykeeper.clusters.local_ray import join_ray

    if address is None and not os.environ.get("RAY_ADDRESS"):
        head = find_head()
        address = head.address if head is not None else None
    join_ray(address, is_quiet=True)


def _is_in_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def _find(name: str | None) -> "Ensemble":
    from raykeeper.client.errors import EnsembleNotFoundError
    from raykeeper.clusters.config import DEFAULTS
    from raykeeper.clusters.ensemble import attach, list_ensembles

    if name is None:
        known = list_ensembles()
        name = known[0] if len(known) == 1 else DEFAULTS.name
    try:
        found = attach(name)
    except EnsembleNotFoundError:
        forget_name(name)
        raise
    note_name(name)
    return found


def _exit_unless(is_told: bool) -> None:
    """Exit with 4 if no server could tell what was asked."""
    if not is_told:
        raise typer.Exit(NO_QUORUM)


def _find_place(
    place: str | None, walk_timeout_s: float = 30.0
) -> "tuple[str, str, EnsembleAdmin]":
    """Return the name of the ensemble, the path in it or "", and its admin interface."""
    from raykeeper.client.session_options import split_ensemble_name
    from raykeeper.clusters.admin import admin_of

    name, path = split_ensemble_name(place or "")
    ensemble = _find(name or None)
    return ensemble.name, path, admin_of(ensemble.name, walk_timeout_s)


def code_of(error: RayKeeperError) -> int:
    """Return the exit code of a command that ends with this error."""
    from raykeeper.client.errors import (
        ConnectionLossError,
        EnsembleNotFoundError,
        OperationTimeoutError,
        SessionExpiredError,
        WrongContextError,
    )
    from raykeeper.clusters.config import ConfigError
    from raykeeper.clusters.ensemble import NoLeaderError
    from raykeeper.clusters.local_ray import RayNotFoundError
    from raykeeper.commands.inspection.arguments import ArgumentError
    from raykeeper.commands.migration.errors import ZooKeeperUnreachableError
    from raykeeper.commands.shell import ShellUsageError

    match error:
        case ConfigError() | ShellUsageError() | ArgumentError():
            return USAGE
        case EnsembleNotFoundError() | RayNotFoundError() | WrongContextError():
            return NOT_FOUND
        case (
            NoLeaderError()
            | ConnectionLossError()
            | OperationTimeoutError()
            | SessionExpiredError()
            | ZooKeeperUnreachableError()
        ):
            return NO_QUORUM
        case _:
            return FAILED
