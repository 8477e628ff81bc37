"""One import or export: checks, the copy of the tree, the sequence numbers, and last the quotas.

    check        nothing is written onto a tree that others have made, unless `merge` is set
    copy         the znodes, as client/subtree_copier.py does it
    sequences    the next sequential number of each znode becomes at least that of the source
    deletion     with `delete`: of what an earlier run has copied and the source has no more, unless
                 others have changed it or made children below it
    quotas       last, because a limit may be lower than what a copy needs on its way

A run that ends early leaves a part of the tree, and the same call goes on from there. Different
znodes are read at different moments: with no change of the source meanwhile they show one.

ZooKeeper keeps no number of created children for clients, but half the sum of `cversion` and
`numChildren` is it. It is raised by children that are created and deleted in one transaction.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, convert
from msgspec.structs import replace

from raykeeper.client import subtree_walk
from raykeeper.client.copy_places import Access, Content
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    KeeperError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from raykeeper.client.subtree_copier import CopyReport, SubtreeCopier
from raykeeper.client.subtree_walk import SubtreeWalk
from raykeeper.commands.migration.journal import CopyJournal, next_number
from raykeeper.commands.migration.sides import Deletion, Side
from raykeeper.znodes.acl import OPEN_ACL
from raykeeper.znodes.paths import SYSTEM_PATHS
from raykeeper.znodes.quotas import parse_limits
from raykeeper.znodes.stat import Stat

SHOWN_MAX: Final = 10
"""Paths that a report names of each kind of trouble."""

_SYSTEM: Final = SYSTEM_PATHS[1]
_LIMITS_NAME: Final = "/zookeeper_limits"
_RAISED_AT_ONCE: Final = 10_000
"""Children that are created and deleted between two looks at the number."""
_LOSSES_MAX: Final = 10
"""How often the connection may be lost while one znode's number is raised."""
_NO_STAT: Final = convert([-1] + [0] * 10, Stat)


class Refused(Struct):
    """What cannot be copied for one reason: how many znodes, and the first of them."""

    reason: str
    znodes: int
    paths: list[str]


class MigrationReport(Struct, frozen=True, kw_only=True):
    """The numbers of an import or export, so far or at its end. With `dry_run`, as they would be.

    `waiting`: znodes that are known and not copied yet. `gone`: znodes that an earlier run has
    copied and the source has no more, and which stay. `meanwhile`: transactions of the source's
    whole ensemble while it was copied, None if an election hides their number.
    """

    copied: CopyReport
    waiting: int = 0
    sequences: int = 0
    """Children that were created and deleted, so that sequential numbers go on."""
    quotas: int = 0
    kinds_lost: int = 0
    """Containers and znodes with a TTL that became ordinary ones: the other side has none."""
    deleted: int = 0
    """Znodes that were gone and have been deleted in the copy."""
    gone: int = 0
    gone_paths: list[str] = []
    meanwhile: int | None = 0
    refused: list[Refused] = []


class Migration:
    """One import or export between two sides."""

    def __init__(
        self,
        source: Side,
        target: Side,
        journal: CopyJournal,
        *,
        merge: bool = False,
        dry_run: bool = False,
        with_sequences: bool = True,
        delete: bool = False,
    ) -> None:
        self._source, self._target, self._journal = source, target, journal
        self._merges, self._is_dry = merge, dry_run
        self._with_sequences, self._deletes = with_sequences, delete and not dry_run
        self._refused: dict[str, Refused] = {}
        self._report = MigrationReport(copied=CopyReport())

    def steps(self) -> Iterator[MigrationReport]:
        """Move the tree, and yield the numbers so far again and again, at last the final ones.

        Raises:
            BadArgumentsError: one side belongs to the system, or both overlap. Nothing was written.
            NodeExistsError: the destination is not empty, and neither an earlier run has begun it
                nor `merge` is set; nothing was written. Or something was found in it that this copy
                has not written.
            NoNodeError: the source does not exist.
            KeeperError: a znode could not be read or written. What was copied before stays.
        """
        self._check()
        if not self._is_dry:
            self._target.ensure_parents()
            self._journal.begin()
        self._source.begin_changes()
        for report in self._copy():
            self._report = report
            yield report
        if self._with_sequences:
            for raised in self._raise_sequences():
                self._add(sequences=raised)
                yield self._report
        for deleted in self._delete_gone() if self._deletes else ():
            self._add(deleted=deleted)
            yield self._report
        for _ in self._copy_quotas():
            self._add(quotas=1)
            yield self._report
        gone, gone_paths = self._journal.gone(SHOWN_MAX) if not self._is_dry else (0, [])
        yield replace(
            self._report,
            kinds_lost=self._target.kinds_lost,
            gone=gone,
            gone_paths=[self._target.path_of(each) for each in gone_paths],
            meanwhile=self._source.changes(),
            refused=list(self._refused.values()),
        )

    def _add(self, **more: int) -> None:
        total = {name: getattr(self._report, name) + number for name, number in more.items()}
        self._report = replace(self._report, **total)

    def _refuse(self, error: KeeperError) -> None:
        if not self._is_dry:
            raise error
        reason = f"{error.meaning} ({error.detail})" if error.detail else error.meaning
        known = self._refused.setdefault(reason, Refused(reason, 0, []))
        known.znodes += 1
        if len(known.paths) < SHOWN_MAX:
            known.paths.append(error.path)

    def _check(self) -> None:
        source, target = self._source, self._target
        for side in (source, target):
            if side.whole == _SYSTEM or side.whole.startswith(f"{_SYSTEM}/"):
                raise BadArgumentsError(side.path, "it belongs to the system")
        if _overlap(source.whole, target.whole) and _are_one(source, target):
            raise BadArgumentsError(target.path, f"it overlaps with {source.path}: it is one tree")
        (found,) = source.read_access([""])
        if isinstance(found, KeeperError):
            raise found
        if found is None:
            raise NoNodeError(source.path)
        if found.stat.ephemeral_owner:
            raise BadArgumentsError(source.path, "it is ephemeral, which is not copied")
        if not self._merges and not self._journal.is_begun:
            self._check_is_empty()

    def _check_is_empty(self) -> None:
        target = self._target
        (there,) = target.read_access([""])
        if there is None:
            return
        if isinstance(there, KeeperError):
            raise there
        (content,) = target.read_values([""])
        if isinstance(content, KeeperError):
            raise content
        (found,) = target.list_children([""])
        names = _names(found)
        is_empty = there.acls == OPEN_ACL and not (content and content[0])
        if there.stat.ephemeral_owner or not is_empty or set(names) - {_SYSTEM[1:]}:
            raise NodeExistsError(
                target.path, "it is not empty, and no earlier run has begun it: only with --merge"
            )
        self._journal.keep([("", _NO_STAT, there.stat)])

    def _copy(self) -> Iterator[MigrationReport]:
        copier = SubtreeCopier(
            self._source,
            self._target,
            merge=self._merges,
            dry_run=self._is_dry,
            journal=self._journal,
            refuse=self._refuse,
        )
        left_out = {_SYSTEM} if "/" in (self._source.whole, self._target.whole) else ()
        for copied in copier.steps(left_out):
            yield replace(self._report, copied=copied, waiting=copier.waiting)

    def _raise_sequences(self) -> Iterator[int]:
        """Yield again and again how many children were created and deleted."""
        for some in self._journal.sequences(subtree_walk.BATCH_ZNODES):
            there = self._target.read_access([relative for relative, _ in some])
            for (relative, number), was in zip(some, there, strict=True):
                if isinstance(was, KeeperError):
                    raise was
                # A container without children would be deleted; ZooKeeper's would be, too.
                if was is not None and (was.ttl_ms >= 0 or was.stat.num_children):
                    yield from self._raise_one(relative, number, was)

    def _raise_one(self, relative: str, number: int, was: Access | None) -> Iterator[int]:
        """Raise one znode's number as far as it is missing, and yield by how much."""
        losses = 0
        while was is not None and (missing := number - next_number(was.stat)) > 0:
            some = min(missing, _RAISED_AT_ONCE)
            try:
                self._target.raise_sequence(relative, some)
                yield some
            except self._target.lost_errors:  # some of it may have been done
                losses += 1
                if losses > _LOSSES_MAX:
                    raise
            (found,) = self._target.read_access([relative])
            if isinstance(found, KeeperError):
                raise found
            was = found

    def _delete_gone(self) -> Iterator[int]:
        """Delete what the source has no more and only this copy has written; yield how many."""
        stays: tuple[type[KeeperError], ...]
        stays = (NotEmptyError, BadVersionError, *self._target.lost_errors)
        for some in self._journal.gone_paths(subtree_walk.BATCH_ZNODES):
            missing: list[str] = []
            deletions: list[tuple[str, Deletion]] = []
            for relative, was in zip(some, self._target.read_access(some), strict=True):
                if isinstance(was, KeeperError):
                    raise was
                if was is None:
                    missing.append(relative)
                elif relative and self._journal.was_written(relative, was.stat):
                    deletions.append((relative, self._target.delete(relative, was.stat.version)))
            deleted: list[str] = []
            for relative, deletion in deletions:
                try:
                    deletion.result()
                except stays:
                    continue  # the report names it
                except NoNodeError:
                    missing.append(relative)
                else:
                    deleted.append(relative)
            self._journal.forget(missing + deleted)
            yield len(deleted)

    def _copy_quotas(self) -> Iterator[str]:
        """Yield the subtrees whose quotas were copied, or are there already."""
        place, there = self._source.quota_place(), self._target.quota_place()
        walk = SubtreeWalk(lambda batch: [_names(each) for each in place.list_children(batch)])
        for batch in walk.batches():
            for relative, found in zip(batch, place.read_access(batch), strict=True):
                if isinstance(found, Access) and found.stat.num_children:
                    walk.add_parent(relative, found.stat.num_children)
            texts = [each for each in batch if each.endswith(_LIMITS_NAME)]
            if not texts:
                continue
            limits, old = place.read_values(texts), there.read_values(texts)
            for path, text, was in zip(texts, limits, old, strict=True):
                relative = path.removesuffix(_LIMITS_NAME)
                if self._copies_quota(relative, text, was):
                    yield relative

    def _copies_quota(
        self, relative: str, text: Content | KeeperError | None, was: Content | KeeperError | None
    ) -> bool:
        if text is None or isinstance(text, KeeperError):
            if text is not None:
                self._refuse(text)
            return False
        limits, where = text[0] or b"", self._target.path_of(relative)
        parsed = parse_limits(limits)
        if parsed is None or where == "/":
            self._refuse(BadArgumentsError(where, "its quota is malformed, or of the whole tree"))
            return False
        if isinstance(was, tuple):
            if parse_limits(was[0] or b"") == parsed:
                return True
            if not self._merges:
                self._refuse(NodeExistsError(where, "it has another quota: only with --merge"))
                return False
        if not self._is_dry:
            self._target.set_quota(relative, parsed)
        return True


def _names(found: list[str] | KeeperError) -> list[str]:
    if isinstance(found, KeeperError):
        raise found
    return found


def _overlap(path: str, other: str) -> bool:
    return any(a in ("/", b) or b.startswith(f"{a}/") for a, b in ((path, other), (other, path)))


def _are_one(source: Side, target: Side) -> bool:
    """Return whether both sides are of one ensemble of ours, by when its /zookeeper/config was set.

    A ZooKeeper's own has no time.
    """
    one, other = source.config_stat(), target.config_stat()
    return one is not None and one.mtime > 0 and one == other
