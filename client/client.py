"""The blocking client: safe for any thread, for drivers, tasks and ordinary actors.

All clients of a process keep their sessions on one background loop. Each client runs callbacks
(watches, listeners, callbacks of futures) on a thread of its own, in order with the replies
(client/request_future.py). For callbacks this means:

-   A reply that arrives while callbacks are queued shows after them. So do not hold a lock over a
    call when a callback takes the same lock: each would wait for the other until the timeout.
-   A call made inside a callback overtakes the callbacks queued behind it.

One session per handle: once it is LOST, every call raises SessionExpiredError; connect again.
(kazoo would open a new session by itself, and code that holds a lock might never notice.) A handle
does not survive a fork. A handle that is passed to another process opens a session of its own
there, at its first use.
"""

import threading
from collections.abc import Callable
from typing import Self, TypeVar

from raykeeper.client.call_forms import BlockingForm
from raykeeper.client.core.flows import Flow
from raykeeper.client.errors import ClosedError
from raykeeper.client.loop_thread import refuse_running_loop
from raykeeper.client.operations import CreateWithoutWaiting, Operations, WithoutWaiting
from raykeeper.client.recipe_methods import RecipeMethods
from raykeeper.client.recipes.recipe import Blocking
from raykeeper.client.session import BlockingSession
from raykeeper.client.session_objects import SessionObject
from raykeeper.client.transaction import BlockingTransaction

T = TypeVar("T")


class Client(BlockingForm, SessionObject, Operations[Blocking], RecipeMethods[Blocking]):
    """A handle of one session. Made by `connect`; docs/RECIPES.md says how callbacks are called."""

    def __init__(
        self,
        session: BlockingSession | None = None,
        reopen: Callable[[], BlockingSession] | None = None,
        place: str = "",
    ) -> None:
        """Use `connect`.

        Args:
            session: The session; None for a handle that was passed on.
            reopen: Opens the session of a handle that was passed on.
            place: The ensemble, and the path of its root in it, for `repr`.
        """
        assert session is not None or reopen is not None
        self._place = place
        self._session = session
        self._reopen = reopen
        self._lock = threading.Lock()

    _is_awaited = False

    create_async = CreateWithoutWaiting(Operations.create)
    """`create` without waiting."""
    ensure_path_async = WithoutWaiting(Operations.ensure_path)
    """`ensure_path` without waiting."""
    get_async = WithoutWaiting(Operations.get)
    """`get` without waiting."""
    set_async = WithoutWaiting(Operations.set)
    """`set` without waiting."""
    delete_async = WithoutWaiting(Operations.delete)
    """`delete` without waiting."""
    exists_async = WithoutWaiting(Operations.exists)
    """`exists` without waiting."""
    get_children_async = WithoutWaiting(Operations.get_children)
    """`get_children` without waiting."""
    get_many_async = WithoutWaiting(Operations.get_many)
    """`get_many` without waiting."""
    sync_async = WithoutWaiting(Operations.sync)
    """`sync` without waiting."""
    add_watch_async = WithoutWaiting(Operations.add_watch)
    """`add_watch` without waiting."""
    remove_watches_async = WithoutWaiting(Operations.remove_watches)
    """`remove_watches` without waiting."""
    get_acls_async = WithoutWaiting(Operations.get_acls)
    """`get_acls` without waiting."""
    set_acls_async = WithoutWaiting(Operations.set_acls)
    """`set_acls` without waiting."""
    add_auth_async = WithoutWaiting(Operations.add_auth)
    """`add_auth` without waiting for the reply."""
    who_am_i_async = WithoutWaiting(Operations.who_am_i)
    """`who_am_i` without waiting."""
    get_ephemerals_async = WithoutWaiting(Operations.get_ephemerals)
    """`get_ephemerals` without waiting."""
    get_all_children_number_async = WithoutWaiting(Operations.get_all_children_number)
    """`get_all_children_number` without waiting."""
    set_quota_async = WithoutWaiting(Operations.set_quota)
    """`set_quota` without waiting."""
    get_quota_async = WithoutWaiting(Operations.get_quota)
    """`get_quota` without waiting."""
    remove_quota_async = WithoutWaiting(Operations.remove_quota)
    """`remove_quota` without waiting."""
    get_config_async = WithoutWaiting(Operations.get_config)
    """`get_config` without waiting."""
    reconfig_async = WithoutWaiting(Operations.reconfig)
    """`reconfig` without waiting."""

    def transaction(self) -> BlockingTransaction:
        """Begin several operations as one: all or nothing. See client/transaction.py."""
        session = self._open_session()
        return BlockingTransaction(self, session.requests, session.start, session.wait)

    def close(self) -> None:
        """End the session after all requests made before; its ephemerals are deleted.

        If no server answers in time, the session ends by its timeout instead. A second call does
        nothing.

        Raises:
            WrongContextError: the caller runs in an event loop, or after a fork.
        """
        refuse_running_loop("close")
        with self._lock:
            self._reopen = None
            session = self._session
        if session is not None:
            session.close()

    def _repr_parts(self) -> tuple[str, ...]:
        if self._session is None:
            return self._place, "closed" if self._reopen is None else "no session yet"
        return self._place, self.state, f"session {self.session_id:#x}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        if self._reopen is None:
            raise TypeError("this Client was closed, or not made by connect(): do not pass it on")
        return Client, (None, self._reopen, self._place)

    def _run_flow(self, flow: Flow[T], name: str) -> T:
        """Run a flow, and wait for its result; see `FlowRunner`."""
        refuse_running_loop(name)
        return self._open_session().run_flow(flow)

    def _open_session(self) -> BlockingSession:
        if self._session is not None:
            return self._session
        refuse_running_loop("the first use of a Client that was passed on")
        with self._lock:
            if self._session is None:
                if self._reopen is None:
                    raise ClosedError("", "the client was closed")
                self._session = self._reopen()
            return self._session
