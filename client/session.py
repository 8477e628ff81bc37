"""One session of the blocking client: its driver on the shared loop, its dispatch thread.

Everything about threads is here; `client.py` is the API above it.
"""

import asyncio
import os
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, Self, TypeVar, cast

from raykeeper.client.callback_thread import CallbackThread
from raykeeper.client.clock import clock as client_clock
from raykeeper.client.core.client_core import ClientCore
from raykeeper.client.core.client_id import ClientId
from raykeeper.client.core.compound_operations import Rounds, run_rounds
from raykeeper.client.core.outstanding import NewRequest
from raykeeper.client.core.states import ClientState
from raykeeper.client.core.watched_event import WatchedEvent
from raykeeper.client.driver import Driver
from raykeeper.client.errors import OperationTimeoutError, SessionExpiredError, WrongContextError
from raykeeper.client.flows import Event, Flow, Scheduler, Task
from raykeeper.client.loop_thread import refuse_running_loop, shared_loop
from raykeeper.client.request_builder import RequestBuilder
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
"""How many forks lie between this process and the one that loaded the library. Asked with every
request, and the system call that tells a process its id takes as long as the rest of a request."""


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Session:
    """A session that is open, or was. Safe for any thread of the process that opened it."""

    def __init__(
        self,
        core: ClientCore,
        requests: RequestBuilder,
        options: SessionOptions,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
    ) -> None:
        """Use `open`."""
        self.requests = requests
        self.identity = options.identity
        """What it shows of its process."""
        self._core = core
        self._timeout_s = options.timeout_s
        self._loop = loop
        self._clock = clock
        self._forks = _forks
        self._callbacks = CallbackThread()
        self._listeners: list[Listener] = []
        self._driver: Driver
        self._flows: Scheduler

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
        core, asking = new_core(servers, options), new_request_builder(options)
        session = cls(core, asking, options, loop or shared_loop(), clock)
        opening = asyncio.run_coroutine_threadsafe(session._open(dialer), session._loop)
        try:
            opening.result()
        except BaseException:
            # An interrupt while it waits must not leave a session behind.
            asyncio.run_coroutine_threadsafe(session._close(), session._loop)
            raise
        return session

    @property
    def session_id(self) -> SessionId:
        """The id of the session, unique for ever; 0 while there was none yet, see `read_only`."""
        return self._core.session_id

    @property
    def client_id(self) -> ClientId:
        """What another handle needs to take the session over."""
        return self._core.client_id

    @property
    def ensemble_uuid(self) -> str:
        """Of the ensemble that the session is of."""
        return self._core.ensemble

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the background thread was kept from running."""
        return ClientState.LOST if self._core.is_lost(self._driver.now()) else self._core.state

    def is_lost(self) -> bool:
        """For recipes: whether the session is over, or may be by now."""
        return self.state is ClientState.LOST

    def now(self) -> Millis:
        """The time that the core is told."""
        return self._driver.now()

    def submit(self, ask: NewRequest) -> RequestFuture[Any]:
        """Submit a request.

        Raises:
            WrongContextError: after a fork.
        """
        self._check_process()
        reply: RequestFuture[Any] = RequestFuture(self._callbacks)
        self._driver.submit_threadsafe(ask, reply)
        return reply

    def run(self, rounds: Rounds) -> RequestFuture[Any]:
        """Submit an operation of several rounds.

        Raises:
            WrongContextError: after a fork.
        """
        self._check_process()
        reply: RequestFuture[Any] = RequestFuture(self._callbacks)
        run_rounds(rounds, self._driver.submit_threadsafe, reply)
        return reply

    def start(self, asked: NewRequest | Rounds) -> RequestFuture[Any]:
        """Submit a request, or an operation of several rounds.

        Raises:
            WrongContextError: after a fork.
        """
        return self.run(asked) if isinstance(asked, Generator) else self.submit(asked)

    def call(self, asked: NewRequest | Rounds) -> Any:
        """Submit a request, or an operation of several rounds, and wait for the outcome.

        A request goes to the server and back in this thread, if there is a stream to the server.

        Raises:
            KeeperError: the request failed.
            OperationTimeoutError: it is answered, but a callback before it does not return.
            WrongContextError: after a fork.
        """
        # In a callback the core must not be run: what it completes may be another callback.
        if isinstance(asked, Generator) or self._callbacks.is_here():
            return self.wait(self.start(asked))
        self._check_process()
        reply: RequestFuture[Any] = RequestFuture(self._callbacks)
        self._driver.call(asked, reply)
        return self.wait(reply)

    def wait(self, reply: Future[T]) -> T:
        """Wait for a reply of this session.

        Raises:
            KeeperError: the request failed.
            OperationTimeoutError: it is answered, but a callback before it does not return.
        """
        reply = cast(RequestFuture[T], reply)
        if reply.done():
            return reply.result()
        self._driver.add_waiting_threads(1)
        try:
            return self._wait(reply)
        finally:
            self._driver.add_waiting_threads(-1)

    def _wait(self, reply: RequestFuture[T]) -> T:
        while True:
            try:
                return reply.result(self._timeout_s + CORE_TIMEOUT_GRACE_S)
            except TimeoutError:
                if reply.done():
                    raise  # it is the outcome
                # No outcome by now means an operation of several rounds that goes on.
                if reply.has_arrived():
                    break
                if self.state is ClientState.LOST:
                    raise SessionExpiredError("", "the session is over", definite=False) from None
        running = self._callbacks.current()
        detail = f"the answer waits behind a callback that does not return: {running}"
        raise OperationTimeoutError("", detail, definite=False)

    def run_flow(self, flow: Flow[T]) -> T:
        """Run an operation of a recipe, and wait for the outcome.

        Raises:
            RecipeError: what the recipe says.
            KeeperError: a request of it failed.
            OperationTimeoutError: there is an outcome, but a callback before it does not return.
            WrongContextError: after a fork.
        """
        reply, run = self.begin_flow(flow)
        try:
            result = self.wait(reply)
        except BaseException:
            # An interrupt must not leave something held of which nobody knows.
            self.abandon_flow(run)
            raise
        run.result_taken()
        return result

    def begin_flow(self, flow: Flow[T]) -> tuple[RequestFuture[T], Task]:
        """Run an operation of a recipe without waiting: `result_taken`, or `abandon_flow`, must
        follow.

        Raises:
            WrongContextError: after a fork.
        """
        self._check_process()
        reply: RequestFuture[T] = RequestFuture(self._callbacks)
        with self._driver.lock:
            return reply, self._flows.start(flow, reply)

    def abandon_flow(self, run: Task) -> None:
        """Nobody waits for its outcome any more."""
        with self._driver.lock:
            run.cancel()

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called with each new state. It is removed when it returns True."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Do not call `listener` any more. Unknown ones are ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def close(self) -> None:
        """End the session after all that was submitted, and wait for that.

        Raises:
            WrongContextError: after a fork.
        """
        self._check_process()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._callbacks.stop()

    def has_ended(self) -> bool:
        """Whether nothing is left to close."""
        return self._core.state is ClientState.LOST

    def close_soon(self) -> Future[Any]:
        """Begin to `close` in any thread; the future of that."""
        ending = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        ending.add_done_callback(lambda _: self._callbacks.stop())
        return ending

    def watch_fired(self, watchers: list[Any], event: WatchedEvent) -> None:
        """For the driver: queue the calls of these watchers."""
        for watcher in watchers:
            if isinstance(watcher, Event):
                watcher.set(event)
            else:
                self._callbacks.put(partial(watcher, event))

    def state_changed(self, state: ClientState) -> None:
        """For the driver: queue the calls of the listeners."""
        if state is ClientState.LOST:
            self._flows.session_ended(self._core.end_error())
        elif state is not ClientState.SUSPENDED:
            self._flows.connected(read_only=state is ClientState.CONNECTED_READ_ONLY)
        for listener in tuple(self._listeners):
            self._callbacks.put(partial(self._call_listener, listener, state))

    def _call_listener(self, listener: Listener, state: ClientState) -> None:
        if listener(state) is True:
            self.remove_listener(listener)

    async def _open(self, dialer: Dialer) -> None:
        self._driver = Driver(self._core, dialer, self, self._loop, self._clock)
        self._flows = Scheduler(DriverHost(self._driver, self.requests, self._callbacks.put))
        self._driver.start()
        await asyncio.shield(self._driver.opened)

    async def _close(self) -> None:
        await wait_cleaned_up(self._flows, self._driver)
        self._driver.close()
        await asyncio.shield(self._driver.finished)

    def _check_process(self) -> None:
        if self._forks != _forks:
            raise WrongContextError(
                "this Client was made before a fork; a child process must connect() anew"
            )
