"""The blocking client: safe for any thread, for drivers, tasks and ordinary actors.

The session is kept on a background loop that all clients of the process share; callbacks (watches,
listeners, callbacks of futures) run on one dispatch thread per client, in order with the replies
(client/request_future.py). For callbacks this means:

-   A reply that arrives while callbacks are queued is shown after them. So do not hold a lock over
    a call when a callback takes the same lock: each would wait for the other until the timeout.
-   A call made inside a callback overtakes the callbacks queued behind it.

One session per handle: once it is LOST, every call raises SessionExpiredError (kazoo would open a
new session by itself, and code that holds a lock might never notice); connect again. A handle does
not survive a fork. One that is passed to another process opens a session of its own there, when it
is first used.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from raykeeper.client.arguments import Consistency
from raykeeper.client.blocking_access import BlockingAccess
from raykeeper.client.blocking_watches import BlockingWatches, WatchCallback
from raykeeper.client.core.client_id import ClientId
from raykeeper.client.core.states import ClientState
from raykeeper.client.errors import ClosedError, KeeperError
from raykeeper.client.flows import Flow
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.recipe_methods import RecipeMethods
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.client.request_builder import CreateOptions
from raykeeper.client.session import Listener, Session
from raykeeper.client.transaction import BlockingTransaction
from raykeeper.zab.ids import Millis
from raykeeper.znodes.acl import Acl
from raykeeper.znodes.requests import ANY_VERSION, SessionId
from raykeeper.znodes.stat import Stat

T = TypeVar("T")


class Client(BlockingWatches, BlockingAccess, RecipeMethods[Blocking]):
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
        """The id of the session, unique for ever; 0 while there was none yet, see `read_only`."""
        return self._open_session().session_id

    @property
    def client_id(self) -> ClientId:
        """What another `connect` needs to take the session over. Keep it secret."""
        return self._open_session().client_id

    @property
    def ensemble_uuid(self) -> str:
        """What names the ensemble for ever; it salts the keys of the scheme `scrypt`."""
        return self._open_session().ensemble_uuid

    @property
    def state(self) -> ClientState:
        """The state now. It is LOST on time even if the background thread was kept from running."""
        return self._open_session().state

    @overload
    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[False] = False,
        **options: Unpack[CreateOptions],
    ) -> str: ...

    @overload
    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[True],
        **options: Unpack[CreateOptions],
    ) -> tuple[str, Stat]: ...

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: bool = False,
        **options: Unpack[CreateOptions],
    ) -> str | tuple[str, Stat]:
        """Create a znode and return its real path, which a sequential one gets from the server.

        Args:
            path: Of the znode; of a sequential one, the prefix of its path.
            value: Its value.
            makepath: Create missing parents too, with the same ACL. Not atomic.
            include_data: Return path and Stat.
            options: `ephemeral`: delete it when this session ends. `sequence`: append a number
                that grows with every child of the parent. `container`: delete it once its last
                child is gone. `ttl_s`: delete it when for so many seconds it has had no children
                and no new value. `acl`: who may do what with it (client/access.py); without one
                it is the default of the handle.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed, or its `auth` stands for nobody.
            NodeExistsError: the znode exists.
            NoNodeError: the parent does not exist.
            NoChildrenForEphemeralsError: the parent is ephemeral.
            NoAuthError: the parent does not grant CREATE.
            QuotaExceededError: a hard quota of a subtree around it would be exceeded.
            KeeperError: as for every call: SessionExpiredError, OperationTimeoutError, …
        """
        refuse_running_loop("create")
        live = self._open_session()
        asked = live.requests.create(path, value, makepath, include_data, options)
        result: str | tuple[str, Stat] = live.call(asked)
        return result

    @overload
    def create_async(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[False] = False,
        **options: Unpack[CreateOptions],
    ) -> Future[str]: ...

    @overload
    def create_async(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: Literal[True],
        **options: Unpack[CreateOptions],
    ) -> Future[tuple[str, Stat]]: ...

    def create_async(
        self,
        path: str,
        value: bytes = b"",
        *,
        makepath: bool = False,
        include_data: bool = False,
        **options: Unpack[CreateOptions],
    ) -> Future[Any]:
        """`create` without waiting.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed; nothing was sent.
        """
        live = self._open_session()
        return live.start(live.requests.create(path, value, makepath, include_data, options))

    def ensure_path(self, path: str, acl: Iterable[Acl] | None = None) -> None:
        """Create a persistent znode, and those above it, unless it is there.

        Args:
            path: Of the znode.
            acl: Of those that are created.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed; nothing was sent.
            KeeperError: as for `create`; it is no error that the znode exists.
        """
        refuse_running_loop("ensure_path")
        self._open_session().wait(self.ensure_path_async(path, acl))

    def ensure_path_async(self, path: str, acl: Iterable[Acl] | None = None) -> Future[None]:
        """`ensure_path` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            InvalidAclError: the ACL is malformed; nothing was sent.
        """
        live = self._open_session()
        return live.run(live.requests.ensure_path(path, acl))

    def get(
        self, path: str, watch: WatchCallback | None = None, *, consistency: Consistency = "session"
    ) -> tuple[bytes, Stat]:
        """Read value and Stat; `watch` is called once, when either changes or the znode goes.

        Args:
            path: Of the znode.
            watch: Called once, when the value changes or the znode goes.
            consistency: "session": what the server has, never older than what this handle has
                seen. "linearizable": all that was committed before the call, for a round trip to
                the leader.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist; no watch is set.
            NoAuthError: it does not grant READ.
            KeeperError: as for every call.
        """
        refuse_running_loop("get")
        live = self._open_session()
        answer: tuple[bytes, Stat] = live.call(live.requests.get(path, watch, consistency))
        return answer

    def get_async(
        self, path: str, watch: WatchCallback | None = None, *, consistency: Consistency = "session"
    ) -> Future[tuple[bytes, Stat]]:
        """`get` without waiting.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.get(path, watch, consistency))

    def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the value if the znode is at `version`, or at any (-1).

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist.
            NoAuthError: it does not grant WRITE.
            BadVersionError: it is at another version.
            QuotaExceededError: a hard quota of a subtree around it would be exceeded.
            KeeperError: as for every call.
        """
        refuse_running_loop("set")
        live = self._open_session()
        answer: Stat = live.call(live.requests.set(path, value, version))
        return answer

    def set_async(self, path: str, value: bytes, version: int = ANY_VERSION) -> Future[Stat]:
        """`set` without waiting.

        Raises:
            BadArgumentsError: path, value or version is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.set(path, value, version))

    def delete(self, path: str, version: int = ANY_VERSION, recursive: bool = False) -> None:
        """Delete the znode if it is at `version`, or at any (-1).

        Args:
            path: Of the znode.
            version: That it must have.
            recursive: Delete everything below it too, also what others create meanwhile. Not
                atomic: a transaction for each znode. Nothing there is no error then.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist.
            NoAuthError: its parent does not grant DELETE.
            BadVersionError: it is at another version.
            NotEmptyError: it has children.
            KeeperError: as for every call.
        """
        refuse_running_loop("delete")
        live = self._open_session()
        live.call(live.requests.delete(path, version, recursive))

    def delete_async(
        self, path: str, version: int = ANY_VERSION, recursive: bool = False
    ) -> Future[None]:
        """`delete` without waiting.

        Raises:
            BadArgumentsError: path or version is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.start(live.requests.delete(path, version, recursive))

    def exists(
        self, path: str, watch: WatchCallback | None = None, *, consistency: Consistency = "session"
    ) -> Stat | None:
        """The Stat of the znode, or None; `watch` is called once, when that changes.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            NoAuthError: the znode does not grant READ.
            KeeperError: as for every call.
        """
        refuse_running_loop("exists")
        live = self._open_session()
        answer: Stat | None = live.call(live.requests.exists(path, watch, consistency))
        return answer

    def exists_async(
        self, path: str, watch: WatchCallback | None = None, *, consistency: Consistency = "session"
    ) -> Future[Stat | None]:
        """`exists` without waiting.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.exists(path, watch, consistency))

    def get_children(
        self, path: str, watch: WatchCallback | None = None, *, consistency: Consistency = "session"
    ) -> list[str]:
        """The names of the children, in no order; `watch` is called once, when they change.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
            NoNodeError: the znode does not exist; no watch is set.
            NoAuthError: it does not grant READ.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_children")
        live = self._open_session()
        answer: list[str] = live.call(live.requests.get_children(path, watch, consistency))
        return answer

    def get_children_async(
        self, path: str, watch: WatchCallback | None = None, *, consistency: Consistency = "session"
    ) -> Future[list[str]]:
        """`get_children` without waiting.

        Raises:
            BadArgumentsError: an argument is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.get_children(path, watch, consistency))

    def get_many(self, paths: Iterable[str]) -> list[tuple[bytes, Stat] | KeeperError]:
        """Read value and Stat of several znodes, all at one moment: of each those, or its error.

        Raises:
            BadArgumentsError: a path is not acceptable, or there are too many; nothing was sent.
            KeeperError: as for every call.
        """
        refuse_running_loop("get_many")
        return self._open_session().wait(self.get_many_async(paths))

    def get_many_async(
        self, paths: Iterable[str]
    ) -> Future[list[tuple[bytes, Stat] | KeeperError]]:
        """`get_many` without waiting.

        Raises:
            BadArgumentsError: a path is not acceptable, or there are too many; nothing was sent.
        """
        live = self._open_session()
        return live.run(live.requests.get_many(paths))

    def transaction(self) -> BlockingTransaction:
        """Several operations as one: all of them or none. See client/transaction.py."""
        live = self._open_session()
        return BlockingTransaction(live.requests, live.run, live.wait)

    def sync(self, path: str = "/") -> None:
        """Wait until the server has everything that was committed when it got this request.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
            KeeperError: as for every call.
        """
        refuse_running_loop("sync")
        live = self._open_session()
        live.call(live.requests.sync(path))

    def sync_async(self, path: str = "/") -> Future[None]:
        """`sync` without waiting.

        Raises:
            BadArgumentsError: the path is not acceptable; nothing was sent.
        """
        live = self._open_session()
        return live.submit(live.requests.sync(path))

    def _run_flow(self, flow: Flow[T], name: str) -> T:
        """Run an operation, and wait for the outcome; see `FlowRunner`."""
        refuse_running_loop(name)
        return self._open_session().run_flow(flow)

    def _is_lost(self) -> bool:
        """Whether the session is over, or may be by now."""
        return self._open_session().is_lost()

    def _identity(self) -> bytes:
        """What its session shows of this process."""
        return self._open_session().identity

    def _now(self) -> Millis:
        """The time of this client, monotonic."""
        return self._open_session().now()

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called with each new state. It is removed when it returns True."""
        self._open_session().add_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Do not call `listener` any more. Unknown ones are ignored."""
        self._open_session().remove_listener(listener)

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

    def _open_session(self) -> Session:
        if self._session is not None:
            return self._session
        refuse_running_loop("the first use of a Client that was passed on")
        with self._lock:
            if self._session is None:
                if self._reopen is None:
                    raise ClosedError("", "the client was closed")
                self._session = self._reopen()
            return self._session
