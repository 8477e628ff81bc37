"""The tree and the sessions that the committed transactions make, with all their past.

Implemented apart from the code under test: of `znodes/` only the requests, transactions and
replies are used here. So a mistake there is not repeated here.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from raykeeper.zab.ids import ZERO, DiskId, Millis, ServerId, Zxid, format_zxid
from raykeeper.zab.member_list import MemberList
from raykeeper.znodes.acl import READ_ONLY_ACL, Acls, Identities
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import Reconfig, SessionId
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    ReconfigTxn,
    ReplaceVoterTxn,
    SetAclTxn,
    SetDataTxn,
    SetIdentitiesTxn,
    Txn,
    TxnBody,
)

CONFIG: Final = "/zookeeper/config"
FIXED: Final = ("/", "/zookeeper", "/zookeeper/quota", CONFIG)

Touched = list[tuple[str, bool, "Trigger"]]
"""What a transaction sets off: path, whether for the child table, and what."""


class TrueZnode(Struct):
    """A znode in its present state."""

    value: bytes | None
    czxid: Zxid
    ctime: Millis
    owner: SessionId
    mzxid: Zxid
    mtime: Millis
    pzxid: Zxid
    version: int = 0
    creates: int = 0
    children: set[str] = set()
    acls: Acls | None = None
    aversion: int = 0
    ttl_ms: int = 0

    def stat(self) -> Stat:
        """Return the Stat that a client must see."""
        count = len(self.children)
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            2 * self.creates - count,
            self.aversion,
            self.owner,
            len(self.value or b""),
            count,
            self.pzxid,
        )


class TrueSession(Struct):
    """A session in its present state. `owner` is the zxid of its latest opening."""

    password: bytes
    owner: Zxid
    last_number: int = 0
    closed_at: Zxid | None = None
    ephemerals: set[str] = set()
    proven: list[tuple[Zxid, Identities]] = []
    """What it is known as, from which zxid on."""

    def known_as(self, zxid: Zxid) -> Identities:
        """Return its identities as of `zxid`."""
        place = bisect_right(self.proven, zxid, key=lambda each: each[0])
        return self.proven[place - 1][1] if place else ()


class PastZnode(Struct, frozen=True):
    """The state of a znode during some time."""

    value: bytes | None
    stat: Stat
    acls: Acls | None = None
    ttl_ms: int = 0


class Trigger(Struct, frozen=True):
    """A change that watches on one path must report to sessions that may read it by these ACLs.

    `old` and `new` are the znode before and after, unless only its children have changed.
    """

    zxid: Zxid
    kind: EventType
    acls: Acls | None = None
    old: PastZnode | None = None
    new: PastZnode | None = None


class _Past(Struct):
    """The past of one path: its states, each with its first zxid, and its triggers."""

    since: list[Zxid] = []
    was: list[PastZnode | None] = []
    data: list[Trigger] = []
    child: list[Trigger] = []


class Truth:
    """The state as of `zxid`, and all earlier ones."""

    def __init__(self) -> None:
        self.zxid = ZERO
        self.time_ms = Millis(0)
        self.znodes: dict[str, TrueZnode] = {}
        self.sessions: dict[SessionId, TrueSession] = {}
        self.voters: dict[ServerId, DiskId] = {}
        """Those whose vote has moved to another disk."""
        self.members: MemberList | None = None
        """The member list; None while it is that of the founding."""
        self.times_said = 0
        self.operators_steps: list[Reconfig] = []
        """Those that operators have asked some server for."""
        self.lists = 0
        """How many there have been."""
        self.lists_at: dict[Zxid, None] = {}
        """The transactions that said a list, or put a vote on another disk."""
        self._past: dict[str, _Past] = {}
        zero = Millis(0)
        for path in FIXED:
            self.znodes[path] = TrueZnode(
                b"", ZERO, zero, SessionId(0), ZERO, zero, ZERO, children=set()
            )
            if path != "/":
                self.znodes[parent(path)].children.add(name(path))
        self.znodes[CONFIG].acls = READ_ONLY_ACL
        for path in FIXED:
            self._remember(path)

    def vote_of(self, server: ServerId, other: DiskId | None = None) -> DiskId | None:
        """Return the disk that has the vote of a server; `other` for one that never moved."""
        if self.members is not None:
            return self.members.voters.get(server)
        return self.voters.get(server, other)

    def apply(self, zxid: Zxid, txn: Txn) -> Touched:
        """Apply a transaction. Return the triggers it sets off, in the order of its changes."""
        self.zxid = zxid
        self.time_ms = txn.time_ms
        change = txn.body
        touched: Touched = []
        if isinstance(change, CloseSessionTxn):
            for path in change.ephemerals:
                self._delete(path, touched)
            self.sessions[change.session_id].closed_at = zxid
        elif isinstance(change, CreateSessionTxn):
            session = self.sessions.get(change.session_id)
            if session is None:
                session = TrueSession(change.password, zxid, ephemerals=set(), proven=[])
                self.sessions[change.session_id] = session
            session.owner = zxid
            session.password = change.password
        elif isinstance(change, ReplaceVoterTxn):
            self.lists_at[zxid] = None
            self.voters[change.server_id] = change.disk
            if self.members is not None:
                self.members = self.members.with_disk(change.server_id, change.disk, zxid)
        elif isinstance(change, ReconfigTxn):
            self.lists_at[zxid] = None
            is_new = self.members != change.members
            self.lists += is_new
            self.times_said = 1 if is_new else self.times_said + 1
            self.members, self.voters = change.members, change.members.moved
            if change.config is not None:
                self._change(change.config, touched)
        elif isinstance(change, SetIdentitiesTxn):
            self.sessions[txn.session_id].proven.append((zxid, change.identities))
        elif isinstance(change, MultiTxn):
            for each in change.changes:
                self._change(each, touched)
        else:
            self._change(change, touched)
        if txn.number:
            self.sessions[txn.session_id].last_number = txn.number
        return touched

    def at(self, path: str, zxid: Zxid) -> PastZnode | None:
        """Return the znode at `path` as of `zxid`, None if it was missing."""
        past = self._past.get(path)
        if past is None:
            return None
        place = bisect_right(past.since, zxid)
        return past.was[place - 1] if place else None

    def is_ever_missing(self, path: str, since: Zxid, until: Zxid) -> bool:
        """Return whether `path` was missing as of some zxid from `since` to `until`."""
        return any(was is None for _, was in self.between(path, since, until))

    def between(
        self, path: str, since: Zxid, until: Zxid
    ) -> Iterator[tuple[Zxid, PastZnode | None]]:
        """Return the states of `path` from `since` to `until`, each with its first zxid."""
        yield since, self.at(path, since)
        past = self._past.get(path)
        if past is not None:
            first = bisect_right(past.since, since)
            last = bisect_right(past.since, until)
            yield from zip(past.since[first:last], past.was[first:last], strict=True)

    def paths(self) -> Iterator[str]:
        """Return the path of every znode that ever existed."""
        yield from self._past

    def all_at(self, zxid: Zxid) -> Iterator[tuple[str, PastZnode]]:
        """Return every znode as of `zxid`."""
        for path in self._past:
            was = self.at(path, zxid)
            if was is not None:
                yield path, was

    def known_as(self, session_id: SessionId, zxid: Zxid) -> Identities:
        """Return the identities of a session as of `zxid`."""
        return self.sessions[session_id].known_as(zxid)

    def triggers(
        self, path: str, *, is_child: bool, after: Zxid, upto: Zxid | None = None
    ) -> list[Trigger]:
        """Return the triggers of watches on `path` after `after`, up to `upto`."""
        past = self._past.get(path)
        if past is None:
            return []
        triggers = past.child if is_child else past.data
        first = bisect_right(triggers, after, key=_zxid_of)
        if upto is None:
            return triggers[first:]
        return triggers[first : bisect_right(triggers, upto, key=_zxid_of)]

    def _change(self, change: TxnBody, touched: Touched) -> None:
        """Apply a transaction's change to its znode, if it has one."""
        znodes, zxid, time_ms = self.znodes, self.zxid, self.time_ms
        if isinstance(change, CreateTxn):
            path = change.path
            create_znode(znodes, zxid, time_ms, change)
            if change.ephemeral_owner:
                self.sessions[change.ephemeral_owner].ephemerals.add(path)
            new = znodes[path]
            self._trigger(touched, path, EventType.CREATED, new.acls, new=_was(new))
            self._trigger_children(touched, parent(path), EventType.CHILD)
            self._remember(path)
            self._remember(parent(path))
        elif isinstance(change, SetDataTxn):
            znode = znodes[change.path]
            old = _was(znode)
            set_value(znodes, zxid, time_ms, change)
            self._trigger(
                touched, change.path, EventType.CHANGED, znode.acls, old=old, new=_was(znode)
            )
            self._remember(change.path)
        elif isinstance(change, DeleteTxn):
            self._delete(change.path, touched)
        elif isinstance(change, SetAclTxn):
            znode = znodes[change.path]
            znode.acls = change.acls
            znode.aversion += 1
            self._remember(change.path)

    def _delete(self, path: str, touched: Touched) -> None:
        znode = delete_znode(self.znodes, self.zxid, path)
        if znode.owner:
            self.sessions[znode.owner].ephemerals.remove(path)
        self._trigger(touched, path, EventType.DELETED, znode.acls, old=_was(znode))
        self._trigger_children(touched, path, EventType.DELETED, znode)
        self._trigger_children(touched, parent(path), EventType.CHILD)
        self._remember(path)
        self._remember(parent(path))

    def _trigger(
        self,
        touched: Touched,
        path: str,
        kind: EventType,
        acls: Acls | None,
        *,
        old: PastZnode | None = None,
        new: PastZnode | None = None,
    ) -> None:
        trigger = Trigger(self.zxid, kind, acls, old, new)
        self._past_of(path).data.append(trigger)
        touched.append((path, False, trigger))

    def _trigger_children(
        self, touched: Touched, path: str, kind: EventType, znode: TrueZnode | None = None
    ) -> None:
        trigger = Trigger(self.zxid, kind, (znode or self.znodes[path]).acls)
        self._past_of(path).child.append(trigger)
        touched.append((path, True, trigger))

    def _past_of(self, path: str) -> _Past:
        past = self._past.get(path)
        if past is None:
            past = self._past[path] = _Past([], [], [], [])
        return past

    def _remember(self, path: str) -> None:
        past = self._past_of(path)
        znode = self.znodes.get(path)
        was = None if znode is None else _was(znode)
        if past.since and past.since[-1] == self.zxid:
            past.was[-1] = was
        else:
            past.since.append(self.zxid)
            past.was.append(was)


def create_znode(
    znodes: dict[str, TrueZnode], zxid: Zxid, time_ms: Millis, change: CreateTxn
) -> None:
    """Apply a creation."""
    path, owner = change.path, change.ephemeral_owner
    znodes[path] = TrueZnode(
        change.value, zxid, time_ms, owner, zxid, time_ms, zxid,
        children=set(), acls=change.acls, ttl_ms=change.ttl_ms,
    )  # fmt: skip
    above = znodes[parent(path)]
    above.children.add(name(path))
    above.creates += 1
    above.pzxid = zxid


def set_value(
    znodes: dict[str, TrueZnode], zxid: Zxid, time_ms: Millis, change: SetDataTxn
) -> None:
    """Apply a new value."""
    znode = znodes[change.path]
    znode.value, znode.mzxid, znode.mtime = change.value, zxid, time_ms
    znode.version += 1


def delete_znode(znodes: dict[str, TrueZnode], zxid: Zxid, path: str) -> TrueZnode:
    """Apply a deletion. Return the deleted znode."""
    znode = znodes.pop(path)
    above = znodes[parent(path)]
    above.children.remove(name(path))
    above.pzxid = zxid
    return znode


def _was(znode: TrueZnode) -> PastZnode:
    return PastZnode(znode.value, znode.stat(), znode.acls, znode.ttl_ms)


def _zxid_of(trigger: Trigger) -> Zxid:
    return trigger.zxid


def parent(path: str) -> str:
    """Return the path of the parent."""
    return path.rpartition("/")[0] or "/"


def name(path: str) -> str:
    """Return the last component of a path."""
    return path.rpartition("/")[2]


def show(was: PastZnode | None) -> str:
    """Describe a znode for a message."""
    if was is None:
        return "missing"
    return f"{was.value!r} version {was.stat.version} of {format_zxid(was.stat.mzxid)} {was.stat}"
