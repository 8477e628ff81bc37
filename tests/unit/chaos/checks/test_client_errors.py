"""What counts as an error of a client."""

from collections.abc import Sequence

import pytest

from raykeeper.chaos.checks.client_errors import client_errors
from raykeeper.chaos.checks.history import (
    Called,
    History,
    Ok,
    Read,
    ReadKind,
    Record,
    Refused,
    Result,
    Returned,
    SessionBegan,
    SessionEnded,
    Unknown,
)
from raykeeper.znodes.errors import Code
from raykeeper.znodes.requests import CloseSession, SessionId, SetData

LOOK = Read("/", ReadKind.CHILDREN)
WRITE = SetData("/x", b"v", -1)
SILENT = "[1, ?] a.1 #1 set /x 'v' at version -1 -> unknown"


def session(*calls: tuple[SetData | Read | CloseSession, Result | None]) -> list[Record]:
    """One session with these calls and their answers."""
    records: list[Record] = [SessionBegan("a", 1, 0, SessionId(7))]
    for number, (call, result) in enumerate(calls, 1):
        records.append(Called("a", 1, number, number, call))
        if result is not None:
            records.append(Returned("a", 1, number, number, result))
    return records


@pytest.mark.parametrize(
    ("records", "errors"),
    [
        # What the load must expect is no error.
        (session((WRITE, Ok()), (LOOK, Ok()), (CloseSession(), Ok())), []),
        (session((WRITE, Refused(Code.NO_NODE)), (WRITE, Refused(Code.BAD_VERSION))), []),
        (session((WRITE, Refused(Code.NODE_EXISTS))), []),
        # A close that nobody heard is none either, and its session is not lost.
        ([*session((CloseSession(), None)), SessionEnded("a", 1, 1, 9)], []),
        # No answer, an answer that says nothing, and a refusal.
        (session((WRITE, None)), [f"error: {SILENT}"]),
        (
            session((WRITE, Unknown(Code.CONNECTION_LOSS))),
            [f"error: {SILENT} (CONNECTION_LOSS)"],
        ),
        (
            session((LOOK, Refused(Code.SESSION_EXPIRED))),
            ["error: [1, 1] a.1 #1 children / -> SESSION_EXPIRED"],
        ),
        # No session, and one that is over before its client ends it.
        ([SessionBegan("a", 1, 0)], ["error: no server took session a.1"]),
        ([*session((WRITE, Ok())), SessionEnded("a", 1, 1)], ["error: session a.1 was lost"]),
    ],
)
def test_errors_of_clients(records: Sequence[Record], errors: list[str]) -> None:
    assert list(client_errors(History(records))) == errors
