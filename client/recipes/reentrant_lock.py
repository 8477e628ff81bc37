"""The reentrant lock: its holder may acquire it again.

    lock = client.reentrant_lock("/locks/x")
    with lock as outer:
        with lock as inner:             # costs nothing
            assert inner.token == outer.token

It is the fair lock, held once for each owner: a thread, for an `AsyncClient` a task. The owner is
the caller of `acquire`, or the one who enters the block, so `asyncio.wait_for(lock.acquire(), 5)`
asks for the task it stands in. A thread or task that an owner starts is another owner. The last of
an owner's holds to be released gives the lock back, in whichever thread that is.

The invariant of this file: an owner has one place in the queue, however often it holds the lock.

Python: `threading.RLock`. Curator: `InterProcessMutex`, which is always reentrant.
"""

from collections.abc import Callable
from typing import Generic

from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.errors import LostError, RayKeeperError
from raykeeper.client.recipes.acquirable import Held, current_task_or_thread
from raykeeper.client.recipes.lock import PREFIX, Lock, QueuedLock
from raykeeper.client.recipes.recipe import FlowRunner, K
from raykeeper.znodes.errors import KeeperError


class ReentrantHeld(Held[K]):
    """One of the holds of one owner. Token and loss are those of the lock itself."""

    def __init__(self, client: FlowRunner, holds: "_OwnerHolds[K]", root: Held[K]) -> None:
        """Use the recipe."""
        super().__init__(client, root._what, root.path, root.token)
        self.lost = root.lost
        self._holds: _OwnerHolds[K] = holds
        self._root: Held[K] = root

    def _release_or_raise(self) -> Flow[None]:
        """Give this hold back; the last one of its owner gives the lock back."""
        if self._is_released:
            return
        self._is_released = True
        try:
            yield from self._holds.release_one(self._root)
        except KeeperError:
            self._is_released = False
            raise


class _OwnerHolds(Generic[K]):
    """The holds of one owner: none before its place is first in the queue."""

    def __init__(self, forget: Callable[[], object]) -> None:
        self.root: Held[K] | None = None
        self.count = 0
        self.events: list[Event] = []
        """Of other calls of the same owner, which wait for the first one."""
        self._forget = forget

    def set_root(self, root: Held[K] | None) -> None:
        """Take what the first call of the owner got; None if it failed."""
        self.root = root
        if root is None:
            self._forget()
        events, self.events = self.events, []
        for event in events:
            event.set()

    def release_one(self, root: Held[K]) -> Flow[None]:
        """Count one hold less; give the lock back with the last one."""
        if self.count > 1:
            self.count -= 1
            if root.lost.is_set():
                raise LostError(f"{root._what} was lost before it was released")
            return
        # Before the request: an acquire that comes meanwhile must queue up.
        self._forget()
        yield from root._release_or_raise()


class _HoldsByOwner(Generic[K]):
    """The holds of every owner in this process; another process has its own."""

    def __init__(self) -> None:
        self._by_owner: dict[object, _OwnerHolds[K]] = {}

    def get(self, owner: object) -> _OwnerHolds[K] | None:
        """Return what the owner has, None if it does not even ask for the lock."""
        return self._by_owner.get(owner)

    def begin(self, owner: object) -> _OwnerHolds[K]:
        """Note an owner that asks for the lock and has nothing yet."""
        holds: _OwnerHolds[K] = _OwnerHolds(lambda: self._end(owner, holds))
        self._by_owner[owner] = holds
        return holds

    def _end(self, owner: object, holds: _OwnerHolds[K]) -> None:
        if self._by_owner.get(owner) is holds:
            del self._by_owner[owner]


class ReentrantLock(QueuedLock[K, ReentrantHeld[K]]):
    """A fair lock that its owner may acquire again, through this object.

    `acquire` returns at once if the thread, or task, that calls it has the lock already. It raises
    LostError if the caller had the lock, but lost it. `contenders` lists each owner once.
    """

    def __init__(self, client: FlowRunner, path: str, identifier: bytes | None = None) -> None:
        """Use `Client.reentrant_lock`. `identifier` is shown to those who list the contenders."""
        super().__init__(client, path, identifier, f"the lock {path}", (PREFIX,))
        self._lock: Lock[K] = Lock(client, path, identifier)
        self._holds: _HoldsByOwner[K] = _HoldsByOwner()

    def _acquire(self) -> Flow[ReentrantHeld[K]]:
        """See `Acquirable`. Called, not yet run, where the owner is."""
        return self._acquire_for(current_task_or_thread())

    def _acquire_for(self, owner: object) -> Flow[ReentrantHeld[K]]:
        while (holds := self._holds.get(owner)) is not None and holds.root is None:
            event = Event()
            holds.events.append(event)
            yield Wait((event,))
        if holds is None:
            holds = self._holds.begin(owner)
            try:
                holds.set_root((yield from self._lock._acquire()))
            except (Cancelled, RayKeeperError):
                holds.set_root(None)
                raise
        root = holds.root
        assert root is not None
        root.lost.check()
        holds.count += 1
        return ReentrantHeld(self._client, holds, root)
