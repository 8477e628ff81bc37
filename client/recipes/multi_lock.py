"""Several locks as one: all of them or none.

    with client.multi_lock(["/locks/a", "/locks/b"]) as held:
        copy(held.tokens["/locks/a"], held.tokens["/locks/b"])

The locks are acquired one after the other in the order of their paths, which is the same for all
clients, so two clients that want the same locks never deadlock. However an attempt fails, it
releases the locks that it had acquired. The invariant of this file: outside of an attempt either
all of the locks are held, or `lost` is set.

Curator: `InterProcessMultiLock`, which takes the locks in the order given, so two may deadlock.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from raykeeper.client.core.flows import Cancelled, Event, Flow, Wait
from raykeeper.client.errors import BadArgumentsError, LostError, RayKeeperError
from raykeeper.client.recipes.acquirable import Acquirable, BaseHeld, Held, LostEvent, spawn_guard
from raykeeper.client.recipes.lock import Contender, Lock
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.zab.ids import Zxid
from raykeeper.znodes.errors import KeeperError

LOCKS_MAX = 1000
"""The bound for one multi-lock: it takes its locks one after the other."""


class AnyLostEvent(LostEvent[K]):
    """An event that is set when any of several locks is lost."""

    _instead = "pass `held.tokens` on, which a FencedResource or a transaction checks"

    def __init__(self, client: FlowRunner, what: str, parts: Sequence[Held[K]]) -> None:
        super().__init__(client, what)
        self._parts: Sequence[Held[K]] = parts

    def is_set(self) -> bool:
        """Return whether one of the locks is lost, or may be by now."""
        return super().is_set() or any(part.lost.is_set() for part in self._parts)


class MultiHeld(BaseHeld[K]):
    """All of the locks, until they are released or one of them is lost."""

    _instead = "pass its `tokens` on, which a FencedResource or a transaction checks"

    def __init__(self, client: FlowRunner, parts: Sequence[Held[K]], paths: Sequence[str]) -> None:
        """Use the recipe."""
        what = "one of " + ", ".join(paths)
        super().__init__(client, what, AnyLostEvent(client, what, parts))
        self.parts: list[Held[K]] = list(parts)
        """The held locks, in the order of their paths."""
        self.tokens: dict[str, Zxid] = {
            path: part.token for path, part in zip(paths, parts, strict=True)
        }
        """The fencing token of each lock, by its path."""
        self._released = Event()

    def _marks(self) -> tuple[str, ...]:
        return ("tokens " + " ".join(str(token) for token in self.tokens.values()),)

    def _release_or_raise(self) -> Flow[None]:
        """See `BaseHeld`."""
        if self._is_released:
            return
        self._is_released = True
        self._released.set()
        errors: list[RayKeeperError] = []
        for part in reversed(self.parts):
            try:
                yield from part._release_or_raise()
            except LostError as error:
                errors.append(error)
            except KeeperError as error:
                self._is_released = False  # allows another try; released locks stay released
                errors.insert(0, error)
        if errors:
            raise errors[0]

    def _guard(self) -> Flow[None]:
        """See `BaseHeld`."""
        changed = Event()
        for part in self.parts:
            part.lost._subscribe(changed)
        with suppress(KeeperError):  # the session is over
            yield Wait((changed, self._released))
        for part in self.parts:
            part.lost._unsubscribe(changed)
        if not self._is_released:
            self.lost._set()


class MultiLock(Acquirable[K, MultiHeld[K]]):
    """Several locks of one client as one."""

    def __init__(self, client: FlowRunner, locks: Iterable[Acquirable[K, Any] | str]) -> None:
        """Use `Client.multi_lock`. A path stands for the fair lock there."""
        super().__init__(client)
        listed: list[Any] = [
            Lock(client, each) if isinstance(each, str) else each for each in locks
        ]
        for lock in listed:
            path = getattr(lock, "path", None)
            is_lock = isinstance(lock, Acquirable) and hasattr(lock, "contenders")
            if not is_lock or not isinstance(path, str):
                raise BadArgumentsError("", f"{lock!r} is neither a path nor a lock")
            if lock._client is not client:
                raise BadArgumentsError(path, "the lock is of another client")
        self._locks: list[Any] = sorted(listed, key=lambda lock: lock.path)
        self.paths: list[str] = [lock.path for lock in self._locks]
        """The paths of the locks, in the order in which they are acquired."""
        if not 1 <= len(self.paths) <= LOCKS_MAX:
            raise BadArgumentsError("", f"{len(self.paths)} locks, 1 to {LOCKS_MAX} are allowed")
        if len(set(self.paths)) < len(self.paths):
            raise BadArgumentsError("", "a path is named twice: its lock would wait for itself")

    def _repr_parts(self) -> tuple[str, ...]:
        return tuple(self.paths)

    @operation
    def acquire(self, timeout_s: float | None = None) -> Flow[MultiHeld[K]]:
        """Acquire all of the locks.

        Args:
            timeout_s: How long to wait for all together; 0 to take them only if all are free, None
                for ever.

        Raises:
            WaitTimeoutError: not all were free in time; none is held, nothing is left behind.
            LostError: somebody deleted the znode of this contender, or of a lock it had acquired.
        """
        return self._acquire_within(timeout_s)

    def _timeout_message(self) -> str:
        """See `Acquirable`."""
        return f"others held one of {', '.join(self.paths)}"

    def _acquire(self) -> Flow[MultiHeld[K]]:
        """See `Acquirable`."""
        return self._acquire_all([lock._acquire() for lock in self._locks])

    @operation
    def contenders(self) -> Flow[dict[str, list[Contender]]]:
        """Return the contenders of each lock, by its path: the holder and those who wait."""
        listed = {}
        for lock in self._locks:
            listed[lock.path] = yield from type(lock).contenders.flow(lock)
        return listed

    def _acquire_all(self, flows: list[Flow[Held[K]]]) -> Flow[MultiHeld[K]]:
        parts: list[Held[K]] = []
        try:
            for flow in flows:
                parts.append((yield from flow))
                for part in parts:
                    part.lost.check()
        except (Cancelled, RayKeeperError):
            for part in reversed(parts):
                yield from part._release()
            raise
        return (yield from spawn_guard(MultiHeld(self._client, parts, self.paths)))
