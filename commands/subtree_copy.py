"""`raykeeper copy`: a copy of a subtree, with its progress and its report."""

import time
from pathlib import Path

import msgspec
from rich.console import Console

from raykeeper.client import Client, CopyReport, copy_subtree
from raykeeper.clusters.config import ConfigError
from raykeeper.commands.output import print_document

_TOLD_EVERY_S = 2.0


def read_credentials(file: Path) -> list[tuple[str, str]]:
    """Return the schemes and credentials in a file, one such as `scrypt user:password` a line.

    Raises:
        ConfigError: the file cannot be read, or a line has another form.
    """
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from None
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        scheme, space, credential = line.strip().partition(" ")
        if not scheme:
            continue
        if not space:  # the line itself may be secret
            raise ConfigError(f'{file}, line {number}: expected "SCHEME USER:PASSWORD"')
        found.append((scheme, credential.strip()))
    return found


def copy_and_tell(
    source: tuple[Client, str],
    target: tuple[Client, str],
    out: Console,
    err: Console,
    *,
    merge: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Copy a subtree, with a line of progress on `err` every 2 s, and print the report."""
    began = told = time.monotonic()

    def tell(report: CopyReport) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _TOLD_EVERY_S:
            told = now
            rate = report.znodes / (now - began)
            err.print(f"{report.znodes} znodes, {report.value_bytes} bytes, {rate:.0f} znodes/s")

    report = copy_subtree(*source, *target, merge=merge, dry_run=dry_run, progress=tell)
    seconds = time.monotonic() - began
    if as_json:
        counts = msgspec.to_builtins(report)
        print_document({"dry_run": dry_run, "seconds": seconds, "znodes": report.znodes, **counts})
    else:
        out.print("\n".join(lines_of(report, seconds, dry_run=dry_run)))


def lines_of(report: CopyReport, seconds: float, *, dry_run: bool) -> list[str]:
    """Return the report as text: what was done, and then only what a user should know of."""
    done = "would copy" if dry_run else "copied"
    lines = [
        f"{done} {report.znodes} znodes with {report.value_bytes} bytes in {seconds:.1f} s: "
        f"{report.created} created, {report.changed} changed, {report.unchanged} as they were"
    ]
    notes = {
        "ephemeral znodes were left out": report.ephemerals,
        "znodes were deleted meanwhile": report.deleted_meanwhile,
        "znodes exist with another TTL or as another kind, which they keep": report.other_kinds,
        "ACLs have scrypt entries of the other ensemble, which nobody can prove here; set them "
        "anew": report.scrypt_acls,
        "changes of the source came meanwhile; repeat with --merge for a copy of one "
        "moment": report.changes,
    }
    return lines + [f"{number} {text}" for text, number in notes.items() if number]
