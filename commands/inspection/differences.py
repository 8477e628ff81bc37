"""`raykeeper inspect diff`: the znodes, sessions and votes in which two states differ.

A state is that of a server's folder, or a snapshot as it was written. Two folders are compared at
one zxid, the newest committed one that both have: snapshot and log give the state there, in as
much memory as a server takes. It goes into a temporary file, in the format of a snapshot; then the
two files are compared part by part, so neither tree is in memory as a whole.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from msgspec import Struct
from msgspec.structs import astuple

from raykeeper.actors.disk.folder_reader import (
    FolderReader,
    SnapshotFile,
    load_state_at,
    newest_zxids,
    synced_upto,
)
from raykeeper.actors.disk.log_reader import LogReader
from raykeeper.actors.disk.snapshot_files import (
    SnapshotChunks,
    SnapshotWriter,
    snapshot_name,
    verify_snapshot,
)
from raykeeper.actors.disk.storage_errors import StorageError, storage_errors
from raykeeper.commands.inspection.transactions import (
    acl_documents,
    identity_documents,
    members_fields,
    ttl_fields,
)
from raykeeper.commands.output import session_field, time_field
from raykeeper.zab.ids import ZERO, Zxid, epoch_of, format_zxid
from raykeeper.znodes.sessions import SessionRecord
from raykeeper.znodes.snapshot import (
    MembersRecord,
    SnapshotFormatError,
    SnapshotWalk,
    VoterRecord,
    ZnodeRecord,
    records_in,
)

Element = ZnodeRecord | SessionRecord | VoterRecord | MembersRecord

PART_BYTES = 32 << 20
"""Of a snapshot, of which the records are in memory at a time."""


class Difference(Struct):
    """An element that is in one state only, or not the same in both."""

    a: Element | None
    b: Element | None


class Side(Struct):
    """One of two states, as a snapshot."""

    name: str
    zxid: Zxid
    file: Path


class _Folder(Struct):
    reader: FolderReader
    snapshots: list[SnapshotFile]
    log: LogReader
    last: Zxid
    committed: Zxid


def find_sides(a: Path, b: Path, temporary: Path) -> tuple[Side, Side]:
    """Return both states; those of folders are written into `temporary`.

    Raises:
        CorruptRecord: a snapshot or log is damaged, or a folder does not reach back to the zxid.
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a place does not exist or cannot be read.
    """
    files: dict[Path, Side] = {}
    folders: dict[Path, _Folder] = {}
    for place in (a, b):
        with storage_errors(place):
            is_file = place.is_file()
        if is_file:
            files[place] = Side(str(place), verify_snapshot(place).zxid, place)
        else:
            folders[place] = _opened(place)
    zxid = _newest_common(folders.values())
    sides = []
    for name, place in (("a", a), ("b", b)):
        folder = folders.get(place)
        if folder is None:
            sides.append(files[place])
        else:
            with folder.reader.explained():
                file = _write_state(folder, zxid, temporary / name)
            sides.append(Side(str(place), zxid, file))
    return sides[0], sides[1]


def differences(a: Path, b: Path, part_bytes: int = PART_BYTES) -> Iterator[Difference]:
    """Yield how two snapshots differ; sorted only if they are small enough for one part.

    Raises:
        CorruptRecord: one is damaged.
        SnapshotFormatError: one is malformed or of an unknown format.
        StorageError: one cannot be read.
    """
    parts = 1 + max(a.stat().st_size, b.stat().st_size) // part_bytes
    for part in range(parts):
        only_a = dict(_elements(a, part, parts))
        found: list[tuple[str, Difference]] = []
        for key, element in _elements(b, part, parts):
            other = only_a.pop(key, None)
            if other != element:
                found.append((key, Difference(other, element)))
        found += [(key, Difference(element, None)) for key, element in only_a.items()]
        found.sort(key=lambda item: item[0])
        yield from (difference for _, difference in found)


def compare(
    a: Side, b: Side, tell: Callable[[Difference], object], part_bytes: int = PART_BYTES
) -> dict[str, Any]:
    """Tell each difference; return the last document, which has the numbers of all."""
    only_a = only_b = differing = 0
    for difference in differences(a.file, b.file, part_bytes):
        only_a += difference.b is None
        only_b += difference.a is None
        differing += difference.a is not None and difference.b is not None
        tell(difference)
    return {
        "kind": "summary",
        "a": a.name,
        "b": b.name,
        "zxid_a": format_zxid(a.zxid),
        "zxid_b": format_zxid(b.zxid),
        "only_a": only_a,
        "only_b": only_b,
        "differing": differing,
        "is_same": only_a + only_b + differing == 0,
    }


def difference_document(difference: Difference) -> dict[str, Any]:
    """Return a difference: what is not the same, and the fields of it as they are in a and b.

    A value stands as its length and its CRC-32: `dump` has it whole.
    """
    a, b = difference.a, difference.b
    some = a or b
    assert some is not None
    kind, name = _name_of(some)
    only = "b" if a is None else "a" if b is None else None
    fields: dict[str, Any] = {}
    if a is not None and b is not None:
        for field in type(some).__struct_fields__:
            values = getattr(a, field), getattr(b, field)
            if values[0] != values[1]:
                fields[field] = [_shown(field, value) for value in values]
    return {"kind": kind, _NAMES[kind]: name, "only": only, "fields": fields}


def difference_line(difference: Difference) -> str:
    """Return the same as a line: `-` only in a, `+` only in b, `!` not the same."""
    document = difference_document(difference)
    kind = document["kind"]
    what = str(document[_NAMES[kind]])
    if kind != "znode":
        what = f"{kind} {what}"
    if document["only"] is not None:
        return f"{'-' if document['only'] == 'a' else '+'} {what}"
    fields = "; ".join(f"{field} {a} / {b}" for field, (a, b) in document["fields"].items())
    return f"! {what}: {fields}"


def summary_line(summary: Mapping[str, Any]) -> str:
    """Return the last document of `compare` as a line."""
    if summary["is_same"]:
        return f"the same: a at {summary['zxid_a']}, b at {summary['zxid_b']}"
    return (
        f"only in a: {summary['only_a']}, only in b: {summary['only_b']}, "
        f"not the same: {summary['differing']}; "
        f"a at {summary['zxid_a']}, b at {summary['zxid_b']}"
    )


def _opened(place: Path) -> _Folder:
    reader = FolderReader(place)
    with reader.explained():
        snapshots = reader.snapshots()
        log = reader.log(synced_upto(snapshots))
        return _Folder(reader, snapshots, log, *newest_zxids(log, snapshots))


def _newest_common(folders: Collection[_Folder]) -> Zxid:
    """Return the newest zxid that all have, and of which one of them knows that it is committed."""
    committed = max((each.committed for each in folders), default=ZERO)
    common = min([committed, *(each.last for each in folders)])
    if epoch_of(common) == epoch_of(committed):
        return common
    # The end of a log of an earlier epoch may never have been committed.
    return min(each.committed for each in folders)


def _write_state(folder: _Folder, zxid: Zxid, temporary: Path) -> Path:
    """Write the state as of `zxid` into a file in the folder `temporary`, and return it."""
    snapshots = [s for s in folder.snapshots if s.consistent_at and s.consistent_at <= zxid]
    snapshot = snapshots[-1] if snapshots else None
    if snapshot is None and zxid != ZERO and folder.log.begin() != ZERO:
        oldest = min((s.consistent_at for s in folder.snapshots if s.consistent_at), default=None)
        since = f"from {format_zxid(oldest)} on" if oldest is not None else "nowhere"
        raise StorageError(
            f"{folder.reader.folder} has the state {since}, and not at {format_zxid(zxid)}, "
            "the newest committed zxid that both folders have"
        )
    state = load_state_at(folder.log, snapshot, zxid, folder.reader.files)
    temporary.mkdir()
    writer = SnapshotWriter(temporary / snapshot_name(zxid), zxid)
    walk = SnapshotWalk(state)
    while (chunk := walk.next_chunk()) is not None:
        writer.write(chunk)
    writer.finish(zxid)
    return writer.path


def _elements(file: Path, part: int, parts: int) -> Iterator[tuple[str, Element]]:
    """Yield the elements of one part of a snapshot, each with its key."""
    try:
        for record in records_in(SnapshotChunks(file)):
            if isinstance(record, Element):
                key = " ".join(map(str, _name_of(record)))
                if parts == 1 or crc32(key.encode()) % parts == part:
                    yield key, record
    except SnapshotFormatError as error:
        raise SnapshotFormatError(f"{file}: {error}") from error


_NAMES = {"znode": "path", "session": "session", "voter": "server_id", "member": "list"}


def _name_of(element: Element) -> tuple[str, str | int]:
    match element:
        case ZnodeRecord():
            return "znode", element.path
        case SessionRecord():
            return "session", f"{element.session_id:#x}"
        case VoterRecord():
            return "voter", element.server_id
        case MembersRecord():
            return "member", "list"


def _shown(field: str, value: Any) -> Any:
    """Return the value of a field, without secrets."""
    match field:
        case "czxid" | "mzxid" | "pzxid" | "owner_zxid":
            return format_zxid(value)
        case "ctime" | "mtime":
            return time_field(value)
        case "ephemeral_owner":
            return session_field(value)
        case "value":
            return None if value is None else f"{len(value)} bytes, crc32 {crc32(value):#010x}"
        case "attributes":
            acls, aversion, ttl_ms = (None, 0, 0) if value is None else astuple(value)
            fields = {"acls": acl_documents(acls), "aversion": aversion}
            return fields | {**ttl_fields(ttl_ms)}
        case "auth_ids":
            return identity_documents(value)
        case "members":
            return members_fields(value)
        case "password":
            return "secret"
        case "reply_cache":
            return list(value)
        case _:
            return value
