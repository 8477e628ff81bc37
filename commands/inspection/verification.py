"""`raykeeper inspect verify`: whether every byte is good, and whether the files fit together.

Beside what `list` checks, it loads every snapshot, one after the other, applies the log after it,
and compares the digests: whichever snapshot a server starts from, it must come to the same state.
"""

from msgspec import Struct, field
from rich.console import Console
from rich.text import Text

from raykeeper.actors.disk.folder_reader import (
    FolderReader,
    SnapshotFile,
    load_state_at,
    synced_upto,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord
from raykeeper.commands.inspection.folder_contents import (
    FolderContents,
    read_contents,
    show_findings,
)
from raykeeper.commands.output import Document
from raykeeper.zab.ids import format_zxid
from raykeeper.znodes.snapshot import SnapshotFormatError


class Verification(Struct):
    """What `verify` found."""

    contents: FolderContents
    digests: dict[str, int] = field(default_factory=dict)
    """By snapshot: the digest of the state that it and the log after it give."""
    znodes: int | None = None
    """Of that state; None if no snapshot gave one, or digests were not asked for."""

    @property
    def is_good(self) -> bool:
        """Whether there is no problem."""
        return not self.contents.problems


def verify_folder(reader: FolderReader, *, with_digest: bool) -> Verification:
    """Check a folder. With digests it takes as much memory as the server.

    Raises:
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a file cannot be read, or was removed meanwhile by the server.
    """
    contents = read_contents(reader)
    found = Verification(contents)
    if with_digest and contents.generation is not None:
        with reader.explained():
            _compare_digests(reader, found)
        if contents.problems:
            reader.check_unchanged()
    return found


def _compare_digests(reader: FolderReader, found: Verification) -> None:
    contents = found.contents
    good = [each for each in contents.snapshots if each.consistent_at is not None]
    usable = [each for each in good if contents.begin is None or contents.begin <= each.zxid]
    starts: list[SnapshotFile | None] = [*usable] if usable else [None]
    try:
        log = reader.log(synced_upto(contents.snapshots))
    except CorruptRecord:
        return  # a problem that is told already
    for snapshot in starts:
        name = "the first state" if snapshot is None else snapshot.path.name
        try:
            state = load_state_at(log, snapshot, contents.committed, reader.files)
        except (CorruptRecord, SnapshotFormatError) as error:
            if str(error) not in contents.problems:
                contents.problems.append(str(error))
            continue
        found.digests[name] = state.digest()
        found.znodes = len(state.tree.znodes)
        del state  # not two of them in memory
    if len(set(found.digests.values())) > 1:
        each = ", ".join(f"{digest:#018x} from {name}" for name, digest in found.digests.items())
        contents.problems.append(
            f"snapshots and log do not fit together: at {format_zxid(contents.committed)} "
            f"the digest is {each}"
        )


def verification_document(found: Verification) -> Document:
    """Return the document of `verify`; a digest is a text in hexadecimal."""
    contents = found.contents
    return {
        "folder": str(contents.folder),
        "is_good": found.is_good,
        "problems": contents.problems,
        "notes": contents.notes,
        "snapshots": len(contents.snapshots),
        "segments": len(contents.segments),
        "transactions": sum(each.transactions for each in contents.segments),
        "last": format_zxid(contents.last),
        "committed": format_zxid(contents.committed),
        "znodes": found.znodes,
        "digests": {name: f"{digest:#018x}" for name, digest in found.digests.items()},
    }


def show_verification(console: Console, found: Verification) -> None:
    """Print the same as lines."""
    contents = found.contents
    show_findings(console, contents.problems, contents.notes)
    transactions = sum(each.transactions for each in contents.segments)
    console.print(
        f"read {len(contents.snapshots)} snapshots and {len(contents.segments)} segments "
        f"with {transactions} transactions up to {format_zxid(contents.last)}"
    )
    for name, digest in found.digests.items():
        console.print(
            f"digest at {format_zxid(contents.committed)}: {digest:#018x}, "
            f"{found.znodes} znodes, from {name}"
        )
    if found.is_good:
        console.print(Text("good", style="green"))
    else:
        console.print(Text(f"{len(contents.problems)} problems", style="red"))
