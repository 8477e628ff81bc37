"""Copies a subtree into another place of its ensemble, or into another ensemble.

    copy_subtree(client, "/app", other, "/moved/app")

What the copy has of a znode: the value, the ACL, whether it is a container, the TTL, which begins
anew. It does not have what belongs to the history of the source: versions, zxids, times, owners.
So ephemeral znodes are left out, and the number of the next sequential znode is, as after the same
creations by hand, the number of children that were created in the copy.

-   A parent is created before its children, and a znode with its value and its ACL in one go.
-   The value of a znode and its ACL are of one moment. Different znodes are read at different
    moments: no server offers a snapshot of a subtree. But the source is watched meanwhile, and
    `CopyReport.changes` counts its changes. With 0 the copy shows one moment, ACLs apart: a
    change of an ACL triggers no watch, in ZooKeeper neither.
-   A copy that is interrupted leaves a part behind. The same call with `merge` completes it.
-   At most two batches of 250 znodes are under way, each with at most 4 MB of values, or one value;
    and the names are held that are still to be copied on the way down to the present znode. A
    list of children has all names at once.

zkcopy is the same for ZooKeeper, and overwrites without being told to.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct, structs

from raykeeper.client.arguments import checked_path
from raykeeper.client.client import Client
from raykeeper.client.core.compound_operations import ATTEMPTS_MAX, map_request
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.public_types import WatchedEvent
from raykeeper.client.errors import (
    BadArgumentsError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RayKeeperError,
    ThrottledOpError,
)
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.znodes.acl import AUTH_SCHEMES, Acl, Acls
from raykeeper.znodes.paths import SYSTEM_PATHS, parent_of
from raykeeper.znodes.replies import GetAclsReply
from raykeeper.znodes.requests import ANY_VERSION, Create, CreateMode, GetAcls, SetAcls, SetData
from raykeeper.znodes.stat import Stat
from raykeeper.znodes.znode import CONTAINER

BATCH_ZNODES: Final = 250
"""Znodes that are read at once."""

_SYSTEM: Final = SYSTEM_PATHS[1]


class CopyReport(Struct, frozen=True, kw_only=True):
    """The numbers of a copy, so far or at its end. With `dry_run`, of what would be done."""

    created: int = 0
    """Znodes that were missing."""
    changed: int = 0
    """Znodes of the destination that got another value or ACL."""
    unchanged: int = 0
    """Znodes of the destination that had the value and the ACL."""
    value_bytes: int = 0
    """Bytes of the values of all these znodes."""
    ephemerals: int = 0
    """Ephemeral znodes, which were left out."""
    deleted_meanwhile: int = 0
    """Znodes that were listed and then deleted, and are not in the copy."""
    other_kinds: int = 0
    """Znodes that the destination had with another TTL or as another kind, which they keep."""
    scrypt_acls: int = 0
    """Znodes whose ACL has an entry of the scheme `scrypt`, copied into another ensemble. Its key
    is of the source: nobody can prove it there."""
    changes: int = 0
    """Changes of the source, its ephemerals included, while it was copied. They may be in the copy
    or not; with 0 the copy shows one moment."""

    @property
    def znodes(self) -> int:
        """Return how many znodes of the source the destination has."""
        return self.created + self.changed + self.unchanged


def copy_subtree(
    source: Client,
    source_path: str,
    target: Client,
    target_path: str,
    *,
    merge: bool = False,
    dry_run: bool = False,
    progress: Callable[[CopyReport], object] | None = None,
) -> CopyReport:
    """Copy the znode at `source_path` and all below it to `target_path`. See the module.

    To keep ACLs, the session of `source` needs READ and ADMIN where an ACL has a `digest` or
    `scrypt` entry, else READ; that of `target` needs CREATE below what it creates: prove an
    identity that has them to both. A copy of "/" leaves out /zookeeper, and so the quotas.

    Args:
        source: The client that reads.
        source_path: The znode to copy.
        target: The client that writes; it may be the same one.
        target_path: The path of the copy. Missing znodes above it are created, persistent and
            empty.
        merge: Copy into an existing znode: create what is missing, replace what has another value
            or ACL. Nothing is deleted.
        dry_run: Read both sides, and write nothing.
        progress: Called with the numbers so far after each batch, in the caller's thread.

    Raises:
        BadArgumentsError: a path is malformed, one subtree contains the other, the source is
            ephemeral, or the destination belongs to the system. Nothing was written.
        NodeExistsError: the destination exists, and `merge` is not set; nothing was written. Or
            another client has created the named znode meanwhile, or it is ephemeral.
        NoNodeError: the source does not exist.
        NoAuthError: an ACL does not permit it, or is shown without its hashes. What was copied
            before stays.
        KeeperError: as for `get` and `create`. What was copied before stays.
    """
    refuse_running_loop("copy_subtree")
    for client, path in ((source, source_path), (target, target_path)):
        checked_path(path)
        if not isinstance(client, Client):
            raise BadArgumentsError(path, f"it needs a Client, not {type(client).__name__}")
    copy = _Copy(_Place(source, source_path), _Place(target, target_path), merge, dry_run)
    changes = _Changes()
    source.add_watch(source_path, changes, recursive=True)
    try:
        for report in copy.steps():
            report = structs.replace(report, changes=changes.count)
            if progress is not None:
                progress(report)
        return report
    finally:
        with suppress(RayKeeperError):
            source.remove_watches(source_path, changes)


class _Changes:
    """A watcher that counts. Its events come before the replies that show their changes."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _event: WatchedEvent) -> None:
        self.count += 1


class _Place:
    """A subtree of one client. Paths within it are relative, "" for its own znode."""

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        self.path = path
        self._prefix = "" if path == "/" else path
        requests = client._open_session().requests
        self.whole = ((requests.chroot + path).rstrip("/") or "/") if requests.chroot else path
        """The path from the root of the ensemble."""

    def at(self, relative: str) -> str:
        """Return the client's path of a znode."""
        return (self._prefix + relative) or "/"

    def contains(self, other: "_Place") -> bool:
        """Return whether the other subtree is this one, or a part of it."""
        if self.client.ensemble_uuid != other.client.ensemble_uuid:
            return False
        return self.whole in ("/", other.whole) or other.whole.startswith(f"{self.whole}/")


class _Znode(Struct, frozen=True):
    """What is copied of a znode, and its Stat."""

    value: bytes
    acls: Acls
    ttl_ms: int
    stat: Stat


class _Pending(Struct, frozen=True):
    """A znode whose requests are under way. `was`: that of the destination, None if missing."""

    relative: str
    znode: _Znode
    was: _Znode | None
    replies: list[Future[Any]]


class _Copy:
    """One copy. Children go onto a stack, so the tree is walked depth first."""

    def __init__(self, source: _Place, target: _Place, merge: bool, dry_run: bool) -> None:
        self._source, self._target = source, target
        self._merges, self._is_dry = merge, dry_run
        self._report = CopyReport()
        self._names: list[str] = []
        """Still to copy, the next ones last."""
        self._parents: list[tuple[str, int]] = []
        """Copied and still to list, with the number of their children."""
        self._pending: list[_Pending] = []
        if source.contains(target) or target.contains(source):
            raise BadArgumentsError(target.path, f"it overlaps with {source.path}")
        for place in (source, target):
            if place.whole == _SYSTEM or place.whole.startswith(f"{_SYSTEM}/"):
                raise BadArgumentsError(place.path, "it belongs to the system")

    def steps(self) -> Iterator[CopyReport]:
        """Copy batch by batch, and yield the numbers after each."""
        self._check()
        self._names.append("")
        while self._names or self._parents:
            if self._parents:
                self._list_some()
                continue
            batch = self._names[-BATCH_ZNODES:]
            del self._names[-BATCH_ZNODES:]
            znodes = self._take(batch)
            self._settle()  # the batch before: it was written while this one was read
            self._write(znodes)
            yield self._report
        self._settle()
        yield self._report

    def _check(self) -> None:
        stat = self._source.client.exists(self._source.path)
        if stat is None:
            raise NoNodeError(self._source.path)
        if stat.ephemeral_owner:
            raise BadArgumentsError(self._source.path, "it is ephemeral, which is not copied")
        target = self._target
        if not self._merges and target.client.exists(target.path) is not None:
            raise _refusal(target.path)
        if not self._is_dry:
            target.client.ensure_path(parent_of(target.path))

    def _list_some(self) -> None:
        """List the children of a few parents, or of one with many."""
        parents: list[str] = []
        left = BATCH_ZNODES
        while self._parents and (not parents or self._parents[-1][1] <= left):
            relative, children = self._parents.pop()
            parents.append(relative)
            left -= children
        place = self._source
        lists = [place.client.get_children_async(place.at(relative)) for relative in parents]
        for relative, names in zip(parents, lists, strict=True):
            with suppress(NoNodeError):  # its deletion is an event
                below = [f"{relative}/{name}" for name in names.result()]
                self._names += [each for each in below if not self._is_system(each)]

    def _is_system(self, relative: str) -> bool:
        return relative == _SYSTEM and "/" in (self._source.whole, self._target.whole)

    def _take(self, batch: list[str]) -> list[tuple[str, _Znode]]:
        """Read a batch of the source; return what is to be copied."""
        taken: list[tuple[str, _Znode]] = []
        ephemerals = deleted = 0
        for relative, znode in zip(batch, _read(self._source, batch), strict=True):
            if znode is None:
                deleted += 1
            elif znode.stat.ephemeral_owner:
                ephemerals += 1
            else:
                _check_is_shown(self._source.at(relative), znode.acls)
                taken.append((relative, znode))
                if znode.stat.num_children:
                    self._parents.append((relative, znode.stat.num_children))
        self._count(ephemerals=ephemerals, deleted_meanwhile=deleted)
        return taken

    def _write(self, znodes: list[tuple[str, _Znode]]) -> None:
        """Send the writes of a batch; they are done in order, parents before children."""
        existing: list[_Znode | None] = [None] * len(znodes)
        if self._merges:
            existing = _read(self._target, [relative for relative, _ in znodes])
        for (relative, znode), was in zip(znodes, existing, strict=True):
            path = self._target.at(relative)
            if was is not None and was.stat.ephemeral_owner:
                raise NodeExistsError(path, "it is ephemeral")
            writes: list[Create | SetAcls | SetData] = []
            if was is None:
                flags, ttl_ms = _kind_of(znode.ttl_ms)
                writes.append(Create(path, znode.value, flags, list(znode.acls), ttl_ms))
            else:
                # The ACL goes first, or the value might be seen by whom it is hidden from.
                if was.acls != znode.acls:
                    writes.append(SetAcls(path, list(znode.acls), ANY_VERSION))
                if was.value != znode.value:
                    writes.append(SetData(path, znode.value, ANY_VERSION))
            start = self._target.client._open_session().start
            replies: list[Future[Any]] = []
            if not self._is_dry:
                replies += [start(write) for write in writes]
            self._pending.append(_Pending(relative, znode, was, replies))

    def _settle(self) -> None:
        """Wait for the writes under way. What others have changed in between is done again."""
        for _ in range(ATTEMPTS_MAX):
            pending, self._pending = self._pending, []
            again: list[tuple[str, _Znode]] = []
            for each in pending:
                try:
                    for reply in each.replies:
                        reply.result()
                except (NodeExistsError, NoNodeError) as error:
                    if not self._merges or (isinstance(error, NoNodeError) and each.was is None):
                        raise
                    again.append((each.relative, each.znode))
                else:
                    self._done(each)
            if not again:
                return
            self._write(again)
        raise NodeExistsError(
            self._target.path, "others create and delete znodes in it all the time"
        )

    def _done(self, each: _Pending) -> None:
        znode, was = each.znode, each.was
        if was is None:
            self._count(created=1)
        elif (was.value, was.acls) != (znode.value, znode.acls):
            self._count(changed=1)
        else:
            self._count(unchanged=1)
        has_scrypt = any(acl.scheme == "scrypt" for acl in znode.acls)
        ensembles = {place.client.ensemble_uuid for place in (self._source, self._target)}
        self._count(
            value_bytes=len(znode.value),
            other_kinds=int(was is not None and was.ttl_ms != znode.ttl_ms),
            scrypt_acls=int(has_scrypt and len(ensembles) > 1),
        )

    def _count(self, **more: int) -> None:
        report = self._report
        total = {name: getattr(report, name) + number for name, number in more.items()}
        self._report = structs.replace(report, **total)


def _read(place: _Place, batch: list[str]) -> list[_Znode | None]:
    """Read znodes, each with the ACL under which it had its value; None for a missing one."""
    found: dict[str, _Znode | None] = {}
    for _ in range(ATTEMPTS_MAX):
        left = [each for each in batch if each not in found]
        if not left:
            return [found[each] for each in batch]
        client, paths = place.client, [place.at(each) for each in left]
        values = client.get_many_async(paths)
        acls = [
            client._open_session().start(map_request(GetAcls(0, path), _access_of))
            for path in paths
        ]
        for relative, path, value, access in zip(left, paths, values.result(), acls, strict=True):
            try:
                if isinstance(value, ThrottledOpError):  # the others have filled the reply
                    value = client.get(path)
                if isinstance(value, RayKeeperError):
                    raise value
                entries, stat, ttl_ms = access.result()
            except NoNodeError:
                found[relative] = None
                continue
            content, at = value
            if (at.czxid, at.aversion) == (stat.czxid, stat.aversion):
                found[relative] = _Znode(content, entries, ttl_ms, at)
    raise NoNodeError(paths[0], "it is created or gets another ACL all the time")


def _access_of(reply: SuccessReply) -> tuple[Acls, Stat, int]:
    assert isinstance(reply, GetAclsReply), reply
    return reply.acls, reply.stat, reply.ttl_ms


def _kind_of(ttl_ms: int) -> tuple[int, int]:
    """Return the flags and the TTL of a creation, of a znode's `ttl_ms`."""
    if ttl_ms == CONTAINER:
        return CreateMode.CONTAINER, 0
    return (CreateMode.TTL, ttl_ms) if ttl_ms else (0, 0)


def _check_is_shown(path: str, acls: Acls) -> None:
    if any(map(_is_masked, acls)):
        raise NoAuthError(path, "its ACL is shown without hashes: copying it needs ADMIN")


def _is_masked(acl: Acl) -> bool:
    return acl.scheme in AUTH_SCHEMES and acl.id.endswith(":x")


def _refusal(path: str) -> NodeExistsError:
    return NodeExistsError(path, "only with merge is it copied into, or an earlier copy completed")
