"""`raykeeper log`: who changed what, from where, with what outcome. The log is the audit log.

A transaction names its session. Where the client of a session is, by which server it came, and
which identities it has proved stand in earlier transactions, or in the oldest snapshot that the log
reaches back to. What neither has is not known, and shown so.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from raykeeper.actors.disk.filesystem import Filesystem
from raykeeper.actors.disk.folder_reader import (
    FolderReader,
    SnapshotFile,
    newest_zxids,
    synced_upto,
)
from raykeeper.actors.disk.snapshot_files import SnapshotChunks
from raykeeper.commands.inspection.dump import raise_problems, transactions
from raykeeper.commands.inspection.transactions import (
    describe,
    identity_documents,
    paths_of,
    session_of,
    shown_identities,
    transaction_document,
)
from raykeeper.commands.output import Document, time_field
from raykeeper.zab.ids import ZERO, Millis, ServerId, Zxid, format_zxid
from raykeeper.znodes.acl import Identities
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.sessions import SessionRecord
from raykeeper.znodes.snapshot import Record, SnapshotFormatError, ZnodeRecord, records_in
from raykeeper.znodes.txns import CloseSessionTxn, CreateSessionTxn, SetIdentitiesTxn, Txn


class Client(Struct, frozen=True):
    """The client of a session. None is unknown; of `host`, "" is known to be none."""

    host: str | None = None
    server_id: ServerId | None = None
    """The server that it was connected to."""
    identities: Identities | None = None
    """Those that it has proved."""


class AuditEntry(Struct):
    """A transaction, and the client that wrote it; None for one of the ensemble itself."""

    zxid: Zxid
    txn: Txn
    client: Client | None
    is_committed: bool
    """Whether the folder knows that it was committed; the newest ones may be."""


class Wanted(Struct, frozen=True):
    """Which transactions are asked for; by default all."""

    path: str | None = None
    is_recursive: bool = False
    """Also what is below `path`."""
    session: SessionId | None = None
    since: Millis | None = None
    until: Millis | None = None

    def includes(self, txn: Txn) -> bool:
        """Return whether a transaction is asked for."""
        if self.since is not None and txn.time_ms < self.since:
            return False
        if self.until is not None and txn.time_ms > self.until:
            return False
        if self.session is not None and session_of(txn) != self.session:
            return False
        return self.path is None or any(map(self._is_at, paths_of(txn.body)))

    def _is_at(self, path: str) -> bool:
        if path == self.path:
            return True
        assert self.path is not None
        return self.is_recursive and path.startswith(self.path.rstrip("/") + "/")


class LogReach(Struct):
    """Which part of the history a log holds: without it, no entry says nothing."""

    after: Zxid = ZERO
    """The zxid before its first transaction; 0:0 if it begins with the ensemble."""
    upto: Zxid = ZERO
    since: Millis | None = None
    """When its first transaction was proposed; None: it has none."""
    until: Millis | None = None
    """When the last one was."""
    transactions: int = 0
    found: int = 0
    """How many of them were asked for."""
    before: tuple[Zxid, ZnodeRecord | None] | None = None
    """The znode that was asked for, of which the log has nothing, and the snapshot that tells it;
    None of the znode: it was not there then."""

    def holds_all(self, wanted: Wanted) -> bool:
        """Return whether it begins before everything that is asked for."""
        if self.after == ZERO:
            return True
        return wanted.since is not None and self.since is not None and self.since < wanted.since

    def is_conclusive(self, wanted: Wanted) -> bool:
        """Return whether what was found, or that nothing was, says what is asked for."""
        return self.found > 0 or self.holds_all(wanted)


class Clients:
    """The clients of sessions, as the log tells them transaction by transaction."""

    def __init__(self, earlier: dict[SessionId, SessionRecord], snapshot: Zxid) -> None:
        """`earlier` are the sessions of a snapshot that is consistent at `snapshot`."""
        self._earlier = earlier
        self._snapshot = snapshot
        self._known: dict[SessionId, Client] = {}

    def of(self, zxid: Zxid, txn: Txn) -> Client | None:
        """Return the client that wrote `txn`, the next transaction of the log."""
        body = txn.body
        session_id = SessionId(session_of(txn))
        if type(body) is CreateSessionTxn:
            # A new session has proved nothing yet; one that moves keeps what it has proved.
            proved = (
                () if session_id == SessionId(zxid) else self._find(session_id, zxid).identities
            )
            client = Client(body.host, body.server_id, proved)
            self._known[session_id] = client
        elif not session_id:
            return None
        else:
            client = self._find(session_id, zxid)
            if type(body) is SetIdentitiesTxn:
                client = replace(client, identities=body.identities)
                self._known[session_id] = client
            elif type(body) is CloseSessionTxn:
                self._known.pop(session_id, None)
        return client

    def forget(self) -> None:
        """Know nothing any more: transactions that would tell more are missing in the log."""
        self._earlier = {}
        self._known.clear()

    def _find(self, session_id: SessionId, zxid: Zxid) -> Client:
        client = self._known.get(session_id, Client())
        earlier = self._earlier.get(session_id)
        if earlier is not None:
            if client.host is None and earlier.owner_zxid <= zxid:
                server_id = earlier.server_id or None  # an older snapshot does not tell
                client = replace(client, host=earlier.host, server_id=server_id)
            # Before the snapshot it may have had fewer of them.
            if client.identities is None and zxid > self._snapshot:
                client = replace(client, identities=earlier.auth_ids)
        return client


def audit_entries(
    reader: FolderReader, wanted: Wanted, problems: list[str], reach: LogReach
) -> Iterator[AuditEntry]:
    """Yield the transactions that are asked for, in order.

    Note what is damaged in `problems`, and in `reach` what was looked at.

    Raises:
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a file cannot be read, or was removed meanwhile by the server.
    """
    snapshots = reader.snapshots()
    problems += [each.problem for each in snapshots if each.problem]
    log = reader.log(synced_upto(snapshots))
    committed = newest_zxids(log, snapshots)[1]
    clients = Clients({}, ZERO)
    begin = log.begin()
    oldest = next((x for x in snapshots if x.consistent_at and x.zxid >= (begin or ZERO)), None)
    if oldest is not None and oldest.consistent_at is not None:
        clients = Clients(_sessions_in(oldest, reader.files), oldest.consistent_at)
    reach.after = reach.upto = synced_upto(snapshots) if begin is None else begin
    known_problems = len(problems)
    for zxid, txn in transactions(log, problems):
        if len(problems) > known_problems:
            known_problems = len(problems)
            clients.forget()
        client = clients.of(zxid, txn)
        reach.since = txn.time_ms if reach.since is None else reach.since
        reach.upto, reach.until = zxid, txn.time_ms
        reach.transactions += 1
        if wanted.includes(txn):
            reach.found += 1
            yield AuditEntry(zxid, txn, client, zxid <= committed)
    if wanted.path is not None and oldest is not None and not reach.is_conclusive(wanted):
        reach.before = oldest.zxid, _znode_in(oldest, wanted.path, reader.files)


def print_log(
    reader: FolderReader,
    wanted: Wanted,
    tell: Callable[[AuditEntry], None],
    last: int | None = None,
) -> LogReach:
    """Tell the transactions that are asked for, or only the last ones of them.

    Return what was looked at.

    Raises:
        CorruptRecord: something is damaged; all that is valid was told before.
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a file cannot be read, or was removed meanwhile by the server.
    """
    problems: list[str] = []
    reach = LogReach()
    entries = audit_entries(reader, wanted, problems, reach)
    with reader.explained():
        for entry in entries if last is None else deque(entries, last):
            tell(entry)
        raise_problems(problems)
    return reach


def reach_document(reach: LogReach, wanted: Wanted) -> dict[str, Any]:
    """Return the last document of `log --json`: what was looked at."""
    before: dict[str, Any] | None = None
    if reach.before is not None:
        zxid, znode = reach.before
        fields = dict.fromkeys(("czxid", "ctime", "mzxid", "mtime"))
        if znode is not None:
            fields = {
                "czxid": format_zxid(znode.czxid),
                "ctime": time_field(znode.ctime),
                "mzxid": format_zxid(znode.mzxid),
                "mtime": time_field(znode.mtime),
            }
        before = {"zxid": format_zxid(zxid), "is_there": znode is not None, **fields}
    return {
        "type": "summary",
        "after": format_zxid(reach.after),
        "upto": format_zxid(reach.upto),
        "since": None if reach.since is None else time_field(reach.since),
        "until": None if reach.until is None else time_field(reach.until),
        "transactions": reach.transactions,
        "found": reach.found,
        "holds_all": reach.holds_all(wanted),
        "before": before,
    }


def reach_lines(reach: LogReach, wanted: Wanted) -> Iterator[str]:
    """Yield the same as lines."""
    shown = reach_document(reach, wanted)
    if reach.transactions:
        yield (
            f"{reach.found} of {reach.transactions} transactions, after {shown['after']} up to "
            f"{shown['upto']}, from {shown['since']} to {shown['until']}"
        )
    else:
        yield f"the log has no transaction; it begins after {shown['after']}"
    if not shown["holds_all"]:
        yield "what was before is not in the log of this folder"
    if (before := shown["before"]) is not None:
        told = "had no such znode"
        if before["is_there"]:
            told = (
                f"had it, created at {before['czxid']} ({before['ctime']}), "
                f"last set at {before['mzxid']} ({before['mtime']})"
            )
        yield f"the snapshot as of {before['zxid']} {told}"


def entry_document(entry: AuditEntry) -> dict[str, Any]:
    """Return the document of an entry: that of its transaction, and the client."""
    return {
        **transaction_document(entry.zxid, entry.txn),
        "client": None if entry.client is None else _client_document(entry.client),
        "is_committed": entry.is_committed,
    }


def entry_line(entry: AuditEntry) -> str:
    """Return an entry as a line."""
    time = time_field(entry.txn.time_ms)
    line = f"{time}  {format_zxid(entry.zxid)}  {_who(entry)}: {describe(entry.zxid, entry.txn)}"
    return line if entry.is_committed else f"{line} (not known to be committed)"


def _client_document(client: Client) -> Document:
    proved = client.identities
    return {
        "host": client.host or None,
        "server_id": client.server_id,
        "identities": None if proved is None else identity_documents(proved),
    }


def _who(entry: AuditEntry) -> str:
    client = entry.client
    if client is None:
        return "the ensemble"
    words = [f"session {session_of(entry.txn):#x}"]
    if client.host is None:
        words.append("from an unknown host")
    elif client.host:
        words.append(f"from {client.host}")
    if client.server_id is not None:
        words.append(f"at server {client.server_id}")
    if client.identities:
        words.append(f"as {shown_identities(client.identities)}")
    return " ".join(words)


def _sessions_in(snapshot: SnapshotFile, files: Filesystem) -> dict[SessionId, SessionRecord]:
    """Return the sessions in a snapshot, which stand before the znodes, without their outcomes."""
    sessions: dict[SessionId, SessionRecord] = {}
    for record in _records_of(snapshot, files):
        if type(record) is SessionRecord:
            sessions[record.session_id] = replace(record, reply_cache={}, password=b"")
        elif type(record) is ZnodeRecord:
            break
    return sessions


def _znode_in(snapshot: SnapshotFile, path: str, files: Filesystem) -> ZnodeRecord | None:
    """Return a znode as a snapshot has it; None if it has none there."""
    for record in _records_of(snapshot, files):
        if type(record) is ZnodeRecord and record.path == path:
            return record
    return None


def _records_of(snapshot: SnapshotFile, files: Filesystem) -> Iterator[Record]:
    try:
        yield from records_in(SnapshotChunks(snapshot.path, files))
    except SnapshotFormatError as error:
        raise SnapshotFormatError(f"{snapshot.path}: {error}") from error
