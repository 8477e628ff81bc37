"""SessionTable: what is opened, moved, recorded and forgotten; a replay changes nothing."""

import pytest

from raykeeper.zab.ids import Millis, ServerId, Zxid
from raykeeper.znodes.limits import REPLY_CACHE_MAX
from raykeeper.znodes.requests import SessionId
from raykeeper.znodes.sessions import Session, SessionTable, record_of, session_of
from raykeeper.znodes.txns import CreateSessionTxn, SuspectSessionTxn, WriteOutcome

S1, S2 = SessionId(1), SessionId(2)
P1, P2 = b"1" * 16, b"2" * 16


def opening(
    session_id: SessionId, password: bytes, timeout_ms: int = 5_000, attempt: int = 1
) -> CreateSessionTxn:
    return CreateSessionTxn(session_id, password, Millis(timeout_ms), ServerId(1), 1, attempt)


def outcome(zxid: int) -> WriteOutcome:
    return WriteOutcome(Zxid(zxid), 0, "", None)


def table(*openings: CreateSessionTxn) -> SessionTable:
    sessions = SessionTable()
    for change in openings:
        sessions.open(Zxid(change.session_id), change)
    return sessions


def session_in(sessions: SessionTable, session_id: SessionId = S1) -> Session:
    session = sessions.get(session_id)
    assert session is not None
    return session


def write(sessions: SessionTable, number: int, acked: int = 0) -> None:
    sessions.record(session_in(sessions), number, acked, outcome(number + 100))


def rebuilt(sessions: SessionTable) -> SessionTable:
    """As a snapshot would bring it back."""
    again = SessionTable()
    for session in sessions.by_id.values():
        again.add(session_of(record_of(session)))
    return again


def test_a_session_is_opened_and_moved() -> None:
    sessions = table(opening(S1, P1))
    session = session_in(sessions)
    assert (session.owner_zxid, session.timeout_ms, session.last_number) == (1, 5_000, 0)
    assert sessions.with_password(P1) == S1
    sessions.open(Zxid(9), opening(S1, P1, 7_000, attempt=4))
    assert (session.owner_zxid, session.timeout_ms, session.attempt) == (9, 7_000, 4)
    # Replaying the opening does not give the session back to its first connection.
    sessions.open(Zxid(1), opening(S1, P1))
    assert (session.owner_zxid, session.timeout_ms, session.attempt) == (9, 7_000, 4)
    again = session_in(rebuilt(sessions))
    assert (again.owner_zxid, again.attempt) == (9, 4)


def test_a_session_is_suspected_until_it_is_heard_or_moves() -> None:
    sessions = table(opening(S1, P1))
    session, unsuspected = session_in(sessions), sessions.digest()
    for zxid, is_suspected in ((2, True), (3, False), (4, True)):
        sessions.suspect(Zxid(zxid), SuspectSessionTxn(S1, is_suspected))
        assert session.is_suspected is is_suspected
        assert session_in(rebuilt(sessions)).is_suspected is is_suspected
        assert (sessions.digest() != unsuspected) is is_suspected
    sessions.open(Zxid(9), opening(S1, P1))
    assert not session.is_suspected
    # Replayed behind a snapshot of later: it has moved, or has ended.
    sessions.suspect(Zxid(4), SuspectSessionTxn(S1, True))
    sessions.suspect(Zxid(4), SuspectSessionTxn(S2, True))
    assert not session.is_suspected


def test_a_session_is_taken_over() -> None:
    sessions = table(opening(S1, P1))
    sessions.open(Zxid(9), opening(S1, P2))
    assert (sessions.with_password(P1), sessions.with_password(P2)) == (None, S1)
    sessions.open(Zxid(1), opening(S1, P1))  # a replay
    assert session_in(sessions).password == session_in(rebuilt(sessions)).password == P2
    # What a replay opens again may have had the password before; it is closed again first.
    sessions.open(Zxid(2), opening(S2, P2))
    sessions.close(S2)
    sessions.close(S1)
    assert sessions.with_password(P2) is None


def test_a_closed_session_leaves_no_password_outcome_or_digest() -> None:
    empty = SessionTable().digest()
    sessions = table(opening(S1, P1))
    write(sessions, 1)
    assert sessions.digest() != empty
    sessions.close(S1)
    sessions.close(S1)
    assert sessions.get(S1) is None
    assert sessions.with_password(P1) is None
    assert sessions.digest() == empty


def test_a_session_that_was_never_hashed_leaves_no_trace() -> None:
    sessions = table(opening(S1, P1))
    sessions.close(S1)
    assert sessions.digest() == SessionTable().digest()


def test_replaying_an_older_session_does_not_steal_the_password() -> None:
    """A closed session's password may be used again; the walk saw only the later session."""
    sessions = table(opening(S2, P1))
    sessions.open(Zxid(1), opening(S1, P1))
    assert sessions.with_password(P1) == S2
    sessions.close(S1)
    assert sessions.with_password(P1) == S2


@pytest.mark.parametrize(
    ("writes", "held", "last", "acked"),
    [
        ([(1, 0), (2, 0)], [1, 2], 2, 0),
        # What the client has is forgotten, and is not learnt anew from an older write.
        ([(1, 0), (2, 1), (3, 1)], [2, 3], 3, 1),
        ([(1, 0), (2, 0), (3, 2), (4, 1)], [3, 4], 4, 2),
        # Twice is once.
        ([(1, 0), (1, 0), (2, 1), (1, 0), (2, 1)], [2], 2, 1),
        ([(n, 0) for n in range(1, REPLY_CACHE_MAX + 3)],
         list(range(3, REPLY_CACHE_MAX + 3)), REPLY_CACHE_MAX + 2, 0),
        ([(n, 0) for n in range(1, REPLY_CACHE_MAX + 2)] + [(REPLY_CACHE_MAX + 2, 9)],
         list(range(10, REPLY_CACHE_MAX + 3)), REPLY_CACHE_MAX + 2, 9),
    ],
)  # fmt: skip
def test_outcomes_are_recorded_and_forgotten(
    writes: list[tuple[int, int]], held: list[int], last: int, acked: int
) -> None:
    sessions = table(opening(S1, P1))
    for number, told in writes:
        write(sessions, number, told)
    session = session_in(sessions)
    assert list(session.reply_cache) == held
    assert session.reply_cache[last] == outcome(last + 100)
    assert (session.last_number, session.acked) == (last, acked)
    assert rebuilt(sessions).digest() == sessions.digest()


@pytest.mark.parametrize(
    "different",
    [
        table(opening(S2, P1)),
        table(opening(S1, P2)),
        table(opening(S1, P1, 5_001)),
        table(opening(S1, P1), opening(S2, P2)),
    ],
)
def test_the_digest_distinguishes_sessions(different: SessionTable) -> None:
    assert different.digest() != table(opening(S1, P1)).digest()


def test_the_digest_covers_outcomes_owner_and_acks_and_is_not_stale() -> None:
    sessions = table(opening(S1, P1))
    seen = {sessions.digest()}
    write(sessions, 1)
    seen.add(sessions.digest())
    write(sessions, 2)
    seen.add(sessions.digest())
    write(sessions, 3, acked=1)
    seen.add(sessions.digest())
    sessions.open(Zxid(9), opening(S1, P1))
    seen.add(sessions.digest())
    session_in(sessions).reply_cache[3] = outcome(4)
    assert rebuilt(sessions).digest() not in seen
    assert len(seen) == 5


def test_the_digest_does_not_depend_on_the_order_of_sessions() -> None:
    there, back = [opening(S1, P1), opening(S2, P2)], [opening(S2, P2), opening(S1, P1)]
    assert table(*there).digest() == table(*back).digest()
