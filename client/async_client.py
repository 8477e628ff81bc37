"""The client to await, for async actors and other code on an event loop.

It runs on the caller's own loop, without a thread. A request is submitted when its method is
called, before it is awaited, so requests keep the order of the calls and many may be outstanding.

Callbacks may be plain functions or coroutine functions. They are called in order with the replies:
a plain one has returned, and a coroutine has begun, before whoever awaits a later reply goes on.
Coroutines are not waited for, so two of them may interleave.

One session per handle, as with `Client`.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from raykeeper.client import arguments
from raykeeper.client.core import ClientCore
from raykeeper.client.driver import Driver
from raykeeper.client.effects import Answer
from raykeeper.client.errors import KeeperError, WrongContextError
from raykeeper.client.opening import VALUE_BYTES_MAX, new_core
from raykeeper.client.outstanding import Ask
from raykeeper.client.results import result_of
from raykeeper.client.rounds import (
    Rounds,
    create_with_parents,
    delete_with_children,
    run_rounds,
)
from raykeeper.client.states import ClientState
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.links.contract import Dialer
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Exists,
    GetChildren,
    GetData,
    SessionId,
    Sync,
)
from raykeeper.znodes.stat import Stat

log = logging.getLogger("raykeeper.client")

AsyncWatch = Callable[[WatchedEvent], object]
AsyncListener = Callable[[ClientState], object]


class AsyncClient:
    """A handle of one session, for one event loop. Made by `await AsyncClient.connect(name)`."""

    def __init__(
        self,
        core: ClientCore,
        dialer: Dialer,
        value_bytes_max: int,
        clock: Callable[[], float],
    ) -> None:
        """Use `connect`."""
        self._core = core
        self._value_bytes_max = value_bytes_max
        self._listeners: list[AsyncListener] = []
        self._callbacks: set[asyncio.Future[Any]] = set()
        self._driver = Driver(core, dialer, self, asyncio.get_running_loop(), clock)

    @classmethod
    async def connect(
        cls,
        name: str,
        session_timeout_s: float = 10.0,
        timeout_s: float = 30.0,
        *,
        value_bytes_max: int = VALUE_BYTES_MAX,
    ) -> Self:
        """Open a session with the ensemble `name` of this Ray cluster.

        Raises:
            BadArgumentsError: a span of time makes no sense.
            EnsembleNotFoundError: there is no such ensemble.
            WrongContextError: there is no Ray cluster, or it cannot be reached from here.
            ConnectionLossError: no server took the session within `timeout_s`; says why.
        """
        # Imported here: a process may use the client without Ray.
        from raykeeper.client.ensembles import dialer_of, find_servers

        # It asks Ray's GCS, which would block the loop.
        servers = await asyncio.to_thread(find_servers, name)
        return await cls.open(
            servers,
            dialer_of(name, session_timeout_s),
            session_timeout_s=session_timeout_s,
            timeout_s=timeout_s,
            value_bytes_max=value_bytes_max,
        )

    @classmethod
    async def open(
        cls,
        servers: list[ServerId],
        dialer: Dialer,
        *,
        session_timeout_s: float,
        timeout_s: float,
        value_bytes_max: int = VALUE_BYTES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """Open a session with the ensemble of these servers.

        Raises:
            BadArgumentsError: a span of time makes no sense.
            ConnectionLossError: no server took the session within `timeout_s`; says why.
        """
        core = new_core(servers, session_timeout_s, timeout_s)
        client = cls(core, dialer, value_bytes_max, clock)
        client._driver.start()
        try:
            await asyncio.shield(client._driver.opened)
        except asyncio.CancelledError:
            client._driver.close()
            raise
        return client

    @property
    def session_id(self) -> SessionId:
        """The id of the session, unique for ever."""
        return self._core.session_id

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the loop was kept from running."""
        return ClientState.LOST if self._core.is_lost(self._driver.now()) else self._core.state

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> asyncio.Future[str]:
        """Create a znode; the real path. See `Client.create`.

        Raises:
            BadArgumentsError: path or value is not acceptable; nothing was sent.
        """
        creation = arguments.creation(
            path,
            value,
            ephemeral=ephemeral,
            sequence=sequence,
            bytes_max=self._value_bytes_max,
        )
        if makepath:
            return self._run(create_with_parents(creation))
        return self._submit(creation)

    def get(self, path: str, watch: AsyncWatch | None = None) -> asyncio.Future[tuple[bytes, Stat]]:
        """Read value and Stat. See `Client.get`.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(GetData, path, watch))

    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> asyncio.Future[Stat]:
        """Replace the value. See `Client.set`.

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
        """
        return self._submit(
            arguments.setting(path, value, version, bytes_max=self._value_bytes_max)
        )

    def delete(
        self, path: str, version: int = ANY_VERSION, recursive: bool = False
    ) -> asyncio.Future[None]:
        """Delete the znode. See `Client.delete`.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
        """
        deletion = arguments.deletion(path, version)
        if recursive:
            return self._run(delete_with_children(deletion))
        return self._submit(deletion)

    def exists(self, path: str, watch: AsyncWatch | None = None) -> asyncio.Future[Stat | None]:
        """The Stat of the znode, or None. See `Client.exists`.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(Exists, path, watch))

    def get_children(self, path: str, watch: AsyncWatch | None = None) -> asyncio.Future[list[str]]:
        """The names of the children, in no order. See `Client.get_children`.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(GetChildren, path, watch))

    def sync(self, path: str = "/") -> asyncio.Future[None]:
        """Wait until the server has everything committed so far. See `Client.sync`.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(Sync, path))

    def add_listener(self, listener: AsyncListener) -> None:
        """Have `listener` called with each new state. It is removed when it returns True."""
        self._listeners.append(listener)

    def remove_listener(self, listener: AsyncListener) -> None:
        """Do not call `listener` any more. Unknown ones are ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def close(self) -> None:
        """End the session after all requests made before; its ephemerals go. Again: nothing."""
        self._check_loop()
        self._driver.close()
        await asyncio.shield(self._driver.finished)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def watch_fired(self, watchers: list[Any], event: WatchedEvent) -> None:
        """For the driver: call these watchers."""
        for watcher in watchers:
            self._call(watcher, event)

    def state_changed(self, state: ClientState) -> None:
        """For the driver: call the listeners."""
        for listener in tuple(self._listeners):
            if self._call(listener, state) is True:
                self.remove_listener(listener)

    def _call(self, callback: Callable[[Any], object], argument: object) -> object:
        try:
            returned = callback(argument)
        # Whatever a callback raises must not keep the others from running.
        except Exception:
            log.exception("%r raised", callback)
            return None
        if inspect.isawaitable(returned):
            # Its first step is scheduled here, before a later reply wakes anybody.
            task = asyncio.ensure_future(returned)
            self._callbacks.add(task)
            task.add_done_callback(self._callback_done)
        return returned

    def _callback_done(self, task: asyncio.Future[Any]) -> None:
        self._callbacks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a callback raised", exc_info=task.exception())

    def _submit(self, ask: Ask) -> asyncio.Future[Any]:
        self._check_loop()
        reply = _Reply(self._driver.loop.create_future())
        self._driver.submit(ask, reply)
        return reply.future

    def _run(self, rounds: Rounds) -> asyncio.Future[Any]:
        self._check_loop()
        reply = _Reply(self._driver.loop.create_future())
        run_rounds(rounds, self._driver.submit, reply)
        return reply.future

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._driver.loop:
            raise WrongContextError("this AsyncClient belongs to another event loop")


class _Reply:
    """The token of a request; its future may have been cancelled by whoever awaited it."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future

    def complete(self, answer: Answer) -> None:
        self.succeed(result_of(answer))

    def succeed(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: KeeperError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
