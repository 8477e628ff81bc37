"""The commands of `raykeeper inspect`. Like all, they import what they do when they run."""

from pathlib import Path
from typing import Annotated

import typer

from raykeeper.commands.output import AsJson, make_console, print_document, print_line, print_text

FAILED = 1

inspection = typer.Typer(no_args_is_help=True)
out = make_console()

Folder = Annotated[
    Path, typer.Argument(help="Data folder of a server: <data_dir>/<ensemble>/<server>.")
]


@inspection.command("list")
def list_folder(folder: Folder, as_json: AsJson = False) -> None:
    """List what a server's folder holds, with zxids and sizes, and check every byte of it."""
    from raykeeper.actors.disk.folder_reader import FolderReader
    from raykeeper.commands.inspection.folder_contents import (
        contents_document,
        read_contents,
        show_contents,
    )

    contents = read_contents(FolderReader(folder))
    if as_json:
        print_document(contents_document(contents))
    else:
        show_contents(out, contents)


@inspection.command()
def verify(
    folder: Folder,
    digest: Annotated[
        bool,
        typer.Option(help="Load each snapshot and the log; takes the memory of a server."),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check every checksum, the order of zxids, and that log and snapshots fit together.

    Exits with 1 when something is damaged, missing or contradictory.
    """
    from raykeeper.actors.disk.folder_reader import FolderReader
    from raykeeper.commands.inspection.verification import (
        show_verification,
        verification_document,
        verify_folder,
    )

    found = verify_folder(FolderReader(folder), with_digest=digest)
    if as_json:
        print_document(verification_document(found))
    else:
        show_verification(out, found)
    if not found.is_good:
        raise typer.Exit(FAILED)


@inspection.command()
def dump(
    place: Annotated[Path, typer.Argument(help="Data folder of a server, or a snapshot file.")],
    snapshot: Annotated[bool, typer.Option("--snapshot", help="Only the newest snapshot.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Only the log.")] = False,
    after: Annotated[str, typer.Option(help="Of the log: only what follows this zxid.")] = "0:0",
    upto: Annotated[str | None, typer.Option(help="Of the log: up to this zxid.")] = None,
) -> None:
    """Print the newest snapshot and the log, each record as a JSON document on a line."""
    from raykeeper.actors.disk.folder_reader import FolderReader
    from raykeeper.commands.inspection.arguments import parse_zxid
    from raykeeper.commands.inspection.dump import dump_file, dump_folder
    from raykeeper.zab.ids import ZXID_MAX, Zxid

    first = parse_zxid("--after", after)
    last = Zxid(ZXID_MAX) if upto is None else parse_zxid("--upto", upto)

    if place.is_file():
        dump_file(place, print_line)
        return
    both = snapshot == log
    reader = FolderReader(place)
    dump_folder(
        reader, print_line, snapshot=snapshot or both, log=log or both, after=first, upto=last
    )


@inspection.command()
def diff(
    a: Annotated[Path, typer.Argument(help="Data folder of a server, or a snapshot file.")],
    b: Annotated[Path, typer.Argument(help="Another one.")],
    as_json: AsJson = False,
) -> None:
    """Show which znodes, sessions and votes differ. Exits with 1 when any do.

    Two folders are compared at the newest committed zxid that both have.
    """
    from tempfile import TemporaryDirectory

    from raykeeper.commands.inspection.differences import (
        compare,
        difference_document,
        difference_line,
        find_sides,
        summary_line,
    )

    with TemporaryDirectory(prefix="raykeeper-diff-") as temporary:
        sides = find_sides(a, b, Path(temporary))
        if as_json:
            summary = compare(*sides, lambda each: print_line(difference_document(each)))
            print_line(summary)
        else:
            summary = compare(*sides, lambda each: print_text(difference_line(each)))
            out.print(summary_line(summary))
    if not summary["is_same"]:
        raise typer.Exit(FAILED)
