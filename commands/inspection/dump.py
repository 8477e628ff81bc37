"""`raykeeper inspect dump`: a snapshot or the log, a JSON document on a line for each record."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from raykeeper.actors.disk.filesystem import OS_FILESYSTEM, Filesystem
from raykeeper.actors.disk.folder_reader import (
    FolderReader,
    SnapshotFile,
    newest_zxids,
    synced_upto,
)
from raykeeper.actors.disk.log_reader import LogReader
from raykeeper.actors.disk.snapshot_files import (
    SNAPSHOT_VERSION,
    SnapshotChunks,
    read_summary,
    verify_snapshot,
)
from raykeeper.actors.disk.storage_errors import CorruptRecord, StorageError
from raykeeper.commands.inspection.transactions import (
    acl_documents,
    identity_documents,
    members_fields,
    transaction_document,
    ttl_fields,
)
from raykeeper.commands.output import Document, session_field, time_field, value_fields
from raykeeper.zab.errors import DECODE_ERRORS
from raykeeper.zab.ids import ZERO, Zxid, format_zxid
from raykeeper.znodes.sessions import SessionRecord
from raykeeper.znodes.snapshot import (
    AclSaltRecord,
    MembersRecord,
    Record,
    SnapshotFormatError,
    SnapshotHeader,
    SnapshotTrailer,
    VoterRecord,
    ZnodeRecord,
    records_in,
)
from raykeeper.znodes.txns import Txn, decode_txn

Print = Callable[[Document], None]


def dump_folder(
    reader: FolderReader, tell: Print, *, snapshot: bool, log: bool, after: Zxid, upto: Zxid
) -> None:
    """Tell the newest good snapshot and the log of a folder, or one of them.

    Raises:
        CorruptRecord: something is damaged; what is valid was told before.
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a file cannot be read, or there is no snapshot.
    """
    with reader.explained():
        snapshots = reader.snapshots()
        problems = [each.problem for each in snapshots if each.problem]
        good = [each for each in snapshots if each.consistent_at is not None]
        if snapshot and good:
            dump_snapshot(good[-1].path, tell, reader.files)
        elif snapshot and not log:
            raise StorageError(f"{reader.folder} has no good snapshot; expected one, or --log")
        if log:
            segments = reader.log(synced_upto(snapshots))
            problems += _dump_log(segments, snapshots, tell, after, upto)
        raise_problems(problems)


def dump_file(path: Path, tell: Print) -> None:
    """Tell a snapshot, wherever it is.

    Raises:
        CorruptRecord: it is damaged, or no snapshot; nothing was told.
        UnknownVersion: it is of a version that this program does not know.
        StorageError: it cannot be read.
    """
    try:
        verify_snapshot(path)
    except CorruptRecord as error:
        expected = f"expected a data folder, or a snapshot of version {SNAPSHOT_VERSION}"
        raise CorruptRecord(f"{error}; {expected}") from error
    dump_snapshot(path, tell)


def dump_snapshot(path: Path, tell: Print, files: Filesystem = OS_FILESYSTEM) -> None:
    """Tell every record of a snapshot.

    Raises:
        CorruptRecord: it is damaged.
        SnapshotFormatError: it is malformed or of an unknown format.
        StorageError: it cannot be read.
    """
    summary = read_summary(path, files)
    name = {"file": path.name, "zxid": format_zxid(summary.zxid)}
    upto = {"consistent_at": format_zxid(summary.consistent_at)}
    try:
        for record in records_in(SnapshotChunks(path, files)):
            document = record_document(record)
            tell(document | name | upto if type(record) is SnapshotHeader else document)
    except SnapshotFormatError as error:
        raise SnapshotFormatError(f"{path}: {error}") from error


def record_document(record: Record) -> dict[str, Any]:
    """Return a record of a snapshot. Passwords of sessions and hashes in ACLs are left out."""
    match record:
        case ZnodeRecord():
            attributes = record.attributes
            return {
                "kind": "znode",
                "path": record.path,
                **value_fields(record.value or b""),
                "czxid": format_zxid(record.czxid),
                "mzxid": format_zxid(record.mzxid),
                "pzxid": format_zxid(record.pzxid),
                "ctime": time_field(record.ctime),
                "mtime": time_field(record.mtime),
                "version": record.version,
                "aversion": 0 if attributes is None else attributes.aversion,
                "ephemeral_owner": session_field(record.ephemeral_owner),
                "children_created": record.child_create_count,
                **ttl_fields(0 if attributes is None else attributes.ttl_ms),
                "acls": acl_documents(None if attributes is None else attributes.acls),
            }
        case SessionRecord():
            return {
                "kind": "session",
                "session": session_field(record.session_id),
                "timeout_ms": record.timeout_ms,
                "owner_zxid": format_zxid(record.owner_zxid),
                "host": record.host or None,
                "server_id": record.server_id or None,
                "identities": identity_documents(record.auth_ids),
                "last_number": record.last_number,
                "acked": record.acked,
                "outcomes": len(record.reply_cache),
            }
        case VoterRecord():
            return {"kind": "voter", "server_id": record.server_id, "disk": record.disk or None}
        case AclSaltRecord():
            return {"kind": "acl_salt", "salt": record.salt}
        case MembersRecord():
            return {"kind": "members", **members_fields(record.members)}
        case SnapshotHeader():
            time = time_field(record.time_ms)
            return {"kind": "snapshot", "format": record.format, "time": time}
        case SnapshotTrailer():
            return {"kind": "end", "sessions": record.sessions, "znodes": record.znodes}


def _dump_log(
    log: LogReader, snapshots: list[SnapshotFile], tell: Print, after: Zxid, upto: Zxid
) -> list[str]:
    """Tell the log, and return what is damaged in it."""
    last, committed = newest_zxids(log, snapshots)
    problems: list[str] = []
    begin = log.begin()
    reach = {"after": last if begin is None else begin, "upto": last, "committed": committed}
    tell({"kind": "log"} | {name: format_zxid(zxid) for name, zxid in reach.items()})
    for zxid, txn in transactions(log, problems, after):
        if zxid > upto:
            break
        is_committed = {"kind": "transaction", "is_committed": zxid <= committed}
        tell(is_committed | transaction_document(zxid, txn) | {"acked": txn.acked or None})
    return problems


def transactions(
    log: LogReader, problems: list[str], after: Zxid = ZERO
) -> Iterator[tuple[Zxid, Txn]]:
    """Yield the transactions of a log, in order; note what is damaged in `problems`, and go on.

    Raises:
        UnknownVersion: a segment is of a version that this program does not know.
        StorageError: a segment cannot be read, or was removed meanwhile by the server.
    """
    for content in log:
        for zxid, data in content.txns(after):
            try:
                txn = decode_txn(data)
            except DECODE_ERRORS as error:
                problems.append(f"{content.path}: {format_zxid(zxid)} is no transaction: {error}")
                break
            yield zxid, txn
        if content.problem:
            problems.append(content.problem)


def raise_problems(problems: list[str]) -> None:
    """Raise what was damaged, once all else is told.

    Raises:
        CorruptRecord: there is a problem.
    """
    if problems:
        raise CorruptRecord("; ".join(problems))
