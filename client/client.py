"""The blocking client: safe for any thread, for drivers, tasks and ordinary actors.

The session is kept on a background loop that all clients of the process share; callbacks (watches,
listeners, callbacks of futures) run on one dispatch thread per client, in order with the replies
(client/reply.py). For callbacks this means:

-   A reply that arrives while callbacks are queued is shown after them. So do not hold a lock over
    a call when a callback takes the same lock: each would wait for the other until the timeout.
-   A call made inside a callback overtakes the callbacks queued behind it.

One session per handle: once it is LOST, every call raises SessionExpiredError (kazoo would open a
new session by itself, and code that holds a lock might never notice); connect again. A handle
does not survive a fork. One that is passed to another process connects there anew.
"""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from raykeeper.client import arguments
from raykeeper.client.core import ClientCore
from raykeeper.client.dispatch import Dispatch
from raykeeper.client.driver import Driver
from raykeeper.client.errors import OperationTimeoutError, WrongContextError
from raykeeper.client.loop_thread import refuse_running_loop, shared_loop
from raykeeper.client.opening import VALUE_BYTES_MAX, new_core
from raykeeper.client.outstanding import Ask
from raykeeper.client.reply import Reply
from raykeeper.client.rounds import (
    Rounds,
    create_with_parents,
    delete_with_children,
    run_rounds,
)
from raykeeper.client.states import ClientState
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.links.contract import Dialer
from raykeeper.zab.ids import Millis, ServerId
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Exists,
    GetChildren,
    GetData,
    SessionId,
    Sync,
)
from raykeeper.znodes.stat import Stat

PATIENCE_S = 1.0  # beyond the core's own timeout, which should come first

T = TypeVar("T")
Watch = Callable[[WatchedEvent], object]
Listener = Callable[[ClientState], object]


class Client:
    """A handle of one session. Made by `connect`; see the module for what callbacks may rely on."""

    def __init__(
        self,
        core: ClientCore,
        *,
        timeout_s: float,
        value_bytes_max: int = VALUE_BYTES_MAX,
        reopen: Callable[[], "Client"] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use `connect`. `reopen` is what a pickled handle does where it arrives."""
        self._core = core
        self._timeout_s = timeout_s
        self._value_bytes_max = value_bytes_max
        self._reopen = reopen
        self._loop = loop or shared_loop()
        self._clock = clock
        self._pid = os.getpid()
        self._dispatch = Dispatch()
        self._listeners: list[Listener] = []
        self._driver: Driver

    @classmethod
    def open(
        cls,
        servers: list[ServerId],
        dialer: Dialer,
        *,
        session_timeout_s: float,
        timeout_s: float,
        value_bytes_max: int = VALUE_BYTES_MAX,
        reopen: Callable[[], "Client"] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """Open a session with the ensemble of these servers.

        Raises:
            BadArgumentsError: a span of time makes no sense.
            ConnectionLossError: no server took the session within `timeout_s`; says why.
            WrongContextError: the caller runs in an event loop, which this would block.
        """
        refuse_running_loop("connect")
        core = new_core(servers, session_timeout_s, timeout_s)
        client = cls(
            core,
            timeout_s=timeout_s,
            value_bytes_max=value_bytes_max,
            reopen=reopen,
            loop=loop,
            clock=clock,
        )
        opening = asyncio.run_coroutine_threadsafe(client._open(dialer), client._loop)
        try:
            opening.result()
        except BaseException:
            # An interrupt while it waits must not leave a session behind.
            asyncio.run_coroutine_threadsafe(client._close(), client._loop)
            raise
        return client

    @property
    def session_id(self) -> SessionId:
        """The id of the session, unique for ever."""
        return self._core.session_id

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the background thread was kept from running."""
        if self._core.is_lost(Millis(int(self._clock() * 1000))):
            return ClientState.LOST
        return self._core.state

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> str:
        """Create a znode and return its real path, which a sequential one gets from the server.

        Args:
            path: Of the znode; of a sequential one, the prefix of its path.
            value: Its value.
            ephemeral: Delete it when this session ends.
            sequence: Append a number that grows with every child of the parent.
            makepath: Create missing parents too. Not atomic.

        Raises:
            BadArgumentsError: path or value is not acceptable; nothing was sent.
            NodeExistsError: the znode exists.
            NoNodeError: the parent does not exist.
            NoChildrenForEphemeralsError: the parent is ephemeral.
            KeeperError: as for every call: SessionExpiredError, OperationTimeoutError, …
        """
        refuse_running_loop("create")
        return self._wait(
            self.create_async(
                path, value, ephemeral=ephemeral, sequence=sequence, makepath=makepath
            )
        )

    def create_async(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
    ) -> Future[str]:
        """`create` without waiting.

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

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Read value and Stat; `watch` is called once, when either changes or the znode goes.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist; no watch is set.
            KeeperError: as for every call.
        """
        refuse_running_loop("get")
        return self._wait(self.get_async(path, watch))

    def get_async(self, path: str, watch: Watch | None = None) -> Future[tuple[bytes, Stat]]:
        """`get` without waiting.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(GetData, path, watch))

    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the value if the znode is at `version`, or at any (-1).

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist.
            BadVersionError: it is at another version.
            KeeperError: as for every call.
        """
        refuse_running_loop("set")
        return self._wait(self.set_async(path, value, version))

    def set_async(self, path: str, value: bytes, version: int = ANY_VERSION) -> Future[Stat]:
        """`set` without waiting.

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
        """
        return self._submit(
            arguments.setting(path, value, version, bytes_max=self._value_bytes_max)
        )

    def delete(self, path: str, version: int = ANY_VERSION, recursive: bool = False) -> None:
        """Delete the znode if it is at `version`, or at any (-1).

        Args:
            path: Of the znode.
            version: That it must have.
            recursive: Delete everything below it too. Not atomic; nothing there is no error then.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist.
            BadVersionError: it is at another version.
            NotEmptyError: it has children.
            KeeperError: as for every call.
        """
        refuse_running_loop("delete")
        self._wait(self.delete_async(path, version, recursive))

    def delete_async(
        self, path: str, version: int = ANY_VERSION, recursive: bool = False
    ) -> Future[None]:
        """`delete` without waiting.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
        """
        deletion = arguments.deletion(path, version)
        if recursive:
            return self._run(delete_with_children(deletion))
        return self._submit(deletion)

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The Stat of the znode, or None; `watch` is called once, when that changes.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
            KeeperError: as for every call.
        """
        refuse_running_loop("exists")
        return self._wait(self.exists_async(path, watch))

    def exists_async(self, path: str, watch: Watch | None = None) -> Future[Stat | None]:
        """`exists` without waiting.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(Exists, path, watch))

    def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of the children, in no order; `watch` is called once, when they change.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist; no watch is set.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_children")
        return self._wait(self.get_children_async(path, watch))

    def get_children_async(self, path: str, watch: Watch | None = None) -> Future[list[str]]:
        """`get_children` without waiting.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(GetChildren, path, watch))

    def sync(self, path: str = "/") -> None:
        """Wait until the server has everything that was committed when it got this request.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            KeeperError: as for every call.
        """
        refuse_running_loop("sync")
        self._wait(self.sync_async(path))

    def sync_async(self, path: str = "/") -> Future[None]:
        """`sync` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        return self._submit(arguments.query(Sync, path))

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called with each new state. It is removed when it returns True."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Do not call `listener` any more. Unknown ones are ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def close(self) -> None:
        """End the session after all requests made before; its ephemerals go. Again: nothing.

        If no server answers in time, the session ends by its timeout instead.

        Raises:
            WrongContextError: the caller runs in an event loop, or after a fork.
        """
        refuse_running_loop("close")
        self._check_process()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._dispatch.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[[], "Client"], tuple[()]]:
        if self._reopen is None:
            raise TypeError("this Client was not made by connect(), so it cannot be passed on")
        return self._reopen, ()

    def watch_fired(self, watchers: list[Any], event: WatchedEvent) -> None:
        """For the driver: queue the calls of these watchers."""
        for watcher in watchers:
            self._dispatch.put(partial(watcher, event))

    def state_changed(self, state: ClientState) -> None:
        """For the driver: queue the calls of the listeners."""
        for listener in tuple(self._listeners):
            self._dispatch.put(partial(self._tell, listener, state))

    def _tell(self, listener: Listener, state: ClientState) -> None:
        if listener(state) is True:
            self.remove_listener(listener)

    async def _open(self, dialer: Dialer) -> None:
        self._driver = Driver(self._core, dialer, self, self._loop, self._clock)
        self._driver.start()
        await asyncio.shield(self._driver.opened)

    async def _close(self) -> None:
        self._driver.close()
        await asyncio.shield(self._driver.finished)

    def _submit(self, ask: Ask) -> Reply[Any]:
        self._check_process()
        reply: Reply[Any] = Reply(self._dispatch)
        self._driver.submit_threadsafe(ask, reply)
        return reply

    def _run(self, rounds: Rounds) -> Reply[Any]:
        self._check_process()
        reply: Reply[Any] = Reply(self._dispatch)
        run_rounds(rounds, self._driver.submit_threadsafe, reply)
        return reply

    def _wait(self, reply: Future[T]) -> T:
        reply = cast(Reply[T], reply)
        while True:
            try:
                return reply.result(self._timeout_s + PATIENCE_S)
            except TimeoutError:
                # No outcome by now means an operation of several rounds that goes on.
                if reply.has_arrived():
                    break
        running = self._dispatch.current()
        detail = f"the answer waits behind a callback that does not return: {running}"
        raise OperationTimeoutError("", detail, definite=False)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise WrongContextError(
                "this Client was made before a fork; a child process must connect() anew"
            )
