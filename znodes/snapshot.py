"""The fuzzy snapshot: the state written down bit by bit while it goes on changing.

A walk begins when the state is at zxid Z0 and ends at some later Z1; in between each session and
each znode is written as it is at that moment. Loading that and replaying every transaction after
Z0, at least up to Z1, gives the state at Z1 and later, because each element

    written as of z: a replay recognizes every txn up to z that concerns it, by its zxid or its
    number in the session, and leaves the element alone; later txns apply as they did;
    not written: it was missing at some moment z (when its parent's children were listed, all or
    in shards, or when the walk came to it), so the replayed deletion, or closing, that made it
    missing undoes all that a replay makes of it up to z.

The salt of the ACLs comes first, which never changes, if the state names one. Then the member list
as of the beginning, or the voters replaced since the founding; a replay sets them again, in order.
Then sessions, which are listed when the walk begins. A session that ends during the walk may be
written and its ephemerals not, or one that begins the other way round; both are only seen before
Z1, where nothing reads the state. ZOOKEEPER-3144 was a wrong Z0: here a walk begins between two
transactions, never within one.

Parents come before their children, so a child without its parent is a damaged snapshot.

Format: a sequence of chunks, each a msgpack list of records; the first chunk is the header alone,
so any version can tell that it cannot read another one.

Paper: ZooKeeper (USENIX ATC 2010), section 4.3. ZooKeeper: `SerializeUtils`, `DataTree.serialize`.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from raykeeper.zab.errors import DECODE_ERRORS, RayKeeperError
from raykeeper.zab.feature_levels import (
    LEVEL_MIN,
    LEVEL_OF_ACL_SALTS,
    FeatureLevel,
    WireLevel,
    level_problem,
)
from raykeeper.zab.ids import ZERO, DiskId, Millis, ServerId, Zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.children import ShardedChildren
from raykeeper.znodes.paths import SYSTEM_PATHS
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.sessions import SessionRecord, SessionTable, record_of, session_of
from raykeeper.znodes.state import State
from raykeeper.znodes.tree import Tree
from raykeeper.znodes.znode import Znode, ZnodeAttributes, attributes_of

SNAPSHOT_FORMATS: Final = {FeatureLevel(1): 3, FeatureLevel(2): 4}
"""The format of a snapshot, by the feature level of its state. They differ by the header alone: it
says the level, and the number keeps a program out that knows no levels."""
VISITS_MAX: Final = 512
"""Znodes looked at for one chunk: some hundred microseconds, however small they are."""


_INT64: Final = Meta(le=(1 << 63) - 1)  # the digest packs them, after the load


class SnapshotFormatError(RayKeeperError):
    """Raised when a snapshot is malformed, incomplete or of an unknown format.

    The caller should drop what was loaded of it and use another snapshot.
    """


class SnapshotHeader(Struct, frozen=True, array_like=True, tag=1):
    """First record. `time_ms` and `level` are those of the state when the walk began."""

    format: int
    time_ms: Millis
    level: WireLevel = LEVEL_MIN


class ZnodeRecord(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A znode; number and list of children are found again when it is loaded.

    `value` None is null data, nil where else bytes stand.
    """

    path: str
    value: bytes | None
    czxid: Annotated[Zxid, _INT64]
    mzxid: Annotated[Zxid, _INT64]
    ctime: Annotated[Millis, _INT64]
    mtime: Annotated[Millis, _INT64]
    version: Annotated[int, _INT64]
    ephemeral_owner: Annotated[SessionId, _INT64]
    child_create_count: Annotated[int, _INT64]
    pzxid: Annotated[Zxid, _INT64]
    attributes: ZnodeAttributes | None = None


class SnapshotTrailer(Struct, frozen=True, array_like=True, tag=4):
    """Last record: the numbers of sessions and znodes before it."""

    sessions: int
    znodes: int


class VoterRecord(Struct, frozen=True, array_like=True, tag=5, gc=False):
    """A voter whose vote rests on another than its founding disk."""

    server_id: ServerId
    disk: DiskId


class MembersRecord(Struct, frozen=True, array_like=True, tag=6):
    """The member list, if servers have come or gone since the founding.

    `said`: `State.members_said`.
    """

    members: MemberList
    said: Annotated[Zxid, _INT64] = ZERO


class AclSaltRecord(Struct, frozen=True, array_like=True, tag=7):
    """`State.acl_salt`, if it is not ""."""

    salt: str


Record = (
    SnapshotHeader
    | AclSaltRecord
    | VoterRecord
    | MembersRecord
    | SessionRecord
    | ZnodeRecord
    | SnapshotTrailer
)

_encode_chunk = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(list[SnapshotHeader]).decode
_decode_chunk = msgspec.msgpack.Decoder(
    list[
        AclSaltRecord | VoterRecord | MembersRecord | SessionRecord | ZnodeRecord | SnapshotTrailer
    ]
).decode

_RECORD_BYTES = 64  # of a record beside path, value and outcomes, roughly
_OUTCOME_BYTES = 80


def records_in(chunks: Iterable[bytes]) -> Iterator[Record]:
    """Yield the records of a snapshot, header and trailer included, a chunk in memory at a time.

    They are as they were written: each as of another moment, see above.

    Raises:
        SnapshotFormatError: a chunk is malformed or of an unknown format, or the end is missing.
    """
    is_first, last = True, None
    for chunk in chunks:
        try:
            records: list[Record] = [_header_in(chunk)] if is_first else [*_decode_chunk(chunk)]
        except DECODE_ERRORS as error:
            raise SnapshotFormatError(f"malformed record: {error}") from error
        is_first = False
        for last in records:
            yield last
    if type(last) is not SnapshotTrailer:
        raise SnapshotFormatError("the snapshot is not complete")


def level_of(chunk: bytes) -> FeatureLevel:
    """Return the feature level that a snapshot with this first chunk requires.

    Raises:
        SnapshotFormatError: the chunk is malformed or of an unknown format.
    """
    try:
        return _header_in(chunk).level
    except DECODE_ERRORS as error:
        raise SnapshotFormatError(f"malformed record: {error}") from error


def _header_in(chunk: bytes) -> SnapshotHeader:
    headers = _decode_header(chunk)
    if len(headers) != 1:
        raise SnapshotFormatError("the first chunk must be the header alone")
    header = headers[0]
    if header.format not in SNAPSHOT_FORMATS.values():
        known = " and ".join(map(str, SNAPSHOT_FORMATS.values()))
        raise SnapshotFormatError(f"format {header.format}, and this program reads {known}")
    if problem := level_problem(header.level):
        raise SnapshotFormatError(f"the snapshot requires {problem}")
    return header


def _header_of(state: State) -> SnapshotHeader:
    return SnapshotHeader(SNAPSHOT_FORMATS[state.level], state.time_ms, state.level)


def time_in(chunk: bytes) -> Millis:
    """Return the time of the last transaction before the walk, which the first chunk tells.

    Raises:
        SnapshotFormatError: it is malformed or of an unknown format.
    """
    try:
        return _header_in(chunk).time_ms
    except DECODE_ERRORS as error:
        raise SnapshotFormatError(f"malformed record: {error}") from error


class SnapshotWalk:
    """Writes a state down, one bounded chunk a call; transactions may be applied in between."""

    def __init__(self, state: State, chunk_bytes: int = 64 << 10) -> None:
        self._state = state
        self._chunk_bytes = chunk_bytes
        self._begun = self._are_voters_written = self._ended = False
        self._sessions = list(state.sessions.by_id)
        self._paths = ["/"]  # still to visit, the next one last
        self._shards: list[dict[str, None]] = []  # still to list, the next one last
        self._session_count = self._znode_count = 0

    def next_chunk(self) -> bytes | None:
        """Return the next chunk, None after the last."""
        if self._ended:
            return None
        if not self._begun:
            self._begun = True
            self._members = self._state.members
            self._members_said = self._state.members_said
            return _encode_chunk([_header_of(self._state)])
        records: list[Record] = []
        if not self._are_voters_written:
            self._are_voters_written = True
            if self._state.acl_salt:
                assert self._state.level >= LEVEL_OF_ACL_SALTS, self._state.level
                records.append(AclSaltRecord(self._state.acl_salt))
            if self._members is None:
                records += [VoterRecord(*item) for item in self._state.voters.items()]
            else:
                records.append(MembersRecord(self._members, self._members_said))
        if self._sessions:
            self._visit_sessions(records)
        else:
            self._visit_znodes(records)
        while not self._paths and self._shards:
            self._paths.extend(self._shards.pop())
        if not self._sessions and not self._paths and not self._shards:
            self._ended = True
            records.append(SnapshotTrailer(self._session_count, self._znode_count))
        return _encode_chunk(records)

    def _visit_sessions(self, records: list[Record]) -> None:
        table = self._state.sessions
        sessions = self._sessions
        room = self._chunk_bytes
        while sessions and room > 0:
            session = table.get(sessions.pop())
            if session is None:
                room -= 1  # bounds the visits too
                continue
            records.append(record_of(session))
            room -= _RECORD_BYTES + len(session.reply_cache) * _OUTCOME_BYTES
            self._session_count += 1

    def _visit_znodes(self, records: list[Record]) -> None:
        znodes = self._state.tree.znodes
        paths = self._paths
        room = self._chunk_bytes
        for _ in range(VISITS_MAX):
            path = paths.pop()
            znode = znodes.get(path)
            if znode is not None:
                value = znode.value
                records.append(
                    ZnodeRecord(
                        path,
                        value,
                        znode.czxid,
                        znode.mzxid,
                        znode.ctime,
                        znode.mtime,
                        znode.version,
                        znode.ephemeral_owner,
                        znode.child_create_count,
                        znode.pzxid,
                        znode.attributes,
                    )
                )
                self._znode_count += 1
                children = znode.children
                if isinstance(children, ShardedChildren):
                    self._shards.extend(reversed(children.shards))
                elif children:
                    paths.extend(reversed(children))
                room -= len(path) + len(value or b"") + _RECORD_BYTES
            if room <= 0 or not paths:
                break


class SnapshotLoader:
    """Builds a state from chunks in the order in which they were written."""

    def __init__(self) -> None:
        self._tree = Tree()
        self._sessions = SessionTable()
        self._voters: dict[ServerId, DiskId] = {}
        self._members: MemberList | None = None
        self._members_said = ZERO
        self._acl_salt = ""
        self._header: SnapshotHeader | None = None
        self._complete = False

    def load(self, chunk: bytes) -> None:
        """Take the next chunk.

        Raises:
            SnapshotFormatError: it is malformed, of an unknown format or does not belong here.
                The chunks loaded so far are of no use.
        """
        try:
            if self._header is None:
                self._header = _header_in(chunk)
                return
            records = _decode_chunk(chunk)
        except DECODE_ERRORS as error:
            raise SnapshotFormatError(f"malformed record: {error}") from error
        if self._complete and records:
            raise SnapshotFormatError("a record after the last one")
        try:
            self._tree.add_all(self._znodes_in(records))
        except ValueError as error:
            raise SnapshotFormatError(str(error)) from error
        for record in records:
            if type(record) is SessionRecord:
                self._add_session(record)
            elif type(record) is VoterRecord:
                self._voters[record.server_id] = record.disk
            elif type(record) is MembersRecord:
                self._members, self._members_said = record.members, record.said
            elif type(record) is AclSaltRecord:
                if self._header.level < LEVEL_OF_ACL_SALTS:
                    raise SnapshotFormatError(f"a salt at feature level {self._header.level}")
                self._acl_salt = record.salt
            elif type(record) is SnapshotTrailer:
                if record is not records[-1]:
                    raise SnapshotFormatError("a record after the last one")
                self._end(record)

    def finish(self, zxid: Zxid, consistent_at: Zxid) -> State:
        """Return the state of a walk that began at `zxid` and ended at `consistent_at`.

        Raises:
            SnapshotFormatError: the snapshot is not complete.
        """
        if self._header is None or not self._complete:
            raise SnapshotFormatError("the snapshot is not complete")
        assert zxid <= consistent_at, (zxid, consistent_at)
        state = State(self._tree, self._sessions)
        state.voters = self._voters
        # When the newest of them moved is not written; no list is older that others know of.
        state.voters_version = consistent_at if self._voters else ZERO
        if self._members is not None:
            state.set_members(self._members)
            state.members_said = self._members_said
        state.zxid = zxid
        state.consistent_at = consistent_at
        state.time_ms = self._header.time_ms
        state.level = self._header.level
        state.acl_salt = self._acl_salt
        return state

    def _add_session(self, record: SessionRecord) -> None:
        if not record.session_id:
            raise SnapshotFormatError("a session without an id")
        if self._sessions.get(record.session_id) is not None:
            raise SnapshotFormatError(f"session {record.session_id:#x} comes twice")
        self._sessions.add(session_of(record))

    def _znodes_in(self, records: Iterable[Record]) -> Iterator[tuple[str, Znode]]:
        """Yield the znodes among `records`; equal numbers share one object, as in a grown tree."""
        last_ctime = Millis(0)
        for record in records:
            if type(record) is not ZnodeRecord:
                continue
            path = record.path
            if path[:1] != "/":
                raise SnapshotFormatError(f"{path!r} is not the path of a znode")
            czxid = record.czxid
            mzxid = record.mzxid
            pzxid = record.pzxid
            mtime = record.mtime
            if record.ctime != last_ctime:
                last_ctime = record.ctime
            znode = Znode(
                record.value,
                czxid,
                czxid if mzxid == czxid else mzxid,
                last_ctime,
                last_ctime if mtime == last_ctime else mtime,
                record.version,
                record.ephemeral_owner,
                record.child_create_count,
                czxid if pzxid == czxid else pzxid,
                0,
            )
            attributes = record.attributes
            if attributes is not None:
                znode.attributes = attributes_of(
                    attributes.acls, attributes.aversion, attributes.ttl_ms
                )
            yield path, znode

    def _end(self, trailer: SnapshotTrailer) -> None:
        counts = (len(self._sessions.by_id), len(self._tree.znodes))
        if counts != (trailer.sessions, trailer.znodes):
            raise SnapshotFormatError(
                f"{counts} sessions and znodes, expected {(trailer.sessions, trailer.znodes)}"
            )
        for path in SYSTEM_PATHS:
            if path not in self._tree.znodes:
                raise SnapshotFormatError(f"znode {path} is missing")
        self._complete = True
