"""A session of the blocking client that records every request, answer and watch event.

Invariants: a request is recorded before it is submitted, and only if the handle was not LOST at a
moment after the recorded time: so at the time of every request the client believed that it had its
session. Answers and watch events are recorded on the client's dispatch thread, which calls back
for them, so a file has them in the order in which the client learned them.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from raykeeper.chaos.checks.history import (
    Call,
    Called,
    Fired,
    Ok,
    Read,
    ReadKind,
    Result,
    Returned,
    SessionBegan,
    SessionEnded,
    Unknown,
    result_of_error,
)
from raykeeper.chaos.history_file import HistoryFile
from raykeeper.client import Client, ClientState, WatchedEvent
from raykeeper.client.errors import ConnectionLossError, KeeperError
from raykeeper.znodes.errors import Code
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import CloseSession, Create, CreateMode, Delete, SetData

OnResult = Callable[[Call, Ok], None]


def now() -> int:
    """Return nanoseconds of the clock that all processes of a machine share."""
    return time.monotonic_ns()


class RecordedSession:
    """One session of a client. Only one thread may submit calls."""

    def __init__(
        self,
        file: HistoryFile,
        name: str,
        life: int,
        *,
        timeout_s: float,
        window: int = 1,
        learned: OnResult | None = None,
    ) -> None:
        """Record into `file`, with at most `window` unanswered requests.

        `timeout_s` is the session timeout; `learned` is called with every successful result.
        """
        self._file = file
        self._name = name
        self._life = life
        self._timeout_ns = int(timeout_s * 1e9)
        self._window = threading.Semaphore(window)
        self._learned = learned or (lambda call, result: None)
        self._number = 0
        self._believed_at = now()
        self._client: Client | None = None

    def open(self, connect: Callable[[], Client]) -> bool:
        """Open the session; False when no server took it in time."""
        self._file.add(SessionBegan(self._name, self._life, now()))
        try:
            self._client = connect()
        except ConnectionLossError:
            return False
        began = SessionBegan(self._name, self._life, now(), self._client.session_id)
        self._file.add(began)
        return True

    def submit(self, call: Call) -> "Future[Result] | None":
        """Submit a request when the window has room; return None when the session is over."""
        self._window.acquire()
        at = now()
        if self._client is None or self._client.state is ClientState.LOST:
            self._window.release()
            return None
        self._believed_at = at
        self._number += 1
        self._file.add(Called(self._name, self._life, self._number, at, call))
        told: Future[Result] = Future()
        number = self._number
        sync: Future[Any] | None = None
        try:
            if isinstance(call, Read) and call.is_synced:
                sync = self._client.sync_async(call.path)
            future, result_of = _begin(self._client, call, self._fired)
        except KeeperError as error:  # a malformed request, which is a bug of the load
            raise AssertionError(f"{call} was refused by the client") from error

        def answered(_: object) -> None:
            """Record the answer, on the dispatch thread."""
            result = _result(sync, future, result_of)
            self._file.add(Returned(self._name, self._life, number, now(), result))
            if isinstance(result, Ok):
                self._learned(call, result)
            self._window.release()
            told.set_result(result)

        future.add_done_callback(answered)
        return told

    def call(self, call: Call) -> Result | None:
        """Submit a request and wait for its answer; return None when the session is over."""
        told = self.submit(call)
        return None if told is None else told.result()

    def end(self) -> None:
        """Close the session, which may be LOST already.

        The client does not learn whether its close was answered. The close was certainly answered
        if it took much less time than the client would wait for the answer, and than the session
        would live without a heartbeat.
        """
        if self._client is None:
            return
        heard = self.call(Read("/", ReadKind.CHILDREN))
        asked, at = self._believed_at, now()
        if heard is None or self._client.state is ClientState.LOST:
            self._file.add(SessionEnded(self._name, self._life, self._believed_at))
            self._client.close()
            return
        number = self._number + 1
        self._file.add(Called(self._name, self._life, number, at, CloseSession()))
        self._client.close()
        closed = now()
        is_answered = isinstance(heard, Ok) and closed - asked < self._timeout_ns // 2
        result = Ok() if is_answered else Unknown(Code.CONNECTION_LOSS)
        self._file.add(Returned(self._name, self._life, number, closed, result))
        if not is_answered:
            self._file.add(SessionEnded(self._name, self._life, at))

    def _fired(self, event: WatchedEvent) -> None:
        if event.type is not EventType.NONE:
            self._file.add(Fired(self._name, self._life, now(), event.type, event.path, event.zxid))


def _begin(
    client: Client, call: Call, fired: Callable[[WatchedEvent], None]
) -> tuple[Future[Any], Callable[[Any], Ok]]:
    """Send a request. Return its future, and the function that makes a result of its answer."""
    match call:
        case Create():
            creation = client.create_async(
                call.path,
                call.value or b"",
                ephemeral=bool(call.flags & CreateMode.EPHEMERAL),
                sequence=bool(call.flags & CreateMode.SEQUENTIAL),
            )
            return creation, lambda path: Ok(path=path)
        case SetData():
            setting = client.set_async(call.path, call.value or b"", call.version)
            return setting, lambda stat: Ok(zxid=stat.mzxid, stat=stat)
        case Delete():
            return client.delete_async(call.path, call.version), lambda _: Ok()
        case Read():
            # A new object for each watch, so that each fires once.
            watch = partial(fired) if call.is_watched else None
            match call.kind:
                case ReadKind.GET:
                    reading = client.get_async(call.path, watch)
                    return reading, lambda answer: Ok(value=answer[0], stat=answer[1])
                case ReadKind.CHILDREN:
                    listing = client.get_children_async(call.path, watch)
                    return listing, lambda names: Ok(children=names)
                case ReadKind.EXISTS:
                    look = client.exists_async(call.path, watch)
                    return look, lambda stat: Ok(stat=stat)  # None: the znode is missing
        case _:
            raise AssertionError(f"{call} cannot be submitted")


def _result(
    sync: Future[Any] | None, future: Future[Any], result_of: Callable[[Any], Ok]
) -> Result:
    """Return the result of a request. A read whose sync failed counts as unknown."""
    if sync is not None and sync.exception() is not None:
        return Unknown(Code.CONNECTION_LOSS)
    error = future.exception()
    if error is None:
        return result_of(future.result())
    assert isinstance(error, KeeperError), error
    return result_of_error(error)
