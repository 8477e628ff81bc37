"""A local copy of a subtree, or of the children of a znode, that is kept current.

    with client.tree_cache("/app", on_change=print) as cache:
        cache.get("/app/limits").value
        cache.children("/app")

    with client.children_cache("/services/web") as cache:
        cache.names()

Reads of the copy cost nothing and never wait. They never go back, show whole transactions, and
show what this client has written before. They show a change of somebody else a moment later; where
that matters, use a read of the client with `consistency="linearizable"`. The number of znodes is
bound by `znodes_max`, their bytes are not. How the copy is kept current: subtree_follower.py.

Curator: `TreeCache`, `PathChildrenCache`, `CuratorCache`. kazoo: `TreeCache`, `ChildrenWatch`.
"""

from collections.abc import Callable, Iterator
from typing import Final, Self

from raykeeper.client.arguments import checked_path
from raykeeper.client.call_forms import check_callbacks
from raykeeper.client.core.flows import CallUser, Flow, Spawn
from raykeeper.client.errors import BadArgumentsError, CacheFullError, KeeperError, RecipeError
from raykeeper.client.recipes.live import FollowingRecipe, OnError, call_guarded, log_failure
from raykeeper.client.recipes.recipe import FlowRunner, K, operation
from raykeeper.client.recipes.subtree_follower import SubtreeFollower
from raykeeper.client.recipes.tree_mirror import CachedZnode, TreeChange
from raykeeper.znodes.paths import join

ZNODES_MAX: Final = 100_000
OnTreeChange = Callable[[TreeChange], object]


class _BaseCache(FollowingRecipe[K]):
    """The life of both caches: they start once, follow their znodes, and end once."""

    _depth: int | None

    def __init__(
        self,
        client: FlowRunner,
        path: str,
        on_change: OnTreeChange | None = None,
        on_error: OnError | None = None,
        znodes_max: int = ZNODES_MAX,
    ) -> None:
        """Use the method of the client.

        Args:
            client: The client that follows the znodes.
            path: The path of the znode, which may be missing.
            on_change: Called with each TreeChange, in order, also those of the first content.
            on_error: Called when the cache can be kept current no more, unless the session is over,
                and with each error that `on_change` raises. Without it the client logs both.
            znodes_max: The cache holds so many znodes at most, that at `path` included.
        """
        super().__init__(client)
        self.path = checked_path(path)
        if type(znodes_max) is not int or znodes_max < 1:
            raise BadArgumentsError(path, f"znodes_max must be positive, not {znodes_max!r}")
        for callback in (on_change, on_error):
            if callback is not None and not callable(callback):
                raise BadArgumentsError(path, f"a callback must be callable, not {callback!r}")
        check_callbacks(client, on_change=on_change, on_error=on_error)
        self._on_change = on_change
        self._on_error = on_error
        self._follower = SubtreeFollower(self.path, self._depth, znodes_max)
        self._mirror = self._follower.mirror
        self._was_started = False
        self._is_open = False
        self._error: Exception | None = None

    def _repr_parts(self) -> tuple[str, ...]:
        if self._error is not None:
            state = f"failed: {self._error}"
        elif not self._was_started:
            state = "not started"
        else:
            state = "current" if self.is_current else "not current any more"
        return self.path, f"{len(self._mirror)} znodes", state

    @property
    def is_current(self) -> bool:
        """Whether the cache is kept current: started, not closed, not failed, in a living session.

        While there is no connection it may be behind all the same.
        """
        return self._is_open and not self._client._is_lost()

    @property
    def last_error(self) -> Exception | None:
        """The error that ended the cache; None if it is kept current, or was closed."""
        return self._error

    def _release(self) -> Flow[None]:
        """See `ClosableRecipe`."""
        self._is_open = False
        if self._was_started:
            yield from self._follower.close()

    def __len__(self) -> int:
        """The number of znodes in the copy, that at `path` included."""
        self._check_not_full()
        return len(self._mirror)

    def _start(self) -> Flow[Self]:
        if self._was_started:
            raise RecipeError(f"the cache of {self.path} was started before; make another one")
        self._was_started = True
        changes = yield from self._follower.open()
        self._is_open = True
        yield from self._report(changes)
        yield Spawn(self._follow_changes())
        return self

    def _follow_changes(self) -> Flow[None]:
        try:
            while not self._follower.is_closed:
                yield from self._report((yield from self._follower.next_changes()))
        except (KeeperError, CacheFullError) as error:
            self._is_open = False
            yield from self._follower.close()
            if not self._client._is_lost():
                self._error = error
                yield CallUser(self._on_error or log_failure, (error,))

    def _report(self, changes: list[TreeChange]) -> Flow[None]:
        if self._on_change is not None:
            for change in changes:
                yield CallUser(self._call, (change,))

    def _call(self, change: TreeChange) -> object:
        if self._on_change is None or not self._is_open or not self._shows(change.path):
            return None
        return call_guarded(self._on_change, (change,), self._on_error)

    def _shows(self, path: str) -> bool:
        return True

    def _check_not_full(self) -> None:
        if isinstance(self._error, CacheFullError):
            raise self._error

    def _begin_block(self) -> Flow[Self]:
        """See `BlockRecipe`."""
        return self._start()


class TreeCache(_BaseCache[K]):
    """A copy of a znode and all below it. Every method raises CacheFullError once it was full."""

    _depth = None

    @operation
    def start(self) -> Flow["TreeCache[K]"]:
        """Read everything, keep it current from now on, and return the cache.

        A `with` block starts the cache, too. It can be started once.

        Raises:
            RecipeError: the cache was started before.
            CacheFullError: there are more znodes than `znodes_max`.
        """
        return self._start()

    def get(self, path: str) -> CachedZnode | None:
        """Return value and Stat of a znode; None if it is missing, or not below `path`."""
        self._check_not_full()
        return self._mirror.get(path)

    def children(self, path: str) -> list[str]:
        """Return the names of the children, sorted; none if there is no such znode."""
        self._check_not_full()
        return self._mirror.children(path)

    def snapshot(self) -> dict[str, CachedZnode]:
        """Return everything at one moment, by path, parents first."""
        self._check_not_full()
        return self._mirror.snapshot()

    def __contains__(self, path: object) -> bool:
        self._check_not_full()
        return isinstance(path, str) and self._mirror.get(path) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths of one moment, parents first."""
        return iter(self.snapshot())


class ChildrenCache(_BaseCache[K]):
    """A copy of the children of a znode. Every method raises CacheFullError once it was full.

    The client receives the events of znodes below the children, too, and ignores them.
    """

    _depth = 1

    @operation
    def start(self) -> Flow["ChildrenCache[K]"]:
        """Read everything, and keep it current; see `TreeCache.start`."""
        return self._start()

    def get(self, name: str) -> CachedZnode | None:
        """Return value and Stat of a child; None if there is no such child."""
        self._check_not_full()
        return self._mirror.get(join(self.path, name)) if name else None

    def names(self) -> list[str]:
        """Return the names of the children, sorted."""
        self._check_not_full()
        return self._mirror.children(self.path)

    def snapshot(self) -> dict[str, CachedZnode]:
        """Return all children at one moment, by name."""
        self._check_not_full()
        everything = self._mirror.snapshot()
        return {
            path.rpartition("/")[2]: znode
            for path, znode in everything.items()
            if path != self.path
        }

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of one moment, sorted."""
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _shows(self, path: str) -> bool:
        return path != self.path
