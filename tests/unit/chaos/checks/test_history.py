"""The history: requests and their answers, contradictions, and the texts for a person."""

import pytest

from raykeeper.chaos.checks.history import (
    Call,
    Called,
    Fired,
    History,
    HistoryError,
    MultiCall,
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
    result_of_error,
    show_call,
    show_result,
)
from raykeeper.zab.ids import Millis, Zxid
from raykeeper.znodes.errors import BadVersionError, Code, ConnectionLossError
from raykeeper.znodes.replies import EventType
from raykeeper.znodes.requests import CloseSession, Create, Delete, SessionId, SetData
from raykeeper.znodes.stat import Stat

STAT = Stat(Zxid(1), Zxid(2), Millis(3), Millis(4), 5, 6, 7, 8, 9, 10, Zxid(11))
RECORDS: list[Record] = [
    SessionBegan("a", 1, 5),
    Called("a", 1, 1, 10, Create("/x", b"\x00\xff", 1)),
    SessionBegan("a", 1, 15, SessionId(77)),
    Returned("a", 1, 1, 20, Ok(path="/x")),
    Called("a", 1, 2, 30, SetData("/x", b"v", -1)),
    Called("a", 1, 3, 31, Delete("/x", 4)),
    Called("a", 1, 4, 32, Read("/x", ReadKind.GET, is_synced=True)),
    Called("a", 1, 5, 33, Read("/", ReadKind.CHILDREN, is_watched=True)),
    Returned("a", 1, 2, 40, Unknown(Code.OPERATION_TIMEOUT)),
    Returned("a", 1, 3, 41, Refused(Code.BAD_VERSION)),
    Returned("a", 1, 4, 42, Ok(Zxid(9), value=b"v", stat=STAT)),
    Fired("a", 1, 43, EventType.CHANGED, "/x", Zxid(12)),
    Called("a", 1, 6, 50, CloseSession()),
    SessionEnded("a", 1, 60, 70),
]


def test_replies_belong_to_their_requests() -> None:
    other = [SessionBegan("b", 1, 1), Called("b", 1, 1, 2, Read("/x", ReadKind.EXISTS))]
    history = History([*RECORDS, *other])
    session = history.sessions["a", 1]
    assert session.session_id == 77
    assert session.ended == RECORDS[-1]
    assert session.fired == [RECORDS[11]]
    assert [(o.returned, o.result) for o in session.operations] == [
        (20, Ok(path="/x")),
        (None, None),  # the client gave up: it may still happen
        (41, Refused(Code.BAD_VERSION)),
        (42, Ok(Zxid(9), value=b"v", stat=STAT)),
        (None, None),  # never answered
        (None, None),
    ]
    assert len(list(history.operations)) == 7


def test_a_transaction_counts_as_its_calls() -> None:
    calls = [Create("/x", b"v", 0), Delete("/y", -1), Read("/z", ReadKind.GET)]
    results = [Ok(path="/x"), Ok(), Ok(value=b"u")]
    history = History(
        [
            Called("a", 1, 1, 10, MultiCall(calls)),
            Returned("a", 1, 1, 20, Ok(parts=results)),
            Called("a", 1, 2, 30, MultiCall([Delete("/refused", -1)])),
            Returned("a", 1, 2, 40, Refused(Code.NO_NODE)),
            Called("a", 1, 3, 50, Delete("/unknown", -1)),
            Called("a", 1, 4, 60, Delete("/missing", -1)),
            Returned("a", 1, 4, 70, Refused(Code.NO_NODE)),
        ]
    )
    parts = list(history.parts)
    assert [(part.call, part.result) for part in parts[:3]] == list(
        zip(calls, results, strict=True)
    )
    assert {(part.called, part.returned) for part in parts[:3]} == {(10, 20)}
    assert [part.call for part in parts[3:]] == [Delete("/unknown", -1), Delete("/missing", -1)]
    assert history.deleted_paths() == {"/y", "/unknown"}


@pytest.mark.parametrize(
    ("before", "record"),
    [
        # Requests are numbered without gaps.
        ([], Called("a", 1, 2, 10, CloseSession())),
        ([Called("a", 1, 1, 10, CloseSession())], Called("a", 1, 1, 10, CloseSession())),
        # An answer has its request, comes after it, and comes once.
        ([], Returned("a", 1, 1, 10, Ok())),
        ([], Returned("a", 1, 0, 10, Ok())),
        ([Called("a", 1, 1, 10, CloseSession())], Returned("a", 1, 1, 9, Ok())),
        (
            [Called("a", 1, 1, 10, CloseSession()), Returned("a", 1, 1, 11, Ok())],
            Returned("a", 1, 1, 12, Ok()),
        ),
    ],
)
def test_a_contradiction_is_reported(before: list[Record], record: Record) -> None:
    history = History(before)
    with pytest.raises(HistoryError):
        history.add(record)
    assert list(history.operations) == list(History(before).operations)


def test_an_error_says_whether_the_request_may_have_an_effect() -> None:
    assert result_of_error(BadVersionError("/x")) == Refused(Code.BAD_VERSION)
    assert result_of_error(ConnectionLossError("/x")) == Refused(Code.CONNECTION_LOSS)
    lost = ConnectionLossError("/x", definite=False)
    assert result_of_error(lost) == Unknown(Code.CONNECTION_LOSS)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (Create("/x", b"v", 0), "create /x 'v'"),
        (Create("/x-", b"v" * 41, 3), f"create ephemeral sequential /x- '{'v' * 40}...'"),
        (SetData("/x", b"", -1), "set /x '' at version -1"),
        (Delete("/x", 3), "delete /x at version 3"),
        (Read("/x", ReadKind.GET), "get /x"),
        (Read("/x", ReadKind.EXISTS, is_synced=True), "synced exists /x"),
        (CloseSession(), "close"),
    ],
)
def test_calls_are_shown(call: Call, shown: str) -> None:
    assert show_call(call) == shown


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (Ok(), "ok"),
        (Ok(path="/x"), "ok /x"),
        (Ok(value=b"v", stat=STAT), "ok 'v' version 5 owner 0x8"),
        (Ok(children=["b", "a"]), "ok children ['a', 'b']"),
        (Refused(Code.NO_NODE), "NO_NODE"),
        (Refused(-4711), "-4711"),
        (Unknown(Code.CONNECTION_LOSS), "unknown (CONNECTION_LOSS)"),
    ],
)
def test_results_are_shown(result: Result, shown: str) -> None:
    assert show_result(result) == shown


def test_an_operation_shows_its_span_its_client_and_its_outcome() -> None:
    first, second = list(History(RECORDS).operations)[:2]
    assert str(first) == "[10, 20] a.1 #1 create ephemeral /x '\\x00\\xff' -> ok /x"
    assert str(second) == "[30, ?] a.1 #2 set /x 'v' at version -1 -> unknown (OPERATION_TIMEOUT)"
