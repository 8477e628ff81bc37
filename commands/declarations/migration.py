"""Move a tree from ZooKeeper and back: `import`, `export`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from raykeeper.commands.declarations.joining import find_ensemble, join
from raykeeper.commands.declarations.options import Address, RequestTimeout
from raykeeper.commands.exit_codes import FAILED
from raykeeper.commands.output import AsJson, make_console
from raykeeper.commands.packages import needed_package

out = make_console()
err = make_console(stderr=True)

System = Annotated[
    Literal["zookeeper"], typer.Argument(metavar="zookeeper", help="Only ZooKeeper is known.")
]
ZooKeeperHosts = Annotated[
    str, typer.Argument(metavar="HOSTS", help="Its addresses: zk1:2181,zk2:2181, or with /PATH.")
]
Ensemble = Annotated[str, typer.Argument(help="The ensemble, or ENSEMBLE/PATH.")]
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


def import_(
    system: System,
    hosts: ZooKeeperHosts,
    name: Ensemble,
    path: Annotated[str, typer.Option(help="The znode to import, below the path of HOSTS.")] = "/",
    to: Annotated[str, typer.Option(help="Where to, below the path of NAME.")] = "/",
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
    name, to = _below(name, to)
    join(address)
    ensemble = find_ensemble(name or None)
    limits = command.limits_of(ensemble)
    with (
        command.open_zookeeper(parsed, proofs, tls, timeout_s) as session,
        command.open_ensemble(ensemble, proofs, timeout_s) as client,
    ):
        report = command.import_tree((session, parsed, path), (client, to, limits), order, out, err)
    if report.refused:
        raise typer.Exit(FAILED)


def export(
    name: Ensemble,
    system: System,
    hosts: ZooKeeperHosts,
    path: Annotated[str, typer.Option(help="The znode to export, below the path of NAME.")] = "/",
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
    name, path = _below(name, path)
    join(address)
    ensemble = find_ensemble(name or None)
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


def _below(place: str, path: str) -> tuple[str, str]:
    """Return the ensemble that ENSEMBLE/PATH names, and the whole of a path below that PATH."""
    from raykeeper.client.session_options import split_ensemble_name

    name, above = split_ensemble_name(place)
    return name, (above + path).rstrip("/") or "/"


def _load_migration(hosts: str, path: str, to: str) -> tuple[Any, Any]:
    """Return the module of both commands and the parsed HOSTS, and check the paths."""
    from raykeeper.commands.inspection.arguments import parse_path

    parse_path("--path", path)
    parse_path("--to", to)
    with needed_package("kazoo", "zookeeper"):
        from raykeeper.commands.migration import command
    return command, command.parse_hosts(hosts)
