"""The simple lock: one ephemeral znode for which all contend.

    with client.simple_lock("/locks/x", b"me") as held:
        write(data, token=held.token)

At most one holder, in no order: whoever is quickest after a release. Each release wakes all others,
N-1 of them for nothing, so it is for few contenders, or for `acquire(timeout_s=0)`, which leaves no
trace where the fair lock queues up and leaves again. A holder removes only the znode that it made
(acquirable.py), though the next holder's stands at the same path.

Paper: section 2.4, "Simple Locks", with its herd effect.
"""

from typing import Any, Generic

from raykeeper.client.core.flows import Cancelled, Event, Flow, Now, Wait
from raykeeper.client.core.public_types import EventType
from raykeeper.client.errors import LostError, NodeExistsError, RayKeeperError, RecipeError
from raykeeper.client.recipes.acquirable import H, Held, spawn_guard
from raykeeper.client.recipes.lock import Contended, Contender
from raykeeper.client.recipes.primitives import (
    best_effort_cleanup,
    create,
    get_or_none,
    identifier_of,
)
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.zab.ids import Millis
from raykeeper.znodes.errors import KeeperError
from raykeeper.znodes.stat import Stat


class SingleZnodeLock(Contended[K, H], Generic[K, H]):
    """A lock whose znode is `path` itself: a subclass says how long it is held, and by what."""

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[H]:
        """Get the lock, if nobody else is quicker.

        Raises:
            WaitTimeoutError: others held it all the time; nothing is left behind.
            LostError: somebody deleted the znode at once. Of a lease also: the reply took all of
                its duration.
            RecipeError: a znode stands at the path that is no lock. Of a lease never.
        """
        return self._acquire_within(timeout_s)

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """List the holder, if there is one. Those who wait leave no trace in the tree.

        The holder of a lease is of no session.
        """
        found = yield from get_or_none(self.path)
        if found is None:
            return []
        return [Contender(self.path.rpartition("/")[2], found[0], found[1].ephemeral_owner)]


class SimpleLock(SingleZnodeLock[K, Held[K]]):
    """A lock whose znode is `path` itself. Not reentrant, not fair."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.simple_lock`. `identifier` is shown to those who ask for the holder."""
        super().__init__(client, path, identifier, f"the simple lock {path}")

    def _acquire(self) -> Flow[Held[K]]:
        """See `Acquirable`."""
        identifier = identifier_of(self._client, self._identifier)
        _, stat = yield from create_when_free(self.path, identifier)
        held: Held[K] = Held(self._client, self._what, self.path, stat.czxid)
        yield from watch_own_znode(held)
        return (yield from spawn_guard(held))


def create_when_free(
    path: str, value: bytes, ttl_ms: Millis | None = None
) -> Flow[tuple[Millis, Stat]]:
    """Create the znode as soon as there is none: an ephemeral one, or one with a TTL.

    Return a time before it was created, and its Stat.

    Raises:
        RecipeError: instead of an ephemeral znode there is one that stays.
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
        event = Event()
        found = yield from get_or_none(path, event)
        if found is None:
            return
        try:
            if is_ephemeral and not found[1].ephemeral_owner:
                raise RecipeError(f"{path} is no simple lock: the znode is not ephemeral")
            yield Wait((event,))
            if any(each.type is EventType.DELETED for each in event.drain()):
                return
        except (Cancelled, RayKeeperError):
            yield from best_effort_cleanup([], [(path, event)])
            raise


def watch_own_znode(held: Held[Any]) -> Flow[None]:
    """Set the watch that tells a holder of its loss; give it back if that fails.

    Raises:
        LostError: the znode is gone by now.
    """
    try:
        is_there = yield from held._reread()
    except KeeperError:
        yield from held._release()
        raise
    if not is_there:
        raise LostError(f"somebody deleted {held.path} at once")
