"""Sessions: which may write, when one ends, and that each write is done once.

DESIGN section 7, "Exactly once" and "When a client must let go".
"""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from raykeeper.client.core.public_types import ClientId
from raykeeper.zab.ids import ServerId, Zxid, format_zxid
from raykeeper.znodes.errors import Code, KeeperError, SessionMovedError, error_for
from raykeeper.znodes.requests import SessionId, WriteOp
from raykeeper.znodes.txns import (
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    ErrorTxn,
    MultiErrorTxn,
    MultiTxn,
    ReconfigTxn,
    Txn,
)
from tests.simulation.checks import multi_execution
from tests.simulation.checks.session_view import SessionView, Told
from tests.simulation.checks.truth import CONFIG, TrueSession, Truth

LOSSES_MAX: Final = 8
"""How often a client may lose a server that served it after the faults."""


def expired_sessions_do_nothing(session: TrueSession | None, txn: Txn) -> None:
    """Check that a session writes only between its opening and its end."""
    assert session is not None, f"ExpiredSessions: a write of no session, {txn}"
    assert session.closed_at is None, f"ExpiredSessions: a write after the end, {txn}"


def exactly_once(session: TrueSession, txn: Txn, seen: SessionView) -> WriteOp:
    """Check that each write of a session is done once, in the order in which it was sent."""
    number = txn.number
    assert number == session.last_number + 1, (
        f"ExactlyOnce: write {number} of {seen} after {session.last_number}"
    )
    assert number <= len(seen.writes), f"ExactlyOnce: {seen} never sent write {number}"
    assert number not in seen.denied, (
        f"ExactlyOnce: write {number} of {seen} was said to have no effect"
    )
    return seen.writes[number - 1]


def sessions_open_once(
    truth: Truth, zxid: Zxid, change: CreateSessionTxn, takes: ClientId | None = None
) -> None:
    """Check that an id is its opening's zxid; a move needs a living session and its password.

    A client that takes a session over knows its former password, and sets its own. `takes` is
    the answer that this client got.
    """
    session = truth.sessions.get(change.session_id)
    if session is None:
        assert change.session_id == zxid, f"SessionsOpen: {format_zxid(zxid)} opens {change}"
        return
    assert session.closed_at is None, f"SessionsOpen: {change} was closed"
    assert session.password == change.password or takes == (
        change.session_id,
        session.password,
    ), f"SessionsOpen: {change} has another password"


def ends_once_and_with_a_reason(
    truth: Truth, txn: Txn, change: CloseSessionTxn, seen: SessionView, *, is_known: bool
) -> None:
    """Check that a session ends once: at its client's request, or after that client has let go.

    The true time of the first delivery counts. A frozen client cannot say that it has let go, nor
    act on what it held. `is_known`: the client was told of the session.
    """
    session = truth.sessions.get(change.session_id)
    assert session is not None and session.closed_at is None, f"SessionEnds: twice, {change}"
    if txn.number:
        assert txn.session_id == change.session_id, f"SessionEnds: another's, {txn}"
        assert seen.has_closed, f"SessionEnds: {seen} did not ask for it"
        return
    only_who_has_let_go_expires(seen, is_known=is_known)


def only_who_has_let_go_expires(seen: SessionView, *, is_known: bool) -> None:
    """Whoever still counts on its session, by true time, does not lose it, nor is doomed to."""
    assert not is_known or seen.is_over or seen.client.has_let_go, (
        f"LetGo: session of {seen} expired before its client let go"
    )


def only_the_dead_depart(seen: SessionView) -> None:
    """A session ends before its time only if the process is dead that has it at present."""
    assert seen.is_dead, f"NeverOnDoubt: the session of {seen} ends early, and its process lives"


def owns_only_for_itself(txn: Txn, change: CreateTxn) -> None:
    """An ephemeral belongs to the session that made it."""
    assert change.ephemeral_owner in (0, txn.session_id), (
        f"Ephemerals: made for another session, {txn}"
    )


def only_the_end_of_a_session_fails_requests(seen: SessionView, error: KeeperError) -> None:
    """Within the life of a session no lost connection reaches its user."""
    assert seen.is_over, f"ExactlyOnce: {seen} is told of {error!r}, and its session is alive"


def a_closed_handle_has_not_expired(seen: SessionView, cause: KeeperError | None) -> None:
    """Who closes a handle is not told that it was lost, also when the close had to be repeated.

    Only that the session was another's by then.
    """
    is_anothers = seen.fenced_after is not None and isinstance(cause, SessionMovedError)
    assert cause is None or not seen.has_closed or is_anothers, (
        f"ExactlyOnce: {seen} was closed, and {cause!r}"
    )


def written_on_the_present_connection(seen: SessionView, place: "Place", shown: Zxid) -> None:
    """A session that has moved writes only on its new connection, once its client knows of it."""
    assert shown >= place.since, (
        f"Fenced: {seen} knows {format_zxid(shown)}, "
        f"and writes as from {format_zxid(place.since)} on"
    )


def is_fenced(place: "Place", connections: Collection[int]) -> None:
    """A server that knows that a session has moved has closed the connection before."""
    assert place.connection not in connections, f"Fenced: {place} is open"


def the_newest_connection_keeps_its_session(who: object, reason: str) -> None:
    """A client has one connection at a time, so its session is on the newest one or on none."""
    assert reason != str(error_for(Code.SESSION_MOVED)), (
        f"SessionsMove: {who} is told on its newest connection that its session is elsewhere"
    )


def reconnects_come_to_an_end(who: object, losses: int, elections: int) -> None:
    """Once the faults are over a client that is served stays where it is.

    It may learn late of a link that broke before, or leave a server that fell silent or that begins
    anew; in some thousand seeds that was three times at most. Each of the `elections` that a full
    counter brings about meanwhile can cost it its server twice: without a leader, and from the
    one that serves it read-only to the next that does not.
    """
    most = LOSSES_MAX + 2 * elections
    assert losses <= most, f"StaysConnected: {who} lost its server {losses} times in quiet"


def every_session_ends(truth: Truth, living: Collection[SessionId]) -> bool:
    """Whether the sessions of all clients that are gone have ended."""
    return all(
        session.closed_at is not None or session_id in living
        for session_id, session in truth.sessions.items()
    )


class Place(Struct, frozen=True):
    """Where a session is: on which connection of which server, since which transaction."""

    server_id: ServerId
    connection: int
    since: Zxid


def outcome(truth: Truth, zxid: Zxid, txn: Txn) -> Told:
    """What the client must be told of a write that has just been made so."""
    change = txn.body
    is_refused = isinstance(change, ErrorTxn | MultiErrorTxn)
    path = None if is_refused else getattr(change, "path", None)
    was = truth.at(path, zxid) if path is not None else None
    made = path if isinstance(change, CreateTxn) else getattr(change, "detail", "")
    if isinstance(change, ReconfigTxn):
        was = truth.at(CONFIG, zxid)
        made = ((was and was.value) or b"").decode()
    results = multi_execution.told(change) if isinstance(change, MultiTxn | MultiErrorTxn) else None
    stat = was.stat if was else None
    return Told(zxid, getattr(change, "code", 0), made or "", stat, results)


def expired_sessions_are_not_answered(truth: Truth, seen: SessionView) -> None:
    """A client whose session has expired has let go and takes no answer any more.

    `truth` also has sessions whose clients never heard of them, because the link broke before the
    answer to Connect. Such a handle was never CONNECTED, so its user holds nothing by the session
    and has nothing to let go of when it ends. Its Connect names no session, and a server without
    a leader serves it like any reader: GUARANTEES.md, "A client that allows it can read without a
    quorum". A handle that was CONNECTED once stays under the check, also while it is read-only: "A
    session that was open before is considered lost in time all the same".
    """
    if seen.speaks_jute:
        _nothing_was_sent_after_the_end(truth, seen)
        return
    assert not seen.client.has_let_go, f"LetGo: {seen} is answered after it must have let go"
    if seen.is_read_only and not seen.was_connected:
        return
    session = truth.sessions.get(seen.session_id)
    assert session is not None, f"LetGo: {seen} is answered without a session"
    # Who had it taken away may not know yet; whoever took it may have closed it.
    is_anothers = seen.fenced_after is not None
    assert session.closed_at is None or seen.has_closed or is_anothers, (
        f"LetGo: {seen} is answered after its end in {format_zxid(session.closed_at)}"
    )


def _nothing_was_sent_after_the_end(truth: Truth, seen: SessionView) -> None:
    """Check that a server that answers a client of ZooKeeper's protocol may still count on it.

    Such a client lets nothing go by its own clock; what was sent before the end may arrive later.
    """
    session = truth.sessions.get(seen.session_id)
    if seen.is_read_only or seen.has_closed or seen.fenced_after is not None:
        return
    assert session is not None, f"LetGo: {seen} is answered without a session"
    is_late = seen.ended_at is not None and seen.client.heard_sent_at * 1_000 > seen.ended_at
    assert session.closed_at is None or not is_late, (
        f"LetGo: {seen} was sent an answer after its end in {format_zxid(session.closed_at)}"
    )


def one_session_for_a_client(
    truth: Truth, seen: SessionView | None, change: CreateSessionTxn
) -> SessionView:
    """A session is opened for a client that asked, and while it lives the client gets no other.

    A client that never heard of its session, or is gone, may have asked on another connection too;
    what it asked there may still be done when another client has taken its session over.
    """
    assert seen is not None, f"SessionsOpen: nobody asked for {change}"
    session = truth.sessions.get(seen.session_id)
    is_over = session is None or session.closed_at is not None or seen.fenced_after is not None
    assert is_over or seen.session_id == change.session_id, (
        f"SessionsOpen: {seen} has {format_zxid(Zxid(seen.session_id))}, and {change}"
    )
    return seen


def is_its_session(truth: Truth, seen: SessionView, known: SessionId) -> bool:
    """Whether the session that a client has is the one it was told of, or did something in."""
    session = truth.sessions.get(seen.session_id)
    return session is not None and (
        known == seen.session_id or seen.is_answered or session.last_number > 0
    )
