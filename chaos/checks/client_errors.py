"""The errors that clients saw. Orderly faults, and losses of nodes without clients, cause none."""

from collections.abc import Iterator
from typing import Final

from raykeeper.chaos.checks.history import History, Operation, Refused, Session
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import CloseSession

STATE_CODES: Final = frozenset(
    {Code.NO_NODE, Code.NODE_EXISTS, Code.BAD_VERSION, Code.NOT_EMPTY, Code.NO_WATCHER}
)
"""Refusals that tell the state of a znode, which clients that compete must expect."""


def client_errors(history: History) -> Iterator[str]:
    """Yield each error that a client saw: no session, a session lost, no answer, a refusal.

    A refusal that tells the state of a znode is no error. The last request of a session may be a
    close whose answer the client does not await.
    """
    for session in history.sessions.values():
        name = f"{session.client}.{session.life}"
        if not session.session_id:
            yield f"error: no server took session {name}"
        elif _was_lost(session):
            yield f"error: session {name} was lost"
        for operation in session.operations:
            if isinstance(operation.call, CloseSession):
                continue
            if operation.result is None or _has_failed(operation):
                yield f"error: {operation}"


def _was_lost(session: Session) -> bool:
    is_closed = any(isinstance(op.call, CloseSession) for op in session.operations)
    return session.ended is not None and not is_closed


def _has_failed(operation: Operation) -> bool:
    return isinstance(operation.result, Refused) and operation.result.code not in STATE_CODES
