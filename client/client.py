"""The blocking client: safe for any thread, for drivers, tasks and ordinary actors.

The session is kept on a background loop that all clients of the process share; callbacks (watches,
listeners, callbacks of futures) run on one dispatch thread per client, in order with the replies
(client/reply.py). For callbacks this means:

-   A reply that arrives while callbacks are queued is shown after them. So do not hold a lock over
    a call when a callback takes the same lock: each would wait for the other until the timeout.
-   A call made inside a callback overtakes the callbacks queued behind it.

One session per handle: once it is LOST, every call raises SessionExpiredError (kazoo would open a
new session by itself, and code that holds a lock might never notice); connect again. A handle does
not survive a fork. One that is passed to another process opens a session of its own there, when it
is first used.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from raykeeper.client import arguments
from raykeeper.client.errors import ConnectionLossError
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.rounds import create_with_parents, delete_with_children
from raykeeper.client.session import Listener, Session
from raykeeper.client.states import ClientState
from raykeeper.client.watched_event import WatchedEvent
from raykeeper.znodes.requests import (
    ANY_VERSION,
    Exists,
    GetChildren,
    GetData,
    SessionId,
    Sync,
)
from raykeeper.znodes.stat import Stat

Watch = Callable[[WatchedEvent], object]


class Client:
    """A handle of one session. Made by `connect`; see the module for what callbacks may rely on."""

    def __init__(
        self, session: Session | None = None, reopen: Callable[[], Session] | None = None
    ) -> None:
        """Use `connect`. `reopen` opens the session of a handle that was passed on."""
        assert session is not None or reopen is not None
        self._session = session
        self._reopen = reopen
        self._lock = threading.Lock()

    @property
    def session_id(self) -> SessionId:
        """The id of the session, unique for ever."""
        return self._live().session_id

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the background thread was kept from running."""
        return self._live().state

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
        return self._live().wait(
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
            bytes_max=self._live().value_bytes_max,
        )
        if makepath:
            return self._live().run(create_with_parents(creation))
        return self._live().submit(creation)

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """Read value and Stat; `watch` is called once, when either changes or the znode goes.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist; no watch is set.
            KeeperError: as for every call.
        """
        refuse_running_loop("get")
        return self._live().wait(self.get_async(path, watch))

    def get_async(self, path: str, watch: Watch | None = None) -> Future[tuple[bytes, Stat]]:
        """`get` without waiting.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._live().submit(arguments.query(GetData, path, watch))

    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the value if the znode is at `version`, or at any (-1).

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist.
            BadVersionError: it is at another version.
            KeeperError: as for every call.
        """
        refuse_running_loop("set")
        return self._live().wait(self.set_async(path, value, version))

    def set_async(self, path: str, value: bytes, version: int = ANY_VERSION) -> Future[Stat]:
        """`set` without waiting.

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
        """
        return self._live().submit(
            arguments.setting(path, value, version, bytes_max=self._live().value_bytes_max)
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
        self._live().wait(self.delete_async(path, version, recursive))

    def delete_async(
        self, path: str, version: int = ANY_VERSION, recursive: bool = False
    ) -> Future[None]:
        """`delete` without waiting.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
        """
        deletion = arguments.deletion(path, version)
        if recursive:
            return self._live().run(delete_with_children(deletion))
        return self._live().submit(deletion)

    def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The Stat of the znode, or None; `watch` is called once, when that changes.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
            KeeperError: as for every call.
        """
        refuse_running_loop("exists")
        return self._live().wait(self.exists_async(path, watch))

    def exists_async(self, path: str, watch: Watch | None = None) -> Future[Stat | None]:
        """`exists` without waiting.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._live().submit(arguments.query(Exists, path, watch))

    def get_children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of the children, in no order; `watch` is called once, when they change.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist; no watch is set.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_children")
        return self._live().wait(self.get_children_async(path, watch))

    def get_children_async(self, path: str, watch: Watch | None = None) -> Future[list[str]]:
        """`get_children` without waiting.

        Raises:
            BadArgumentsError: path or watch is not acceptable; nothing was sent.
        """
        return self._live().submit(arguments.query(GetChildren, path, watch))

    def sync(self, path: str = "/") -> None:
        """Wait until the server has everything that was committed when it got this request.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            KeeperError: as for every call.
        """
        refuse_running_loop("sync")
        self._live().wait(self.sync_async(path))

    def sync_async(self, path: str = "/") -> Future[None]:
        """`sync` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        return self._live().submit(arguments.query(Sync, path))

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called with each new state. It is removed when it returns True."""
        self._live().add_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Do not call `listener` any more. Unknown ones are ignored."""
        self._live().remove_listener(listener)

    def close(self) -> None:
        """End the session after all requests made before; its ephemerals go. Again: nothing.

        If no server answers in time, the session ends by its timeout instead.

        Raises:
            WrongContextError: the caller runs in an event loop, or after a fork.
        """
        refuse_running_loop("close")
        with self._lock:
            self._reopen = None
            session = self._session
        if session is not None:
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._reopen is None:
            raise TypeError("this Client was closed, or not made by connect(): do not pass it on")
        return Client, (None, self._reopen)

    def _live(self) -> Session:
        if self._session is not None:
            return self._session
        refuse_running_loop("the first use of a Client that was passed on")
        with self._lock:
            if self._session is None:
                if self._reopen is None:
                    raise ConnectionLossError("", "the handle is closed")
                self._session = self._reopen()
            return self._session
