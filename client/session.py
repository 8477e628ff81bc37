"""Sessions: what both clients share, and the session of the blocking client with its threads.

`Session` connects one core, through its driver, with the user's watches, listeners and recipes.
`BlockingSession` runs on the shared loop and serves any thread; its callbacks run on a thread of
their own. The session of an `AsyncClient` is in async_client.py.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import GeneratorType
from typing import Any, Self, TypeVar, cast

from raykeeper.client.callback_thread import CallbackThread
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.flows import CallInCaller, Event, Flow
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.public_types import ClientId, ClientState, WatchedEvent
from raykeeper.client.core.scheduler import Scheduler, Task
from raykeeper.client.driver import Driver, client_clock
from raykeeper.client.errors import OperationTimeoutError, SessionExpiredError, WrongContextError
from raykeeper.client.forks import ADVICE
from raykeeper.client.loop_thread import refuse_running_loop, shared_loop
from raykeeper.client.request_future import RequestFuture
from raykeeper.client.scheduler_host import DriverHost, wait_cleaned_up
from raykeeper.client.session_options import SessionOptions, new_core, new_request_builder
from raykeeper.links.contract import Dialer
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import SessionId

CORE_TIMEOUT_GRACE_S = 1.0  # beyond the core's own timeout, which should come first

T = TypeVar("T")
Listener = Callable[[ClientState], object]

_forks = 0
"""The number of forks between this process and the one that loaded the library. Every request
checks it, and the system call for the process id takes as long as the rest of a request."""


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Session(ABC):
    """A session that is open, or was."""

    def __init__(
        self,
        servers: list[ServerId],
        dialer: Dialer,
        options: SessionOptions,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
    ) -> None:
        """Use `open`.

        Raises:
            BadArgumentsError: an option makes no sense.
        """
        self._forks = _forks
        self.requests = new_request_builder(options)
        self.identity = options.identity
        """The line that names this process; see client/identity.py."""
        self._core = new_core(servers, options)
        self._driver = Driver(self._core, dialer, self, loop, clock)
        self._flows = Scheduler(DriverHost(self._driver, self.requests, self._call_user))
        self._listeners: list[Listener] = []

    @property
    def core(self) -> ClientCore:
        """The core, for its counts."""
        return self._core

    @property
    def session_id(self) -> SessionId:
        """The id of the session; 0 until a `read_only` client has a session."""
        return self._core.session_id

    @property
    def client_id(self) -> ClientId:
        """The id and password with which another handle takes the session over."""
        return self._core.client_id

    @property
    def ensemble_uuid(self) -> str:
        """The permanent id that salts keys, which ensembles restored from a backup share."""
        return self._core.ensemble

    @property
    def own_uuid(self) -> str:
        """The permanent id that no other ensemble has."""
        return self._core.own_uuid

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the event loop was kept from running."""
        return ClientState.LOST if self._core.is_lost(self._driver.now()) else self._core.state

    def is_lost(self) -> bool:
        """Return whether the session is over, or may be over by now."""
        return self.state is ClientState.LOST

    def now(self) -> Millis:
        """Return the client's time, monotonic."""
        return self._driver.now()

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called with each new state. It is removed when it returns True."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling `listener`. An unknown listener is ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def has_ended(self) -> bool:
        """Return whether nothing is left to close."""
        return self._core.state is ClientState.LOST

    def watch_fired(self, watchers: list[Any], event: WatchedEvent) -> None:
        """For the driver: call these watchers."""
        for watcher in watchers:
            if isinstance(watcher, Event):
                watcher.set(event)
            else:
                self._call_user(partial(watcher, event))

    def state_changed(self, state: ClientState) -> None:
        """For the driver: tell the recipes, and call the listeners."""
        if state is ClientState.LOST:
            self._flows.session_ended(self._core.end_error())
        elif state is ClientState.SUSPENDED:
            self._flows.disconnected()
        else:
            self._flows.connected(read_only=state is ClientState.CONNECTED_READ_ONLY)
        for listener in tuple(self._listeners):
            self._call_user(partial(self._call_listener, listener, state))

    @abstractmethod
    def _call_user(self, call: Callable[[], object]) -> object:
        """Make a call of the user's in order with the other callbacks and replies."""

    def _check_process(self) -> None:
        """Refuse a handle in a child of the process that opened it.

        Raises:
            WrongContextError: this is one.
        """
        if self._forks != _forks:
            raise WrongContextError(
                f"this handle was opened before a fork, and works in the parent alone: {ADVICE}"
            )

    def _call_listener(self, listener: Listener, state: ClientState) -> object:
        returned = listener(state)
        if returned is True:
            self.remove_listener(listener)
        return returned


class BlockingSession(Session):
    """The session of a `Client`. Safe for any thread of the process that opened it.

    After a fork all that makes a request raises WrongContextError. A wait for a reply raises
    OperationTimeoutError if the reply is there, but a callback before it does not return.
    """

    def __init__(
        self,
        servers: list[ServerId],
        dialer: Dialer,
        options: SessionOptions,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
    ) -> None:
        self._timeout_s = options.timeout_s
        self._loop = loop
        self._callbacks = CallbackThread()
        super().__init__(servers, dialer, options, loop, clock)

    @classmethod
    def open(
        cls,
        servers: list[ServerId],
        dialer: Dialer,
        options: SessionOptions,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Callable[[], float] = client_clock,
    ) -> Self:
        """Open a session with the ensemble of these servers.

        Raises:
            BadArgumentsError: an option makes no sense.
            InvalidAclError: the default ACL is malformed.
            ConnectionLossError: no server took the session within `timeout_s`; says why.
            SessionExpiredError: the session to take over is over.
            AuthFailedError: its password is wrong, or not its password any more.
            WrongContextError: the caller runs in an event loop, which this would block.
        """
        refuse_running_loop("connect")
        session = cls(servers, dialer, options, loop or shared_loop(), clock)
        opening = asyncio.run_coroutine_threadsafe(session._open(), session._loop)
        try:
            opening.result()
        except BaseException:
            # An interrupt during the wait must not leave a session behind.
            asyncio.run_coroutine_threadsafe(session._close(), session._loop)
            raise
        return session

    def start(self, request: NewRequest | Flow[Any]) -> RequestFuture[Any]:
        """Submit a request, or an operation of several requests."""
        if self._forks != _forks:  # as `_check_process`, without a call
            self._check_process()
        future: RequestFuture[Any] = RequestFuture(self._callbacks)
        if type(request) is GeneratorType:
            with self._driver.lock:
                self._flows.start(request, future, fails_late_requests=True)
        else:
            self._driver.submit_threadsafe(request, future)  # type: ignore[arg-type]  # no Flow
        return future

    def call(self, request: NewRequest | Flow[Any]) -> Any:
        """Submit a request, or an operation of several requests, and wait for the outcome.

        A request goes to the server and back in this thread, if there is a stream to the server.

        Raises:
            KeeperError: the request failed.
        """
        # Inside a callback the core must not run: it could call the next callback.
        if isinstance(request, GeneratorType) or self._callbacks.is_here():
            return self.wait(self.start(request))
        self._check_process()
        future: RequestFuture[Any] = RequestFuture(self._callbacks)
        self._driver.call(request, future)  # type: ignore[arg-type]  # no Flow
        return self.wait(future)

    def wait(self, future: Future[T]) -> T:
        """Wait for a future of this session.

        Raises:
            KeeperError: the request failed.
        """
        future = cast(RequestFuture[T], future)
        if future.done():
            return future.result()
        self._driver.add_waiting_threads(1)
        try:
            return self._wait(future)
        finally:
            self._driver.add_waiting_threads(-1)

    def _wait(self, future: RequestFuture[T]) -> T:
        while True:
            try:
                return future.result(self._timeout_s + CORE_TIMEOUT_GRACE_S)
            except TimeoutError:
                if future.done():
                    raise  # the outcome is a TimeoutError
                # Without an outcome, an operation of several requests is still under way.
                if future.has_arrived():
                    break
                if self.state is ClientState.LOST:
                    raise SessionExpiredError("", "the session is over", definite=False) from None
        running = self._callbacks.current()
        detail = f"the answer waits behind a callback that does not return: {running}"
        raise OperationTimeoutError("", detail, definite=False)

    def run_flow(self, flow: Flow[T]) -> T:
        """Run an operation of a recipe, and wait for its result.

        Raises:
            RecipeError: as the recipe says.
            KeeperError: a request of the recipe failed.
        """
        future, task = self.begin_flow(flow)
        try:
            while isinstance(result := self.wait(future), CallInCaller):
                future = self.continue_flow(task, result)
        except BaseException as error:
            # After an interrupt no caller can release what the recipe acquires: cancel it.
            given_back = self.cancel_flow(task)
            if not isinstance(error, Exception):
                self._driver.add_waiting_threads(1)
                try:
                    given_back.result()
                finally:
                    self._driver.add_waiting_threads(-1)
            raise
        task.result_taken()
        return result

    def begin_flow(self, flow: Flow[T]) -> tuple[RequestFuture[T], Task]:
        """Run an operation of a recipe without waiting.

        If the outcome is a CallInCaller, `continue_flow` must follow; at the end the task's
        `result_taken`, or `cancel_flow`.
        """
        self._check_process()
        future: RequestFuture[T] = RequestFuture(self._callbacks)
        with self._driver.lock:
            return future, self._flows.start(flow, future)

    def continue_flow(self, task: Task, call: CallInCaller) -> RequestFuture[Any]:
        """Call the function that a flow asks for in this thread, and run the flow on."""
        value, error = call.call()
        future: RequestFuture[Any] = RequestFuture(self._callbacks)
        with self._driver.lock:
            task.caller_returned(future, value, error)
        return future

    def cancel_flow(self, task: Task) -> Future[bool]:
        """Cancel a task of `begin_flow`: nobody waits for its outcome any more.

        Return the future of `Task.when_given_back`.
        """
        given_back: Future[bool] = Future()
        given_back.set_running_or_notify_cancel()  # only the scheduler may end it
        with self._driver.lock:
            task.cancel()
            task.when_given_back(given_back.set_result)
        return given_back

    def close(self) -> None:
        """End the session after all submitted requests, and wait for that."""
        self._check_process()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._callbacks.stop()

    def close_soon(self) -> Future[Any]:
        """Begin to `close` in any thread. Return its future."""
        ending = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        ending.add_done_callback(lambda _: self._callbacks.stop())
        return ending

    def _call_user(self, call: Callable[[], object]) -> None:
        self._callbacks.put(call)

    async def _open(self) -> None:
        self._driver.start()
        await asyncio.shield(self._driver.opened)

    async def _close(self) -> None:
        await wait_cleaned_up(self._flows, self._driver)
        self._driver.close()
        await asyncio.shield(self._driver.finished)
