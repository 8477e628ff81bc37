"""The reentrant lock: whoever holds it may acquire it again.

    lock = client.reentrant_lock("/locks/x")
    with lock as outer:
        with lock as inner:             # costs nothing
            assert inner.token == outer.token

It is the fair lock, held once for each owner: a thread, for an `AsyncClient` a task. Who asks is
who calls `acquire` or enters the block, so `asyncio.wait_for(lock.acquire(), 5)` asks for the task
it stands in. A thread or task that an owner starts is another owner. The lock is given back by the
last of its holds to be released, in whichever thread that is.

The invariant of this file: an owner has one place in the queue, however often it holds the lock.

Python: `threading.RLock`. Curator: `InterProcessMutex`, which is always reentrant.
"""

from collections.abc import Callable
from typing import Any, Generic

from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.errors import LostError, RayKeeperError
from raykeeper.client.recipes.acquirable import Acquirable, Held, current_task_or_thread
from raykeeper.client.recipes.lock import PREFIX, Contender, Lock, list_contenders
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.znodes.errors import KeeperError


class ReentrantHeld(Held[K]):
    """One of the holds of one owner. Token and loss are those of the lock itself."""

    def __init__(self, client: FlowRunner, share: "_OwnerHolds[K]", root: Held[K]) -> None:
        """Use the recipe."""
        super().__init__(client, root._what, root.path, root.token)
        self.lost = root.lost
        self._share: _OwnerHolds[K] = share
        self._root: Held[K] = root

    def _release_or_raise(self) -> Flow[None]:
        """Give this hold back; the last one of its owner gives the lock back."""
        if self._is_released:
            return
        self._is_released = True
        try:
            yield from self._share.release_one(self._root)
        except KeeperError:
            self._is_released = False
            raise


class _OwnerHolds(Generic[K]):
    """What one owner has of the lock: nothing before its place is first in the queue."""

    def __init__(self, forget: Callable[[], object]) -> None:
        self.root: Held[K] | None = None
        self.count = 0
        self.events: list[Event] = []
        """Of other calls of the same owner, which wait for the first one."""
        self._forget = forget

    def set_root(self, root: Held[K] | None) -> None:
        """The lock was got, or not."""
        self.root = root
        if root is None:
            self._forget()
        bells, self.events = self.events, []
        for bell in bells:
            bell.set()

    def release_one(self, root: Held[K]) -> Flow[None]:
        """One hold less."""
        if self.count > 1:
            self.count -= 1
            if root.lost.is_set():
                raise LostError(f"{root._what} was lost before it was released")
            return
        # Before the request: an acquire that comes meanwhile must queue up.
        self._forget()
        yield from root._release_or_raise()


class _HoldsByOwner(Generic[K]):
    """By owner. Another process has none of ours."""

    def __init__(self) -> None:
        self._by_owner: dict[object, _OwnerHolds[K]] = {}

    def get(self, owner: object) -> _OwnerHolds[K] | None:
        """What it has."""
        return self._by_owner.get(owner)

    def begin(self, owner: object) -> _OwnerHolds[K]:
        """It has nothing yet, but asks."""
        share: _OwnerHolds[K] = _OwnerHolds(lambda: self._end(owner, share))
        self._by_owner[owner] = share
        return share

    def _end(self, owner: object, share: _OwnerHolds[K]) -> None:
        if self._by_owner.get(owner) is share:
            del self._by_owner[owner]

    def __reduce__(self) -> tuple[Any, ...]:
        return _HoldsByOwner, ()


class ReentrantLock(Acquirable[K, ReentrantHeld[K]]):
    """A fair lock that its owner may acquire again, through this object."""

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.reentrant_lock`. `identifier` is shown to who lists the contenders."""
        super().__init__(client)
        self._lock: Lock[K] = Lock(client, path, identifier)
        self.path = self._lock.path
        self._holds: _HoldsByOwner[K] = _HoldsByOwner()

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[ReentrantHeld[K]]:
        """Get the lock, at once if the thread, or task, that calls this has it already.

        Args:
            timeout_s: How long to wait; 0 to take it only if it is free, None for ever.

        Raises:
            WaitTimeoutError: others held it all the time; nothing is left behind.
            LostError: the caller had the lock, but it is lost; or somebody deleted its place.
            KeeperError: as for every call.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"the lock {self.path} was held by others"

    def _acquire(self) -> Flow[ReentrantHeld[K]]:
        """See `Acquirable`."""
        return self._acquire_for(current_task_or_thread())

    @operation
    def contenders(self) -> Flow[list[Contender]]:
        """Who holds the lock, first, and who waits for it, in order; each owner once.

        Raises:
            KeeperError: as for every call.
        """
        return (yield from list_contenders(self.path, PREFIX))

    def _acquire_for(self, owner: object) -> Flow[ReentrantHeld[K]]:
        while (share := self._holds.get(owner)) is not None and share.root is None:
            bell = Event()
            share.events.append(bell)
            yield Wait((bell,))
        if share is None:
            share = self._holds.begin(owner)
            try:
                share.set_root((yield from self._lock._acquire()))
            except (Cancelled, RayKeeperError):
                share.set_root(None)
                raise
        root = share.root
        assert root is not None
        root.lost.check()
        share.count += 1
        return ReentrantHeld(self._client, share, root)
