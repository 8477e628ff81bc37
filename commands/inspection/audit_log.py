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
from raykeeper.znodes.snapshot import SnapshotFormatError, ZnodeRecord, records_in
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
    reader: FolderReader, wanted: Wanted, problems: list[str]
) -> Iterator[AuditEntry]:
    """Yield the transactions that are asked for, in order; note what is damaged in `problems`.

    Raises:
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a file cannot be read, or was removed meanwhile by the server.
    """
    snapshots = reader.snapshots()
    problems += [each.problem for each in snapshots if each.problem]
    log = reader.log(synced_upto(snapshots))
    committed = newest_zxids(log, snapshots)[1]
    clients = Clients({}, ZERO)
    begin = log.begin() or ZERO
    for each in snapshots:
        if each.consistent_at is not None and begin <= each.zxid:
            clients = Clients(_sessions_in(each, reader.files), each.consistent_at)
            break
    known_problems = len(problems)
    for zxid, txn in transactions(log, problems):
        if len(problems) > known_problems:
            known_problems = len(problems)
            clients.forget()
        client = clients.of(zxid, txn)
        if wanted.includes(txn):
            yield AuditEntry(zxid, txn, client, zxid <= committed)


def print_log(
    reader: FolderReader,
    wanted: Wanted,
    tell: Callable[[AuditEntry], None],
    last: int | None = None,
) -> None:
    """Tell the transactions that are asked for, or only the last ones of them.

    Raises:
        CorruptRecord: something is damaged; all that is valid was told before.
        UnknownVersion: a file is of a version that this program does not know.
        StorageError: a file cannot be read, or was removed meanwhile by the server.
    """
    problems: list[str] = []
    entries = audit_entries(reader, wanted, problems)
    with reader.explained():
        for entry in entries if last is None else deque(entries, last):
            tell(entry)
        raise_problems(problems)


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
    try:
        for record in records_in(SnapshotChunks(snapshot.path, files)):
            if type(record) is SessionRecord:
                sessions[record.session_id] = replace(record, reply_cache={}, password=b"")
            elif type(record) is ZnodeRecord:
                break
    except SnapshotFormatError as error:
        raise SnapshotFormatError(f"{snapshot.path}: {error}") from error
    return sessions
