"""The output of `raykeeper import` and `raykeeper export`: progress, report, document."""

import contextlib
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from raykeeper.client import Client
from raykeeper.client.head_record import head_folder
from raykeeper.clusters.config import DEFAULTS
from raykeeper.clusters.ensemble import Ensemble
from raykeeper.commands.migration.journal import CopyJournal
from raykeeper.commands.migration.migration import Migration, MigrationReport
from raykeeper.commands.migration.order import Order, Tls
from raykeeper.commands.migration.sides import EnsembleLimits, EnsembleSide, Side
from raykeeper.commands.migration.zookeeper_session import (
    Hosts,
    ZooKeeperSession,
    open_session,
    parse_hosts,
)
from raykeeper.commands.migration.zookeeper_side import ZooKeeperSide
from raykeeper.commands.output import escaped, print_document

_TOLD_EVERY_S = 2.0

__all__ = [
    "export_tree",
    "import_tree",
    "limits_of",
    "open_ensemble",
    "open_zookeeper",
    "parse_hosts",
]


def limits_of(ensemble: Ensemble) -> EnsembleLimits:
    """Return the limits that the servers run with, the defaults if none of them answers."""
    described = ensemble.describe()
    settings = {} if described is None else described.settings
    return EnsembleLimits(
        *(
            settings.get(name, getattr(DEFAULTS, name))
            for name in ("value_limit_bytes", "acl_entries_max", "transaction_ops_max")
        )
    )


@contextlib.contextmanager
def open_zookeeper(
    hosts: Hosts, proofs: list[tuple[str, str]], tls: Tls | None, timeout_s: float
) -> Iterator[ZooKeeperSession]:
    """Open a session with ZooKeeper that has proved the identities of `digest`.

    Raises:
        ZooKeeperUnreachableError: no server opens one in time.
    """
    digests = [each for each in proofs if each[0] == "digest"]
    with open_session(hosts, digests, tls, timeout_s) as session:
        yield session


@contextlib.contextmanager
def open_ensemble(
    ensemble: Ensemble, proofs: list[tuple[str, str]], timeout_s: float
) -> Iterator[Client]:
    """Open a session with an ensemble of ours that has proved all identities."""
    with ensemble.connect(timeout_s=timeout_s) as client:
        for scheme, credential in proofs:
            client.add_auth(scheme, credential)
        yield client


def zookeeper_path(hosts: Hosts, path: str) -> str:
    """Return the path from the root of the ZooKeeper."""
    return (hosts.chroot + path).rstrip("/") or "/"


def import_tree(
    source: tuple[ZooKeeperSession, Hosts, str],
    target: tuple[Client, str, EnsembleLimits],
    order: Order,
    out: Console,
    err: Console,
) -> MigrationReport:
    """Import a tree, tell the progress on `err`, print the report, and return it."""
    session, hosts, path = source
    from_ = ZooKeeperSide(session, zookeeper_path(hosts, path))
    return _move(from_, EnsembleSide(*target), hosts, order, out, err)


def export_tree(
    source: tuple[Client, str, EnsembleLimits],
    target: tuple[ZooKeeperSession, Hosts, str],
    packet_bytes_max: int,
    order: Order,
    out: Console,
    err: Console,
) -> MigrationReport:
    """Export a tree, tell the progress on `err`, print the report, and return it."""
    session, hosts, path = target
    to = ZooKeeperSide(session, zookeeper_path(hosts, path), packet_bytes_max)
    return _move(EnsembleSide(*source), to, hosts, order, out, err)


def journal_file(source: str, target: str, hosts: Hosts) -> Path:
    """Return where the journal of such a copy is, unless a user names another file."""
    servers = sorted(f"{host}:{port}" for host, port in hosts.servers)
    key = hashlib.sha256("\n".join((source, target, *servers)).encode()).hexdigest()
    return head_folder() / "moves" / f"{key[:16]}.db"


def _move(
    source: Side, target: Side, hosts: Hosts, order: Order, out: Console, err: Console
) -> MigrationReport:
    labels = source.label(), target.label()
    file: Path | None = order.state or journal_file(*labels, hosts)
    if order.dry_run and file is not None and not file.exists():
        file = None  # a try leaves nothing behind
    began = time.monotonic()
    with CopyJournal(file, *labels) as journal:
        migration = Migration(
            source,
            target,
            journal,
            merge=order.merge,
            dry_run=order.dry_run,
            with_sequences=order.with_sequences,
            delete=order.delete,
        )
        report = _follow(migration, order, file, err)
    seconds = time.monotonic() - began
    if order.as_json:
        print_document(document_of(report, seconds, order, file))
    else:
        out.print("\n".join(lines_of(report, seconds, order)))
    return report


def _follow(migration: Migration, order: Order, file: Path | None, err: Console) -> MigrationReport:
    """Make the steps and show their progress; say how to go on if they end early."""
    has_begun = False
    try:
        with _progress(err, is_live=err.is_terminal) as tell:
            for report in migration.steps():
                has_begun = True
                tell(report)
        return report
    except BaseException:
        if has_begun and not order.dry_run:
            err.print(f"ended early; the same command goes on from here ({file})")
        raise


@contextlib.contextmanager
def _progress(err: Console, *, is_live: bool) -> Iterator[Any]:
    """Give what takes a report: a bar on a terminal, else a line every 2 s."""
    began = told = time.monotonic()

    def tell_line(report: MigrationReport) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _TOLD_EVERY_S:
            told = now
            done = _done(report)
            err.print(
                f"{done} of {done + report.waiting} known znodes, "
                f"{report.copied.value_bytes} bytes, {done / (now - began):.0f} znodes/s"
            )

    if not is_live:
        yield tell_line
        return
    columns = (
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} known znodes"),
        TextColumn("{task.fields[bytes]} bytes, {task.fields[rate]:.0f} znodes/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=1, bytes=0, rate=0.0)

        def tell_bar(report: MigrationReport) -> None:
            done = _done(report)
            bar.update(
                task,
                completed=done,
                total=max(1, done + report.waiting),
                bytes=report.copied.value_bytes,
                rate=done / max(0.001, time.monotonic() - began),
            )

        yield tell_bar


def _done(report: MigrationReport) -> int:
    copied = report.copied
    return copied.znodes + copied.ephemerals + copied.deleted_meanwhile


def document_of(
    report: MigrationReport, seconds: float, order: Order, file: Path | None
) -> dict[str, Any]:
    """Return the document of a report."""
    copied = msgspec.to_builtins(report.copied)
    del copied["changes"]
    return {
        "dry_run": order.dry_run,
        "seconds": seconds,
        "znodes": report.copied.znodes,
        **copied,
        "sequences": report.sequences,
        "quotas": report.quotas,
        "kinds_lost": report.kinds_lost,
        "deleted": report.deleted,
        "gone": report.gone,
        "gone_paths": report.gone_paths,
        "meanwhile": report.meanwhile,
        "refused": msgspec.to_builtins(report.refused),
        "state": None if file is None else str(file),
    }


def lines_of(report: MigrationReport, seconds: float, order: Order) -> list[str]:
    """Return the report as text: what was done, and then only what a user should know of."""
    copied = report.copied
    done = "would copy" if order.dry_run else "copied"
    lines = [
        f"{done} {copied.znodes} znodes with {copied.value_bytes} bytes in {seconds:.1f} s: "
        f"{copied.created} created, {copied.changed} changed, {copied.unchanged} as they were"
    ]
    if copied.skipped:
        lines[0] += f", {copied.skipped} skipped because an earlier run has copied them"
    notes = {
        "quotas were copied": 0 if order.dry_run else report.quotas,
        "quotas would be copied": report.quotas if order.dry_run else 0,
        "children were created and deleted, so that sequential numbers go on": report.sequences,
        "ephemeral znodes were left out": copied.ephemerals,
        "znodes were deleted meanwhile": copied.deleted_meanwhile,
        "znodes exist with another TTL or as another kind, which they keep": copied.other_kinds,
        "containers and znodes with a TTL became ordinary ones": report.kinds_lost,
        "znodes that the source has no more were deleted in the copy": report.deleted,
        "ACLs have scrypt entries, which nobody can prove in another ensemble; set them "
        "anew": copied.scrypt_acls,
    }
    lines += [f"{number} {text}" for text, number in notes.items() if number]
    if report.meanwhile is None:
        lines.append("the source elected a leader meanwhile; run it again for a copy of one moment")
    elif report.meanwhile:
        lines.append(
            f"{report.meanwhile} transactions of the source came meanwhile, perhaps elsewhere in "
            "its tree; run it again for a copy of one moment"
        )
    if report.gone:
        lines.append(f"{report.gone} znodes are not in the source any more and stay in the copy:")
        lines += _paths(report.gone_paths, report.gone)
    for each in report.refused:
        lines.append(f"{each.znodes} znodes would be refused: {each.reason}:")
        lines += _paths(each.paths, each.znodes)
    return lines


def _paths(paths: list[str], number: int) -> list[str]:
    more = [f"  and {number - len(paths)} more"] if number > len(paths) else []
    return [f"  {escaped(each)}" for each in paths] + more
