"""Launch an ensemble, stop it, and change where its servers run and lead.

`up`, `init`, `down`, `recover`, `restart`, `transfer`, `drain`, `drain_server`.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raykeeper.commands.completion import note_name
from raykeeper.commands.declarations.joining import find_ensemble, join
from raykeeper.commands.declarations.options import (
    DAY_S,
    Address,
    ClientsPerS,
    Name,
    NameOrFile,
    Patience,
    ServerWait,
    StartTimeout,
)
from raykeeper.commands.exit_codes import USAGE, exit_unless
from raykeeper.commands.output import AsJson, make_console, print_document, print_error
from raykeeper.zab.errors import RayKeeperError

if TYPE_CHECKING:
    from rich.console import Console

    from raykeeper.client.head_record import LocalHead
    from raykeeper.clusters.ensemble import Ensemble
    from raykeeper.clusters.running_settings import SettingsDifferError

out = make_console()
err = make_console(stderr=True)


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
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Change the settings of a running one, server by server."),
    ] = False,
    timeout_s: StartTimeout = 60.0,
    wait_s: ServerWait = 120.0,
    clients_per_s: ClientsPerS = 200,
    patience_s: Patience = 10.0,
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
    from raykeeper.clusters.rolling_settings import apply_settings
    from raykeeper.clusters.running_settings import SettingsDifferError

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
            if apply:
                acts: dict[str, Any] = {"wait_s": wait_s, "clients_per_s": clients_per_s}
                acts |= {"patience_s": patience_s, "tell": told.print}
                ensemble = apply_settings(file, timeout_s=timeout_s, **acts, **given)
            else:
                ensemble = launch(file, timeout_s=timeout_s, **given)
        except SettingsDifferError as error:
            _print_differences(error, as_json)
            raise typer.Exit(USAGE) from None
    note_name(ensemble.name)
    _tell_exports(told)
    _show_launched(ensemble, head, as_json)


def _show_launched(ensemble: "Ensemble", head: "LocalHead | None", as_json: bool) -> None:
    from raykeeper.commands.reports import show_status, status_document

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


def init(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("ray-config.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite it if it exists.")] = False,
) -> None:
    """Write a settings file for `up`: every setting with its default and what it does."""
    from raykeeper.commands.settings_file import write_settings

    write_settings(file, overwrites=force)
    out.print(f"wrote {file}; launch an ensemble with `raykeeper up {file}`")


def down(
    name: Name = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Also end the Ray that `raykeeper up` started.")
    ] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Stop an ensemble and keep its data."""
    from raykeeper.client.head_record import find_head
    from raykeeper.clusters.ensemble import attach, list_ensembles
    from raykeeper.clusters.local_head import stop_head
    from raykeeper.clusters.local_ray import RayNotFoundError, leave_ray

    head = find_head() if ray else None
    if ray and head is None:
        raise RayNotFoundError("no Ray started by `raykeeper up` runs here")
    join(address if head is None else head.address)
    if head is None:
        ensembles = [find_ensemble(name)]
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
    join(address)
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
    exit_unless(judgement.has_majority or made is not None)


def restart(
    name: Name = None,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="One server after the other, the leader last.")
    ] = False,
    since: Annotated[
        int | None, typer.Option(help="Go on with the restart that printed this number.")
    ] = None,
    wait_s: ServerWait = 120.0,
    clients_per_s: ClientsPerS = 200,
    patience_s: Patience = 10.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Restart the servers of an ensemble while it works on."""
    if not rolling:
        raise typer.BadParameter("say --rolling; to stop all servers at once, use `down` and `up`")
    join(address)
    ensemble = find_ensemble(name)
    told = err if as_json else out
    began = int(time.time()) if since is None else since
    told.print(f"a restart that is interrupted goes on with --since {began}")
    restarted = ensemble.rolling_restart(
        since_s=began,
        wait_s=wait_s,
        clients_per_s=clients_per_s,
        patience_s=patience_s,
        tell=told.print,
    )
    if as_json:
        print_document({"name": ensemble.name, "since": began, "restarted": restarted})
    else:
        out.print(f"restarted {len(restarted)} servers; all are in step")


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
    join(address)
    ensemble = find_ensemble(name)
    before = ensemble.status().leader
    leader = ensemble.transfer_leadership(to, timeout_s=timeout_s)
    if as_json:
        print_document({"name": ensemble.name, "leader_before": before, "leader": leader})
    elif leader == before:
        out.print(f"server {leader} leads already")
    else:
        out.print(f"server {leader} leads, after server {before}")


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

    join(address)
    ensemble = find_ensemble(name)
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


def drain_server(
    server: Annotated[int, typer.Argument(min=1, help="Server that is to take no clients.")],
    name: Name = None,
    undo: Annotated[bool, typer.Option("--undo", help="Have it take clients again.")] = False,
    clients_per_s: ClientsPerS = 200,
    patience_s: Patience = 10.0,
    timeout_s: Annotated[
        float, typer.Option(min=0.0, max=DAY_S, help="How long to wait for the moves.")
    ] = 600.0,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Move the clients of a server to the others; it takes none until --undo, and goes on to vote.

    `raykeeper drain NODE` moves servers away from a Ray node instead.
    """
    join(address)
    ensemble = find_ensemble(name)
    told = err if as_json else out
    if undo:
        was_drained = ensemble.end_drain(server)
        what = "takes clients again" if was_drained else "was not drained"
        told.print(f"server {server} {what}")
        document: dict[str, Any] = {"server": server, "was_drained": was_drained}
    else:
        moved = ensemble.drain(
            server,
            clients_per_s=clients_per_s,
            patience_s=patience_s,
            timeout_s=timeout_s,
            tell=told.print,
        )
        told.print(f"server {server} had {moved} clients and has none; it takes none until --undo")
        document = {"server": server, "moved": moved}
    if as_json:
        print_document(document)


def _start_ray(told: "Console", own_ray: bool) -> "LocalHead | None":
    """Start a head for `up` if no Ray runs here or `own_ray` is set; else return None."""
    from raykeeper.client.head_record import find_head
    from raykeeper.clusters.local_head import start_head
    from raykeeper.clusters.local_ray import is_ray_connected

    if find_head() is not None or (is_ray_connected() and not own_ray):
        return None
    told.print("starting a Ray head on this machine …")
    head = start_head()
    told.print(f"Ray runs at {head.address} until `raykeeper down --ray`")
    return head


def _join_for_up(address: str | None, own_ray: bool) -> None:
    """Join the cluster that `up` launches in; an error tells how to start a Ray of one's own."""
    from raykeeper.client.head_record import find_head
    from raykeeper.clusters.local_ray import RayNotFoundError

    if own_ray:
        head = find_head()
        address = head.address if head is not None else None
    try:
        join(address)
    except RayNotFoundError as error:
        if address is not None:
            raise
        advice = "start a Ray of your own with `raykeeper up --own-ray`"
        raise RayNotFoundError(f"{error}; or {advice}") from None


def _tell_exports(told: "Console") -> None:
    """Print how programs join this Ray, if `up` started it."""
    import ray

    from raykeeper.client.head_record import find_head

    head = find_head()
    if head is not None and head.address == ray.get_runtime_context().gcs_address:
        told.print(f"for your programs: {head.export_line()}")


def _settings_file(name_or_file: str | None) -> Path | None:
    """Return the settings file that an argument means, which may be missing; None: it is a name."""
    if name_or_file is None:
        return None
    file = Path(name_or_file)
    is_path = "/" in name_or_file or file.suffix in (".yaml", ".yml")
    return file if is_path or file.is_file() else None
