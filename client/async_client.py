"""The client to await, for async actors and other code on an event loop.

It runs on the caller's own loop, without a thread. A request is submitted when its method is
called, before it is awaited, so requests keep the order of the calls and many may be outstanding.

Callbacks may be plain functions or coroutine functions. They are called in order with the replies:
a plain one has returned, and a coroutine has begun, before whoever awaits a later reply goes on.
Coroutines are not waited for, so two of them may interleave.

One session per handle, as with `Client`.
"""

import asyncio
import concurrent.futures
import inspect
import logging
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from msgspec import structs

from raykeeper.client import task_sessions
from raykeeper.client.arguments import Consistency
from raykeeper.client.async_access import AsyncAccess
from raykeeper.client.clock import clock as client_clock
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.client_id import ClientId
from raykeeper.client.core.compound_operations import Rounds, run_rounds
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.results import result_of
from raykeeper.client.core.states import ClientState
from raykeeper.client.core.watched_event import WatchedEvent
from raykeeper.client.driver import Driver
from raykeeper.client.errors import KeeperError, WrongContextError
from raykeeper.client.flows import Event, Flow, Scheduler
from raykeeper.client.recipe_methods import RecipeMethods
from raykeeper.client.recipes.recipe import Awaited
from raykeeper.client.request_builder import CreateOptions, RequestBuilder
from raykeeper.client.scheduler_host import DriverHost, wait_cleaned_up
from raykeeper.client.session_options import (
    VALUE_BYTES_MAX,
    SessionOptions,
    checked_default_acl,
    new_core,
    new_request_builder,
    split_ensemble_name,
)
from raykeeper.client.transaction import AsyncTransaction
from raykeeper.links.contract import Dialer
from raykeeper.links.daemon_threads import to_daemon_thread
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.requests import ANY_VERSION, SessionId, WatchKind
from raykeeper.znodes.stat import Stat

log = logging.getLogger("raykeeper.client")
T = TypeVar("T")

AsyncWatch = Callable[[WatchedEvent], object]
AsyncListener = Callable[[ClientState], object]


class AsyncClient(AsyncAccess, RecipeMethods[Awaited]):
    """A handle of one session, for one event loop. Made by `await AsyncClient.connect(name)`."""

    def __init__(
        self,
        core: ClientCore,
        dialer: Dialer,
        asking: RequestBuilder,
        clock: Callable[[], float],
        identity: bytes = b"",
    ) -> None:
        """Use `connect`."""
        self._process_identity = identity
        self._core = core
        self._requests = asking
        self._listeners: list[AsyncListener] = []
        self._callbacks: set[asyncio.Future[Any]] = set()
        self._driver = Driver(core, dialer, self, asyncio.get_running_loop(), clock)
        self._flows = Scheduler(DriverHost(self._driver, asking, self._call_back))

    @classmethod
    async def connect(
        cls,
        name: str,
        session_timeout_s: float = 10.0,
        timeout_s: float = 30.0,
        *,
        value_bytes_max: int = VALUE_BYTES_MAX,
        default_acl: Iterable[Acl] | None = None,
        client_id: ClientId | None = None,
        read_only: bool = False,
    ) -> Self:
        """Open a session with the ensemble `name` of this Ray cluster. See `connect` in connect.py.

        Raises:
            BadArgumentsError: an argument makes no sense.
            InvalidAclError: the default ACL is malformed.
            EnsembleNotFoundError: there is no such ensemble.
            WrongContextError: there is no Ray cluster, or it cannot be reached from here.
            ConnectionLossError: no server took the session within `timeout_s`; says why.
            SessionExpiredError: the session to take over is over.
            AuthFailedError: its password is wrong, or not its password any more.
        """
        # Imported here: a process may use the client without Ray.
        from raykeeper.client.ensembles import dialer_of, find_servers
        from raykeeper.client.identity import identity_of_process

        ensemble, chroot = split_ensemble_name(name)
        options = SessionOptions(
            session_timeout_s=session_timeout_s,
            timeout_s=timeout_s,
            value_bytes_max=value_bytes_max,
            default_acl=checked_default_acl(default_acl),
            client_id=client_id,
            chroot=chroot,
            read_only=read_only,
        )
        sessions = task_sessions.task_sessions
        task = sessions.current_task()
        # They ask Ray's GCS, or wait, which would block the loop.
        servers = await to_daemon_thread(find_servers, ensemble)
        await to_daemon_thread(sessions.close_leftovers, timeout_s)
        options = structs.replace(options, identity=identity_of_process())
        client = await cls.open(servers, dialer_of(ensemble, session_timeout_s), options)
        sessions.add(task, client)
        return client

    @classmethod
    async def open(
        cls,
        servers: list[ServerId],
        dialer: Dialer,
        options: SessionOptions,
        *,
        clock: Callable[[], float] = client_clock,
    ) -> Self:
        """Open a session with the ensemble of these servers.

        Raises:
            BadArgumentsError: an option makes no sense.
            ConnectionLossError: no server took the session within `timeout_s`; says why.
            SessionExpiredError: the session to take over is over.
            AuthFailedError: its password is wrong, or not its password any more.
        """
        core, asking = new_core(servers, options), new_request_builder(options)
        client = cls(core, dialer, asking, clock, options.identity)
        client._driver.start()
        try:
            await asyncio.shield(client._driver.opened)
        except asyncio.CancelledError:
            client._driver.close()
            raise
        return client

    @property
    def session_id(self) -> SessionId:
        """The id of the session, unique for ever; 0 while there was none yet, see `read_only`."""
        return self._core.session_id

    @property
    def client_id(self) -> ClientId:
        """What another `connect` needs to take the session over. Keep it secret."""
        return self._core.client_id

    @property
    def ensemble_uuid(self) -> str:
        """What names the ensemble for ever; it salts the keys of the scheme `scrypt`."""
        return self._core.ensemble

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the loop was kept from running."""
        return ClientState.LOST if self._core.is_lost(self._driver.now()) else self._core.state

    @overload
    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[False] = False,
        **options: Unpack[CreateOptions],
    ) -> asyncio.Future[str]: ...

    @overload
    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[True],
        **options: Unpack[CreateOptions],
    ) -> asyncio.Future[tuple[str, Stat]]: ...

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: bool = False,
        **options: Unpack[CreateOptions],
    ) -> asyncio.Future[Any]:
        """Create a znode; the real path. See `Client.create`.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed; nothing was sent.
        """
        return self._start(self._requests.create(path, value, makepath, include_data, options))

    def ensure_path(self, path: str, acl: Iterable[Acl] | None = None) -> asyncio.Future[None]:
        """Create a znode, and those above it, unless it is there. See `Client.ensure_path`.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed; nothing was sent.
        """
        return self._start(self._requests.ensure_path(path, acl))

    def get(
        self, path: str, watch: AsyncWatch | None = None, *, consistency: Consistency = "session"
    ) -> asyncio.Future[tuple[bytes, Stat]]:
        """Read value and Stat. See `Client.get`.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        return self._submit(self._requests.get(path, watch, consistency))

    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> asyncio.Future[Stat]:
        """Replace the value. See `Client.set`.

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
        """
        return self._submit(self._requests.set(path, value, version))

    def delete(
        self, path: str, version: int = ANY_VERSION, recursive: bool = False
    ) -> asyncio.Future[None]:
        """Delete the znode. See `Client.delete`.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
        """
        return self._start(self._requests.delete(path, version, recursive))

    def exists(
        self, path: str, watch: AsyncWatch | None = None, *, consistency: Consistency = "session"
    ) -> asyncio.Future[Stat | None]:
        """The Stat of the znode, or None. See `Client.exists`.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        return self._submit(self._requests.exists(path, watch, consistency))

    def get_children(
        self, path: str, watch: AsyncWatch | None = None, *, consistency: Consistency = "session"
    ) -> asyncio.Future[list[str]]:
        """The names of the children, in no order. See `Client.get_children`.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        return self._submit(self._requests.get_children(path, watch, consistency))

    def add_watch(
        self, path: str, watch: AsyncWatch, *, recursive: bool = False, with_values: bool = False
    ) -> asyncio.Future[None]:
        """Have `watch` called with every event of a znode. See `Client.add_watch`.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        return self._submit(self._requests.add_watch(path, watch, recursive, with_values))

    def remove_watches(
        self, path: str, watch: AsyncWatch | None = None, kind: WatchKind = WatchKind.ANY
    ) -> asyncio.Future[None]:
        """Remove the watch of `watch`, or all. See `Client.remove_watches`.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        return self._submit(self._requests.remove_watches(path, watch, kind))

    def get_many(
        self, paths: Iterable[str]
    ) -> asyncio.Future[list[tuple[bytes, Stat] | KeeperError]]:
        """Read several znodes, all at one moment. See `Client.get_many`.

        Raises:
            BadArgumentsError: a path is not acceptable, or there are too many; nothing was sent.
        """
        return self._start(self._requests.get_many(paths))

    def transaction(self) -> AsyncTransaction:
        """Several operations as one: all of them or none. See client/transaction.py."""
        return AsyncTransaction(self._requests, self._start)

    def sync(self, path: str = "/") -> asyncio.Future[None]:
        """Wait until the server has everything committed so far. See `Client.sync`.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        return self._submit(self._requests.sync(path))

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
        try:
            await wait_cleaned_up(self._flows, self._driver)
        finally:
            self._driver.close()
        await self._driver.wait_closed()

    def has_ended(self) -> bool:
        """Whether nothing is left to close."""
        return self._core.state is ClientState.LOST

    def close_soon(self) -> concurrent.futures.Future[None] | None:
        """Begin to `close` in any thread; the future of that, None if the loop does not run."""
        loop = self._driver.loop
        if not loop.is_running():
            return None
        return asyncio.run_coroutine_threadsafe(self.close(), loop)

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
            if isinstance(watcher, Event):
                watcher.set(event)
            else:
                self._call(watcher, event)

    def state_changed(self, state: ClientState) -> None:
        """For the driver: call the listeners."""
        if state is ClientState.LOST:
            self._flows.session_ended(self._core.end_error())
        elif state is not ClientState.SUSPENDED:
            self._flows.connected(read_only=state is ClientState.CONNECTED_READ_ONLY)
        for listener in tuple(self._listeners):
            if self._call(listener, state) is True:
                self.remove_listener(listener)

    async def _run_flow(self, flow: Flow[T], name: str) -> T:
        """Run an operation, and wait for the outcome.

        Raises:
            RecipeError: what the recipe says.
            KeeperError: a request of it failed.
        """
        self._check_loop()
        reply = _FutureToken(self._driver.loop.create_future())
        with self._driver.lock:
            run = self._flows.start(flow, reply)
        try:
            result: T = await reply.future
        except BaseException:
            # Awaited in the same task: a cancellation that crosses the outcome comes here too.
            with self._driver.lock:
                run.cancel()
            raise
        run.result_taken()
        return result

    def _is_lost(self) -> bool:
        """Whether the session is over, or may be by now."""
        return self.state is ClientState.LOST

    def _identity(self) -> bytes:
        """What its session shows of this process."""
        return self._process_identity

    def _now(self) -> Millis:
        """The time of this client, monotonic."""
        return self._driver.now()

    def _call_back(self, call: Callable[[], object]) -> None:
        self._call(lambda _: call(), None)

    def _call(self, callback: Callable[[Any], object], argument: object) -> object:
        try:
            returned = callback(argument)
        # Whatever a callback raises must not keep the others from running.
        except Exception:
            log.exception("a callback raised")
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

    def _submit(self, ask: NewRequest) -> asyncio.Future[Any]:
        self._check_loop()
        reply = _FutureToken(self._driver.loop.create_future())
        self._driver.submit(ask, reply)
        return reply.future

    def _start(self, asked: NewRequest | Rounds) -> asyncio.Future[Any]:
        if not isinstance(asked, Generator):
            return self._submit(asked)
        self._check_loop()
        reply = _FutureToken(self._driver.loop.create_future())
        run_rounds(asked, self._driver.submit, reply)
        return reply.future

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._driver.loop:
            raise WrongContextError("this AsyncClient belongs to another event loop")


class _FutureToken:
    """The token of a request; its future may have been cancelled by whoever awaited it."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future

    def complete(self, answer: SuccessReply) -> None:
        self.succeed(result_of(answer))

    def succeed(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
