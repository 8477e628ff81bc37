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
-   Values of at most 4 MB, or one value, are read at once and then written while the next ones are
    read; and the names are held that are still to be copied on the way down to the present znode.
    A list of children has all names at once.

zkcopy is the same for ZooKeeper, and overwrites without being told to.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import structs

from raykeeper.client.arguments import checked_path
from raykeeper.client.client import Client
from raykeeper.client.copy_places import ClientPlace
from raykeeper.client.core.public_types import WatchedEvent
from raykeeper.client.errors import (
    BadArgumentsError,
    NodeExistsError,
    NoNodeError,
    RayKeeperError,
)
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.subtree_copier import CopyReport, SubtreeCopier
from raykeeper.znodes.paths import SYSTEM_PATHS, parent_of

_SYSTEM: Final = SYSTEM_PATHS[1]


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
    from_, to = ClientPlace(source, source_path), ClientPlace(target, target_path)
    _check(from_, to, merge)
    if not dry_run:
        target.ensure_path(parent_of(target_path))
    has_other_salt = source.ensemble_uuid != target.ensemble_uuid
    copier = SubtreeCopier(from_, to, merge=merge, dry_run=dry_run, counts_scrypt=has_other_salt)
    left_out = {_SYSTEM} if "/" in (from_.whole, to.whole) else ()
    changes = ChangeCounter(source, source_path)
    try:
        for report in copier.steps(left_out):
            report = structs.replace(report, changes=changes.count)
            if progress is not None:
                progress(report)
        return report
    finally:
        changes.stop()


class ChangeCounter:
    """Counts changes in a subtree. A change is counted before a reply shows it."""

    def __init__(self, client: Client, path: str) -> None:
        """Begin to count.

        Raises:
            KeeperError: as for `Client.add_watch`.
        """
        self.count = 0
        self._client, self._path = client, path
        client.add_watch(path, self._on_event, recursive=True)

    def stop(self) -> None:
        """Count no more; an error does not matter."""
        with suppress(RayKeeperError):
            self._client.remove_watches(self._path, self._on_event)

    def _on_event(self, _event: WatchedEvent) -> None:
        self.count += 1


def _check(source: ClientPlace, target: ClientPlace, merge: bool) -> None:
    if source.contains(target) or target.contains(source):
        raise BadArgumentsError(target.path, f"it overlaps with {source.path}")
    for place in (source, target):
        if place.whole == _SYSTEM or place.whole.startswith(f"{_SYSTEM}/"):
            raise BadArgumentsError(place.path, "it belongs to the system")
    stat = source.client.exists(source.path)
    if stat is None:
        raise NoNodeError(source.path)
    if stat.ephemeral_owner:
        raise BadArgumentsError(source.path, "it is ephemeral, which is not copied")
    if not merge and target.client.exists(target.path) is not None:
        text = "only with merge is it copied into, or an earlier copy completed"
        raise NodeExistsError(target.path, text)
