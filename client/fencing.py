"""A guard of a resource: it refuses fencing tokens older than the newest it has seen.

    guard = FencedResource("the disk")              # beside the disk, not beside the lock
    guard.check(held.token)                         # StaleTokenError: a newer holder was here
    with guard.use(held.token):                     # ... and keep others out meanwhile
        disk.write(data)

A holder that was paused, by the garbage collector or a suspended machine, goes on as if it held the
lock before it checks `lost`. Only the resource can refuse such a holder, with this guard.
`client.fenced_resource(path)` remembers the newest token in a znode too, by compare-and-set before
it accepts a token, so that a restarted guard still refuses old ones.

Several readers of a read/write lock, or several holders of permits, hold at the same time: with
`shared=True` the guard refuses only tokens older than that of an exclusive holder. The invariant of
this file: after a token has passed, no older token passes, except one shared token after another.

Writes to the tree itself need no guard: `Transaction.when_held` (client/transaction.py) has the
same effect.

Kleppmann, "How to do distributed locking", 2016; Chubby's sequencers (Burrows, OSDI 2006).
"""

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Generic

from msgspec import Struct

from raykeeper.client.call_forms import check_form
from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import (
    BadArgumentsError,
    BadVersionError,
    RecipeError,
    StaleTokenError,
)
from raykeeper.client.fair_mutex import FairMutex
from raykeeper.client.recipes.compare_and_set import compare_and_set, read_current
from raykeeper.client.recipes.primitives import ATTEMPTS_MAX, checked_root
from raykeeper.client.recipes.recipe import (
    Awaited,
    Blocking,
    FlowRunner,
    K,
    PortableRecipe,
    operation,
)
from raykeeper.client.session_objects import SessionObject


class NewestTokens(Struct, frozen=True):
    """The newest tokens that have passed, 0 for none."""

    newest: int = 0
    newest_exclusive: int = 0
    """The newest token of an exclusive holder."""

    def admit(self, token: int, shared: bool, what: str) -> "NewestTokens":
        """Return the newest tokens after this one has passed.

        Raises:
            BadArgumentsError: `token` is not a token.
            StaleTokenError: the token is too old to pass.
        """
        if type(token) is not int or token < 1:
            raise BadArgumentsError("", f"a token is a positive number, not {token!r}")
        newer = self.newest_exclusive if shared else self.newest
        if token < newer:
            raise StaleTokenError(
                f"{what} refuses token {token}: it has seen {newer} of a later holder"
            )
        return self.merge(NewestTokens(token, 0 if shared else token))

    def merge(self, other: "NewestTokens") -> "NewestTokens":
        """Return the newest tokens of both."""
        return NewestTokens(
            max(self.newest, other.newest),
            max(self.newest_exclusive, other.newest_exclusive),
        )


class Use(SessionObject, Generic[K]):
    """One use of a guard: other uses wait until it ends, and its token is checked when it begins.

    A guard in this process alone serves `with` and `async with`; that of a client, as the client.
    """

    _instead = "pass the token on, and use a guard there"

    def __init__(
        self, guard: "FencedResource | DurableFencedResource[K]", token: int, *, shared: bool
    ) -> None:
        """Use `FencedResource.use` or `DurableFencedResource.use`."""
        self._guard: FencedResource | DurableFencedResource[K] = guard
        self._turns = guard._turns
        self._token = token
        self._check: Callable[[], Awaitable[None] | None] = partial(
            guard.check, token, shared=shared
        )

    def _repr_parts(self) -> tuple[str, ...]:
        return *self._guard._repr_parts(), f"for token {self._token}"

    def _check_form(self, *, in_async_with: bool) -> None:
        if isinstance(self._guard, DurableFencedResource):
            is_awaited = self._guard._client._is_awaited
            check_form(self, is_awaited=is_awaited, in_async_with=in_async_with)

    def __enter__(self: "Use[Blocking]") -> None:
        self._check_form(in_async_with=False)
        self._turns.acquire()
        try:
            self._check()
        except BaseException:
            self._turns.release()
            raise

    def __exit__(self: "Use[Blocking]", *_: object) -> None:
        self._turns.release()

    async def __aenter__(self: "Use[Awaited]") -> None:
        self._check_form(in_async_with=True)
        await self._turns.acquire_async()
        try:
            checking = self._check()
            if checking is not None:  # the guard of an AsyncClient
                await checking
        except BaseException:
            self._turns.release()
            raise

    async def __aexit__(self: "Use[Awaited]", *_: object) -> None:
        self._turns.release()


class FencedResource(SessionObject):
    """A guard that lives as long as its resource. Safe for threads and tasks."""

    _instead = "pass the tokens to this process, or use `client.fenced_resource(path)`"

    def __init__(self, what: str = "the resource") -> None:
        """`what` names the resource in error messages."""
        self._what = what
        self._seen = NewestTokens()
        self._lock = threading.Lock()
        self._turns = FairMutex()

    def _repr_parts(self) -> tuple[str, ...]:
        return self._what, f"newest token {self.newest}"

    @property
    def newest(self) -> int:
        """The newest token that has passed; 0 for none."""
        return self._seen.newest

    def check(self, token: int, *, shared: bool = False) -> None:
        """Accept a token, or refuse it. This does not keep others out, see `use`.

        Args:
            token: The fencing token of the holder.
            shared: Whether the token is that of a reader or of a permit, so that there may be other
                holders at the same time.

        Raises:
            StaleTokenError: a newer token has passed.
            BadArgumentsError: `token` is not a token.
        """
        with self._lock:
            self._seen = self._seen.admit(token, shared, self._what)

    def use(self, token: int, *, shared: bool = False) -> Use[Any]:
        """Check the token, and keep others out until the end; for `with` and `async with`.

        Other users wait meanwhile, so nothing is done for a token after a newer one was accepted.

        Args:
            token: The fencing token of the holder.
            shared: Whether the token is that of a reader or of a permit, as for `check`.
        """
        return Use(self, token, shared=shared)


class DurableFencedResource(PortableRecipe[K]):
    """A guard that stores tokens in the znode at `path`, also for the guards after it."""

    def __init__(self, client: FlowRunner, path: str) -> None:
        """Use `Client.fenced_resource`."""
        super().__init__(client)
        self.path = checked_root(path)
        self._seen = NewestTokens()
        self._turns = FairMutex()

    def _repr_parts(self) -> tuple[str, ...]:
        return self.path, f"newest token {self.newest}"

    @property
    def newest(self) -> int:
        """The newest token that has passed since this guard was made; 0 for none."""
        return self._seen.newest

    @operation
    def check(self, token: int, *, shared: bool = False) -> Flow[None]:
        """Accept a token, or refuse it. A token that is not newer than others costs no request.

        Args:
            token: The fencing token of the holder.
            shared: Whether the token is that of a reader or of a permit, so that there may be other
                holders at the same time.

        Raises:
            StaleTokenError: a newer token has passed this guard, or a guard before it.
            BadArgumentsError: `token` is not a token.
            RecipeError: the value of the znode is not one of a guard.
            KeeperError: the token could not be stored; nothing passes.
        """
        if self._seen.admit(token, shared, self.path) == self._seen:
            return
        for _ in range(ATTEMPTS_MAX):
            # The server of a new guard may lag behind the write of the guard before it.
            found = yield from read_current(self.path, linearizable=True)
            remembered = _decode_tokens(found.value, self.path)
            self._seen = self._seen.merge(remembered)
            seen = self._seen.admit(token, shared, self.path)
            if seen != remembered:
                value = b"%d %d" % (seen.newest, seen.newest_exclusive)
                is_stored, _ = yield from compare_and_set(self.path, value, found)
                if not is_stored:
                    continue  # another guard has changed it
            # Another call on this guard may have accepted a newer token since the write.
            self._seen.admit(token, shared, self.path)
            self._seen = self._seen.merge(seen)
            return
        raise BadVersionError(self.path, "other guards kept changing it")

    def use(self, token: int, *, shared: bool = False) -> Use[K]:
        """Check the token, and keep others out until the end; for `with` and `async with`.

        Args:
            token: The fencing token of the holder.
            shared: Whether the token is that of a reader or of a permit, as for `check`.
        """
        return Use(self, token, shared=shared)


def _decode_tokens(value: bytes | None, path: str) -> NewestTokens:
    if not value:
        return NewestTokens()
    parts = value.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise RecipeError(f"{path} is not a guard: its value is {value[:40]!r}")
    return NewestTokens(int(parts[0]), int(parts[1]))
