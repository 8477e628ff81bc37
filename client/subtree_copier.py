"""Copies the znodes of one place into another, batch by batch: the engine of every copy.

`copy_subtree` copies between clients of ours; the commands `import` and `export` also have a place
in ZooKeeper, and a journal of what earlier runs have copied.

-   A parent is created before its children, and a znode with its value and its ACL in one go.
-   The value of a znode and its ACL are of one moment. Different znodes are read at different
    moments.
-   ACLs and Stats of 250 znodes are read at once; values by 4 MB at most, or one value. While they
    are written the next ones are read. SubtreeWalk says which names are held.
-   Without `merge` nothing is overwritten but what the journal proves to be the copy's own: what it
    wrote, and nobody has changed since.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

from msgspec import Struct, structs

from raykeeper.client.copy_places import Access, CopiedZnode, Place, WriteResult
from raykeeper.client.errors import KeeperError, NoAuthError, NodeExistsError, NoNodeError
from raykeeper.client.subtree_walk import SubtreeWalk
from raykeeper.znodes.acl import AUTH_SCHEMES, Acl
from raykeeper.znodes.stat import Stat

VALUES_BYTES_MAX: Final = 4 << 20
"""Bytes of the values that are read at once, unless one has more."""
ATTEMPTS_MAX: Final = 100
"""How often others may undo what a copy builds on before it gives up."""


class CopyReport(Struct, frozen=True, kw_only=True):
    """The numbers of a copy, so far or at its end. With `dry_run`, of what would be done."""

    created: int = 0
    """Znodes that were missing."""
    changed: int = 0
    """Znodes of the destination that got another value or ACL."""
    unchanged: int = 0
    """Znodes of the destination that had the value and the ACL."""
    skipped: int = 0
    """Znodes that an earlier run has copied and nobody has changed since; not of `copy_subtree`."""
    value_bytes: int = 0
    """Bytes of the values of all these znodes."""
    ephemerals: int = 0
    """Ephemeral znodes, which were left out."""
    deleted_meanwhile: int = 0
    """Znodes that were listed and then deleted, and are not in the copy."""
    other_kinds: int = 0
    """Znodes that the destination had with another TTL or as another kind, which they keep."""
    scrypt_acls: int = 0
    """Znodes whose ACL has an entry of the scheme `scrypt`, copied into an ensemble with another
    salt. Its key is of the source: nobody can prove it there."""
    changes: int = 0
    """Changes of the source, its ephemerals included, while it was copied. They may be in the copy
    or not; with 0 the copy shows one moment."""

    @property
    def znodes(self) -> int:
        """Return how many znodes of the source the destination has."""
        return self.created + self.changed + self.unchanged + self.skipped


class Journal(Protocol):
    """What earlier runs of the same copy have copied."""

    def was_copied(self, relative: str, source: Stat, target: Stat) -> bool:
        """Return whether a run has copied this state of the source, and left this state there."""

    def was_written(self, relative: str, target: Stat) -> bool:
        """Return whether a run has left this state of the destination."""

    def keep(self, copied: list[tuple[str, Stat, Stat]]) -> None:
        """Note znodes with the Stats of both sides, durably before the next ones are noted."""


class _Existing(Struct, frozen=True):
    """A znode of the destination, and whether its value is the one to be copied."""

    access: Access
    has_value: bool


class _Pending(Struct, frozen=True):
    """A znode whose writes are under way, and what the destination had, None if nothing."""

    relative: str
    znode: CopiedZnode
    was: _Existing | None
    writes: list[WriteResult]


def _raise(error: KeeperError) -> None:
    raise error


class SubtreeCopier:
    """One copy. `refuse` is told what cannot be copied; by default it ends the copy."""

    def __init__(
        self,
        source: Place,
        target: Place,
        *,
        merge: bool = False,
        dry_run: bool = False,
        counts_scrypt: bool = True,
        journal: Journal | None = None,
        refuse: Callable[[KeeperError], None] = _raise,
    ) -> None:
        self._source, self._target = source, target
        self._merges, self._is_dry = merge, dry_run
        self._counts_scrypt = counts_scrypt
        self._journal = journal
        self._refuse = refuse
        self._tells_kinds = source.tells_kinds and target.tells_kinds
        self._report = CopyReport()
        self._pending: list[_Pending] = []
        self._known: dict[str, Access | KeeperError | None] = {}
        """What the destination had of this batch when it was looked for what was copied."""
        self.waiting = 1
        """Znodes that are known and not read yet."""

    def steps(self, left_out: Collection[str] = ()) -> Iterator[CopyReport]:
        """Copy batch by batch, and yield the numbers after each."""
        walk = SubtreeWalk(self._list_children, left_out)
        for batch in walk.batches():
            for chunk in _chunks(self._read_batch(batch, walk)):
                znodes = self._read(chunk)
                self._settle()  # the chunk before: it was written while this one was read
                self._write(znodes)
            self.waiting = walk.waiting
            yield self._report
        self._settle()
        yield self._report

    def _list_children(self, batch: list[str]) -> list[list[str]]:
        lists: list[list[str]] = []
        for found in self._source.list_children(batch):
            if isinstance(found, KeeperError):
                self._refuse(found)
            lists.append([] if isinstance(found, KeeperError) else found)
        return lists

    def _read_batch(self, batch: list[str], walk: SubtreeWalk) -> list[tuple[str, Access]]:
        """Return what is to be copied of a batch, and let the walk go on below it."""
        wanted: list[tuple[str, Access]] = []
        ephemerals = deleted = 0
        for relative, found in zip(batch, self._source.read_access(batch), strict=True):
            if found is None:
                deleted += 1
            elif isinstance(found, KeeperError):
                self._refuse(found)
            elif found.stat.ephemeral_owner:
                ephemerals += 1
            else:
                if found.stat.num_children:
                    walk.add_parent(relative, found.stat.num_children)
                if self._is_taken(relative, found):
                    wanted.append((relative, found))
        self._count(ephemerals=ephemerals, deleted_meanwhile=deleted)
        return self._without_copied(wanted) if self._journal is not None else wanted

    def _is_taken(self, relative: str, found: Access) -> bool:
        if any(map(_is_masked, found.acls)):
            text = "its ACL is shown without hashes: copying it needs ADMIN"
            self._refuse(NoAuthError(self._source.path_of(relative), text))
        elif (error := self._target.refusal_of(relative, found)) is not None:
            self._refuse(error)
        else:
            return True
        return False

    def _without_copied(self, wanted: list[tuple[str, Access]]) -> list[tuple[str, Access]]:
        """Leave out what an earlier run has copied and nobody has changed since."""
        journal = self._journal
        assert journal is not None
        left: list[tuple[str, Access]] = []
        skipped: list[tuple[str, Stat, Stat]] = []
        there = self._target.read_access([relative for relative, _ in wanted])
        self._known = dict(zip([relative for relative, _ in wanted], there, strict=True))
        for (relative, access), was in zip(wanted, there, strict=True):
            stat = access.stat
            if isinstance(was, Access) and journal.was_copied(relative, stat, was.stat):
                skipped.append((relative, stat, was.stat))
            else:
                left.append((relative, access))
        if not self._is_dry:
            journal.keep(skipped)
        self._count(
            skipped=len(skipped), value_bytes=sum(stat.data_length for _, stat, _ in skipped)
        )
        return left

    def _read(self, chunk: list[tuple[str, Access]]) -> list[tuple[str, CopiedZnode]]:
        """Read the values, each with the ACL under which the znode had it."""
        found: dict[str, CopiedZnode] = {}
        left = chunk
        deleted = 0
        for _ in range(ATTEMPTS_MAX):
            changed: list[str] = []
            values = self._source.read_values([relative for relative, _ in left])
            for (relative, access), content in zip(left, values, strict=True):
                if content is None:
                    deleted += 1
                elif isinstance(content, KeeperError):
                    self._refuse(content)
                elif _is_same_access(content[1], access.stat):
                    value, stat = content
                    found[relative] = CopiedZnode(value, access.acls, access.ttl_ms, stat)
                else:
                    changed.append(relative)
            if not changed:
                self._count(deleted_meanwhile=deleted)
                return [(name, found[name]) for name, _ in chunk if name in found]
            left = []
            for relative, again in zip(changed, self._source.read_access(changed), strict=True):
                if isinstance(again, Access) and not any(map(_is_masked, again.acls)):
                    left.append((relative, again))
                else:
                    deleted += 1
        path = self._source.path_of(changed[0])
        raise NoNodeError(path, "it is created or gets another ACL all the time")

    def _write(self, znodes: list[tuple[str, CopiedZnode]]) -> None:
        """Send the writes of a chunk; they are done in order, parents before children."""
        for (relative, znode), was in zip(znodes, self._existing(znodes), strict=True):
            writes: list[WriteResult] = []
            if was is None:
                if not self._is_dry:
                    writes.append(self._target.create(relative, znode))
            elif not self._may_replace(relative, znode, was):
                continue
            elif not self._is_dry:
                # The ACL goes first, or the value might be seen by whom it is hidden from.
                if was.access.acls != znode.acls:
                    writes.append(self._target.set_acls(relative, znode.acls))
                if not was.has_value:
                    writes.append(self._target.set_value(relative, znode.value))
            self._pending.append(_Pending(relative, znode, was, writes))

    def _existing(self, znodes: list[tuple[str, CopiedZnode]]) -> list[_Existing | None]:
        """Read what the destination has; values only where they may be the same."""
        if not self._merges and self._journal is None:
            return [None] * len(znodes)  # the destination was missing
        names = [relative for relative, _ in znodes]
        if all(name in self._known for name in names):
            there = [self._known.pop(name) for name in names]
        else:  # it was found to have changed since
            there = self._target.read_access(names)
        lengths = [znode.stat.data_length for _, znode in znodes]
        compared = [
            relative
            for (relative, _), was, length in zip(znodes, there, lengths, strict=True)
            if isinstance(was, Access) and was.stat.data_length == length
        ]
        values = self._target.read_values(compared) if compared else []
        contents = dict(zip(compared, values, strict=True))
        existing: list[_Existing | None] = []
        for (relative, znode), was in zip(znodes, there, strict=True):
            content = contents.get(relative)
            for found in (was, content):
                if isinstance(found, KeeperError):
                    raise found
            if not isinstance(was, Access) or (relative in contents and content is None):
                existing.append(None)
            else:
                has_value = isinstance(content, tuple) and content[0] == znode.value
                existing.append(_Existing(was, has_value))
        return existing

    def _may_replace(self, relative: str, znode: CopiedZnode, was: _Existing) -> bool:
        path, stat = self._target.path_of(relative), was.access.stat
        if stat.ephemeral_owner:
            self._refuse(NodeExistsError(path, "it is ephemeral"))
            return False
        if self._merges or _is_same(znode, was) or self._journal is None:
            return True
        if self._journal.was_written(relative, stat):
            return True
        self._refuse(
            NodeExistsError(
                path, "it differs, and this copy has not written it; only with merge is it replaced"
            )
        )
        return False

    def _settle(self) -> None:
        """Wait for the writes under way. What others have changed in between is done again."""
        kept: list[tuple[str, Stat, Stat]] = []
        for _ in range(ATTEMPTS_MAX):
            pending, self._pending = self._pending, []
            again: list[tuple[str, CopiedZnode]] = []
            for each in pending:
                try:
                    stats = [write.result() for write in each.writes]
                except self._target.lost_errors:
                    again.append((each.relative, each.znode))
                except (NodeExistsError, NoNodeError) as error:
                    if not self._can_repeat(error, each):
                        raise
                    again.append((each.relative, each.znode))
                else:
                    self._done(each)
                    if not stats and each.was is not None:
                        stats.append(each.was.access.stat)
                    kept += [(each.relative, each.znode.stat, stat) for stat in stats[-1:]]
            if not again:
                break
            self._write(again)
        else:
            text = "others create and delete znodes in it all the time"
            raise NodeExistsError(self._target.path, text)
        if self._journal is not None and not self._is_dry:
            self._journal.keep(kept)

    def _can_repeat(self, error: KeeperError, each: _Pending) -> bool:
        if self._target.lost_errors:  # its parent may have been lost, or its own creation done
            return True
        if not self._merges and self._journal is None:
            return False
        return isinstance(error, NodeExistsError) or each.was is not None

    def _done(self, each: _Pending) -> None:
        znode, was = each.znode, each.was
        if was is None:
            self._count(created=1)
        elif _is_same(znode, was):
            self._count(unchanged=1)
        else:
            self._count(changed=1)
        is_other = self._tells_kinds and was is not None and was.access.ttl_ms != znode.ttl_ms
        has_scrypt = self._counts_scrypt and any(acl.scheme == "scrypt" for acl in znode.acls)
        self._count(
            value_bytes=len(znode.value or b""),
            other_kinds=int(is_other),
            scrypt_acls=int(has_scrypt),
        )

    def _count(self, **more: int) -> None:
        report = self._report
        total = {name: getattr(report, name) + number for name, number in more.items()}
        self._report = structs.replace(report, **total)


def _chunks(wanted: list[tuple[str, Access]]) -> Iterator[list[tuple[str, Access]]]:
    """Yield parts of a batch whose values are to be read at once."""
    chunk: list[tuple[str, Access]] = []
    left = VALUES_BYTES_MAX
    for relative, access in wanted:
        size = access.stat.data_length
        if chunk and size > left:
            yield chunk
            chunk, left = [], VALUES_BYTES_MAX
        chunk.append((relative, access))
        left -= size
    if chunk:
        yield chunk


def _is_same(znode: CopiedZnode, was: _Existing) -> bool:
    return was.has_value and was.access.acls == znode.acls


def _is_same_access(stat: Stat, other: Stat) -> bool:
    return (stat.czxid, stat.aversion) == (other.czxid, other.aversion)


def _is_masked(acl: Acl) -> bool:
    return acl.scheme in AUTH_SCHEMES and acl.id.endswith(":x")
