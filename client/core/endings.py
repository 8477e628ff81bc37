"""Fails requests that no server answers: refused, timed out, or cut off by the session's end.

Each caller is told once, and whether the operation certainly had no effect.
"""

from raykeeper.client.core.chroot import Chroot
from raykeeper.client.core.effects import CallWatchers, Effect, Fail, TimedOut
from raykeeper.client.core.outstanding import OutstandingRequests
from raykeeper.client.core.states import ClientState
from raykeeper.client.core.watch_tables import WatchTables
from raykeeper.client.core.watched_event import WatchedEvent
from raykeeper.zab.ids import ZERO, Millis
from raykeeper.znodes.errors import (
    ClosedError,
    KeeperError,
    NotReadOnlyError,
    OperationTimeoutError,
)
from raykeeper.znodes.replies import EventType, WriteReply

CLOSE_TOKEN = object()
"""The token of CloseSession; no caller waits for its reply."""


def fail_refused(outstanding: OutstandingRequests, chroot: Chroot) -> list[Effect]:
    """Fail the refused writes whose turn has come."""
    ends: list[Effect] = []
    while (waiting := outstanding.take_refused()) is not None:
        if waiting.token is not None:
            ends.append(Fail(waiting.token, NotReadOnlyError(chroot.strip(waiting.path))))
    return ends


def fail_timed_out(
    outstanding: OutstandingRequests, chroot: Chroot, detail: str, now: Millis
) -> list[Effect]:
    """Fail the requests that have timed out by now; `detail` says what holds them up."""
    ends: list[Effect] = []
    for waiting in outstanding.take_timed_out(now):
        path = chroot.strip(waiting.path)
        token = waiting.token
        if hasattr(token, "late"):
            # The token handles the outcome itself, whenever it comes.
            ends.append(TimedOut(token, OperationTimeoutError(path, detail, definite=False)))
            continue
        waiting.token = None
        definite = waiting.reply_type is not WriteReply
        ends.append(Fail(token, OperationTimeoutError(path, detail, definite=definite)))
    return ends


def fail_all(
    outstanding: OutstandingRequests,
    watchers: WatchTables,
    chroot: Chroot,
    cause: KeeperError | None,
) -> list[Effect]:
    """Fail all requests and end all watches: the session is over by `cause`, None if closed."""
    ends: list[Effect] = []
    for waiting in outstanding.take_all():
        if waiting.token is not None and waiting.token is not CLOSE_TOKEN:
            definite = (
                waiting.reply_type is not WriteReply
                or not outstanding.may_have_reached_server(waiting)
            )
            error = end_error(cause, chroot.strip(waiting.path), definite=definite)
            ends.append(Fail(waiting.token, error))
    for path, concerned in watchers.take_all().items():
        shown = chroot.strip(path)
        event = WatchedEvent(EventType.NONE, ClientState.LOST, shown, ZERO)
        ends.append(CallWatchers(concerned, event))
    return ends


def end_error(cause: KeeperError | None, path: str, *, definite: bool = True) -> KeeperError:
    """Return the error of a request that the end of the session leaves without a reply."""
    if cause is None:
        return ClosedError(path, "the client was closed", definite=definite)
    return type(cause)(path, cause.detail, definite=definite)
