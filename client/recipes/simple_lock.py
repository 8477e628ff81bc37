"""The simple lock: one ephemeral znode for which all contend.

    with client.simple_lock("/locks/x", b"me") as held:
        write(data, token=held.token)

At most one holder, in no order: whoever is quickest after a release. All others are woken by each
release, N-1 of them for nothing, so it is for few contenders, or for `acquire(timeout_s=0)`, which
leaves no trace where the fair lock queues up and leaves again. A holder removes only the znode that
it made (acquirable.py), though the next holder's stands at the same path.

Paper: section 2.4, "Simple Locks", with its herd effect.
"""

from typing import Any

from raykeeper.client.core.flows import Cancelled, Event, Flow, Now, Wait
from raykeeper.client.core.public_types import EventType
from raykeeper.client.errors import LostError, NodeExistsError, RayKeeperError, RecipeError
from raykeeper.client.recipes.acquirable import Acquirable, Held, spawn_guard
from raykeeper.client.recipes.lock import Contender
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    checked_identifier,
    checked_root,
    create,
    get_or_none,
    identifier_of,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.requests import WatchKind
from raykeeper.znodes.stat import Stat


class SimpleLock(Acquirable[K, Held[K]]):
    """A lock whose znode is `path` itself. Not reentrant, not fair."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.simple_lock`. `identifier` is shown to whoever asks for the holder."""
        super().__init__(client)
        self.path = checked_root(path)
        self._identifier = checked_identifier(identifier)

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[Held[K]]:
        """Get the lock, if nobody else is quicker.

        Args:
            timeout_s: How long to wait; 0 to take it only if it is free, None for ever.

        Raises:
            WaitTimeoutError: others held it all the time; nothing is left behind.
            LostError: somebody deleted the znode at once.
            RecipeError: a znode stands at the path that is no lock.
            KeeperError: as for every call.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"the simple lock {self.path} was held by others"

    def _acquire(self) -> Flow[Held[K]]:
        """See `Acquirable`."""
        _, stat = yield from create_when_free(
            self.path, identifier_of(self._client, self._identifier)
        )
        held: Held[K] = Held(self._client, f"the simple lock {self.path}", self.path, stat.czxid)
        yield from watch_own_znode(held)
        return (yield from spawn_guard(held))

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """Who holds the lock, if anybody. Those who wait leave no trace in the tree.

        Raises:
            KeeperError: as for every call.
        """
        return (yield from read_holder(self.path))


def read_holder(path: str) -> Flow[list[Contender]]:
    """Whoever made the znode, if it is there.

    Raises:
        KeeperError: what the read failed with.
    """
    found = yield from get_or_none(path)
    if found is None:
        return []
    return [Contender(path.rpartition("/")[2], found[0], found[1].ephemeral_owner)]


def create_when_free(
    path: str, value: bytes, ttl_ms: Millis | None = None
) -> Flow[tuple[Millis, Stat]]:
    """Create the znode, as soon as there is none: an ephemeral one, or one with a TTL.

    The result: a time before it was created, and its Stat.

    Raises:
        RecipeError: instead of an ephemeral znode there is one that stays.
        KeeperError: what a request failed with.
    """
    while True:
        asked_at = yield Now()
        try:
            _, stat = yield from create(path, value, ephemeral=ttl_ms is None, ttl_ms=ttl_ms)
        except NodeExistsError:
            yield from _wait_until_gone(path, is_ephemeral=ttl_ms is None)
        else:
            return asked_at, stat


def _wait_until_gone(path: str, *, is_ephemeral: bool) -> Flow[None]:
    while True:
        bell = Event()
        found = yield from get_or_none(path, bell)
        if found is None:
            return
        try:
            if is_ephemeral and not found[1].ephemeral_owner:
                raise RecipeError(f"{path} is no simple lock: the znode is nobody's ephemeral")
            yield Wait((bell,))
            if any(event.type is EventType.DELETED for event in bell.drain()):
                return
        except (Cancelled, RayKeeperError):
            yield from best_effort_cleanup([], [(path, WatchKind.DATA, bell)])
            raise


def watch_own_znode(held: Held[Any]) -> Flow[None]:
    """Set the watch that tells a holder of its loss. It is given up if that fails.

    Raises:
        LostError: the znode is gone by now.
        KeeperError: what the request failed with.
    """
    held._changed.set()  # it has never been looked at
    try:
        is_there = yield from held._reread()
    except KeeperError:
        yield from held._release()
        raise
    if not is_there:
        raise LostError(f"somebody deleted {held.path} at once")
