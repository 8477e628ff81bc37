"""The client to await, for async actors and other code on an event loop.

It runs on the caller's own loop, without a thread. The call of a method submits the request, before
it is awaited, so requests keep the order of the calls and many may be outstanding.

Callbacks may be plain functions or coroutine functions. They are called in order with the replies:
before a later reply wakes its waiter, a plain callback has returned and a coroutine has begun.
Coroutines are not waited for, so two of them may interleave.

One session per handle, as with `Client`.
"""

import asyncio
import concurrent.futures
import inspect
import logging
from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any, Self, TypeVar

from msgspec import structs

from raykeeper.client import arguments, task_sessions
from raykeeper.client.call_forms import AwaitedForm, AwaitedFuture, UnawaitedCall, awaited_call
from raykeeper.client.core.effects import SuccessReply
from raykeeper.client.core.flows import CallInCaller, Flow
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import ClientId
from raykeeper.client.core.results import result_of
from raykeeper.client.driver import client_clock
from raykeeper.client.errors import WrongContextError
from raykeeper.client.operations import Operations
from raykeeper.client.process_metrics import process_metrics
from raykeeper.client.recipe_methods import RecipeMethods
from raykeeper.client.recipes.recipe import Awaited
from raykeeper.client.scheduler_host import wait_cleaned_up
from raykeeper.client.session import Session
from raykeeper.client.session_objects import SessionObject
from raykeeper.client.session_options import (
    VALUE_BYTES_MAX,
    SessionOptions,
    checked_default_acl,
    split_ensemble_name,
)
from raykeeper.client.transaction import AsyncTransaction
from raykeeper.links.contract import Dialer
from raykeeper.links.daemon_threads import to_daemon_thread
from raykeeper.zab.ids import ServerId
from raykeeper.znodes.acl import Acl

log = logging.getLogger("raykeeper.client")
T = TypeVar("T")

_running_callbacks: set[asyncio.Future[Any]] = set()
"""The callbacks of all sessions that are awaited: an event loop keeps no task alive."""


class AsyncClient(
    AwaitedForm,
    SessionObject,
    Operations[Awaited],
    RecipeMethods[Awaited],
    future=asyncio.Future,
):
    """A handle of one session, for one event loop. Made by `await AsyncClient.connect(name)`.

    An operation returns a future of its result; only errors of its arguments are raised at once.
    """

    _is_awaited = True
    _instead = "pass the name of the ensemble on, and connect there"

    def __init__(self, session: "AsyncSession") -> None:
        """Use `connect`."""
        self._session = session
        self._place = ""

    @classmethod
    @awaited_call
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
        """Open a session with the ensemble `name` of this Ray cluster.

        For the arguments and the errors see `connect` in connect.py.
        """
        # Imported here: a process may use the client without Ray.
        from raykeeper.client.ensembles import dialer_of, find_servers_async
        from raykeeper.client.identity import identity_of_process
        from raykeeper.client.ray_lookups import fail_after, left_s

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
        with fail_after(arguments.milliseconds("timeout_s", timeout_s) / 1000):
            servers = await find_servers_async(ensemble)
            if sessions.has_leftovers():
                await to_daemon_thread(sessions.close_leftovers, left_s())
            dialer = dialer_of(ensemble, session_timeout_s, servers)
            identity = identity_of_process()
            options = structs.replace(options, identity=identity, open_timeout_s=left_s())
        client = await cls.open(servers, dialer, options)
        client._place = name
        sessions.add(task, client._session)
        process_metrics.add(ensemble, client._session.core, client._session.now)
        return client

    @classmethod
    @awaited_call
    async def open(
        cls,
        servers: list[ServerId],
        dialer: Dialer,
        options: SessionOptions,
        *,
        clock: Callable[[], float] = client_clock,
    ) -> Self:
        """Open a session with the ensemble of these servers.

        Args:
            servers: The ids of the servers.
            dialer: What opens links to them.
            options: The options of the session.
            clock: The client's clock in seconds; it must not stop while the machine sleeps.

        Raises:
            BadArgumentsError: an option makes no sense.
            ConnectionLossError: no server took the session within `timeout_s`; says why.
            SessionExpiredError: the session to take over is over.
            AuthFailedError: its password is wrong, or not its password any more.
        """
        session = AsyncSession(servers, dialer, options, asyncio.get_running_loop(), clock)
        await session.wait_open()
        return cls(session)

    def transaction(self) -> AsyncTransaction:
        """Begin several operations as one: all or nothing. See client/transaction.py."""
        return AsyncTransaction(self, self._session.requests, self._session.start_tested)

    @awaited_call
    async def close(self) -> None:
        """End the session after all requests made before; its ephemerals are deleted.

        A second call does nothing.
        """
        await self._session.close()

    def _repr_parts(self) -> tuple[str, ...]:
        return self._place, self.state, f"session {self.session_id:#x}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open_session(self) -> "AsyncSession":
        return self._session

    def _run_flow(self, flow: Flow[T], name: str) -> UnawaitedCall[T]:
        """Run a flow once it is awaited, and wait for its result; see `FlowRunner`."""
        return UnawaitedCall(self._session.run_flow(flow), name)


class AsyncSession(Session):
    """The session of an `AsyncClient`, which lives on the loop that opened it."""

    async def wait_open(self) -> None:
        """Open the session; see `AsyncClient.open` for the errors."""
        self._driver.start()
        try:
            await asyncio.shield(self._driver.opened)
        except asyncio.CancelledError:
            self._driver.close()
            raise

    def start(
        self, request: NewRequest | Flow[Any], future: asyncio.Future[Any] | None = None
    ) -> asyncio.Future[Any]:
        """Submit a request, or an operation of several requests; return `future`, or a new one."""
        driver = self._driver
        loop = driver.loop
        if asyncio.get_running_loop() is not loop:  # as `_check_loop`, without a call
            self._check_loop()
        if future is None:
            future = loop.create_future()
        token = _FutureToken(future)
        if type(request) is GeneratorType:
            with driver.lock:
                self._flows.start(request, token, fails_late_requests=True)
        else:
            driver.submit(request, token)  # type: ignore[arg-type]  # no Flow
        return future

    def start_tested(self, request: NewRequest | Flow[Any]) -> asyncio.Future[Any]:
        """As `start`, for an operation whose result callers test: they must await it first."""
        return self.start(request, AwaitedFuture(loop=self._driver.loop))

    async def run_flow(self, flow: Flow[T]) -> T:
        """Run an operation of a recipe, and wait for its result.

        Raises:
            RecipeError: as the recipe says.
            KeeperError: a request of the recipe failed.
            WrongContextError: another event loop runs.
        """
        self._check_loop()
        token = _FutureToken(self._driver.loop.create_future())
        with self._driver.lock:
            task = self._flows.start(flow, token)
        try:
            while isinstance(outcome := await token.future, CallInCaller):
                value, error = outcome.call()
                token = _FutureToken(self._driver.loop.create_future())
                with self._driver.lock:
                    task.caller_returned(token, value, error)
        except BaseException as error:
            # Awaited in the same task: a cancellation that crosses the outcome comes here too.
            given_back = self._driver.loop.create_future()
            with self._driver.lock:
                task.cancel()
                task.when_given_back(_FutureToken(given_back).succeed)
            if isinstance(error, asyncio.CancelledError):
                await given_back  # until it is cancelled again
            raise
        task.result_taken()
        result: T = outcome
        return result

    async def close(self) -> None:
        """End the session after all submitted requests, and wait for that."""
        self._check_loop()
        try:
            await wait_cleaned_up(self._flows, self._driver)
        finally:
            self._driver.close()
        await self._driver.wait_closed()

    def close_soon(self) -> concurrent.futures.Future[None] | None:
        """Begin to `close` in any thread. Return its future, None if the loop does not run."""
        loop = self._driver.loop
        if not loop.is_running():
            return None
        return asyncio.run_coroutine_threadsafe(self.close(), loop)

    def _call_user(self, call: Callable[[], object]) -> None:
        try:
            returned = call()
        # No error of a callback may keep the others from running.
        except Exception:
            log.exception("a callback raised")
            return
        if inspect.isawaitable(returned):
            # Its first step is scheduled here, before a later reply wakes its waiter.
            task = asyncio.ensure_future(returned)
            _running_callbacks.add(task)
            task.add_done_callback(self._callback_done)

    def _callback_done(self, task: asyncio.Future[Any]) -> None:
        _running_callbacks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a callback raised", exc_info=task.exception())

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._driver.loop:
            self._check_process()
            raise WrongContextError("this AsyncClient belongs to another event loop")


class _FutureToken:
    """The token of a request; its future may have been cancelled by whoever awaited it."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future

    def complete(self, answer: SuccessReply) -> None:
        if not self.future.done():
            self.future.set_result(result_of(answer))

    def succeed(self, value: Any) -> None:
        if not self.future.done():
            self.future.set_result(value)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
