"""What a server's folder holds, all of it read and checked: the table or document of `list`.

A *problem* is something that is damaged, missing or contradictory. A *note* is something that a
crash, a running server or an earlier repair leaves, and that the next start takes as it is.
docs/DISKS.md says what a start makes of either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from raykeeper.actors.disk.epochs import EPOCHS_FILE, Epochs
from raykeeper.actors.disk.file_operations import TEMP_SUFFIX
from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.folder_lock import LOCK_FILE, last_holder
from raykeeper.actors.disk.folder_reader import FolderReader, SnapshotFile, synced_upto
from raykeeper.actors.disk.identity import IDENTITY_FILE, DiskIdentity
from raykeeper.actors.disk.log_reader import LogReader, SegmentContent
from raykeeper.actors.disk.members_file import MEMBERS_FILE, read_members
from raykeeper.actors.disk.repair import DAMAGED_FOLDER
from raykeeper.actors.disk.snapshot_files import SnapshotChunks
from raykeeper.actors.disk.spare_segment import SPARE_FILE, check_spare
from raykeeper.actors.disk.storage import check_consistency
from raykeeper.actors.disk.storage_errors import CorruptRecord, storage_errors
from raykeeper.commands.output import Document, escaped, print_table
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import FOUNDING_DISK, ZERO, DiskId, ServerId, Zxid, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.snapshot import (
    AclSaltRecord,
    MembersRecord,
    SnapshotFormatError,
    SnapshotHeader,
    VoterRecord,
    records_in,
)
from raykeeper.znodes.txns import ReconfigTxn, ReplaceVoterTxn, decode_txn


class SegmentSummary(Struct):
    """A segment of the log, all of which was read."""

    file: str
    size: int
    used: int
    """Bytes up to the end of the last valid batch; zeros follow."""
    first: Zxid
    """As the name says."""
    last: Zxid | None
    """None without a transaction, or if the segment is damaged from its beginning."""
    transactions: int
    is_torn: bool
    problem: str


class FolderContents(Struct):
    """What a folder holds, and what is wrong with it."""

    folder: Path
    identity: DiskIdentity | None = None
    holder: str | None = None
    """The process that opened the folder last."""
    epochs: Epochs | None = None
    good_copies: int = 0
    generation: str | None = None
    snapshots: list[SnapshotFile] = field(default_factory=list)
    segments: list[SegmentSummary] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    """Name of each other file or folder: what it is."""
    begin: Zxid | None = None
    """The zxid before the first transaction of the log; None without a readable segment."""
    last: Zxid = ZERO
    """The last transaction of the log, or the newest snapshot."""
    committed: Zxid = ZERO
    """The newest zxid that is known to be committed."""
    voters: dict[ServerId, DiskId] = field(default_factory=dict)
    """The voters whose vote rests on another than their founding disk, as of `committed`."""
    members: MemberList | None = None
    """The member list, if servers have come or gone since the founding."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def has_vote(self) -> bool | None:
        """Whether the vote of the server rests on this disk, as of `committed`; None if unknown."""
        if self.identity is None:
            return None
        server = self.identity.owner.server_id
        if self.members is not None:
            return self.members.voters.get(server) == self.identity.disk()
        voted = self.voters.get(server, FOUNDING_DISK)
        return voted == self.identity.disk()


def read_contents(reader: FolderReader) -> FolderContents:
    """Read and check every byte of a folder that its server would read.

    Raises:
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a file cannot be read, or was removed meanwhile by the server.
    """
    contents = FolderContents(reader.folder, holder=last_holder(reader.files, reader.folder))
    with _problems_into(contents):
        contents.identity = reader.identity()
    with reader.explained():
        _read_data(contents, reader)
    _judge(contents)
    if contents.problems:
        reader.check_unchanged()
    return contents


def _read_data(contents: FolderContents, reader: FolderReader) -> None:
    with _problems_into(contents):
        generation, older = reader.generation()
        contents.generation = generation.name
        contents.others |= dict.fromkeys(older, "older generation; removed at the next start")
        contents.snapshots = reader.snapshots()
        log = reader.log(synced_upto(contents.snapshots))
        _read_log(contents, log, reader.files)
        _read_others(contents, reader, generation)
    with _problems_into(contents):
        contents.epochs, contents.good_copies = reader.epochs()


@contextmanager
def _problems_into(contents: FolderContents) -> Iterator[None]:
    """Note damage that ends the block as a problem."""
    try:
        yield
    except CorruptRecord as error:
        contents.problems.append(str(error))


def _read_log(contents: FolderContents, log: LogReader, files: Filesystem) -> None:
    good = [each for each in contents.snapshots if each.consistent_at is not None]
    contents.problems += [each.problem for each in contents.snapshots if each.problem]
    newest = good[-1].zxid if good else ZERO
    contents.committed = max((each.consistent_at or ZERO for each in good), default=ZERO)
    if good:
        try:
            _read_members(contents, good[-1], files)
        except SnapshotFormatError as error:
            contents.problems.append(f"{good[-1].path}: {error}")
    replaced: list[tuple[Zxid, ReplaceVoterTxn | ReconfigTxn]] = []
    for index, content in enumerate(log):
        if contents.begin is None and content.header is not None:
            contents.begin = content.header.previous
        contents.segments.append(_summary(content, log.firsts[index]))
        if content.problem:
            contents.problems.append(content.problem)
        if content.is_torn:
            contents.notes.append(
                f"{content.path} ends with a batch that is not whole: the server is writing it, "
                "or a crash has torn it; a start cuts it"
            )
        for batch in content.batches:
            contents.committed = max(contents.committed, min(batch.committed, batch.last))
        contents.last = max(contents.last, content.last or ZERO)
        _find_voters(contents, content, newest, replaced)
    begin = contents.begin
    if not contents.segments:
        contents.last = newest
    elif begin is not None and begin > newest:
        contents.problems.append(
            f"the log begins after {format_zxid(begin)}; "
            f"what follows {format_zxid(newest)} is missing"
        )
    elif good and begin is not None and begin > good[0].zxid:
        contents.notes.append(
            f"the log begins after {format_zxid(begin)}, so {good[0].path.name} is of no use"
        )
    for zxid, txn in replaced:
        if zxid > contents.committed:
            break
        if isinstance(txn, ReconfigTxn):
            contents.members = txn.members
        elif contents.members is not None:
            members = contents.members
            contents.members = members.with_disk(txn.server_id, txn.disk, zxid)
        else:
            contents.voters[txn.server_id] = txn.disk
    if contents.members is not None:
        contents.voters = contents.members.moved


def _summary(content: SegmentContent, first: Zxid) -> SegmentSummary:
    return SegmentSummary(
        content.path.name,
        content.size,
        content.end if content.header is not None else 0,
        first,
        content.batches[-1].last if content.batches else None,
        sum(batch.last - batch.first + 1 for batch in content.batches),
        content.is_torn,
        content.problem,
    )


def _find_voters(
    contents: FolderContents,
    content: SegmentContent,
    after: Zxid,
    replaced: list[tuple[Zxid, ReplaceVoterTxn | ReconfigTxn]],
) -> None:
    """Decode every transaction of a segment, and collect those that change the member list."""
    for zxid, data in content.txns():
        try:
            body = decode_txn(data).body
        except DECODE_ERRORS as error:
            contents.problems.append(
                f"{content.path}: {format_zxid(zxid)} is no transaction: {error}"
            )
            return
        if isinstance(body, ReplaceVoterTxn | ReconfigTxn) and zxid > after:
            replaced.append((zxid, body))


def _read_members(contents: FolderContents, snapshot: SnapshotFile, files: Filesystem) -> None:
    """Read the voters or the member list in a snapshot, which stand at its beginning."""
    for record in records_in(SnapshotChunks(snapshot.path, files)):
        if type(record) is VoterRecord:
            contents.voters[record.server_id] = record.disk
        elif type(record) is MembersRecord:
            contents.members = record.members
        elif type(record) not in (SnapshotHeader, AclSaltRecord):
            break


def _read_others(contents: FolderContents, reader: FolderReader, generation: Path) -> None:
    files, folder = reader.files, reader.folder
    with storage_errors(folder):
        names = files.names(folder)
    known = {LOCK_FILE, IDENTITY_FILE, EPOCHS_FILE, generation.name, *contents.others}
    for name in names:
        if name == SPARE_FILE:
            contents.others[name] = "the next segment of the log, allocated"
            with _problems_into(contents), storage_errors(folder):
                if files.exists(folder / name):  # else it has just become a segment
                    check_spare(files, folder, generation)
        elif name == MEMBERS_FILE:
            contents.others[name] = "a copy of the member list, for launches"
            stored = read_members(folder, files, tell=contents.problems.append)
            if stored is not None and stored.removed:
                contents.notes.append(f"the server {stored.removed}")
        elif name == DAMAGED_FOLDER:
            contents.others[name] = "set aside by a repair; removed when the vote is back"
        elif name.endswith(TEMP_SUFFIX):
            contents.others[name] = "in the making; removed at the next start"
        elif name not in known:
            contents.others[name] = "not of this program"


def _judge(contents: FolderContents) -> None:
    """Add what follows from several files together."""
    identity, epochs = contents.identity, contents.epochs
    if identity is not None and identity.repair is not None:
        contents.notes.append(
            f"the folder counts no more, the next start repairs it: {identity.repair.reason}"
        )
    if epochs is None:
        return
    if contents.good_copies == 1:
        contents.problems.append(
            f"one of the two copies in {contents.folder / EPOCHS_FILE} is damaged; the other counts"
        )
    if epochs.is_uncertain:
        contents.notes.append(
            "the end of the log was torn at an earlier start; until the server takes over the next "
            "epoch, its promise counts less"
        )
    if not contents.problems:
        with _problems_into(contents):
            synced = synced_upto(contents.snapshots)
            check_consistency(contents.folder, synced, contents.last, epochs)


def contents_document(contents: FolderContents) -> Document:
    """Return the document of `list`."""
    identity, epochs = contents.identity, contents.epochs
    return {
        "folder": str(contents.folder),
        "identity": None
        if identity is None
        else {
            "ensemble": identity.owner.ensemble,
            "ensemble_uuid": identity.owner.ensemble_uuid,
            "server_id": identity.owner.server_id,
            "disk": identity.disk_uuid,
            "is_founding": identity.is_founding,
            "incarnation": identity.incarnation,
            "level": identity.level,
            "reset_reason": identity.reset_reason or None,
            "repair": None if identity.repair is None else identity.repair.reason,
        },
        "holder": contents.holder,
        "epochs": None
        if epochs is None
        else {
            "accepted": epochs.accepted,
            "current": epochs.current,
            "is_uncertain": epochs.is_uncertain,
            "initial": format_zxid(epochs.initial),
            "good_copies": contents.good_copies,
        },
        "has_vote": contents.has_vote,
        "voters": {str(server): disk or None for server, disk in contents.voters.items()},
        "last": format_zxid(contents.last),
        "committed": format_zxid(contents.committed),
        "generation": contents.generation,
        "snapshots": [
            {
                "file": each.path.name,
                "bytes": each.size,
                "zxid": format_zxid(each.zxid),
                "consistent_at": _zxid_field(each.consistent_at),
                "problem": each.problem or None,
            }
            for each in contents.snapshots
        ],
        "segments": [
            {
                "file": each.file,
                "bytes": each.size,
                "used_bytes": each.used,
                "first": format_zxid(each.first),
                "last": _zxid_field(each.last),
                "transactions": each.transactions,
                "is_torn": each.is_torn,
                "problem": each.problem or None,
            }
            for each in contents.segments
        ],
        "others": contents.others,
        "problems": contents.problems,
        "notes": contents.notes,
    }


def show_contents(console: Console, contents: FolderContents) -> None:
    """Print the same as tables and lines."""
    identity, epochs = contents.identity, contents.epochs
    if identity is None:
        console.print(f"{contents.folder}: its identity cannot be read")
    else:
        owner = identity.owner
        name = f"server {owner.server_id} of ensemble {owner.ensemble!r} ({owner.ensemble_uuid})"
        kind = "founding disk" if identity.is_founding else "disk"
        vote = "the vote of the server rests on it" if contents.has_vote else "it has no vote"
        console.print(f"{contents.folder}: {name}")
        console.print(f"{kind} {identity.disk_uuid}: {vote}")
        holder = contents.holder or "a process that left no name"
        console.print(f"incarnation {identity.incarnation}, last opened by {escaped(holder)}")
        console.print(f"readable by programs of feature level {identity.level}")
    if epochs is not None:
        console.print(
            f"accepted epoch {epochs.accepted}, current epoch {epochs.current}, "
            f"{contents.good_copies} of 2 copies good"
        )
    for server, disk in contents.voters.items():
        console.print(f"the vote of server {server} rests on disk {disk}")
    console.print(
        f"log up to {format_zxid(contents.last)}, "
        f"known to be committed up to {format_zxid(contents.committed)}"
    )
    print_table(console, _table(contents))
    for name, what in contents.others.items():
        console.print(f"{escaped(name)}: {what}")
    show_findings(console, contents.problems, contents.notes)


def show_findings(console: Console, problems: list[str], notes: list[str]) -> None:
    """Print problems and notes, each on a line."""
    for problem in problems:
        console.print(Text("damaged:", style="red"), Text(escaped(problem)))
    for note in notes:
        console.print(Text("note:", style="yellow"), Text(escaped(note)))


def _table(contents: FolderContents) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in (contents.generation or "no generation", "from", "to", "checksums"):
        table.add_column(heading, no_wrap=True)
    for heading in ("bytes", "used", "transactions"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in contents.snapshots:
        state = Text("bad", style="red") if each.problem else Text("good")
        upto = _shown_zxid(each.consistent_at)
        table.add_row(each.path.name, format_zxid(each.zxid), upto, state, f"{each.size}")
    for part in contents.segments:
        state = Text("bad", style="red") if part.problem else Text("good")
        if part.is_torn:
            state = Text("torn end", style="yellow")
        numbers = (part.size, part.used, part.transactions)
        upto = _shown_zxid(part.last)
        table.add_row(part.file, format_zxid(part.first), upto, state, *map(str, numbers))
    return table


def _zxid_field(zxid: Zxid | None) -> str | None:
    return None if zxid is None else format_zxid(zxid)


def _shown_zxid(zxid: Zxid | None) -> str:
    return "" if zxid is None else format_zxid(zxid)
